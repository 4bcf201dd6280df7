# SPDX-License-Identifier: Apache-2.0
"""The format of a view's file: its tables, and a check that a file has these and no others.

| table     | a line is                                                                      |
|-----------|--------------------------------------------------------------------------------|
| `about`   | the view: its name and key columns, and the identity of the file               |
| `rows`    | a row as it is now                                                             |
| `batches` | a batch that can be asked for; `seq` counts applied batches                    |
| `changes` | a key that such a batch changed, and its row before; the oldest batch has none |
| `seen`    | a run of batch ids that were applied, of one source                            |

A row as of a batch is the row before its first later change or, if there is none, the row as
it is now.  So the history costs one old row for each change.

Each line ends with its checksum.  A batch also stores the contents of the tables after it, as
numbers of lines and sums of their checksums.
"""

from __future__ import annotations

import json
import secrets
import sqlite3

from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.views.file.checksums import Damage, Sums

__all__ = ["check_schema", "create", "identify", "is_empty"]

_APPLICATION_ID = 0x7066_6C76  # "pflv", so that no other program's file is taken for a view
_FORMAT = 2
_SCHEMA = [
    """CREATE TABLE about (name TEXT NOT NULL, key_columns TEXT NOT NULL,
        identity INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """CREATE TABLE rows (key BLOB PRIMARY KEY, row BLOB NOT NULL,
        checksum INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE batches (seq INTEGER PRIMARY KEY, source TEXT NOT NULL,
        batch_id INTEGER NOT NULL, applied_at INTEGER NOT NULL, watermark INTEGER,
        size INTEGER NOT NULL, rows_sum INTEGER NOT NULL, changes INTEGER NOT NULL,
        changes_sum INTEGER NOT NULL, runs INTEGER NOT NULL, runs_sum INTEGER NOT NULL,
        oldest INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID""",
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
    others = sorted(str(each[1]) for each in objects ^ _expected())
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


def _expected() -> set[tuple[str, str, str, str]]:
    """Return the lines of SQLite's schema table, as this version of SQLite writes them."""
    connection = sqlite3.connect(":memory:")
    try:
        for statement in _SCHEMA:
            connection.execute(statement)
        return set(connection.execute(_OBJECTS))
    finally:
        connection.close()
