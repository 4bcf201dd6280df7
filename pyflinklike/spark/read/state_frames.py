# SPDX-License-Identifier: Apache-2.0
"""The readers of a query's state that users call.

The query may be running: readers see only what is committed, and an answer is of one batch.  They
need nothing of the program and change nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from pyflinklike.checks import is_int
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.replay.clock import BatchClock
from pyflinklike.replay.described import StateInfo, StateInfos, described, owner_of, state_of
from pyflinklike.replay.group import StateReader, TimersReader
from pyflinklike.replay.rows import StateRows
from pyflinklike.replay.segment_rows import SegmentsReader
from pyflinklike.shown import shown
from pyflinklike.spark.reading.checkpoint import (
    CheckpointState,
    checkpoint_states,
    location_of,
    savepoint_at,
)
from pyflinklike.spark.reading.jobs import frame_of_groups
from pyflinklike.spark.reading.keys import wanted_keys
from pyflinklike.spark.reading.saved import (
    saved_entries,
    saved_states,
    saved_timers,
)
from pyflinklike.spark.reading.sources import refusing
from pyflinklike.types.zones import to_instant

__all__ = [
    "Location",
    "clock_at",
    "entries_of",
    "has_clock",
    "list_states",
    "one_operator",
    "read_state",
    "read_timers",
    "registered_of",
    "sized",
]

Location = str | os.PathLike[str]


def list_states(
    spark: SparkSession,
    checkpoint: Location,
    *,
    batch_id: int | None = None,
    operator: int | str | None = None,
    sizes: bool = False,
) -> StateInfos:
    """List the states and stores that a query keeps, also ones to which nothing was written yet.

    The query may be running.  A store's helper tables belong to the store and are not listed.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query, or the directory of a savepoint.
        batch_id: The micro-batch after which state is listed; by default the last committed one.
        operator: Spark's number of a stateful operator, or its uid; by default all operators.
        sizes: Whether to count `entries` and `bytes`, for which the log is read.

    Returns:
        A list, which notebooks show as a table.

    Raises:
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator.
        CorruptStateError: The operator's record, roll or heads are damaged.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    found, saved = StateInfos(), savepoint_at(location_of(checkpoint))
    if saved is not None:
        return saved_states(saved, batch_id, operator, sizes=sizes)
    for state in checkpoint_states(spark, location_of(checkpoint), operator, batch_id):
        found += sized(state) if sizes else described(state.record, state.operator_id)
    return found


def sized(state: CheckpointState) -> StateInfos:
    """List the states of an operator with their sizes, for which its log is read."""
    infos = described(state.record, state.operator_id)
    entries: dict[str, int] = {}
    sizes: dict[str, int] = {}
    with refusing(state.where):
        rows = frame_of_groups(state, SegmentsReader()).select("entries", "entry_bytes").toArrow()
    for name, totals in (("entries", entries), ("entry_bytes", sizes)):
        for counted in rows.column(name).to_pylist():
            for table, number in counted:
                owner = owner_of(table, state.record.states)
                totals[owner] = totals.get(owner, 0) + number
    return StateInfos(
        attrs.evolve(each, entries=entries.get(each.name, 0), bytes=sizes.get(each.name, 0))
        for each in infos
    )


def read_state(
    spark: SparkSession,
    checkpoint: Location,
    state: str,
    *,
    batch_id: int | None = None,
    operator: int | str = 0,
    keys: Iterable[Any] | None = None,
    expired: bool = True,
    now: datetime | int | None = None,
) -> DataFrame:
    """Read the entries of a state or store, a row each; a map or list has several under a key.

    The query may be running.  The call fixes the batch; actions on the result read it.

    Columns: the key columns of the stream; `namespace` for state of windows; then of a map
    `user_key`, of a list `position`, of a store `store_key` and `window_start`, `window_end`
    (with duplicates `number`), `session_start`, `session_end`, `valid_from`, `valid_to`,
    `timestamp` or `last_use`; `value`, which is the accumulator of aggregating state; with a
    time-to-live `stamp` (ms), `expires_at` and `alive`; `key_group`.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query, or the directory of a savepoint.
        state: The name of the state or store.
        batch_id: The micro-batch after which state is read; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.
        keys: The keys to read, as tuples if there are several key columns; only their key groups
            are decoded.  By default all.
        expired: Whether to include entries that the function would no longer be shown.
        now: The time by which entries are expired, in ms or as a datetime (in UTC if it has no
            zone); by default the clock of the batch.

    Raises:
        UnknownStateError: There is no such state or operator.
        UnknownBatchError: The batch is not, or no longer, there.
        StateValueError: A key cannot be a value of the key columns.
        CorruptStateError: The operator's record, roll or heads are damaged.  Damage that is found
            when rows are read is in the message of Spark's error.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    operator, saved = one_operator(operator), savepoint_at(location_of(checkpoint))
    if saved is not None:
        return saved_entries(
            spark,
            saved,
            state,
            batch_id=batch_id,
            operator=operator,
            keys=keys,
            expired=expired,
            now=None if now is None else clock_at(now),
        )
    (found,) = checkpoint_states(spark, location_of(checkpoint), operator, batch_id)
    info = state_of(described(found.record, found.operator_id), state, found.where)
    clock = _clock(found, info, now)
    return entries_of(found, info, clock, keys=keys, expired=expired)


def entries_of(
    found: CheckpointState,
    info: StateInfo,
    clock: BatchClock | None,
    *,
    keys: Iterable[Any] | None = None,
    expired: bool = True,
) -> DataFrame:
    """Read the entries of a state, as `read_state` does.

    Args:
        found: The operator after a micro-batch.
        info: The description of the state.
        clock: Tells which entries are expired; None for state that does not expire.
        keys: The keys to read, for whose hashes a job of Spark may run; None for all.
        expired: Whether to include entries that the function would no longer be shown.

    Raises:
        StateValueError: A key cannot be a value of the key columns.
    """
    wanted = (
        None
        if keys is None or info.key_type is None
        else wanted_keys(found.spark, found.record, keys)
    )
    reader = StateReader(
        StateRows.of(found.record, info),
        clock,
        expired,
        None if wanted is None else wanted.stored,
        _only_group(found, info),
    )
    return frame_of_groups(found, reader, None if wanted is None else wanted.groups)


def one_operator(operator: int | str) -> int | str:
    """Return the argument that names one operator.

    Raises:
        DeclarationTypeError: `operator` is neither a number nor a uid.
    """
    if not is_int(operator) and not isinstance(operator, str):
        msg = f"operator takes Spark's number of an operator or its uid, got {shown(operator)}"
        raise DeclarationTypeError(f"{msg}; list_states() tells both")
    return operator


def _only_group(state: CheckpointState, info: StateInfo) -> int | None:
    """Return the key group to read of broadcast state, which is the same in all; None for all."""
    return min(state.roll.served_at, default=None) if info.kind == "broadcast" else None


def _clock(
    state: CheckpointState, info: StateInfo | None, now: datetime | int | None
) -> BatchClock | None:
    if now is not None:
        return clock_at(now)
    return state.clock() if info is None or has_clock(info) else None


def has_clock(info: StateInfo) -> bool:
    """Return whether the rows of a state depend on the clock of the batch."""
    return info.ttl is not None or "stream_time" in info.options


def clock_at(now: datetime | int) -> BatchClock:
    """Make a clock that stands at a time, in ms or as a datetime.

    Raises:
        DeclarationTypeError: `now` is neither.
    """
    if isinstance(now, datetime):
        milliseconds = int(to_instant(now, "UTC").timestamp() * 1000)
    elif is_int(now):
        milliseconds = now
    else:
        msg = (
            f"now takes a datetime or an int of ms, got {shown(now)}; leave it out for the batch's"
        )
        raise DeclarationTypeError(msg)
    return BatchClock(milliseconds, milliseconds)


def read_timers(
    spark: SparkSession,
    checkpoint: Location,
    *,
    batch_id: int | None = None,
    operator: int | str = 0,
    now: datetime | int | None = None,
) -> DataFrame:
    """Read the registered timers, a row each.

    Columns: the key columns of the stream; `namespace` for timers of windows; `domain`
    ("event_time" or "processing_time"); `timestamp` (ms) and the same instant as `time`; `due`,
    whether the clock of the batch had reached it; `key_group`.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query, or the directory of a savepoint.
        batch_id: The micro-batch after which timers are read; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.
        now: The time by which timers are `due`, in ms or as a datetime (in UTC if it has no zone);
            by default the clock of the batch.

    Raises:
        UnknownStateError: There is no such operator.
        UnknownBatchError: The batch is not, or no longer, there.
        CorruptStateError: The operator's record, roll or heads are damaged.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    operator, saved = one_operator(operator), savepoint_at(location_of(checkpoint))
    if saved is not None:
        given = None if now is None else clock_at(now)
        return saved_timers(spark, saved, batch_id=batch_id, operator=operator, now=given)
    (found,) = checkpoint_states(spark, location_of(checkpoint), operator, batch_id)
    clock = _clock(found, None, now)
    assert clock is not None
    return registered_of(found, clock)


def registered_of(found: CheckpointState, clock: BatchClock) -> DataFrame:
    """Read the timers of an operator, as `read_timers` does.

    Args:
        found: The operator after a micro-batch.
        clock: Tells which timers are due.
    """
    return frame_of_groups(found, TimersReader(found.record, clock))
