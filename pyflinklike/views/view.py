# SPDX-License-Identifier: Apache-2.0
"""The interface of every view, whatever its storage.

Code that queries takes a `View`, and so serves a `MaterializedView` in a file as well as a
`PostgresView`.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar

from pyflinklike.errors import ScanDisabledError
from pyflinklike.views.arguments import check_id
from pyflinklike.views.batch_frame import SERVED, BatchFrame
from pyflinklike.views.condition import Where
from pyflinklike.views.pull_query import PullQuery, ViewAt, item, read_batch
from pyflinklike.views.subscription import Changes, Timeout
from pyflinklike.views.view_storage import AppliedBatch, ViewStorage

__all__ = ["Freshness", "View"]


_Self = TypeVar("_Self", bound="View")


class Reopened:
    """An object that is pickled as the arguments of its constructor, and opened again from them.

    Over Spark Connect the function of `foreachBatch` is pickled to a Python process of the server,
    and a view that it holds must get there.  An open table cannot be pickled, but the arguments
    that open it can.  A `path` among them becomes absolute: the other process may be in another
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


class View(Reopened, ABC):
    """A durable table by key that batches keep up to date and any thread can query.

    It can be pickled to another process, which opens it again.

    Args:
        name: The name of the view.
        key_columns: The columns that make its key.
        history: How many batches back `as_of` can go.
        clock: Returns the time in ms since the epoch.
        storage: The file or the tables that hold the view.
    """

    def __init__(
        self,
        name: str,
        key_columns: tuple[str, ...],
        history: int,
        clock: Callable[[], int],
        storage: ViewStorage,
    ) -> None:
        self.name = name
        self.key_columns = key_columns
        self.history = history
        self._clock = clock
        self._storage = storage
        self._now = PullQuery(storage, name, key_columns)

    # Applying batches

    @abstractmethod
    def apply(
        self, rows: Iterable[Any], batch_id: int, *, watermark: int | dt.datetime | None = None
    ) -> bool:
        """Apply a batch: all of it, durably, or nothing; False for a batch that was seen before."""

    @abstractmethod
    def foreach_batch(self, df: BatchFrame, batch_id: int, source: str | None = None) -> None:
        """Apply a micro-batch, for `writeStream.foreachBatch`, or a static DataFrame."""

    # Pull queries

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the row of a key as it was put in; the default where the key has none.

        Raises:
            StateValueError: The key is None, or cannot be a key.
            ValueDecodeError: The feed has an error in the place of the row.
        """
        return self._now.get(key, default)

    def __getitem__(self, key: Any) -> Any:
        """Return the row of a key; raise a KeyError where the key has none."""
        return item(self._now, key)

    def get_many(self, keys: Iterable[Any]) -> Mapping[Any, Any]:
        """Return the rows of those keys that have one, all of the same moment.

        Keys are compared as in the view: 1, 1.0 and True are three keys.
        """
        return self._now.get_many(keys)

    def query(
        self, where: Where = None, limit: int | None = None, allow_scan: bool = False
    ) -> list[Any]:
        """Return the rows that meet a condition, all of the same moment.

        Args:
            where: A mapping from columns to conditions: a value, a list or set of values, or a
                callable of the column.  Or a callable of the row; or None for all.
            limit: The greatest number of rows to return; None for all.
            allow_scan: True permits a read of the whole view.  A mapping with values for all key
                columns needs no scan.

        Raises:
            ScanDisabledError: The query needs a scan, and `allow_scan` is False.
            StateValueError: No row that was read has a column of that name.
            ValueDecodeError: The feed has an error in the place of a row that is asked for.
        """
        return self._now.query(where, limit, allow_scan=allow_scan)

    def as_of(self, batch_id: int) -> ViewAt:
        """Return the view as it was after a batch, the last one of that id.

        Raises:
            UnknownBatchError: No such batch was applied, or `history` is too short for it.
        """
        number = check_id(self.name, batch_id)
        batch = read_batch(self._storage, self.name, number, self.history)
        return ViewAt(PullQuery(self._storage, self.name, self.key_columns, batch.seq), number)

    @property
    def freshness(self) -> Freshness:
        """The position of the view: `(batch_id, watermark, lag)`."""
        with self._storage.lend_reader() as snapshot:
            latest = snapshot.latest_batch()
        return freshness_of(latest, self._clock())

    def __contains__(self, key: Any) -> bool:
        return self._now.has(key)

    def __len__(self) -> int:
        return self._now.size()

    def __bool__(self) -> bool:
        """Return True, also for an empty view."""
        return True

    def __iter__(self) -> NoReturn:
        msg = f"view {self.name!r}: iterating would read all of it; use query(allow_scan=True)"
        raise ScanDisabledError(msg)

    # Push queries

    @abstractmethod
    def changes(
        self,
        key: Any = None,
        where: Where = None,
        start: Literal["latest", "earliest"] = "latest",
        limit: int | None = None,
        timeout: Timeout = None,
    ) -> Changes:
        """Subscribe to the changes that are made from now on."""

    # Checking and closing

    @abstractmethod
    def verify(self) -> None:
        """Check that all stored rows are as they were written."""

    @abstractmethod
    def close(self) -> None:
        """Release the view's resources, and end all subscriptions."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_View = TypeVar("_View", bound="Reopened")


def _reopened(made_with: partial[Any]) -> Any:
    SERVED.remember_session()
    return made_with()


class Freshness(NamedTuple):
    """The position of a view.

    Args:
        batch_id: The id of the last batch; None before the first.
        watermark: How far event time has come, in ms since the epoch; None if it is unknown.
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
