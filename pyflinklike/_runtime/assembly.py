# SPDX-License-Identifier: Apache-2.0
"""The assembly of an operator: the declaration that a host gives, and the steps that make the parts.

An operator has about a dozen parts, and most of them need others.  `OperatorAssembly` makes them in
that order: first the parts with state, then the contexts of the function, then its invoker.  If a
kind of functions needs other parts, its assembly overrides a step; `function_kinds` says which kind
has which assembly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from pyflinklike._changelog.key_group_log import KeyGroupLog
from pyflinklike._changelog.key_group_state import KeyedStateBackend
from pyflinklike._clock import Clock, TimeDomain
from pyflinklike._runtime.broadcast_invoker import (
    BroadcastStates,
    KeyedReadContext,
    UnkeyedReadContext,
)
from pyflinklike._runtime.call_contexts import (
    NO_TIMERS,
    CallContext,
    Extension,
    NamespacedOperatorContext,
    OperatorParts,
    OperatorRuntimeContext,
    Surroundings,
    TaskInfo,
    UnkeyedCallContext,
    UnkeyedOperatorContext,
)
from pyflinklike._runtime.failure_isolation import DeadLetterWriter, FailureIsolation
from pyflinklike._runtime.failure_snapshot import FailureSnapshotMaker, FailureSnapshotWriter
from pyflinklike._runtime.invokers import FunctionInvoker, UserFunctionInvoker
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator, KeyGroupContext, StateCleanup
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike._runtime.outputs import Outputs, TimedOutputs
from pyflinklike._runtime.timer_queue import KeyedTimerService, TimerQueue, UndoableTimerQueue
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationValueError, PyflinklikeError
from pyflinklike.functions.dead_letters import DeadLetters
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.state_assembly import Assembled
from pyflinklike.state.table import Tables
from pyflinklike.state.write_buffer import BufferedTables
from pyflinklike.types import TypeInformation
from pyflinklike.types.pickled_type import ALLOW_PICKLE, check_pickled

R = TypeVar("R", bound=OperatorRuntimeContext)


@attrs.frozen
class OperatorDeclaration:
    """The declaration of an operator, which its host makes.

    Args:
        function: The user's function; its class decides how the operator is assembled.
        state_backend: Makes the backend that holds working state.
        key_type: Freezes keys and writes them.
        task: The task that this instance serves; it also has the name of the operator.
        owner: A name of this operator in this query; operators do not share working state.
        refused_timers: Domains whose timers the host cannot fire, with the error to raise.
        side_outputs_read: Ids of the side outputs that the host reads; None for all.
        broadcast_states: The states of the broadcast input; empty without such an input.
        allow_pickle: Whether state may be unpickled.
        has_keys: Whether elements have keys.  If not, there are no states and no timers, and every
            record has the key `GROUP_KEY`.
        timed_outputs: Whether the operator keeps the event times of outputs, as `TimedOutputs`.
        on_error: Turns records and timers on which the function raises into dead letters.  If None,
            such an error fails the query.
        drop_states: The names of states to remove from the log; the function must not declare them.
    """

    function: Any
    state_backend: StateBackend
    key_type: TypeInformation
    task: TaskInfo
    owner: str
    refused_timers: Mapping[TimeDomain, PyflinklikeError] | None = None
    side_outputs_read: Collection[str] | None = None
    broadcast_states: Sequence[MapStateDescriptor] = ()
    allow_pickle: bool = True
    has_keys: bool = True
    timed_outputs: bool = False
    on_error: DeadLetters | None = None
    drop_states: Collection[str] = ()


class OperatorAssembly:
    """The parts of one operator; each step makes a part that later steps use.

    Args:
        declared: The declaration of the operator.
        kind: The kind of the function.

    Raises:
        DeclarationTypeError: A broadcast state is not a map.
        DeclarationValueError: A broadcast state has a TTL; or `allow_pickle` is False, but keys or
            the backend's files are pickles.
    """

    namespace_type: TypeInformation | None = None
    """The type of the function's namespaces; None for a function without namespaces."""

    def __init__(self, declared: OperatorDeclaration, kind: FunctionKind) -> None:
        self.declared, self.kind = declared, kind
        self.function, self.task, self.key_type = (
            declared.function,
            declared.task,
            declared.key_type,
        )
        self.has_keys = declared.has_keys and kind.has_keys
        self.clock, self.current, self.metrics = Clock(), CurrentKey(), self._make_metrics()
        self.assembled: dict[str, Assembled] = {}
        self.extensions: list[Extension] = []
        self.backend = self._make_backend()
        self.buffered = self._make_buffered()
        self.tables: Tables = self.buffered or self.backend
        self.timers = self._make_timers()
        self.cleanup = StateCleanup(self.assembled, self.clock, self.extensions)
        self.group = self._make_group()
        self.context = self._make_context()
        self.outputs = self._make_outputs()
        self.runtime = self._make_runtime()
        self.guard = self._make_guard()
        self.parts = self._make_parts()
        self.calls = self._make_calls()

    def make_operator(self) -> KeyedProcessOperator:
        """Return the operator of all parts; it is not open yet."""
        made = self.group, self.timers, self.calls, self.cleanup, self.runtime
        return KeyedProcessOperator(self.parts, *made)

    # State

    def _make_metrics(self) -> OperatorMetrics:
        return OperatorMetrics()

    def _make_backend(self) -> KeyedStateBackend:
        """Make the backend of the operator.

        Raises:
            DeclarationValueError: Keys, or the backend's files, are pickles, which are not allowed.
        """
        name, chosen = self.task.name, self.declared.state_backend
        if not self.declared.allow_pickle:
            check_pickled(f"operator {name!r}, keys", self.key_type)
        backend = chosen.create_keyed_state_backend(self.current, self.declared.owner)
        if backend.is_persistent and not self.declared.allow_pickle:
            backend.close()
            msg = (
                f"operator {name!r}: nothing is unpickled if allow_pickle is False or "
                f"{ALLOW_PICKLE} is 0, got {chosen!r}, whose local files hold pickles; use "
                "HashMapStateBackend()"
            )
            raise DeclarationValueError(msg)
        return backend

    def _make_buffered(self) -> BufferedTables | None:
        # A failed call must leave no trace, so its writes wait in a buffer.  Without dead letters a
        # failed call fails the query, and writes go to the backend at once.
        return None if self.declared.on_error is None else BufferedTables(self.backend)

    def _make_timers(self) -> Any:
        make_queue = TimerQueue if self.buffered is None else UndoableTimerQueue
        event_timers, processing_timers = (
            make_queue(domain, self.backend, self.namespace_type)
            for domain in (TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME)
        )
        refused = (self.declared.refused_timers or {}) if self.has_keys else NO_TIMERS
        return KeyedTimerService(self.clock, event_timers, processing_timers, refused)

    def _make_group(self) -> KeyGroupContext:
        log = KeyGroupLog(
            self.backend,
            self.key_type,
            self.task.identity(self.key_type),
            self.cleanup,
            self.metrics,
            drop_states=self.declared.drop_states,
        )
        return KeyGroupContext(
            self.backend,
            log,
            self.assembled,
            self.timers.queues,
            allow_pickle=self.declared.allow_pickle,
        )

    # The contexts of the function

    def _make_context(self) -> Any:
        """Make the `ctx` that the function gets with each element or timer."""
        if not self.has_keys:
            return UnkeyedCallContext(self.clock, self.timers)
        return CallContext(self.clock, self.current, self.key_type, self.timers)

    def _make_outputs(self) -> Outputs:
        return TimedOutputs(self.context.timestamp) if self.declared.timed_outputs else Outputs()

    def _make_runtime(self) -> OperatorRuntimeContext:
        """Make the context that the function is opened with."""
        return self._open_with(OperatorRuntimeContext if self.has_keys else UnkeyedOperatorContext)

    def _open_with(self, make: Callable[..., R], **more: Any) -> R:
        """Make a context of the class given, from the arguments that all of them take, and more."""
        surroundings = self._make_surroundings()
        return make(self.task, surroundings, self.assembled, self.extensions, **more)

    def _make_surroundings(self) -> Surroundings:
        outputs, read = self.outputs, self.declared.side_outputs_read
        return Surroundings(
            backend=self.tables,
            clock=self.clock,
            key_type=self.key_type,
            application=self.task.name,
            on_table=self.group.declare,
            emit=lambda tag, value, key: outputs.emit_side((tag, value), key),
            wants=lambda tag: read is None or tag in read,
            # A call for a batch of records has no single time, so its context lacks the method.
            timestamp=getattr(self.context, "timestamp", lambda: None),
            position=self.group.position,
            write_buffer=None if self.buffered is None else self.buffered.write_buffer,
        )

    # Calls

    def _make_guard(self) -> DeadLetterWriter | None:
        """Make the part that turns failed calls into dead letters; None if they fail the query."""
        on_error, buffered = self.declared.on_error, self.buffered
        if on_error is None or buffered is None:
            return None
        queues, failure_snapshots = self.timers.queues, None
        if on_error.snapshot_bytes:
            writer = self._make_failure_snapshot_writer(on_error.snapshot_bytes)
            failure_snapshots = FailureSnapshotMaker(
                writer, buffered, queues, self.declared.allow_pickle
            )
        guard = FailureIsolation(
            on_error,
            buffered.write_buffer,
            queues,
            self.outputs,
            self.clock,
            self.metrics,
            self.task.name,
            tuple(name for name, _ in self.task.key_columns),
            failure_snapshots,
        )
        self._begin_guard(guard)
        # It must be the first step: what TTL and stores write before a call belongs to that call.
        self.runtime.before_every_call.append(guard.begin)
        return guard

    def _begin_guard(self, guard: DeadLetterWriter) -> None:
        guard.watch(self.runtime.get_metrics_group())
        guard.begin_task(self.task.batch)

    def _make_failure_snapshot_writer(self, most: int) -> FailureSnapshotWriter:
        return FailureSnapshotWriter(
            key_type=self.key_type,
            namespace_type=self.namespace_type,
            task=lambda: self.runtime.task,
            clock=self.clock,
            function=lambda: self.calls.name(),  # noqa: PLW0108 - the calls are made after it
            inputs=self.kind.inputs,
            most=most,
        )

    def _make_calls(self) -> FunctionInvoker:
        calls = self.kind.caller(self.function, self.parts, **self._for_calls())
        if self.guard is not None:
            self.runtime._attempt = calls.attempt
        return calls

    def _for_calls(self) -> dict[str, Any]:
        """Return the arguments of the invoker besides the parts that every invoker needs."""
        return {}

    def _make_parts(self) -> OperatorParts:
        return OperatorParts(
            self.key_type,
            self.current,
            self.clock,
            self.context,
            self.runtime.before_every_call,
            self.metrics,
            self.outputs,
            self.guard,
        )


class NamespacedAssembly(OperatorAssembly):
    """The assembly of a `NamespacedFunction`, whose state and timers may belong to namespaces."""

    @property
    def namespace_type(self) -> TypeInformation:  # type: ignore[override]
        """The type of the function's namespaces."""
        namespace_type: TypeInformation = self.function.namespace_type
        return namespace_type

    def _make_timers(self) -> Any:
        timers = super()._make_timers()
        for queue in timers.queues:
            queue.registrar = self.function.registrar
        return timers

    def _make_runtime(self) -> OperatorRuntimeContext:
        more = {"namespace_type": self.namespace_type, "timers": self.timers}
        return self._open_with(NamespacedOperatorContext, **more)


class WithBroadcastAssembly(OperatorAssembly):
    """The assembly of a function with a broadcast input."""

    def _make_context(self) -> Any:
        given = self.declared.broadcast_states
        self.states = BroadcastStates(given, self.tables, self.group.declare)
        if not self.has_keys:
            return UnkeyedReadContext(self.clock, self.states)
        keyed = self.clock, self.current, self.key_type, self.timers
        return KeyedReadContext(*keyed, self.states)

    def _for_calls(self) -> dict[str, Any]:
        runtime, states = self.runtime, self.states
        return {"states": states, "runtime_context": runtime, "has_keys": self.has_keys}


# The entry of a kind of functions


@attrs.frozen(kw_only=True)
class FunctionKind:
    """The entry of one kind of functions: how they are called, assembled, driven and planned.

    Args:
        inputs: The inputs that the functions have, as messages and failure snapshots show them.
        harness: The name of the harness that drives them; empty if there is none.
        make_harness: Makes that harness for a function, its key columns and the column of event
            times; None if the harness takes a key selector.
        has_process: Whether `process` of a keyed input without a second one takes them.
        has_keys: Whether their elements may have keys.
        caller: Makes the invoker of a function from the function and the parts of its operator.
        assembly: Makes the parts of an operator from its declaration and this entry.
        on_spark: Makes the plan of a query from the plan for records that are rows.
    """

    inputs: str = "one input"
    harness: str = ""
    make_harness: Callable[..., Any] | None = None
    has_process: bool = False
    has_keys: bool = True
    caller: Callable[..., UserFunctionInvoker] = UserFunctionInvoker
    assembly: Callable[[OperatorDeclaration, FunctionKind], OperatorAssembly] = OperatorAssembly
    on_spark: Callable[[Any], Any] = lambda plan: plan
