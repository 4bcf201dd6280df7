# SPDX-License-Identifier: Apache-2.0
"""Sources and sinks, under the names of `pyflink.datastream.connectors`."""

from pyflinklike._exports import export_public
from pyflinklike.pyflink._graph.files import (
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
from pyflinklike.pyflink._graph.sinks import DeliveryGuarantee, Sink
from pyflinklike.pyflink._graph.sources import (
    DataGeneratorSource,
    HybridSource,
    HybridSourceBuilder,
    NumberSequenceSource,
    RateLimiterStrategy,
    Source,
)
from pyflinklike.pyflink._names import of_pyflink

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "BulkWriterFactory",
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "FileFormat",
    "FileSink",
    "FileSource",
    "HybridSource",
    "HybridSourceBuilder",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RateLimiterStrategy",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
]

__getattr__ = of_pyflink(__name__)

export_public(globals())
