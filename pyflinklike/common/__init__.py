# SPDX-License-Identifier: Apache-2.0
"""What jobs of the DataStream API share, under the names of `pyflink.common`.

`Row` and `Types` are not those of `pyflinklike`: fields of this `Row` can be assigned.
"""

from importlib import import_module
from typing import Any

from pyflinklike.common.configuration import Configuration
from pyflinklike.common.execution_config import ExecutionConfig
from pyflinklike.common.jobs import CompletableFuture, JobClient, JobExecutionResult, JobID
from pyflinklike.common.missing_names import refuse_names
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

_AVRO = "use fastavro in a SerializationSchema or DeserializationSchema of your own"
_FORMATS = {
    "JsonRowSerializationSchema": "json",
    "JsonRowDeserializationSchema": "json",
    "CsvRowSerializationSchema": "csv",
    "CsvRowDeserializationSchema": "csv",
}
"""Names of `datastream.formats`, which is above this room: imported when they are asked for, as in PyFlink."""

_refuse = refuse_names(
    __name__,
    {
        "AvroRowSerializationSchema": _AVRO,
        "AvroRowDeserializationSchema": _AVRO,
        "RestartStrategies": "Spark tries tasks again by itself; see spark.task.maxFailures",
        "ConfigOptions": "give keys as text, Configuration().set_string(key, value)",
        "ConfigOption": "give keys as text, Configuration().set_string(key, value)",
        "TypeSerializer": "types here write themselves",
        "InputDependencyConstraint": "Flink itself has not had it since 1.12",
    },
)


def __getattr__(name: str) -> Any:
    """Return a format, or raise the reason why there is no such name."""
    if name in _FORMATS:
        return getattr(import_module(f"pyflinklike.datastream.formats.{_FORMATS[name]}"), name)
    return _refuse(name)


pin(globals(), restore_row)
