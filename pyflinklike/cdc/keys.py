# SPDX-License-Identifier: Apache-2.0
"""The key of a change event: the record's own, or columns of its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyflinklike.errors import KeyDecodeError, NullKeyError
from pyflinklike.shown import shown

__all__ = ["key_of"]


def key_of(
    own: Any,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    columns: tuple[str, ...] | None,
    own_columns: tuple[str, ...] | None = None,
) -> Any:
    """Return the value of a key that has one column, a tuple for several.

    Args:
        own: The record's own key, parsed: an object of columns, or another JSON value.
        before: The row before, or None.
        after: The row after, or None.
        columns: The columns of the key; None for those of the record's own key.
        own_columns: The columns that the record's own key must have; None for any.

    Raises:
        KeyDecodeError: A column is missing, or the key differs before and after the change.
        NullKeyError: There is no key.
    """
    if columns is None:
        values = list(own.values()) if isinstance(own, dict) else own
        columns = tuple(own) if isinstance(own, dict) else ()
        if isinstance(own, dict) and own_columns not in (None, columns):
            msg = (
                f"the key of a record must have the columns {list(own_columns or ())}, "
                f"got {shown(list(columns))}; name them with key="
            )
            raise KeyDecodeError(msg)
    elif len(columns) == 1 and own is not None and not isinstance(own, dict):
        values = own  # a plain key, as ExtractField leaves it
    else:
        values = _values(columns, own if isinstance(own, dict) else {}, after, before)
    if columns and before and after:
        _check_unchanged(columns, before, after)
    if isinstance(values, list):
        values = values[0] if len(values) == 1 else tuple(values)
    if values is None or (isinstance(values, tuple) and all(each is None for each in values)):
        msg = f"a record must have a key, got {shown(own)}; name the key's columns with key="
        raise NullKeyError(msg)
    return values


def _values(columns: tuple[str, ...], *rows: Mapping[str, Any] | None) -> list[Any]:
    """Return the columns, each from the first row that has it."""
    found = []
    for column in columns:
        row = next((row for row in rows if row and column in row), None)
        if row is None:
            known = sorted({name for row in rows for name in row or ()})
            msg = f"the key column {column!r} must be in the record's key or its row, got {shown(known)}"
            raise KeyDecodeError(msg)
        found.append(row[column])
    return found


def _check_unchanged(
    columns: tuple[str, ...], before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    known = all(column in row for column in columns for row in (before, after))
    old, new = ([row.get(column) for column in columns] for row in (before, after))
    if known and old != new:
        msg = (
            f"an update must keep its key, got {shown(old)} before and {shown(new)} after for {list(columns)}; "
            "make these columns the key of the connector's records (message.key.columns), so "
            "that it writes a delete and a create"
        )
        raise KeyDecodeError(msg)
