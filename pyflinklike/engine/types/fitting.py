# SPDX-License-Identifier: Apache-2.0
"""Which value of Python is a value of which column: one table for states, keys and outputs.

A value fits a column if the column gives it back.  Nothing is rounded, cut or shifted, but for two
things that a type says: a float of 32 bits is rounded to these, and an instant comes back as a
local time.  No value is taken for one of another kind: True is no number, bytes are no text, and a
number is no time.  A row with names goes by them.

Each type without parts has its line of the table in its own `freeze`, which states call value by
value.  Outputs come in columns, and `to_column` writes a column at a time: values of the classes
that Arrow writes without loss cost no call each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from pyflinklike.engine.shown import shown
from pyflinklike.engine.types.arrow_rows import elements_of, null_mask, offsets_of
from pyflinklike.engine.types.basic_types import DecimalTypeInfo
from pyflinklike.engine.types.catalog import Types
from pyflinklike.engine.types.nested_types import elements_in
from pyflinklike.engine.types.row import in_order, misnamed
from pyflinklike.engine.types.time_types import IntervalTypeInfo, LocalTimeTypeInfo
from pyflinklike.engine.types.type_information import (
    NO_VALUE,
    REMEDY,
    Column,
    TypeInformation,
)
from pyflinklike.errors import StateValueError

__all__ = ["to_column", "type_of_column"]

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


@lru_cache(maxsize=256)
def type_of_column(kind: pa.DataType, time_zone: str) -> TypeInformation:
    """Return the type of the values of a column without parts.

    Its `freeze` returns a value as the column gives it back, or raises a `StateValueError`.

    Args:
        kind: Arrow's type of the column, of which Spark has one of the same values.
        time_zone: The zone of the session, in which naive datetimes are read.

    Raises:
        KeyError: There is no such column.
    """
    if pa.types.is_decimal(kind):
        return DecimalTypeInfo(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind) and kind.tz:
        return LocalTimeTypeInfo(time_zone)
    return _KNOWN[kind]


def to_column(values: Sequence[Any], kind: pa.DataType, time_zone: str) -> Column:
    """Write values of Python as a column; None becomes null.

    Args:
        values: The values, as a function yields them.
        kind: Arrow's type of the column.
        time_zone: The zone of the session, in which naive datetimes are read.

    Raises:
        StateValueError: A value does not fit the column.
    """
    if pa.types.is_struct(kind):
        return _structs(values, kind, time_zone)
    if pa.types.is_map(kind):
        return _maps(values, kind, time_zone)
    if pa.types.is_list(kind):
        return _lists(values, kind, time_zone)
    if pa.types.is_null(kind):
        return _nulls(values)
    return type_of_column(kind, time_zone).column_of(values)


def _lists(values: Sequence[Any], kind: pa.DataType, time_zone: str) -> Column:
    lists = values
    if not _LISTS.issuperset(map(type, values)):
        lists = [None if each is None else elements_in(each) for each in values]
        _check_all(values, lists, "a list or another sequence")
    elements = _part("an element", elements_of(lists), kind.value_type, time_zone)
    return pa.ListArray.from_arrays(offsets_of(lists), elements, type=kind, mask=null_mask(lists))


def _maps(values: Sequence[Any], kind: pa.DataType, time_zone: str) -> Column:
    maps = [each if isinstance(each, Mapping) else None for each in values]
    _check_all(values, maps, "a dict")
    there = [each for each in maps if each is not None]
    keys = _part("a key", list(chain.from_iterable(there)), kind.key_type, time_zone)
    if keys.null_count:
        msg = "a key of a map is never None; leave the entry out, or give it another key"
        raise StateValueError(msg)
    items = list(chain.from_iterable(each.values() for each in there))
    return pa.MapArray.from_arrays(
        offsets_of(maps),
        keys,
        _part("a value", items, kind.item_type, time_zone),
        type=kind,
        mask=null_mask(maps),
    )


def _structs(values: Sequence[Any], kind: pa.DataType, time_zone: str) -> Column:
    fields = [kind.field(at) for at in range(kind.num_fields)]
    names = tuple(field.name for field in fields)
    rows = [None if each is None else in_order(each, names) for each in values]
    _check_all(values, rows, f"a Row, tuple, list or dict of the fields {list(names)}", names)
    if not fields:
        return pa.array([None if row is None else {} for row in rows], kind)
    blank = (None,) * len(fields)
    columns = list(zip(*(blank if row is None else row for row in rows))) or [()] * len(fields)
    parts = [
        _part(f"field {field.name!r}", column, field.type, time_zone)
        for field, column in zip(fields, columns)
    ]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=null_mask(rows))


def _nulls(values: Sequence[Any]) -> Column:
    _check_all(values, [None] * len(values), "None and nothing else")
    return pa.nulls(len(values))


def _part(part: str, values: Sequence[Any], kind: pa.DataType, time_zone: str) -> Column:
    try:
        return to_column(values, kind, time_zone)
    except StateValueError as error:
        raise StateValueError(f"{part}: {error}") from None


def _check_all(
    values: Sequence[Any], parts: Sequence[Any], takes: str, names: tuple[str, ...] = ()
) -> None:
    """Check that all values have parts.

    Raises:
        StateValueError: One that is not None has none.
    """
    for value, found in zip(values, parts):
        if found is None and value is not None:
            remedy = (misnamed(value, names) if names else None) or REMEDY
            msg = f"it takes {takes}, got {shown(value)} ({type(value).__name__}); {remedy}"
            raise StateValueError(msg)


_LISTS: Final = frozenset({list, tuple, NO_VALUE})
