# SPDX-License-Identifier: Apache-2.0
"""Functions with a broadcast input: their calls, their contexts and the broadcast states.

Elements of the broadcast input have no key, so a host gives them to `process_broadcast`, apart from
the records.  Every key group has its own copy of broadcast state, and all copies are equal.

Flink calls the function once for an element in each parallel instance.  A task of ours has many key
groups.  The function is called in the first one, and the journal repeats its writes in the others,
which keeps the copies equal and gives each output once.  If the call read the state of keys
(`apply_to_keyed_state`), the element is processed in each key group, because each has other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar, cast

import attrs

from pyflinklike._clock import Clock, TimeDomain
from pyflinklike._messages import short_repr
from pyflinklike._runtime.call_contexts import (
    CallContext,
    ClockReadings,
    OperatorRuntimeContext,
)
from pyflinklike._runtime.failure_snapshot import BROADCAST, Called
from pyflinklike._runtime.invokers import UserFunctionInvoker
from pyflinklike.errors import DeclarationError, OutputError, StateAccessError
from pyflinklike.functions.contexts import TimerService
from pyflinklike.functions.process_functions import (
    BaseBroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from pyflinklike.state.broadcast_state import (
    BroadcastState,
    ReadOnlyBroadcastState,
    broadcast_spec,
    map_over,
)
from pyflinklike.state.current_key import GROUP_KEY, NO_KEY, CurrentKey
from pyflinklike.state.descriptors import MapStateDescriptor, StateDescriptor
from pyflinklike.state.table import Entry, Table, Tables, TableSpec
from pyflinklike.types import TypeInformation


@attrs.frozen
class BroadcastInvoker(UserFunctionInvoker):
    """Calls a `KeyedBroadcastProcessFunction` or a `BroadcastProcessFunction`.

    Args:
        states: The broadcast states, which the call may write.
        runtime_context: Knows the states of keys, for `apply_to_keyed_state`.
        has_keys: Whether the function may call `apply_to_keyed_state`.
    """

    states: BroadcastStates
    _runtime_context: OperatorRuntimeContext
    _has_keys: bool
    _side: BroadcastSideContext = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        apply = self._apply if self._has_keys else None
        # Assigned here, since the context takes a method of this frozen object.
        object.__setattr__(
            self, "_side", BroadcastSideContext(self._parts.clock, self.states, apply)
        )

    def process_broadcast(self, index: int, elements: Iterable[tuple[Any, int | None]]) -> None:
        """Process elements of the broadcast input in the current key group, in order.

        Args:
            index: The number of the key group.
            elements: Values with event times in ms.  Each key group of a task gets the same ones.

        Raises:
            UserFunctionError: The function raised.  Its earlier writes stay in the working state,
                which the host must then not commit.
        """
        journal = self.states.journal
        for value, timestamp in elements:
            known = journal.next_of(index)
            if known is not None and not known.is_local:
                for change in known.changes:
                    change()
                continue
            self._process_here(known or journal.begin(value, timestamp))
            journal.end()

    def rest(self) -> None:
        """Forget the elements of the task that is over."""
        self.states.journal.forget()

    def _process_here(self, element: BroadcastElement) -> None:
        parts = self._parts
        clock = parts.clock
        clock.timestamp = element.timestamp
        guard = parts.guard
        try:
            if guard is not None:
                guard.begin()
            results = self.function.process_broadcast_element(element.value, self._side)
            if results is not None:
                parts.outputs.emit(results, GROUP_KEY)
        except Exception as error:
            if element.is_local and parts.current.key is NO_KEY:
                # The dead letter gets the whole key group, since the call has read keys of it.
                parts.current.key = GROUP_KEY
            self._fail(error, "process_broadcast_element", element.value, element.value, BROADCAST)
            # The call was undone here, so the other key groups must not repeat its writes.
            element.changes.clear()
        finally:
            if guard is not None:
                guard.end()
            parts.current.key, clock.timestamp = NO_KEY, None

    def repeat(self, called: Called) -> None:
        """Repeat a call that failed elsewhere, as `UserFunctionInvoker` does."""
        if called.kind != BROADCAST:
            super().repeat(called)
            return
        parts, journal = self._parts, self.states.journal
        parts.clock.timestamp = called.timestamp
        element = journal.begin(called.given, called.timestamp)
        try:
            results = self.function.process_broadcast_element(called.given, self._side)
            if results is not None:
                parts.outputs.emit(results, GROUP_KEY)
            if element.is_local and called.key is NO_KEY:
                msg = (
                    "this failure snapshot has the broadcast states only, since the call that "
                    "failed read no keys, got a call of apply_to_keyed_state; restore a savepoint"
                )
                raise StateAccessError(msg)
        finally:
            journal.end()
            journal.forget()
            parts.current.key, parts.clock.timestamp = NO_KEY, None

    def _timer_call(self) -> Callable[[int, Any], Iterable[Any] | None]:
        # A function without keys has no timers, and no method for them.
        return super()._timer_call() if self._has_keys else lambda *_: None

    def _apply(self, descriptor: StateDescriptor[Any], function: Callable[[Any, Any], Any]) -> None:
        """Call a function for each key of the current key group that has the state."""
        # Keys differ from group to group, so each key group must process this element itself.
        self.states.journal.keep_local()
        state = self._runtime_context.state_of(descriptor)
        current, thaw = self._parts.current, self.key_type.thaw_key
        for key in self._runtime_context.keys_of(descriptor.name):
            current.key = key
            given = function(thaw(key), state)
            if given is not None:
                msg = (
                    "the function of apply_to_keyed_state must return None, got "
                    f"{short_repr(given)} for key {short_repr(thaw(key))}; append outputs to a list, "
                    "and yield them afterwards"
                )
                raise OutputError(msg)
        current.key = NO_KEY


# States and contexts


K = TypeVar("K")
V = TypeVar("V")
Apply = Callable[[StateDescriptor[Any], Callable[[Any, Any], None]], None]


class _StateViews(NamedTuple):
    declaration: tuple[Any, ...]
    read: ReadOnlyBroadcastState[Any, Any]
    write: BroadcastState[Any, Any]


class BroadcastStates:
    """Makes each broadcast state of an operator once.

    Args:
        descriptors: The descriptors that the user gave to `broadcast`.
        tables: The backend, which makes a table for each state.
        on_table: Fills each new table with its restored entries.
    """

    def __init__(
        self,
        descriptors: Iterable[MapStateDescriptor[Any, Any]],
        tables: Tables,
        on_table: Callable[[TableSpec], None],
    ) -> None:
        self.journal = Journal()
        """The writes that elements of the broadcast input made in this task."""
        self._states: dict[str, _StateViews] = {}
        for each in descriptors:
            spec = broadcast_spec(each)
            table = tables.table(spec)
            on_table(spec)
            journaled = cast(Table, JournaledTable(table, self.journal))
            self._states[each.name] = _StateViews(
                each._declaration(),
                ReadOnlyBroadcastState(map_over(each, table)),
                BroadcastState(map_over(each, journaled)),
            )

    def to_read(self, descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
        """Return the declared state, without the methods that change it.

        Raises:
            DeclarationError: `broadcast` did not name it.
        """
        return self._find_made(descriptor).read

    def to_write(self, descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """Return the declared state, with the methods that change it.

        Raises:
            DeclarationError: `broadcast` did not name it.
        """
        return self._find_made(descriptor).write

    def _find_made(self, descriptor: Any) -> _StateViews:
        made = self._states.get(getattr(descriptor, "name", ""))
        if (
            made is None
            or not isinstance(descriptor, MapStateDescriptor)
            or descriptor._declaration() != made.declaration
        ):
            msg = (
                f"get_broadcast_state takes a descriptor that broadcast(...) was given, got "
                f"{short_repr(descriptor)}; add it there, next to {sorted(self._states)}"
            )
            raise DeclarationError(msg)
        return made


class KeyedReadContext(ClockReadings, CallContext, KeyedBroadcastProcessFunction.OnTimerContext):
    """A `CallContext` that also gives the broadcast states, for reading."""

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

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> ReadOnlyBroadcastState[K, V]:
        """Return the declared broadcast state, for reading."""
        return self._broadcast.to_read(state_descriptor)


class _UnkeyedContext(ClockReadings):
    """The time of the element, for calls without a key.

    Args:
        clock: The clock of the operator.
        broadcast: The broadcast states of the operator.
    """

    def __init__(self, clock: Clock, broadcast: BroadcastStates) -> None:
        self._clock = clock
        self._broadcast = broadcast

    def timestamp(self) -> int | None:
        """Return the event time of the element in ms, or None."""
        return self._clock.timestamp


class UnkeyedReadContext(_UnkeyedContext, BaseBroadcastProcessFunction.ReadOnlyContext):
    """The context of a call of a function without keys."""

    domain: TimeDomain | None = None
    fired_at: int | None = None

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> ReadOnlyBroadcastState[K, V]:
        """Return the declared broadcast state, for reading."""
        return self._broadcast.to_read(state_descriptor)


class BroadcastSideContext(_UnkeyedContext, KeyedBroadcastProcessFunction.Context):
    """The context of a call of `process_broadcast_element`.

    Args:
        clock: The clock of the operator.
        broadcast: The broadcast states, which the call may write.
        apply: Carries out `apply_to_keyed_state`; None if the function has no keys.
    """

    def __init__(self, clock: Clock, broadcast: BroadcastStates, apply: Apply | None) -> None:
        super().__init__(clock, broadcast)
        self._apply = apply

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> BroadcastState[K, V]:
        """Return the declared broadcast state, for reading and writing."""
        return self._broadcast.to_write(state_descriptor)

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor[Any], function: Callable[[Any, Any], None]
    ) -> None:
        """Call a function with the state, for each key of the current key group that has it."""
        if self._apply is None:
            msg = (
                "apply_to_keyed_state is for a KeyedBroadcastProcessFunction, got a call by a "
                "function without keys; call key_by before connect"
            )
            raise DeclarationError(msg)
        self._apply(state_descriptor, function)


# The journal


@attrs.define
class BroadcastElement:
    """An element of the broadcast input that was processed in one key group.

    Args:
        value: The element that the function got.
        timestamp: The event time in ms, or None.
        changes: The writes, in order: each is a call that writes into the current key group.
        is_local: Whether the call read the state of the key group's keys.
    """

    value: Any
    timestamp: int | None
    changes: list[Callable[[], None]] = attrs.field(factory=list)
    is_local: bool = False


class Journal:
    """The elements of one task's broadcast input, in order."""

    def __init__(self) -> None:
        self._elements: list[BroadcastElement] = []
        self._positions: dict[int, int] = {}
        self._written: BroadcastElement | None = None

    def next_of(self, index: int) -> BroadcastElement | None:
        """Return the next element of a key group, or None if it is new to the task.

        Args:
            index: The number of the key group.
        """
        at = self._positions.get(index, 0)
        self._positions[index] = at + 1
        return self._elements[at] if at < len(self._elements) else None

    def begin(self, value: Any, timestamp: int | None) -> BroadcastElement:
        """Begin an element that is new to the task, and record its writes until `end`."""
        self._written = BroadcastElement(value, timestamp)
        self._elements.append(self._written)
        return self._written

    def end(self) -> None:
        """End the element: later writes are repetitions, so they are not recorded."""
        self._written = None

    def write(self, change: Callable[[], None]) -> None:
        """Record a write of the current element."""
        if self._written is not None:
            self._written.changes.append(change)

    def keep_local(self) -> None:
        """Mark the current element as one that each key group must process itself."""
        if self._written is not None:
            self._written.is_local = True

    def forget(self) -> None:
        """Forget the elements of the task that is over."""
        self._elements.clear()
        self._positions.clear()
        self._written = None


@attrs.frozen
class JournaledTable:
    """A table whose writes also go to the journal; it has the methods of `Table` that a map uses.

    Entries are immutable, so a repeated write stores what the first one stored.

    Args:
        table: Writes into the current key group, also when a write is repeated.
        journal: Records each write, to repeat it in other key groups.
    """

    _table: Table
    _journal: Journal

    @property
    def spec(self) -> TableSpec:
        """The spec of the table."""
        return self._table.spec

    def get(self, user_key: Hashable) -> Entry:
        """Return the entry, or `MISSING`."""
        return self._table.get(user_key)

    def items(self) -> Iterable[tuple[Any, Entry]]:
        """Return the user keys with their entries."""
        return self._table.items()

    def is_empty(self) -> bool:
        """Return whether there is no entry."""
        return self._table.is_empty()

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry, in place of an earlier one."""
        self._change(lambda: self._table.put(user_key, entry))

    def delete(self, user_key: Hashable) -> None:
        """Remove an entry; do nothing if it does not exist."""
        self._change(lambda: self._table.delete(user_key))

    def clear(self) -> None:
        """Remove every entry."""
        self._change(self._table.clear)

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        """Store many entries at once."""
        # The items may be an iterator, which could not be read again when the write is repeated.
        entries = list(items)
        self._change(lambda: self._table.multi_put(entries))

    def _change(self, change: Callable[[], None]) -> None:
        change()
        self._journal.write(change)
