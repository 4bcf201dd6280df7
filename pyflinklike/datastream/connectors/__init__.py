# SPDX-License-Identifier: Apache-2.0
"""Sources and sinks, under the names of `pyflink.datastream.connectors`."""

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.engine.doors import pin
from pyflinklike.engine.graph.files import (
    BucketAssigner,
    BulkFormat,
    BulkWriterFactory,
    FileFormat,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from pyflinklike.engine.graph.sinks import DeliveryGuarantee, Sink
from pyflinklike.engine.graph.sources import NumberSequenceSource, Source

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "BulkWriterFactory",
    "DeliveryGuarantee",
    "FileFormat",
    "FileSink",
    "FileSource",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
]

__getattr__ = of_pyflink(__name__)

pin(globals())
