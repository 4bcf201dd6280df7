# SPDX-License-Identifier: Apache-2.0
"""Equal numbers for rows with equal values, so that Arrow can group by what it cannot compare.

Arrow groups by numbers and strings, but not by structs, lists or maps, which keys may consist of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["codes_of", "last_of_each", "numbers"]

_ROW = "row"


def codes_of(columns: Sequence[Any], rows: int) -> Any:
    """Return a number for each row: equal if all columns are, from 0 on by first occurrence.

    Args:
        columns: Arrow arrays of any type, nulls included; without any, all rows are equal.
        rows: Number of rows.
    """
    if not columns:
        return pa.repeat(pa.scalar(0, pa.int64()), rows)
    first, *others = columns
    codes = _codes(first)
    for column in others:
        mine = _codes(column)
        width = pa.scalar((pc.max(mine).as_py() or 0) + 1, pa.int64())
        # Made small again after each column, so that the product fits into 64 bits.
        codes = _dictionary(pc.add(pc.multiply(codes, width), mine))
    return codes


def _codes(column: Any) -> Any:
    kind = column.type
    if pa.types.is_struct(kind):
        return codes_of([column.is_valid(), *column.flatten()], len(column))
    if pa.types.is_nested(kind):
        # One object for each row: lists and maps are rare as keys.
        known: dict[Any, int] = {}
        texts = map(repr, column.to_pylist())
        return pa.array([known.setdefault(text, len(known)) for text in texts], pa.int64())
    return _dictionary(column)


def _dictionary(column: Any) -> Any:
    return column.dictionary_encode(null_encoding="encode").indices.cast(pa.int64())


def numbers(rows: int) -> Any:
    """Return the numbers from 0 to below `rows`."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows), start=-1)


def last_of_each(codes: Any, places: Any) -> Any:
    """Return the greatest place of each code, in the order of the codes.

    Args:
        codes: Codes as `codes_of` returns them: every number from 0 on occurs.
        places: A number for each row; null where a row does not count.
    """
    # All rows differ, so each is the last of its code.
    if (pc.max(codes).as_py() or 0) + 1 == len(codes):
        return places
    table = pa.table({"code": codes, _ROW: places})
    # In one thread Arrow numbers groups by first occurrence, as the codes are numbered.
    found = table.group_by("code", use_threads=False).aggregate([(_ROW, "max")])
    return found.column(f"{_ROW}_max").combine_chunks()
