# SPDX-License-Identifier: Apache-2.0
"""The runtime of a `KeyedProcessFunction`.  This file knows no host.

Rule 1: everything that decides *what happens* (the current key, when timers
fire, what a failure says) lives here; hosts translate and nothing more.
Rule 2: nothing here reads a clock, opens a socket or imports Spark.

A host makes one operator per task, opens it, and then, for each key group:

    load      point the operator at the group's working state
    process   records, in order
    advance   the watermark or the processing time, which fires timers
    commit    log what changed

What the function yields is gathered in `outputs` until the host takes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from types import GeneratorType
from typing import Any

from pyflinklike.backends.base import StateBackend
from pyflinklike.call_context import CallContext
from pyflinklike.changelog import Segment
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.errors import (
    PyflinklikeError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.functions import KeyedProcessFunction, OutputTag
from pyflinklike.group_log import KeyGroupLog
from pyflinklike.group_store import GroupStore, Head
from pyflinklike.key_group import KeyGroup
from pyflinklike.metrics import Increment, MetricIncrements
from pyflinklike.operator_metrics import OperatorMetrics
from pyflinklike.outputs import Outputs, check_results
from pyflinklike.runtime_context import OperatorRuntimeContext, TaskInfo
from pyflinklike.state_cleanup import StateCleanup
from pyflinklike.stores.context import StoreContext
from pyflinklike.stores.registry import StoreRegistry
from pyflinklike.table import NO_KEY, Scope, TableSpec
from pyflinklike.timers import KeyedTimerService, TimerQueue
from pyflinklike.types import TypeInformation

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
    """

    def __init__(
        self,
        function: KeyedProcessFunction,
        state_backend: StateBackend,
        key_type: TypeInformation,
        task: TaskInfo,
        owner: str,
        refused_timers: Mapping[TimeDomain, PyflinklikeError] | None = None,
    ) -> None:
        self.function = function
        self.key_type = key_type
        self.clock = Clock()
        self.scope = Scope()
        self.outputs = Outputs()
        self.side_outputs_read: Collection[str] | None = None
        """Ids of the side outputs that the host reads, to be set before `open`; None for all."""
        self.backend = state_backend.create_keyed_state_backend(self.scope, owner)
        self._specs: list[TableSpec] = []
        self._group: KeyGroup | None = None
        self.event_timers = TimerQueue(TimeDomain.EVENT_TIME, self.backend)
        self.processing_timers = TimerQueue(TimeDomain.PROCESSING_TIME, self.backend)
        self._specs += [self.event_timers.table.spec, self.processing_timers.table.spec]
        self._refused_timers = refused_timers or {}
        self.timer_service = KeyedTimerService(
            self.clock,
            self.event_timers,
            self.processing_timers,
            self._check_timer if refused_timers else None,
        )
        self.runtime_context = OperatorRuntimeContext(
            task, self.backend, self.clock, self._on_table
        )
        self._context = CallContext(self.clock, self.scope, key_type, self.timer_service)
        self.runtime_context.stores = self.stores = StoreRegistry(
            StoreContext(
                self.backend,
                self.clock,
                key_type,
                task.name,
                self._on_table,
                lambda tag, value, key: self.outputs.emit_side((tag, value), key),
                self._wants,
                self._context.timestamp,
                self._position,
            )
        )
        self.cleanup = StateCleanup(self.runtime_context.assembled, self.stores, self.clock)
        self.metrics = OperatorMetrics()
        self._user_metrics = MetricIncrements(self.runtime_context.get_metrics_group())
        self._log = KeyGroupLog(
            self.backend,
            key_type,
            task.max_parallelism,
            task.name,
            self.cleanup,
            self.metrics,
        )

    def open(self) -> None:
        """Open the function; it declares its states.

        Raises:
            UserFunctionError: The function raised.
        """
        try:
            self.function.open(self.runtime_context)
        except PyflinklikeError:
            self.backend.close()
            raise
        except Exception as error:
            self.backend.close()
            msg = f"{self._name()}.open failed: {type(error).__name__}: {error}"
            raise UserFunctionError(msg) from error

    def close(self) -> None:
        """Close the function and let go of the state.

        Raises:
            UserFunctionError: The function raised.
        """
        try:
            self.function.close()
        except PyflinklikeError:
            raise
        except Exception as error:
            msg = f"{self._name()}.close failed: {type(error).__name__}: {error}"
            raise UserFunctionError(msg) from error
        finally:
            self.stores.close()
            self.backend.close()

    def abandon(self) -> None:
        """Close after a failure, which is what the caller is going to tell of.

        As in Flink, a function is closed whether its task succeeds or not.
        """
        with contextlib.suppress(PyflinklikeError):
            self.close()

    # Key groups

    def check_store(self, store: GroupStore) -> None:
        """See that a key group was written under these settings, and note them if it is new.

        Raises:
            IncompatibleStateError: It was written under another `max_parallelism`.
        """
        self._log.check(store)

    def load(self, store: GroupStore, head: Head | None, index: int) -> None:
        """Make a key group the current one, brought up to its head.

        Args:
            store: The host's, of that group.
            head: Read from the store.
            index: Of the group.
        """
        self.load_group(store, head, self.backend.take_warm(index) or KeyGroup(index))

    def load_group(self, store: GroupStore, head: Head | None, group: KeyGroup) -> KeyGroup:
        """The same from working state that the caller kept; the one now in use."""
        group = self._log.load(store, head, group)
        self.enter(group)
        return group

    def begin(self, snapshot: Segment, index: int) -> None:
        """Make what a savepoint holds of a key group the current one; the commit writes it anew.

        Raises:
            IncompatibleStateError: A state was written under another declaration.
        """
        group = KeyGroup(index)
        group.read(snapshot, f"savepoint, key group {index}")
        group.rewrite = True
        self.enter(group)

    def enter(self, group: KeyGroup) -> None:
        """Make a key group the current one, as it is."""
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
        store: GroupStore,
        head: Head | None,
        wake_at: int | None = None,
        sweep_at: int | None = None,
    ) -> Head | None:
        """Log what changed in the current group; the head now, None where there is none.

        It ends the group's micro-batch: stores flush, which may add to the outputs.

        Args:
            store: The host's, of that group.
            head: Read from the store.
            wake_at: When the host must call even without data, in ms, or None.
            sweep_at: What `cleanup.sweep` returned.
        """
        assert self._group is not None
        self.stores.flush()
        head = self._log.commit(store, head, self._group, wake_at, sweep_at)
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
        self.backend.keep_warm(self._group)

    def snapshot(self) -> bytes:
        """The current group as one segment; the working state is left as it is."""
        assert self._group is not None
        contents = [self.cleanup.without_expired(each) for each in self.backend.contents()]
        copy = KeyGroup(self._group.index, pending=self._group.pending)
        return self._log.snapshot(copy, [each for each in contents if len(each)]).to_bytes()

    def _wants(self, tag_id: str) -> bool:
        return self.side_outputs_read is None or tag_id in self.side_outputs_read

    def _position(self) -> dict[int, int]:
        return {} if self._group is None else {self._group.index: self._group.next_sequence}

    def _on_table(self, spec: TableSpec) -> None:
        self._specs.append(spec)
        if self._group is not None:
            self._restore(spec)

    def _restore(self, spec: TableSpec) -> None:
        assert self._group is not None
        assembled = self.runtime_context.assembled.get(spec.name)
        ttl = assembled.ttl if assembled is not None else None
        stamp = ttl.stamp() if ttl is not None else 0
        for changes in self._log.restored(self._group, spec, stamp):
            self.backend.apply(changes)

    # Records

    def process(
        self, keys: Iterable[Any], values: Iterable[Any], timestamps: Iterable[int | None]
    ) -> None:
        """Process records of the current group, in order.

        Args:
            keys: In their frozen form.
            values: The elements.
            timestamps: In ms, None for an element that has none.

        Raises:
            UserFunctionError: The function raised; what it wrote before stays in
                the working state, which the host must then not commit.
        """
        scope, clock, context = self.scope, self.clock, self._context
        process_element = self.function.process_element
        emit_side, emit_main = self.outputs.emit_side, self.outputs.main.append
        emit_key = self.outputs.keys.append
        sweeping = self.runtime_context.sweeping_every_record
        context.domain = None
        value: Any = None
        try:
            for scope.key, value, clock.timestamp in zip(keys, values, timestamps):
                if sweeping:
                    for ttl in sweeping:
                        ttl.sweep_some()
                results = process_element(value, context)
                if results is None:
                    continue
                if results.__class__ is not GeneratorType:
                    check_results(results)
                # The same as Outputs.emit, without a call per record.
                for result in results:
                    if result.__class__ is tuple and result and result[0].__class__ is OutputTag:
                        emit_side(result, scope.key)
                    else:
                        emit_main(result)
                        emit_key(scope.key)
        except PyflinklikeError as error:
            _add_note(error, self._described("process_element", value))
            raise
        except Exception as error:
            msg = f"{self._described('process_element', value)}: {_cause(error)}"
            raise UserFunctionError(msg) from error
        finally:
            scope.key = NO_KEY
            clock.timestamp = None

    # Time

    def advance_watermark(self, watermark: int) -> None:
        """Set the watermark in ms and fire the event timers that are due."""
        self.clock.watermark = watermark
        self._fire(self.event_timers, watermark)

    def advance_processing_time(self, processing_time: int) -> None:
        """Set the processing time in ms and fire the processing timers that are due."""
        self.clock.processing_time = processing_time
        self._fire(self.processing_timers, processing_time)

    def fire_due_timers(self) -> None:
        """Fire what is due in both domains, until nothing is."""
        while self._fire(self.event_timers, self.clock.watermark) + self._fire(
            self.processing_timers, self.clock.processing_time
        ):
            pass

    def _fire(self, queue: TimerQueue, now: int) -> int:
        # The clock keeps no timestamp: a processing time must not stamp event-time TTL.
        context = self._context
        context.domain = queue.domain
        timestamp = None
        fired = 0
        touched = self.metrics.touched
        try:
            while (timestamp := queue.pop_due(now)) is not None:
                context.fired_at = timestamp
                fired += 1
                touched.add(self.scope.key)
                for ttl in self.runtime_context.sweeping_every_record:
                    ttl.sweep_some()
                results = self.function.on_timer(timestamp, context)
                if results is not None:
                    self.outputs.emit(results, self.scope.key)
        except PyflinklikeError as error:
            _add_note(error, self._described("on_timer", timestamp))
            raise
        except Exception as error:
            raise UserFunctionError(
                f"{self._described('on_timer', timestamp)}: {_cause(error)}"
            ) from error
        finally:
            self.scope.key = NO_KEY
            context.domain = context.fired_at = None
        self.metrics.timers_fired += fired
        return fired

    def earliest_timer(self, queue: TimerQueue) -> int | None:
        """The time of the first timer of the current group in ms, or None."""
        try:
            return queue.earliest()
        finally:
            self.scope.key = NO_KEY

    def take_outputs(self) -> Outputs:
        """What was yielded since the last take."""
        outputs, self.outputs = self.outputs, Outputs()
        return outputs

    def frozen_key(self, key: Any) -> Any:
        """A key in the form that tables keep.

        Raises:
            StateValueError: It is None or cannot be a key.
        """
        if key is None:
            msg = (
                f"{self._name()}: every element needs a key, got None; "
                "filter such elements out, or give them a key of their own"
            )
            raise StateValueError(msg)
        return self.key_type.freeze_key(key)

    def _check_timer(self, domain: TimeDomain) -> None:
        refusal = self._refused_timers.get(domain)
        if refusal is not None:
            raise refusal

    def _name(self) -> str:
        return type(self.function).__qualname__

    def _described(self, method: str, subject: Any) -> str:
        key = self.scope.key
        shown = "none" if key is NO_KEY else repr(self.key_type.thaw_key(key))
        what = "timer" if method == "on_timer" else "element"
        return (
            f"{self._name()}.{method} failed for key {shown}, {what} {subject!r}, "
            f"at time {self._context.timestamp()}"
        )


def _cause(error: Exception) -> str:
    state = getattr(error, "state_name", None)
    where = "" if state is None else f"in the function of state {state!r}: "
    return f"{where}{type(error).__name__}: {error}"


def _add_note(error: PyflinklikeError, note: str) -> None:
    # Our own errors keep their class; Python 3.10 has no notes to add to them.
    if hasattr(error, "add_note"):
        error.add_note(note)
