# SPDX-License-Identifier: Apache-2.0
"""Types, settings and results of jobs, under the names of `pyflink.common`.

`Row` and `Types` differ from `pyflinklike.Row` and `pyflinklike.Types`: a job can assign fields of its rows.
"""

from pyflinklike._clock import Duration, Time
from pyflinklike._exports import export_public
from pyflinklike.pyflink._graph.job_run import JobStatus
from pyflinklike.pyflink._graph.watermarks import TimestampAssigner, WatermarkStrategy
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.configuration import Configuration
from pyflinklike.pyflink.common.data_types import DataTypes
from pyflinklike.pyflink.common.execution_config import ExecutionConfig
from pyflinklike.pyflink.common.jobs import *
from pyflinklike.pyflink.common.serialization import *
from pyflinklike.pyflink.common.types import *
from pyflinklike.types import Instant, TypeInformation

__all__ = [
    "ByteArraySchema",
    "CompletableFuture",
    "Configuration",
    "DataTypes",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]

__getattr__ = of_pyflink(__name__)

export_public(globals(), restore_row)
