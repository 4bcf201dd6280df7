# SPDX-License-Identifier: Apache-2.0
"""The SQLite file of a view: its one writer and its many readers.

SQLite in WAL mode gives a view its guarantees.  A transaction is a whole batch.  Readers see the
state that was committed when they began, and readers and the writer never wait for each other:
https://www.sqlite.org/wal.html.  Only one thread at a time uses a connection.

The writer commits with `synchronous=FULL`: the log is on the disk when `apply` returns.  NORMAL
would survive a killed process, but not a loss of power; and a stream never sends a batch again once
`apply` has returned.

An existing file is checked before any connection opens it for writing.  Otherwise, if its log is damaged,
SQLite would take the damage for the end of the log, and drop the rest.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from pyflinklike.errors import (
    CorruptStateError,
    PyflinklikeError,
    StateStoreError,
    StateValueError,
)
from pyflinklike.views.file_tables import (
    Connection,
    Damage,
    Sums,
    check_schema,
    create,
    identify,
    is_empty,
    verify,
)
from pyflinklike.views.view_storage import NO_BATCH, ReaderPool

_PATIENCE_SECONDS = 60  # for another process that writes to the same view
_MAKING = threading.Lock()  # closing a file drops the locks that SQLite holds on it


class FileDatabase:
    """An open view file.

    Args:
        file: The file; created if it does not exist.
        name: The name of the view.
        key_columns: The key columns of the view.
        verified: True checks the whole of an existing file first.

    Raises:
        CorruptStateError: The file is damaged, or of an unknown format.
        IncompatibleStateError: The file holds another view, or this one by another key.
        StateStoreError: The file cannot be opened.
    """

    def __init__(
        self, file: Path, name: str, key_columns: tuple[str, ...], *, verified: bool
    ) -> None:
        self.file = file
        self.fault: type[Exception] = sqlite3.Error
        self._name = name
        self._key_columns = key_columns
        self._what = f"view {name!r}: {str(file)!r}"
        self._readers = ReaderPool(self._connect_reader, name)
        self._mark = CommitMark(file, self._what)
        self._identity: int | None = None
        with self._translate_errors():
            _make(file)
            self._look_through(verified=verified)
            self._writer = self._connect(read_only=False)
        try:
            self._prepare()
        except BaseException:
            self._writer.close()
            raise

    # Opening

    def _connect(self, mode: str = "rw", *, read_only: bool = True) -> Connection:
        connection = sqlite3.connect(
            f"{self.file.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_PATIENCE_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        try:
            # A view's file is untrusted, and may be damaged, so SQLite must not rely on it.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            if read_only:
                connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        if self._identity is not None:
            connection.sums = Sums(self._identity)
        return connection

    def _connect_reader(self) -> Connection:
        with self._translate_errors():
            return self._connect()

    def _look_through(self, *, verified: bool) -> None:
        """Check a file that is not empty, through a connection that changes nothing."""
        # A process that is killed while it creates a view leaves a journal to be rolled back.
        is_half_made = self.file.with_name(f"{self.file.name}-journal").exists()
        with closing(self._connect("rw" if is_half_made else "ro")) as connection:
            # Read before the transaction: another process may apply batches meanwhile, and a snapshot has all
            # batches that were acknowledged before it began.
            mark = self._mark.read()
            try:
                connection.execute("BEGIN")
                is_new = is_empty(connection)
                if not is_new:
                    self._check(connection, mark, verified=verified)
            except UnicodeDecodeError as error:  # in the text of an error of SQLite's
                raise Damage(str(error)) from error
            if is_new and mark.seq:
                msg = f"{self._what} must have the batches that were applied, got an empty file"
                raise CorruptStateError(
                    f"{msg}; restore it, or remove {str(self._mark.file)!r} to begin again"
                )

    def _check(self, connection: Connection, mark: Mark, *, verified: bool) -> None:
        check_schema(connection, self._what)
        identity = identify(connection, self._what, self._name, self._key_columns)
        connection.sums = Sums(identity)
        self._identity = identity
        latest = connection.latest_batch() or NO_BATCH
        if mark.identity == identity and latest.seq < mark.seq:
            msg = (
                f"{self._what} must have all batches that were applied, got {latest.seq} of "
                f"{mark.seq}; restore it with its log (-wal), or, if an older file was "
                f"restored, remove {str(self._mark.file)!r} and apply the missing batches again"
            )
            raise CorruptStateError(msg)
        if verified:
            verify(connection)

    def _prepare(self) -> None:
        with self._translate_errors():
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = FULL")
            with self.lend_writer() as connection:
                if is_empty(connection):
                    create(connection, self._name, self._key_columns)
                if self._identity is None:  # created just now, perhaps by another process
                    self._check(connection, self._mark.read(), verified=False)
                # Within the transaction: no other process commits a batch before the mark is written.
                latest = connection.latest_batch() or NO_BATCH
                self.acknowledge(latest.seq)
            assert self._identity is not None
            self._writer.sums = Sums(self._identity)

    # Transactions

    @contextmanager
    def lend_writer(self) -> Iterator[Connection]:
        """Lend the writer's connection in a transaction; an error rolls it back.

        The caller ensures that only one thread at a time is in here.

        Raises:
            StateStoreError: SQLite cannot write, for example to a full disk.  Nothing was written.
            StateValueError: A row is too large.
            CorruptStateError: The file is damaged.
        """
        self._readers.check_open()
        with self._translate_errors(writing=True):
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def lend_reader(self) -> Iterator[Connection]:
        """Lend a reader's connection in a transaction, which sees one state of the file.

        Raises:
            StateStoreError: SQLite cannot read.
            CorruptStateError: The file is damaged.
        """
        with self._readers.lent() as connection, self._translate_errors():
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    def open_detached_reader(self) -> Connection:
        """Open a reader's connection in a transaction that begins now; the caller closes it."""
        with self._translate_errors():
            connection = self._connect()
            connection.execute("BEGIN")
            # SQLite begins when it reads.
            connection.execute("SELECT count(*) FROM about").fetchone()
        return connection

    def verify(self) -> None:
        """Check the whole file.

        Raises:
            CorruptStateError: The file is damaged.
        """
        with self.lend_reader() as connection:
            verify(connection)

    def acknowledge(self, seq: int) -> None:
        """Record that a batch is applied, before `apply` returns.

        Raises:
            StateStoreError: The record cannot be written.
        """
        assert self._identity is not None
        with self._translate_errors(writing=True):
            self._mark.write(self._identity, seq)

    @contextmanager
    def _translate_errors(self, *, writing: bool = False) -> Iterator[None]:
        """Raise errors of SQLite and of the file system as ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise self.make_error(error, writing=writing) from error
        except OSError as error:
            msg = f"{self._what} must be a file to read and to write, got: {error}"
            raise StateStoreError(f"{msg}; choose another path, or allow access to it") from error

    def make_error(self, error: sqlite3.Error, *, writing: bool = False) -> PyflinklikeError:
        """Translate an error of SQLite into one of ours.

        Args:
            error: The error that SQLite raised.
            writing: True if the error came while rows of the caller were written.
        """
        if writing and _is(error, _TOO_BIG):
            msg = f"{self._what} takes rows of less than 1 GB with their key, got a larger one"
            return StateValueError(f"{msg}; split it, or keep it elsewhere")
        # SQLite's code for a damaged file system is the code of an I/O error, with more bits.
        if getattr(error, "sqlite_errorcode", None) != _CORRUPT_FILE_SYSTEM:
            for fault in _FAULTS:
                if _is(error, fault):
                    msg = f"{self._what} must be there to be read and written, got: {error}"
                    return StateStoreError(f"{msg}; {fault[2]}")
        # A schema, types or constraints of another program end here, too.
        msg = f"{self._what} must be the file of a view as it was written, got: {error}"
        return CorruptStateError(f"{msg}; restore it from a copy, or build the view again")

    # Connections

    def close(self) -> None:
        """Wait for the readers, and close all connections but detached ones."""
        self._readers.close()
        self._writer.close()
        self._mark.close()


def _make(file: Path) -> None:
    """Create a file and its directories, readable by their owner only.

    Raises:
        OSError: They cannot be created.
    """
    for directory in reversed(file.parents):
        if not directory.exists():
            with suppress(FileExistsError):
                directory.mkdir(mode=0o700)
    with _MAKING, suppress(FileExistsError):
        # SQLite creates its log and the log's index with the mode of the file.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


# The mark beside a view's file: how many batches were acknowledged
#
# After a writer is killed, its last batches are only in SQLite's log.  If the log is damaged, SQLite
# reads it up to the damage and drops the rest without an error.  But the streams know these batches as
# applied, and never send them again.  The mark shows that they are missing.
#
# The mark is written after the commit and is not synced.  So it may lag behind the view, but is never
# ahead of it: even after a loss of power, it reports only batches that were committed.  A process that reads
# the mark first and the view afterwards finds all batches that the mark reports.


_FORMAT = struct.Struct("<8sqqL")  # magic, the identity of the view's file, seq, checksum
_MAGIC = b"pflvmrk1"


class Mark(NamedTuple):
    """The last batch that was acknowledged.

    Args:
        identity: The identity of the view's file.
        seq: The seq of the batch.
    """

    identity: int
    seq: int


class CommitMark:
    """The mark of one view's file.

    Args:
        file: The view's file; the mark lies beside it.
        what: The view and its file, for messages.
    """

    def __init__(self, file: Path, what: str) -> None:
        self._what = what
        self.file = file.with_name(f"{file.name}-mark")
        """The mark's own file."""
        self._descriptor: int | None = None

    def read(self) -> Mark:
        """Return the last batch that was acknowledged: number 0 if there is no mark.

        Raises:
            CorruptStateError: The mark is damaged.
        """
        before = None
        while True:
            try:
                data = self.file.read_bytes()
            except FileNotFoundError:
                return Mark(0, 0)
            mark = _decode(data)
            if mark is not None:
                return mark
            # Another process may be writing it, so it is damaged only if it stays like this.
            if data == before:
                msg = (
                    f"{self._what} must have a mark that is whole, got a damaged {str(self.file)!r}"
                )
                raise CorruptStateError(
                    f"{msg}; remove it if all batches that were applied are there"
                )
            before = data

    def write(self, identity: int, seq: int) -> None:
        """Record that a batch was acknowledged.

        Raises:
            OSError: The file cannot be written.
        """
        if self._descriptor is None:
            self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(CorruptStateError):
            there = self.read()
            if there.identity == identity and there.seq >= seq:
                return  # another process has acknowledged a later batch in the meantime
        data = _add_checksum(struct.pack("<8sqq", _MAGIC, identity, seq))
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, data)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _decode(data: bytes) -> Mark | None:
    """Decode a mark; return None if it is damaged."""
    if not any(data):
        return Mark(0, 0)  # the power was lost after the file was created
    if len(data) != _FORMAT.size or _add_checksum(data[:-4]) != data:
        return None
    _, identity, seq, _ = _FORMAT.unpack(data)
    return Mark(identity, seq)


def _add_checksum(data: bytes) -> bytes:
    return data + struct.pack("<L", crc32(data))


# Errors of SQLite

# SQLite's code, the beginning of its text (Python 3.10 does not give the code), and the remedy.
_FAULTS = [
    (5, "database is locked", "another program holds it: let that end"),
    (6, "database table is locked", "another program holds it: let that end"),
    (13, "database or disk is full", "free the disk"),
    (8, "attempt to write a readonly", "allow writing to it and to its directory"),
    (3, "access permission denied", "allow writing to it and to its directory"),
    (14, "unable to open database file", "choose another path, or allow access to this one"),
    (10, "disk I/O error", "look after the disk"),
    (15, "locking protocol", "keep it on a local disk"),
    (7, "out of memory", "free memory"),
    (9, "interrupted", "repeat it"),
]
_TOO_BIG = (18, "string or blob too big", "")
_CORRUPT_FILE_SYSTEM = 10 | (33 << 8)


def _is(error: sqlite3.Error, fault: tuple[int, str, str]) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return str(error).startswith(fault[1])
    return bool(code & 0xFF == fault[0])
