# SPDX-License-Identifier: Apache-2.0
"""Joins of the elements of two streams that lie in one window.

As in Flink both streams become one stream of tagged elements, which has windows like any other
stream.  A tagged element is a pair of the number of its input, 1 or 2, and the element.  Assigners,
triggers and evictors see these pairs.  When a window fires, its elements are parted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.functions import Function
from pyflinklike.joins.functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from pyflinklike.joins.interval import OUTER
from pyflinklike.joins.results import outputs_in
from pyflinklike.windows.functions import ProcessWindowFunction

__all__ = ["CoGrouping", "JoinedGroups"]

Tagged = tuple[int, Any]


class CoGrouping(ProcessWindowFunction[Tagged, Any, Any, Any]):
    """Applies a `CoGroupFunction` to the tagged elements of a window.

    Args:
        function: Takes the elements of both inputs.
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
        function: Takes the pairs; a callable of two elements is used as a `JoinFunction`.
        join: "inner", "left_outer", "right_outer" or "full_outer".
    """

    def __init__(
        self, function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any], join: str
    ) -> None:
        self._function = function
        self._outer = OUTER[join]

    def open(self, runtime_context: Any) -> None:
        """Open the function."""
        if isinstance(self._function, Function):
            self._function.open(runtime_context)

    def close(self) -> None:
        """Close the function."""
        if isinstance(self._function, Function):
            self._function.close()

    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        """Yield the outputs of all pairs."""
        left_outer, right_outer = self._outer
        # [None] * False is empty: without an outer join an empty side gives no pairs.
        pairs = (
            (one, other)
            for one in first or [None] * right_outer
            for other in second or [None] * left_outer
        )
        if isinstance(self._function, FlatJoinFunction):
            for pair in pairs:
                yield from outputs_in(self._function.join(*pair), self._function, "join")
        else:
            given = self._function
            join = given.join if isinstance(given, JoinFunction) else given
            for pair in pairs:
                yield join(*pair)
