# SPDX-License-Identifier: Apache-2.0
"""The tables of a view in PostgreSQL: their names, their contents and their checks.

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

Each row is compared with its checksum.  Each read of all rows is compared with the number of rows and the
sum that the last batch stores.  So a row that was changed or deleted by SQL is never returned.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from zlib import crc32

import attrs
import psycopg
from psycopg import sql

from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    StateValueError,
)
from pyflinklike.views.view_storage import AppliedBatch, RowChange, Snapshot

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
            msg = f"schema must be the name of a schema, got {short_repr(given)}; for example 'public'"
            raise DeclarationTypeError(msg)
        if not 0 < len(given.encode()) <= _MOST_BYTES or "\0" in given:
            msg = f"schema must be a name of 1 to {_MOST_BYTES} bytes, got {short_repr(given)}; choose another"
            raise DeclarationValueError(msg)

    @view.validator
    def _check_view(self, _: object, given: str) -> None:
        if len(given.encode()) > _MOST_NAME_BYTES:
            msg = f"the name of a view in PostgreSQL must have at most {_MOST_NAME_BYTES} bytes, got {short_repr(given)}"
            raise DeclarationValueError(f"{msg}; shorten it")

    def table(self, suffix: str = "") -> sql.Identifier:
        """Return the identifier of a table of the view."""
        return sql.Identifier(self.schema, f"{self.view}{suffix}")

    def name_staging_table(self, token: int) -> str:
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
            f"{', '.join(RESERVED)}, got {short_repr(name)}"
        )
        raise StateValueError(f"{msg}; rename it")


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
        lock: The number that the writer locks: the number of a table in this database.
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
    """Read the tables' description of themselves; return None if there are no tables.

    Raises:
        IncompatibleStateError: The tables belong to another program, or have another key or
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
        msg = f"{what} must have one line of format {_FORMAT} in __about, got {lines}"
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
    """Add the columns that a view lacks, and an index once it has all key columns.

    Returns:
        All columns that the view has afterwards, with their types.

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


# Not logged, which is faster: if a crash empties the table, the batch is sent again.
_STAGING = """CREATE UNLOGGED TABLE {staging} (_token bigint, _position bigint, _kind int,
    _key bytea, _row bytea, _order bytea, _checksum bigint, _error text{columns})"""


def create_staging(
    connection: psycopg.Connection[Any], names: Names, table: str, columns: dict[str, str]
) -> None:
    """Make an empty staging table with the view's columns."""
    more = [sql.SQL(", {} " + kind).format(sql.Identifier(name)) for name, kind in columns.items()]
    connection.execute(
        names.sql(_STAGING, staging=sql.Identifier(names.schema, table), columns=sql.Composed(more))
    )


_AT_ONCE = 2000  # rows of a scan that are fetched together


def checksum_of(identity: int, key: bytes, row: bytes) -> int:
    """Return the checksum of a row.

    Args:
        identity: The identity of the view's tables, so that a row of other tables does not match.
        key: The encoded key of the row.
        row: The row as it is stored, encoded.
    """
    return crc32(row, crc32(key, crc32(b"%d %d" % (identity, len(key)))))


@attrs.frozen
class PostgresSnapshot(Snapshot):
    """The tables of a view in one transaction.

    Args:
        connection: A connection in a transaction that sees one state.
        names: The names of the tables.
        identity: The identity of the tables.
    """

    _connection: psycopg.Connection[Any]
    _names: Names
    _identity: int

    def rows_of(self, keys: Iterable[bytes], seq: int | None = None) -> dict[bytes, bytes]:
        """Return the rows of those keys that have one, now or after a batch of the history."""
        wanted = list(keys)
        changed = {} if seq is None else dict(self._all(_CHANGED_SINCE, wanted, seq))
        query = "SELECT _key, _row, _checksum FROM {rows} WHERE _key = ANY(%s)"
        now = self._all(query, [key for key in wanted if key not in changed])
        found = {key: self._check(key, row, stored) for key, row, stored in now}
        return {**found, **{key: row for key, row in changed.items() if row is not None}}

    def _lines(self, seq: int | None) -> Iterator[tuple[bytes, bytes, int]]:
        if seq is None:
            query = "SELECT _key, _row, _checksum FROM {rows} ORDER BY _key"
            for key, row, stored in self._each(query):
                yield key, self._check(key, row, stored), stored
        else:
            for key, row in self._each(_ROWS_AT, seq=seq):
                yield key, row, checksum_of(self._identity, key, row)

    # The past

    def batches(self, which: str = "ORDER BY seq", *values: int) -> Iterator[AppliedBatch]:
        """Return batches of the history."""
        query = "SELECT * FROM {batches} " + which.replace("?", "%s")  # noqa: S608 - of our constants
        for line in self._all(query, *values):
            batch = AppliedBatch(*line)
            yield batch._replace(rows_sum=int(batch.rows_sum))

    def changes_of(self, seq: int) -> list[RowChange]:
        """Return the changes of a batch of the history, in the order in which its keys arrived."""
        return [RowChange(*line) for line in self._all(_CHANGES_OF, seq, seq)]

    # Batches that were seen

    def is_seen(self, source: str, batch_id: int) -> bool:
        """Return whether a batch of that id was applied, however long ago."""
        query = "SELECT 1 FROM {seen} WHERE source = %s AND %s BETWEEN first AND last"
        return bool(self._all(query, source, batch_id))

    def last_of(self, source: str) -> int | None:
        """Return the greatest batch id of a stream that was applied."""
        ((last,),) = self._all("SELECT max(last) FROM {seen} WHERE source = %s", source)
        return None if last is None else int(last)

    # Reading

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor(binary=True) as cursor:
            return cursor.execute(self._names.sql(query), values).fetchall()

    def _each(self, query: str, **values: Any) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor("scan", binary=True) as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(self._names.sql(query), values)
            yield from cursor

    def _check(self, key: bytes, row: bytes, stored: int) -> bytes:
        if checksum_of(self._identity, key, row) != stored:
            got = f"a row with another checksum than its columns, at {short_repr(key)}"
            raise self._make_damage(got)
        return row

    def _make_damage(self, got: str) -> CorruptStateError:
        msg = f"view {self._names.view!r}: its tables must hold what was written, got {got}"
        return CorruptStateError(f"{msg}; restore them, and let nobody else write to them")


_CHANGED_SINCE = """SELECT DISTINCT ON (key) key, before FROM {changes}
    WHERE key = ANY(%s) AND seq > %s ORDER BY key, seq"""

_ROWS_AT = """SELECT _key, _row FROM {rows} WHERE NOT EXISTS
        (SELECT 1 FROM {changes} c WHERE c.key = _key AND c.seq > %(seq)s)
    UNION ALL SELECT key, before FROM
        (SELECT DISTINCT ON (key) key, before FROM {changes}
            WHERE seq > %(seq)s ORDER BY key, seq) changed
    WHERE before IS NOT NULL ORDER BY 1"""

_CHANGES_OF = """SELECT changed.key, changed.before, CASE WHEN next.seq IS NULL THEN _row ELSE next.before END
    FROM (SELECT * FROM {changes} WHERE seq = %s) changed
    LEFT JOIN LATERAL (SELECT n.seq, n.before FROM {changes} n
        WHERE n.key = changed.key AND n.seq > %s ORDER BY n.seq LIMIT 1) next ON true
    LEFT JOIN {rows} ON _key = changed.key ORDER BY changed.position"""
