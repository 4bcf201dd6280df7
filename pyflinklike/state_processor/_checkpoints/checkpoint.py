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
from pyarrow import fs
from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql.utils import is_remote

from pyflinklike._changelog.log_storage import HEAD_AT, Head
from pyflinklike._changelog.operator_record import KeyGroupRegistry, OperatorRecord
from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    SparkSetupError,
    UnknownBatchError,
    UnknownStateError,
)
from pyflinklike.spark._host.blob_map import LOG_VARIABLE, log_variable
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, index_of, registry_key_of
from pyflinklike.spark._wire.system_columns import KEY_GROUP, watermark_of
from pyflinklike.state_processor._checkpoints.job_at_rest import job_at
from pyflinklike.state_processor._folders.hadoop_files import HadoopFiles, is_remote_address
from pyflinklike.state_processor._logs.checkpoint_logs import check_groups, record_and_registry
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._savepoints.savepoint_directory import SavepointDirectory
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    savepoint_location_of,
)

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
class OperatorAt:
    """An operator after a micro-batch, as Spark's data source reads it; its DataFrames are lazy.

    Args:
        spark: Any session that reaches the checkpoint.
        location: The path of the checkpoint.
        operator_id: Spark's number of the operator.
        batch_id: The number of the micro-batch.
    """

    spark: SparkSession
    location: str
    operator_id: int
    batch_id: int

    @property
    def where(self) -> str:
        """The operator's name in messages."""
        return f"checkpoint {self.location!r}, operator {self.operator_id}, batch {self.batch_id}"

    @property
    def place(self) -> int:
        """The operator's place in its state operator."""
        return self.operator_id // _PLACE

    def clock(self) -> BatchClock:
        """Read the times that the operator was given in the micro-batch.

        Raises:
            SparkSetupError: Spark no longer has the times.
        """
        fields = offsets_of(self.spark, self.location, self.batch_id, self.where)[1]
        return BatchClock(fields["batchTimestampMs"], watermark_of(fields["batchWatermarkMs"]))

    def blobs(self) -> DataFrame:
        """Read all blobs: `__key_group`, `sequence`, `blob`.

        Raises:
            SparkSetupError: Spark cannot read the checkpoint.
        """
        options = {"stateVarName": log_variable(self.place), "batchId": self.batch_id}
        return self._read(options, *self._columns())

    def changes(self, first: int) -> DataFrame:
        """Read the writes of the batches from `first` to this one, in their order.

        Returns:
            `batch_id`, `change_type` ("update" or "delete"), `__key_group`, `sequence`, `blob`.

        Raises:
            SparkSetupError: Spark cannot read the checkpoint.
        """
        options = {
            "stateVarName": log_variable(self.place),
            "readChangeFeed": "true",
            "changeStartBatchId": first,
            "changeEndBatchId": self.batch_id,
        }
        return self._read(options, "batch_id", "change_type", *self._columns())

    def registered_timers(self) -> DataFrame:
        """Read Spark's own timers, at which it calls grouping keys: `__key_group`, `time` in ms.

        Raises:
            SparkSetupError: Spark cannot read the checkpoint, or the operator has no time mode.
        """
        options = {"readRegisteredTimers": "true", "batchId": self.batch_id}
        time = F.col("expiration_timestamp_ms").alias("time")
        timers = self._read(options, f"key.{KEY_GROUP}", time)
        # Spark gives the timers of all operators that share the state operator.
        first, behind = registry_key_of(self.place), registry_key_of(self.place + 1)
        return timers.where(F.col(KEY_GROUP).between(first, behind - 1))

    def _columns(self) -> list[Column | str]:
        """Return the columns of a blob, with every registry as an operator at place 0 has it."""
        key = F.col(f"key.{KEY_GROUP}")
        is_registry = key == registry_key_of(self.place)
        found = F.when(is_registry, F.lit(REGISTRY_KEY)).otherwise(key).alias(KEY_GROUP)
        return [found if self.place else key, "user_map_key.sequence", "user_map_value.blob"]

    def _read(self, options: Mapping[str, object], *columns: Column | str) -> DataFrame:
        """Return columns of Spark's own DataFrame of the state or of the writes."""
        texts = {name: str(value) for name, value in options.items()}
        texts["operatorId"] = str(self.operator_id % _PLACE)
        with refuse_errors(self.where):
            return self._load(texts).select(*columns)

    def _load(self, options: Mapping[str, str]) -> DataFrame:
        clone = clone_in_format_of(self.spark, self.location, self.batch_id, self.where)
        if clone is None:
            return self.spark.read.format("statestore").options(**options).load(self.location)
        reader = clone.read().format("statestore")
        for name, value in options.items():
            reader = reader.option(name, value)
        plan = reader.load(self.location).queryExecution().analyzed()
        # The plan moves to the caller's session, so that the caller's settings count in an action.
        session: Any = self.spark
        frames = session._jvm.org.apache.spark.sql.classic.Dataset
        return DataFrame(frames.ofRows(session._jsparkSession, plan), self.spark)


@attrs.frozen
class CheckpointState(OperatorAt):
    """An operator after a micro-batch, with all that is known before its logs are read.

    Args:
        record: The operator's record, which declares its states.
        registry: The registry of the operator's key groups.
        heads: The heads of the key groups, by the index of the group.
    """

    record: OperatorRecord
    registry: KeyGroupRegistry
    heads: Mapping[int, Head] = attrs.field(repr=False)

    @property
    def max_parallelism(self) -> int:
        """The number of key groups."""
        return self.record.identity.max_parallelism

    def group_blobs(self) -> DataFrame:
        """Read the blobs of all key groups: `__key_group`, `sequence`, `blob`."""
        # Partition watermarks and the registry have grouping keys below 0.
        return self.blobs().where(f"{KEY_GROUP} >= 0")


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


def savepoint_location_in(spark: SparkSession, path: str | os.PathLike[str]) -> SavepointLocation:
    """Return the directory of a savepoint as `savepoint_location_of` does, or as Hadoop knows it.

    Args:
        spark: A session; through Spark Connect only Arrow's own filesystems can be reached.
        path: The path or address of the directory.

    Raises:
        DeclarationTypeError, DeclarationValueError: It is neither a path nor an address, or neither
            Arrow nor Hadoop knows its file system.
    """
    try:
        return savepoint_location_of(path)
    except DeclarationValueError:
        address = os.fspath(path)
        if is_remote() or not is_remote_address(address):
            raise
        try:
            files = HadoopFiles(spark, address)
        except SparkSetupError as error:
            raise DeclarationValueError(str(error)) from error
    return SavepointLocation(
        address, fs.PyFileSystem(files), files.plain(files.address), files.address
    )


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
    return SavepointDirectory.at(found)


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

    Returns:
        The operators, all after one micro-batch.

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
    ours = [row for row in every if is_ours(row)]
    rows = [row for row in ours if not is_int(operator) or row["operatorId"] == operator]
    found = [_state(spark, location, row, batch_id) for row in rows]
    # Only an operator's record has its uid, so all operators are read to find one.
    if isinstance(operator, str):
        found = [each for each in found if each.record.identity.name == operator]
    if not found:
        msg = f"{where}: operator must be one that process() made"
        raise UnknownStateError(f"{msg}, got {operator!r}; {_there_are(ours, found)}")
    first = min(each.batch_id for each in found)
    if any(each.batch_id != first for each in found):
        # A running query has committed a batch while its operators were read one after another.
        return checkpoint_states(spark, location, operator, first)
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
    operator = OperatorAt(spark, location, operator_id, batch_id)
    where, rows = operator.where, operator.blobs()
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


# Spark's data sources for state

# Spark's messages may quote whole plans; an error is for reading.
_LONGEST = 1_000
_PLACE = 1_000
"""The distance between the numbers of two neighbours that share a state operator."""
_FURTHER = re.compile(rf'"{log_variable(1)[:-1]}(\d+)"')
_REMEDIES = (
    (
        # Spark notes absolute paths in a checkpoint, and this file of it is missing.
        re.compile(r"(?:file:)?(/\S+|\w+://\S+)/state/\d+/_stateSchema/\S+ does not exist"),
        (
            "Spark notes absolute paths in a checkpoint, and looks for this one at {0}, where it was "
            "written: move it back or, on a local disk, make a link (ln -s <where it is> {0})"
        ),
    ),
    (
        # Spark 4.1 fails so for a checkpoint whose format is not the session's.
        re.compile(r"only supported log version is v\d+, but encountered v(\d+)"),
        (
            "this Spark reads only checkpoints of the format that the session has: call "
            f'spark.conf.set("{_FORMAT}", "{{0}}")'
        ),
    ),
    (
        # Spark 4.0 fails so for format 2, in which names of files are more than a number.
        re.compile(r'NumberFormatException: For input string: "\d+_[0-9a-f-]{36}"'),
        "Spark 4.0 cannot read state of format 2; read it with a newer PySpark",
    ),
    (
        # The location has characters that a URL encodes.
        re.compile(r"No committed batch found, checkpoint location: \S*%[0-9A-F]{2}"),
        "Spark encodes such a path twice: give a path without spaces and the like, or a link",
    ),
)
"""What to do about Spark's errors, by their text."""
_SAID = re.compile(r": |Caused by: |(?:\w+\.)*\w*(?:Error|Exception): ")


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


def _check_reads_state(where: str) -> None:
    if not HAS_TRANSFORM_WITH_STATE:
        msg = (
            f"{where}: Spark 3.5 cannot read the state of a checkpoint, got PySpark {__version__}; "
            "run the stream on PySpark 4.0 or newer, whose checkpoints can be read"
        )
        raise SparkSetupError(msg)


def _unreadable(where: str, error: Exception) -> SparkSetupError:
    # Spark puts stack traces of Java and Python into a message; only the lines with reasons are kept.
    lines = str(error).strip().splitlines()
    said = [line for line in lines[1:] if _SAID.match(line)]
    reason = " ".join([lines[0] if lines else repr(error), *said])
    remedy = "give the checkpointLocation of the query and a batch that it retains"
    for pattern, better in _REMEDIES:
        if found := pattern.search(reason):
            remedy = better.format(*found.groups())
    if len(reason) > _LONGEST:
        reason = f"{reason[:_LONGEST]}..."
    return SparkSetupError(f"{where}: Spark cannot read its state, got {reason}; {remedy}")
