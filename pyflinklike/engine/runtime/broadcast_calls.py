# SPDX-License-Identifier: Apache-2.0
"""The broadcast states of one operator, and the contexts of functions with a broadcast input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar, cast

from pyflinklike.api.broadcast import BaseBroadcastProcessFunction, KeyedBroadcastProcessFunction
from pyflinklike.api.context import TimerService
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.errors import DeclarationError
from pyflinklike.runtime.contexts import CallContext
from pyflinklike.runtime.journal import Journal, JournaledTable
from pyflinklike.shown import shown
from pyflinklike.state.broadcast import (
    BroadcastState,
    ReadOnlyBroadcastState,
    broadcast_spec,
    map_over,
)
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.descriptors import MapStateDescriptor, StateDescriptor
from pyflinklike.state.table import Table, Tables, TableSpec
from pyflinklike.types import TypeInformation

__all__ = [
    "BroadcastSideContext",
    "BroadcastStates",
    "KeyedReadContext",
    "UnkeyedReadContext",
]

K = TypeVar("K")
V = TypeVar("V")
Apply = Callable[[StateDescriptor[Any], Callable[[Any, Any], None]], None]


class _Made(NamedTuple):
    declaration: tuple[Any, ...]
    read: ReadOnlyBroadcastState[Any, Any]
    write: BroadcastState[Any, Any]


class BroadcastStates:
    """Makes each broadcast state of an operator once.

    Args:
        descriptors: All that `broadcast` was given.
        tables: The backend, which makes a table for each.
        on_table: Fills each new table with its restored entries.
    """

    def __init__(
        self,
        descriptors: Iterable[MapStateDescriptor[Any, Any]],
        tables: Tables,
        on_table: Callable[[TableSpec], None],
    ) -> None:
        self.journal = Journal()
        """The writes that elements of the broadcast input have made in this task."""
        self._states: dict[str, _Made] = {}
        for each in descriptors:
            spec = broadcast_spec(each)
            table = tables.table(spec)
            on_table(spec)
            journaled = cast(Table, JournaledTable(table, self.journal))
            self._states[each.name] = _Made(
                each._declaration(),
                ReadOnlyBroadcastState(map_over(each, table)),
                BroadcastState(map_over(each, journaled)),
            )

    def to_read(self, descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
        """Return the declared state, without the methods that change it.

        Raises:
            DeclarationError: `broadcast` did not name it.
        """
        return self._made(descriptor).read

    def to_write(self, descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """Return the declared state, with the methods that change it.

        Raises:
            DeclarationError: `broadcast` did not name it.
        """
        return self._made(descriptor).write

    def _made(self, descriptor: Any) -> _Made:
        made = self._states.get(getattr(descriptor, "name", ""))
        if (
            made is None
            or not isinstance(descriptor, MapStateDescriptor)
            or descriptor._declaration() != made.declaration
        ):
            msg = (
                f"get_broadcast_state takes a descriptor that broadcast(...) was given, got "
                f"{shown(descriptor)}; it was given those of {sorted(self._states)}: name it there"
            )
            raise DeclarationError(msg)
        return made


class KeyedReadContext(CallContext, KeyedBroadcastProcessFunction.OnTimerContext):
    """A `CallContext` that also gives the broadcast states, to be read."""

    def __init__(
        self,
        clock: Clock,
        current: CurrentKey,
        key_type: TypeInformation,
        timers: TimerService,
        broadcast: BroadcastStates,
    ) -> None:
        super().__init__(clock, current, key_type, timers)
        self._broadcast = broadcast

    def current_processing_time(self) -> int:
        """Return the processing time in ms."""
        return self._clock.processing_time

    def current_watermark(self) -> int:
        """Return the watermark in ms."""
        return self._clock.watermark

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> ReadOnlyBroadcastState[K, V]:
        """Return the declared broadcast state, to be read."""
        return self._broadcast.to_read(state_descriptor)


class UnkeyedReadContext(BaseBroadcastProcessFunction.ReadOnlyContext):
    """The context of a call of a function without keys."""

    domain: TimeDomain | None = None
    fired_at: int | None = None

    def __init__(self, clock: Clock, broadcast: BroadcastStates) -> None:
        self._clock = clock
        self._broadcast = broadcast

    def timestamp(self) -> int | None:
        """Return the event time of the element in ms, or None."""
        return self._clock.timestamp

    def current_processing_time(self) -> int:
        """Return the processing time in ms."""
        return self._clock.processing_time

    def current_watermark(self) -> int:
        """Return the watermark in ms."""
        return self._clock.watermark

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> ReadOnlyBroadcastState[K, V]:
        """Return the declared broadcast state, to be read."""
        return self._broadcast.to_read(state_descriptor)


class BroadcastSideContext(KeyedBroadcastProcessFunction.Context):
    """The context of a call of `process_broadcast_element`.

    Args:
        apply: Carries out `apply_to_keyed_state`; None where there are no keys.
    """

    def __init__(self, clock: Clock, broadcast: BroadcastStates, apply: Apply | None) -> None:
        self._clock = clock
        self._broadcast = broadcast
        self._apply = apply

    def timestamp(self) -> int | None:
        """Return the event time of the element in ms, or None."""
        return self._clock.timestamp

    def current_processing_time(self) -> int:
        """Return the processing time in ms."""
        return self._clock.processing_time

    def current_watermark(self) -> int:
        """Return the watermark in ms."""
        return self._clock.watermark

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> BroadcastState[K, V]:
        """Return the declared broadcast state, to be read and written."""
        return self._broadcast.to_write(state_descriptor)

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor[Any], function: Callable[[Any, Any], None]
    ) -> None:
        """Call a function with each key of the current key group that has the state, and the state."""
        if self._apply is None:
            msg = (
                "apply_to_keyed_state is for a KeyedBroadcastProcessFunction, got a call by a "
                "function without keys; call key_by before connect"
            )
            raise DeclarationError(msg)
        self._apply(state_descriptor, function)
