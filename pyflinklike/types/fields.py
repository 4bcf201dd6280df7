# SPDX-License-Identifier: Apache-2.0
"""The fields of a row of any class: a mapping, our `Row`, Spark's, or a named tuple."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyflinklike.types.row import Row

__all__ = ["field_of", "names_of"]


def names_of(row: Any) -> tuple[str, ...] | None:
    """Return the names of a row's fields; None where it has none."""
    if isinstance(row, Row):  # not by getattr: a Row is slow to refuse a name that is no field
        return type(row)._fields or None
    if isinstance(row, tuple):
        # Spark's Row first: it takes `_fields` for the name of a column.
        names = getattr(row, "__fields__", None) or getattr(row, "_fields", None)
        return tuple(names) if names else None
    return tuple(row) if isinstance(row, Mapping) else None


def field_of(row: Any, name: str, default: Any) -> Any:
    """Return a field of a row, or an attribute of another object; the default where it has none.

    A field is found by its name even if a method of tuples has the same name, such as `count`.
    """
    if isinstance(row, Row):  # the usual element, asked for several fields
        at = type(row)._positions.get(name)
        return default if at is None else tuple.__getitem__(row, at)
    if isinstance(row, tuple):
        names = names_of(row) or ()
        if name in names:
            return tuple.__getitem__(row, names.index(name))
        return default if hasattr(tuple, name) else getattr(row, name, default)
    return row.get(name, default) if isinstance(row, Mapping) else getattr(row, name, default)
