# SPDX-License-Identifier: Apache-2.0
"""Reduce functions by one field: sum, min, max, min_by and max_by.

`Sum`, `Min` and `Max` fold one field and take all other fields from the first element, as in
Flink.  `MinBy` and `MaxBy` keep a whole element; if two are equal in the field, the earlier one.

An element may be a `Row`, a tuple, a list, or a plain value.  A field is named by its position, in
a `Row` also by its name; a plain value only has the position 0.  An element is never changed:
PyFlink changes it in place, here a new element is made.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import attrs

from pyflinklike.checks import is_int
from pyflinklike.errors import DeclarationTypeError, StateValueError
from pyflinklike.functions import ReduceFunction
from pyflinklike.shown import shown

__all__ = ["FieldFold", "Max", "MaxBy", "Min", "MinBy", "Sum"]


def _check_position(_: Any, __: attrs.Attribute[Any], position: Any) -> None:
    if not is_int(position) and not isinstance(position, str):
        msg = (
            "The field position must be of int or str type to locate the value to calculate for "
            f"min, max, min_by, max_by and sum, got {shown(position)}; give a number from 0, or "
            "the name of a field"
        )
        raise DeclarationTypeError(msg)


def _has_fields(value: Any) -> bool:
    """Return whether a value is a row, tuple or list."""
    is_plain = isinstance(value, (tuple, list))
    return is_plain or (isinstance(value, Sequence) and not isinstance(value, (str, bytes)))


@attrs.frozen
class FieldFold(ReduceFunction[Any]):
    """A fold by one field.

    Args:
        position: The position of the field from 0, or its name.

    Raises:
        DeclarationTypeError: The position is neither an int nor a str.
    """

    what: ClassVar[str]
    """The name of the fold in PyFlink."""

    position: int | str = attrs.field(default=0, validator=_check_position)

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Fold an element into the fold so far.

        Raises:
            StateValueError: One of the two has no such field.
        """
        return self._fold(value1, self._field(value1), value2, self._field(value2))

    def fixed(self) -> str:
        """Return the name of the fold and its field, by which a state knows its function."""
        return f"{self.what}({self.position!r})"

    def folded_field(self, names: Sequence[str]) -> str | None:
        """That at its position."""
        at = self.position
        return names[at] if isinstance(at, int) and -len(names) <= at < len(names) else None

    @abstractmethod
    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:
        """Fold two elements, each of which is followed by its field."""

    def _field(self, value: Any) -> Any:
        if _has_fields(value):
            try:
                at: Any = self.position  # a Row takes names, too
                return value[at]
            except (IndexError, KeyError, TypeError):
                self._refuse(value, "has no such field; give the position of one that it has")
        if self.position != 0:
            self._refuse(value, "is a basic type, which only has the 0th field; give position 0")
        return value

    def _refuse(self, value: Any, rule: str) -> NoReturn:
        msg = f"{self.what}({self.position!r}): {shown(value)} {rule}, or a Row with names"
        raise StateValueError(msg)

    def _with(self, value: Any, field: Any) -> Any:
        """Make an element with another value in the field."""
        if not _has_fields(value):
            return field
        fields = list(value)
        names: Any = getattr(value, "_fields", ())
        at: Any = names.index(self.position) if isinstance(self.position, str) else self.position
        fields[at] = field
        if isinstance(value, list):
            return fields
        make = getattr(value, "_make", tuple)
        return make(fields)


@attrs.frozen
class Sum(FieldFold):
    """The sum of a field; the other fields are the first element's."""

    what = "sum"

    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:  # noqa: ARG002
        return self._with(first, known + added)


@attrs.frozen
class Min(FieldFold):
    """The least value of a field; the other fields are the first element's."""

    what = "min"

    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:  # noqa: ARG002
        return self._with(first, added) if added < known else first


@attrs.frozen
class Max(FieldFold):
    """The greatest value of a field; the other fields are the first element's."""

    what = "max"

    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:  # noqa: ARG002
        return self._with(first, added) if added > known else first


@attrs.frozen
class MinBy(FieldFold):
    """The element with the least value of a field; the earliest one if several are equal."""

    what = "min_by"

    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:
        return second if added < known else first


@attrs.frozen
class MaxBy(FieldFold):
    """The element with the greatest value of a field; the earliest one if several are equal."""

    what = "max_by"

    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:
        return second if added > known else first
