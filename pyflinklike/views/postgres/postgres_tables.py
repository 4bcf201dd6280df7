# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of a view, in the caller's transaction.

Each row is compared with its checksum, and each read of all rows with the number of rows and the
sum that the last batch stores: so a row that someone changed or deleted by SQL is not served.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

import psycopg

from pyflinklike.errors import CorruptStateError
from pyflinklike.shown import shown
from pyflinklike.views.core.storage import RowChange
from pyflinklike.views.postgres.names import Names

__all__ = ["Batch", "PostgresSnapshot", "checksum_of"]

_AT_ONCE = 2000  # rows of a scan that are fetched together


def checksum_of(identity: int, key: bytes, row: bytes) -> int:
    """Return the checksum of a row.

    Args:
        identity: The identity of the view's tables: a row of other tables does not pass for one of
            these.
        key: The encoded key.
        row: The encoded row.
    """
    return crc32(row, crc32(key, crc32(b"%d %d" % (identity, len(key)))))


class Batch(NamedTuple):
    """A batch that was applied.

    Args:
        seq: Its number among the applied batches, from 1.
        source: The stream it came from; "" if it came from no stream.
        batch_id: Its id in that stream.
        applied_at: The time at which it was applied, in ms since the epoch.
        watermark: How far event time had come, in ms; None if it was unknown.
        size: How many rows the view had after it.
        rows_sum: The sum of the checksums of these rows.
        changes: How many keys it changed.
        oldest: The seq of the oldest batch in the history after it.
    """

    seq: int
    source: str
    batch_id: int
    applied_at: int
    watermark: int | None
    size: int
    rows_sum: int
    changes: int
    oldest: int


class PostgresSnapshot:
    """The tables of a view in one transaction.

    Args:
        connection: A connection in a transaction that sees one state.
        names: The names of the tables.
        identity: The identity of the tables.
    """

    def __init__(self, connection: psycopg.Connection[Any], names: Names, identity: int) -> None:
        self._connection = connection
        self._names = names
        self._identity = identity

    # The present

    def rows_of(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the rows of those keys that have one."""
        query = "SELECT _key, _row, _checksum FROM {rows} WHERE _key = ANY(%s)"
        found = self._all(query, list(keys))
        return {key: self._checked(key, row, stored) for key, row, stored in found}

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys and rows, in the order of the keys."""
        query = "SELECT _key, _row, _checksum FROM {rows} ORDER BY _key"
        count = total = 0
        for key, row, stored in self._each(query):
            count, total = count + 1, total + stored
            yield key, self._checked(key, row, stored)
        latest = self.latest_batch()
        self._check_whole((count, total), latest)

    def latest_batch(self) -> Batch | None:
        """Return the last batch that was applied."""
        return self._batch("ORDER BY seq DESC LIMIT 1")

    # The past

    def oldest_batch(self) -> Batch | None:
        """Return the oldest batch of the history."""
        return self._batch("ORDER BY seq LIMIT 1")

    def batch_of(self, batch_id: int) -> Batch | None:
        """Return the last batch of that id, if the history has it."""
        return self._batch("WHERE batch_id = %s ORDER BY seq DESC LIMIT 1", batch_id)

    def batch_numbered(self, seq: int) -> Batch | None:
        """Return the batch with that number, if the history has it."""
        return self._batch("WHERE seq = %s", seq)

    def rows_of_at(self, keys: Iterable[bytes], seq: int) -> dict[bytes, bytes]:
        """Return the rows, after a batch of the history, of those keys that had one."""
        wanted = list(keys)
        changed = dict(self._all(_CHANGED_SINCE, wanted, seq))
        now = self.rows_of(key for key in wanted if key not in changed)
        return {**now, **{key: row for key, row in changed.items() if row is not None}}

    def rows_at_seq(self, seq: int) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys and rows after a batch of the history, in the order of the keys."""
        count = total = 0
        for key, row in self._each(_ROWS_AT, seq=seq):
            count, total = count + 1, total + checksum_of(self._identity, key, row)
            yield key, row
        self._check_whole((count, total), self.batch_numbered(seq))

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

    def _batch(self, which: str, *values: int) -> Batch | None:
        found = self._all("SELECT * FROM {batches} " + which, *values)  # noqa: S608 - of our constants
        if not found:
            return None
        batch = Batch(*found[0])
        return batch._replace(rows_sum=int(batch.rows_sum))

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor(binary=True) as cursor:
            return cursor.execute(self._names.sql(query), values).fetchall()

    def _each(self, query: str, **values: Any) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor("scan", binary=True) as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(self._names.sql(query), values)
            yield from cursor

    def _checked(self, key: bytes, row: bytes, stored: int) -> bytes:
        if checksum_of(self._identity, key, row) != stored:
            raise self._damage(f"a row with another checksum than its columns, at {shown(key)}")
        return row

    def _check_whole(self, found: tuple[int, int], batch: Batch | None) -> None:
        if found != ((0, 0) if batch is None else (batch.size, batch.rows_sum)):
            msg = "rows that are missing, or not of that batch"
            raise self._damage(msg)

    def _damage(self, got: str) -> CorruptStateError:
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
