# SPDX-License-Identifier: Apache-2.0
"""The access to checkpoints through Spark's data sources for state.

An operator has Spark's number, from 0.  If operators of a job share a state operator of Spark, the
first one has its number, and each further operator has 1,000 more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.errors import HostError
from pyflinklike.spark.hosts.choice import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark.hosts.log_storage import LOG_VARIABLE, log_variable
from pyflinklike.spark.wire.names import KEY_GROUP
from pyflinklike.spark.wire.places import roll_call_of
from pyflinklike.spark.wire.roll_call import ROLL_CALL

__all__ = [
    "change_feed",
    "is_ours",
    "last_batch",
    "operators_of",
    "place_in",
    "read_blobs",
    "refusing",
    "registered_timers",
    "stored",
]

_REFUSALS: tuple[type[Exception], ...] = (PySparkException,)
try:
    from py4j.protocol import Py4JError
except ImportError:
    pass  # the client of Spark Connect comes without py4j and needs none
else:
    _REFUSALS += (Py4JError,)  # PySpark has no class for some of Java's exceptions
_LONGEST = 1_000
_PLACE = 1_000
"""The distance between the numbers of two neighbours that share a state operator."""
_FURTHER = re.compile(rf'"{log_variable(1)[:-1]}(\d+)"')
_MOVED = re.compile(r"(?:file:)?(/\S+|\w+://\S+)/state/\d+/_stateSchema/\S+ does not exist")
"""Matches the missing file that Spark has noted by its absolute path."""
_ENCODED = re.compile(r"No committed batch found, checkpoint location: \S*%[0-9A-F]{2}")
"""Matches the failure of Spark's data source for a location that a URL must encode."""
_SAID = re.compile(r": |Caused by: |(?:\w+\.)*\w*(?:Error|Exception): ")


def last_batch(spark: SparkSession, location: str, operator_id: int, where: str) -> int:
    """Return the last micro-batch that was committed.

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
    """Read the stateful operators of a checkpoint, sorted by number, as rows of `state-metadata`.

    Raises:
        HostError: Spark cannot read the checkpoint, or this is PySpark 3.5.
    """
    _check_reads_state(where)
    with refusing(where):
        rows = spark.read.format("state-metadata").load(location).collect()
    found = [each for row in rows for each in _sharing(row)]
    return sorted(found, key=lambda row: row["operatorId"])


def _sharing(row: SparkRow) -> Iterator[SparkRow]:
    """Yield a row for each operator that shares a state operator of Spark, by place."""
    yield row
    for place in map(int, _FURTHER.findall(row["operatorProperties"] or "")):
        yield SparkRow(**{**row.asDict(), "operatorId": row["operatorId"] + place * _PLACE})


def place_in(operator_id: int) -> int:
    """Return the place of an operator in its state operator."""
    return operator_id // _PLACE


def is_ours(operator: SparkRow) -> bool:
    """Return whether `process` made an operator."""
    return f'"{LOG_VARIABLE}"' in (operator["operatorProperties"] or "")


@contextmanager
def refusing(where: str) -> Iterator[None]:
    """Turn Spark's errors into a `HostError` that says what was being read.

    Args:
        where: Names what is read, for messages.

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
    """Return a lazy DataFrame of all blobs of an operator: `__key_group`, `sequence`, `blob`.

    Raises:
        HostError: Spark cannot read the checkpoint.
    """
    place, number = divmod(operator_id, _PLACE)
    reader = spark.read.format("statestore").option("stateVarName", log_variable(place))
    reader = reader.option("operatorId", number).option("batchId", batch_id)
    with refusing(where):
        return reader.load(location).select(
            _key_group(place), "user_map_key.sequence", "user_map_value.blob"
        )


def _key_group(place: int) -> Column:
    """Return the grouping key, with every roll call as an operator at place 0 has it."""
    key = F.col(f"key.{KEY_GROUP}")
    if place == 0:
        return key
    is_called = key == roll_call_of(place)
    return F.when(is_called, F.lit(ROLL_CALL)).otherwise(key).alias(KEY_GROUP)


def registered_timers(
    spark: SparkSession, location: str, operator_id: int, batch_id: int, where: str
) -> DataFrame:
    """Return a lazy DataFrame of the times at which Spark calls grouping keys without records.

    Returns:
        `__key_group`, `time` in ms.

    Raises:
        HostError: Spark cannot read the checkpoint, or the operator has no time mode.
    """
    reader = spark.read.format("statestore").option("readRegisteredTimers", value=True)
    place, number = divmod(operator_id, _PLACE)
    reader = reader.option("operatorId", number).option("batchId", batch_id)
    with refusing(where):
        frame = reader.load(location)
        timers = frame.selectExpr(f"key.{KEY_GROUP}", "expiration_timestamp_ms as time")
    # Spark gives the timers of all operators that share the state operator.
    return timers.where(F.col(KEY_GROUP).between(roll_call_of(place), roll_call_of(place + 1) - 1))


def change_feed(
    spark: SparkSession, location: str, operator_id: int, first: int, last: int, where: str
) -> DataFrame:
    """Return a lazy DataFrame of an operator's writes in a range of batches, in their order.

    Returns:
        `batch_id`, `change_type` ("update" or "delete"), `__key_group`, `sequence`, `blob`.

    Raises:
        HostError: Spark cannot read the checkpoint.
    """
    place, number = divmod(operator_id, _PLACE)
    reader = spark.read.format("statestore").option("stateVarName", log_variable(place))
    reader = reader.option("operatorId", number).option("readChangeFeed", value=True)
    reader = reader.option("changeStartBatchId", first).option("changeEndBatchId", last)
    with refusing(where):
        return reader.load(location).select(
            "batch_id",
            "change_type",
            _key_group(place),
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
    """Read all blobs of an operator, by grouping key and then by sequence number.

    Raises:
        HostError: Spark cannot read the checkpoint.
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
    # A message of Spark holds stack traces of Java and Python: take their messages only.
    lines = str(error).strip().splitlines()
    said = [line for line in lines[1:] if _SAID.match(line)]
    reason = " ".join([lines[0] if lines else repr(error), *said])
    remedy = "give the checkpointLocation of the query and a batch that it retains"
    moved = _MOVED.search(reason)
    if moved is not None:
        former = moved[1]
        remedy = (
            f"a checkpoint that was copied or moved is looked for where it was written, {former}, "
            "for Spark notes absolute paths in it: put it there again or, on a local disk, a link "
            f"(ln -s <where it is> {former})"
        )
    if _ENCODED.search(reason):
        remedy = (
            "Spark encodes such a path twice: give one without spaces and the like, as of a link"
        )
    return HostError(
        f"{where}: Spark must be able to read its state, got {_shortened(reason)}; {remedy}"
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
