# SPDX-License-Identifier: Apache-2.0
"""Arrow columns as rows of Python.

Values are what a PySpark `Row` would hold: a timestamp is a naive `datetime` in the session's
time zone (with `fold`, for an hour that comes twice), a struct is a `Row`, a map is a dict.
A timestamp without a time zone stays as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pyflinklike.types.row import Row, row_class
from pyflinklike.types.zones import to_local_times

__all__ = ["to_python", "to_rows"]


def to_rows(names: tuple[str, ...], columns: list[list[Any]], count: int) -> list[Row]:
    """Make `count` rows of Python columns with these names."""
    cls = row_class(names)
    if not columns:
        return [cls._make(()) for _ in range(count)]
    # The rows' own constructor is Python code; the tuple's makes the same object.
    return list(map(tuple.__new__, itertools.repeat(cls), zip(*columns)))


def to_python(column: pa.Array, time_zone: str) -> list[Any]:
    """Return the values of a column as Python values."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        if kind.tz:
            return to_local_times(column, time_zone)
        values: list[Any] = column.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False).tolist()
        return values
    if pa.types.is_struct(kind):
        fields = [to_python(part, time_zone) for part in column.flatten()]
        names = tuple(kind.field(index).name for index in range(kind.num_fields))
        return _nulled(to_rows(names, fields, len(column)), column)
    if pa.types.is_map(kind):
        keys, items = to_python(column.keys, time_zone), to_python(column.items, time_zone)
        return _sliced(column, lambda start, stop: dict(zip(keys[start:stop], items[start:stop])))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        elements = to_python(column.values, time_zone)
        return _sliced(column, lambda start, stop: elements[start:stop])
    plain: list[Any] = column.to_pylist()
    return plain


def _nulled(values: list[Any], column: pa.Array) -> list[Any]:
    if not column.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, column.is_valid().to_pylist())]


def _sliced(column: pa.Array, take: Callable[[int, int], Any]) -> list[Any]:
    offsets = column.offsets.to_pylist()
    return _nulled([take(start, stop) for start, stop in itertools.pairwise(offsets)], column)
