# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of a view, and checks that existing ones are this view's."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

import attrs
import psycopg
from psycopg import sql

from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.views.postgres.names import RESERVED, Names

__all__ = ["About", "add_columns", "columns_of", "create", "read_about"]

_FORMAT = 1
_SCHEMA = [
    """CREATE TABLE {rows} (_key bytea PRIMARY KEY, _row bytea NOT NULL, _order bytea,
        _checksum bigint NOT NULL, _error text)""",
    """CREATE TABLE {about} (format int NOT NULL, key_columns text NOT NULL,
        order_columns text NOT NULL, order_kinds text NOT NULL, identity bigint NOT NULL)""",
    """CREATE TABLE {batches} (seq bigint PRIMARY KEY, source text NOT NULL,
        batch_id bigint NOT NULL, applied_at bigint NOT NULL, watermark bigint,
        size bigint NOT NULL, rows_sum numeric NOT NULL, changes bigint NOT NULL,
        oldest bigint NOT NULL)""",
    "CREATE INDEX ON {batches} (batch_id)",
    """CREATE TABLE {changes} (seq bigint, position bigint, key bytea NOT NULL, before bytea,
        PRIMARY KEY (seq, position))""",
    "CREATE INDEX ON {changes} (key, seq)",
    """CREATE TABLE {seen} (source text, first bigint, last bigint NOT NULL,
        PRIMARY KEY (source, first))""",
]


@attrs.frozen
class About:
    """The identity of a view's tables, and the number of their lock.

    Args:
        identity: The identity of the tables, which is part of all checksums.
        lock: The number that the writer locks: that of a table in this database.
    """

    identity: int
    lock: int

    @property
    def channel(self) -> str:
        """The channel on which each batch is notified."""
        return f"pyflinklike_{self.lock}"


def read_about(
    connection: psycopg.Connection[Any],
    names: Names,
    key_columns: tuple[str, ...],
    order_columns: tuple[str, ...],
) -> About | None:
    """Read what the tables say of themselves; return None if there are no tables.

    Raises:
        IncompatibleStateError: The tables are another program's, or this view's by another key or
            order.
        CorruptStateError: The tables have another format.
    """
    there = [
        connection.execute(
            "SELECT to_regclass(%s)::oid::bigint", (each.as_string(connection),)
        ).fetchone()
        for each in (names.table(), names.table("__about"))
    ]
    of_rows, of_about = (each[0] if each else None for each in there)
    if of_rows is None and of_about is None:
        return None
    what = f"view {names.view!r} in the schema {names.schema!r}"
    if of_rows is None or of_about is None:
        msg = f"{what} must have its own tables, got a table of that name of another program"
        raise IncompatibleStateError(f"{msg}; choose another name or schema")
    lines = connection.execute(names.sql("SELECT * FROM {about}")).fetchall()
    if len(lines) != 1 or lines[0][0] != _FORMAT:
        msg = f"{what} must say once that it is of format {_FORMAT}, got {lines}"
        raise CorruptStateError(f"{msg}; use the pyflinklike that wrote it, or restore it")
    _, keys, orders, _, identity = lines[0]
    for name, stored, given in (("key", keys, key_columns), ("order_by", orders, order_columns)):
        if json.loads(stored) != list(given):
            msg = f"{what} must keep its {name}, got {list(given)} for {stored}"
            raise IncompatibleStateError(f"{msg}; open it as it was, or build another and switch")
    return About(identity, of_about)


def create(
    connection: psycopg.Connection[Any],
    names: Names,
    key_columns: tuple[str, ...],
    order_columns: tuple[str, ...],
) -> None:
    """Make the tables, in the caller's transaction."""
    for statement in _SCHEMA:
        connection.execute(names.sql(statement))
    line = (_FORMAT, json.dumps(key_columns), json.dumps(order_columns), "{}", secrets.randbits(62))
    connection.execute(names.sql("INSERT INTO {about} VALUES (%s, %s, %s, %s, %s)"), line)


def columns_of(connection: psycopg.Connection[Any], names: Names) -> dict[str, str]:
    """Return the columns of a view that SQL sees, and their types as PostgreSQL writes them."""
    found = connection.execute(
        """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
        WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum""",
        _of(connection, names),
    ).fetchall()
    return {name: kind for name, kind in found if name not in RESERVED}


def _of(connection: psycopg.Connection[Any], names: Names) -> tuple[str]:
    """Return the view's table, for a cast to regclass."""
    return (names.table().as_string(connection),)


_OTHER_TYPES = """SELECT attname, format_type(atttypid, atttypmod), wanted.kind
    FROM pg_attribute JOIN unnest(%s::text[], %s::text[]) wanted(name, kind) ON attname = wanted.name
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
        AND atttypid <> to_regtype(wanted.kind)"""


def add_columns(
    connection: psycopg.Connection[Any],
    names: Names,
    wanted: Mapping[str, str],
    key_columns: tuple[str, ...],
) -> dict[str, str]:
    """Add the columns that a view lacks, with an index once it has all of its key.

    Returns:
        All columns that the view has then, with their types.

    Raises:
        IncompatibleStateError: The view has a column of that name with another type.
    """
    have = columns_of(connection, names)
    for name, kind in wanted.items():
        if name not in have:
            connection.execute(
                names.sql("ALTER TABLE {rows} ADD COLUMN {name} " + kind, name=sql.Identifier(name))
            )
    other = connection.execute(
        _OTHER_TYPES, (list(wanted), list(wanted.values()), *_of(connection, names))
    )
    for name, kind, got in other.fetchall():
        msg = f"view {names.view!r}: the column {name!r} must keep its type {kind}, got {got}"
        raise IncompatibleStateError(
            f"{msg}; cast it in the stream, or drop it in PostgreSQL, and it is made anew"
        )
    now = columns_of(connection, names)
    if not set(key_columns) <= have.keys() and set(key_columns) <= now.keys():
        keys = sql.SQL(", ").join(map(sql.Identifier, key_columns))
        connection.execute(names.sql("CREATE INDEX ON {rows} ({keys})", keys=keys))
    return now
