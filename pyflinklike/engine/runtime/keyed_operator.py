# SPDX-License-Identifier: Apache-2.0
"""The operator of a keyed function.  It knows no host, and none of the function's methods.

Rule 1: everything that decides *what happens* (the current key, when timers fire) lives in the
operator and its callers; hosts only translate.
Rule 2: nothing here reads a clock, opens a socket or imports Spark.

A host makes one operator for a task by `keyed_process_operator`, and opens it.  Then for each key
group come these steps (`serve` takes them all):

    load      point the operator at the group's working state
    process   records, in order
    advance   the watermark or the processing time, which fires timers
    commit    log what changed

The outputs are gathered until the host takes them.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable
from typing import Any

from pyflinklike.api.metrics import Increment, MetricIncrements
from pyflinklike.clock import MAX_WATERMARK, Clock
from pyflinklike.errors import PyflinklikeError, StateValueError
from pyflinklike.log.storage import NO_TIMES, Head, HeadTimes, LogStorage
from pyflinklike.log.working_state import WorkingState
from pyflinklike.runtime.broadcast import BroadcastCalls
from pyflinklike.runtime.broadcast_states import BroadcastStates
from pyflinklike.runtime.caller import Caller
from pyflinklike.runtime.cleanup import StateCleanup
from pyflinklike.runtime.contexts import OperatorRuntimeContext, TaskInfo
from pyflinklike.runtime.counters import OperatorMetrics
from pyflinklike.runtime.current_group import CurrentGroup
from pyflinklike.runtime.declared_states import declared_states
from pyflinklike.runtime.extension import Extension
from pyflinklike.runtime.outputs import TimedOutputs
from pyflinklike.runtime.timer_queue import Timers
from pyflinklike.runtime.timers import TimerQueues
from pyflinklike.state.current_key import NO_KEY

__all__ = ["KeyedProcessOperator"]


class KeyedProcessOperator:
    """Runs one function over the key groups of one task; `keyed_process_operator` makes it.

    Args:
        clock: Holds both times, which the host moves.
        group: Makes key groups current.
        timers: Holds the timer queues of both domains.
        calls: Calls the function.
        stores: The extension that flushes and closes with the operator.
        cleanup: Deletes expired entries.
        runtime_context: The context that the function is opened with.
        metrics: The numbers for the host.
    """

    def __init__(
        self,
        clock: Clock,
        group: CurrentGroup,
        timers: TimerQueues,
        calls: Caller,
        stores: Extension,
        cleanup: StateCleanup,
        runtime_context: OperatorRuntimeContext,
        metrics: OperatorMetrics,
    ) -> None:
        self.clock = clock
        self.group = group
        self.timers = timers
        self.event_timers, self.processing_timers = timers.queues
        self.stores = stores
        self.cleanup = cleanup
        self.runtime_context = runtime_context
        self.metrics = metrics
        self._user_metrics = MetricIncrements(runtime_context.get_metrics_group())
        self.backend = group.backend
        self.current = group.backend.current
        self._calls = calls
        self._broadcast = calls if isinstance(calls, BroadcastCalls) else None
        self.function = calls.function
        self.key_type = calls.key_type
        self.outputs = calls.outputs
        """The outputs that the host has not taken yet."""
        is_timed = isinstance(calls.outputs, TimedOutputs)
        self.process = self._process_each if is_timed else calls.process
        """Process records of the current group: `Caller.process`."""
        self.process_one = calls.one_by_one()
        """Process one record: `Caller.one_by_one`."""

    def _process_each(
        self, keys: Iterable[Any], values: Iterable[Any], timestamps: Iterable[int | None]
    ) -> None:
        """Process records one by one, since each output needs the time of its record."""
        process_one = self.process_one
        for key, value, timestamp in zip(keys, values, timestamps):
            process_one(key, value, timestamp)

    def process_broadcast(self, elements: Iterable[tuple[Any, int | None]]) -> None:
        """Process elements of the broadcast input; every key group of a task gets the same.

        Args:
            elements: In order, with their event times in ms.

        Raises:
            UserFunctionError: The function raised.
        """
        assert self._broadcast is not None, "a function that has a broadcast input"
        self._broadcast.process_broadcast(self.group.state.index, elements)

    @property
    def broadcast_states(self) -> BroadcastStates:
        """The broadcast states of the operator."""
        assert self._broadcast is not None, "a function that has a broadcast input"
        return self._broadcast.states

    # The function

    def open(self) -> None:
        """Open the function, which declares its states.

        Raises:
            UserFunctionError: The function raised.
        """
        try:
            self._calls.open(self.runtime_context)
        except PyflinklikeError:
            self.backend.close()
            raise

    def close(self) -> None:
        """Close the function, and release the state.

        Raises:
            UserFunctionError: The function raised.
        """
        try:
            self._calls.close()
        finally:
            self.stores.close()
            self.backend.close()

    def abandon(self) -> None:
        """Close after a failure, without another error: the caller raises the failure itself.

        As in Flink, a function is closed whether its task succeeds or not.
        """
        with contextlib.suppress(PyflinklikeError):
            self.close()

    def rest(self) -> None:
        """Release what belongs to the task; the function stays open for the next one.

        Raises:
            HostError: The working state could not be put aside.
        """
        self.group.leave()
        self.end_task()
        self.backend.release()

    def end_task(self) -> None:
        """Forget the broadcast elements of this task: the next task gets other ones."""
        if self._broadcast is not None:
            self._broadcast.rest()

    def resume(self, task: TaskInfo, owner: str) -> None:
        """Begin another task with the function that is open.

        Args:
            task: The task to serve now.
            owner: The name under which the backend keeps working state, as at assembly.
        """
        self.runtime_context.resume(task)
        self.backend.owner = owner
        self._user_metrics.begin()

    def serves(self, task: TaskInfo) -> bool:
        """Return whether the open function can serve a task: its earlier answers must hold there."""
        return self.runtime_context.fits(task)

    def told(self) -> tuple[tuple[str, int], ...]:
        """Return the fields of the task that the open function has asked for, with their values."""
        return tuple(sorted(self.runtime_context.told.items()))

    def declared(self) -> dict[str, dict[str, Any]]:
        """Describe the declared states and stores by name, as plain data."""
        states = declared_states(self.group.specs, self.runtime_context.assembled)
        return {**states, **self.stores.declared()}

    # Key groups

    def where(self, index: int) -> str:
        """Name a key group for messages."""
        return self.group.where(index)

    def load(
        self, storage: LogStorage, head: Head | None, state: WorkingState | int
    ) -> WorkingState:
        """Make a key group current, brought up to its head: `CurrentGroup.load`."""
        return self.group.load(storage, head, state)

    def enter(self, state: WorkingState) -> None:
        """Make a key group current, with its working state as it is."""
        self.group.enter(state)

    def commit(
        self,
        storage: LogStorage,
        head: Head | None,
        times: HeadTimes = NO_TIMES,
    ) -> Head | None:
        """End the micro-batch of the current group: log the changes, and return the new head.

        Args:
            storage: The host's storage of that group.
            head: The head that the storage has; None without one.
            times: The times to note in the head.

        Returns:
            None if nothing is stored for the group.
        """
        # Before the log, since stores write what they have cached; this may add outputs, too.
        self.stores.flush()
        head = self.group.commit(storage, head, times)
        timers = self.event_timers.count() + self.processing_timers.count()
        self.metrics.timers += timers
        self.metrics.live_entries += self.backend.count() - timers
        self.metrics.state_bytes += head.log_bytes if head is not None else 0
        return head

    def keep_warm(self) -> None:
        """Let the backend keep the current group, once nothing of the batch can fail here."""
        self.group.keep_warm()

    def snapshot(self) -> bytes:
        """Return the current group as one segment, without a change of the working state."""
        return self.group.snapshot(map(self.cleanup.without_expired, self.backend.contents()))

    def take_metrics(self) -> tuple[list[int], list[Increment]]:
        """Return the numbers since the last call: the operator's own, and the user's metrics.

        Raises:
            UserFunctionError: A gauge of the user raised.
        """
        self.metrics.expired_entries = self.cleanup.take_expired()
        return self.metrics.take(), self._user_metrics.take()

    # Time

    def advance_watermark(self, watermark: int) -> None:
        """Set the watermark in ms, and fire due event timers."""
        self.clock.watermark = watermark
        self._calls.fire(self.event_timers, watermark)

    def advance_processing_time(self, processing_time: int) -> None:
        """Set the processing time in ms, and fire due processing timers."""
        self.clock.processing_time = processing_time
        self._calls.fire(self.processing_timers, processing_time)

    def fire_due_timers(self) -> None:
        """Fire the timers that are due at the present times, event timers first."""
        self._calls.fire(self.event_timers, self.clock.watermark)
        self._calls.fire(self.processing_timers, self.clock.processing_time)

    def end_batch(self) -> None:
        """End the current group's input in batch mode: every timer fires, whatever its time.

        As in Flink's `BatchExecutionInternalTimeService` the watermark goes to `MAX_WATERMARK`,
        which fires event timers; then processing timers fire, while the processing time stands
        still.  Processing timers that `on_timer` registers are ignored with a warning.  Event timers
        that it registers fire, as at the end of a stream; Flink's batches ignore them, too.

        Raises:
            UserFunctionError: The function raised.
        """
        queue = self.processing_timers
        queue.is_quiesced, queue.has_ignored = True, False
        try:
            self.advance_watermark(MAX_WATERMARK)
            self._calls.fire(queue, MAX_WATERMARK)
            self._calls.fire(self.event_timers, MAX_WATERMARK)  # registered by processing timers
        finally:
            queue.is_quiesced = False
        if queue.has_ignored:  # without a number in its text Python shows the warning only once
            warnings.warn(
                f"{self._calls.name()}: a processing-time timer that is registered while timers fire "
                "at the end of a batch is ignored, as in Flink, got such timers; where "
                "ctx.timer_service().current_watermark() is MAX_WATERMARK, yield at once what the "
                "timer would have given",
                stacklevel=2,
            )

    def end_stream(self) -> None:
        """Warn if the current group has processing timers left when a stream has ended.

        As in Flink's streaming mode, they never fire.
        """
        if self.processing_timers.count():
            warnings.warn(
                f"{self._calls.name()}: processing-time timers do not fire when the input of a job "
                f"in streaming mode ends before their time, as in Flink, got "
                f"{self.processing_timers.count():,} of them; set execution.runtime-mode to BATCH, "
                "where every timer fires at the end, or register event-time timers",
                stacklevel=2,
            )

    def earliest_timer(self, queue: Timers) -> int | None:
        """Return the time of the earliest timer of the current group in ms, or None."""
        try:
            return queue.earliest()
        finally:
            self.current.key = NO_KEY

    def frozen_key(self, key: Any) -> Any:
        """Freeze a key to the form that tables keep.

        Raises:
            StateValueError: The value is None or cannot be a key.
        """
        if key is None:
            msg = (
                f"{self._calls.name()}: every element needs a key, got None; "
                "filter such elements out, or give them a key of their own"
            )
            raise StateValueError(msg)
        return self.key_type.freeze_key(key)
