# SPDX-License-Identifier: Apache-2.0
"""The assembly of an operator: only `make_keyed_operator` knows all of its parts.

It makes the parts in the order in which they need each other: first what keeps state, then what
extends it, then what calls the function.  Nothing else in the runtime knows of stores.

The class of a user's function decides which caller it has, and which contexts it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, cast

from pyflinklike._changelog.key_group_log import KeyGroupLog
from pyflinklike._changelog.working_state import KeyedStateBackend
from pyflinklike._checks import install
from pyflinklike._clock import Clock, TimeDomain
from pyflinklike._runtime.broadcast_calls import (
    BroadcastCalls,
    BroadcastStates,
    KeyedReadContext,
    UnkeyedReadContext,
)
from pyflinklike._runtime.call_contexts import (
    NO_TIMERS,
    CallContext,
    NamespacedOperatorContext,
    OperatorParts,
    OperatorRuntimeContext,
    TaskInfo,
    UnkeyedCallContext,
    UnkeyedOperatorContext,
)
from pyflinklike._runtime.call_guard import CallGuard
from pyflinklike._runtime.calls import FunctionCalls, MapCalls, NamespacedCalls, TwoInputCalls
from pyflinklike._runtime.capsule import BATCHES, CapsuleMaker, CapsuleWriter
from pyflinklike._runtime.keyed_operator import (
    CurrentGroup,
    KeyedProcessOperator,
    StateCleanup,
)
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike._runtime.outputs import Outputs, TimedOutputs
from pyflinklike._runtime.timer_queue import (
    KeyedTimerService,
    TimerQueue,
    UndoableTimerQueue,
)
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationValueError, PyflinklikeError, RequirementError
from pyflinklike.functions.contexts import TimerService
from pyflinklike.functions.dead_letters import DeadLetters
from pyflinklike.functions.element_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.functions.process_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBatchFunction,
    KeyedCoProcessFunction,
    NamespacedFunction,
)
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.staged_tables import StagedTables
from pyflinklike.state.state_assembly import Assembled
from pyflinklike.state.table import Tables
from pyflinklike.stores.registry import StoreRegistry
from pyflinklike.stores.state_store import StoreContext
from pyflinklike.types import TypeInformation
from pyflinklike.types.pickled_type import ALLOW_PICKLE, check_pickled

__all__ = ["inputs_of", "make_keyed_operator"]


def make_keyed_operator(
    function: Any,
    state_backend: StateBackend,
    key_type: TypeInformation,
    task: TaskInfo,
    owner: str,
    *,
    refused_timers: Mapping[TimeDomain, PyflinklikeError] | None = None,
    side_outputs_read: Collection[str] | None = None,
    broadcast_states: Sequence[MapStateDescriptor] = (),
    allow_pickle: bool = True,
    has_keys: bool = True,
    timed_outputs: bool = False,
    on_error: DeadLetters | None = None,
    drop_states: Collection[str] = (),
) -> KeyedProcessOperator:
    """Make an operator whose function may have states, timers and stores; it is not open yet.

    Args:
        function: The user's; its class decides which caller it gets.
        state_backend: Makes the backend that holds working state.
        key_type: Freezes keys and writes them.
        task: The task that this instance serves; its name is the operator's.
        owner: A name of this operator in this query; operators do not share working state.
        refused_timers: Domains whose timers the host cannot fire, with the remedy.
        side_outputs_read: Ids of the side outputs that the host reads; None for all.
        broadcast_states: The states of the broadcast input; none without such an input.
        allow_pickle: Whether state may be unpickled.
        has_keys: Whether elements have keys; without them there is neither state nor timer, and
            every record has the key `GROUP_KEY`.
        timed_outputs: Whether the operator keeps the event times of outputs, as `TimedOutputs`.
        on_error: Makes dead letters of records and timers on which the function raises; None to
            fail.
        drop_states: The names of states that the function does not declare and that leave the log.

    Raises:
        DeclarationTypeError: A broadcast state is not a map.
        DeclarationValueError: A broadcast state has a TTL; or nothing may be unpickled, but keys
            or the backend's files are pickles.
    """
    if isinstance(function, KeyedBatchFunction):
        return _columnar_assembly()(
            function,
            state_backend,
            key_type,
            task,
            owner,
            refused_timers=refused_timers,
            allow_pickle=allow_pickle,
            on_error=on_error,
            drop_states=drop_states,
        )
    clock, current, metrics = Clock(), CurrentKey(), OperatorMetrics()
    has_keys = has_keys and not isinstance(function, BroadcastProcessFunction)
    backend = _backend(state_backend, current, owner, task, key_type, allow_pickle)
    staged = StagedTables(backend) if on_error is not None else None
    tables: Tables = staged or backend
    namespace_type = function.namespace_type if isinstance(function, NamespacedFunction) else None
    refused = refused_timers or {} if has_keys else NO_TIMERS
    make_queue = TimerQueue if staged is None else UndoableTimerQueue
    timers = _timers(make_queue, clock, backend, refused, namespace_type, function)
    assembled: dict[str, Assembled] = {}
    cleanup = StateCleanup(assembled, clock)
    log = KeyGroupLog(
        backend, key_type, task.identity(key_type), cleanup, metrics, drop_states=drop_states
    )
    group = CurrentGroup(
        backend,
        log,
        assembled,
        timers.queues,
        allow_pickle=allow_pickle,
    )
    states = BroadcastStates(broadcast_states, tables, group.declare)
    context = _context(function, clock, current, key_type, timers, states, has_keys=has_keys)
    outputs = TimedOutputs(context.timestamp) if timed_outputs else Outputs()
    surroundings = StoreContext(
        backend=tables,
        clock=clock,
        key_type=key_type,
        application=task.name,
        on_table=group.declare,
        emit=lambda tag, value, key: outputs.emit_side((tag, value), key),
        wants=lambda tag: side_outputs_read is None or tag in side_outputs_read,
        timestamp=context.timestamp,
        position=group.position,
        stage=staged.stage if staged is not None else None,
    )
    stores = StoreRegistry(surroundings)
    cleanup.join(stores)
    make_runtime = _runtime_context_class(timers, namespace_type, has_keys=has_keys)
    runtime = make_runtime(task, tables, clock, assembled, group.declare, stores)
    before = runtime.before_every_call
    guard = None
    if on_error is not None and staged is not None:
        names = tuple(name for name, _ in task.key_columns)
        queues = cast(Sequence[UndoableTimerQueue], timers.queues)
        capsules = None
        if on_error.capsule_bytes:
            writer = CapsuleWriter(
                key_type=key_type,
                namespace_type=namespace_type,
                task=lambda: runtime.task,
                clock=clock,
                function=lambda: calls.name(),  # noqa: PLW0108 - made below
                inputs=inputs_of(function),
                most=on_error.capsule_bytes,
            )
            capsules = CapsuleMaker(writer, staged, queues, allow_pickle)
        guard = CallGuard(
            on_error, staged.stage, queues, outputs, clock, metrics, task.name, names, capsules
        )
        guard.watch(runtime.get_metrics_group())
        guard.begin_task(task.batch)
        before.append(guard.begin)  # before the steps of TTL and stores
    parts = OperatorParts(key_type, current, clock, context, before, metrics, outputs, guard)
    calls = _caller(function, parts, states, runtime)
    if guard is not None:
        runtime._attempt = calls.attempt
    return KeyedProcessOperator(
        clock, group, timers, calls, stores, cleanup, runtime, metrics, guard
    )


def _columnar_assembly() -> Callable[..., KeyedProcessOperator]:
    """Return `make_columnar_operator`.

    Raises:
        RequirementError: NumPy is not installed.
    """
    # Imported late, since NumPy is an extra: an operator of rows must work without it.
    try:
        from pyflinklike.columns.columnar_operator import make_columnar_operator
    except ImportError as error:
        msg = (
            f"a KeyedBatchFunction needs the package numpy, got {error}; "
            f"{install('columns')} wherever it runs"
        )
        raise RequirementError(msg) from error
    return make_columnar_operator


def _backend(
    state_backend: StateBackend,
    current: CurrentKey,
    owner: str,
    task: TaskInfo,
    key_type: TypeInformation,
    allow_pickle: bool,
) -> KeyedStateBackend:
    """Make the backend of one operator.

    Raises:
        DeclarationValueError: Keys, or the backend's files, are pickles and may not be read.
    """
    if allow_pickle:
        return state_backend.create_keyed_state_backend(current, owner)
    check_pickled(f"operator {task.name!r}, keys", key_type)
    backend = state_backend.create_keyed_state_backend(current, owner)
    if backend.is_persistent:
        backend.close()
        msg = (
            f"operator {task.name!r}: nothing is unpickled where allow_pickle is False or "
            f"{ALLOW_PICKLE} is 0, got {state_backend!r}, whose local files hold pickles; use "
            "HashMapStateBackend()"
        )
        raise DeclarationValueError(msg)
    return backend


def _timers(
    make_queue: type[TimerQueue],
    clock: Clock,
    backend: KeyedStateBackend,
    refused: Mapping[TimeDomain, PyflinklikeError],
    namespace_type: TypeInformation | None,
    function: Any,
) -> KeyedTimerService:
    event_timers = make_queue(TimeDomain.EVENT_TIME, backend, namespace_type)
    processing_timers = make_queue(TimeDomain.PROCESSING_TIME, backend, namespace_type)
    if isinstance(function, NamespacedFunction):
        event_timers.registrar = processing_timers.registrar = function.registrar
    return KeyedTimerService(clock, event_timers, processing_timers, refused)


def inputs_of(function: Any) -> str:
    """Return the kind of a function by its inputs, as a capsule notes it."""
    if isinstance(function, BaseBroadcastProcessFunction):
        return "a broadcast input"
    if isinstance(function, KeyedBatchFunction):
        return BATCHES
    return "two inputs" if isinstance(function, _TWO_INPUTS) else "one input"


_TWO_INPUTS = (KeyedCoProcessFunction, CoProcessFunction, CoMapFunction, CoFlatMapFunction)
_MAPS = (MapFunction, FlatMapFunction, FilterFunction)


def _context(
    function: Any,
    clock: Clock,
    current: CurrentKey,
    key_type: TypeInformation,
    timers: TimerService,
    states: BroadcastStates,
    *,
    has_keys: bool,
) -> Any:
    """Make the `ctx` that a function gets with each element or timer.

    Args:
        function: Its class decides which context fits.
        clock: The operator's clock, set by its host.
        current: Holds the current key in its frozen form.
        key_type: Thaws the current key.
        timers: The timer service of the current key.
        states: The broadcast states, for a function with a broadcast input.
        has_keys: Whether elements have keys.
    """
    if isinstance(function, BroadcastProcessFunction):
        return UnkeyedReadContext(clock, states)
    if isinstance(function, BaseBroadcastProcessFunction):
        return KeyedReadContext(clock, current, key_type, timers, states)
    if not has_keys:
        return UnkeyedCallContext(clock, timers)
    return CallContext(clock, current, key_type, timers)


def _runtime_context_class(
    timers: KeyedTimerService, namespace_type: TypeInformation | None, *, has_keys: bool
) -> Callable[..., OperatorRuntimeContext]:
    """Return what makes the context that a function is opened with, of the arguments of all such.

    Args:
        timers: The timers of both domains, for a function with namespaces.
        namespace_type: The type of the function's namespaces, or None.
        has_keys: Whether elements have keys.
    """
    if not has_keys:
        return UnkeyedOperatorContext
    if namespace_type is not None:
        return partial(NamespacedOperatorContext, namespace_type=namespace_type, timers=timers)
    return OperatorRuntimeContext


def _caller(
    function: Any, parts: OperatorParts, states: BroadcastStates, runtime: OperatorRuntimeContext
) -> FunctionCalls:
    """Make the caller of a function.

    Args:
        function: Its class decides which caller fits.
        parts: The parts of the operator.
        states: The broadcast states, for a function with a broadcast input.
        runtime: The context that the function is opened with.
    """
    if isinstance(function, BaseBroadcastProcessFunction):
        has_keys = not isinstance(function, BroadcastProcessFunction)
        return BroadcastCalls(
            function, parts, states=states, runtime_context=runtime, has_keys=has_keys
        )
    if isinstance(function, _TWO_INPUTS):
        return TwoInputCalls(function, parts)
    if isinstance(function, _MAPS):
        return MapCalls(function, parts)
    if isinstance(function, NamespacedFunction):
        return NamespacedCalls(function, parts)
    return FunctionCalls(function, parts)
