# SPDX-License-Identifier: Apache-2.0
"""Files, under the path that PyFlink has for them."""

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.engine.graph.files import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)

__all__ = [
    "BucketAssigner",
    "FileSink",
    "FileSource",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]

__getattr__ = of_pyflink(__name__)
