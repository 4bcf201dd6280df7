# SPDX-License-Identifier: Apache-2.0
"""The contents of windows: the state that holds the elements of a key and window until it fires.

It is either a list of all elements, to which the backend appends without reading it, or a fold of
the elements.  With an evictor it is always a list of all elements with their timestamps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from pyflinklike._messages import own_state
from pyflinklike.functions.contexts import NamespacedRuntimeContext
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from pyflinklike.state.fold_functions import AggregateFunction, ReduceFunction, not_returned
from pyflinklike.state.keyed_states import field_of_fold
from pyflinklike.state.table import Setting
from pyflinklike.types import TypeInformation, Types
from pyflinklike.windows.assigners import WindowAssigner
from pyflinklike.windows.evictors import Evictor, TimestampedValue
from pyflinklike.windows.triggers import Trigger
from pyflinklike.windows.window_functions import AppliedFunction
from pyflinklike.windows.window_kinds import Window

CONTENTS = own_state("window-contents", "the contents of a window")
"""Name of the state, as in Flink."""

_OF_THE_USER = "a function of your own"
_ANEW = "keep the former, or begin a new checkpoint"

Fire = Callable[[Any, Sequence[Any]], Any]
"""Takes a window and its contents when it fires."""
Step = Callable[[list[Any]], Any]
"""A step that adds many elements to contents at once."""


class Contents(ABC):
    """The form in which a window stores its elements, as the user declared it."""

    type_info: TypeInformation
    """The type of the elements; an evictor needs them with their timestamps."""

    @abstractmethod
    def descriptor(self) -> StateDescriptor:
        """Return the descriptor of the state that stores the contents."""

    @abstractmethod
    def fold(self, elements: Sequence[Any]) -> Sequence[Any]:
        """Return the contents that the window function gets for these elements."""

    def settings(self) -> Sequence[Setting]:
        """Return the settings of the contents that a restart must not change."""
        return ()


@attrs.frozen
class Gathered(Contents):
    """Every element, in order of arrival.

    Args:
        type_info: The type of the elements.
    """

    type_info: TypeInformation

    def descriptor(self) -> StateDescriptor:
        """Return the descriptor of a list."""
        return ListStateDescriptor(CONTENTS, self.type_info)

    def fold(self, elements: Sequence[Any]) -> Sequence[Any]:
        """Return the elements."""
        return elements


@attrs.frozen
class Reduced(Contents):
    """Elements reduced to one of their kind.

    Args:
        function: Reduces two elements to one.
        type_info: The type of the elements.
    """

    function: ReduceFunction
    type_info: TypeInformation

    def descriptor(self) -> StateDescriptor:
        """Return the descriptor of a reducing state."""
        return ReducingStateDescriptor(CONTENTS, self.function, self.type_info)

    def settings(self) -> Sequence[Setting]:
        """Return the fold and its field."""
        fixed = self.function.fixed() or _OF_THE_USER
        field = field_of_fold(self.function, self.type_info)
        return Setting("the fold of a window", fixed, remedy=_ANEW), *field

    def fold(self, elements: Sequence[Any]) -> Sequence[Any]:
        """Return a list of the reduced element; empty if there are no elements."""
        if not elements:
            return []
        folded, *others = elements
        for each in others:
            folded = self.function.reduce(folded, each)
            if folded is None:
                raise not_returned("reduce", self.function)
        return [folded]


@attrs.frozen
class Aggregated(Contents):
    """Elements folded into an accumulator.

    Args:
        function: Adds an element to the accumulator, and makes the result from it.
        accumulator_type: The type of the accumulator.
        type_info: The type of the elements, for an evictor.
    """

    function: AggregateFunction
    accumulator_type: TypeInformation
    type_info: TypeInformation

    def descriptor(self) -> StateDescriptor:
        """Return the descriptor of an aggregating state."""
        return AggregatingStateDescriptor(CONTENTS, self.function, self.accumulator_type)

    def fold(self, elements: Sequence[Any]) -> Sequence[Any]:
        """Return a list of the result; as in Flink also if there are no elements."""
        function = self.function
        accumulator = function.create_accumulator()
        for element in elements:
            accumulator = function.add(element, accumulator)
            if accumulator is None:
                raise not_returned("add", function)
        return [function.get_result(accumulator)]


def _at_once(window: Any, call: Callable[..., object], *given: Any) -> bool:  # noqa: ARG001
    call(*given)
    return True


class StoredContents:
    """The contents of the current key and window, once the operator is open: a list of elements.

    Args:
        state: The state that keeps the contents.
        contents: The form of the contents in that state.
    """

    alone: Callable[..., bool] = staticmethod(_at_once)
    """Makes a call of the user's code that belongs to a firing, and returns whether it succeeded.

    Its arguments are the window, the call and the arguments of that call.  If such a call may fail
    alone, the operator replaces this function.
    """

    @staticmethod
    def of(
        contents: Contents,
        context: NamespacedRuntimeContext,
        evictor: Evictor[Any, Any] | None,
        evictor_context: Evictor.EvictorContext,
        windows: str,
        settings: Sequence[Setting],
    ) -> StoredContents:
        """Declare the state, and return the contents that use it.

        Args:
            contents: The form of the contents that the user declared.
            context: The context that provides the state.
            evictor: Removes elements when a window fires; None to keep all.
            evictor_context: The context of the evictor.
            windows: The kind of the windows, which a restart must not change: windows of another
                kind would never end.
            settings: Further settings of the windows that a restart must not change.
        """
        kept = contents
        if evictor is not None:
            kept = Gathered(Types.TUPLE([contents.type_info, Types.LONG()]))
        descriptor = kept.descriptor()
        kind, settings = f"{descriptor.kind} of {windows}", (*settings, *kept.settings())
        state = context.get_partitioned_state(CONTENTS, descriptor, kind, settings)
        context.reserve(descriptor)
        if evictor is not None:
            return _Evicted(state, kept, contents, evictor, evictor_context)
        if isinstance(contents, Gathered):
            return StoredContents(state, contents)
        assert isinstance(contents, (Reduced, Aggregated))
        return _StoredFold(state, contents)

    def __init__(self, state: Any, contents: Contents) -> None:
        self.state = state
        """The state that keeps the contents; if windows merge, their states merge."""
        self.clear: Callable[[], None] = state.clear
        """Drop the contents."""
        self.store: Callable[[Any], None] = state._store
        """Store prepared contents under the current key and window."""
        self._add, self._are_stored = state.add, contents.type_info.are_stored

    def add(self, value: Any, timestamp: int | None) -> None:
        """Add an element with its event time in ms."""
        self._add(value)

    # Many elements at once.  The state does not change before `store`.  If an element or a fold is
    # refused, the steps raise, though with another message than `add`.

    def choose_steps(self, elements: Sequence[Any]) -> tuple[Step, Step]:
        """Choose the steps by which elements of a micro-batch are added, many at once.

        Late elements are among these, and may be of any kind.

        Args:
            elements: All elements of the micro-batch, at least one.

        Returns:
            Two functions of a list of some of the elements.  The first prepares them once for all
            of their windows.  The second takes its result and returns the contents to `store` under
            the current key and window: the same as if the elements were added one by one.
        """
        return _as_they_are if self._are_stored(elements) else self._freeze, _as_they_are

    def _freeze(self, elements: list[Any]) -> list[Any]:
        frozen: list[Any] = self.state._prepare(elements, None)
        return frozen

    def fire(self, window: Any, apply: Fire) -> None:
        """Apply a function to the contents, unless they are empty."""
        elements = list(self.state.get())
        if elements:
            apply(window, elements)

    def look(self) -> Any:
        """Return the contents, for the dead letter of a firing that failed."""
        return list(self.state.get())

    def is_empty(self) -> bool:
        """Return whether there are no contents."""
        return not any(True for _ in self.state.get())


def _as_they_are(elements: list[Any]) -> Any:
    return elements


class _StoredFold(StoredContents):
    """A fold; our own reduce functions take many elements at once."""

    def __init__(self, state: Any, contents: Aggregated | Reduced) -> None:
        super().__init__(state, contents)
        self._fold_stored: Callable[[Sequence[Any]], Any] | None = None
        if isinstance(contents, Aggregated):
            self._fold: Callable[[Any, Any], Any] = contents.function.add
        else:
            self._fold = contents.function.reduce
            self._fold_stored = contents.function.make_stored_fold(contents.type_info)

    def choose_steps(self, elements: Sequence[Any]) -> tuple[Step, Step]:
        is_short = self._fold_stored is not None and self._are_stored(elements)
        return _as_they_are, self._prepare_stored if is_short else self._prepare

    def _prepare(self, elements: list[Any]) -> Any:
        return self.state._prepare(elements, self._fold)

    def _prepare_stored(self, elements: list[Any]) -> Any:
        return self.state._prepare_stored(elements, self._fold_stored)

    def fire(self, window: Any, apply: Fire) -> None:
        folded = self.state.get()
        if folded is not None:
            apply(window, [folded])

    def look(self) -> Any:
        return self.state.get()

    def is_empty(self) -> bool:
        return self.state.get() is None


class _Evicted(StoredContents):
    """Every element with its timestamp; an evictor removes some when the window fires."""

    def __init__(
        self,
        state: Any,
        kept: Contents,
        contents: Contents,
        evictor: Evictor[Any, Any],
        evictor_context: Evictor.EvictorContext,
    ) -> None:
        super().__init__(state, kept)
        self._contents, self._evictor, self._context = contents, evictor, evictor_context

    def add(self, value: Any, timestamp: int | None) -> None:
        self._add((value, timestamp))

    def fire(self, window: Any, apply: Fire) -> None:
        elements = [TimestampedValue(*each) for each in self.state.get()]
        if not elements:
            return
        # An evicted element stays evicted if the function fails: else the contents would only grow.
        if self._evict(self._evictor.evict_before, elements, window):
            self.alone(window, self._apply_to, elements, window, apply)
            self._evict(self._evictor.evict_after, elements, window)
        self.state.update([(each.value, each.timestamp) for each in elements])

    def _evict(
        self, step: Callable[..., None], elements: list[TimestampedValue[Any]], window: Any
    ) -> bool:
        # On a copy, so that an evictor which fails half-way removes no element.
        left = list(elements)
        if not self.alone(window, step, left, len(left), window, self._context):
            return False
        elements[:] = left
        return True

    def _apply_to(
        self, elements: Sequence[TimestampedValue[Any]], window: Any, apply: Fire
    ) -> None:
        folded = self._contents.fold([each.value for each in elements])
        if folded or isinstance(self._contents, Gathered):
            apply(window, folded)

    def look(self) -> Any:
        return [value for value, _ in self.state.get()]


Collect = Callable[[Any, Window, Any], Any]
"""Makes the output from the key, the window and a result."""


@attrs.frozen
class WindowDeclaration:
    """The windows as the user declared them, from which the operator is made.

    Args:
        assigner: Assigns elements to windows.
        trigger: Decides when a window fires.
        contents: The form in which elements are stored.
        function: Makes outputs from the contents.
        allowed_lateness: The time in ms for which windows of event time stay open beyond their end.
        late_data_tag: The side output of elements that are late for all their windows, or None.
        late_output: Makes an output from such an element instead; if it returns None, the element
            is counted.
        evictor: Removes elements when a window fires; None to keep all.
        collect: Makes an output from key, window and result; None if the result is the output.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    contents: Contents
    function: AppliedFunction
    allowed_lateness: int = 0
    late_data_tag: OutputTag | None = None
    late_output: Callable[[Any], Any] | None = None
    evictor: Evictor[Any, Any] | None = None
    collect: Collect | None = None
