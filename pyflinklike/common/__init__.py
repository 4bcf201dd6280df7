# SPDX-License-Identifier: Apache-2.0
"""What jobs of the DataStream API share, under the names of `pyflink.common`.

`Row` and `Types` are not those of `pyflinklike`: fields of this `Row` can be assigned.
"""

from pyflinklike.common.configuration import Configuration
from pyflinklike.common.data_types import DataTypes
from pyflinklike.common.execution_config import ExecutionConfig
from pyflinklike.common.jobs import CompletableFuture, JobClient, JobExecutionResult, JobID
from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.common.types import Row, RowKind, Types, restore_row
from pyflinklike.engine.clock import Duration, Time
from pyflinklike.engine.doors import pin
from pyflinklike.engine.graph.files import Encoder
from pyflinklike.engine.graph.job_run import JobStatus
from pyflinklike.engine.graph.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from pyflinklike.engine.graph.watermarks import TimestampAssigner, WatermarkStrategy
from pyflinklike.engine.types import Instant, TypeInformation

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

pin(globals(), restore_row)
