# SPDX-License-Identifier: Apache-2.0
"""Files, under the path that PyFlink has for them."""

from pyflinklike.common.missing_names import refuse_names
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

_BULK = "Spark reads and writes such files: spark.read and env.from_data_frame, to_data_frame and DataFrame.write"
_SPLITS = "a file is read by one task, and Spark says which; leave it out"
_COMPACT = "small files are not put together here: set_parallelism, or put them together with Spark"

__getattr__ = refuse_names(
    __name__,
    {
        "BulkFormat": _BULK,
        "FileEnumeratorProvider": _SPLITS,
        "FileSplitAssignerProvider": _SPLITS,
        "FileCompactStrategy": _COMPACT,
        "FileCompactor": _COMPACT,
        "StreamingFileSink": "PyFlink itself calls it deprecated: use FileSink and sink_to",
    },
)
