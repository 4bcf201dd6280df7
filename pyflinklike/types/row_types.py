# SPDX-License-Identifier: Apache-2.0
"""The types of rows and tuples: a fixed number of fields, each with its type.

Both are stored as tuples of frozen fields and written as one column per field.  A row is a tuple
with names, so the type of a row is the type of a tuple with names.

A field of a row may have a default, which is its value in rows that were stored before the field was
declared.  Defaults are part of the type and of its signature, so a reader without the program finds the
same values as the program.  Hence a default is plain: None, or a value that Python writes and reads as
a literal.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike._checks import as_tuple_of
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import T_co
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
from pyflinklike.types.arrow_rows import null_mask, put_nulls
from pyflinklike.types.nested_types import name_part, require_type
from pyflinklike.types.row import Row, in_order, misnamed, numbered_names, row_class
from pyflinklike.types.type_information import REMEDY, Column, TypeInformation

_new_tuple = tuple.__new__
_FreezeFields = Callable[[Sequence[Any]], tuple[Any, ...]]


def _tuple_of(names: Any) -> Any:
    return tuple(names) if isinstance(names, (list, tuple)) else names


def _parts(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, tuple):
        msg = f"{attribute.name} must be a list of TypeInformation, got {short_repr(value)}; write [...]"
        raise DeclarationTypeError(msg)
    for i, field_type in enumerate(value):
        require_type(field_type, f"{attribute.name}[{i}]")


@attrs.frozen(repr=False)
class TupleTypeInfo(TypeInformation[T_co]):
    """TUPLE: a tuple of a fixed number of fields; each field may be None."""

    field_types: tuple[TypeInformation, ...] = attrs.field(converter=_tuple_of, validator=_parts)
    arrow_type: Any = attrs.field(init=False, eq=False)
    _is_identity: bool = attrs.field(init=False, eq=False)
    _freeze_fields: _FreezeFields = attrs.field(init=False, eq=False)
    _freeze_key_fields: _FreezeFields = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Derive the Arrow type, and the functions that freeze the fields."""
        fields = [(f"f{i}", part.arrow_type) for i, part in enumerate(self.field_types)]
        # Arrow gives a struct without children no bytes, so a reader could not check its length.
        object.__setattr__(self, "arrow_type", pa.struct(fields) if fields else pa.bool_())
        identity = all(part.is_identity for part in self.field_types)
        object.__setattr__(self, "_is_identity", identity)
        freezes = [part.freeze for part in self.field_types]
        object.__setattr__(self, "_freeze_fields", _make_freeze(freezes))
        key_freezes = [part.freeze_key for part in self.field_types]
        object.__setattr__(self, "_freeze_key_fields", _make_freeze(key_freezes))

    @property
    def is_identity(self) -> bool:
        """True if all fields are stored as they are."""
        return self._is_identity

    @property
    def is_pickled(self) -> bool:
        """True if a field is pickled."""
        return any(part.is_pickled for part in self.field_types)

    @property
    def signature(self) -> str:
        """The signatures of the fields."""
        return f"TupleTypeInfo({', '.join(part.signature for part in self.field_types)})"

    @property
    def _stored_class(self) -> type:
        """The class of stored values."""
        return tuple

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self.field_types)

    def freeze(self, value: Any) -> Any:
        """Return a tuple of frozen fields."""
        fits = type(value) is tuple and len(value) == len(self.field_types)
        values = value if fits else self._values(value)
        try:
            return self._freeze_fields(values)
        except StateValueError:
            # The field is looked for only now, so a value that fits pays nothing for the message.
            raise self._culprit(values) from None

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all have the class of stored values, and all their fields are stored."""
        if set(map(type, values)) != {self._stored_class} or not self.field_types:
            return False
        # The class of a row fixes the number of its fields; a tuple may have any number.
        if self._stored_class is tuple and set(map(len, values)) != {len(self.field_types)}:
            return False
        return all(map(_are_stored, self.field_types, zip(*values)))

    def freeze_key(self, value: Any) -> Any:
        """Return a tuple of fields frozen as keys."""
        values = self._values(value)
        try:
            return self._make(self._freeze_key_fields(values))
        except StateValueError:
            raise self._culprit(values) from None

    def thaw(self, stored: Any) -> Any:
        """Return the tuple itself, or one with the user's own fields."""
        if self._is_identity:
            return stored
        return self._make(
            [None if v is None else t.thaw(v) for t, v in zip(self.field_types, stored)]
        )

    def to_arrow(self, stored: Sequence[Any]) -> Column:
        """Write one column per field."""
        nulls = null_mask(stored)
        if not self.field_types:
            return pa.array([None if v is None else True for v in stored], self.arrow_type)
        values: Sequence[Any] = stored
        if nulls is not None:
            blank = (None,) * len(self.field_types)
            values = [blank if v is None else v for v in stored]
        children = [
            part.to_arrow(field) for part, field in zip(self.field_types, self._columns(values))
        ]
        return pa.StructArray.from_arrays(children, fields=list(self.arrow_type), mask=nulls)

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the tuples."""
        children = [part.from_arrow(column.field(i)) for i, part in enumerate(self.field_types)]
        rows = zip(*children) if children else repeat((), len(column))
        return put_nulls(column, self._rows(rows))

    def _columns(self, values: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """Return the values of each field."""
        return zip(*values) if values else [()] * len(self.field_types)

    def _rows(self, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        return list(rows)

    def _make(self, values: Iterable[Any]) -> Any:
        return tuple(values)

    def _values(self, value: Any) -> Sequence[Any]:
        """Return the fields of a user's value, in order."""
        if isinstance(value, (tuple, list)) and len(value) == len(self.field_types):
            return value
        raise self._misfit(value)

    def _field_name(self, i: int) -> str:
        return f"field {i}"

    def _culprit(self, values: Sequence[Any]) -> StateValueError:
        """Return the error of the field that does not fit, with its name."""
        for i, (part, value) in enumerate(zip(self.field_types, values)):
            # `freeze_key` refuses everything that `freeze` refuses, so it finds the field for both.
            error = None if value is None else _error_of(part.freeze_key, value)
            if error is not None:
                return name_part(self, self._field_name(i), error)
        return self._misfit(values)

    def _takes(self) -> str:
        return f"a tuple of {len(self.field_types)} fields"

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self.field_types))})"


def _make_freeze(freezes: Sequence[Callable[[Any], Any]]) -> _FreezeFields:
    """Return a function that freezes fields, which may be None; for few fields it has no loop."""
    if len(freezes) == 2:
        first, second = freezes

        def freeze_two(values: Sequence[Any]) -> tuple[Any, ...]:
            a, b = values
            return None if a is None else first(a), None if b is None else second(b)

        return freeze_two
    if len(freezes) == 3:
        first, second, third = freezes

        def freeze_three(values: Sequence[Any]) -> tuple[Any, ...]:
            a, b, c = values
            return (
                None if a is None else first(a),
                None if b is None else second(b),
                None if c is None else third(c),
            )

        return freeze_three

    def freeze_all(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([None if v is None else freeze(v) for freeze, v in zip(freezes, values)])

    return freeze_all


def _are_stored(part: TypeInformation, values: Sequence[Any]) -> bool:
    """Return whether the values of a field, without those that are None, are stored as they are."""
    if part.are_stored(values):
        return True
    if not any(value is None for value in values):
        return False
    there = [value for value in values if value is not None]
    return not there or part.are_stored(there)


def _error_of(freeze: Callable[[Any], Any], value: Any) -> StateValueError | None:
    try:
        freeze(value)
    except StateValueError as error:
        return error
    return None


@attrs.frozen(repr=False)
class RowTypeInfo(TupleTypeInfo[Row]):
    """ROW and ROW_NAMED: a `Row`; a tuple, list or dict of its fields becomes a row.

    Without names the fields are f0, f1, and so on, and rows are taken by position.  With names, a
    named row or a dict must have the same names, in any order.

    A program gives `defaults` as a dict by name, and the type keeps them as `Defaults`.
    """

    field_names: tuple[str, ...] = attrs.field(converter=_tuple_of, default=None)
    defaults: Any = attrs.field(factory=dict)
    _class: type[Row] = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Check the names; derive the Arrow type and the class of the rows."""
        names: Any = self.field_names
        if names is None:
            names = numbered_names(len(self.field_types))
            object.__setattr__(self, "field_names", names)
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            msg = f"field_names must be a list of str, got {short_repr(names)}; write [...]"
            raise DeclarationTypeError(msg)
        if len(names) != len(self.field_types):
            msg = f"a row has as many names as types, got {len(names)} names and {len(self.field_types)} types; add what is missing"
            raise DeclarationValueError(msg)
        if len(set(names)) < len(names):
            msg = f"the field names of a row must differ, got {list(names)}; rename some"
            raise DeclarationValueError(msg)
        defaults = _check_defaults(names, self.field_types, self.defaults)
        object.__setattr__(self, "defaults", defaults)
        TupleTypeInfo.__attrs_post_init__(self)
        object.__setattr__(self, "_class", row_class(names))

    @property
    def signature(self) -> str:
        """The names and signatures of the fields, and their defaults."""
        fields = [
            f"{name!r}: {part.signature}{_literal_of(self.defaults, name)}"
            for name, part in zip(self.field_names, self.field_types)
        ]
        return f"RowTypeInfo({', '.join(fields)})"

    @property
    def _stored_class(self) -> type:
        """The class of its rows."""
        return self._class

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field; -1 if no field has the name."""
        names = self.field_names
        return names.index(field_name) if field_name in names else -1

    def get_field_names(self) -> list[str]:
        """Return the names of the fields."""
        return list(self.field_names)

    def freeze(self, value: Any) -> Any:
        """Return a row of frozen fields."""
        row_type = self._class
        values = value if type(value) is row_type else self._values(value)
        try:
            return _new_tuple(row_type, self._freeze_fields(values))
        except StateValueError:
            raise self._culprit(values) from None

    def _rows(self, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        return list(map(_new_tuple, repeat(self._class), rows))

    def _make(self, values: Iterable[Any]) -> Any:
        return _new_tuple(self._class, values)

    def _values(self, value: Any) -> Sequence[Any]:
        if type(value) is self._class:
            return value
        fields = self._fields_of(value)
        values = in_order(fields, self.field_names)
        if values is None:
            raise self._misfit(value, misnamed(fields, self.field_names) or REMEDY)
        return values

    def _fields_of(self, value: Any) -> Any:
        """Return a row in a form whose fields can be read by name, or by position."""
        return value

    def _is_positional(self) -> bool:
        return self.field_names == numbered_names(len(self.field_types))

    def _field_name(self, i: int) -> str:
        return f"field {self.field_names[i]!r}"

    def _misfit(self, value: Any, remedy: str = REMEDY) -> StateValueError:
        kind = type(value)
        # The Row of jobs (`pyflinklike.pyflink.common`) looks the same in a message.
        if kind.__name__ == "Row" and not isinstance(value, Row):
            remedy = f"this is {kind.__module__}.Row, not pyflinklike.Row: {remedy}"
        elif as_tuple_of(value):
            remedy = f"give {as_tuple_of(value)}"
        return TupleTypeInfo._misfit(self, value, remedy)

    def _takes(self) -> str:
        return f"a Row, tuple, list or dict of the fields {list(self.field_names)}"

    def __repr__(self) -> str:
        if self._is_positional():
            return f"RowTypeInfo({', '.join(map(repr, self.field_types))})"
        fields = zip(self.field_names, self.field_types)
        return f"RowTypeInfo({', '.join(f'{name}: {part!r}' for name, part in fields)})"


# Defaults of fields

Defaults = tuple[tuple[str, str], ...]
"""The names of fields in the fields' order, each with the literal of its default."""

_PLAIN = (bool, int, float, str, bytes)


def _check_defaults(
    names: Sequence[str], types: Sequence[TypeInformation], defaults: Any
) -> Defaults:
    """Check the defaults of fields, and return them in the form that a type keeps.

    Args:
        names: The names of all fields, in their order.
        types: The types of the fields, in the same order.
        defaults: Values by name, or an earlier result of this function.

    Raises:
        DeclarationTypeError, DeclarationValueError: A field does not exist, or a value does not fit
            its type or cannot be a default.
    """
    if isinstance(defaults, tuple):
        return defaults
    if not isinstance(defaults, Mapping):
        msg = f"defaults must be a dict of values by field name, got {short_repr(defaults)}"
        raise DeclarationTypeError(f"{msg}; write {{...}}")
    unknown = [name for name in defaults if name not in names]
    if unknown:
        msg = f"defaults must name some of the fields {list(names)}, got {short_repr(unknown[0])}; rename it"
        raise DeclarationValueError(msg)
    return tuple(
        (name, _check_default(name, part, defaults[name]))
        for name, part in zip(names, types)
        if name in defaults
    )


def _check_default(name: str, part: TypeInformation, value: Any) -> str:
    if value is None:
        return repr(None)
    try:
        stored = part.freeze(value)
    except StateValueError as error:
        msg = f"the default of field {name!r} must fit its type: {error}"
        raise DeclarationValueError(msg) from error
    # The stored value must be the user's value, too: a BIG_DEC is stored as text, which is no number.
    plain = type(stored) in _PLAIN and part.thaw(stored) is stored
    if not plain or (isinstance(stored, float) and not math.isfinite(stored)):
        msg = (
            f"the default of field {name!r} must be None, a bool, a finite number, a str or bytes, "
            f"got {short_repr(value)} for {part!r}; use None, and let the function replace it"
        )
        raise DeclarationValueError(msg)
    return repr(stored)


def default_of(defaults: Defaults, name: str) -> Any:
    """Return the default of a field in stored form; None if it has no default."""
    return ast.literal_eval(dict(defaults).get(name, "None"))


def _literal_of(defaults: Defaults, name: str) -> str:
    """Return the text of a field's default in a signature; "" if it has no default."""
    found = dict(defaults).get(name)
    return "" if found is None else f" = {found}"
