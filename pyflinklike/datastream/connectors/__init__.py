# SPDX-License-Identifier: Apache-2.0
"""Sources and sinks, under the names of `pyflink.datastream.connectors`."""

from pyflinklike.doors import pin
from pyflinklike.graph.file_layout import BucketAssigner, OutputFileConfig, RollingPolicy
from pyflinklike.graph.file_sink import FileSink
from pyflinklike.graph.file_source import FileSource, StreamFormat
from pyflinklike.graph.sinks import DeliveryGuarantee, Sink
from pyflinklike.graph.sources import NumberSequenceSource, Source

__all__ = [
    "BucketAssigner",
    "DeliveryGuarantee",
    "FileSink",
    "FileSource",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
]

pin(globals())
