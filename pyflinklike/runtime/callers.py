# SPDX-License-Identifier: Apache-2.0
"""The class of a user's function decides which caller it has, and which contexts it gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyflinklike.api.broadcast import BaseBroadcastProcessFunction, BroadcastProcessFunction
from pyflinklike.api.co_process import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from pyflinklike.api.context import TimerService
from pyflinklike.api.map_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.clock import Clock
from pyflinklike.runtime.broadcast import BroadcastCalls
from pyflinklike.runtime.broadcast_states import (
    BroadcastStates,
    KeyedReadContext,
    UnkeyedReadContext,
)
from pyflinklike.runtime.calls import FunctionCalls
from pyflinklike.runtime.contexts import CallContext, OperatorRuntimeContext
from pyflinklike.runtime.counters import OperatorMetrics
from pyflinklike.runtime.map_calls import MapCalls
from pyflinklike.runtime.namespaced_context import NamespacedOperatorContext
from pyflinklike.runtime.outputs import Outputs
from pyflinklike.runtime.timers import KeyedTimerService
from pyflinklike.runtime.two_inputs import TwoInputCalls
from pyflinklike.runtime.unkeyed_context import UnkeyedCallContext, UnkeyedOperatorContext
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.types import TypeInformation

__all__ = ["caller_of", "context_of", "runtime_context_of"]

Parts = tuple[
    TypeInformation,
    CurrentKey,
    Clock,
    Any,
    Sequence[Callable[[], None]],
    OperatorMetrics,
    Outputs,
]
"""The arguments of every caller after the function."""

_TWO_INPUTS = (KeyedCoProcessFunction, CoProcessFunction, CoMapFunction, CoFlatMapFunction)
_MAPS = (MapFunction, FlatMapFunction, FilterFunction)


def context_of(
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


def runtime_context_of(
    parts: tuple[Any, ...],
    timers: KeyedTimerService,
    namespace_type: TypeInformation | None,
    *,
    has_keys: bool,
) -> OperatorRuntimeContext:
    """Make the context that a function is opened with.

    Args:
        parts: The arguments of every such context.
        timers: The timers of both domains, for a function with namespaces.
        namespace_type: The type of the function's namespaces, or None.
        has_keys: Whether elements have keys.
    """
    if not has_keys:
        return UnkeyedOperatorContext(*parts)
    if namespace_type is not None:
        return NamespacedOperatorContext(*parts, namespace_type=namespace_type, timers=timers)
    return OperatorRuntimeContext(*parts)


def caller_of(
    function: Any, parts: Parts, states: BroadcastStates, runtime: OperatorRuntimeContext
) -> FunctionCalls:
    """Make the caller of a function.

    Args:
        function: Its class decides which caller fits.
        parts: The arguments of every caller after the function.
        states: The broadcast states, for a function with a broadcast input.
        runtime: The context that the function is opened with.
    """
    if isinstance(function, BaseBroadcastProcessFunction):
        has_keys = not isinstance(function, BroadcastProcessFunction)
        return BroadcastCalls(
            function, *parts, states=states, runtime_context=runtime, has_keys=has_keys
        )
    if isinstance(function, _TWO_INPUTS):
        return TwoInputCalls(function, *parts)
    if isinstance(function, _MAPS):
        return MapCalls(function, *parts)
    return FunctionCalls(function, *parts)
