# SPDX-License-Identifier: Apache-2.0
"""Joins of the elements of two streams that lie in one window.

As in Flink, both streams become one stream of tagged elements, which has windows like any other
stream.  A tagged element is a pair of the number of its input, 1 or 2, and the element.  Assigners,
triggers and evictors see these pairs.  When a window fires, its elements are divided by input
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.functions.contexts import Attempt
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.joins.interval_joiner import OUTER
from pyflinklike.joins.join_functions import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    call_alone,
    outputs_in,
)
from pyflinklike.state.fold_functions import Function
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import null_mask
from pyflinklike.windows.window_functions import ProcessWindowFunction

Tagged = tuple[int, Any]


class CoGrouping(ProcessWindowFunction[Tagged, Any, Any, Any]):
    """Applies a `CoGroupFunction` to the tagged elements of a window.

    Args:
        function: The user's function, which gets the elements of both inputs.
    """

    def __init__(self, function: CoGroupFunction) -> None:
        self._function = function

    def open(self, runtime_context: Any) -> None:
        """Open the function."""
        self._function.open(runtime_context)

    def close(self) -> None:
        """Close the function."""
        self._function.close()

    def process(
        self,
        key: Any,  # noqa: ARG002
        context: ProcessWindowFunction.Context[Any],  # noqa: ARG002
        elements: Iterable[Tagged],
    ) -> Iterable[Any]:
        """Return the function's outputs."""
        groups: tuple[list[Any], list[Any]] = [], []
        for number, element in elements:
            groups[number - 1].append(element)
        return outputs_in(self._function.co_group(*groups), self._function, "co_group")


@attrs.frozen
class LateByInput:
    """The side outputs of tagged elements that are late for all their windows.

    Args:
        tags: The side output of late elements for each input; None if they are only counted.
    """

    tags: tuple[OutputTag | None, OutputTag | None]

    def __call__(self, element: Tagged) -> tuple[OutputTag, Any] | None:
        """Return the side output of an element's input, and the element without its number."""
        number, value = element
        tag = self.tags[number - 1]
        return None if tag is None else (tag, value)


class JoinedGroups(CoGroupFunction):
    """Calls a function with every element of one group and every element of the other.

    Args:
        function: The user's function of a pair; a callable of two elements acts as a
            `JoinFunction`.
        join: "inner", "left_outer", "right_outer" or "full_outer".
    """

    def __init__(
        self, function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any], join: str
    ) -> None:
        self._function = function
        self._outer = OUTER[join]
        self._attempt: Attempt | None = None

    def open(self, runtime_context: Any) -> None:
        """Open the function."""
        self._attempt = runtime_context._attempt
        if isinstance(self._function, Function):
            self._function.open(runtime_context)

    def close(self) -> None:
        """Close the function."""
        if isinstance(self._function, Function):
            self._function.close()

    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        """Yield the outputs of all pairs.  A pair may fail alone and become a dead letter."""
        left_outer, right_outer = self._outer
        # [None] * False is empty, so an empty side gives pairs only in an outer join.
        pairs = (
            (one, other)
            for one in first or [None] * right_outer
            for other in second or [None] * left_outer
        )
        given, attempt = self._function, self._attempt
        if attempt is not None:
            for pair in pairs:
                yield from call_alone(attempt, partial(self._join, *pair), pair, given, "join")
        elif isinstance(given, FlatJoinFunction):
            for pair in pairs:
                yield from outputs_in(given.join(*pair), given, "join")
        else:
            join = given.join if isinstance(given, JoinFunction) else given
            for pair in pairs:
                yield join(*pair)

    def _join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Return the outputs of a pair."""
        given = self._function
        if isinstance(given, FlatJoinFunction):
            return given.join(first, second)
        return [
            given.join(first, second) if isinstance(given, JoinFunction) else given(first, second)
        ]


@attrs.frozen(repr=False)
class TaggedTypeInfo(TypeInformation[tuple[int, Any]]):
    """The type of pairs of an input's number and an element of that input.

    Args:
        first: The type of the first input's elements.
        second: The type of the second input's elements.
    """

    first: TypeInformation
    second: TypeInformation
    arrow_type: Any = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Derive the Arrow type."""
        # Without the program it is read as a row, and Arrow casts by name, so the names are a
        # row's.
        fields = [("f0", pa.int8()), ("f1", self.first.arrow_type), ("f2", self.second.arrow_type)]
        object.__setattr__(self, "arrow_type", pa.struct(fields))

    @property
    def is_identity(self) -> bool:
        """Whether the types of both inputs are identity types."""
        return self.first.is_identity and self.second.is_identity

    @property
    def is_pickled(self) -> bool:
        """Whether the type of an input is pickled."""
        return self.first.is_pickled or self.second.is_pickled

    @property
    def signature(self) -> str:
        """The name of the type, with the signatures of both inputs' types."""
        return f"TaggedTypeInfo({self.first.signature}, {self.second.signature})"

    def freeze(self, value: Any) -> Any:
        """Freeze the element of a pair.

        Raises:
            StateValueError: The element does not fit the type of its input.
        """
        number, element = value
        return number, self._of(number).freeze(element)

    def thaw(self, stored: Any) -> Any:
        """Return a pair with an element that the user may change."""
        number, element = stored
        return number, self._of(number).thaw(element)

    def to_arrow(self, stored: Sequence[Any]) -> pa.Array:
        """Write a column of numbers, and a column of elements for each input."""
        # The log has a null for an element that was deleted.
        nulls = null_mask(stored)
        pairs = stored if nulls is None else [each or (None, None) for each in stored]
        elements = [
            kind.to_arrow([element if number == mine else None for number, element in pairs])
            for mine, kind in ((1, self.first), (2, self.second))
        ]
        columns = [pa.array([number for number, _ in pairs], pa.int8()), *elements]
        return pa.StructArray.from_arrays(columns, fields=list(self.arrow_type), mask=nulls)

    def from_arrow(self, column: pa.Array) -> list[Any]:
        """Read the pairs."""
        numbers = column.field(0).to_pylist()
        elements = self.first.from_arrow(column.field(1)), self.second.from_arrow(column.field(2))
        return [
            None if number is None else (number, elements[number - 1][at])
            for at, number in enumerate(numbers)
        ]

    def _of(self, number: int) -> TypeInformation:
        return self.first if number == 1 else self.second

    def _takes(self) -> str:
        return "a pair of 1 or 2 and an element"

    def __repr__(self) -> str:
        return f"TaggedTypeInfo({self.first!r}, {self.second!r})"
