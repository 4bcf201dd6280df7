# SPDX-License-Identifier: Apache-2.0
"""A view whose tables are in PostgreSQL.

    view = PostgresView("totals", key="user", conninfo="service=views")
    query = totals.writeStream.foreachBatch(view.foreach_batch).start()
    view.get("ann")

The executors copy each batch into the database, and one transaction applies it; any machine reads
it, as a `View` or by SQL.
"""

from __future__ import annotations

import datetime as dt
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyflinklike._checks import install
from pyflinklike._clock import wall_clock
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, SparkSetupError
from pyflinklike.views.arguments import check_id
from pyflinklike.views.batch_frame import BatchFrame
from pyflinklike.views.subscription import ChangeSource, RowFilter, Timeout, seconds
from pyflinklike.views.view import View, read_declaration

__all__ = ["PostgresView"]


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
        from pyflinklike.views.postgres.conninfo import Conninfo
        from pyflinklike.views.postgres.postgres_writer import open_view

        incoming = read_declaration(name, key, order_by, event_time, history)
        where = Conninfo(name, conninfo)
        clock = clock or wall_clock
        self._database, self._writer = open_view(
            where,
            schema,
            incoming,
            columns,
            history,
            clock,
            allow_gaps=allow_gaps,
            patience=_patience(name, lock_timeout),
        )
        super().__init__(incoming, history, clock, self._database)
        self._masked = where.masked
        self._followers: weakref.WeakSet[Any] = weakref.WeakSet()

    # Applying batches

    def apply(
        self, rows: Iterable[Any], batch_id: int, *, watermark: int | dt.datetime | None = None
    ) -> bool:
        """Apply a batch of rows in this process: all of it, durably, or nothing.

        Args:
            rows: Changes or plain rows: mappings, `Row`s or named tuples.
            batch_id: The id of the batch; a batch that was applied before is ignored, and its rows
                are not read.
            watermark: The event time that the source has reached, in ms since the epoch or as a
                datetime; None if it is unknown.

        Returns:
            True if it was applied, False if it had been applied before.

        Raises:
            NullKeyError: A row has no key.
            StateValueError: A row or the batch id has a form that no view takes, or a column
                cannot hold a value.
            StateStoreError: Another process writes to the view, or the server cannot write.
            StoreClosedError: The view is closed.
        """
        return self._writer.apply(rows, check_id(self.name, batch_id), watermark)

    def foreach_batch(self, df: BatchFrame, batch_id: int, source: str | None = None) -> None:
        """Apply a micro-batch, for `writeStream.foreachBatch`, or a static DataFrame.

        Each partition is copied by the executor that has it; the driver sees no rows.

        Args:
            df: Spark's DataFrame, whose rows the executors copy.
            batch_id: The id that Spark gives the batch.  The ids of a stream must follow one
                another.
            source: The name of the stream, as for a `MaterializedView`.

        Raises:
            DeclarationTypeError: `df` is not a DataFrame.
            NullKeyError, StateValueError, StateStoreError, StoreClosedError: As `apply`; Spark then
                fails the batch, and repeats it when the stream is started again.
        """
        self._writer.apply_frame(df, check_id(self.name, batch_id), source)

    # Push queries

    def _subscribe(self, wanted: RowFilter, is_latest: bool) -> tuple[ChangeSource, None]:
        from pyflinklike.views.postgres.follower import Follower

        # Changes wait in the database, so the writer never waits for a slow subscriber.
        follower = Follower(self._database, wanted, is_latest=is_latest)
        self._followers.add(follower)
        return follower, None

    # Closing

    def close(self) -> None:
        """Close the connections, and end all subscriptions; changes that they have read can be taken."""
        for follower in list(self._followers):
            follower.end()
        self._database.close()

    def __repr__(self) -> str:
        return (
            f"PostgresView({self.name!r}, key={list(self.key_columns)}, conninfo={self._masked!r})"
        )


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
