# SPDX-License-Identifier: Apache-2.0
"""The type of tagged elements: pairs of the number of an input, 1 or 2, and an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.types import TypeInformation
from pyflinklike.types.nested_columns import null_mask

__all__ = ["TaggedTypeInfo"]


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
        # Named as those of a row are, as which it is read without the program: Arrow casts by name.
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
        """The signatures of both."""
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
        # An element that was deleted is null in the log.
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
