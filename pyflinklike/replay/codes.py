# SPDX-License-Identifier: Apache-2.0
"""Rows with equal values get equal numbers, so that Arrow can group by what it cannot compare.

Arrow groups by numbers and texts, but not by structs, lists or maps, of which keys may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["codes_of", "last_of_each", "numbers"]

_ROW = "row"


def codes_of(columns: Sequence[Any], rows: int) -> Any:
    """A number for each row: equal where all columns are, ascending from 0 by first occurrence.

    Args:
        columns: Arrow arrays of any type, nulls included; without any, all rows are equal.
        rows: How many there are.
    """
    if not columns:
        return pa.repeat(pa.scalar(0, pa.int64()), rows)
    first, *others = columns
    codes = _codes(first)
    for column in others:
        mine = _codes(column)
        width = pa.scalar((pc.max(mine).as_py() or 0) + 1, pa.int64())
        codes = _dictionary(pc.add(pc.multiply(codes, width), mine))
    return codes


def _codes(column: Any) -> Any:
    kind = column.type
    if pa.types.is_struct(kind):
        return codes_of([column.is_valid(), *column.flatten()], len(column))
    if pa.types.is_nested(kind):
        # One object per row: lists and maps are rare as keys.
        known: dict[Any, int] = {}
        texts = map(repr, column.to_pylist())
        return pa.array([known.setdefault(text, len(known)) for text in texts], pa.int64())
    return _dictionary(column)


def _dictionary(column: Any) -> Any:
    return column.dictionary_encode(null_encoding="encode").indices.cast(pa.int64())


def numbers(rows: int) -> Any:
    """The numbers of so many rows."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows), start=-1)


def last_of_each(codes: Any, places: Any) -> Any:
    """The greatest place of each code, in the order of the codes.

    Args:
        codes: As `codes_of` gives them: every number from 0 on occurs.
        places: A number for each row; null where a row does not count.
    """
    if (pc.max(codes).as_py() or 0) + 1 == len(codes):
        return places
    table = pa.table({"code": codes, _ROW: places})
    # In one thread Arrow numbers groups as they come, and so do the codes.
    found = table.group_by("code", use_threads=False).aggregate([(_ROW, "max")])
    return found.column(f"{_ROW}_max").combine_chunks()
