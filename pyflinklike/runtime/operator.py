# SPDX-License-Identifier: Apache-2.0
"""The runtime of a keyed function.  This file knows no host, and not the function's methods.

Rule 1: everything that decides *what happens* (the current key, when timers
fire) lives here and in the callers (`caller`); hosts translate and nothing more.
Rule 2: nothing here reads a clock, opens a socket or imports Spark.

A host has `runtime.assembly` make one operator per task, opens it, and then, for each key group
(`runtime.serving` does all of it):

    load      point the operator at the group's working state
    process   records, in order
    advance   the watermark or the processing time, which fires timers
    commit    log what changed

What the function yields is gathered until the host takes it.
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
        clock: Its host assigns to it.
        group: Makes key groups current.
        timers: Of both domains.
        calls: Call the function.
        stores: Join the operator.
        cleanup: Of the states.
        runtime_context: What the function is opened with.
        metrics: What is counted.
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
        """What was yielded since it was taken."""
        is_timed = isinstance(calls.outputs, TimedOutputs)
        self.process = self._process_each if is_timed else calls.process
        """Process records of the current group: `Caller.process`."""
        self.process_one = calls.one_by_one()
        """Process one: `Caller.one_by_one`."""

    def _process_each(
        self, keys: Iterable[Any], values: Iterable[Any], timestamps: Iterable[int | None]
    ) -> None:
        """Process records one by one, as outputs with times need it."""
        process_one = self.process_one
        for key, value, timestamp in zip(keys, values, timestamps):
            process_one(key, value, timestamp)

    def process_broadcast(self, elements: Iterable[tuple[Any, int | None]]) -> None:
        """Process elements of the broadcast input, which every key group of a task is given.

        Args:
            elements: In order, with their event times in ms.

        Raises:
            UserFunctionError: The function raised.
        """
        assert self._broadcast is not None, "a function that has a broadcast input"
        self._broadcast.process_broadcast(self.group.state.index, elements)

    @property
    def broadcast_states(self) -> BroadcastStates:
        """Those of the broadcast input."""
        assert self._broadcast is not None, "a function that has a broadcast input"
        return self._broadcast.states

    # The function

    def open(self) -> None:
        """Open the function; it declares its states.

        Raises:
            UserFunctionError: The function raised.
        """
        try:
            self._calls.open(self.runtime_context)
        except PyflinklikeError:
            self.backend.close()
            raise

    def close(self) -> None:
        """Close the function and let go of the state.

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
        """The task is over and the function stays open: let go of all that belongs to the task.

        Raises:
            HostError: The working state could not be put aside.
        """
        self.group.leave()
        self.end_task()
        self.backend.release()

    def end_task(self) -> None:
        """The next elements of a broadcast input are others than those of the other key groups."""
        if self._broadcast is not None:
            self._broadcast.rest()

    def resume(self, task: TaskInfo, owner: str) -> None:
        """Begin another task with the function that is open.

        Args:
            task: Which task this is now.
            owner: Whose working state it works on.
        """
        self.runtime_context.resume(task)
        self.backend.owner = owner
        self._user_metrics.begin()

    def serves(self, task: TaskInfo) -> bool:
        """Whether the open function can serve a task: what it has asked of its own must be so."""
        return self.runtime_context.fits(task)

    def told(self) -> tuple[tuple[str, int], ...]:
        """What the open function has asked of its task."""
        return tuple(sorted(self.runtime_context.told.items()))

    def declared(self) -> dict[str, dict[str, Any]]:
        """The states and stores that the function has declared, by name, as plain data."""
        states = declared_states(self.group.specs, self.runtime_context.assembled)
        return {**states, **self.stores.declared()}

    # Key groups

    def where(self, index: int) -> str:
        """What messages call a key group."""
        return self.group.where(index)

    def load(
        self, storage: LogStorage, head: Head | None, state: WorkingState | int
    ) -> WorkingState:
        """Make a key group current, brought up to its head: `CurrentGroup.load`."""
        return self.group.load(storage, head, state)

    def enter(self, state: WorkingState) -> None:
        """Make a key group current, as its working state is."""
        self.group.enter(state)

    def commit(
        self,
        storage: LogStorage,
        head: Head | None,
        times: HeadTimes = NO_TIMES,
    ) -> Head | None:
        """Log what changed in the current group; the head now, None where there is none.

        It ends the group's micro-batch: stores flush, which may add to the outputs.

        Args:
            storage: The host's, of that group.
            head: Read from the storage.
            times: To be noted in the head.
        """
        self.stores.flush()
        head = self.group.commit(storage, head, times)
        timers = self.event_timers.count() + self.processing_timers.count()
        self.metrics.timers += timers
        self.metrics.live_entries += self.backend.count() - timers
        self.metrics.state_bytes += head.log_bytes if head is not None else 0
        return head

    def keep_warm(self) -> None:
        """Let the backend keep the current group, once nothing of its batch can fail here."""
        self.group.keep_warm()

    def snapshot(self) -> bytes:
        """The current group as one segment; the working state is left as it is."""
        return self.group.snapshot(map(self.cleanup.without_expired, self.backend.contents()))

    def take_metrics(self) -> tuple[list[int], list[Increment]]:
        """What was counted since the last take: the operator's own numbers, and the user's.

        Raises:
            UserFunctionError: A gauge of the user's raised.
        """
        self.metrics.expired_entries = self.cleanup.take_expired()
        return self.metrics.take(), self._user_metrics.take()

    # Time

    def advance_watermark(self, watermark: int) -> None:
        """Set the watermark in ms and fire the event timers that are due."""
        self.clock.watermark = watermark
        self._calls.fire(self.event_timers, watermark)

    def advance_processing_time(self, processing_time: int) -> None:
        """Set the processing time in ms and fire the processing timers that are due."""
        self.clock.processing_time = processing_time
        self._calls.fire(self.processing_timers, processing_time)

    def fire_due_timers(self) -> None:
        """Have both clocks arrive where they stand: fire what is due, event timers first."""
        self._calls.fire(self.event_timers, self.clock.watermark)
        self._calls.fire(self.processing_timers, self.clock.processing_time)

    def end_batch(self) -> None:
        """End the current group's input in batch mode: every timer fires, whatever its time.

        As Flink's `BatchExecutionInternalTimeService`: the watermark goes to `MAX_WATERMARK`, which
        fires event timers; then processing timers fire, and the processing time stands still.
        Processing timers that `on_timer` registers are ignored with a warning.  Event timers that it
        registers fire, as at the end of a stream; Flink's batches ignore them, too.

        Raises:
            UserFunctionError: The function raised.
        """
        queue = self.processing_timers
        queue.is_quiesced, queue.has_ignored = True, False
        try:
            self.advance_watermark(MAX_WATERMARK)
            self._calls.fire(queue, MAX_WATERMARK)
            self._calls.fire(self.event_timers, MAX_WATERMARK)  # of these processing timers
        finally:
            queue.is_quiesced = False
        if queue.has_ignored:  # said without a number, so that it is said once in a process
            warnings.warn(
                f"{self._calls.name()}: a processing-time timer that is registered while timers fire "
                "at the end of a batch is ignored, as in Flink, got such timers; where "
                "ctx.timer_service().current_watermark() is MAX_WATERMARK, yield at once what the "
                "timer would have given",
                stacklevel=2,
            )

    def end_stream(self) -> None:
        """Warn where the current group keeps processing timers although a stream has ended.

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
        """The time of the first timer of the current group in ms, or None."""
        try:
            return queue.earliest()
        finally:
            self.current.key = NO_KEY

    def frozen_key(self, key: Any) -> Any:
        """A key in the form that tables keep.

        Raises:
            StateValueError: It is None or cannot be a key.
        """
        if key is None:
            msg = (
                f"{self._calls.name()}: every element needs a key, got None; "
                "filter such elements out, or give them a key of their own"
            )
            raise StateValueError(msg)
        return self.key_type.freeze_key(key)
