# SPDX-License-Identifier: Apache-2.0
"""The tables of a view's file: their format, the transactions that read them, and their checks.

| table     | a line is                                                                      |
|-----------|--------------------------------------------------------------------------------|
| `about`   | the view: its name and key columns, and the identity of the file               |
| `rows`    | a row as it is now                                                             |
| `batches` | a batch of the history; `seq` counts applied batches                           |
| `changes` | a key that such a batch changed, and its row before; not for the oldest batch  |
| `seen`    | a run of batch ids that were applied, of one source                            |

A batch has a number besides its id, since ids start again with another stream, and may come in any order.
`batches` holds as many batches as the view's history is long.  A row as of a batch is the row
before its first later change or, if there is none, the row as it is now.  So the history costs one
old row for each change.  The changes of a batch are deleted when it becomes the oldest one, since they
lead back to the batch before it, which the history no longer has.

Each line ends with its checksum.  That cannot show that a whole line is missing.  So each batch also stores, for
the tables as they are after it, the numbers of lines and the sums of their checksums.  Every read of a line
compares its checksum, and every read of a whole table compares the number and the sum.  A difference is a
`Damage`.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from pyflinklike._messages import short_repr
from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.views.view_storage import NO_BATCH, AppliedBatch, RowChange, Snapshot


class Run(NamedTuple):
    """Batch ids of a source without a gap."""

    source: str
    first: int
    last: int
    checksum: int


class Connection(sqlite3.Connection, Snapshot):
    """A connection to a view's file."""

    sums: Sums
    """The checksums of the file; set when it is opened."""

    def rows_of(self, keys: Iterable[bytes], seq: int | None = None) -> dict[bytes, bytes]:
        """Return the rows of those keys that have one, now or after a batch of the history."""
        # Reading in key order, the file's, takes half as long as in any other.
        found = ((key, self._row_of(key, seq)) for key in sorted(keys))
        return {key: row for key, row in found if row is not None}

    def _row_of(self, key: bytes, seq: int | None) -> bytes | None:
        if seq is not None:
            since = "SELECT * FROM changes WHERE key = ? AND seq > ? ORDER BY seq LIMIT 1"
            changed = self.execute(since, (key, seq)).fetchone()
            if changed is not None:
                self.sums.check_line("changes", *changed)
                before: bytes | None = changed[3]
                return before
        query = "SELECT row, checksum FROM rows WHERE key = ?"
        found = self.execute(query, (key,)).fetchone()
        if found is None:
            return None
        row: bytes
        row, stored = found
        self.sums.check_row(key, row, stored)
        return row

    def _lines(self, seq: int | None) -> Iterator[tuple[bytes, bytes, int]]:
        check = self.sums.check_row
        if seq is None:
            for line in self.execute("SELECT key, row, checksum FROM rows ORDER BY key"):
                check(*line)
                yield line
            return
        for key, row, *change, stored in self.execute(_ROWS_AT, {"seq": seq}):
            if change == [None, None]:
                check(key, row, stored)
                yield key, row, stored
            else:
                self.sums.check_line("changes", key, *change, row, stored)
                yield key, row, self.sums.of_row(key, row)

    def _make_damage(self, got: str) -> Damage:
        return Damage(got)

    # The past

    def batches(self, which: str = "ORDER BY seq", *values: int) -> Iterator[AppliedBatch]:
        """Return batches of the history."""
        query = f"SELECT * FROM batches {which}"  # noqa: S608 - one of our constants
        for line in self.execute(query, values):
            self.sums.check_line("batches", *line)
            yield AppliedBatch(*line[:-1])

    def replay(
        self, oldest: AppliedBatch, key: bytes | None = None
    ) -> Iterator[tuple[RowChange, int]]:
        """Return every stored change and its time, in the order in which they were published.

        The rows after the oldest batch come first, as inserts.

        Args:
            oldest: The oldest batch of the history.
            key: The only key to return; None for all.
        """
        past = self.rows(oldest.seq) if key is None else self.rows_of([key], oldest.seq).items()
        for one, row in past:
            yield RowChange(one, None, row), oldest.applied_at
        for batch in self.batches("WHERE seq > ? ORDER BY seq", oldest.seq):
            count = 0
            for raw in self._changes_of(batch.seq, key):
                count += 1
                yield raw, batch.applied_at
            if key is None and count != batch.changes:
                msg = "changes that are missing, or not of that batch"
                raise Damage(msg)

    def _changes_of(self, seq: int, key: bytes | None) -> Iterator[RowChange]:
        chosen = "WHERE seq = ?" if key is None else "WHERE seq = ? AND key = ?"
        query = f"SELECT * FROM changes {chosen} ORDER BY position"  # noqa: S608 - our constants
        for line in self.execute(query, (seq,) if key is None else (seq, key)):
            self.sums.check_line("changes", *line)
            yield RowChange(line[0], line[3], self._row_of(line[0], seq))

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


# Checksums
#
# SQLite notices some damage to its pages, but no damage to their content: with a bit flipped, a row is
# just another row.  So each line of each table has a checksum of its columns, its table and the
# identity of the file; a line of another table or file does not pass for it.


_pack = msgspec.msgpack.Encoder().encode


class Damage(sqlite3.DatabaseError):
    """The file is damaged in a way that SQLite itself does not notice."""


class Sums:
    """Makes and compares the checksums of one file.

    Args:
        identity: The identity of the file, an int of 64 bits.
    """

    __slots__ = ("_begin", "_rows")

    def __init__(self, identity: int) -> None:
        self._begin = crc32(b"%d" % identity)
        self._rows = self._of_table("rows")

    def _of_table(self, table: str) -> int:
        return crc32(table.encode(), self._begin)

    def of_row(self, key: bytes, row: bytes) -> int:
        """Return the checksum of a line of `rows`, made without copying: there are many."""
        return crc32(row, crc32(key, self._rows + len(key)))

    def of_line(self, table: str, *columns: Any) -> int:
        """Return the checksum of a line of another table."""
        return crc32(_pack(columns), self._of_table(table))

    def check_row(self, key: bytes, row: bytes, stored: int) -> None:
        """Compare the checksum of a line of `rows`.

        Raises:
            Damage: The checksum does not match.
        """
        try:
            if self.of_row(key, row) == stored:
                return
        except TypeError:
            pass  # a column of another type
        raise _damage("rows", key)

    def check_line(self, table: str, *line: Any) -> None:
        """Compare the checksum of a line of another table, which is its last column.

        Raises:
            Damage: The checksum does not match.
        """
        *columns, stored = line
        try:
            if self.of_line(table, *columns) == stored:
                return
        except (TypeError, UnicodeEncodeError):
            pass
        raise _damage(table, columns[0])


def _damage(table: str, first: Any) -> Damage:
    return Damage(
        f"a line of {table!r} with another checksum than its columns, at {short_repr(first)}"
    )


# The format: a view's file has exactly these tables


_APPLICATION_ID = 0x7066_6C76  # "pflv", so that no other program's file is taken for a view
_FORMAT = 1
_SCHEMA = [
    """CREATE TABLE about (name TEXT NOT NULL, key_columns TEXT NOT NULL,
        identity INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """CREATE TABLE rows (key BLOB PRIMARY KEY, row BLOB NOT NULL,
        checksum INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE batches (seq INTEGER PRIMARY KEY, source TEXT NOT NULL,
        batch_id INTEGER NOT NULL, applied_at INTEGER NOT NULL, watermark INTEGER,
        size INTEGER NOT NULL, rows_sum INTEGER NOT NULL, changes INTEGER NOT NULL,
        oldest INTEGER NOT NULL, changes_sum INTEGER NOT NULL, runs INTEGER NOT NULL,
        runs_sum INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX batches_by_id ON batches (batch_id)",
    """CREATE TABLE changes (key BLOB NOT NULL, seq INTEGER NOT NULL, position INTEGER NOT NULL,
        before BLOB, checksum INTEGER NOT NULL, PRIMARY KEY (key, seq)) WITHOUT ROWID""",
    "CREATE INDEX changes_by_seq ON changes (seq, position)",
    """CREATE TABLE seen (source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        checksum INTEGER NOT NULL, PRIMARY KEY (source, first)) WITHOUT ROWID""",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT}",
]
_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"


def is_empty(connection: sqlite3.Connection) -> bool:
    """Return whether a file never held anything; one whose tables were dropped is not empty."""
    marks = [_number(connection, name) for name in ("application_id", "user_version")]
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    # An empty database in WAL mode has one page.
    return not objects and not any(marks) and _number(connection, "page_count") <= 1


def create(connection: sqlite3.Connection, name: str, key_columns: tuple[str, ...]) -> None:
    """Create the tables of a view in an empty file."""
    for statement in _SCHEMA:
        connection.execute(statement)
    identity = secrets.randbits(63)
    line = (name, json.dumps(key_columns), identity)
    checksum = Sums(identity).of_line("about", *line)
    connection.execute("INSERT INTO about VALUES (?, ?, ?, ?)", (*line, checksum))


def check_schema(connection: sqlite3.Connection, what: str) -> None:
    """Check that a file is a view's, of this format, with its tables and nothing else.

    A trigger, for example, would run with every batch.

    Args:
        connection: A connection to the file.
        what: The view and its file, for messages.

    Raises:
        IncompatibleStateError: The file belongs to another program.
        CorruptStateError: The file has another format, or other tables.
    """
    application, version = (_number(connection, n) for n in ("application_id", "user_version"))
    if application != _APPLICATION_ID:
        msg = f"{what} must be the file of a view, got the database of another program"
        raise IncompatibleStateError(f"{msg}; choose another path")
    if version != _FORMAT:
        msg = f"{what} must be of the format {_FORMAT}, got {version}"
        raise CorruptStateError(f"{msg}; use the pyflinklike that wrote it")
    objects = set(connection.execute(_OBJECTS))
    others = sorted(str(each[1]) for each in objects ^ _expect_lines())
    if others:
        msg = f"{what} must have the tables of a view and nothing else, got others in {others}"
        raise CorruptStateError(f"{msg}; drop what was added, or restore the file from a copy")


def identify(
    connection: sqlite3.Connection, what: str, name: str, key_columns: tuple[str, ...]
) -> int:
    """Return the identity of a file, if it holds this view.

    Args:
        connection: A connection to the file.
        what: The view and its file, for messages.
        name: The name of the view.
        key_columns: The key columns of the view.

    Raises:
        IncompatibleStateError: The file holds another view, or this one by another key.
        Damage: The file does not have exactly one line that names its view.
    """
    lines = connection.execute("SELECT * FROM about").fetchall()
    if len(lines) != 1 or not isinstance(lines[0][2], int):
        msg = f"{len(lines)} lines in 'about'"
        raise Damage(msg)
    stored, columns, identity, _ = lines[0]
    Sums(identity).check_line("about", *lines[0])
    if (stored, columns) != (name, json.dumps(key_columns)):
        msg = f"{what} must be that view by {list(key_columns)}, got {stored!r} by {columns}"
        raise IncompatibleStateError(f"{msg}: a view keeps its name and key; choose another path")
    return int(identity)


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    (number,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(number)


def _expect_lines() -> set[tuple[str, str, str, str]]:
    """Return the lines of SQLite's schema table, as this version of SQLite writes them."""
    connection = sqlite3.connect(":memory:")
    try:
        for statement in _SCHEMA:
            connection.execute(statement)
        return set(connection.execute(_OBJECTS))
    finally:
        connection.close()


# The check of a whole file
#
# A damaged page may make SQLite skip lines.  So every line is read once, in key order, and the
# result is compared with what the last batch stores.  In tables without row ids this checks the whole
# tree: a search finds what a walk through it finds.  SQLite itself checks the indexes and the free
# pages.


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
    latest = batches[-1] if batches else NO_BATCH
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

    return _fold_lines(connection, checked, "rows", "key, row, checksum")


def _changes(connection: Connection) -> dict[int, tuple[int, int]]:
    """Return for each batch how many changes it has, and the sum of their checksums."""
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

    _fold_lines(connection, checked, "changes", "key, seq, position, before, checksum")
    return {seq: (count, totals[seq]) for seq, count in counts.items()}


def _changes_of(batches: list[AppliedBatch]) -> dict[int, tuple[int, int]]:
    """Return the numbers and sums that the batches store for their changes; the oldest has no changes."""
    return {each.seq: (each.changes, each.changes_sum) for each in batches[1:] if each.changes}


def _fold_lines(
    connection: Connection, checked: Callable[..., int], table: str, columns: str
) -> tuple[int, int]:
    """Let SQLite call a function for each line of a table, at half the cost of a Python loop.

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
    # Not through an index, which could skip damaged lines of the table.
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
