# SPDX-License-Identifier: Apache-2.0
"""`MaterializedView`: a table that a stream keeps up to date and any thread can query.

    view = MaterializedView("totals", key="user", path="/data/views")
    query = totals.writeStream.foreachBatch(view.foreach_batch).start()
    view.get("ann")                                          # a pull query
    with view.changes(where={"user": "ann"}) as changes:     # a push query
        for change in changes:
            ...

The rules, and where they are kept:

* A batch is one transaction (`database`): its rows, the rows they replace and its id are
  written together or not at all, so a batch that is sent again is recognised and ignored.
* One thread at a time applies batches (`writer`).  It publishes to subscribers after the
  commit (`subscription`) and may wait there for a slow one; readers, new subscribers and `close`
  never wait for it.
* Readers see only what is committed (`reading`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pyflinklike.clock import wall_clock
from pyflinklike.views.core.arguments import (
    check_choice,
    checked_columns,
    checked_count,
    checked_id,
    checked_limit,
    checked_name,
    file_of,
)
from pyflinklike.views.core.base import View
from pyflinklike.views.core.change import Filter
from pyflinklike.views.core.frames import BatchFrame, Feed
from pyflinklike.views.core.incoming import BatchReader
from pyflinklike.views.core.row_codec import to_key_bytes
from pyflinklike.views.core.subscription import Changes, Timeout, seconds
from pyflinklike.views.core.where import Condition, Where
from pyflinklike.views.file.database import Database
from pyflinklike.views.file.queue import OVERFLOWS, Queue
from pyflinklike.views.file.writer import Writer

__all__ = ["MaterializedView"]


class MaterializedView(View):
    """A durable table by key, in an SQLite file, fed by batches.

    Any number of threads may use it, and other processes may open it, also by unpickling it.

    Args:
        name: Of the view; it stays with the file.
        key: The column of the key, or several.  Keys of one column are its plain values, of
            several tuples.
        order_by: The column, or several, that plain rows of a key are ordered by: a row whose
            order is not greater than that of the row it would replace is dropped.  None means
            by arrival.  Changes are in order already, so it does not apply to them.
        path: A directory, in which the file has the view's name, or a file that ends in
            .db, .sqlite or .sqlite3.  On a local disk: SQLite's WAL needs shared memory.
        history: How many batches back, the last one included, `as_of` and
            `changes(start="earliest")` can go.
        event_time: The column that tells the event time of a row, a datetime (a naive one in the
            session's time zone, in UTC where there is no session) or ms since the epoch.  By
            default `order_by`, where that is one column of datetimes.
        clock: Gives the time in ms since the epoch; None for the system's.
        verified: Whether an existing file is checked as a whole when it is opened, which takes
            one to two seconds for a million rows.  Otherwise only what is read is checked, and
            a lookup may miss a row that damage has hidden.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
        CorruptStateError: The file is damaged, or is not a view's file.
        IncompatibleStateError: It belongs to another view, or has another key.
        StateStoreError: It cannot be opened.
    """

    def __init__(
        self,
        name: str,
        *,
        key: str | Sequence[str],
        order_by: str | Sequence[str] | None = None,
        path: str | Path,
        history: int = 100,
        event_time: str | None = None,
        clock: Callable[[], int] | None = None,
        verified: bool = True,
    ) -> None:
        checked_name(name)
        key_columns = checked_columns(name, "key", key)
        order_columns = () if order_by is None else checked_columns(name, "order_by", order_by)
        checked_count(name, "history", history)
        clock = clock or wall_clock
        incoming = BatchReader(name, key_columns, order_columns, event_time)
        self._database = Database(file_of(name, path), name, key_columns, verified=verified)
        super().__init__(name, key_columns, history, clock, self._database)
        self.path = self._database.file
        """The view's file."""
        self._writer = Writer(self._database, incoming, history, clock)

    # Applying batches

    def apply(
        self, rows: Iterable[Any], batch_id: int, *, watermark: int | dt.datetime | None = None
    ) -> bool:
        """Apply a batch: all of it, durably, or nothing.

        Args:
            rows: Changes or plain rows; `pyflinklike.views.core.incoming` tells their forms.
            batch_id: A batch that was applied before is ignored; its rows are not read.
            watermark: How far event time has come, if the caller knows.

        Returns:
            Whether it was applied; False for one seen before.

        Raises:
            NullKeyError: A row has no key.
            StateValueError: A row, or the batch id, is of no form a view takes.
            StoreClosedError: The view is closed.
        """
        number = checked_id(self.name, batch_id)
        return self._writer.apply(rows, number, watermark=watermark)

    def foreach_batch(self, df: BatchFrame, batch_id: int, source: str | None = None) -> None:
        """Apply a micro-batch, for `writeStream.foreachBatch`, or a static DataFrame.

        Batch ids count per stream: a stream with a new checkpoint begins again at 0, and its
        batches are not mistaken for those of the stream before.

        Args:
            df: Spark's DataFrame, whose rows are collected by the driver.
            batch_id: As Spark gives it.
            source: Names the stream; by default it goes by Spark's id, which its checkpoint keeps.
                Over Spark Connect it is needed where several run in a session.

        Raises:
            DeclarationTypeError: It is not a DataFrame.
            HostError: Over Spark Connect, the stream cannot be told from others.
            NullKeyError, StateValueError, StoreClosedError: As `apply`; Spark then fails the
                batch and repeats it.
        """
        feed = Feed(df, source)
        number = checked_id(self.name, batch_id)
        # Also of a batch seen before: what is not read of a stateful stream fails its commit.
        rows = feed.rows()
        self._writer.apply(
            rows, number, source=feed.source, zone=feed.zone, watermark=feed.watermark
        )

    # Push queries

    def changes(
        self,
        key: Any = None,
        where: Where = None,
        start: Literal["latest", "earliest"] = "latest",
        limit: int | None = None,
        timeout: Timeout = None,
        queue_size: int = 1000,
        overflow: Literal["block", "drop_oldest", "error"] = "block",
    ) -> Changes:
        """Subscribe to the changes that are made from now on.

        They are kept from this call on, however late the first one is asked for.

        Args:
            key: Only changes of this key.
            where: Only changes of rows that meet this condition, which `query` explains.  A row
                that begins to meet it is an insert, one that ceases to is a delete.
            start: "latest" for new changes only; "earliest" for those in the history first.
                The rows that the oldest batch of the history left come as inserts.
            limit: Close after this many changes.
            timeout: Stop iterating when no change comes for this long, a timedelta or seconds;
                it can be iterated over again.
            queue_size: How many changes may wait to be taken.
            overflow: What happens to one more: "block" makes the writer wait, "drop_oldest"
                drops one (`Changes.dropped` counts them), "error" ends the subscription with a
                QueueOverflowError.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
            StoreClosedError: The view is closed.
        """
        wanted = Filter(
            None if key is None else to_key_bytes(key), Condition(where, self.key_columns)
        )
        checked_limit(limit)
        wait = seconds(timeout)
        check_choice("start", start, ("latest", "earliest"))
        check_choice("overflow", overflow, OVERFLOWS)
        queue = Queue(wanted, checked_count(self.name, "queue_size", queue_size), overflow)
        replay = self._writer.subscribe(queue, wanted if start == "earliest" else None)
        return Changes(queue, replay, limit, wait)

    # Checking and closing

    def verify(self) -> None:
        """Check the whole file, as opening it does.

        Raises:
            CorruptStateError: Something in it is not what was written.
            StoreClosedError: The view is closed.
        """
        self._database.verify()

    def close(self) -> None:
        """Close the file, and end all subscriptions, which still give the changes they hold.

        A writer that is waiting for room in a queue stops waiting.  What it did not publish is
        committed; subscribing with start="earliest" gives it.
        """
        self._writer.close()

    def __repr__(self) -> str:
        return f"MaterializedView({self.name!r}, key={list(self.key_columns)}, path={str(self.path)!r})"
