# SPDX-License-Identifier: Apache-2.0
"""The `Row` of PyFlink's jobs: a job can assign its fields, and it has a kind.

`pyflinklike.Row` is immutable, as state and DataFrames need it.  This `Row` is for jobs that were written for
PyFlink.  The types of rows in `pyflinklike.pyflink.common.Types` take it and return it.  Both rows have the same
stored bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import short_repr
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.types import TypeInformation
from pyflinklike.types import Types as _Types
from pyflinklike.types.copies import copy_by
from pyflinklike.types.row_types import RowTypeInfo

__all__ = ["AssignableRowTypeInfo", "Row", "RowKind", "Types", "restore_row"]

__getattr__ = of_pyflink(__name__)


class RowKind(WithoutJava, Enum):
    """The kind of a change, as `pyflink.common.RowKind`."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


_OWN = frozenset({"_fields", "_values", "_row_kind"})


class Row:
    """A record whose fields can be read and assigned, as `pyflink.common.Row`.

    Two named rows are equal if they have the same fields with the same values, in any order.  Two unnamed
    rows are equal if they have the same values in the same order.  A named row never equals an unnamed one.
    Rows of different kinds are never equal.

    Args:
        *args: The values of an unnamed row.
        **kwargs: The fields of a named row.

    Raises:
        ValueError: The call has both values and named fields.
    """

    _fields: list[str] | None
    _values: list[Any]
    _row_kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            msg = f"Can not use both args and kwargs to create Row, got {short_repr(args)} and {short_repr(kwargs)}"
            raise ValueError(f"{msg}; name all fields or none")
        self._fields = list(kwargs) if kwargs else None
        self._values = list(kwargs.values()) if kwargs else list(args)
        self._row_kind = RowKind.INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Make a row of a kind.

        Args:
            row_kind: The kind, such as `RowKind.DELETE`.
            args: The values of an unnamed row.
            kwargs: The fields of a named row.
        """
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def get_row_kind(self) -> RowKind:
        """Return the kind; it is INSERT unless the program sets another."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind.

        Args:
            row_kind: The kind, such as `RowKind.DELETE`.
        """
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields, or rename them.

        Args:
            field_names: A name for each field, in order.
        """
        self._fields = list(field_names)

    def field_names(self) -> list[str] | None:
        """Return the names of the fields; None for an unnamed row."""
        return self._fields

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values of some fields; all values of an unnamed row.

        Args:
            names: The names of the fields, in the order of the result.

        Raises:
            ValueError: The row has no field of a name.
        """
        return self._values if self._fields is None else [self[name] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the fields by name.

        Args:
            recursive: True also turns the rows in its fields, lists and dicts into dicts.

        Raises:
            TypeError: The row has no names.
        """
        if self._fields is None:
            msg = f"Cannot convert a Row without field names into dict, got {short_repr(self)}"
            raise TypeError(f"{msg}; call set_field_names first")
        values = map(_as_dicts, self._values) if recursive else self._values
        return dict(zip(self._fields, values))

    def __call__(self, *args: Any) -> Row:
        """Make a row with this row's values as names: `Row("a", "b")(1, 2)` is `Row(a=1, b=2)`.

        Args:
            args: The values, at most one for each name.

        Raises:
            ValueError: There are more values than names.
        """
        if len(args) > len(self):
            msg = (
                f"a row with the fields {short_repr(self)} has {len(self)} values, got {len(args)}"
            )
            raise ValueError(f"{msg}; give one value for each field")
        return restore_row(self._values, args, self._row_kind)

    def _make(self, values: Iterable[Any]) -> Row:
        """Return a row of the same names and kind with other values."""
        return restore_row(self._fields, values, self._row_kind)

    def _position(self, item: Any) -> Any:
        if isinstance(item, (int, slice)):
            return item
        if self._fields is None or item not in self._fields:
            known = f"the fields {self._fields}" if self._fields else "no field names"
            msg = f"this Row has {known}, got {short_repr(item)}; use one of them or a position"
            raise _NoFieldError(msg)
        return self._fields.index(item)

    def __getitem__(self, item: Any) -> Any:
        """Return the value at a position, or of a field."""
        if item.__class__ is int:
            return self._values[item]
        return self._values[self._position(item)]

    def __setitem__(self, item: Any, value: Any) -> None:
        """Assign the value at a position, or of a field."""
        self._values[self._position(item)] = value

    def __getattr__(self, name: str) -> Any:
        # `copy` and `pickle` ask for such names before the row has fields.
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[self._position(name)]
        except _NoFieldError as error:
            raise AttributeError(str(error)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _OWN:
            msg = f"a field of a Row is assigned by row[{name!r}] = ..., got row.{name} = {short_repr(value)}"
            raise AttributeError(msg)
        object.__setattr__(self, name, value)

    def __contains__(self, item: object) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or self._row_kind is not other._row_kind:
            return False
        if self._fields is None or other._fields is None:
            return self._fields is other._fields and self._values == other._values
        return len(self) == len(other) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __reduce__(self) -> tuple[Callable[..., Row], tuple[Any, ...]]:
        return restore_row, (self._fields, tuple(self._values), self._row_kind)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        fields = zip(self._fields, self._values)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in fields)})"


Sequence.register(Row)
copy_by(Row, lambda row, copy: row._make(map(copy, row._values)))


class _NoFieldError(KeyError, ValueError):
    """A row has no such field; PyFlink raises a KeyError or a ValueError, so this is both."""

    # A KeyError would show the repr of its message.
    __str__ = Exception.__str__


def make_named_rows(names: Sequence[str], values: Iterable[Iterable[Any]]) -> Iterator[Row]:
    """Make rows with the same names, faster than calls of `Row` with keywords.

    Args:
        names: The names of the fields.
        values: The values of each row.
    """
    new, kind = object.__new__, RowKind.INSERT
    for each in values:
        row = new(Row)
        # `__setattr__` would check the name of each attribute, so they go into `__dict__`.
        own = row.__dict__
        own["_fields"], own["_values"], own["_row_kind"] = [*names], [*each], kind
        yield row


def restore_row(names: Iterable[str] | None, values: Iterable[Any], kind: RowKind) -> Row:
    """Restore a row from its pickle, which has this function as `pyflinklike.pyflink.common.restore_row`."""
    row = Row.of_kind(kind, *values)
    if names is not None:
        row._fields = list(names)
    return row


def _as_dicts(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_as_dicts(each) for each in value]
    if isinstance(value, dict):
        return {key: _as_dicts(each) for key, each in value.items()}
    return value


@attrs.frozen(repr=False)
class AssignableRowTypeInfo(RowTypeInfo):
    """ROW and ROW_NAMED with the `Row` of this module; stored bytes are the same as for `pyflinklike.Row`."""

    @property
    def is_identity(self) -> bool:
        """False: each user gets a row of its own, which it may change."""
        return False

    def thaw(self, stored: Any) -> Any:
        """Return a new row with names."""
        parts = zip(self.field_types, stored)
        values = [None if value is None else part.thaw(value) for part, value in parts]
        return restore_row(self.field_names, values, RowKind.INSERT)

    def converted(self, value: Any) -> Any:
        """Return the row as the next operator gets it, with the same kind."""
        # State has no kinds, so a kind gets lost on the way through the stored form.
        made = self.thaw(self.freeze(value))
        if isinstance(value, Row):
            made._row_kind = value._row_kind
        return made

    def _fields_of(self, value: Any) -> Any:
        if isinstance(value, Row):
            by_name = value._fields is not None and not self._is_positional()
            return value.as_dict() if by_name else value._values
        is_positional = isinstance(value, Mapping) and self._is_positional()
        return list(value.values()) if is_positional else value


class Types(_Types):
    """The types of elements and state, as `pyflink.common.Types`."""

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:  # noqa: N802
        """Return the type of a `Row` with the fields f0, f1, and so on.

        Args:
            field_types: The types of the fields, in order.
        """
        return AssignableRowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(  # noqa: N802
        field_names: Sequence[str],
        field_types: Sequence[TypeInformation],
        *,
        defaults: Mapping[str, Any] | None = None,
    ) -> RowTypeInfo:
        """Return the type of a `Row` with named fields.

        Args:
            field_names: The names of the fields, in order.
            field_types: The types of the fields, in the same order.
            defaults: Values by name for fields that older stored rows do not have, as in `pyflinklike.Types`.
        """
        return AssignableRowTypeInfo(field_types, field_names, defaults or {})
