# SPDX-License-Identifier: Apache-2.0
"""The values of Python that a column takes: one table for states, keys and outputs.

A value fits a column if the column gives the same value back.  There are two exceptions: a column of
32-bit floats rounds to these, and an instant comes back as a local time.  Everything else that would
round, cut or shift a value is refused.  A value never stands for one of another kind: True is no
number, bytes are no text, and a number is no time.  The fields of a row with names are found by name.

Each type without parts has its line of the table in its own `freeze`, which states call for each
value.  Outputs come in columns, and `to_column` writes a whole column at once.  Arrow writes values of
some classes without loss, so these cost no call each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._messages import short_repr, shown_message
from pyflinklike.errors import StateValueError
from pyflinklike.types.arrow_rows import null_mask, offsets_of
from pyflinklike.types.basic_types import DecimalTypeInfo
from pyflinklike.types.catalog import Types
from pyflinklike.types.nested_types import elements_in
from pyflinklike.types.row import in_order, misnamed
from pyflinklike.types.time_types import IntervalTypeInfo, LocalTimeTypeInfo
from pyflinklike.types.type_information import (
    NO_VALUE,
    REMEDY,
    Column,
    TypeInformation,
)

Writer = Callable[[Sequence[Any]], Column]
"""A function that writes values as a column, or raises a `StateValueError`."""

_KNOWN: Final[dict[pa.DataType, TypeInformation]] = {
    pa.bool_(): Types.BOOLEAN(),
    pa.int8(): Types.BYTE(),
    pa.int16(): Types.SHORT(),
    pa.int32(): Types.INT(),
    pa.int64(): Types.LONG(),
    pa.float32(): Types.FLOAT(),
    pa.float64(): Types.DOUBLE(),
    pa.string(): Types.STRING(),
    pa.binary(): Types.PRIMITIVE_ARRAY(Types.BYTE()),
    pa.date32(): Types.SQL_DATE(),
    pa.time64("us"): Types.SQL_TIME(),
    pa.timestamp("us"): Types.SQL_TIMESTAMP(),
    pa.duration("us"): IntervalTypeInfo(),
}


def type_of_column(kind: pa.DataType, time_zone: str) -> TypeInformation:
    """Return the type of the values of a column without parts.

    Its `freeze` returns a value as the column gives it back, or raises a `StateValueError`.

    Args:
        kind: Arrow's type of the column.
        time_zone: The zone of the session, in which naive datetimes are read.

    Raises:
        KeyError: No type of ours has such a column.
    """
    if pa.types.is_decimal(kind):
        return DecimalTypeInfo(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind) and kind.tz:
        return LocalTimeTypeInfo(time_zone)
    return _KNOWN[kind]


def to_column(values: Sequence[Any], kind: pa.DataType, time_zone: str) -> Column:
    """Write values of Python as a column; None becomes null.

    Args:
        values: The values in the form in which a function yields them.
        kind: Arrow's type of the column.
        time_zone: The zone of the session, in which naive datetimes are read.

    Raises:
        StateValueError: A value does not fit the column.
    """
    return writer_of(kind, time_zone)(values)


def writer_of(kind: pa.DataType, time_zone: str) -> Writer:
    """Return `to_column` for one type of column, to be called many times; it can be pickled."""
    if pa.types.is_struct(kind):
        return partial(_structs, kind, [writer_of(field.type, time_zone) for field in kind])
    if pa.types.is_map(kind):
        parts = writer_of(kind.key_type, time_zone), writer_of(kind.item_type, time_zone)
        return partial(_maps, kind, *parts)
    if pa.types.is_list(kind):
        return partial(_lists, kind, writer_of(kind.value_type, time_zone))
    if pa.types.is_null(kind):
        return _nulls
    return type_of_column(kind, time_zone).column_of


def cast_column(column: Column, kind: pa.DataType, time_zone: str) -> Column:
    """Convert a column of Arrow to another type, by the rules that hold for single values.

    Args:
        column: A column that a user's function has yielded.
        kind: The type of Arrow that the result has.
        time_zone: The zone of the session, in which times without a zone are read.

    Raises:
        StateValueError: A value does not fit the column.
    """
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type):
        return cast_column(column.dictionary_decode(), kind, time_zone)
    try:
        if is_cast(column.type, kind):
            return column.cast(kind)
        if pa.types.is_float64(column.type) and pa.types.is_float32(kind):
            rounded = column.cast(kind)
            if not pc.any(pc.is_inf(rounded)).as_py():
                return rounded
    except pa.ArrowException:
        pass  # below, the error names the value, or a value that only Arrow refuses is converted
    try:
        # "strict" refuses a map that has a key twice, which a dict would lose.
        values = column.to_pylist(maps_as_pydicts="strict")
    except (ValueError, KeyError) as error:  # nanoseconds without pandas, a key twice
        msg = f"it takes what is a value of Python, got {shown_message(error)}; convert the values"
        raise StateValueError(msg) from error
    return to_column(values, kind, time_zone)


def is_cast(given: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether Arrow casts each value to one that is equal, or refuses it."""
    if pa.types.is_struct(kind):
        fields = zip(given, kind) if pa.types.is_struct(given) else ()
        is_same = pa.types.is_struct(given) and [f.name for f in given] == [f.name for f in kind]
        return is_same and all(is_cast(own.type, other.type) for own, other in fields)
    if pa.types.is_map(kind):
        parts = ("key_type", "item_type")
        return pa.types.is_map(given) and all(
            is_cast(getattr(given, part), getattr(kind, part)) for part in parts
        )
    if pa.types.is_list(kind):
        return any(of(given) for of in _LIST_KINDS) and is_cast(given.value_type, kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.types.is_timestamp(given) and bool(given.tz) == bool(kind.tz)
    return given == kind or any(
        any(of(given) for of in givens) and is_kind(kind) for givens, is_kind in _CASTS
    )


_LIST_KINDS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_CASTS: Final[tuple[tuple[tuple[Callable[[Any], bool], ...], Callable[[Any], bool]], ...]] = (
    ((pa.types.is_integer,), pa.types.is_integer),
    ((pa.types.is_integer, pa.types.is_float16, pa.types.is_float32), pa.types.is_float64),
    ((pa.types.is_integer, pa.types.is_float16), pa.types.is_float32),
    ((pa.types.is_integer, pa.types.is_decimal), pa.types.is_decimal),
    ((pa.types.is_large_string, pa.types.is_string_view), pa.types.is_string),
    ((pa.types.is_large_binary, pa.types.is_fixed_size_binary), pa.types.is_binary),
    ((pa.types.is_date64,), pa.types.is_date32),
    ((pa.types.is_duration,), pa.types.is_duration),
)
"""Families of types, and the family that Arrow casts them to without loss."""


def _lists(kind: pa.DataType, write: Writer, values: Sequence[Any]) -> Column:
    lists = values
    if not _LISTS.issuperset(map(type, values)):
        lists = [None if each is None else elements_in(each) for each in values]
        _check_all(values, lists, "a list or another sequence")
    offsets, mask, there = _cut(lists)
    elements = _part("an element", write, list(chain.from_iterable(there)))
    return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=mask)


def _maps(kind: pa.DataType, write_keys: Writer, write: Writer, values: Sequence[Any]) -> Column:
    maps = values
    if not _MAPS.issuperset(map(type, values)):
        maps = [each if isinstance(each, Mapping) else None for each in values]
        _check_all(values, maps, "a dict")
    offsets, mask, there = _cut(maps)
    keys = _part("a key", write_keys, list(chain.from_iterable(there)))
    if keys.null_count:
        msg = "a key: it takes no None, got None; leave the entry out, or give it another key"
        raise StateValueError(msg)
    items = list(chain.from_iterable(each.values() for each in there))
    return pa.MapArray.from_arrays(
        offsets, keys, _part("a value", write, items), type=kind, mask=mask
    )


def _cut(values: Sequence[Any]) -> tuple[Column, Column | None, Sequence[Any]]:
    """Return the offset of each value among all parts, the mask of None, and the values but None."""
    mask = null_mask(values)
    if mask is None:
        return pa.array(list(accumulate(map(len, values), initial=0)), pa.int32()), None, values
    return offsets_of(values), mask, [each for each in values if each is not None]


def _structs(kind: pa.DataType, writers: Sequence[Writer], values: Sequence[Any]) -> Column:
    names = tuple([field.name for field in kind])
    rows = [None if each is None else in_order(each, names) for each in values]
    _check_all(values, rows, f"a Row, tuple, list or dict of the fields {list(names)}", names)
    if not names:
        return pa.array([None if row is None else {} for row in rows], kind)
    blank = (None,) * len(names)
    # `zip` of no rows would give no columns, but a struct needs a column for each field.
    columns = list(zip(*(blank if row is None else row for row in rows))) or [()] * len(names)
    parts = [
        _part(f"field {name!r}", write, column)
        for name, write, column in zip(names, writers, columns)
    ]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=null_mask(rows))


def _nulls(values: Sequence[Any]) -> Column:
    _check_all(values, [None] * len(values), "None and nothing else")
    return pa.nulls(len(values))


def _part(part: str, write: Writer, values: Sequence[Any]) -> Column:
    try:
        return write(values)
    except StateValueError as error:
        raise StateValueError(f"{part}: {error}") from None


def _check_all(
    values: Sequence[Any], parts: Sequence[Any], takes: str, names: tuple[str, ...] = ()
) -> None:
    """Check that each value, unless it is None, has parts.

    Raises:
        StateValueError: A value that is not None has no parts.
    """
    for value, found in zip(values, parts):
        if found is None and value is not None:
            remedy = (misnamed(value, names) if names else None) or REMEDY
            msg = f"it takes {takes}, got {short_repr(value)} ({type(value).__name__}); {remedy}"
            raise StateValueError(msg)


_LISTS: Final = frozenset({list, tuple, NO_VALUE})
_MAPS: Final = frozenset({dict, NO_VALUE})
