# SPDX-License-Identifier: Apache-2.0
"""Types of DataFrame columns, for code that reads state without its program and without Spark.

Folds, windows and joins of DataFrames keep whole rows.  Some columns have no type in `Types` that gives
every value back unchanged: instants, decimals, intervals, arrays, maps and structs.  Their type is
Spark's, and state names it by Spark's `simpleString`, as in `ColumnTypeInfo(decimal(10,2))`.

The program itself has its own class for such a type (`pyflinklike.aggregations._element_types`), which
knows the session's time zone.  Both classes have the same signature and write the same column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import pyarrow as pa

from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.type_information import Column, TypeInformation

__all__ = ["DECIMAL", "PLAIN", "TEXT", "StoredColumnTypeInfo", "column_type_at"]

PLAIN = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Arrow's types by Spark's names, of all columns without parts; a key may have any of them."""
DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
"""Spark's name of a decimal type: precision and scale."""
TEXT = re.compile(r"(?:varchar|char)\(\d+\)|string collate \w+")
"""Spark's names for types of text other than a plain string."""

_PLAIN = {"void": pa.null(), **PLAIN}
# Longer words must come first, because "timestamp_ntz" begins with "timestamp".
_WORD = re.compile("|".join(sorted(_PLAIN, key=len, reverse=True)))
_INTERVAL = re.compile(r"interval (?:day|hour|minute|second)(?: to (?:hour|minute|second))?")
# Spark writes the name of a field without quotes; a name with a colon cannot be read back.
_FIELD = re.compile(r"([^:]+):")
_MAX_DEPTH = 64  # Arrow cannot write types that are nested deeper


@attrs.frozen(repr=False)
class StoredColumnTypeInfo(TypeInformation):
    """The type of a column's stored values.

    Args:
        kind: Spark's name of the column's type, its `simpleString`.
        arrow_type: Arrow's type of the stored column.
    """

    accepts_none: ClassVar[bool] = True

    kind: str
    arrow_type: pa.DataType = attrs.field(eq=False)

    def freeze(self, value: Any) -> Any:
        """Return the value."""
        return value

    def to_arrow(self, stored: Sequence[Any]) -> Column:
        """Write stored values as a column."""
        return pa.array(stored, self.arrow_type)

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the values of a column, with instants as datetimes in UTC."""
        return to_python(column, "UTC")

    def _takes(self) -> str:
        return f"what a column of type {self.kind} holds"

    def __repr__(self) -> str:
        return f"ColumnTypeInfo({self.kind})"


def column_type_at(text: str, at: int) -> tuple[StoredColumnTypeInfo, int]:
    """Read the column type whose name begins at a position of a text.

    Args:
        text: A signature, which names the type somewhere.
        at: The position in it where Spark's name begins.

    Returns:
        The type, and the position behind its name.

    Raises:
        ValueError: Spark has no such type, or state cannot hold it.
    """
    kind, end = _type_at(text, at, 0)
    return StoredColumnTypeInfo(text[at:end], kind), end


def _type_at(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    if depth > _MAX_DEPTH:
        msg = f"types within types, {depth} deep"
        raise ValueError(msg)
    if text.startswith("array<", at):
        element, at = _type_at(text, at + len("array<"), depth + 1)
        return pa.list_(element), _behind(text, at, ">")
    if text.startswith("map<", at):
        key, at = _type_at(text, at + len("map<"), depth + 1)
        value, at = _type_at(text, _behind(text, at, ","), depth + 1)
        return pa.map_(key, value), _behind(text, at, ">")
    if text.startswith("struct<", at):
        return _struct_at(text, at + len("struct<"), depth + 1)
    return _plain_at(text, at)


def _struct_at(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    fields: list[pa.Field] = []
    while not text.startswith(">", at):
        at = _behind(text, at, ",") if fields else at
        name = _match(_FIELD, text, at)
        kind, at = _type_at(text, name.end(), depth)
        fields.append(pa.field(name[1], kind))
    return pa.struct(fields), at + 1


def _plain_at(text: str, at: int) -> tuple[pa.DataType, int]:
    if found := DECIMAL.match(text, at):
        return pa.decimal128(int(found[1]), int(found[2])), found.end()
    if found := _INTERVAL.match(text, at):
        return pa.duration("us"), found.end()
    if found := TEXT.match(text, at):
        return pa.string(), found.end()
    found = _match(_WORD, text, at)
    return _PLAIN[found[0]], found.end()


def _match(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    found = pattern.match(text, at)
    if found is None:
        raise ValueError(text[at:])
    return found


def _behind(text: str, at: int, token: str) -> int:
    if not text.startswith(token, at):
        raise ValueError(text[at:])
    return at + len(token)
