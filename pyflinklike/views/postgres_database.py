# SPDX-License-Identifier: Apache-2.0
"""The tables of a view in PostgreSQL: its many readers, its one writer, and the address of its server.

A batch is one transaction: its changes, the rows that these replace and its id.  The server logs it
before `apply` returns (`synchronous_commit`; if it is off, we turn it on).

The writer's connection holds an advisory lock for as long as the view writes, and all writes go
over this connection.  A writer that loses the lock loses its transaction as well.  So no other
writer can come between.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    StateStoreError,
    StateValueError,
)
from pyflinklike.views.incoming_rows import BatchReader
from pyflinklike.views.postgres_tables import (
    About,
    Names,
    PostgresSnapshot,
    add_columns,
    create,
    create_staging,
    read_about,
)
from pyflinklike.views.view_storage import ReaderPool


class PostgresDatabase:
    """The tables of an open view; made if they do not exist.

    Args:
        conninfo: The address of the server, with the login.
        names: The names of the tables.
        incoming: Reads the rows of the view, and knows its columns of keys and orders.
        columns: The columns that SQL sees, if they are declared; made with the tables.
        patience: How long to wait for another writer to end, in ms.

    Raises:
        IncompatibleStateError: The tables belong to another view, or to this one by another key.
        CorruptStateError: The tables have another format.
        StateStoreError: The tables cannot be read or made.
    """

    def __init__(
        self,
        conninfo: Conninfo,
        names: Names,
        incoming: BatchReader,
        columns: dict[str, str],
        patience: int,
    ) -> None:
        self.conninfo = conninfo
        self.names = names
        self.fault: type[Exception] = psycopg.Error
        self._key_columns = incoming.key_columns
        self._readers = ReaderPool(lambda: ReaderSession(conninfo), names.view)
        self.about = self._open(incoming.order_columns, columns)
        what = f"view {names.view!r} in {conninfo.masked!r}"
        self._writer = WriterSession(conninfo, what, self.about.lock, patience)
        self._writing = threading.RLock()

    def _open(self, order_columns: tuple[str, ...], types: dict[str, str]) -> About:
        columns = (self._key_columns, order_columns)
        with self._translate_errors(), self.conninfo.connect("opening") as connection:
            about = read_about(connection, self.names, *columns)
            if about is None:
                # Another process may be making the tables, so all processes wait here for the first.
                name = self.names.table().as_string(connection)
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
                about = read_about(connection, self.names, *columns)
            if about is None:
                create(connection, self.names, *columns)
                add_columns(connection, self.names, types, self._key_columns)
                about = read_about(connection, self.names, *columns)
        assert about is not None
        return about

    # Reading

    @contextmanager
    def lend_reader(self) -> Iterator[PostgresSnapshot]:
        """Begin a transaction that sees one state of the view.

        Raises:
            StateStoreError: The tables cannot be read.
            StoreClosedError: The view is closed.
        """
        with (
            self._readers.lent() as session,
            self._translate_errors(),
            session.transaction(self._check_identity) as connection,
        ):
            yield PostgresSnapshot(connection, self.names, self.about.identity)

    def _check_identity(self, connection: psycopg.Connection[Any]) -> None:
        """Check that the tables have not been dropped and replaced by others of that name."""
        found = connection.execute(self.names.sql("SELECT identity FROM {about}")).fetchall()
        if found != [(self.about.identity,)]:
            msg = f"view {self.names.view!r}: its tables must stay, got others of that name"
            raise CorruptStateError(f"{msg}; open the view again")

    # Writing

    @contextmanager
    def lend_writer(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend the writer's connection, in autocommit, to one thread at a time.

        Raises:
            StateStoreError: There is another writer, or the server cannot write.
            StateValueError: The columns cannot hold a row.
        """
        with self._writing, self._translate_errors(writing=True):
            self._readers.check_open()
            with self._writer.lend_connection(self._begin) as connection:
                yield connection

    def _begin(self, connection: psycopg.Connection[Any]) -> None:
        self._check_identity(connection)
        self.drop_staging(connection)

    def drop_staging(self, connection: psycopg.Connection[Any]) -> None:
        """Drop the staging tables of killed writers, except tables that tasks still write to."""
        found = connection.execute(_LEFT, (self.names.schema, *[self.names.staging_prefix] * 2))
        for (table,) in found.fetchall():
            with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
                connection.execute("SET LOCAL lock_timeout = '500ms'")
                name = sql.Identifier(self.names.schema, table)
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))

    def new_staging(
        self, connection: psycopg.Connection[Any], wanted: dict[str, str]
    ) -> tuple[str, dict[str, str]]:
        """Make an empty staging table, for a view that has the wanted columns from now on.

        Returns:
            Its name, and all columns of the view with their types.
        """
        with connection.transaction():
            columns = add_columns(connection, self.names, wanted, self._key_columns)
            table = self.names.name_staging_table(secrets.randbits(64))
            create_staging(connection, self.names, table, columns)
        return table, columns

    # Life

    def close(self) -> None:
        """Wait for readers and the writer, and close all connections."""
        self._readers.close()
        with self._writing:
            self._writer.close()

    @contextmanager
    def _translate_errors(self, *, writing: bool = False) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self.conninfo.make_error(error, writing=writing) from None


_LEFT = """SELECT relname FROM pg_class
    WHERE relnamespace = quote_ident(%s)::regnamespace AND relkind = 'r'
        AND left(relname, length(%s)) = %s"""

_LOCKS = 0x7066_6C76  # "pflv", so that no other program locks the same


class ReaderSession:
    """A connection for one thread at a time, made anew if the server has closed it.

    Args:
        conninfo: The address of the server, with the login.
    """

    def __init__(self, conninfo: Conninfo) -> None:
        self._conninfo = conninfo
        self._connection = self._connect()

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self._conninfo.connect("reader")
        # PostgreSQL's default would show each statement of a transaction a later state.
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        return connection

    @contextmanager
    def transaction(
        self, begin: Callable[[psycopg.Connection[Any]], None]
    ) -> Iterator[psycopg.Connection[Any]]:
        """Begin a transaction that sees one state and writes nothing.

        Args:
            begin: Reads from the connection; called once more if the connection was dead.
        """
        try:
            try:
                begin(self._connection)
            except psycopg.OperationalError:  # the server was restarted, or has closed it
                self._connection.close()
                self._connection = self._connect()
                begin(self._connection)
            yield self._connection
        finally:
            with suppress(psycopg.Error):
                self._connection.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@attrs.define(eq=False)
class WriterSession:
    """The connection of the one writer of a view, made when it is first needed.

    Args:
        conninfo: The address of the server, with the login.
        what: The view, for messages.
        lock: The number that the writer locks.
        patience: How long to wait for another writer to end, in ms.
    """

    _conninfo: Conninfo
    _what: str
    _lock: int
    _patience: int
    _connection: psycopg.Connection[Any] | None = attrs.field(init=False, default=None)

    @contextmanager
    def lend_connection(
        self, begin: Callable[[psycopg.Connection[Any]], None]
    ) -> Iterator[psycopg.Connection[Any]]:
        """Lend the connection, in autocommit; an error closes it, and the next call begins anew.

        Args:
            begin: Called with a connection that was just made.

        Raises:
            StateStoreError: There is another writer.
        """
        try:
            if self._connection is None:
                self._connection = self._conninfo.connect("writer", autocommit=True)
                self._take_lock(self._connection)
                begin(self._connection)
            yield self._connection
        except BaseException:
            self._disconnect()
            raise

    def close(self) -> None:
        """Free the lock, and close the connection."""
        if self._connection is not None:
            # The server frees the locks of a closed connection only some time later.
            with suppress(psycopg.Error):
                self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take_lock(self, connection: psycopg.Connection[Any]) -> None:
        name = f"pyflinklike writer on {socket.gethostname()[:32]} pid {os.getpid()}"
        for setting, value in (
            ("application_name", name),
            ("lock_timeout", f"{self._patience}ms"),
            # So that the last statement of a killed writer is cancelled soon.
            ("client_connection_check_interval", "5s"),
        ):
            with suppress(psycopg.errors.UndefinedObject):  # before PostgreSQL 14
                connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        try:
            connection.execute("SELECT pg_advisory_lock(%s, %s)", (_LOCKS, _add_sign(self._lock)))
        except errors.LockNotAvailable:
            msg = (
                f"{self._what} must have one writer, got a second one while {self._holder(connection)} "
                f"has written and not closed it"
            )
            raise StateStoreError(
                f"{msg}; end that one, or close its view, and send the batch again"
            ) from None

    def _holder(self, connection: psycopg.Connection[Any]) -> str:
        found = connection.execute(_HOLDER, (_LOCKS, self._lock)).fetchone()
        return (
            "another"
            if found is None
            else f"{found[0]!r} from {found[1]} (backend {found[2]}, since {found[3]})"
        )


_HOLDER = """SELECT application_name, coalesce(host(client_addr), 'this machine'), pid,
        date_trunc('second', backend_start)
    FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted"""


def _add_sign(number: int) -> int:
    """Return the number of a table as a signed int of 32 bits, as numbers of locks are."""
    return number - (1 << 32) if number >= 1 << 31 else number


# The address of the server, and the translation of its errors
#
# A password is never shown.  An error of PostgreSQL becomes one of ours, which says what is wrong
# and what to do.


_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    # So a server that has vanished is noticed within about half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


class Conninfo:
    """A connection string of libpq, checked.

    Args:
        view: The view's name, for messages.
        text: A URI, or keywords and values.

    Raises:
        DeclarationTypeError: It is not a str.
        DeclarationValueError: libpq cannot read it.
    """

    def __init__(self, view: str, text: str) -> None:
        self._view = view
        if not isinstance(text, str):
            msg = f"view {view!r}: conninfo must be a str, got a {type(text).__name__}"
            raise DeclarationTypeError(
                f"{msg}; for example 'service=views' or 'postgresql://host/database'"
            )
        self.text = text
        parts = self._read()
        self._secrets = [str(parts[name]) for name in _SECRETS if parts.get(name)]
        shown: dict[str, Any] = {n: "***" if n in _SECRETS else part for n, part in parts.items()}
        self.masked = make_conninfo(**shown)
        """The connection string that may be shown."""
        self._parts = {**_DEFAULTS, **parts}

    def _read(self) -> dict[str, Any]:
        """Return the keywords and their values."""
        try:
            parts = conninfo_to_dict(self.text)
            # A password with an unescaped "/" or "@" ends up in one of these parts.
            if any("@" in str(parts.get(name)) for name in ("host", "port", "dbname")):
                raise psycopg.ProgrammingError
        except psycopg.Error:
            # libpq's message may quote the password, so it is neither shown nor chained.
            msg = f"view {self._view!r}: conninfo must be a connection string of libpq, got one that it cannot read"
            raise DeclarationValueError(
                f"{msg}; for example 'service=views' or 'postgresql://user@host/database', "
                "with %-escapes in a URI"
            ) from None
        return parts

    def connect(self, role: str, **options: Any) -> psycopg.Connection[Any]:
        """Open a new connection.

        Args:
            role: The purpose of the connection, which the server's statistics show.
            options: Further arguments of `psycopg.connect`.

        Raises:
            StateStoreError: There is no server, or it does not let us in.
        """
        name = self._parts.get("application_name", f"pyflinklike {role} of view {self._view}")
        try:
            return psycopg.connect(
                make_conninfo(**{**self._parts, "application_name": name}), **options
            )
        except psycopg.Error as error:
            raise self.make_error(error) from None

    def make_error(self, error: Exception, *, writing: bool = False) -> PyflinklikeError:
        """Translate an error of psycopg into one of ours, without passwords.

        Args:
            error: The error that psycopg raised.
            writing: True if the error came while rows of the caller were written.
        """
        what = f"view {self._view!r} in {self.masked!r}"
        text = self._hide(_text_of(error))
        if writing and isinstance(error, DATA_FAULTS):
            msg = f"{what} must be given values that its columns and keys can hold, got: {text}"
            return StateValueError(f"{msg}; mend the row, or declare another type in columns")
        for kind, remedy in _REMEDIES:
            if isinstance(error, kind):
                return StateStoreError(f"{what} must be there to be used, got: {text}; {remedy}")
        msg = f"{what} must have the tables that it made, got: {text}"
        return CorruptStateError(f"{msg}; restore them, or build the view again")

    def _hide(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def __reduce__(self) -> tuple[type[Conninfo], tuple[str, str]]:
        return Conninfo, (self._view, self.text)

    def __repr__(self) -> str:
        return f"Conninfo({self.masked!r})"


DATA_FAULTS = (psycopg.DataError, errors.ProgramLimitExceeded, errors.InvalidColumnReference)
"""The server's errors for values that it cannot store."""

_REMEDIES: list[tuple[type[Exception], str]] = [
    (errors.InvalidPassword, "give the password by PGPASSFILE or a service, wherever it runs"),
    (errors.InvalidAuthorizationSpecification, "create the user, or let it in by pg_hba.conf"),
    (errors.InvalidCatalogName, "create the database, or name another"),
    (errors.InvalidSchemaName, "create the schema, or name another"),
    (errors.ReadOnlySqlTransaction, "write to the primary, not to a standby"),
    (errors.InsufficientPrivilege, "grant it to the user of the conninfo"),
    (errors.DiskFull, "free the server's disk"),
    (errors.TooManyConnections, "raise max_connections, or write with fewer partitions"),
    (errors.LockNotAvailable, "end the transaction that holds it"),
    (errors.UndefinedTable, "restore the view's tables, or build it again"),
    (
        psycopg.OperationalError,
        "look after the server and the way to it; what was not applied can be sent again",
    ),
]


def _text_of(error: Exception) -> str:
    """Return the server's message in one line."""
    diagnosis = error.diag if isinstance(error, psycopg.Error) else None
    parts = [diagnosis.message_primary, diagnosis.context] if diagnosis else []
    text = " in ".join(part for part in parts if part)
    return " ".join((text or str(error)).split()) or type(error).__name__
