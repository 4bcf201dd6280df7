# SPDX-License-Identifier: Apache-2.0
"""Errors of PostgreSQL as ours: whose fault it is, and what to do."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import errors

from pyflinklike.errors import CorruptStateError, PyflinklikeError, StateStoreError, StateValueError

__all__ = ["DATA_FAULTS", "translated"]

DATA_FAULTS = (psycopg.DataError, errors.ProgramLimitExceeded, errors.InvalidColumnReference)
"""The server's errors for values that it cannot take."""

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


def translated(
    error: Exception, what: str, hidden: Callable[[str], str], *, writing: bool
) -> PyflinklikeError:
    """Make an error of ours from one of psycopg's.

    Args:
        error: The error that psycopg raised.
        what: The view and where it is, for the message.
        hidden: Takes passwords out of a text.
        writing: True where the caller's rows were being written.
    """
    told = hidden(_told(error))
    if writing and isinstance(error, DATA_FAULTS):
        msg = f"{what} must be given values that its columns and keys can hold, got: {told}"
        return StateValueError(f"{msg}; mend the row, or declare another type in columns")
    for kind, remedy in _REMEDIES:
        if isinstance(error, kind):
            return StateStoreError(f"{what} must be there to be used, got: {told}; {remedy}")
    msg = f"{what} must have the tables that it made, got: {told}"
    return CorruptStateError(f"{msg}; restore them, or build the view again")


def _told(error: Exception) -> str:
    """Return the server's message in one line."""
    diagnosis = error.diag if isinstance(error, psycopg.Error) else None
    parts = [diagnosis.message_primary, diagnosis.context] if diagnosis else []
    told = " in ".join(part for part in parts if part)
    return " ".join((told or str(error)).split()) or type(error).__name__
