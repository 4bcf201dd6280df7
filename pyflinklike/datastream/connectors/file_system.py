# SPDX-License-Identifier: Apache-2.0
"""Files, under the path that PyFlink has for them."""

from pyflinklike.graph.file_sink import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy
from pyflinklike.graph.file_source import FileSource, StreamFormat

__all__ = [
    "BucketAssigner",
    "FileSink",
    "FileSource",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]
