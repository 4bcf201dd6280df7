# SPDX-License-Identifier: Apache-2.0
"""What users call to read the state of a query: `list_states`, `read_state` and the like.

The query may be running: only what is committed is read, and all of an answer is of one batch.
Nothing of the program is needed, and nothing is changed.
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
    """The states and stores that a query keeps, also those that nothing was written to yet.

    The query may be running.  A store's helper tables belong to the store and are not listed.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query; or the directory of a savepoint.
        batch_id: After which micro-batch; by default the last committed one.
        operator: Spark's number of a stateful operator, or its uid; by default all of them.
        sizes: Whether to count `entries` and `bytes`, for which the log is read.

    Returns:
        A list, which notebooks show as a table.

    Raises:
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator.
        CorruptStateError: What the operator says of itself is damaged.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    found, saved = StateInfos(), savepoint_at(location_of(checkpoint))
    if saved is not None:
        return saved_states(saved, batch_id, operator, sizes=sizes)
    for state in checkpoint_states(spark, location_of(checkpoint), operator, batch_id):
        found += sized(state) if sizes else described(state.record, state.operator_id)
    return found


def sized(state: CheckpointState) -> StateInfos:
    """The states of an operator with their sizes, for which its log is read."""
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
    """The entries of a state or store, a row each; one of a map or list has several under a key.

    The query may be running.  The batch is fixed by the call, and read by actions on the result.

    Columns: the key columns of the stream; `namespace` for state of windows; then of a map
    `user_key`, of a list `position`, of a store `store_key` and `window_start`, `window_end`
    (with duplicates `number`), `session_start`, `session_end`, `valid_from`, `valid_to`,
    `timestamp` or `last_use`; `value`, which of aggregating state is the accumulator; with a
    time-to-live `stamp` (ms), `expires_at` and `alive`; `key_group`.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query; or the directory of a savepoint.
        state: Name of the state or store.
        batch_id: After which micro-batch; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.
        keys: Only of these keys, whose key groups alone are decoded; of several key columns as
            tuples.
        expired: Whether entries are given that the function would not be shown any more.
        now: The time by which that is judged, in ms or as a datetime (in UTC if it has no zone);
            by default the clock of the batch.

    Raises:
        UnknownStateError: There is no such state or operator.
        UnknownBatchError: The batch is not, or no longer, there.
        StateValueError: A key cannot be a value of the key columns.
        CorruptStateError: What the operator says of itself is damaged; what is found when the
            rows are read is in the message of Spark's error.
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
    """The entries of a state, as `read_state` gives them; no job is run for it.

    Args:
        found: The operator.
        info: Of the state.
        clock: By which it is judged what is expired; None of state that does not expire.
        keys: Only of these keys; None for all.
        expired: Whether entries are given that the function would not be shown any more.

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
    """The argument that names one operator.

    Raises:
        DeclarationTypeError: It is neither a number nor a uid.
    """
    if not is_int(operator) and not isinstance(operator, str):
        msg = f"operator takes Spark's number of an operator or its uid, got {shown(operator)}"
        raise DeclarationTypeError(f"{msg}; list_states() tells both")
    return operator


def _only_group(state: CheckpointState, info: StateInfo) -> int | None:
    """The key group that is read of state which is the same in all."""
    return min(state.roll.served_at, default=None) if info.kind == "broadcast" else None


def _clock(
    state: CheckpointState, info: StateInfo | None, now: datetime | int | None
) -> BatchClock | None:
    if now is not None:
        return clock_at(now)
    return state.clock() if info is None or has_clock(info) else None


def has_clock(info: StateInfo) -> bool:
    """Whether what is read of a state depends on the clock of the batch."""
    return info.ttl is not None or "stream_time" in info.options


def clock_at(now: datetime | int) -> BatchClock:
    """A clock that stands at a time, in ms or as a datetime.

    Raises:
        DeclarationTypeError: It is neither.
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
    """The timers that are registered, a row each.

    Columns: the key columns of the stream; `namespace` for timers of windows; `domain`
    ("event_time" or "processing_time"); `timestamp` (ms) and the same as `time`; `due`, whether
    the clock of the batch had reached it; `key_group`.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query; or the directory of a savepoint.
        batch_id: After which micro-batch; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.
        now: The time by which `due` is judged, in ms or as a datetime; by default the batch's.

    Raises:
        UnknownStateError: There is no such operator.
        UnknownBatchError: The batch is not, or no longer, there.
        CorruptStateError: What the operator says of itself is damaged.
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
    """The timers of an operator, as `read_timers` gives them.

    Args:
        found: The operator.
        clock: By which it is judged what is due.
    """
    return frame_of_groups(found, TimersReader(found.record, clock))
