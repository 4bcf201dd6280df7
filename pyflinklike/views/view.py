# SPDX-License-Identifier: Apache-2.0
"""The interface of every view, whatever its storage.

Code that only queries takes a `View`, so it works with a `MaterializedView` and with a `PostgresView`.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar

from pyflinklike.errors import ScanDisabledError
from pyflinklike.views.arguments import (
    check_choice,
    check_columns,
    check_count,
    check_id,
    check_limit,
    check_name,
)
from pyflinklike.views.batch_frame import SERVED, BatchFrame
from pyflinklike.views.condition import Condition, Where
from pyflinklike.views.incoming_rows import BatchReader
from pyflinklike.views.pull_query import PullQuery, ViewAt, read_batch
from pyflinklike.views.row_codec import to_key_bytes
from pyflinklike.views.subscription import (
    Changes,
    ChangeSource,
    Replay,
    RowFilter,
    Timeout,
    seconds,
)
from pyflinklike.views.view_storage import AppliedBatch, ViewStorage

__all__ = ["Freshness", "View", "read_declaration"]


_Self = TypeVar("_Self", bound="View")


class Reopened:
    """An object that is pickled as the arguments of its constructor, and opened again from them.

    Over Spark Connect the function of `foreachBatch` is pickled to a Python process of the server,
    with the view that it holds.  An open table cannot be pickled, but the arguments
    that open it can.  A `path` among them becomes absolute, since the other process may be in another
    directory.
    """

    _made_with: partial[Any]

    def __new__(cls: type[_View], *args: Any, **named: Any) -> _View:
        """Remember the arguments, which `__init__` then checks."""
        made = super().__new__(cls)
        if isinstance(named.get("path"), (str, Path)):
            named["path"] = Path(named["path"]).absolute()
        made._made_with = partial(cls, *args, **named)
        return made

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any]]:
        return _reopened, (self._made_with,)


class View(PullQuery, Reopened, ABC):
    """A durable table by key that batches keep up to date and any thread can query.

    It can be pickled to another process, which opens it again.

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
    """

    def __init__(
        self, incoming: BatchReader, history: int, clock: Callable[[], int], storage: ViewStorage
    ) -> None:
        super().__init__(storage, incoming.view, incoming.key_columns)
        self.history = history
        self._clock = clock

    # Applying batches

    @abstractmethod
    def apply(
        self, rows: Iterable[Any], batch_id: int, *, watermark: int | dt.datetime | None = None
    ) -> bool:
        """Apply a batch: all of it, durably, or nothing; return False if it was applied before."""

    @abstractmethod
    def foreach_batch(self, df: BatchFrame, batch_id: int, source: str | None = None) -> None:
        """Apply a micro-batch, for `writeStream.foreachBatch`, or a static DataFrame."""

    # Pull queries

    def as_of(self, batch_id: int) -> ViewAt:
        """Return the view as it was after a batch; if several had that id, after the last one.

        Raises:
            UnknownBatchError: No such batch was applied, or `history` is too short for it.
        """
        number = check_id(self.name, batch_id)
        batch = read_batch(self._storage, self.name, number, self.history)
        return ViewAt(self, batch.seq, number)

    @property
    def freshness(self) -> Freshness:
        """The position of the view: `(batch_id, watermark, lag)`."""
        with self._storage.lend_reader() as snapshot:
            latest = snapshot.latest_batch()
        return freshness_of(latest, self._clock())

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
        return self._changes(self._subscribe, key, where, start, limit, timeout)

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
        check_choice("start", start, ("latest", "earliest"))
        return Changes(*subscribe(wanted, start == "latest"), limit, wait)

    @abstractmethod
    def _subscribe(self, wanted: RowFilter, is_latest: bool) -> tuple[ChangeSource, Replay | None]:
        """Return the source of new changes, and the changes of the past or None."""

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
            for _ in () if oldest is None else snapshot.rows_at_seq(oldest.seq):
                pass

    @abstractmethod
    def close(self) -> None:
        """Release the view's resources, and end all subscriptions."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_View = TypeVar("_View", bound="Reopened")


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


def freshness_of(latest: AppliedBatch | None, now: int) -> Freshness:
    """Return the freshness of a view.

    Args:
        latest: The last batch; None before the first one.
        now: The time in ms since the epoch.
    """
    if latest is None:
        return Freshness(None, None, None)
    since = latest.applied_at if latest.watermark is None else latest.watermark
    return Freshness(latest.batch_id, latest.watermark, now - since)
