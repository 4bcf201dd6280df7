# SPDX-License-Identifier: Apache-2.0
"""The tables of a view in PostgreSQL: its many readers, and its one writer.

A batch is one transaction: its changes, the rows that these replace and its id.  The server logs it
before `apply` returns (`synchronous_commit`, which we turn on where it is off).
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from pyflinklike.errors import CorruptStateError, StoreClosedError
from pyflinklike.views.core.reader_pool import ReaderPool
from pyflinklike.views.postgres.conninfo import Conninfo
from pyflinklike.views.postgres.names import Names
from pyflinklike.views.postgres.schema import About, add_columns, create, read_about
from pyflinklike.views.postgres.sessions import ReaderSession, WriterSession
from pyflinklike.views.postgres.snapshot import PostgresSnapshot
from pyflinklike.views.postgres.staging import create_staging

__all__ = ["Database"]


class Database:
    """The tables of an open view; made if they do not exist.

    Args:
        conninfo: Where the server is.
        names: The names of the tables.
        key_columns: The key columns of the view.
        order_columns: The columns by which the view is ordered.
        columns: The columns that SQL sees, where they are declared; made with the tables.
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
        key_columns: tuple[str, ...],
        order_columns: tuple[str, ...],
        columns: dict[str, str],
        patience: int,
    ) -> None:
        self.conninfo = conninfo
        self.names = names
        self.fault: type[Exception] = psycopg.Error
        self._key_columns = key_columns
        self._readers = ReaderPool(lambda: ReaderSession(conninfo), self._closed_error)
        self.about = self._opened(order_columns, columns)
        what = f"view {names.view!r} in {conninfo.masked!r}"
        self._writer = WriterSession(conninfo, what, self.about.lock, patience)
        self._writing = threading.RLock()

    def _opened(self, order_columns: tuple[str, ...], types: dict[str, str]) -> About:
        columns = (self._key_columns, order_columns)
        with self._translating(), self.conninfo.connect("opening") as connection:
            about = read_about(connection, self.names, *columns)
            if about is None:
                # Another process may be making the tables: all wait here for the first.
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
    def reading(self) -> Iterator[PostgresSnapshot]:
        """Begin a transaction that sees one state of the view.

        Raises:
            StateStoreError: The tables cannot be read.
            StoreClosedError: The view is closed.
        """
        with (
            self._readers.taken() as session,
            self._translating(),
            session.transaction(self._check_identity) as connection,
        ):
            yield PostgresSnapshot(connection, self.names, self.about.identity)

    def _check_identity(self, connection: psycopg.Connection[Any]) -> None:
        """Check that nobody has dropped the tables and made others of that name."""
        found = connection.execute(self.names.sql("SELECT identity FROM {about}")).fetchall()
        if found != [(self.about.identity,)]:
            msg = f"view {self.names.view!r}: its tables must stay, got others of that name"
            raise CorruptStateError(f"{msg}; open the view again")

    # Writing

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend the writer's connection, in autocommit, to one thread at a time.

        Raises:
            StateStoreError: There is another writer, or the server cannot write.
            StateValueError: The columns cannot hold a row.
        """
        with self._writing, self._translating(writing=True):
            if self._readers.closed:
                raise self._closed_error()
            with self._writer.connected(self._begun) as connection:
                yield connection

    def _begun(self, connection: psycopg.Connection[Any]) -> None:
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
            table = self.names.staging(secrets.randbits(64))
            create_staging(connection, self.names, table, columns)
        return table, columns

    # Life

    def close(self) -> None:
        """Wait for readers and the writer, and close all connections."""
        self._readers.close()
        with self._writing:
            self._writer.close()

    def _closed_error(self) -> StoreClosedError:
        msg = f"a view must be open to be used, got {self.names.view!r}; open it again"
        return StoreClosedError(msg)

    @contextmanager
    def _translating(self, *, writing: bool = False) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self.conninfo.failed(error, writing=writing) from None


_LEFT = """SELECT relname FROM pg_class
    WHERE relnamespace = quote_ident(%s)::regnamespace AND relkind = 'r'
        AND left(relname, length(%s)) = %s"""
