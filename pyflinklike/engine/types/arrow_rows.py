# SPDX-License-Identifier: Apache-2.0
"""Values with parts in Arrow columns.

The elements of all lists form one column; offsets tell where each list begins, and a mask says
which lists are None.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

import pyarrow as pa

from pyflinklike.types.base import Column

__all__ = [
    "covered",
    "elements_of",
    "null_mask",
    "offsets_of",
    "put_nulls",
    "refuse_nulls",
    "sliced",
]


def offsets_of(stored: Sequence[Any]) -> Column:
    """Return where each list begins in the column of all elements; None takes no room."""
    lengths = [0 if values is None else len(values) for values in stored]
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32())


def elements_of(stored: Sequence[Any]) -> list[Any]:
    """Return the elements of all lists, one after another."""
    return list(chain.from_iterable(values for values in stored if values is not None))


def null_mask(stored: Sequence[Any]) -> Column:
    """Return the mask of the values that are None; no mask if none is, which writes faster."""
    nulls = [value is None for value in stored]
    return pa.array(nulls, pa.bool_()) if any(nulls) else None


def sliced(column: Column, parts: list[Any]) -> list[Any]:
    """Cut the elements that belong to `column`, possibly a slice, back into tuples."""
    elements, starts = tuple(parts), column.offsets.to_pylist()
    if starts and starts[0]:
        starts = [start - starts[0] for start in starts]
    values: list[Any] = [elements[a:b] for a, b in pairwise(starts)]
    return put_nulls(column, values)


def covered(column: Column, parts: Column) -> Column:
    """Return the stretch of `parts` that the lists of `column` cover."""
    starts = column.offsets
    if not len(column):
        return parts.slice(0, 0)
    first = starts[0].as_py()
    return parts.slice(first, starts[-1].as_py() - first)


def refuse_nulls(column: Column, optional: bool) -> None:
    """Refuse a column with nulls where null is no value.

    Raises:
        ValueError: The column has nulls.
    """
    if column.null_count and not optional:
        msg = "a null among values that are never None"
        raise ValueError(msg)


def put_nulls(column: Column, values: list[Any]) -> list[Any]:
    """Return the values, with None where the column is null."""
    if column.null_count:
        return [v if valid else None for v, valid in zip(values, column.is_valid().to_pylist())]
    return values
