# SPDX-License-Identifier: Apache-2.0
"""Connections to PostgreSQL: for reading, and the one for writing.

The writer's connection holds an advisory lock for as long as the view writes, and all writes go
over this connection.  So a writer that lost the lock has lost its transaction as well, and no other
writer can have come between.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors

from pyflinklike.errors import StateStoreError
from pyflinklike.views.postgres.conninfo import Conninfo

__all__ = ["ReaderSession", "WriterSession"]

_LOCKS = 0x7066_6C76  # "pflv", so that no other program locks the same


class ReaderSession:
    """A connection for one thread at a time, made anew where the server has closed it.

    Args:
        conninfo: Where the server is.
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
            begin: Reads something; called once more if the connection was dead.
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


class WriterSession:
    """The connection of the one writer of a view, made when it is first needed.

    Args:
        conninfo: Where the server is.
        what: The view, for messages.
        lock: The number that the writer locks.
        patience: How long to wait for another writer to end, in ms.
    """

    def __init__(self, conninfo: Conninfo, what: str, lock: int, patience: int) -> None:
        self._conninfo = conninfo
        self._what = what
        self._lock = lock
        self._patience = patience
        self._connection: psycopg.Connection[Any] | None = None

    @contextmanager
    def connected(
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
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, which frees the lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take_lock(self, connection: psycopg.Connection[Any]) -> None:
        name = f"pyflinklike writer on {socket.gethostname()[:32]} pid {os.getpid()}"
        for setting, value in (
            ("application_name", name),
            ("lock_timeout", f"{self._patience}ms"),
            # A killed writer's last statement ends soon, and does not run to its end.
            ("client_connection_check_interval", "5s"),
        ):
            with suppress(psycopg.errors.UndefinedObject):  # before PostgreSQL 14
                connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        try:
            connection.execute("SELECT pg_advisory_lock(%s, %s)", (_LOCKS, _signed(self._lock)))
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


def _signed(number: int) -> int:
    """Return the number of a table as an int of 32 bits, since locks have signed numbers."""
    return number - (1 << 32) if number >= 1 << 31 else number
