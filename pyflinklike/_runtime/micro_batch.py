# SPDX-License-Identifier: Apache-2.0
"""The life of a key group in a micro-batch, written once for all hosts.

On a stream each micro-batch takes the same steps (`serve`): load, fire due timers, process the
records, fire the timers that these made due, sweep, commit.  A bounded input is one batch without
a log: the group starts empty (`enter_bounded`), and at its end every timer fires (`end_bounded`).
A host that processes single elements cuts them into `ElementBundles`.

If an operator follows another one, its micro-batch has records of two phases.  Outputs of the other
operator's timers come before the watermark (`PreWatermarkRecords`): as in Flink, a watermark passes
on only after the timers that it made due have fired.  Outputs for records come after the watermark.

The host sets the operator's clock before these steps, and takes the outputs after them.  Once
nothing of the batch can fail, the host calls `operator.cache`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import attrs

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import Head, HeadTimes, LogStorage
from pyflinklike._changelog.segments import Segment
from pyflinklike._clock import MIN_WATERMARK, TimeDomain
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.operator_metrics import OperatorMetrics


class Records(NamedTuple):
    """The records of one key group, in the order to process them; the lists run in parallel.

    Args:
        keys: The keys in their frozen form.
        values: The elements as the function takes them, or pairs with the number of an input.
        timestamps: Event times in ms: None for elements without a time, then ascending.
    """

    keys: Sequence[Hashable]
    values: Sequence[Any]
    timestamps: Sequence[int | None]

    def count_into(self, metrics: OperatorMetrics, watermark: int) -> None:
        """Count the records; those at or below the watermark, in ms, are late."""
        metrics.add_records(self.keys, self.timestamps, watermark)


class UnsortedRecords(Records):
    """Records whose event times are in no particular order."""

    __slots__ = ()

    def count_into(self, metrics: OperatorMetrics, watermark: int) -> None:
        """Count the records, as `Records` does."""
        times = sorted(time for time in self.timestamps if time is not None)
        metrics.add_records(self.keys, times, watermark)


class RecordsAfterBroadcast(Records):
    """Records of a key group behind elements of a broadcast input.

    Args:
        records: The records of the key group, which may be `UnsortedRecords`.
        broadcast: The elements with their event times in ms, in order; every key group of the
            task gets the same.
    """

    records: Records
    broadcast: Sequence[tuple[Any, int | None]]

    def __new__(
        cls, records: Records, broadcast: Sequence[tuple[Any, int | None]]
    ) -> RecordsAfterBroadcast:
        """Make records behind elements of a broadcast input."""
        made = super().__new__(cls, *records)
        made.records, made.broadcast = records, broadcast
        return made

    def count_into(self, metrics: OperatorMetrics, watermark: int) -> None:
        """Count the records, as their own class does."""
        self.records.count_into(metrics, watermark)


NO_RECORDS = Records((), (), ())


class PreWatermarkRecords(NamedTuple):
    """The records of one key group that come before the watermark of their micro-batch.

    Args:
        records: The records in the order to process them.
        watermark: The watermark of the micro-batch before, in ms, which holds for these records.
    """

    records: Records
    watermark: int


NO_PRE_WATERMARK_RECORDS = PreWatermarkRecords(NO_RECORDS, MIN_WATERMARK)


class BatchResult(NamedTuple):
    """A micro-batch that was committed.

    Args:
        former: The head before the micro-batch; None if the key group had no log.
        head: The head after it; None if the key group has no log.
    """

    former: Head | None
    head: Head | None


def _never(operator: KeyedProcessOperator, sweep_at: int | None) -> None:
    """Return no time, for a host that calls a key group only when it has records."""


@attrs.frozen
class TimerScheduling:
    """The times at which a host calls a key group that has no records.

    Args:
        domain: The domain whose time makes the host call; None if it cannot.
        wake_at: Returns when the host must call, in ms, or None; its arguments are the operator
            and the time of the next sweep for expired entries.
    """

    domain: TimeDomain | None = None
    wake_at: Callable[[KeyedProcessOperator, int | None], int | None] = _never


NEVER = TimerScheduling()
"""The host never calls a key group without records."""


def serve(
    operator: KeyedProcessOperator,
    storage: LogStorage,
    state: KeyGroupState | int,
    records: Records = NO_RECORDS,
    *,
    early: PreWatermarkRecords = NO_PRE_WATERMARK_RECORDS,
    waking: TimerScheduling = NEVER,
    served_at: int | None = None,
) -> BatchResult:
    """Serve one key group with one micro-batch.

    Args:
        operator: It must be open, with its clock set.
        storage: The host's storage of the key group.
        state: Working state that the caller has kept, or the index of the key group, to use the
            working state that the backend has cached.
        records: The records that come after the watermark; all if no operator comes before.
        early: The records that come before the watermark.
        waking: When the host calls the key group without records.
        served_at: The time of the micro-batch in ms, to note in the head; None to note none.

    Raises:
        UserFunctionError: The function raised; then the log is as before.
        CorruptStateError, IncompatibleStateError: The log is damaged, or of another operator.
    """
    index = state if isinstance(state, int) else state.index
    head = storage.read_head(operator.group.where(index))
    operator.load(storage, head, state)
    call(operator, records, early)
    return commit(operator, storage, head, waking=waking, served_at=served_at)


def begin(
    operator: KeyedProcessOperator,
    storage: LogStorage,
    index: int,
    snapshot: Segment,
    *,
    waking: TimerScheduling = NEVER,
    served_at: int | None = None,
) -> BatchResult | None:
    """Add a snapshot of a savepoint to a key group, in the first micro-batch of a stream.

    A savepoint may hold a key group in several snapshots, but no entry twice.  Each snapshot takes
    one call, which commits the added entries.

    Args:
        operator: It must be open, with its clock set.
        storage: The host's storage of the key group.
        index: The number of the key group.
        snapshot: One snapshot of the key group.
        waking: When the host calls the key group without records.
        served_at: The time of the micro-batch in ms, to note in the head; None to note none.

    Returns:
        None if the log is of another micro-batch.  Then it is newer than the savepoint and stays
        as it is.

    Raises:
        IncompatibleStateError: A state was written under another declaration.
    """
    where = operator.group.where(index)
    head = storage.read_head(where)
    if head is not None and head.served_at != served_at:
        return None
    operator.load(storage, head, index)
    operator.group.add(snapshot, f"savepoint, key group {index}")
    return commit(operator, storage, head, waking=waking, served_at=served_at)


def call(
    operator: KeyedProcessOperator,
    records: Records,
    early: PreWatermarkRecords = NO_PRE_WATERMARK_RECORDS,
) -> None:
    """Fire due timers, process the records, and fire the timers that these made due.

    Raises:
        UserFunctionError: The function raised.
    """
    # Under the watermark of the micro-batch before, since at the new watermark they would be late.
    if early.records.keys or isinstance(early.records, RecordsAfterBroadcast):
        clock = operator.clock
        watermark, clock.watermark = clock.watermark, early.watermark
        _process(operator, early.records)
        clock.watermark = watermark
    # The watermark passes on after the timers that it made due, so their outputs are before it.
    operator.fire_due_timers()
    operator.outputs.watermark_passes()
    _process(operator, records)
    # A timer never fires inside its registration: timers of the records fire now if they are due.
    if records.keys:
        operator.fire_due_timers()


def _process(operator: KeyedProcessOperator, records: Records) -> None:
    if isinstance(records, RecordsAfterBroadcast):
        operator.process_broadcast(records.broadcast)
    if records.keys:
        records.count_into(operator.metrics, operator.clock.watermark)
        operator.backend.expect(records.keys)
        operator.process(*records)


def commit(
    operator: KeyedProcessOperator,
    storage: LogStorage,
    head: Head | None,
    *,
    waking: TimerScheduling = NEVER,
    served_at: int | None = None,
) -> BatchResult:
    """Delete expired entries if it is time to, and log the changes of the current key group.

    Args:
        operator: The operator whose current key group is committed.
        storage: The host's storage of the key group.
        head: The head that the storage has; None without one.
        waking: When the host calls the key group without records.
        served_at: The time of the micro-batch in ms, to note in the head; None to note none.
    """
    sweep_at = None
    # Before the commit, so that its segment has the deletions.
    if waking.domain is not None:
        sweep_at = operator.cleanup.sweep(waking.domain, head.sweep_at if head else None)
    wake_at = waking.wake_at(operator, sweep_at)
    return BatchResult(
        head, operator.commit(storage, head, HeadTimes(wake_at, sweep_at, served_at))
    )


def enter_bounded(operator: KeyedProcessOperator, index: int, processing_time: int) -> None:
    """Begin a key group of a bounded input: without state, at `MIN_WATERMARK`.

    Args:
        operator: It must be open.
        index: The number of the key group.
        processing_time: The time in ms for all records of the key group.
    """
    operator.clock.watermark = MIN_WATERMARK
    operator.clock.processing_time = processing_time
    operator.group.enter(KeyGroupState(index))


def end_bounded(operator: KeyedProcessOperator) -> None:
    """End a bounded input: fire all event timers, then all processing timers, as in Flink.

    Raises:
        UserFunctionError: The function raised.
    """
    operator.end_batch()
    operator.flush()


# As many as make the cost of the disk small for each; few enough to keep a bundle in memory.
_BUNDLE = 1_000
"""The number of elements and timers after which a bundle ends by itself."""


class ElementBundles:
    """Cuts elements into bundles, so that a backend on disk writes and reads it as on a stream.

    A host that processes single elements has no micro-batches; a bundle stands for one.
    """

    def __init__(self, operator: KeyedProcessOperator) -> None:
        self._operator = operator
        self._is_on_disk = operator.backend.is_persistent
        self._processed = 0
        # A backend in memory has nothing to write, so its elements do not pay for the count.
        self.process_one = self._process_counted if self._is_on_disk else operator.process_one
        """Process one element: `FunctionInvoker.one_by_one`."""

    def _process_counted(self, key: Any, value: Any, timestamp: int | None) -> None:
        self._operator.process_one(key, value, timestamp)
        self._processed += 1
        if self._processed >= _BUNDLE:
            self.end()

    def flush_after_move(self, timers: int) -> None:
        """Flush the stores after a clock has moved; end the bundle only if it has grown full.

        Args:
            timers: The number of timers that the move fired.

        Raises:
            SparkSetupError: The bundle ended, and the backend cannot keep it.
        """
        self._processed += timers
        # Tests move clocks all the time.  If each move wrote to the disk and opened it again, it
        # would take ten times as long.
        if self._is_on_disk and self._processed >= _BUNDLE:
            self.end()
        else:
            self._operator.flush()

    def end(self) -> None:
        """End the bundle: flush the stores, and let the backend keep the working state.

        Raises:
            SparkSetupError: The backend cannot keep it on the local disk.
        """
        self._processed = 0
        self._operator.flush()
        if self._is_on_disk:
            self._operator.group.settle()
