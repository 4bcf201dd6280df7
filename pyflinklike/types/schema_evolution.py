# SPDX-License-Identifier: Apache-2.0
"""Types that grow: which declared types can read a stored one, and how its columns are converted.

    BYTE -> SHORT -> INT -> LONG -> BIG_INT,  FLOAT -> DOUBLE,  CHAR -> STRING
    a row                                     has fields more or fewer, or in another order
    elements, values of maps, fields          the same, inside

No other type grows, so no number loses a digit, and no field is taken for another.  A row that loses
one field and gets another one is refused, because the field may have been renamed.  It is accepted if
all its new fields have defaults.  A field that was stored needs no default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.types.catalog import Types
from pyflinklike.types.nested_types import ListTypeInfo, MapTypeInfo
from pyflinklike.types.row_types import RowTypeInfo, TupleTypeInfo, default_of
from pyflinklike.types.type_information import Column, TypeInformation

Migration = Callable[[Column], Column]
"""Makes a column of the declared type from one of the stored type."""

_CAST = "Savepoint.cast_state()"
_TRANSFORM = "Savepoint.transform_state() and with_state()"
_CHAINS = (
    (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT()),
    (Types.FLOAT(), Types.DOUBLE()),
    (Types.CHAR(), Types.STRING()),
)


class NoMigrationError(ValueError):
    """A stored type does not grow into the declared one.

    Args:
        why: The types that do not fit, in a few words.
        remedy: The method of a savepoint that converts one into the other.
    """

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy


def growth(stored: TypeInformation, declared: TypeInformation) -> Migration:
    """Return the conversion of columns of a stored type into columns of a declared one.

    Raises:
        NoMigrationError: The stored type does not grow into the declared one.
    """
    if stored == declared:
        return _same
    for chain in _CHAINS:
        if stored in chain and declared in chain[chain.index(stored) :]:
            return _widen(stored, declared)
    if type(stored) is type(declared):
        for kind, grow_parts in _NESTED.items():
            if isinstance(stored, kind):
                return grow_parts(stored, declared)
    verb = _CAST if _is_scalar(stored) and _is_scalar(declared) else _TRANSFORM
    raise NoMigrationError(f"{stored!r} does not grow into {declared!r}", verb)


def _is_scalar(kind: TypeInformation) -> bool:
    return not isinstance(kind, (TupleTypeInfo, ListTypeInfo, MapTypeInfo))


def _same(column: Column) -> Column:
    return column


def _widen(stored: TypeInformation, declared: TypeInformation) -> Migration:
    def widen(column: Column) -> Column:
        if stored == Types.CHAR():
            stored.from_arrow(column)  # raises if a text is not one character
        return pc.cast(column, declared.arrow_type)

    return widen


def _part(what: str, stored: TypeInformation, declared: TypeInformation) -> Migration:
    try:
        return growth(stored, declared)
    except NoMigrationError as error:
        raise NoMigrationError(f"{what}: {error.why}", _TRANSFORM) from None


def _of_lists(stored: Any, declared: Any) -> Migration:
    grow = _part("an element", stored.elem_type, declared.elem_type)

    def lists(column: Column) -> Column:
        return pa.ListArray.from_arrays(
            column.offsets,
            grow(column.values),
            type=declared.arrow_type,
            mask=_nulls(column),
        )

    return lists


def _of_maps(stored: Any, declared: Any) -> Migration:
    if stored._key_type_info != declared._key_type_info:
        why = f"keys of a map stay {stored._key_type_info!r}, got {declared._key_type_info!r}"
        raise NoMigrationError(why, _TRANSFORM)
    grow = _part("a value of a map", stored._value_type_info, declared._value_type_info)

    def maps(column: Column) -> Column:
        return pa.MapArray.from_arrays(
            column.offsets,
            column.keys,
            grow(column.items),
            type=declared.arrow_type,
            mask=_nulls(column),
        )

    return maps


def _of_tuples(stored: Any, declared: Any) -> Migration:
    before, after = len(stored.field_types), len(declared.field_types)
    if before != after:
        why = f"a tuple of {before} fields does not grow into one of {after}"
        raise NoMigrationError(why, _TRANSFORM)
    return _of_fields(
        tuple(map(str, range(before))), stored, tuple(map(str, range(after))), declared
    )


def _of_rows(stored: Any, declared: Any) -> Migration:
    gone = [name for name in stored.field_names if name not in declared.field_names]
    # A default says that its field is new, and not a renamed one.
    known = (*stored.field_names, *dict(declared.defaults))
    come = [name for name in declared.field_names if name not in known]
    if gone and come:
        why = f"fields {gone} go and {come} come at once, as if renamed; new ones have defaults"
        raise NoMigrationError(why, _TRANSFORM)
    return _of_fields(stored.field_names, stored, declared.field_names, declared)


def _of_fields(
    former: tuple[str, ...], stored: Any, names: tuple[str, ...], declared: Any
) -> Migration:
    """Convert structs: each field of the declared type is found by name among the stored ones."""
    places = [former.index(name) if name in former else None for name in names]
    said = getattr(declared, "defaults", ())
    defaults = [default_of(said, name) for name in names]
    grows = [
        _same if at is None else _part(f"field {name!r}", stored.field_types[at], part)
        for name, at, part in zip(names, places, declared.field_types)
    ]

    def structs(column: Column) -> Column:
        if not names:  # a struct without children has no length, so it is a column of bool
            there = pa.scalar(True)
            return pc.if_else(column.is_valid(), there, pa.scalar(None, pa.bool_()))
        children = [
            _add_column(part, default, len(column)) if at is None else grow(column.field(at))
            for at, grow, part, default in zip(places, grows, declared.field_types, defaults)
        ]
        return pa.StructArray.from_arrays(
            children, fields=list(declared.arrow_type), mask=_nulls(column)
        )

    return structs


def _add_column(part: TypeInformation, default: Any, rows: int) -> Column:
    """Make the column of a field that the stored rows do not have."""
    if default is None:
        return pa.nulls(rows, part.arrow_type)
    return pa.repeat(part.to_arrow([default])[0], rows)


def _nulls(column: Column) -> Column:
    return column.is_null() if column.null_count else None


_NESTED: dict[type, Callable[[Any, Any], Migration]] = {
    RowTypeInfo: _of_rows,
    TupleTypeInfo: _of_tuples,
    ListTypeInfo: _of_lists,
    MapTypeInfo: _of_maps,
}
"""The parts of each kind of type; a row is also a tuple, so rows come first."""
