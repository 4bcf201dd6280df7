# SPDX-License-Identifier: Apache-2.0
"""The folds of a keyed stream, with PyFlink's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyflinklike.datastream.declared import Outlets
from pyflinklike.folds.reducers import Max, MaxBy, Min, MinBy, Sum
from pyflinklike.functions import ReduceFunction, as_reduce_function
from pyflinklike.graph.captured import captured
from pyflinklike.graph.nodes import Fold, Node
from pyflinklike.types import TypeInformation

__all__ = ["Folded"]

S = TypeVar("S", bound=Outlets)


class Folded(Outlets, Generic[S]):
    """What a stream with keys can fold; a fold is a stream of kind `S`."""

    def _with(self, kind: type[Node], name: str, function: Any, output_type: TypeInformation) -> S:
        raise NotImplementedError

    def reduce(self, func: ReduceFunction[Any] | Callable[[Any, Any], Any]) -> S:
        """The fold of the elements of each key: so far for each element, in batch mode once.

        Raises:
            DeclarationTypeError: It is no reduce function.
        """
        return self._with(Fold, "Reduce", captured(as_reduce_function(func)), self.get_type())

    def sum(self, position_to_sum: int | str = 0) -> S:
        """The sum of a field; the other fields are those of the key's first element."""
        return self._with(Fold, "Sum", Sum(position_to_sum), self.get_type())

    def min(self, position_to_min: int | str = 0) -> S:
        """The least value of a field; the other fields are those of the key's first element."""
        return self._with(Fold, "Min", Min(position_to_min), self.get_type())

    def max(self, position_to_max: int | str = 0) -> S:
        """The greatest value of a field; the other fields are those of the key's first element."""
        return self._with(Fold, "Max", Max(position_to_max), self.get_type())

    def min_by(self, position_to_min_by: int | str = 0) -> S:
        """The element with the least value of a field, the earliest of them."""
        return self._with(Fold, "MinBy", MinBy(position_to_min_by), self.get_type())

    def max_by(self, position_to_max_by: int | str = 0) -> S:
        """The element with the greatest value of a field, the earliest of them."""
        return self._with(Fold, "MaxBy", MaxBy(position_to_max_by), self.get_type())
