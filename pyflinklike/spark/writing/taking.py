# SPDX-License-Identifier: Apache-2.0
"""The savepoint of a query, which executors write while the query runs on."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from pyflinklike.replay.described import described
from pyflinklike.replay.group import StateReader, TimersReader
from pyflinklike.replay.rows import StateRows
from pyflinklike.savepoints.files import place_of
from pyflinklike.savepoints.manifest import Manifest
from pyflinklike.spark.reading.checkpoint import (
    CheckpointState,
    checkpoint_states,
    location_of,
    offsets_of,
    query_id_of,
)
from pyflinklike.spark.reading.jobs import frame_of_groups
from pyflinklike.spark.wire.watermarks import watermark_of
from pyflinklike.spark.writing.saving import Frames, save

__all__ = ["frames_of", "manifest_of", "take_savepoint"]


def take_savepoint(
    spark: SparkSession,
    checkpoint: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    batch_id: int | None = None,
    operator: int | str | None = None,
    mode: str = "error",
) -> None:
    """Write the state of a query as a directory of Parquet files and a manifest.

    The query may be running; the savepoint is of one batch.  The executors write it, so it may be
    larger than the driver's memory, and all executors must reach its location.  Nothing is
    unpickled.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query.
        path: The directory to write, as a path or as an address that Spark and Arrow both know.
        batch_id: The micro-batch to save; by default the last committed one.
        operator: Spark's number of a stateful operator, or its uid; by default all operators that
            `process` made.
        mode: "error", or "overwrite" to replace a savepoint that is there once the new one is
            whole.

    Raises:
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator.
        DeclarationTypeError, DeclarationValueError: The path or the mode is wrong.
        CorruptStateError: An operator's record, roll or head is damaged.  Damage that is found
            when the log is read is in the message of Spark's error.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    location = location_of(checkpoint)
    states = checkpoint_states(spark, location, operator, batch_id)
    first, *others = states
    if any(each.batch_id != first.batch_id for each in others):
        # A batch was committed meanwhile; all operators must be of the same batch.
        states = checkpoint_states(spark, location, operator, first.batch_id)
    save(place_of(path), [frames_of(each) for each in states], manifest_of(first), mode)


def frames_of(state: CheckpointState) -> Frames:
    """Read all of an operator in the columns of a savepoint."""
    record = state.record
    states = {}
    for info in described(record, state.operator_id):
        # All key groups have the same broadcast state, so a savepoint takes that of one.
        only = min(state.roll.served_at, default=None) if info.kind == "broadcast" else None
        reader = StateReader(StateRows.of(record, info, saved=True), None, only=only)
        states[info.name] = frame_of_groups(state, reader)
    return Frames(record, states, frame_of_groups(state, TimersReader(record, None)))


def manifest_of(state: CheckpointState) -> Manifest:
    """Make the manifest of a savepoint: its batch with the times and offsets of Spark's note."""
    text, times = offsets_of(state.spark, state.location, state.batch_id, state.where)
    # The write fills in the version of the library, the time and the operators.
    return Manifest(
        library="",
        taken_at=0,
        operators=(),
        batch_id=state.batch_id,
        processing_time=times["batchTimestampMs"],
        watermark=watermark_of(times["batchWatermarkMs"]),
        offsets=text,
        query_id=query_id_of(state.spark, state.location),
    )
