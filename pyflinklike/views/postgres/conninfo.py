# SPDX-License-Identifier: Apache-2.0
"""The connection to a PostgreSQL server, and the translation of its errors.

A password is never shown.  An error of PostgreSQL becomes one of ours, which says what is wrong
and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    StateStoreError,
    StateValueError,
)

__all__ = ["Conninfo", "translate_error"]


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

    def make_error(self, error: Exception, *, writing: bool = False) -> Exception:
        """Translate an error of psycopg into one of ours, without passwords.

        Args:
            error: The error that psycopg raised.
            writing: True if the error came while rows of the caller were written.
        """
        return translate_error(
            error, f"view {self._view!r} in {self.masked!r}", self._hide, writing=writing
        )

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


def translate_error(
    error: Exception, what: str, hidden: Callable[[str], str], *, writing: bool
) -> PyflinklikeError:
    """Translate an error of psycopg into one of ours.

    Args:
        error: The error that psycopg raised.
        what: The view and its server, for the message.
        hidden: Replaces the passwords in a text.
        writing: True if the error came while rows of the caller were written.
    """
    text = hidden(_text_of(error))
    if writing and isinstance(error, DATA_FAULTS):
        msg = f"{what} must be given values that its columns and keys can hold, got: {text}"
        return StateValueError(f"{msg}; mend the row, or declare another type in columns")
    for kind, remedy in _REMEDIES:
        if isinstance(error, kind):
            return StateStoreError(f"{what} must be there to be used, got: {text}; {remedy}")
    msg = f"{what} must have the tables that it made, got: {text}"
    return CorruptStateError(f"{msg}; restore them, or build the view again")


def _text_of(error: Exception) -> str:
    """Return the server's message in one line."""
    diagnosis = error.diag if isinstance(error, psycopg.Error) else None
    parts = [diagnosis.message_primary, diagnosis.context] if diagnosis else []
    text = " in ".join(part for part in parts if part)
    return " ".join((text or str(error)).split()) or type(error).__name__
