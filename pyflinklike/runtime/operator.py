# SPDX-License-Identifier: Apache-2.0
"""The runtime of a `KeyedProcessFunction`.  This file knows no host.

Rule 1: everything that decides *what happens* (the current key, when timers
fire) lives here and in `calls`; hosts translate and nothing more.
Rule 2: nothing here reads a clock, opens a socket or imports Spark.

A host makes one operator per task, opens it, and then, for each key group:

    load      point the operator at the group's working state
    process   records, in order
    advance   the watermark or the processing time, which fires timers
    commit    log what changed

What the function yields is gathered until the host takes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyflinklike.api.metrics import Increment, MetricIncrements
from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.backends.base import StateBackend
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.errors import (
    DeclarationValueError,
    LocalStateError,
    PyflinklikeError,
    StateValueError,
)
from pyflinklike.log.backend import LocalStateBackend
from pyflinklike.log.chain import joined
from pyflinklike.log.identity import OperatorIdentity
from pyflinklike.log.key_group_log import KeyGroupLog
from pyflinklike.log.segments import Segment
from pyflinklike.log.storage import Head, LogStorage
from pyflinklike.log.working_state import WorkingState
from pyflinklike.runtime.calls import FunctionCalls
from pyflinklike.runtime.cleanup import StateCleanup
from pyflinklike.runtime.contexts import CallContext, OperatorRuntimeContext, TaskInfo
from pyflinklike.runtime.counters import OperatorMetrics
from pyflinklike.runtime.declared_states import declared_states
from pyflinklike.runtime.timers import KeyedTimerService, TimerQueue
from pyflinklike.state.table import NO_KEY, Scope, TableChanges, TableSpec
from pyflinklike.stores.context import StoreContext
from pyflinklike.stores.registry import StoreRegistry
from pyflinklike.types import TypeInformation
from pyflinklike.types.pickle_switch import ALLOW_PICKLE, check_pickled

__all__ = ["KeyedProcessOperator"]


class KeyedProcessOperator:
    """Runs one function over the key groups of one task.

    Args:
        function: The user's.
        state_backend: Where working state is kept.
        key_type: Freezes keys and writes them.
        task: Which task this is.
        owner: Names this operator of this query, whose working state is its own.
        refused_timers: Domains whose timers the host cannot fire, with the remedy.
        allow_pickle: Whether state may be unpickled.

    Raises:
        DeclarationValueError: It may not, and keys or the backend's files would have to be.
    """

    def __init__(
        self,
        function: KeyedProcessFunction,
        state_backend: StateBackend,
        key_type: TypeInformation,
        task: TaskInfo,
        owner: str,
        refused_timers: Mapping[TimeDomain, PyflinklikeError] | None = None,
        *,
        allow_pickle: bool = True,
    ) -> None:
        self._allow_pickle = allow_pickle
        if not allow_pickle:
            check_pickled(f"operator {task.name!r}, keys", key_type)
        self.function = function
        self.key_type = key_type
        self.identity = OperatorIdentity(
            task.name, task.max_parallelism, task.key_columns, key_type.signature
        )
        self.clock = Clock()
        self.scope = Scope()
        self.side_outputs_read: Collection[str] | None = None
        """Ids of the side outputs that the host reads, to be set before `open`; None for all."""
        self.backend = state_backend.create_keyed_state_backend(self.scope, owner)
        # Not asked of each key group: it looks at every method of the protocol.
        self._local = self.backend if isinstance(self.backend, LocalStateBackend) else None
        if not allow_pickle and self.backend.is_persistent:
            self.backend.close()
            msg = (
                f"operator {task.name!r}: nothing is unpickled where allow_pickle is False or "
                f"{ALLOW_PICKLE} is 0, got {state_backend!r}, whose local files hold pickles; use "
                "HashMapStateBackend()"
            )
            raise DeclarationValueError(msg)
        self._specs: list[TableSpec] = []
        self._group: WorkingState | None = None
        self.event_timers = TimerQueue(TimeDomain.EVENT_TIME, self.backend)
        self.processing_timers = TimerQueue(TimeDomain.PROCESSING_TIME, self.backend)
        self._specs += [self.event_timers.table.spec, self.processing_timers.table.spec]
        self.timer_service = KeyedTimerService(
            self.clock,
            self.event_timers,
            self.processing_timers,
            refused_timers or {},
        )
        self.runtime_context = OperatorRuntimeContext(
            task, self.backend, self.clock, self._on_table
        )
        self.metrics = OperatorMetrics()
        context = CallContext(self.clock, self.scope, key_type, self.timer_service)
        self._calls = FunctionCalls(
            function,
            key_type,
            self.scope,
            self.clock,
            context,
            self.runtime_context.before_every_call,
            self.metrics,
        )
        self.process = self._calls.process
        """Process records of the current group: `FunctionCalls.process`."""
        self.process_one = self._calls.process_one
        """Process one: `FunctionCalls.process_one`."""
        self.outputs = self._calls.outputs
        """What was yielded since it was taken."""
        self.runtime_context.stores = self.stores = StoreRegistry(
            StoreContext(
                self.backend,
                self.clock,
                key_type,
                task.name,
                self._on_table,
                lambda tag, value, key: self.outputs.emit_side((tag, value), key),
                self._wants,
                context.timestamp,
                self._position,
            )
        )
        self.cleanup = StateCleanup(self.runtime_context.assembled, self.stores, self.clock)
        self._user_metrics = MetricIncrements(self.runtime_context.get_metrics_group())
        self._log = KeyGroupLog(
            self.backend,
            key_type,
            self.identity,
            self.cleanup,
            self.metrics,
        )

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

    def rest(self) -> None:
        """The task is over and the function stays open: let go of all that belongs to the task.

        Raises:
            HostError: The working state could not be put aside.
        """
        self.enter(WorkingState(0))
        self._group = None
        self.backend.release()

    def resume(self, task: TaskInfo, owner: str) -> None:
        """Begin another task with the function that is open.

        Args:
            task: Which task this is now.
            owner: Whose working state it works on.
        """
        self.runtime_context.serve(task)
        self.backend.owner = owner
        self._user_metrics.begin()

    def bound_to(self) -> int | None:
        """The only subtask whose tasks the open function can serve, or None if it is any."""
        return self.runtime_context.index_told

    def abandon(self) -> None:
        """Close after a failure, which is what the caller is going to tell of.

        As in Flink, a function is closed whether its task succeeds or not.
        """
        with contextlib.suppress(PyflinklikeError):
            self.close()

    def declared_states(self) -> dict[str, dict[str, Any]]:
        """What the function has declared, for the record of the operator."""
        states = self.runtime_context.assembled
        ttls = {name: state.ttl_config for name, state in states.items()}
        return {**declared_states(self._specs, ttls), **self.stores.declared()}

    # Key groups

    def where(self, index: int) -> str:
        """What messages call a key group."""
        return self._log.where(index)

    def load(self, store: LogStorage, head: Head | None, index: int) -> None:
        """Make a key group the current one, brought up to its head.

        Args:
            store: The host's, of that group.
            head: Read from the store.
            index: Of the group.
        """
        try:
            self.load_group(store, head, self.backend.take_warm(index) or WorkingState(index))
        except LocalStateError:
            if head is None:
                raise
            group = self._log.rebuilt(store, head, index)
            self.enter(group)
            self._rebuild_from(store, head, group)

    def load_group(self, store: LogStorage, head: Head | None, group: WorkingState) -> WorkingState:
        """The same from working state that the caller kept; the one now in use."""
        group = self._log.load(store, head, group)
        self.enter(group)
        self._rebuild_from(store, head, group)
        return group

    def _rebuild_from(self, store: LogStorage, head: Head | None, group: WorkingState) -> None:
        """Let the backend rebuild the current group while it is worked on."""
        if head is None or self._local is None:
            return

        def logged() -> Iterator[TableChanges]:
            former = self._log.rebuilt(store, head, group.index)
            for spec in self._specs:
                yield from self._log.restored(former, spec, self._stamp_of(spec))

        self._local.rebuild_from(logged)

    def _rebuild_no_more(self) -> None:
        if self._local is not None:
            self._local.rebuild_from(None)

    def begin(self, store: LogStorage, head: Head | None, snapshot: Segment, index: int) -> None:
        """Add what a savepoint holds of a key group, and make it the current one.

        A savepoint may hold a group in several snapshots, of which no entry is in two.  The
        commit writes the group anew.

        Args:
            store: The host's, of that group.
            head: Read from the store; None but where another snapshot of the group was before.
            snapshot: One of them.
            index: Of the group.

        Raises:
            IncompatibleStateError: A state was written under another declaration.
        """
        group = self._log.load(store, head, self.backend.take_warm(index) or WorkingState(index))
        group.read(snapshot, f"savepoint, key group {index}")
        group.rewrite = True
        self.enter(group)

    def enter(self, group: WorkingState) -> None:
        """Make a key group the current one, as it is."""
        self._rebuild_no_more()
        self._group = group
        self.backend.enter(group.index, group.tables)
        for spec in self._specs:
            self._restore(spec)
        self.event_timers.enter(group.timers)
        self.processing_timers.enter(group.timers)
        for ttl in self.runtime_context.ttl_tables:
            ttl.entered()

    def commit(
        self,
        store: LogStorage,
        head: Head | None,
        wake_at: int | None = None,
        sweep_at: int | None = None,
        served_at: int | None = None,
    ) -> Head | None:
        """Log what changed in the current group; the head now, None where there is none.

        It ends the group's micro-batch: stores flush, which may add to the outputs.

        Args:
            store: The host's, of that group.
            head: Read from the store.
            wake_at: When the host must call even without data, in ms, or None.
            sweep_at: What `cleanup.sweep` returned.
            served_at: Time of the micro-batch in ms, if it has records for the group and the
                host wants that noted.
        """
        assert self._group is not None
        self.stores.flush()
        head = self._log.commit(store, head, self._group, wake_at, sweep_at, served_at)
        self._rebuild_no_more()  # the log is another one now
        timers = self.event_timers.count() + self.processing_timers.count()
        self.metrics.timers += timers
        self.metrics.live_entries += self.backend.count() - timers
        self.metrics.state_bytes += head.log_bytes if head is not None else 0
        return head

    def take_metrics(self) -> tuple[list[int], list[Increment]]:
        """What was counted since the last take: the operator's own numbers, and the user's.

        Raises:
            UserFunctionError: A gauge of the user's raised.
        """
        self.metrics.expired_entries = self.cleanup.take_expired()
        return self.metrics.take(), self._user_metrics.take()

    def keep_warm(self) -> None:
        """Let the backend keep the current group, once nothing of its batch can fail here."""
        assert self._group is not None
        # What is damaged is not kept: the log has it.
        with contextlib.suppress(LocalStateError):
            self.backend.keep_warm(self._group)

    def rewrite(self) -> None:
        """Have the next commit of the current group write all of it, and drop what was before."""
        assert self._group is not None
        self._group.rewrite = True

    def settle(self) -> None:
        """End a batch of the current group for a host without a log, and go on with what is kept.

        Raises:
            HostError: The backend could not keep it.
        """
        assert self._group is not None
        group = self._group
        changed = any(map(len, self.backend.drain()))
        self.backend.keep_warm(group)
        if changed and self._local is not None:
            self._local.release()  # as the end of a task does
        self.enter(self.backend.take_warm(group.index) or group)

    def snapshot(self) -> bytes:
        """The current group as one segment; the working state is left as it is."""
        assert self._group is not None
        contents = [self.cleanup.without_expired(each) for each in self.backend.contents()]
        copy = WorkingState(self._group.index, pending=self._group.pending)
        segments = self._log.snapshot(copy, [each for each in contents if len(each)])
        return joined(segments).to_bytes()

    def _wants(self, tag_id: str) -> bool:
        return self.side_outputs_read is None or tag_id in self.side_outputs_read

    def _position(self) -> dict[int, int]:
        return {} if self._group is None else {self._group.index: self._group.next_sequence}

    def _on_table(self, spec: TableSpec) -> None:
        if not self._allow_pickle:
            check_pickled(f"state {spec.name!r}", spec.value_type, spec.user_key_type)
        self._specs.append(spec)
        if self._group is not None:
            self._restore(spec)

    def _restore(self, spec: TableSpec) -> None:
        assert self._group is not None
        for changes in self._log.restored(self._group, spec, self._stamp_of(spec)):
            self.backend.apply(changes)

    def _stamp_of(self, spec: TableSpec) -> int:
        """For entries that were written before TTL was switched on."""
        assembled = self.runtime_context.assembled.get(spec.name)
        ttl = assembled.ttl if assembled is not None else None
        return ttl.stamp() if ttl is not None else 0

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

    def earliest_timer(self, queue: TimerQueue) -> int | None:
        """The time of the first timer of the current group in ms, or None."""
        try:
            return queue.earliest()
        finally:
            self.scope.key = NO_KEY

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
