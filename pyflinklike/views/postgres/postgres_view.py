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

    It is queried as a `MaterializedView` is.  Any number of processes on any machines may read it;
    one at a time writes.  The rows are in the table of its name, where SQL sees their columns.

    Args:
        name: The name of the view and of its table; at most 37 bytes.
        key: The column of the key, or several.
        order_by: The column, or several, by which plain rows of a key are ordered, as for a
            `MaterializedView`; it stays with the tables.
        conninfo: Where the server is, as libpq takes it: a URI, or keywords and values.  It goes to
            the executors; parts that it leaves out, as `service=...`, passfile or PGPASSWORD, they
            look up where they run.
        schema: The schema of PostgreSQL, which has to exist.
        columns: The columns that SQL sees: names, and types of PostgreSQL.  None takes them from
            the first DataFrame, and adds further columns of later ones.
        history: How many batches back, the last one included, `as_of`, subscribers and
            `changes(start="earliest")` can go.
        event_time: The column with the event time of a row, as for a `MaterializedView`.
        clock: Returns the time in ms since the epoch; None for the system's.
        allow_gaps: True permits a stream to go on although earlier batches are not in the database.
        lock_timeout: How long to wait for another writer to end, a timedelta or seconds.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
        SparkSetupError: psycopg is not installed.
        CorruptStateError: The tables have another format.
        IncompatibleStateError: The tables are another program's, or have another key or order.
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
        """Apply a batch of this process's: all of it, durably, or nothing.

        Args:
            rows: Changes or plain rows: mappings, `Row`s or named tuples.
            batch_id: The id of the batch; a batch that was applied before is ignored, and its rows
                are not read.
            watermark: How far event time has come, in ms since the epoch or as a datetime; None if
                the caller does not know.

        Returns:
            True if it was applied, False for a batch that was seen before.

        Raises:
            NullKeyError: A row has no key.
            StateValueError: A row, or the batch id, has no form that a view takes, or a column
                cannot hold a value.
            StateStoreError: Another process writes to the view, or the server cannot.
            StoreClosedError: The view is closed.
        """
        return self._writer.apply(rows, check_id(self.name, batch_id), watermark)

    def foreach_batch(self, df: BatchFrame, batch_id: int, source: str | None = None) -> None:
        """Apply a micro-batch, for `writeStream.foreachBatch`, or a static DataFrame.

        Each partition is copied by the executor that has it; the driver sees no rows.

        Args:
            df: Spark's DataFrame.
            batch_id: The id that Spark gives the batch.  The ids of a stream have to follow one
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

        # They wait in the database, so a slow subscriber makes no writer wait.
        follower = Follower(self._database, wanted, is_latest=is_latest)
        self._followers.add(follower)
        return follower, None

    # Closing

    def close(self) -> None:
        """Close the connections, and end all subscriptions; changes they read can be taken."""
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
        import psycopg  # noqa: F401 - only whether it is there
    except ImportError as error:
        msg = (
            f"a PostgresView needs the package psycopg, got {str(error).splitlines()[0]}; "
            f"{install('postgres')} on the driver and the executors"
        )
        raise SparkSetupError(msg) from error
