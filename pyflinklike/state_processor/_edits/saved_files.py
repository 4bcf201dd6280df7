# SPDX-License-Identifier: Apache-2.0
"""Writes and reads the Parquet files of a savepoint, as the DataFrames of its operators."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import attrs
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike import __version__
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._clock import wall_clock
from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.spark._wire.system_columns import quote, watermark_of
from pyflinklike.state_processor._checkpoints.checkpoint import (
    CheckpointState,
    checkpoint_states,
    location_of,
    offsets_of,
    query_id_of,
)
from pyflinklike.state_processor._checkpoints.group_job import frame_of_groups
from pyflinklike.state_processor._checkpoints.hadoop_savepoints import savepoint_location_in
from pyflinklike.state_processor._checkpoints.job_at_rest import JobAtRest, job_at
from pyflinklike.state_processor._checkpoints.savepoint_frames import frame_of_files
from pyflinklike.state_processor._logs.group_reader import GroupStateReader, TimersReader
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_infos import describe_states
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.state_processor._savepoints.manifest import (
    Manifest,
    SavedOperator,
    SavedRows,
    folder_of,
)
from pyflinklike.state_processor._savepoints.savepoint_directory import SavepointDirectory
from pyflinklike.state_processor._savepoints.savepoint_location import SavepointLocation

__all__ = [
    "Frames",
    "frames_of",
    "manifest_of",
    "read_saved_frames",
    "save",
    "save_checkpoint",
    "take_savepoint",
]


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
        first, *others = states
        if any(each.batch_id != first.batch_id for each in others):
            # A batch was committed meanwhile; all operators must be of the same batch.
            states = checkpoint_states(spark, location, operator, first.batch_id)
        manifest = manifest_of(first)
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
    states = {}
    for info in describe_states(record, state.operator_id):
        # All key groups have the same broadcast state, so a savepoint takes it from one.
        only = min(state.registry.served_at, default=None) if info.kind == "broadcast" else None
        reader = GroupStateReader(StateRows.of(record, info, saved=True), None, only=only)
        states[info.name] = frame_of_groups(state, reader)
    return Frames(record, states, frame_of_groups(state, TimersReader(record, None)))


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
        name: _save_rows(location, folder_of(uid, name), frame, keys)
        for name, frame in frames.states.items()
    }
    timers = _save_rows(location, folder_of(uid, None), frames.timers, keys)
    domains = location.count_by(timers.files, "domain", ("event_time", "processing_time"))
    return SavedOperator(frames.record, states, timers, domains)


def _save_rows(
    location: SavepointLocation, folder: str, frame: DataFrame, keys: tuple[str, ...]
) -> SavedRows:
    present = [F.col(quote(name)) for name in keys if name in frame.columns]
    # Sort keys together, so that the statistics of a file tell whether it has a key.
    ordered = frame.sortWithinPartitions(F.col("key_group"), *present)
    address = f"{location.uri}/{folder}"
    written = Observation()
    with _timestamps_in_micros(frame.sparkSession):
        writer = ordered.observe(written, F.count(F.lit(1)).alias("rows")).write
        writer = writer.option("compression", "zstd")
        writer.option("maxRecordsPerFile", _ROWS_PER_FILE).parquet(address)
    names = location.files_in(folder)
    # Executors with disks of their own write files that the driver does not see: compare counts.
    rows = sum(map(location.rows_in, names))
    if rows != written.get["rows"]:
        msg = (
            f"{location.where}: executors and driver must reach the same files, got {rows} of "
            f"{written.get['rows']} rows that were written to {address!r}"
        )
        raise SparkSetupError(f"{msg}; give an address such as s3://... that names the file system")
    return SavedRows(rows, location.measure_files(names))


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
