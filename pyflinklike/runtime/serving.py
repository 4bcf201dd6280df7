# SPDX-License-Identifier: Apache-2.0
"""The life of a key group, written once for all hosts.

On a stream it is served micro-batch by micro-batch: load, fire what is due, process the records,
fire what they made due, sweep, commit (`serve`).  A bounded input has one life and no log: the
group starts empty (`enter_bounded`), and at its end every timer fires (`end_bounded`).

Behind another operator a micro-batch has records of two phases.  What that operator emitted while
the watermark moved comes before the watermark (`EarlyRecords`), as in Flink, where a watermark
passes on when the timers that it made due have fired; what it emitted for records comes after.

The host sets the operator's clock before, and afterwards takes the outputs.  Once nothing of the
batch can fail any more it lets the backend keep the working state: `operator.keep_warm`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.log.segments import Segment
from pyflinklike.log.storage import Head, HeadTimes, LogStorage
from pyflinklike.log.working_state import WorkingState
from pyflinklike.runtime.counters import OperatorMetrics
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.runtime.waking import NEVER, Waking

__all__ = [
    "NONE_EARLY",
    "NO_RECORDS",
    "EarlyRecords",
    "Records",
    "RecordsAfterBroadcast",
    "Served",
    "UnsortedRecords",
    "begin",
    "call",
    "commit",
    "end_bounded",
    "enter_bounded",
    "serve",
]


class Records(NamedTuple):
    """The records of one key group, in the order to process them; the lists run in parallel.

    Args:
        keys: In their frozen form.
        values: The elements.
        timestamps: Event times in ms, ascending; those of None, where there is none, first.
    """

    keys: Sequence[Hashable]
    values: Sequence[Any]
    timestamps: Sequence[int | None]

    def count_into(self, metrics: OperatorMetrics, watermark: int) -> None:
        """Count the records.

        Args:
            metrics: Of the operator.
            watermark: Now, in ms.
        """
        metrics.add_records(self.keys, self.timestamps, watermark)


class UnsortedRecords(Records):
    """Records whose event times are in no order."""

    __slots__ = ()

    def count_into(self, metrics: OperatorMetrics, watermark: int) -> None:
        """Count the records, as `Records` does."""
        times = sorted(time for time in self.timestamps if time is not None)
        metrics.add_records(self.keys, times, watermark)


class RecordsAfterBroadcast(Records):
    """Records, and elements of a broadcast input that come before them.

    Args:
        records: Of the key group.
        broadcast: The elements with their event times in ms, in order; every key group of the
            task is given the same.
    """

    records: Records
    broadcast: Sequence[tuple[Any, int | None]]

    def __new__(
        cls, records: Records, broadcast: Sequence[tuple[Any, int | None]]
    ) -> RecordsAfterBroadcast:
        """Records behind elements of a broadcast input."""
        made = super().__new__(cls, *records)
        made.records, made.broadcast = records, broadcast
        return made

    def count_into(self, metrics: OperatorMetrics, watermark: int) -> None:
        """Count the records that come behind, in their order."""
        self.records.count_into(metrics, watermark)


NO_RECORDS = Records((), (), ())


class EarlyRecords(NamedTuple):
    """The records of one key group that come before the watermark of their micro-batch.

    Args:
        records: In the order to process them.
        watermark: That of the micro-batch before, in ms, under which they are processed.
    """

    records: Records
    watermark: int


NONE_EARLY = EarlyRecords(NO_RECORDS, MIN_WATERMARK)


class Served(NamedTuple):
    """A micro-batch that was committed.

    Args:
        former: The head before, or None where there was none.
        head: The head now.
    """

    former: Head | None
    head: Head | None


def serve(
    operator: KeyedProcessOperator,
    storage: LogStorage,
    state: WorkingState | int,
    records: Records = NO_RECORDS,
    *,
    early: EarlyRecords = NONE_EARLY,
    waking: Waking = NEVER,
    served_at: int | None = None,
) -> Served:
    """Serve one key group with one micro-batch.

    Args:
        operator: It is open, and its clock is set.
        storage: Of the key group.
        state: Working state that the caller has kept, or the index of the key group for what
            the backend has kept.
        records: Of the micro-batch.
        early: Records of the micro-batch that come before its watermark.
        waking: How the host calls the key group without records.
        served_at: Time of the micro-batch in ms, if the host wants that noted.

    Raises:
        UserFunctionError: The function raised; nothing is committed.
        CorruptStateError, IncompatibleStateError: The log cannot be read as this operator's.
    """
    index = state if isinstance(state, int) else state.index
    head = storage.read_head(operator.where(index))
    operator.load(storage, head, state)
    call(operator, records, early)
    return commit(operator, storage, head, waking=waking, served_at=served_at)


def begin(
    operator: KeyedProcessOperator,
    storage: LogStorage,
    index: int,
    snapshot: Segment,
    *,
    waking: Waking = NEVER,
    served_at: int | None = None,
) -> Served | None:
    """Add what a savepoint holds of a key group, in the first micro-batch of a stream.

    A savepoint may hold a key group in several snapshots, of which no entry is in two; each is
    added by a call of its own, whose commit writes what it has added.

    Args:
        operator: It is open, and its clock is set.
        storage: Of the key group.
        index: Of the key group.
        snapshot: One of them.
        waking: How the host calls the key group without records.
        served_at: Time of the micro-batch in ms, if the host wants that noted.

    Returns:
        None where nothing was done: the log is of another micro-batch, so it is newer than any
        savepoint.

    Raises:
        IncompatibleStateError: A state was written under another declaration.
    """
    where = operator.where(index)
    head = storage.read_head(where)
    if head is not None and head.served_at != served_at:
        return None
    operator.load(storage, head, index)
    operator.group.add(snapshot, f"savepoint, key group {index}")
    return commit(operator, storage, head, waking=waking, served_at=served_at)


def call(
    operator: KeyedProcessOperator, records: Records, early: EarlyRecords = NONE_EARLY
) -> None:
    """Fire what is due, process the records, and fire what they made due.

    So the times of a micro-batch arrive before its records, and again after them if it has any.
    Early records are processed before both, under the watermark before.

    Raises:
        UserFunctionError: The function raised.
    """
    if early.records.keys or isinstance(early.records, RecordsAfterBroadcast):
        clock = operator.clock
        watermark, clock.watermark = clock.watermark, early.watermark
        _process(operator, early.records)
        clock.watermark = watermark
    operator.fire_due_timers()
    operator.outputs.watermark_passes()
    _process(operator, records)
    if records.keys:
        operator.fire_due_timers()


def _process(operator: KeyedProcessOperator, records: Records) -> None:
    if isinstance(records, RecordsAfterBroadcast):
        operator.process_broadcast(records.broadcast)
    if records.keys:
        records.count_into(operator.metrics, operator.clock.watermark)
        operator.process(*records)


def commit(
    operator: KeyedProcessOperator,
    storage: LogStorage,
    head: Head | None,
    *,
    waking: Waking = NEVER,
    served_at: int | None = None,
) -> Served:
    """Delete what has expired if it is time to, and log what changed in the current key group.

    Args:
        operator: Whose current key group.
        storage: Of the key group.
        head: Read from the storage.
        waking: How the host calls the key group without records.
        served_at: Time of the micro-batch in ms, if the host wants that noted.
    """
    sweep_at = None
    if waking.domain is not None:
        sweep_at = operator.cleanup.sweep(waking.domain, head.sweep_at if head else None)
    wake_at = waking.wake_at(operator, sweep_at)
    return Served(head, operator.commit(storage, head, HeadTimes(wake_at, sweep_at, served_at)))


def enter_bounded(operator: KeyedProcessOperator, index: int, processing_time: int) -> None:
    """Begin a key group of a bounded input: without state, before any event.

    Args:
        operator: It is open.
        index: Of the key group.
        processing_time: For all of the key group, in ms.
    """
    operator.clock.watermark = MIN_WATERMARK
    operator.clock.processing_time = processing_time
    operator.enter(WorkingState(index))


def end_bounded(operator: KeyedProcessOperator) -> None:
    """End it: every event timer fires, then every processing timer, as in Flink's batch mode.

    Raises:
        UserFunctionError: The function raised.
    """
    operator.end_batch()
    operator.stores.flush()
