# SPDX-License-Identifier: Apache-2.0
"""A view whose tables are in PostgreSQL.

    view = PostgresView("totals", key="user", conninfo="service=views")
    query = totals.writeStream.foreachBatch(view.foreach_batch).start()
    view.get("ann")

The executors copy each batch into the database, and one transaction applies it; any machine reads
it, as a `View` or by SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyflinklike._checks import install
from pyflinklike._clock import wall_clock
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, SparkSetupError
from pyflinklike.views.subscription import Timeout, seconds
from pyflinklike.views.view import View, read_declaration


def _patience(view: str, timeout: Timeout) -> int:
    """Return how long to wait for another writer, in ms; at least 1, since 0 means forever."""
    wait = seconds(timeout)
    if wait is None:
        msg = (
            f"view {view!r}: lock_timeout must be a timedelta or seconds, got {short_repr(timeout)}"
        )
        raise DeclarationTypeError(f"{msg}; for example 10")
    return max(1, int(wait * 1000))


class _Secret(str):
    """A text whose `repr` hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class PostgresView(View):
    """A durable table by key, in PostgreSQL, fed by batches that the executors write.

    It has the queries of a `MaterializedView`.  Any number of processes on any machines may read it, but
    only one at a time may write.  The rows are in the table of its name, where SQL sees their columns.

    Args:
        name: The name of the view and of its table; at most 37 bytes.
        key: The column of the key, or several.
        order_by: The column, or several, by which plain rows of a key are ordered, as for a
            `MaterializedView`; it stays with the tables.
        conninfo: The address of the server, as libpq takes it: a URI, or keywords and values.  It is sent
            to the executors.  They look up the parts that it leaves out (`service=...`, passfile,
            PGPASSWORD) on their own machines.
        schema: The schema of PostgreSQL, which must exist.
        columns: The columns that SQL sees: names, and types of PostgreSQL.  None takes them from
            the first DataFrame, and adds further columns of later ones.
        history: The number of batches, the last one included, to which `as_of`, subscribers and
            `changes(start="earliest")` can go back.
        event_time: The column with the event time of a row, as for a `MaterializedView`.
        clock: Returns the time in ms since the epoch; None for the system's.
        allow_gaps: True permits a stream to go on although earlier batches are not in the database.
        lock_timeout: How long to wait for another writer to end, a timedelta or seconds.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
        SparkSetupError: psycopg is not installed.
        CorruptStateError: The tables have another format.
        IncompatibleStateError: The tables belong to another program, or have another key or order.
        StateStoreError: There is no server, it does not let us in, or it cannot make the tables.
    """

    def __new__(cls, *args: Any, **named: Any) -> PostgresView:
        """Remember the arguments for pickles, with a conninfo that does not show its password."""
        if type(named.get("conninfo")) is str:
            named["conninfo"] = _Secret(named["conninfo"])
        return super().__new__(cls, *args, **named)

    def __init__(
        self,
        name: str,
        *,
        key: str | Sequence[str],
        order_by: str | Sequence[str] | None = None,
        conninfo: str,
        schema: str = "public",
        columns: Mapping[str, str] | None = None,
        history: int = 100,
        event_time: str | None = None,
        clock: Callable[[], int] | None = None,
        allow_gaps: bool = False,
        lock_timeout: Timeout = 10,
    ) -> None:
        check_psycopg()
        from pyflinklike.views.postgres_database import Conninfo, PostgresDatabase
        from pyflinklike.views.postgres_staging import check_types
        from pyflinklike.views.postgres_tables import Names
        from pyflinklike.views.postgres_writer import PostgresWriter

        incoming = read_declaration(name, key, order_by, event_time, history)
        where, names = Conninfo(name, conninfo), Names(schema, name)
        types = None if columns is None else check_types(name, columns)
        patience = _patience(name, lock_timeout)
        self._database = PostgresDatabase(where, names, incoming, types or {}, patience)
        clock = clock or wall_clock
        writer = PostgresWriter(self._database, incoming, types, history, allow_gaps, clock)
        super().__init__(incoming, history, clock, self._database, writer)

    def __repr__(self) -> str:
        masked = self._database.conninfo.masked
        return f"PostgresView({self.name!r}, key={list(self.key_columns)}, conninfo={masked!r})"


def check_psycopg() -> None:
    """Check that psycopg can be imported.

    Raises:
        SparkSetupError: psycopg is not installed, or lacks libpq.
    """
    try:
        import psycopg  # noqa: F401 - only to see whether it is installed
    except ImportError as error:
        msg = (
            f"a PostgresView needs the package psycopg, got {str(error).splitlines()[0]}; "
            f"{install('postgres')} on the driver and the executors"
        )
        raise SparkSetupError(msg) from error
