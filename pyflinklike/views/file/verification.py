# SPDX-License-Identifier: Apache-2.0
"""The check of a whole view file.

The checksums of lines do not show that lines are missing or outdated: a damaged page of SQLite's
may lead past them.  So every line is read once, in key order, and the result is compared with what
the last batch stores.  In tables without row ids this checks the whole tree: a search finds what a
walk through it finds.  SQLite itself checks the indexes and the free pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from pyflinklike.views.file import tables
from pyflinklike.views.file.checksums import Damage
from pyflinklike.views.file.tables import Batch, Connection

__all__ = ["verify"]


def verify(connection: Connection) -> None:
    """Read and check the whole file, in a transaction of the caller's.

    Args:
        connection: A connection to the view's file.

    Raises:
        Damage: Something differs from what was written.
        sqlite3.Error: SQLite found damage.
    """
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise Damage(found)
    batches = list(connection.batches())
    latest = batches[-1] if batches else tables.NO_BATCH
    _expect("batches", [*range(latest.oldest, latest.seq + 1)], [each.seq for each in batches])
    _expect("rows", (latest.size, latest.rows_sum), _rows(connection))
    _expect("changes", _changes_of(batches), _changes(connection))
    runs = list(connection.runs())
    _expect("seen", (latest.runs, latest.runs_sum), (len(runs), sum(run.checksum for run in runs)))


def _rows(connection: Connection) -> tuple[int, int]:
    """Return how many rows there are, and the sum of their checksums."""
    last = b""

    def checked(key: bytes, row: bytes, stored: int) -> int:
        nonlocal last
        connection.sums.check_row(key, row, stored)
        if key <= last:
            msg = "keys out of order in 'rows'"
            raise Damage(msg)
        last = key
        return stored

    return _folded(connection, checked, "rows", "key, row, checksum")


def _changes(connection: Connection) -> dict[int, tuple[int, int]]:
    """Return the same of the changes, for each batch that has some."""
    counts: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    last = (b"", 0)

    def checked(key: bytes, seq: int, position: int, before: bytes | None, stored: int) -> int:
        nonlocal last
        connection.sums.check_line("changes", key, seq, position, before, stored)
        if (key, seq) <= last:
            msg = "keys out of order in 'changes'"
            raise Damage(msg)
        last = (key, seq)
        counts[seq] += 1
        totals[seq] += stored
        return 0

    _folded(connection, checked, "changes", "key, seq, position, before, checksum")
    return {seq: (count, totals[seq]) for seq, count in counts.items()}


def _changes_of(batches: list[Batch]) -> dict[int, tuple[int, int]]:
    """Return what the batches store of their changes; the oldest batch's are deleted."""
    return {each.seq: (each.changes, each.changes_sum) for each in batches[1:] if each.changes}


def _folded(
    connection: Connection, checked: Callable[..., int], table: str, columns: str
) -> tuple[int, int]:
    """Have SQLite call a function for each line of a table; half the cost of a Python loop.

    Raises:
        Damage: The function raised it.
    """
    damage: list[Exception] = []

    def guarded(*line: Any) -> int:
        try:
            return checked(*line)
        except (Damage, TypeError) as error:  # SQLite would replace it with its own
            damage.append(error)
            raise

    count = len(columns.split(", "))
    connection.create_function("pyflinklike_checked", count, guarded)
    # Not through an index: it could lead past lines of the table that are damaged.
    query = f"SELECT count(*), sum(pyflinklike_checked({columns})) FROM {table} NOT INDEXED"  # noqa: S608
    try:
        lines, total = connection.execute(query).fetchone()
    except Exception:
        if damage:
            raise Damage(str(damage[0])) from damage[0]
        raise
    finally:
        connection.create_function("pyflinklike_checked", count, None)
    return lines, total or 0


def _expect(table: str, expected: Any, found: Any) -> None:
    if expected != found:
        msg = f"lines of {table!r} that are missing, or older than the last batch"
        raise Damage(msg)
