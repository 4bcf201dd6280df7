# SPDX-License-Identifier: Apache-2.0
"""Calls of a function with a broadcast input.

Its elements have no key, so a host gives them to `process_broadcast`, apart from the records.
Flink calls the function once for an element in each parallel instance.  Here the first key group
of a task calls it, and the journal repeats its writes in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from pyflinklike.errors import OutputError
from pyflinklike.runtime.broadcast_states import BroadcastSideContext, BroadcastStates
from pyflinklike.runtime.calls import FunctionCalls
from pyflinklike.runtime.contexts import OperatorRuntimeContext
from pyflinklike.runtime.journal import Processed
from pyflinklike.shown import shown
from pyflinklike.state.current_key import GROUP_KEY, NO_KEY
from pyflinklike.state.descriptors import StateDescriptor

__all__ = ["BroadcastCalls"]


@attrs.frozen
class BroadcastCalls(FunctionCalls):
    """Calls a `KeyedBroadcastProcessFunction` or a `BroadcastProcessFunction`.

    Args:
        runtime_context: Knows the states of keys, for `apply_to_keyed_state`.
    """

    states: BroadcastStates
    _runtime_context: OperatorRuntimeContext
    _has_keys: bool
    _side: BroadcastSideContext = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        apply = self._apply if self._has_keys else None
        # Assigned here, since the context takes a method of this frozen object.
        object.__setattr__(self, "_side", BroadcastSideContext(self._clock, self.states, apply))

    def process_broadcast(self, index: int, elements: Iterable[tuple[Any, int | None]]) -> None:
        """Process elements of the broadcast input in the current key group, in order.

        Args:
            index: The number of the key group.
            elements: Values with event times in ms.  Each key group of a task gets the same ones.

        Raises:
            UserFunctionError: The function raised; what it wrote before stays in
                the working state, which the host must then not commit.
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

    def _process_here(self, element: Processed) -> None:
        clock = self._clock
        clock.timestamp = element.timestamp
        try:
            results = self.function.process_broadcast_element(element.value, self._side)
            if results is not None:
                self.outputs.emit(results, GROUP_KEY)
        except Exception as error:
            self._explain(error, "process_broadcast_element", element.value)
            raise
        finally:
            self._current.key, clock.timestamp = NO_KEY, None

    def _timer_call(self) -> Callable[[int, Any], Iterable[Any] | None]:
        # A function without keys has no timers, and no method for them.
        return super()._timer_call() if self._has_keys else lambda *_: None

    def _apply(self, descriptor: StateDescriptor[Any], function: Callable[[Any, Any], Any]) -> None:
        """Call a function for each key of the current key group that has the state."""
        # Keys differ from group to group, so each key group must process this element itself.
        self.states.journal.keep_local()
        state = self._runtime_context.state_of(descriptor)
        current, thaw = self._current, self.key_type.thaw_key
        for key in self._runtime_context.keys_of(descriptor.name):
            current.key = key
            given = function(thaw(key), state)
            if given is not None:
                msg = (
                    "the function of apply_to_keyed_state gives nothing, got "
                    f"{shown(given)} for key {shown(thaw(key))}; collect what is to be put out "
                    "in a list, and yield it afterwards"
                )
                raise OutputError(msg)
        current.key = NO_KEY
