# SPDX-License-Identifier: Apache-2.0
"""The contents of windows: what is kept of the elements of a key and window until it fires.

Either every element, in a list that is appended to without being read, or what they are folded
into.  With an evictor it is always every element, with its timestamp.

What a user says of windows, before there is an operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import attrs

from pyflinklike.engine.api.contexts import NamespacedRuntimeContext
from pyflinklike.engine.api.output_tag import OutputTag
from pyflinklike.engine.functions import AggregateFunction, ReduceFunction
from pyflinklike.engine.shown import own_state, shown
from pyflinklike.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from pyflinklike.engine.state.keyed_states import field_of_fold
from pyflinklike.engine.state.table import Setting
from pyflinklike.engine.types import TypeInformation, Types
from pyflinklike.errors import StateValueError
from pyflinklike.windows.assigners import WindowAssigner
from pyflinklike.windows.evictors import Evictor, TimestampedValue
from pyflinklike.windows.triggers import Trigger
from pyflinklike.windows.window_functions import AppliedFunction
from pyflinklike.windows.window_kinds import Window

__all__ = [
    "CONTENTS",
    "Aggregated",
    "Collect",
    "Contents",
    "Gathered",
    "Kept",
    "Reduced",
    "WindowDeclaration",
]


CONTENTS = own_state("window-contents", "the contents of a window")
"""Name of the state, as Flink's."""

_OF_THE_USER = "a function of your own"
_ANEW = "keep the former, or begin a new checkpoint"

Fire = Callable[[Any, Sequence[Any]], Any]
"""What is done with a window and what is in it."""


class Contents(ABC):
    """What is kept of the elements: the declaration."""

    @abstractmethod
    def descriptor(self) -> StateDescriptor:
        """Of the state that keeps it."""

    @abstractmethod
    def element_type(self) -> TypeInformation:
        """Of the elements, to keep them with their timestamps."""

    @abstractmethod
    def folded(self, elements: Sequence[Any]) -> Sequence[Any]:
        """What a function gets of these elements."""


@attrs.frozen
class Gathered(Contents):
    """Every element, in order of arrival.

    Args:
        type_info: Of the elements.
    """

    type_info: TypeInformation

    def descriptor(self) -> StateDescriptor:
        """A list."""
        return ListStateDescriptor(CONTENTS, self.type_info)

    def element_type(self) -> TypeInformation:
        """Of the elements."""
        return self.type_info

    def folded(self, elements: Sequence[Any]) -> Sequence[Any]:
        """The elements."""
        return elements


@attrs.frozen
class Reduced(Contents):
    """Elements reduced to one of their kind.

    Args:
        function: Reduces two to one.
        type_info: Of the elements.
    """

    function: ReduceFunction
    type_info: TypeInformation

    def descriptor(self) -> StateDescriptor:
        """A reducing state."""
        return ReducingStateDescriptor(CONTENTS, _Reducing(self.function), self.type_info)

    def element_type(self) -> TypeInformation:
        """Of the elements."""
        return self.type_info

    def folded(self, elements: Sequence[Any]) -> Sequence[Any]:
        """One element, or none of none."""
        return [reduce(_Reducing(self.function).reduce, elements)] if elements else []


@attrs.frozen
class _Reducing(ReduceFunction[Any]):
    """A function that must not forget what it made: None would empty the window in silence.

    Args:
        function: The user's.
    """

    _function: ReduceFunction[Any]

    def reduce(self, value1: Any, value2: Any) -> Any:
        return _there(self._function.reduce(value1, value2), self._function, "reduce")


@attrs.frozen
class _Aggregating(AggregateFunction[Any, Any, Any]):
    """As `_Reducing`, of an accumulator.

    Args:
        function: The user's.
    """

    _function: AggregateFunction[Any, Any, Any]

    def create_accumulator(self) -> Any:
        return self._function.create_accumulator()

    def add(self, value: Any, accumulator: Any) -> Any:
        return _there(self._function.add(value, accumulator), self._function, "add")

    def get_result(self, accumulator: Any) -> Any:
        return self._function.get_result(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return _there(self._function.merge(acc_a, acc_b), self._function, "merge")


def _there(made: Any, function: object, method: str) -> Any:
    """What a function made of a window's elements.

    Raises:
        StateValueError: It is None.
    """
    if made is None:
        given = getattr(function, "_func", None)
        name = type(function).__qualname__ if given is None else shown(given)
        msg = (
            f"what {method} makes of the elements of a window is never None, got None from {name}; "
            "see that it returns what it made"
        )
        raise StateValueError(msg)
    return made


@attrs.frozen
class Aggregated(Contents):
    """Elements folded into an accumulator.

    Args:
        function: Folds them.
        accumulator_type: Of the accumulator.
        type_info: Of the elements, for an evictor.
    """

    function: AggregateFunction
    accumulator_type: TypeInformation
    type_info: TypeInformation

    def descriptor(self) -> StateDescriptor:
        """An aggregating state."""
        function = _Aggregating(self.function)
        return AggregatingStateDescriptor(CONTENTS, function, self.accumulator_type)

    def element_type(self) -> TypeInformation:
        """Of the elements."""
        return self.type_info

    def folded(self, elements: Sequence[Any]) -> Sequence[Any]:
        """The one result; of no element, too, as Flink's."""
        function = _Aggregating(self.function)
        accumulator = function.create_accumulator()
        for element in elements:
            accumulator = function.add(element, accumulator)
        return [function.get_result(accumulator)]


class Kept(ABC):
    """The contents of the current key and window, once the operator is open."""

    state: Any
    """That keeps them; windows that merge merge it."""

    @staticmethod
    def of(
        contents: Contents,
        context: NamespacedRuntimeContext,
        evictor: Evictor[Any, Any] | None,
        evictor_context: Evictor.EvictorContext,
        windows: str,
        settings: Sequence[Setting],
    ) -> Kept:
        """Declare the state.

        Args:
            contents: The declaration.
            context: Where state is obtained.
            evictor: What removes elements when a window fires, or None.
            evictor_context: What it may ask.
            windows: What kind of windows these are: those of another kind would never end.
            settings: What else a restart may not change of them.
        """
        declared = (context, windows, settings)
        if evictor is not None:
            return _Evicted(contents, evictor, evictor_context, *declared)
        if isinstance(contents, Gathered):
            return _KeptElements(contents.descriptor(), *declared)
        if isinstance(contents, Reduced):
            fold = contents.function.fixed() or _OF_THE_USER
            field = field_of_fold(contents.function, contents.type_info)
            settings = (*settings, Setting("the fold of a window", fold, remedy=_ANEW), *field)
        return _KeptFold(contents.descriptor(), context, windows, settings)

    def __init__(
        self,
        descriptor: StateDescriptor,
        context: NamespacedRuntimeContext,
        windows: str,
        settings: Sequence[Setting],
    ) -> None:
        kind = f"{descriptor.kind} of {windows}"
        self.state = context.get_partitioned_state(CONTENTS, descriptor, kind, settings)
        context.reserve(descriptor)
        self.clear: Callable[[], None] = self.state.clear
        """Drop them."""

    @abstractmethod
    def add(self, value: Any, timestamp: int | None) -> None:
        """Take in an element with its event time in ms."""

    @abstractmethod
    def fire(self, window: Any, apply: Fire) -> None:
        """Apply a function to them, unless there are none."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there are none."""


class _KeptElements(Kept):
    def __init__(
        self,
        descriptor: StateDescriptor,
        context: NamespacedRuntimeContext,
        windows: str,
        settings: Sequence[Setting],
    ) -> None:
        super().__init__(descriptor, context, windows, settings)
        self._add = self.state.add

    def add(self, value: Any, timestamp: int | None) -> None:
        self._add(value)

    def fire(self, window: Any, apply: Fire) -> None:
        elements = list(self.state.get())
        if elements:
            apply(window, elements)

    def is_empty(self) -> bool:
        return not any(True for _ in self.state.get())


class _KeptFold(_KeptElements):
    def fire(self, window: Any, apply: Fire) -> None:
        folded = self.state.get()
        if folded is not None:
            apply(window, [folded])

    def is_empty(self) -> bool:
        return self.state.get() is None


class _Evicted(_KeptElements):
    """Every element with its timestamp, some of which an evictor removes when the window fires."""

    def __init__(
        self,
        contents: Contents,
        evictor: Evictor[Any, Any],
        evictor_context: Evictor.EvictorContext,
        context: NamespacedRuntimeContext,
        windows: str,
        settings: Sequence[Setting],
    ) -> None:
        timed = Types.TUPLE([contents.element_type(), Types.LONG()])
        super().__init__(ListStateDescriptor(CONTENTS, timed), context, windows, settings)
        self._contents, self._evictor, self._context = contents, evictor, evictor_context

    def add(self, value: Any, timestamp: int | None) -> None:
        self._add((value, timestamp))

    def fire(self, window: Any, apply: Fire) -> None:
        elements = [TimestampedValue(*each) for each in self.state.get()]
        if not elements:
            return
        evictor, context = self._evictor, self._context
        evictor.evict_before(elements, len(elements), window, context)
        folded = self._contents.folded([each.value for each in elements])
        if folded or isinstance(self._contents, Gathered):
            apply(window, folded)
        evictor.evict_after(elements, len(elements), window, context)
        self.state.update([(each.value, each.timestamp) for each in elements])


Collect = Callable[[Any, Window, Any], Any]
"""Makes of key, window and result what goes out."""


@attrs.frozen
class WindowDeclaration:
    """What the user said of windows.

    Args:
        assigner: Says in which windows an element is.
        trigger: Says when one fires.
        contents: What is kept of elements.
        function: Makes outputs of that.
        allowed_lateness: How long a window of event time is open beyond its end, in ms.
        late_data_tag: Side output of elements that are late for all their windows, or None.
        late_output: Makes of such an element what goes out, where it is not that side output's; None
            where the element is counted.
        evictor: Removes elements when a window fires, or None.
        collect: Makes of key, window and result what goes out; None where that is the result.
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
