# SPDX-License-Identifier: Apache-2.0
"""Opens one operator of a checkpoint after one micro-batch; every reader of state begins here.

Spark's source `state-metadata` lists the operators, and the batches that are committed and retained:
https://github.com/apache/spark/blob/master/sql/core/src/main/scala/org/apache/spark/sql/execution/datasources/v2/state/metadata/StateMetadataSource.scala
Then one small job reads the operator's record and registry and the heads of its key groups.  They give
the schema of every state and show that no key group is missing.  All other rows are read by an action
on a DataFrame.

An operator has Spark's number, from 0.  If operators of a job share a state operator of Spark, the
first one has its number, and each further operator has 1,000 more.

The query may be running.  So it may purge a batch that was retained a moment ago.  If the caller asked
for the last batch, a newer one is read in its place.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import pyarrow as pa
from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike._changelog.log_storage import Head
from pyflinklike._changelog.operator_record import KeyGroupRegistry, OperatorRecord
from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    PyflinklikeError,
    SparkSetupError,
    UnknownBatchError,
    UnknownStateError,
)
from pyflinklike.spark._host.blob_map import HEAD_AT, LOG_VARIABLE, log_variable
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, index_of, registry_key_of
from pyflinklike.spark._wire.system_columns import KEY_GROUP, watermark_of
from pyflinklike.state_processor._checkpoints.hadoop_savepoints import savepoint_location_in
from pyflinklike.state_processor._checkpoints.job_at_rest import job_at
from pyflinklike.state_processor._logs.checkpoint_logs import check_groups, record_and_registry
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._savepoints.history_parts import read_manifest
from pyflinklike.state_processor._savepoints.savepoint_directory import SavepointDirectory

__all__ = [
    "CheckpointState",
    "change_feed",
    "checkpoint_states",
    "clone_in_format_of",
    "is_ours",
    "last_batch",
    "load_blobs",
    "location_of",
    "offsets_of",
    "operator_index_in",
    "operators_of",
    "partitions_of_batches",
    "query_id_of",
    "read_blobs",
    "read_registered_timers",
    "refuse_errors",
    "savepoint_at",
    "take_format_of",
    "where_of",
]


_REFUSALS: tuple[type[Exception], ...] = (PySparkException,)
try:
    from py4j.protocol import Py4JError
except ImportError:
    pass  # the client of Spark Connect comes without py4j and needs none
else:
    _REFUSALS += (Py4JError,)  # PySpark has no class for some of Java's exceptions


_PARTITIONS = "spark.sql.shuffle.partitions"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@attrs.frozen
class CheckpointState:
    """An operator after a micro-batch.

    Args:
        spark: Any session that reaches the checkpoint.
        location: The path of the checkpoint.
        operator_id: Spark's number of the operator.
        batch_id: The number of the micro-batch.
        record: The operator's record, which declares its states.
        registry: The registry of the operator's key groups.
        heads: The heads of the key groups, by the index of the group.
    """

    spark: SparkSession
    location: str
    operator_id: int
    batch_id: int
    record: OperatorRecord
    registry: KeyGroupRegistry
    heads: Mapping[int, Head] = attrs.field(repr=False)

    @property
    def where(self) -> str:
        """The operator's name in messages."""
        return where_of(self.location, self.operator_id, self.batch_id)

    @property
    def max_parallelism(self) -> int:
        """The number of key groups."""
        return self.record.identity.max_parallelism

    def blobs(self) -> DataFrame:
        """Read the blobs of all key groups: `__key_group`, `sequence`, `blob`."""
        rows = load_blobs(self.spark, self.location, self.operator_id, self.batch_id, self.where)
        # Partition watermarks and the registry have grouping keys below 0.
        return rows.where(f"{KEY_GROUP} >= 0")

    def clock(self) -> BatchClock:
        """Read the times that the operator was given in the micro-batch.

        Raises:
            SparkSetupError: Spark no longer has the times.
        """
        fields = offsets_of(self.spark, self.location, self.batch_id, self.where)[1]
        return BatchClock(fields["batchTimestampMs"], watermark_of(fields["batchWatermarkMs"]))


def offsets_of(
    spark: SparkSession, location: str, batch_id: int, where: str
) -> tuple[str, dict[str, Any]]:
    """Read the note that Spark wrote before a micro-batch: its text, and the fields with the times.

    Raises:
        SparkSetupError: Spark no longer has the note.
    """
    path = f"{location.rstrip('/')}/offsets/{batch_id}"
    with refuse_errors(where):
        lines = [row["value"] for row in spark.read.text(path).collect()]
    for line in lines:
        if line.startswith("{") and "batchTimestampMs" in line:
            fields: dict[str, Any] = json.loads(line)
            return "\n".join(lines), fields
    msg = f"{where}: {path} must have the times of the batch, got {len(lines)} lines without them"
    raise SparkSetupError(f"{msg}; give the checkpointLocation of the query")


def partitions_of_batches(state: CheckpointState) -> dict[int, str | None]:
    """Read the number of state partitions in each micro-batch, or None if Spark does not note it.

    Raises:
        SparkSetupError: Spark cannot read its notes.
    """
    # A running query may purge old notes between listing and reading.
    reader = state.spark.read.option("ignoreMissingFiles", value=True)
    with refuse_errors(state.where):
        notes = reader.text(f"{state.location.rstrip('/')}/offsets")
        lines = notes.select("value", "_metadata.file_name").where(
            "value like '%batchTimestampMs%'"
        )
        rows = [row for row in lines.collect() if row["file_name"].isdecimal()]
    settings = {int(row["file_name"]): json.loads(row["value"]).get("conf", {}) for row in rows}
    return {batch: found.get(_PARTITIONS) for batch, found in settings.items()}


def query_id_of(spark: SparkSession, location: str) -> str | None:
    """Read the id of a query, which lasts as long as its checkpoint.

    Returns:
        The `StreamingQuery.id`, or None if the checkpoint does not have it.

    Raises:
        SparkSetupError: Spark cannot read the checkpoint.
    """
    with refuse_errors(f"checkpoint {location!r}"):
        lines = [
            row["value"] for row in spark.read.text(f"{location.rstrip('/')}/metadata").collect()
        ]
    try:
        found = json.loads("".join(lines))["id"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(found)


def location_of(checkpoint: str | os.PathLike[str], spark: SparkSession | None = None) -> str:
    """Return the path of a checkpoint; for the folder of a job, the path of the checkpoint in it.

    Args:
        checkpoint: The path of a checkpoint or of a job's folder.
        spark: A session, to find a job's folder that is not on this machine.

    Raises:
        DeclarationTypeError: `checkpoint` is not a path.
        CorruptStateError: The folder of a job is damaged.
    """
    try:
        location = os.fspath(checkpoint)
    except TypeError:
        location = b""  # type: ignore[assignment]
    if not isinstance(location, str) or not location:
        msg = f"checkpoint takes a path, got {short_repr(checkpoint)}"
        raise DeclarationTypeError(f"{msg}; give the checkpointLocation of a query")
    job = job_at(location, spark)
    return location if job is None else str(job.checkpoint)


def savepoint_at(location: str, spark: SparkSession) -> SavepointDirectory | None:
    """Open the savepoint at a path, or return None if no savepoint is there.

    Raises:
        CorruptStateError: The manifest is damaged.
    """
    try:
        found = savepoint_location_in(spark, location)
        if not found.is_savepoint():
            return None
    except (PyflinklikeError, OSError, pa.ArrowException, ImportError):
        return None  # Spark may reach an address that Arrow cannot
    return SavepointDirectory(found, read_manifest(found))


def checkpoint_states(
    spark: SparkSession,
    location: str,
    operator: int | str | None,
    batch_id: int | None,
) -> list[CheckpointState]:
    """Read the operators of a checkpoint that `process` made.

    Args:
        spark: Any session that reaches the checkpoint.
        location: The path of the checkpoint.
        operator: Spark's number of an operator, or a uid; None reads all operators.
        batch_id: The number of the micro-batch; None reads the last committed one.

    Raises:
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed.
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator.
        CorruptStateError: A record, registry or head is damaged, or a key group is missing.
    """
    where = f"checkpoint {location!r}"
    every: list[SparkRow] = []
    try:
        every = operators_of(spark, location, where)
    except SparkSetupError as error:
        refused = _is_savepoint(location, where, spark)
        if refused is None:
            raise
        raise refused from error
    if not every:
        refused = _is_savepoint(location, where, spark)
        if refused is not None:
            raise refused
        msg = f"{where}: must be of a stateful query that has run, got no such query"
        raise SparkSetupError(
            f"{msg}; give the checkpointLocation of the query, and if it is new wait for its first batch"
        )
    rows = [row for row in every if is_ours(row)]
    if is_int(operator):
        rows = [row for row in rows if row["operatorId"] == operator]
    found = [_state(spark, location, row, batch_id) for row in rows]
    # Only an operator's record has its uid, so all operators are read to find one.
    if isinstance(operator, str):
        found = [each for each in found if each.record.identity.name == operator]
    if not found:
        msg = f"{where}: operator must be one that process() made"
        raise UnknownStateError(f"{msg}, got {operator!r}; {_there_are(rows, found)}")
    return found


def _is_savepoint(location: str, where: str, spark: SparkSession) -> SparkSetupError | None:
    """Return the error for a call that needs a checkpoint if a savepoint is there, else None."""
    if savepoint_at(location, spark) is None:
        return None
    msg = f"{where}: this needs the checkpoint of a query, got the savepoint at that path"
    return SparkSetupError(
        f"{msg}; list_states, read_state, read_timers and Savepoint.read(spark, path) read it"
    )


def _there_are(rows: list[SparkRow], found: list[CheckpointState]) -> str:
    known = {each.operator_id: each.record.identity.name for each in found}
    names = [f"{row['operatorId']} {known.get(row['operatorId'], '')}".strip() for row in rows]
    return f"there are {names}" if names else "Spark's state-metadata lists the operators"


def _state(
    spark: SparkSession, location: str, operator: SparkRow, batch_id: int | None
) -> CheckpointState:
    number, first, last = operator["operatorId"], operator["minBatchId"], operator["maxBatchId"]
    if last < 0:
        msg = f"checkpoint {location!r}: no batch is committed yet, so there is no state"
        raise SparkSetupError(f"{msg}; wait for the query's first batch")
    batch = last if batch_id is None else batch_id
    if not is_int(batch) or not first <= batch <= last:
        msg = f"checkpoint {location!r}: its batches are {first} to {last}, got {short_repr(batch)}"
        raise UnknownBatchError(
            f"{msg}; give one of these (spark.sql.streaming.minBatchesToRetain says how many stay)"
        )
    try:
        return _read(spark, location, number, batch)
    except SparkSetupError:
        if batch_id is not None:
            raise
        # A running query may have purged the batch meanwhile; then it has committed a newer one.
        where = f"checkpoint {location!r}"
        rows = operators_of(spark, location, where)
        newer = next(row["maxBatchId"] for row in rows if row["operatorId"] == number)
        if newer == batch:
            raise
        return _read(spark, location, number, newer)


def _read(spark: SparkSession, location: str, operator_id: int, batch_id: int) -> CheckpointState:
    where = where_of(location, operator_id, batch_id)
    rows = load_blobs(spark, location, operator_id, batch_id, where)
    with refuse_errors(where):
        small = rows.where(
            f"{KEY_GROUP} = {REGISTRY_KEY} or ({KEY_GROUP} >= 0 and sequence = {HEAD_AT})"
        )
        table = small.toArrow()
    called: dict[int, bytes] = {}
    heads: dict[int, bytes] = {}
    for row in table.to_pylist():
        if row[KEY_GROUP] == REGISTRY_KEY:
            called[row["sequence"]] = row["blob"]
        else:
            heads[row[KEY_GROUP]] = row["blob"]
    record, registry = record_and_registry(called, where)
    found = _heads(heads, record.identity.max_parallelism, where)
    check_groups(registry, found, where)
    return CheckpointState(spark, location, operator_id, batch_id, record, registry, found)


def _heads(blobs: Mapping[int, bytes], max_parallelism: int, where: str) -> dict[int, Head]:
    heads: dict[int, Head] = {}
    for group_id, blob in blobs.items():
        index = index_of(group_id, max_parallelism)
        if index in heads:
            msg = f"{where}: a key group must be stored once, got group {index} twice"
            raise CorruptStateError(f"{msg}; go back to a checkpoint")
        heads[index] = Head.from_bytes(blob, f"{where}, key group {index}")
    return heads


def where_of(location: str, operator_id: int, batch_id: int) -> str:
    """Name an operator after a micro-batch for messages."""
    return f"checkpoint {location!r}, operator {operator_id}, batch {batch_id}"


# Spark's data sources for state

# Spark's messages may quote whole plans; an error is for reading.
_LONGEST = 1_000
_PLACE = 1_000
"""The distance between the numbers of two neighbours that share a state operator."""
_FURTHER = re.compile(rf'"{log_variable(1)[:-1]}(\d+)"')
_MOVED = re.compile(r"(?:file:)?(/\S+|\w+://\S+)/state/\d+/_stateSchema/\S+ does not exist")
"""Matches the error for a missing file; Spark notes absolute paths in a checkpoint."""
_ENCODED = re.compile(r"No committed batch found, checkpoint location: \S*%[0-9A-F]{2}")
"""Matches the error of Spark's data source for a location with characters that a URL encodes."""
_SECOND_FORMAT = re.compile(r'NumberFormatException: For input string: "\d+_[0-9a-f-]{36}"')
"""Matches the error of Spark 4.0 for format 2, in which names of files are more than a number."""
_OTHER_FORMAT = re.compile(r"only supported log version is v\d+, but encountered v(\d+)")
"""Matches the error of Spark 4.1 for a checkpoint whose format is not the session's."""
_SAID = re.compile(r": |Caused by: |(?:\w+\.)*\w*(?:Error|Exception): ")


def last_batch(spark: SparkSession, location: str, operator_id: int, where: str) -> int:
    """Return the last micro-batch that was committed.

    Raises:
        SparkSetupError: No batch is committed, or `process` did not make the operator; or this is
            PySpark 3.5.
    """
    rows = operators_of(spark, location, where)
    operator = next((row for row in rows if row["operatorId"] == operator_id), None)
    if operator is None:
        msg = (
            f"{where}: must be a stateful operator of a query that has run, got no such operator; "
            "give the checkpointLocation of the query, look into Spark's state-metadata for the "
            "operator's id, and if the query is new wait for its first batch"
        )
        raise SparkSetupError(msg)
    _check_ours(operator, where)
    last: int = operator["maxBatchId"]
    if last < 0:
        msg = (
            f"{where}: no micro-batch is committed yet, so there is no state; "
            "wait for the query's first batch"
        )
        raise SparkSetupError(msg)
    return last


def operators_of(spark: SparkSession, location: str, where: str) -> list[SparkRow]:
    """Read the stateful operators of a checkpoint, sorted by number, as rows of `state-metadata`.

    Raises:
        SparkSetupError: Spark cannot read the checkpoint, or this is PySpark 3.5.
    """
    _check_reads_state(where)
    with refuse_errors(where):
        # Spark starts the coordinator of state stores with the manager of queries.  Without it Spark
        # 4.1 and 4.2 read no state: "Cannot find endpoint: spark://StateStoreCoordinator".
        _ = spark.streams.active
        rows = spark.read.format("state-metadata").load(location).collect()
    found = [each for row in rows for each in _find_sharing(row)]
    return sorted(found, key=lambda row: row["operatorId"])


def _find_sharing(row: SparkRow) -> Iterator[SparkRow]:
    """Yield a row for each operator that shares a state operator of Spark, by place."""
    yield row
    for place in map(int, _FURTHER.findall(row["operatorProperties"] or "")):
        yield SparkRow(**{**row.asDict(), "operatorId": row["operatorId"] + place * _PLACE})


def operator_index_in(operator_id: int) -> int:
    """Return the place of an operator in its state operator."""
    return operator_id // _PLACE


def is_ours(operator: SparkRow) -> bool:
    """Return whether `process` made an operator."""
    return f'"{LOG_VARIABLE}"' in (operator["operatorProperties"] or "")


@contextmanager
def refuse_errors(where: str) -> Iterator[None]:
    """Turn Spark's errors into a `SparkSetupError` that says what was being read.

    Args:
        where: The name of the thing that is read, for messages.

    Raises:
        SparkSetupError: Spark failed.
    """
    try:
        yield
    except _REFUSALS as error:
        raise _unreadable(where, error) from error


def load_blobs(
    spark: SparkSession, location: str, operator_id: int, batch_id: int, where: str
) -> DataFrame:
    """Return a lazy DataFrame of all blobs of an operator: `__key_group`, `sequence`, `blob`.

    Raises:
        SparkSetupError: Spark cannot read the checkpoint.
    """
    place, number = divmod(operator_id, _PLACE)
    options = {"stateVarName": log_variable(place), "operatorId": number, "batchId": batch_id}
    with refuse_errors(where):
        return _load_state(spark, location, batch_id, where, options).select(
            _key_group(place), "user_map_key.sequence", "user_map_value.blob"
        )


def _load_state(
    spark: SparkSession, location: str, batch_id: int, where: str, options: Mapping[str, object]
) -> DataFrame:
    """Return Spark's own DataFrame of the state after a micro-batch, or of the writes up to it."""
    texts = {name: str(value) for name, value in options.items()}
    clone = clone_in_format_of(spark, location, batch_id, where)
    if clone is None:
        return spark.read.format("statestore").options(**texts).load(location)
    reader = clone.read().format("statestore")
    for name, value in texts.items():
        reader = reader.option(name, value)
    plan = reader.load(location).queryExecution().analyzed()
    # The plan moves to the caller's session, so that the caller's settings count in an action.
    session: Any = spark
    frames = session._jvm.org.apache.spark.sql.classic.Dataset
    return DataFrame(frames.ofRows(session._jsparkSession, plan), spark)


def clone_in_format_of(spark: SparkSession, location: str, batch_id: int, where: str) -> Any | None:
    """Clone a session with the format of a checkpoint, unless the session has that format.

    Spark looks for files of state by the format of the session, not by the format that the checkpoint
    notes; a DataFrame keeps the files that it found.  The setting of the session itself must not
    change: a query that another thread starts at that moment would take it.

    Returns:
        Spark's own session, without Python's; None if the session has the checkpoint's format.

    Raises:
        SparkSetupError: The session has another format and is one of Spark Connect, which looks for files
            whenever the DataFrame is used.
    """
    written = _format_of(spark, location, batch_id)
    had = spark.conf.get(_FORMAT, None) or "1"
    if written is None or written == had:
        return None
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        msg = (
            f"{where}: a session of Spark Connect must have the checkpoint's format, {written}, to "
            f"read its state, got {had}"
        )
        raise SparkSetupError(f'{msg}; call spark.conf.set("{_FORMAT}", "{written}")')
    # Python's `SparkSession(...)` would become the session of `RDD.toDF` as well.
    session: Any = spark
    clone = session._jsparkSession.cloneSession()
    clone.conf().set(_FORMAT, written)
    return clone


def take_format_of(spark: SparkSession, location: str) -> None:
    """Set the format of a checkpoint in a session that reads nothing else, if the format is known.

    Spark 4.1 reads a checkpoint only in a session of its format.
    """
    written = _format_of(spark, location, "[0-9]*")
    if written is not None:
        spark.conf.set(_FORMAT, written)


def _format_of(spark: SparkSession, location: str, batch_id: int | str) -> str | None:
    """Read the format in which a micro-batch was committed, or None if the checkpoint lacks it."""
    path = f"{location.rstrip('/')}/commits/{batch_id}"
    try:
        lines = spark.read.text(path).take(1)
    except _REFUSALS:
        return None  # reading the state fails, too, with an error that says more
    version = lines[0]["value"].strip() if lines else ""
    # Commits of version 3 differ from version 2 in what they say of sinks; state is the same.
    return {"v1": "1", "v2": "2", "v3": "2"}.get(version)


def _key_group(place: int) -> Column:
    """Return the grouping key, with every registry as an operator at place 0 has it."""
    key = F.col(f"key.{KEY_GROUP}")
    if place == 0:
        return key
    is_called = key == registry_key_of(place)
    return F.when(is_called, F.lit(REGISTRY_KEY)).otherwise(key).alias(KEY_GROUP)


def read_registered_timers(
    spark: SparkSession, location: str, operator_id: int, batch_id: int, where: str
) -> DataFrame:
    """Return a lazy DataFrame of Spark's own timers, at which it calls grouping keys.

    Returns:
        `__key_group`, `time` in ms.

    Raises:
        SparkSetupError: Spark cannot read the checkpoint, or the operator has no time mode.
    """
    place, number = divmod(operator_id, _PLACE)
    options = {"readRegisteredTimers": "true", "operatorId": number, "batchId": batch_id}
    with refuse_errors(where):
        frame = _load_state(spark, location, batch_id, where, options)
        timers = frame.selectExpr(f"key.{KEY_GROUP}", "expiration_timestamp_ms as time")
    # Spark gives the timers of all operators that share the state operator.
    return timers.where(
        F.col(KEY_GROUP).between(registry_key_of(place), registry_key_of(place + 1) - 1)
    )


def change_feed(
    spark: SparkSession, location: str, operator_id: int, first: int, last: int, where: str
) -> DataFrame:
    """Return a lazy DataFrame of an operator's writes in a range of batches, in their order.

    Returns:
        `batch_id`, `change_type` ("update" or "delete"), `__key_group`, `sequence`, `blob`.

    Raises:
        SparkSetupError: Spark cannot read the checkpoint.
    """
    place, number = divmod(operator_id, _PLACE)
    options = {
        "stateVarName": log_variable(place),
        "operatorId": number,
        "readChangeFeed": "true",
        "changeStartBatchId": first,
        "changeEndBatchId": last,
    }
    with refuse_errors(where):
        return _load_state(spark, location, last, where, options).select(
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
        raise SparkSetupError(msg)


def _check_ours(operator: SparkRow, where: str) -> None:
    if not is_ours(operator):
        msg = (
            f"{where}: the operator must be one that process() made, got {operator['operatorName']}"
            "; look into Spark's state-metadata for its id"
        )
        raise SparkSetupError(msg)


def read_blobs(
    spark: SparkSession, location: str, operator_id: int, batch_id: int, where: str
) -> dict[int, dict[int, bytes]]:
    """Read all blobs of an operator, by grouping key and then by sequence number.

    Raises:
        SparkSetupError: Spark cannot read the checkpoint.
    """
    with refuse_errors(where):
        rows: list[dict[str, Any]] = (
            load_blobs(spark, location, operator_id, batch_id, where).toArrow().to_pylist()
        )
    blobs: dict[int, dict[int, bytes]] = {}
    for row in rows:
        blobs.setdefault(row[KEY_GROUP], {})[row["sequence"]] = row["blob"]
    return blobs


def _unreadable(where: str, error: Exception) -> SparkSetupError:
    # Spark puts stack traces of Java and Python into a message; only the lines with reasons are kept.
    lines = str(error).strip().splitlines()
    said = [line for line in lines[1:] if _SAID.match(line)]
    reason = " ".join([lines[0] if lines else repr(error), *said])
    remedy = "give the checkpointLocation of the query and a batch that it retains"
    moved = _MOVED.search(reason)
    if moved is not None:
        former = moved[1]
        remedy = (
            f"Spark notes absolute paths in a checkpoint, and looks for this one at {former}, where "
            "it was written: move it back or, on a local disk, make a link "
            f"(ln -s <where it is> {former})"
        )
    other = _OTHER_FORMAT.search(reason)
    if other is not None:
        remedy = (
            "this Spark reads only checkpoints of the format that the session has: call "
            f'spark.conf.set("{_FORMAT}", "{other[1]}")'
        )
    if _SECOND_FORMAT.search(reason):
        remedy = "Spark 4.0 cannot read state of format 2; read it with a newer PySpark"
    if _ENCODED.search(reason):
        remedy = (
            "Spark encodes such a path twice: give a path without spaces and the like, or a link"
        )
    return SparkSetupError(
        f"{where}: Spark cannot read its state, got {_shorten(reason)}; {remedy}"
    )


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
