# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of a view, in the caller's transaction.

A batch has a number besides its id: `seq`, which counts the applied batches.  Ids start again with
another stream, and may come in any order.  `batches` holds as many batches as the view's history is
long.  The changes of a batch are deleted when it becomes the oldest one: they lead back to the
batch before it, which the history no longer has.

Each line is compared with its checksum, and each read of a whole table with the number of lines and
the sum that the last batch stores.  A difference is a `Damage`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyflinklike.views.core.storage import RowChange
from pyflinklike.views.file.checksums import Damage, Sums

__all__ = ["NO_BATCH", "Batch", "Connection", "Run"]


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
        changes: How many keys it changed, if its changes are stored.
        changes_sum: The sum of the checksums of these changes.
        runs: How many runs of ids had been seen after it.
        runs_sum: The sum of the checksums of these runs.
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
    changes_sum: int
    runs: int
    runs_sum: int
    oldest: int


NO_BATCH = Batch(0, "", 0, 0, None, 0, 0, 0, 0, 0, 0, 1)
"""The fields before the first batch."""


class Run(NamedTuple):
    """Batch ids of a source without a gap."""

    source: str
    first: int
    last: int
    checksum: int


class Connection(sqlite3.Connection):
    """A connection to a view's file."""

    sums: Sums
    """The checksums of the file; set when it is opened."""

    # The present

    def row_of(self, key: bytes) -> bytes | None:
        """Return the row of a key."""
        query = "SELECT row, checksum FROM rows WHERE key = ?"
        found = self.execute(query, (key,)).fetchone()
        if found is None:
            return None
        row: bytes
        row, stored = found
        self.sums.check_row(key, row, stored)
        return row

    def rows_of(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the rows of those keys that have one."""
        # Reading in key order, the file's, takes half as long as in any other.
        found = ((key, self.row_of(key)) for key in sorted(keys))
        return {key: row for key, row in found if row is not None}

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys and rows, in the order of the keys."""
        latest = self.latest_batch() or NO_BATCH
        check = self.sums.check_row
        count = total = 0
        for key, row, stored in self.execute("SELECT key, row, checksum FROM rows ORDER BY key"):
            check(key, row, stored)
            count += 1
            total += stored
            yield key, row
        _check_whole("rows", (count, total), (latest.size, latest.rows_sum))

    def latest_batch(self) -> Batch | None:
        """Return the last batch that was applied."""
        return next(self._batches("ORDER BY seq DESC LIMIT 1"), None)

    # The past

    def batches(self) -> Iterator[Batch]:
        """Return all batches of the history, the oldest first."""
        return self._batches("ORDER BY seq")

    def oldest_batch(self) -> Batch | None:
        """Return the oldest batch of the history."""
        return next(self._batches("ORDER BY seq LIMIT 1"), None)

    def batch_of(self, batch_id: int) -> Batch | None:
        """Return the last batch of that id, if the history has it."""
        of_id = "WHERE batch_id = ? ORDER BY seq DESC LIMIT 1"
        return next(self._batches(of_id, batch_id), None)

    def batch_numbered(self, seq: int) -> Batch | None:
        """Return the batch with that number, if the history has it."""
        return next(self._batches("WHERE seq = ?", seq), None)

    def _batches(self, which: str, *values: int) -> Iterator[Batch]:
        query = f"SELECT * FROM batches {which}"  # noqa: S608 - one of our constants
        for line in self.execute(query, values):
            self.sums.check_line("batches", *line)
            yield Batch(*line[:-1])

    def row_at(self, key: bytes, seq: int) -> bytes | None:
        """Return the row of a key after a batch of the history."""
        since = "SELECT * FROM changes WHERE key = ? AND seq > ? ORDER BY seq LIMIT 1"
        changed = self.execute(since, (key, seq)).fetchone()
        if changed is None:
            return self.row_of(key)
        self.sums.check_line("changes", *changed)
        before: bytes | None = changed[3]
        return before

    def rows_of_at(self, keys: Iterable[bytes], seq: int) -> dict[bytes, bytes]:
        """Return the rows, after a batch of the history, of those keys that had one."""
        found = ((key, self.row_at(key, seq)) for key in keys)
        return {key: row for key, row in found if row is not None}

    def rows_at(self, batch: Batch, key: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys and rows after a batch of the history, by key; or those of one key."""
        if key is not None:
            row = self.row_at(key, batch.seq)
            yield from [] if row is None else [(key, row)]
            return
        count = total = 0
        for one, row, *change, stored in self.execute(_ROWS_AT, {"seq": batch.seq}):
            if change == [None, None]:
                self.sums.check_row(one, row, stored)
                total += stored
            else:
                self.sums.check_line("changes", one, *change, row, stored)
                total += self.sums.of_row(one, row)
            count += 1
            yield one, row
        _check_whole("changes", (count, total), (batch.size, batch.rows_sum))

    def rows_at_seq(self, seq: int) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys and rows after a batch of the history, in the order of the keys."""
        batch = self.batch_numbered(seq)
        return iter(()) if batch is None else self.rows_at(batch)

    def replay(self, oldest: Batch, key: bytes | None = None) -> Iterator[tuple[RowChange, int]]:
        """Return every stored change and its time, in the order in which they were published.

        The rows after the oldest batch come first, as inserts.

        Args:
            oldest: The oldest batch of the history.
            key: The only key to return; None for all.
        """
        for one, row in self.rows_at(oldest, key):
            yield RowChange(one, None, row), oldest.applied_at
        for batch in self._batches("WHERE seq > ? ORDER BY seq", oldest.seq):
            count = 0
            for raw in self._changes_of(batch.seq, key):
                count += 1
                yield raw, batch.applied_at
            if key is None:
                _check_whole("changes", count, batch.changes)

    def _changes_of(self, seq: int, key: bytes | None) -> Iterator[RowChange]:
        chosen = "WHERE seq = ?" if key is None else "WHERE seq = ? AND key = ?"
        query = f"SELECT * FROM changes {chosen} ORDER BY position"  # noqa: S608 - our constants
        for line in self.execute(query, (seq,) if key is None else (seq, key)):
            self.sums.check_line("changes", *line)
            yield RowChange(line[0], line[3], self.row_at(line[0], seq))

    # Batches that were seen

    def is_seen(self, source: str, batch_id: int) -> bool:
        """Return whether a batch of that id was applied, however long ago."""
        before = "WHERE source = ? AND first <= ? ORDER BY first DESC LIMIT 1"
        run = next(self.runs(before, source, batch_id), None)
        return run is not None and batch_id <= run.last

    def runs(self, which: str = "", *values: Any) -> Iterator[Run]:
        """Return the runs of ids that were applied."""
        query = f"SELECT * FROM seen {which}"  # noqa: S608 - of our constants
        for line in self.execute(query, values):
            self.sums.check_line("seen", *line)
            yield Run(*line)


_ROWS_AT = """SELECT key, row, NULL, NULL, checksum FROM rows WHERE NOT EXISTS
        (SELECT 1 FROM changes AS c WHERE c.key = rows.key AND c.seq > :seq)
    UNION ALL
    SELECT key, before, seq, position, checksum FROM changes
    WHERE seq > :seq AND before IS NOT NULL AND seq =
        (SELECT min(seq) FROM changes AS c WHERE c.key = changes.key AND c.seq > :seq)
    ORDER BY key"""


def _check_whole(table: str, found: Any, told: Any) -> None:
    if found != told:
        msg = f"lines of {table!r} that are missing, or not of that batch"
        raise Damage(msg)
