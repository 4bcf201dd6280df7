# SPDX-License-Identifier: Apache-2.0
"""Reads savepoints as the DataFrames that the readers of checkpoints give.

A savepoint keeps the stamps of entries.  The columns `expires_at`, `alive` and `due` follow from a
clock, so they are computed here, by the clock of the savepoint's batch.
"""

from __future__ import annotations

import functools
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike import __version__
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._clock import TimeDomain, wall_clock
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    DeclarationValueError,
    SparkSetupError,
    StateValueError,
    UnknownStateError,
)
from pyflinklike.spark._wire.system_columns import quote, watermark_of
from pyflinklike.state_processor._checkpoints.checkpoint import (
    CheckpointState,
    checkpoint_states,
    location_of,
    offsets_of,
    query_id_of,
    savepoint_location_in,
)
from pyflinklike.state_processor._checkpoints.group_job import (
    frame_of_groups,
    map_frame,
    spark_schema,
)
from pyflinklike.state_processor._checkpoints.job_at_rest import JobAtRest, job_at
from pyflinklike.state_processor._logs.column_values import (
    TIMESTAMP,
    BatchClock,
    are_alive,
    expires_at,
    timestamps,
)
from pyflinklike.state_processor._logs.group_reader import TimersReader, savepoint_readers
from pyflinklike.state_processor._logs.key_columns import KeyColumns, list_keys
from pyflinklike.state_processor._logs.state_infos import StateInfo, StateInfos
from pyflinklike.state_processor._logs.state_rows import EXPIRING, STREAM_TIME, StateRows
from pyflinklike.state_processor._savepoints.manifest import (
    Manifest,
    SavedOperator,
    SavedRows,
    folder_of,
)
from pyflinklike.state_processor._savepoints.savepoint_directory import SavepointDirectory
from pyflinklike.state_processor._savepoints.savepoint_location import SavepointLocation

_OF_PATTERNS = re.compile(r"[][*?{}\\]")


def frame_of_files(
    spark: SparkSession, directory: SavepointDirectory, saved: SavedRows, schema: pa.Schema
) -> DataFrame:
    """Read files of a savepoint as a DataFrame.

    Raises:
        CorruptStateError: A file is missing, or is not the one that was saved.
    """
    typed = spark_schema(schema)
    if not saved.files:
        return spark.createDataFrame([], typed)
    location = directory.location
    # Parquet does not notice all damage: in a trial 42 of 125 flipped bits changed rows unnoticed.
    location.verify(saved.files)
    paths = [_literal(f"{location.uri}/{each.path}") for each in saved.files]
    return spark.read.schema(typed).parquet(*paths)


def _literal(path: str) -> str:
    """Escape a path so that Spark finds no glob pattern in it."""
    return _OF_PATTERNS.sub(r"\\\g<0>", path)


@attrs.frozen
class SavepointState:
    """An operator of a savepoint; readers ask it what they ask a `CheckpointState`.

    Args:
        spark: Any session that reaches the directory.
        directory: The savepoint, already opened.
        operator_id: The position of the operator in the savepoint.
    """

    spark: SparkSession
    directory: SavepointDirectory
    operator_id: int

    @property
    def saved(self) -> SavedOperator:
        """The files of the operator."""
        return self.directory.manifest.operators[self.operator_id]

    @property
    def record(self) -> OperatorRecord:
        """The operator's record, which declares its states."""
        return self.saved.record

    @property
    def batch_id(self) -> int | None:
        """The micro-batch of the savepoint; None if no query made it."""
        return self.directory.manifest.batch_id

    @property
    def where(self) -> str:
        """The name of the savepoint in messages."""
        return self.directory.location.where

    def clock(self) -> BatchClock | None:
        """Return the times of the savepoint's batch; None if they are not known."""
        manifest = self.directory.manifest
        if manifest.processing_time is None or manifest.watermark is None:
            return None
        return BatchClock(manifest.processing_time, manifest.watermark)

    def sized_states(self) -> StateInfos:
        """List the states with their sizes."""
        every = self.directory.states()
        return StateInfos(each for each in every if each.operator_id == self.operator_id)

    def entries(
        self,
        info: StateInfo,
        now: BatchClock | None,
        *,
        keys: Iterable[Any] | None = None,
        expired: bool = True,
    ) -> DataFrame:
        """Read the entries of a state, as `read_state` does.

        Args:
            info: The description of the state.
            now: The time by which entries are expired; None takes the time of the savepoint.
            keys: The keys to read; None reads all.
            expired: Whether to include entries that the function would no longer see.

        Raises:
            DeclarationValueError: The savepoint does not know what is expired.
            StateValueError: A key has more or fewer values than there are key columns.
            CorruptStateError: A file is missing, or is not the one that was saved.
        """
        rows = StateRows.of(self.record, info, saved=True)
        frame = frame_of_files(
            self.spark, self.directory, self.saved.states[info.name], rows.schema
        )
        if keys is not None and info.key_type is not None:
            frame = frame.where(_is_one_of(keys, [name for name, _ in info.key_columns]))
        if not expired and info.kind in EXPIRING:
            msg = f"{self.where}: expired=False works for a store in a checkpoint only"
            raise DeclarationValueError(f"{msg}, got store {info.name!r}; leave it out")
        if STREAM_TIME in frame.columns:
            frame = frame.drop(STREAM_TIME)
        if info.ttl is None:
            return frame
        clock = now or self.clock()
        if clock is None:
            msg = f"{self.where}: the time of its batch, which decides what is expired in "
            raise DeclarationValueError(
                f"{msg}{info.name!r}, is not known, got now=None; give now="
            )
        judged = functools.partial(_judge, info.ttl, clock, expired)
        return map_frame(frame, judged, spark_schema(_schema_to_show(rows)))

    def timers(self, now: BatchClock | None) -> DataFrame:
        """Read the timers, as `read_timers` does.

        Args:
            now: The time by which timers are `due`; None takes the time of the savepoint.  If that
                is not known, `due` is null.

        Raises:
            CorruptStateError: A file is missing, or is not the one that was saved.
        """
        schema = TimersReader(self.record, None).schema
        frame = frame_of_files(self.spark, self.directory, self.saved.timers, schema)
        at = schema.get_field_index("timestamp") + 1
        added = schema.insert(at, pa.field("due", pa.bool_()))
        added = added.insert(at, pa.field("time", TIMESTAMP))
        dated = functools.partial(_date_timers, now or self.clock())
        return map_frame(frame, dated, spark_schema(added))


def saved_states(
    spark: SparkSession,
    directory: SavepointDirectory,
    operator: int | str | None,
    batch_id: int | None,
) -> list[SavepointState]:
    """Return operators of a savepoint.

    Args:
        spark: Any session that reaches the directory.
        directory: The savepoint, already opened.
        operator: The position or uid of an operator; None returns all.
        batch_id: None, or the batch of the savepoint.

    Raises:
        UnknownStateError: There is no such operator.
        DeclarationValueError: The savepoint is of another batch.
    """
    where, manifest = directory.location.where, directory.manifest
    if batch_id not in (None, manifest.batch_id):
        msg = f"{where}: it has one batch, {manifest.batch_id}, got batch_id={short_repr(batch_id)}"
        raise DeclarationValueError(f"{msg}; leave it out")
    uids = directory.operators()
    if isinstance(operator, str):
        operator = uids.index(manifest.operator(operator, where).uid)
    numbers = range(len(uids)) if operator is None else [operator]
    if not uids or not set(numbers).issubset(range(len(uids))):
        msg = f"{where}: its operators are {uids}, got operator={operator}"
        raise UnknownStateError(f"{msg}; give the uid of one of them")
    return [SavepointState(spark, directory, number) for number in numbers]


def _schema_to_show(rows: StateRows) -> pa.Schema:
    """Return the schema of the rows with the columns that are derived from stamps."""
    schema = rows.schema
    if STREAM_TIME in schema.names:
        schema = schema.remove(schema.get_field_index(STREAM_TIME))
    at = schema.get_field_index("stamp") + 1
    return schema.insert(at, pa.field("alive", pa.bool_())).insert(
        at, pa.field("expires_at", TIMESTAMP)
    )


def _judge(
    ttl: Any, clock: BatchClock, expired: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Add to rows the time at which they expire, and whether they are alive."""
    for batch in batches:
        stamps = batch.column("stamp")
        at = batch.schema.get_field_index("stamp") + 1
        alive = are_alive(stamps, ttl, clock)
        table = pa.Table.from_batches([batch]).add_column(at, "alive", alive)
        table = table.add_column(at, "expires_at", expires_at(stamps, ttl))
        yield from (table if expired else table.filter(alive)).to_batches()


def _date_timers(
    clock: BatchClock | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        times, at = batch.column("timestamp"), batch.schema.get_field_index("timestamp") + 1
        due: Any = pa.nulls(batch.num_rows, pa.bool_())
        if clock is not None:
            is_event = pc.equal(batch.column("domain"), "event_time")
            instants = (
                pa.scalar(each, pa.int64()) for each in (clock.watermark, clock.processing_time)
            )
            due = pc.less_equal(times, pc.if_else(is_event, *instants))
        table = pa.Table.from_batches([batch]).add_column(at, "due", due)
        yield from table.add_column(at, "time", timestamps(times)).to_batches()


def _is_one_of(keys: Iterable[Any], names: list[str]) -> Column:
    found = F.lit(False)
    for key in list_keys(keys):
        parts = (key,) if len(names) == 1 else key
        if not isinstance(parts, tuple) or len(parts) != len(names):
            msg = f"a key is a tuple with a value for each of {names}, got {short_repr(key)}"
            raise StateValueError(f"{msg}; write ('ann', 3)")
        one = F.lit(True)
        for name, part in zip(names, parts):
            one = one & F.col(quote(name)).eqNullSafe(F.lit(part))
        found = found | one
    return found


# Writing


# Readers without Spark decode a file at a time, so files must stay small enough for their memory.
_ROWS_PER_FILE = 1_000_000
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@attrs.frozen
class Frames:
    """The record, states and timers of one operator.

    Args:
        record: The operator's record, which declares its states.
        states: The rows of each state by name, in the columns of a savepoint.
        timers: The timers in the columns of a savepoint.
    """

    record: OperatorRecord
    states: Mapping[str, DataFrame]
    timers: DataFrame

    def with_state(self, name: str, said: Mapping[str, Any], frame: DataFrame) -> Frames:
        """Return the operator with a state, which replaces one of the same name.

        Args:
            name: The name of the state.
            said: The declaration of the state in the record.
            frame: The rows of the state.
        """
        record = attrs.evolve(self.record, states={**self.record.states, name: said})
        return Frames(record, {**self.states, name: frame}, self.timers)

    def without_state(self, name: str) -> Frames:
        """Return the operator without a state."""
        said = {each: one for each, one in self.record.states.items() if each != name}
        states = {each: frame for each, frame in self.states.items() if each != name}
        return Frames(attrs.evolve(self.record, states=said), states, self.timers)


def take_savepoint(
    spark: SparkSession,
    checkpoint: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    batch_id: int | None = None,
    operator: int | str | None = None,
    mode: str = "error",
) -> None:
    """Write the state of a query or a job as a directory of Parquet files and a manifest.

    Example:
        ```python
        take_savepoint(spark, "/data/checkpoint", "/data/savepoint")
        key_by(df, "user").process(RunningTotal(), "total long", from_savepoint="/data/savepoint")
        ```

    The savepoint of a job also has the position of each of its sources.  If the job does not run and its
    sinks have written more than the savepoint has, a warning says so.

    The query may be running; the savepoint is of one batch.  The executors write it, so it may be
    larger than the driver's memory, and all executors must reach its location.  Nothing is
    unpickled.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query, or the folder of a job of the DataStream API.
        path: The directory to write, as a path or as an address that Spark knows.
        batch_id: The micro-batch to save; by default the last committed one.
        operator: Spark's number of a stateful operator, or its uid; by default all operators that
            `process` made.
        mode: "error", or "overwrite" to replace a savepoint that is there once the new one is
            whole.

    Raises:
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator.
        DeclarationTypeError, DeclarationValueError: The path or the mode is wrong.
        CorruptStateError: An operator's record, registry or head is damaged.  Damage that is found
            when the log is read is in the message of Spark's error.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    job, batch = save_checkpoint(spark, checkpoint, path, batch_id, operator, mode)
    # A running job writes on anyway, so its sinks are ahead of any savepoint.
    if job is not None and job.is_ahead_of(batch) and not job.is_running():
        _warn_of_repeats(job, batch)


def save_checkpoint(
    spark: SparkSession,
    checkpoint: str | os.PathLike[str],
    path: str | os.PathLike[str],
    batch_id: int | None = None,
    operator: int | str | None = None,
    mode: str = "error",
) -> tuple[JobAtRest | None, int | None]:
    """Write a savepoint as `take_savepoint` does; return the job, or None, and the micro-batch."""
    location = location_of(checkpoint, spark)
    job, target = job_at(location, spark), savepoint_location_in(spark, path)
    if job is not None and job.has(target):
        msg = f"{target.where}: a savepoint is not written into a job's folder, got a path in "
        raise DeclarationValueError(
            f"{msg}{str(job.path)!r}, which goes with the job; give one outside of it"
        )
    states: list[CheckpointState] = []
    if job is not None and job.is_stateless:
        batch_id = job.last_commit if batch_id is None else batch_id
        manifest = _note_of(spark, location, batch_id, f"checkpoint {location!r}, batch {batch_id}")
    else:
        states = checkpoint_states(spark, location, operator, batch_id)
        manifest = manifest_of(states[0])
    save(target, [frames_of(each) for each in states], manifest, mode)
    return job, manifest.batch_id


def _warn_of_repeats(job: JobAtRest, batch_id: int | None) -> None:
    warnings.warn(
        f"sinks of the job in {str(job.path)!r} have written more than the savepoint has, which is of "
        f"micro-batch {batch_id}: a job that begins with it writes that again; to avoid this, start the "
        "job once more and stop it with JobClient.stop_with_savepoint",
        stacklevel=3,
    )


def frames_of(state: CheckpointState) -> Frames:
    """Read all state of an operator in the columns of a savepoint."""
    record = attrs.evolve(
        state.record, dropped={}
    )  # a savepoint lacks states that are being dropped
    first = min(state.registry.served_at, default=None)
    frames = {
        name: frame_of_groups(state, reader) for name, reader in savepoint_readers(record, first)
    }
    timers = frames.pop(None)
    return Frames(record, {str(name): frame for name, frame in frames.items()}, timers)


def manifest_of(state: CheckpointState) -> Manifest:
    """Make the manifest of a savepoint: its batch with the times and offsets of Spark's note.

    For the checkpoint of a job it has the job, too, with the positions of its sources.
    """
    return _note_of(state.spark, state.location, state.batch_id, state.where)


def _note_of(spark: SparkSession, location: str, batch_id: int, where: str) -> Manifest:
    text, times = offsets_of(spark, location, batch_id, where)
    job = job_at(location, spark)
    # The write fills in the version of the library, the time and the operators.
    return Manifest(
        library="",
        taken_at=0,
        operators=(),
        batch_id=batch_id,
        processing_time=times["batchTimestampMs"],
        watermark=watermark_of(times["batchWatermarkMs"]),
        offsets=text,
        query_id=query_id_of(spark, location),
        job=None if job is None else job.describe(text),
    )


def save(
    location: SavepointLocation, operators: list[Frames], manifest: Manifest, mode: str
) -> None:
    """Write a savepoint.

    Args:
        location: The location to write to.
        operators: The operators of the savepoint.
        manifest: The manifest, which gets the operators, the version and the time.
        mode: "error", or "overwrite" to replace a savepoint that is there.

    Raises:
        DeclarationValueError: The mode does not allow replacing what is there.
        SparkSetupError: The driver does not find the rows that the executors wrote.
    """
    written = location.begin(mode)
    saved = tuple(_save_operator(written, each) for each in operators)
    made = attrs.evolve(manifest, operators=saved, library=__version__, taken_at=wall_clock())
    written.finish(made)
    location.replace(written)


def _save_operator(location: SavepointLocation, frames: Frames) -> SavedOperator:
    uid, keys = frames.record.identity.name, KeyColumns.of(frames.record).names
    states = {
        name: _save_rows(location, folder_of(uid, name), frame, keys, {})[0]
        for name, frame in frames.states.items()
    }
    domains = {each.name.lower(): F.col("domain") == each.name.lower() for each in TimeDomain}
    timers, counts = _save_rows(location, folder_of(uid, None), frames.timers, keys, domains)
    return SavedOperator(frames.record, states, timers, counts)


def _save_rows(
    location: SavepointLocation,
    folder: str,
    frame: DataFrame,
    keys: tuple[str, ...],
    counted: Mapping[str, Column],
) -> tuple[SavedRows, dict[str, int]]:
    """Write rows to a folder; return the files, and how many rows meet each of some conditions."""
    present = [F.col(quote(name)) for name in keys if name in frame.columns]
    # Sort keys together, so that the statistics of a file tell whether it has a key.
    ordered = frame.sortWithinPartitions(F.col("key_group"), *present)
    address = f"{location.uri}/{folder}"
    written = Observation()
    with _timestamps_in_micros(frame.sparkSession):
        rows = F.count(F.lit(1)).alias("rows")
        counts = [F.count_if(condition).alias(name) for name, condition in counted.items()]
        writer = ordered.observe(written, rows, *counts).write
        writer = writer.option("compression", "zstd")
        writer.option("maxRecordsPerFile", _ROWS_PER_FILE).parquet(address)
    names = location.files_in(folder)
    # Executors with disks of their own write files that the driver does not see: compare counts.
    found = sum(map(location.rows_in, names))
    if found != written.get["rows"]:
        msg = (
            f"{location.where}: executors and driver must reach the same files, got {found} of "
            f"{written.get['rows']} rows that were written to {address!r}"
        )
        raise SparkSetupError(f"{msg}; give an address such as s3://... that names the file system")
    saved = SavedRows(found, location.measure_files(names))
    return saved, {name: written.get[name] for name in counted if written.get[name]}


@contextmanager
def _timestamps_in_micros(spark: SparkSession) -> Iterator[None]:
    """Let Spark write timestamps in the form that all tools read."""
    # Spark's default is INT96; a writer has no option for it, only the session has.
    former = spark.conf.get(_TIMESTAMPS, None)
    spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if former is None:
            spark.conf.unset(_TIMESTAMPS)
        else:
            spark.conf.set(_TIMESTAMPS, former)


def read_saved_frames(
    spark: SparkSession, directory: SavepointDirectory, uid: str | None
) -> Frames:
    """Read an operator of a savepoint as DataFrames.

    Args:
        spark: Any session that reaches the directory.
        directory: The savepoint, already opened.
        uid: The uid of the operator; None reads the only operator.

    Raises:
        UnknownStateError: There is no such operator.
        CorruptStateError: A file is missing, or is not the one that was saved.
    """
    operator = directory.manifest.operator(uid, directory.location.where)
    states = {
        name: frame_of_files(spark, directory, saved, directory.rows_of(operator, name).schema)
        for name, saved in operator.states.items()
    }
    timers = frame_of_files(
        spark, directory, operator.timers, TimersReader(operator.record, None).schema
    )
    return Frames(operator.record, states, timers)
