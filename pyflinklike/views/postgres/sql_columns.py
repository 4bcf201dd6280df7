# SPDX-License-Identifier: Apache-2.0
"""The columns that SQL sees: their types, and their values for a row.

A read through a view decodes `_row`, which holds the row bit by bit.  The columns are for queries
by SQL.  If PostgreSQL cannot hold a value, the column has a similar one: U+FFFD for a NUL in a
text, the text "NaN" for a NaN inside JSON.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.types.row import names_of
from pyflinklike.views.incoming_rows import layout_of
from pyflinklike.views.postgres.postgres_tables import check_column
from pyflinklike.views.row_codec import Failure

__all__ = ["check_types", "project", "types_of"]

_JSON = "jsonb"
_TYPES = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "bigint"),
    **dict.fromkeys(("float", "double"), "double precision"),
    "boolean": "boolean",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
"""PostgreSQL's types, by the names of Spark's."""

_TYPE = re.compile(r'[A-Za-z_][A-Za-z0-9_ ."]*(\(\d+(, *-?\d+)?\))?[A-Za-z ]*(\[\])*')


def check_types(view: str, columns: Any) -> dict[str, str]:
    """Check columns and their types, as a user declares them.

    Raises:
        DeclarationTypeError: The argument is not a mapping of names to types.
        DeclarationValueError: A type cannot be one of PostgreSQL's.
        StateValueError: A name cannot name a column.
    """
    texts = isinstance(columns, Mapping) and all(
        isinstance(each, str) for pair in columns.items() for each in pair
    )
    if not texts:
        msg = f"view {view!r}: columns must map names to PostgreSQL's types, got {short_repr(columns)}"
        raise DeclarationTypeError(f"{msg}; for example {{'total': 'bigint'}}")
    for name, kind in columns.items():
        check_column(view, name)
        if not _TYPE.fullmatch(kind):
            msg = f"view {view!r}: a column must have a type of PostgreSQL, got {short_repr(kind)} for {name!r}"
            raise DeclarationValueError(f"{msg}; for example 'numeric(10, 2)'")
    return dict(columns)


def types_of(view: str, schema: Mapping[str, Any], key_columns: tuple[str, ...]) -> dict[str, str]:
    """Return the view's columns, and their types, for a DataFrame's rows.

    Args:
        view: The name of the view, for messages.
        schema: Spark's schema, as its `jsonValue()`.
        key_columns: The key columns of the view.
    """
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    layout = layout_of(tuple(fields), key_columns)
    if layout.value is not None:
        value = fields[layout.names[layout.value]]
        is_struct = isinstance(value, Mapping) and value.get("type") == "struct"
        of_row = _fields(value) if is_struct else {"value": value}
    else:
        of_row = {layout.names[at]: fields[layout.names[at]] for at in layout.content}
    columns = {**_of_key(fields, of_row, key_columns), **of_row}
    for name in columns:
        check_column(view, name)
    return {name: _type(kind) for name, kind in columns.items()}


def _of_key(
    fields: Mapping[str, Any], of_row: Mapping[str, Any], key_columns: tuple[str, ...]
) -> dict[str, Any]:
    """Return the types of the key columns, from the row, its field `key` or its value."""
    if set(key_columns) <= fields.keys():
        return {name: fields[name] for name in key_columns}
    whole = fields.get("key")
    if whole is None:
        return {name: of_row[name] for name in key_columns if name in of_row}
    if len(key_columns) == 1:
        return {key_columns[0]: whole}
    parts = list(_fields(whole).values()) if isinstance(whole, Mapping) else []
    return dict(zip(key_columns, parts))


def _fields(struct: Mapping[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in struct.get("fields", ())}


def _type(kind: Any) -> str:
    if not isinstance(kind, str):
        return _JSON
    if kind.startswith("decimal"):
        return "numeric"
    if kind.startswith("interval day"):
        return "interval"
    if kind.startswith("time("):
        return "time without time zone"
    return _TYPES.get(kind, "text")


def project(
    row: Any, key: Any, columns: Mapping[str, str], key_columns: Sequence[str], zone: dt.tzinfo
) -> list[Any]:
    """Return the values of the columns for a row.

    Args:
        row: The row as it was put in.  For a `Failure`, or None for a deleted row, only the key columns
            have values.
        key: The key of the row, decoded.
        columns: The columns of the view, and their types.
        key_columns: The key columns of the view.
        zone: The time zone of naive datetimes.
    """
    names = None if isinstance(row, Failure) else names_of(row)
    values: Mapping[Any, Any]
    if names is None:
        values = {} if row is None or isinstance(row, Failure) else {"value": row}
    else:
        values = row if isinstance(row, Mapping) else dict(zip(names, row))
    parts = key if isinstance(key, tuple) and len(key_columns) > 1 else [key]
    keys = dict(zip(key_columns, parts))
    return [
        _to_column(values[name] if name in values else keys.get(name), kind, zone)
        for name, kind in columns.items()
    ]


def _to_column(value: Any, kind: str, zone: dt.tzinfo) -> Any:
    if value is None or type(value) in (int, float, bool, bytes, dt.date):
        return _json(value) if kind in (_JSON, "json") and value is not None else value
    if kind in (_JSON, "json") or isinstance(value, (tuple, list, Mapping)):
        return _json(value)
    if isinstance(value, str):
        return value.replace("\0", "\ufffd") if "\0" in value else value
    if isinstance(value, dt.datetime) and value.tzinfo is None and kind.endswith("with time zone"):
        return value.replace(tzinfo=zone)
    if isinstance(value, Decimal) and value.is_nan():
        return Decimal("NaN")  # PostgreSQL knows no signalling one
    return value


_encode = msgspec.json.Encoder(decimal_format="number").encode


def _json(value: Any) -> str:
    return _encode(_plain(value)).decode()


def _plain(value: Any) -> Any:
    """Return a value with only the types that JSON has."""
    if isinstance(value, Mapping):
        return {_name(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        names = names_of(value) if isinstance(value, tuple) else None
        if names:
            return {_name(name): _plain(each) for name, each in zip(names, value)}
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        return str(value)
    # msgspec encodes no int beyond 64 bits; as a Decimal it is written as a number.
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return Decimal(value)
    return value


def _name(key: Any) -> str:
    return (key if isinstance(key, str) else str(_plain(key))).replace("\0", "\ufffd")
