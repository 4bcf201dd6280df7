# SPDX-License-Identifier: Apache-2.0
"""Arrow columns as values of Python: rows, lists with parts, times.

A column of records becomes the values that a PySpark `Row` would hold.  A timestamp is a naive
`datetime` in the session's time zone, with `fold` for an hour that comes twice; without a time zone it
stays as it is.  A struct is a `Row`, and a map is a dict.

Stored lists share one column, which has the elements of all lists.  Offsets say where each list
begins, and a mask says which lists are None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain, pairwise, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.types.row import Row, row_class
from pyflinklike.types.time_types import to_local_times
from pyflinklike.types.type_information import Column

# Values as a PySpark `Row` would hold them


def to_rows(names: tuple[str, ...], columns: list[list[Any]], count: int) -> list[Row]:
    """Make `count` rows of Python columns with these names."""
    cls = row_class(names)
    if not columns:
        return [cls._make(()) for _ in range(count)]
    # The rows' own constructor is Python code; the tuple's makes the same object.
    return list(map(tuple.__new__, repeat(cls), zip(*columns)))


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
        return put_nulls(column, to_rows(names, fields, len(column)))
    if pa.types.is_map(kind):
        keys, items = to_python(column.keys, time_zone), to_python(column.items, time_zone)
        return _each_list(
            column, lambda start, stop: dict(zip(keys[start:stop], items[start:stop]))
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        elements = to_python(column.values, time_zone)
        return _each_list(column, lambda start, stop: elements[start:stop])
    plain: list[Any] = column.to_pylist()
    return plain


def _each_list(column: pa.Array, take: Callable[[int, int], Any]) -> list[Any]:
    offsets = column.offsets.to_pylist()
    return put_nulls(column, [take(start, stop) for start, stop in pairwise(offsets)])


# Values with parts


def offsets_of(stored: Sequence[Any]) -> Column:
    """Return where each list begins in the column of all elements; None has no elements."""
    lengths = [0 if values is None else len(values) for values in stored]
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32())


def elements_of(stored: Sequence[Any]) -> list[Any]:
    """Return the elements of all lists, one after another."""
    return list(chain.from_iterable(values for values in stored if values is not None))


def slice_parts(column: Column, parts: list[Any]) -> list[Any]:
    """Cut the elements that belong to `column`, possibly a slice, back into tuples."""
    elements, starts = tuple(parts), column.offsets.to_pylist()
    if starts and starts[0]:
        # A slice keeps the offsets of the whole column, but `parts` begins with the slice.
        starts = [start - starts[0] for start in starts]
    values: list[Any] = [elements[a:b] for a, b in pairwise(starts)]
    return put_nulls(column, values)


def cut_to_cover(column: Column, parts: Column) -> Column:
    """Return the stretch of `parts` that the lists of `column` cover."""
    starts = column.offsets
    if not len(column):
        return parts.slice(0, 0)
    first = starts[0].as_py()
    return parts.slice(first, starts[-1].as_py() - first)


def null_mask(stored: Sequence[Any]) -> Column:
    """Return a mask of the values that are None; no mask if there are no such values, to write faster."""
    nulls = [value is None for value in stored]
    return pa.array(nulls, pa.bool_()) if any(nulls) else None


def put_nulls(column: Column, values: list[Any]) -> list[Any]:
    """Return the values, with None where the column is null."""
    if column.null_count:
        return [v if valid else None for v, valid in zip(values, column.is_valid().to_pylist())]
    return values


def refuse_nulls(column: Column, optional: bool) -> None:
    """Refuse a column with nulls, if None is no value of its type.

    Raises:
        ValueError: The column has nulls.
    """
    if column.null_count and not optional:
        msg = "a null among values that are never None"
        raise ValueError(msg)


# Timestamps


def milliseconds(column: pa.Array) -> pa.Array:
    """Return the instants of a timestamp column in ms, rounded down."""
    micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    quotients = pc.divide(micros, 1000)
    # Arrow rounds towards zero; before the epoch that is the ms after.
    below = pc.less(micros, pc.multiply(quotients, 1000))
    return pc.subtract(quotients, below.cast(pa.int64()))
