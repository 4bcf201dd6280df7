# SPDX-License-Identifier: Apache-2.0
"""What is read from and written to the tables of a view, in a transaction of the caller's.

A batch has a number besides its id, `seq`, which counts what was applied: ids begin anew with
another stream, and may come in any order.  The line of a batch in `batches` is kept for as many
batches as the view's history is long.  Its changes go when the batch itself becomes the oldest
one: what was before it can no longer be asked for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = [
    "Batch",
    "Connection",
    "RowChange",
    "add_batch",
    "batch_numbered",
    "batch_of",
    "is_seen",
    "latest_batch",
    "oldest_batch",
    "replay",
    "row_at",
    "row_of",
    "rows",
    "rows_at",
    "write_rows",
]


class Batch(NamedTuple):
    """A batch that was applied.

    Args:
        seq: Its number among the applied ones, from 1.
        source: The stream it is from; "" where no stream was.
        batch_id: Its id there.
        applied_at: When, in ms since the epoch.
        watermark: How far event time had come, in ms; None if nothing told.
        size: How many rows the view had after it.
    """

    seq: int
    source: str
    batch_id: int
    applied_at: int
    watermark: int | None
    size: int


class RowChange(NamedTuple):
    """What a batch did to a key: bytes; a row of None is no row."""

    key: bytes
    before: bytes | None
    after: bytes | None


Connection = sqlite3.Connection
_BATCH = "SELECT seq, source, batch_id, applied_at, watermark, size FROM batches"

# The present


def row_of(connection: Connection, key: bytes) -> bytes | None:
    """The row of a key."""
    found = connection.execute("SELECT row FROM rows WHERE key = ?", (key,)).fetchone()
    return None if found is None else found[0]


def rows(connection: Connection) -> Iterator[tuple[bytes, bytes]]:
    """All keys and rows, in the order of the keys."""
    return connection.execute("SELECT key, row FROM rows ORDER BY key")


def latest_batch(connection: Connection) -> Batch | None:
    """The last batch that was applied."""
    return _batch(connection, f"{_BATCH} ORDER BY seq DESC LIMIT 1")


# The past


def oldest_batch(connection: Connection) -> Batch | None:
    """The oldest batch that can be asked for."""
    return _batch(connection, f"{_BATCH} ORDER BY seq LIMIT 1")


def batch_of(connection: Connection, batch_id: int) -> Batch | None:
    """The last batch of that id, if it is kept."""
    return _batch(connection, f"{_BATCH} WHERE batch_id = ? ORDER BY seq DESC LIMIT 1", batch_id)


def batch_numbered(connection: Connection, seq: int) -> Batch | None:
    """The batch with that number, if it is kept."""
    return _batch(connection, f"{_BATCH} WHERE seq = ?", seq)


def _batch(connection: Connection, query: str, *values: int) -> Batch | None:
    found = connection.execute(query, values).fetchone()
    return None if found is None else Batch(*found)


def row_at(connection: Connection, key: bytes, seq: int) -> bytes | None:
    """The row of a key after a kept batch."""
    since = "SELECT before FROM changes WHERE key = ? AND seq > ? ORDER BY seq LIMIT 1"
    changed = connection.execute(since, (key, seq)).fetchone()
    before: bytes | None
    if changed is None:
        return row_of(connection, key)
    (before,) = changed
    return before


def rows_at(
    connection: Connection, seq: int, key: bytes | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """All keys and rows after a kept batch, in the order of the keys; or those of one key."""
    if key is not None:
        row = row_at(connection, key, seq)
        return iter([] if row is None else [(key, row)])
    return connection.execute(
        """SELECT key, row FROM rows WHERE NOT EXISTS
            (SELECT 1 FROM changes AS c WHERE c.key = rows.key AND c.seq > ?1)
        UNION ALL
        SELECT key, before FROM changes WHERE seq > ?1 AND before IS NOT NULL AND seq =
            (SELECT min(seq) FROM changes AS c WHERE c.key = changes.key AND c.seq > ?1)
        ORDER BY key""",
        (seq,),
    )


def replay(
    connection: Connection, oldest: Batch, key: bytes | None = None
) -> Iterator[tuple[RowChange, int]]:
    """Every kept change and when it was made, in the order they were published.

    What the oldest batch left behind comes first, as changes that it made out of nothing.

    Args:
        connection: In a transaction, which must last as long as this is read.
        oldest: The oldest batch that is kept.
        key: Of one key only.
    """
    for one, row in rows_at(connection, oldest.seq, key):
        yield RowChange(one, None, row), oldest.applied_at
    chosen = "" if key is None else "WHERE c.key = ?"
    since = connection.execute(
        f"""SELECT c.key, c.before, n.seq, n.before, (SELECT row FROM rows WHERE key = c.key),
            b.applied_at
        FROM changes AS c JOIN batches AS b ON b.seq = c.seq
        LEFT JOIN changes AS n ON n.key = c.key AND n.seq =
            (SELECT min(seq) FROM changes AS m WHERE m.key = c.key AND m.seq > c.seq)
        {chosen} ORDER BY c.seq, c.position""",  # noqa: S608 - one of two constants
        () if key is None else (key,),
    )
    for one, before, next_seq, next_before, now, applied_at in since:
        yield RowChange(one, before, now if next_seq is None else next_before), applied_at


# Applying a batch


def is_seen(connection: Connection, source: str, batch_id: int) -> bool:
    """Whether a batch of that id was applied, however long ago."""
    run = connection.execute(
        "SELECT last FROM seen WHERE source = ? AND first <= ? ORDER BY first DESC LIMIT 1",
        (source, batch_id),
    ).fetchone()
    return run is not None and batch_id <= run[0]


def add_batch(connection: Connection, batch: Batch, history: int) -> None:
    """Note that a batch was applied, and forget those that the history is too short for."""
    connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)", batch)
    _see(connection, batch.source, batch.batch_id)
    oldest = batch.seq - history + 1
    connection.execute("DELETE FROM batches WHERE seq < ?", (oldest,))
    connection.execute("DELETE FROM changes WHERE seq <= ?", (oldest,))


def _see(connection: Connection, source: str, batch_id: int) -> None:
    """Add an id to the runs of ids, joining those that now touch."""
    first, last = batch_id, batch_id
    touching = connection.execute(
        "SELECT first, last FROM seen WHERE source = ? AND (last = ? OR first = ?)",
        (source, batch_id - 1, batch_id + 1),
    ).fetchall()
    for run in touching:
        first, last = min(first, run[0]), max(last, run[1])
        connection.execute("DELETE FROM seen WHERE source = ? AND first = ?", (source, run[0]))
    connection.execute("INSERT INTO seen VALUES (?, ?, ?)", (source, first, last))


def write_rows(
    connection: Connection, seq: int, changes: Iterable[RowChange], *, log: bool
) -> None:
    """Make the changes of a batch.

    Args:
        connection: In a transaction.
        seq: Of the batch.
        changes: At most one for a key, in the order to publish them.
        log: Whether the rows before are to be kept.
    """
    # B-trees like to be written to in the order of their keys.
    placed = sorted(enumerate(changes), key=lambda each: each[1].key)
    connection.executemany(
        "INSERT INTO rows VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET row = excluded.row",
        [(change.key, change.after) for _, change in placed if change.after is not None],
    )
    connection.executemany(
        "DELETE FROM rows WHERE key = ?",
        [(change.key,) for _, change in placed if change.after is None],
    )
    if log:
        connection.executemany(
            "INSERT INTO changes VALUES (?, ?, ?, ?)",
            [(change.key, seq, position, change.before) for position, change in placed],
        )
