# SPDX-License-Identifier: Apache-2.0
"""Reads a checkpoint through Spark's data sources for state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow

from pyflinklike.errors import HostError
from pyflinklike.spark.hosts.choice import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark.hosts.log_storage import LOG_VARIABLE
from pyflinklike.spark.wire.names import KEY_GROUP

__all__ = [
    "change_feed",
    "is_ours",
    "last_batch",
    "operators_of",
    "read_blobs",
    "refusing",
    "registered_timers",
    "stored",
]

_REFUSALS: tuple[type[Exception], ...] = (PySparkException,)
try:
    from py4j.protocol import Py4JError
except ImportError:
    pass  # the client of Spark Connect comes without py4j, and needs none
else:
    _REFUSALS += (Py4JError,)  # of a Java exception that PySpark has no class for
_LONGEST = 1_000
_SAID = re.compile(r": |Caused by: |(?:\w+\.)*\w*(?:Error|Exception): ")


def last_batch(spark: SparkSession, location: str, operator_id: int, where: str) -> int:
    """The last micro-batch that was committed.

    Args:
        spark: Any session that reaches the checkpoint.
        location: Of the checkpoint.
        operator_id: Of an operator that `process` made.
        where: Both, for messages.

    Raises:
        HostError: No batch is committed, or `process` did not make the operator; or this is
            PySpark 3.5.
    """
    rows = operators_of(spark, location, where)
    operator = next((row for row in rows if row["operatorId"] == operator_id), None)
    if operator is None:
        msg = (
            f"{where}: a savepoint is read from a stateful operator of a query that has run, got "
            "none there; give the checkpointLocation of the query, look into Spark's "
            "state-metadata for the operator's id, and if the query is new wait for its first batch"
        )
        raise HostError(msg)
    _check_ours(operator, where)
    last: int = operator["maxBatchId"]
    if last < 0:
        msg = (
            f"{where}: a savepoint is of a micro-batch that was committed, and none is committed "
            "yet; wait for the query's first batch"
        )
        raise HostError(msg)
    return last


def operators_of(spark: SparkSession, location: str, where: str) -> list[SparkRow]:
    """The stateful operators of a checkpoint, by their numbers: rows of Spark's `state-metadata`.

    Raises:
        HostError: Spark cannot read it, or this is PySpark 3.5.
    """
    _check_reads_state(where)
    with refusing(where):
        rows = spark.read.format("state-metadata").load(location).collect()
    return sorted(rows, key=lambda row: row["operatorId"])


def is_ours(operator: SparkRow) -> bool:
    """Whether `process` made an operator."""
    return f'"{LOG_VARIABLE}"' in (operator["operatorProperties"] or "")


@contextmanager
def refusing(where: str) -> Iterator[None]:
    """Within it, what Spark refuses is a `HostError` that says of what.

    Args:
        where: What is read, for messages.

    Raises:
        HostError: Spark refused.
    """
    try:
        yield
    except _REFUSALS as error:
        raise _unreadable(where, error) from error


def stored(
    spark: SparkSession, location: str, operator_id: int, batch_id: int, where: str
) -> DataFrame:
    """All that an operator has stored, lazily: `__key_group`, `sequence`, `blob`.

    Raises:
        HostError: Spark cannot read it.
    """
    reader = spark.read.format("statestore").option("stateVarName", LOG_VARIABLE)
    reader = reader.option("operatorId", operator_id).option("batchId", batch_id)
    with refusing(where):
        return reader.load(location).select(
            f"key.{KEY_GROUP}", "user_map_key.sequence", "user_map_value.blob"
        )


def registered_timers(
    spark: SparkSession, location: str, operator_id: int, batch_id: int, where: str
) -> DataFrame:
    """When Spark calls grouping keys that have no records, lazily: `__key_group`, `time` in ms.

    Raises:
        HostError: Spark cannot read it, or the operator has no time mode.
    """
    reader = spark.read.format("statestore").option("readRegisteredTimers", value=True)
    reader = reader.option("operatorId", operator_id).option("batchId", batch_id)
    with refusing(where):
        frame = reader.load(location)
        return frame.selectExpr(f"key.{KEY_GROUP}", "expiration_timestamp_ms as time")


def change_feed(
    spark: SparkSession, location: str, operator_id: int, first: int, last: int, where: str
) -> DataFrame:
    """What an operator wrote from one batch to another, lazily and in order.

    Returns:
        `batch_id`, `change_type` ("update" or "delete"), `__key_group`, `sequence`, `blob`.

    Raises:
        HostError: Spark cannot read it.
    """
    reader = spark.read.format("statestore").option("stateVarName", LOG_VARIABLE)
    reader = reader.option("operatorId", operator_id).option("readChangeFeed", value=True)
    reader = reader.option("changeStartBatchId", first).option("changeEndBatchId", last)
    with refusing(where):
        return reader.load(location).select(
            "batch_id",
            "change_type",
            f"key.{KEY_GROUP}",
            "user_map_key.sequence",
            "user_map_value.blob",
        )


def _check_reads_state(where: str) -> None:
    if not HAS_TRANSFORM_WITH_STATE:
        msg = (
            f"{where}: Spark 3.5 cannot read the state of a checkpoint, got PySpark {__version__}; "
            "run the stream on PySpark 4.0 or newer, whose checkpoints can be read"
        )
        raise HostError(msg)


def _check_ours(operator: SparkRow, where: str) -> None:
    if not is_ours(operator):
        msg = (
            f"{where}: the operator must be one that process() made, got {operator['operatorName']}"
            "; look into Spark's state-metadata for its id"
        )
        raise HostError(msg)


def read_blobs(
    spark: SparkSession, location: str, operator_id: int, batch_id: int, where: str
) -> dict[int, dict[int, bytes]]:
    """All that an operator has stored: by grouping key, then by sequence number.

    Args:
        spark: Any session that reaches the checkpoint.
        location: Of the checkpoint.
        operator_id: Of an operator that `process` made.
        batch_id: The micro-batch after which it is read.
        where: All these, for messages.

    Raises:
        HostError: Spark cannot read it.
    """
    with refusing(where):
        rows: list[dict[str, Any]] = (
            stored(spark, location, operator_id, batch_id, where).toArrow().to_pylist()
        )
    blobs: dict[int, dict[int, bytes]] = {}
    for row in rows:
        blobs.setdefault(row[KEY_GROUP], {})[row["sequence"]] = row["blob"]
    return blobs


def _unreadable(where: str, error: Exception) -> HostError:
    # Only the messages of Java's stack trace, and of Python's.
    lines = str(error).strip().splitlines()
    said = [line for line in lines[1:] if _SAID.match(line)]
    reason = " ".join([lines[0] if lines else repr(error), *said])
    return HostError(
        f"{where}: Spark must be able to read its state, got {_shortened(reason)}; give the "
        "checkpointLocation of the query and a batch that it retains"
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
