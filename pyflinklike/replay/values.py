# SPDX-License-Identifier: Apache-2.0
"""Stored columns in the types that other tools know, by the type they were declared with.

| declared | shown | in a savepoint |
|---|---|---|
| INSTANT | timestamp, to the microsecond | struct of seconds and nanos |
| SQL_TIME | string, `hh:mm:ss.ffffff` | as shown |
| BIG_INT, BIG_DEC | string, all digits | as shown |
| ROW, TUPLE | struct of the fields' names, or f0, f1 ... | as shown |
| pickled | binary | as shown |

All other types are the same in Arrow, Parquet and Spark.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.types import ListTypeInfo, MapTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation
from pyflinklike.types.times import InstantTypeInfo, TimeTypeInfo

__all__ = ["TIMESTAMP", "field_names", "shown", "shown_type", "timestamps"]

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""The type in which points in time are shown."""
_MICROS = 1_000_000
_LAST_SECOND = 2**63 // _MICROS - 1


def shown_type(declared: TypeInformation, *, saved: bool = False) -> Any:
    """Return the Arrow type in which values of a type are shown.

    Args:
        declared: Type of the values.
        saved: Whether they are for a savepoint, which loses nothing.
    """
    if isinstance(declared, InstantTypeInfo):
        return declared.arrow_type if saved else TIMESTAMP
    if isinstance(declared, TimeTypeInfo):
        return pa.string()
    if isinstance(declared, ListTypeInfo):
        return pa.list_(shown_type(declared.elem_type, saved=saved))
    if isinstance(declared, MapTypeInfo):
        key, value = declared._key_type_info, declared._value_type_info
        return pa.map_(shown_type(key, saved=saved), shown_type(value, saved=saved))
    if isinstance(declared, TupleTypeInfo) and declared.field_types:
        types = [shown_type(each, saved=saved) for each in declared.field_types]
        return pa.struct(list(zip(field_names(declared), types)))
    return declared.arrow_type


def shown(column: Any, declared: TypeInformation, *, saved: bool = False) -> Any:
    """Return a stored column as it is shown, in the `shown_type`.

    Args:
        column: An Arrow array, as stored.
        declared: Type of the values.
        saved: Whether they are for a savepoint.
    """
    kind = shown_type(declared, saved=saved)
    if kind == column.type:
        return column
    if isinstance(declared, InstantTypeInfo):
        return _instants(column)
    if isinstance(declared, TimeTypeInfo):
        return column.cast(pa.string())
    mask = column.is_null() if column.null_count else None
    if isinstance(declared, ListTypeInfo):
        parts = shown(column.values, declared.elem_type, saved=saved)
        return pa.ListArray.from_arrays(column.offsets, parts, type=kind, mask=mask)
    if isinstance(declared, MapTypeInfo):
        keys = shown(column.keys, declared._key_type_info, saved=saved)
        items = shown(column.items, declared._value_type_info, saved=saved)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=kind, mask=mask)
    assert isinstance(declared, TupleTypeInfo)
    parts = [
        shown(column.field(at), each, saved=saved) for at, each in enumerate(declared.field_types)
    ]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)


def timestamps(milliseconds: Any) -> Any:
    """Return times in ms as timestamps; the nearest timestamp for times that are too far away.

    Args:
        milliseconds: An array of int64, nulls included.
    """
    limit = (2**63 - 1) // 1000
    clipped = pc.max_element_wise(
        pc.min_element_wise(milliseconds, pa.scalar(limit, pa.int64()), skip_nulls=False),
        pa.scalar(-limit, pa.int64()),
        skip_nulls=False,
    )
    return pc.multiply(clipped, pa.scalar(1000, pa.int64())).cast(TIMESTAMP)


def field_names(declared: TupleTypeInfo) -> tuple[str, ...]:
    """Return the names of a row's fields, or the names under which a tuple's fields are shown."""
    if isinstance(declared, RowTypeInfo):
        return tuple(declared.field_names)
    return tuple(f"f{at}" for at in range(len(declared.field_types)))


def _instants(column: Any) -> Any:
    """Return instants as timestamps; null for null, and beyond the range of a timestamp."""
    seconds, nanos = column.flatten()
    within = pc.less_equal(pc.abs(seconds), pa.scalar(_LAST_SECOND, pa.int64()))
    micros = pc.add(
        pc.multiply(pc.if_else(within, seconds, None), pa.scalar(_MICROS, pa.int64())),
        pc.divide(nanos.cast(pa.int64()), pa.scalar(1000, pa.int64())),
    )
    return micros.cast(TIMESTAMP)
