# SPDX-License-Identifier: Apache-2.0
"""The types of key columns as a record names them, in the words of Spark's `simpleString`."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from pyflinklike.errors import IncompatibleStateError

__all__ = ["arrow_of", "name_of"]

_PLAIN: dict[str, Any] = {
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
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_TEXT = re.compile(r"(?:var)?char\(\d+\)|string collate \w+")


def arrow_of(kind: str) -> Any:
    """Return the Arrow type of a key column.

    Args:
        kind: Spark's name of the type.

    Raises:
        IncompatibleStateError: A type of this name cannot be read.
    """
    if kind in _PLAIN:
        return _PLAIN[kind]
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if _TEXT.fullmatch(kind):
        return pa.string()
    if kind.startswith("struct<") and kind.endswith(">"):
        parts = [each.partition(":") for each in _parts(kind[len("struct<") : -1])]
        return pa.struct([(name, arrow_of(part)) for name, _, part in parts])
    msg = f"keys are read in columns whose types have a form in Arrow, got one of {kind!r}"
    raise IncompatibleStateError(f"{msg}; use read_savepoint() for this state")


def name_of(kind: Any) -> str:
    """Return Spark's name of an Arrow type that a key can have."""
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return f"struct<{','.join(f'{each.name}:{name_of(each.type)}' for each in fields)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return next((name for name, each in _PLAIN.items() if each == kind), str(kind))


def _parts(text: str) -> list[str]:
    """Divide a text at the commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text else []
