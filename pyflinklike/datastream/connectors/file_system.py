# SPDX-License-Identifier: Apache-2.0
"""Files, under the path that PyFlink has for them."""

from pyflinklike.graph.file_layout import BucketAssigner, OutputFileConfig, RollingPolicy
from pyflinklike.graph.file_sink import FileSink
from pyflinklike.graph.file_source import FileSource, StreamFormat

__all__ = [
    "BucketAssigner",
    "FileSink",
    "FileSource",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]
