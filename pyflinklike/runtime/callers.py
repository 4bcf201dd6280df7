# SPDX-License-Identifier: Apache-2.0
"""Which caller a user's function has, and what it is given as `ctx`: by its class."""

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
"""What every caller is made of, after the function."""

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
    """What a function is given as `ctx` with an element or timer.

    Args:
        function: The user's.
        clock: Of the operator.
        current: Has the current key, frozen.
        key_type: Thaws it.
        timers: Of the current key.
        states: The broadcast states.
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
    """What a function is opened with.

    Args:
        parts: What every such context is made of.
        timers: Of both domains.
        namespace_type: Of its namespaces, or None.
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
    """The caller of a function.

    Args:
        function: The user's.
        parts: What every caller is made of, after the function.
        states: The broadcast states.
        runtime: Has the states of keys.
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
