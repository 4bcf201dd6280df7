# SPDX-License-Identifier: Apache-2.0
"""The SQLite file of a view: its tables, its one writer and its many readers.

SQLite in WAL mode is what gives a view its guarantees.  A transaction is a whole batch:
readers go on with what was committed when they began, and are never in each other's or
the writer's way.  A connection is used by one thread at a time.  Readers' connections are
kept in a pool, which threads that come and go do not outgrow.

The writer commits with `synchronous=FULL`: the log is on the disk when `apply` returns.
That a process is killed takes nothing from a log that the operating system has, so NORMAL
would do for that; but a stream that was told its batch is in never sends it again, and must
not lose it to a loss of power either.

| table     | a line is                                                                      |
|-----------|--------------------------------------------------------------------------------|
| `about`   | the view: its name and key columns                                             |
| `rows`    | a row as it is now                                                             |
| `batches` | a batch that can be asked for; `seq` counts applied batches                    |
| `changes` | a key that such a batch changed, and its row before; the oldest batch has none |
| `seen`    | a run of batch ids that were applied, of one source                            |

What a row was after a batch is what it was before the first change since, and where there
is none, what it is now.  So the past costs one image for each change, and none for each row.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyflinklike.errors import (
    CorruptStateError,
    IncompatibleStateError,
    StateStoreError,
    StoreClosedError,
)

__all__ = ["Database"]

_APPLICATION_ID = 0x7066_6C76  # "pflv", so that no other program's file is taken for a view
_FORMAT = 1
_PATIENCE_SECONDS = 60  # for another process that writes to the same view
_SCHEMA = [
    "CREATE TABLE about (name TEXT NOT NULL, key_columns TEXT NOT NULL)",
    "CREATE TABLE rows (key BLOB PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE batches (seq INTEGER PRIMARY KEY, source TEXT NOT NULL,
        batch_id INTEGER NOT NULL, applied_at INTEGER NOT NULL, watermark INTEGER,
        size INTEGER NOT NULL)""",
    "CREATE INDEX batches_by_id ON batches (batch_id)",
    """CREATE TABLE changes (key BLOB NOT NULL, seq INTEGER NOT NULL,
        position INTEGER NOT NULL, before BLOB, PRIMARY KEY (key, seq)) WITHOUT ROWID""",
    "CREATE INDEX changes_by_seq ON changes (seq, position)",
    """CREATE TABLE seen (source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY (source, first)) WITHOUT ROWID""",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT}",
]


class Database:
    """An open view file.

    Args:
        file: Made where it is not there.
        name: Of the view.
        key_columns: Of the view.

    Raises:
        CorruptStateError: The file is damaged, or of an unknown format.
        IncompatibleStateError: It holds another view, or this one by another key.
        StateStoreError: It cannot be opened.
    """

    def __init__(self, file: Path, name: str, key_columns: tuple[str, ...]) -> None:
        self.file = file
        self._name = name
        self._idle: list[sqlite3.Connection] = []
        self._in_use = 0
        self._closed = False
        self._readers = threading.Condition()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._connect()
        except (OSError, sqlite3.OperationalError) as error:
            msg = f"view {name!r}: the file {str(file)!r} must be one to write to, got: {error}"
            raise StateStoreError(f"{msg}; choose another path") from error
        try:
            self._prepare(key_columns)
        except BaseException:
            self._writer.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.file, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
        )

    def _prepare(self, key_columns: tuple[str, ...]) -> None:
        try:
            if not self._is_empty():
                self._check_format()  # before anything in the file is touched
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = FULL")
            with self.writing() as connection:
                if self._is_empty():
                    for statement in _SCHEMA:
                        connection.execute(statement)
                    about = (self._name, json.dumps(key_columns))
                    connection.execute("INSERT INTO about VALUES (?, ?)", about)
                self._check_identity(key_columns)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _is_empty(self) -> bool:
        (tables,) = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return not tables

    def _check_format(self) -> None:
        (application,) = self._writer.execute("PRAGMA application_id").fetchone()
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION_ID:
            msg = f"view {self._name!r}: {str(self.file)!r} is the database of another program"
            raise IncompatibleStateError(f"{msg}; choose another path")
        if version != _FORMAT:
            msg = f"view {self._name!r}: the format must be {_FORMAT}, got {version} in {str(self.file)!r}"
            raise CorruptStateError(f"{msg}; use the pyflinklike that wrote it")

    def _check_identity(self, key_columns: tuple[str, ...]) -> None:
        about = self._writer.execute("SELECT name, key_columns FROM about")
        name, stored = about.fetchone()
        if name != self._name or tuple(json.loads(stored)) != key_columns:
            msg = (
                f"a view keeps its name and key, got {self._name!r} by {list(key_columns)} for "
                f"{str(self.file)!r}, which is {name!r} by {json.loads(stored)}; choose another path"
            )
            raise IncompatibleStateError(msg)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The writer's connection in a transaction, committed at the end and rolled back on error.

        The caller sees to it that one thread at a time is in here.

        Raises:
            StateStoreError: SQLite cannot write; a full disk, for one.  Nothing was written.
            CorruptStateError: The file is damaged.
        """
        if self._closed:
            raise self._closed_error()
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            yield self._writer
            self._writer.execute("COMMIT")
        except BaseException as error:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise self._failed(error) from error
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A reader's connection in a transaction: all it reads is of one moment.

        Raises:
            StateStoreError: SQLite cannot read.
            CorruptStateError: The file is damaged.
        """
        connection = self._take()
        try:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._failed(error) from error
        finally:
            self._give_back(connection)

    def detached_reader(self) -> sqlite3.Connection:
        """A reader's connection in a transaction that begins now; its caller closes it."""
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM about").fetchone()  # SQLite begins when it reads
        return connection

    def close(self) -> None:
        """Wait for who is reading, and close all connections but detached ones."""
        with self._readers:
            self._closed = True
            self._readers.wait_for(lambda: self._in_use == 0)
            for connection in self._idle:
                connection.close()
            self._idle.clear()
        self._writer.close()

    def _take(self) -> sqlite3.Connection:
        with self._readers:
            if self._closed:
                raise self._closed_error()
            self._in_use += 1
            if self._idle:
                return self._idle.pop()
        try:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            self._leave()
            raise
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._readers:
            self._idle.append(connection)
        self._leave()

    def _leave(self) -> None:
        with self._readers:
            self._in_use -= 1
            self._readers.notify_all()

    def _failed(self, error: sqlite3.Error) -> StateStoreError | CorruptStateError:
        what = f"view {self._name!r}: {str(self.file)!r}"
        if isinstance(error, sqlite3.OperationalError):
            return StateStoreError(f"{what} must be read and written, got: {error}; free the disk")
        return CorruptStateError(f"{what} must be the file of a view, got: {error}; restore it")

    def _closed_error(self) -> StoreClosedError:
        return StoreClosedError(
            f"a view must be open to be used, got {self._name!r}; open it again"
        )
