# SPDX-License-Identifier: Apache-2.0
"""The tables of a view in PostgreSQL: their names and their contents.

| table             | a line is                                                                   |
|-------------------|-----------------------------------------------------------------------------|
| `NAME`            | a row as it is now: a view reads `_row`, SQL sees the columns               |
| `NAME__about`     | the view: its format, key and order columns, and the identity of its tables |
| `NAME__batches`   | a batch of the history; `seq` counts applied batches                        |
| `NAME__changes`   | a key that such a batch changed, and its row before                         |
| `NAME__seen`      | a run of batch ids that were applied, of one source                         |
| `NAME__staging_X` | the rows of the partitions of one attempt at a batch; gone with the batch   |

A row as of a batch is the row before its first later change or, if there is none, the row as it is
now.  The changes of the oldest batch are stored, too, for subscribers.
"""

from __future__ import annotations

import attrs
from psycopg import sql

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
from pyflinklike.shown import shown

__all__ = ["RESERVED", "Names", "check_column"]

RESERVED = (
    "_key",
    "_row",
    "_order",
    "_checksum",
    "_error",
    "_token",
    "_position",
    "_kind",
    "_place",
)
"""Columns that are ours."""

_MOST_BYTES = 63  # PostgreSQL cuts off the rest of a name
_MOST_NAME_BYTES = _MOST_BYTES - len("__staging_") - 16


@attrs.frozen
class Names:
    """The names of a view's tables.

    Args:
        schema: The schema of PostgreSQL that has the tables.
        view: The name of the view.
    """

    schema: str = attrs.field()
    view: str = attrs.field()

    @schema.validator
    def _check_schema(self, _: object, given: object) -> None:
        if not isinstance(given, str):
            msg = f"schema must be the name of a schema, got {shown(given)}; for example 'public'"
            raise DeclarationTypeError(msg)
        if not 0 < len(given.encode()) <= _MOST_BYTES or "\0" in given:
            msg = f"schema must be a name of 1 to {_MOST_BYTES} bytes, got {shown(given)}; choose another"
            raise DeclarationValueError(msg)

    @view.validator
    def _check_view(self, _: object, given: str) -> None:
        if len(given.encode()) > _MOST_NAME_BYTES:
            msg = f"the name of a view in PostgreSQL must have at most {_MOST_NAME_BYTES} bytes, got {shown(given)}"
            raise DeclarationValueError(f"{msg}; shorten it")

    def table(self, suffix: str = "") -> sql.Identifier:
        """Return the identifier of a table of the view."""
        return sql.Identifier(self.schema, f"{self.view}{suffix}")

    def staging(self, token: int) -> str:
        """Return the name of a staging table."""
        return f"{self.staging_prefix}{token:016x}"

    @property
    def staging_prefix(self) -> str:
        """The beginning of the names of staging tables."""
        return f"{self.view}__staging_"

    def sql(self, text: str, **more: sql.Composable) -> sql.Composed:
        """Make a statement, with the tables in the place of {rows}, {about}, {batches} ..."""
        return sql.SQL(text).format(
            rows=self.table(),
            about=self.table("__about"),
            batches=self.table("__batches"),
            changes=self.table("__changes"),
            seen=self.table("__seen"),
            **more,
        )


def check_column(view: str, name: str) -> None:
    """Refuse a column that PostgreSQL cannot have beside ours.

    Raises:
        StateValueError: Its name is one of ours, too long, or empty.
    """
    if name in RESERVED or not 0 < len(name.encode()) <= _MOST_BYTES or "\0" in name:
        msg = (
            f"view {view!r}: a column must have a name of 1 to {_MOST_BYTES} bytes that is none of "
            f"{', '.join(RESERVED)}, got {shown(name)}"
        )
        raise StateValueError(f"{msg}; rename it")
