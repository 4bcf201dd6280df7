# SPDX-License-Identifier: Apache-2.0
"""Writes a batch to the tables of a view, in the writer's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from pyflinklike.views.core.storage import RowChange
from pyflinklike.views.file.checksums import Damage
from pyflinklike.views.file.tables import NO_BATCH, Batch, Connection

__all__ = ["write_batch"]


def write_batch(
    connection: Connection,
    batch: Batch,
    latest: Batch | None,
    changes: Sequence[RowChange],
    history: int,
) -> None:
    """Apply a batch, and delete history that is too old.

    Args:
        connection: A connection in a transaction.
        batch: The batch, with its fields up to `watermark`; this function fills in the others.
        latest: The batch before; None for the first.
        changes: At most one change for each key, in the order in which they are published.
        history: The length of the history in batches.
    """
    before = latest or NO_BATCH
    # B-trees are faster to write to in key order.
    placed = sorted(enumerate(changes), key=lambda each: each[1].key)
    size, rows_sum = _write_rows(connection, [change for _, change in placed])
    # Keep the rows before only if an older batch can be queried.
    is_logged = batch.seq > 1 and history > 1
    count, changes_sum = _log(connection, batch.seq, placed) if is_logged else (0, 0)
    grown, grown_sum = _see(connection, batch.source, batch.batch_id)
    oldest = max(before.oldest, batch.seq - history + 1)
    batch = batch._replace(
        size=before.size + size,
        rows_sum=before.rows_sum + rows_sum,
        changes=count,
        changes_sum=changes_sum,
        runs=before.runs + grown,
        runs_sum=before.runs_sum + grown_sum,
        oldest=oldest,
    )
    line = (*batch, connection.sums.of_line("batches", *batch))
    connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", line)
    connection.execute("DELETE FROM batches WHERE seq < ?", (oldest,))
    # The rows before the oldest batch lead to a state that nobody can ask for.
    connection.execute("DELETE FROM changes WHERE seq <= ?", (oldest,))


def _write_rows(connection: Connection, changes: Sequence[RowChange]) -> tuple[int, int]:
    """Write rows, and return by how much their number and the sum of their checksums grew."""
    of_row = connection.sums.of_row
    kept = [
        (each.key, each.after, of_row(each.key, each.after))
        for each in changes
        if each.after is not None
    ]
    gone = [(each.key,) for each in changes if each.after is None]
    replaced = [of_row(each.key, each.before) for each in changes if each.before is not None]
    connection.executemany(
        """INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT (key)
        DO UPDATE SET row = excluded.row, checksum = excluded.checksum""",
        kept,
    )
    deleted = connection.executemany("DELETE FROM rows WHERE key = ?", gone).rowcount
    if gone and deleted != len(gone):
        msg = "rows that were read and cannot be deleted"
        raise Damage(msg)
    return len(kept) - len(replaced), sum(each[2] for each in kept) - sum(replaced)


def _log(
    connection: Connection, seq: int, placed: Sequence[tuple[int, RowChange]]
) -> tuple[int, int]:
    """Store the rows before, and return their number and the sum of their checksums."""
    of_line = connection.sums.of_line
    lines = []
    for position, change in placed:
        line = (change.key, seq, position, change.before)
        lines.append((*line, of_line("changes", *line)))
    connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", lines)
    return len(lines), sum(line[-1] for line in lines)


def _see(connection: Connection, source: str, batch_id: int) -> tuple[int, int]:
    """Add an id to the runs of ids, and join runs that are now adjacent.

    Returns:
        How much the number of runs and the sum of their checksums grew.
    """
    first = last = batch_id
    # The neighbours are compared here, as the next id need not be one of 64 bits.
    below = "WHERE source = ? AND first < ? ORDER BY first DESC LIMIT 1"
    above = "WHERE source = ? AND first > ? ORDER BY first LIMIT 1"
    gone = [run for run in connection.runs(below, source, batch_id) if run.last == batch_id - 1]
    gone += [run for run in connection.runs(above, source, batch_id) if run.first == batch_id + 1]
    for run in gone:
        first, last = min(first, run.first), max(last, run.last)
        connection.execute("DELETE FROM seen WHERE source = ? AND first = ?", (source, run.first))
    checksum = connection.sums.of_line("seen", source, first, last)
    connection.execute("INSERT INTO seen VALUES (?, ?, ?, ?)", (source, first, last, checksum))
    return 1 - len(gone), checksum - sum(run.checksum for run in gone)
