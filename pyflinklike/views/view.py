# SPDX-License-Identifier: Apache-2.0
"""The interface of every view, whatever its storage: batches, queries and subscriptions.

Code that only queries takes a `View`, so it works with a `MaterializedView` and with a `PostgresView`.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, TypeVar

from pyflinklike._checks import check_choice, is_int, is_int64
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    ScanDisabledError,
    StateValueError,
    UnknownBatchError,
)
from pyflinklike.views.batch_frame import SERVED, BatchFrame, Feed
from pyflinklike.views.incoming_rows import BatchReader
from pyflinklike.views.pull_query import (
    Condition,
    PullQuery,
    ViewAt,
    Where,
    check_limit,
)
from pyflinklike.views.row_codec import to_key_bytes
from pyflinklike.views.subscription import (
    Changes,
    ChangeSource,
    Replay,
    RowFilter,
    Timeout,
    seconds,
)
from pyflinklike.views.view_storage import ViewStorage

_Self = TypeVar("_Self", bound="View")


class ViewWriter(Protocol):
    """The writer of a view's storage, and the source of its changes."""

    def apply(
        self, rows: Iterable[Any], batch_id: int, watermark: int | dt.datetime | None
    ) -> bool:
        """Apply rows of this process; return False if the batch was applied before."""

    def apply_frame(self, feed: Feed, batch_id: int) -> None:
        """Apply a DataFrame, unless it was applied before."""

    def subscribe(self, wanted: RowFilter, is_latest: bool) -> tuple[ChangeSource, Replay | None]:
        """Return the source of new changes, and the changes of the past or None."""

    def close(self) -> None:
        """End all subscriptions, and release the storage."""


class View(PullQuery):
    """A durable table by key that batches keep up to date and any thread can query.

    It is pickled as the arguments of its constructor, and opened again from them.  Over Spark Connect the
    function of `foreachBatch` is pickled to a Python process of the server, with the view that it holds.

    Example:
        ```python
        view = MaterializedView("totals", key="user", path="/data/views")
        view.apply([{"user": "ann", "total": 3}], batch_id=0)
        view.get("ann")
        ```

    Args:
        incoming: Reads the rows of batches, and knows the view's name and key columns.
        history: How many batches back `as_of` can go.
        clock: Returns the time in ms since the epoch.
        storage: The file or the tables that hold the view.
        writer: Writes to the storage.
    """

    _made_with: partial[Any]

    def __new__(cls: type[_Self], *args: Any, **named: Any) -> _Self:
        """Remember the arguments, which `__init__` then checks."""
        made = super().__new__(cls)
        # The other process may be in another directory.
        if isinstance(named.get("path"), (str, Path)):
            named["path"] = Path(named["path"]).absolute()
        made._made_with = partial(cls, *args, **named)
        return made

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any]]:
        return _reopened, (self._made_with,)

    def __init__(
        self,
        incoming: BatchReader,
        history: int,
        clock: Callable[[], int],
        storage: ViewStorage,
        writer: ViewWriter,
    ) -> None:
        super().__init__(storage, incoming.view, incoming.key_columns)
        self.history = history
        self._clock = clock
        self._writer = writer

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
            StateValueError: A row or the batch id has a form that no view takes, or a column in
                PostgreSQL cannot hold a value.
            StateStoreError: The storage cannot be written, or another process writes to it.
            StoreClosedError: The view is closed.
        """
        return self._writer.apply(rows, check_id(self.name, batch_id), watermark)

    def foreach_batch(self, df: BatchFrame, batch_id: int, source: str | None = None) -> None:
        """Apply a micro-batch, for `writeStream.foreachBatch`, or a static DataFrame.

        The driver collects the rows for a file; for PostgreSQL the executors copy them.  Batch ids
        count per stream.  A stream with a new checkpoint begins again at 0, and its batches are not
        mistaken for batches of the stream before.

        Args:
            df: Spark's DataFrame.
            batch_id: The id that Spark gives the batch.  In PostgreSQL the ids of a stream must
                follow one another.
            source: The name of the stream; None takes Spark's id, which stays with its checkpoint.
                Over Spark Connect a name is needed if several streams run in a session.

        Raises:
            DeclarationTypeError: `df` is not a DataFrame.
            SparkSetupError: Over Spark Connect, the stream cannot be distinguished from others.
            NullKeyError, StateValueError, StateStoreError, StoreClosedError: As `apply`; Spark then
                fails the batch, and repeats it when the stream is started again.
        """
        self._writer.apply_frame(Feed(df, source), check_id(self.name, batch_id))

    # Pull queries

    def as_of(self, batch_id: int) -> ViewAt:
        """Return the view as it was after a batch; if several had that id, after the last one.

        Raises:
            UnknownBatchError: No such batch was applied, or `history` is too short for it.
        """
        number = check_id(self.name, batch_id)
        with self._storage.lend_reader() as snapshot:
            batch = snapshot.batch_of(number)
            oldest, latest = snapshot.oldest_batch(), snapshot.latest_batch()
        if batch is not None:
            return ViewAt(self, batch.seq, number)
        known = "none"
        if oldest is not None and latest is not None:
            known = f"batches {oldest.batch_id} to {latest.batch_id}"
        msg = f"view {self.name!r}: the batch must be in the history, got {number}, and the history has {known}"
        raise UnknownBatchError(f"{msg}; raise history above {self.history} to keep more")

    @property
    def freshness(self) -> Freshness:
        """The position of the view: `(batch_id, watermark, lag)`."""
        with self._storage.lend_reader() as snapshot:
            latest = snapshot.latest_batch()
        if latest is None:
            return Freshness(None, None, None)
        since = latest.applied_at if latest.watermark is None else latest.watermark
        return Freshness(latest.batch_id, latest.watermark, self._clock() - since)

    def __bool__(self) -> bool:
        """Return True, also for an empty view."""
        return True

    def __iter__(self) -> NoReturn:
        msg = f"view {self.name!r}: iterating would read all of it; use query(allow_scan=True)"
        raise ScanDisabledError(msg)

    # Push queries

    def changes(
        self,
        key: Any = None,
        where: Where = None,
        start: Literal["latest", "earliest"] = "latest",
        limit: int | None = None,
        timeout: Timeout = None,
    ) -> Changes:
        """Subscribe to the changes that are made from now on.

        Args:
            key: Only changes of this key; None for all keys.
            where: Only changes of rows that meet this condition, in the forms that `query` takes.
                A row that begins to meet it is an insert, and a row that ceases to meet it is a
                delete.
            start: "latest" for new changes only; "earliest" for the changes in the history first.  Then
                the rows after the oldest batch come as inserts.
            limit: Close after this many changes; None for no end.
            timeout: Stop iterating when no change comes for this long, a timedelta or seconds; the
                iteration can go on later.  None waits forever.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
            StoreClosedError: The view is closed.
        """
        return self._changes(self._writer.subscribe, key, where, start, limit, timeout)

    def _changes(
        self,
        subscribe: Callable[[RowFilter, bool], tuple[ChangeSource, Replay | None]],
        key: Any,
        where: Where,
        start: str,
        limit: int | None,
        timeout: Timeout,
    ) -> Changes:
        data = None if key is None else to_key_bytes(key)
        wanted = RowFilter(data, Condition(where, self.key_columns))
        check_limit(limit)
        wait = seconds(timeout)
        check_choice(start, ("latest", "earliest"), "start")
        return Changes(*subscribe(wanted, start == "latest"), limit, wait)

    # Checking and closing

    def verify(self) -> None:
        """Read and check all rows, as they are now and after the history's oldest batch.

        Raises:
            CorruptStateError: A row differs from what was written.
            StoreClosedError: The view is closed.
        """
        with self._storage.lend_reader() as snapshot:
            for _ in snapshot.rows():
                pass
            oldest = snapshot.oldest_batch()
            for _ in () if oldest is None else snapshot.rows(oldest.seq):
                pass

    def close(self) -> None:
        """Close the storage, and end all subscriptions; changes that they hold can still be taken."""
        self._writer.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_declaration(
    name: Any, key: Any, order_by: Any, event_time: str | None, history: Any
) -> BatchReader:
    """Check the declaration of a view, and return the reader of its rows.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
    """
    check_name(name)
    keys = check_columns(name, "key", key)
    orders = () if order_by is None else check_columns(name, "order_by", order_by)
    check_count(name, "history", history)
    return BatchReader(name, keys, orders, event_time)


def _reopened(made_with: partial[Any]) -> Any:
    SERVED.remember_session()
    return made_with()


class Freshness(NamedTuple):
    """The position of a view: which batch it shows, and how old its rows are.

    Args:
        batch_id: The id of the last batch; None before the first.
        watermark: The event time that the view has reached, in ms since the epoch; None if it is unknown.
        lag: The age of the rows that the view shows, in ms: the time since the watermark or,
            without one, since the last batch was applied.  None before the first batch.
    """

    batch_id: int | None
    watermark: int | None
    lag: int | None


# Checks of arguments


def check_name(name: Any) -> str:
    """Check the name of a view: a name that a file can have."""
    if not isinstance(name, str):
        msg = f"the name of a view must be a str, got {short_repr(name)}; name it"
        raise DeclarationTypeError(msg)
    if not name or any(mark in name for mark in "/\\\0") or not _is_unicode(name):
        msg = f"the name of a view must be a valid file name, got {short_repr(name)}; rename it"
        raise DeclarationValueError(msg)
    return name


def check_columns(view: str, what: str, given: Any) -> tuple[str, ...]:
    """Return the names of one column or several as a tuple."""
    columns = (given,) if isinstance(given, str) else given
    if not isinstance(columns, Sequence) or not all(isinstance(each, str) for each in columns):
        msg = f"view {view!r}: {what} must be the name of a column or several, got {short_repr(given)}"
        raise DeclarationTypeError(f"{msg}; for example {what}='id'")
    if not all(map(_is_unicode, columns)):
        msg = f"view {view!r}: {what} must be valid Unicode, got {short_repr(given)}; rename the column"
        raise DeclarationValueError(msg)
    if not columns or len(set(columns)) < len(columns):
        msg = f"view {view!r}: {what} must name columns that differ, got {short_repr(given)}; name each once"
        raise DeclarationValueError(msg)
    return tuple(columns)


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded, which lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_count(view: str, what: str, given: Any) -> int:
    """Check an int of at least 1, and return it."""
    if not is_int(given) or given < 1:
        msg = f"view {view!r}: {what} must be an int of at least 1, got {short_repr(given)}; for example 100"
        raise DeclarationValueError(msg)
    return given


def check_id(view: str, batch_id: Any) -> int:
    """Return a batch id as an int.

    Raises:
        StateValueError: The id is not an int of 64 bits.
    """
    try:
        number = operator.index(batch_id)
    except TypeError:
        number = None
    if isinstance(batch_id, bool) or not is_int64(number):
        msg = f"view {view!r}: a batch id must be an int of 64 bits, got {short_repr(batch_id)}; count batches"
        raise StateValueError(msg)
    return number
