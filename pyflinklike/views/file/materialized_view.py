# SPDX-License-Identifier: Apache-2.0
"""A table by key in an SQLite file that a stream keeps up to date and any thread can query.

    view = MaterializedView("totals", key="user", path="/data/views")
    query = totals.writeStream.foreachBatch(view.foreach_batch).start()
    view.get("ann")                                          # a pull query
    with view.changes(where={"user": "ann"}) as changes:     # a push query
        for change in changes:
            ...

Rules:

* A batch is one transaction: its rows, the rows that they replace and its id are written together or not
  at all.  So a batch that is sent again is recognised and ignored.
* One thread at a time applies batches.  After the commit it publishes to subscribers, and may wait
  for a slow one; readers, new subscribers and `close` never wait for that thread.
* Readers see only what is committed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pyflinklike._clock import wall_clock
from pyflinklike.views.arguments import check_choice, check_count, check_id, file_of
from pyflinklike.views.batch_frame import BatchFrame, Feed
from pyflinklike.views.condition import Where
from pyflinklike.views.file.file_database import FileDatabase
from pyflinklike.views.file.file_writer import OVERFLOWS, FileWriter, Queue
from pyflinklike.views.subscription import Changes, Replay, RowFilter, Timeout
from pyflinklike.views.view import View, read_declaration

__all__ = ["MaterializedView"]


class MaterializedView(View):
    """A durable table by key, in an SQLite file, fed by batches.

    Any number of threads may use it, and other processes may open it, also by unpickling it.

    Args:
        name: The name of the view; it stays with the file.
        key: The column of the key, or several.  With one column a key is its plain value, with
            several it is a tuple.
        order_by: The column, or several, by which plain rows of a key are ordered.  A row is dropped if
            its order is not greater than the order of the row that it would replace.  None means by
            arrival.  Changes are in order already, so it does not apply to them.
        path: A directory, in which the file has the view's name, or a file that ends in .db,
            .sqlite or .sqlite3.  It must be on a local disk: SQLite's WAL needs shared memory.
        history: The number of batches, the last one included, to which `as_of` and
            `changes(start="earliest")` can go back.
        event_time: The column with the event time of a row, a datetime (a naive one in the
            session's time zone, or in UTC without a session) or ms since the epoch.  None
            takes `order_by`, if that is one column of datetimes.
        clock: Returns the time in ms since the epoch; None for the system's.
        verified: True checks the whole of an existing file when it is opened, which takes one to
            two seconds for a million rows.  False checks only rows that are read, and a lookup may miss a
            row that damage has hidden.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
        CorruptStateError: The file is damaged, or is not a view's file.
        IncompatibleStateError: The file belongs to another view, or has another key.
        StateStoreError: The file cannot be opened.
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
        incoming = read_declaration(name, key, order_by, event_time, history)
        clock = clock or wall_clock
        file = file_of(name, path)
        self._database = FileDatabase(file, name, incoming.key_columns, verified=verified)
        super().__init__(incoming, history, clock, self._database)
        self.path = self._database.file
        """The view's file."""
        self._writer = FileWriter(self._database, incoming, history, clock)

    # Applying batches

    def apply(
        self, rows: Iterable[Any], batch_id: int, *, watermark: int | dt.datetime | None = None
    ) -> bool:
        """Apply a batch: all of it, durably, or nothing.

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
            StateValueError: A row or the batch id has a form that no view takes.
            StoreClosedError: The view is closed.
        """
        number = check_id(self.name, batch_id)
        return self._writer.apply(rows, number, watermark=watermark)

    def foreach_batch(self, df: BatchFrame, batch_id: int, source: str | None = None) -> None:
        """Apply a micro-batch, for `writeStream.foreachBatch`, or a static DataFrame.

        Batch ids count per stream.  A stream with a new checkpoint begins again at 0, and its
        batches are not mistaken for batches of the stream before.

        Args:
            df: Spark's DataFrame, whose rows are collected by the driver.
            batch_id: The id that Spark gives the batch.
            source: The name of the stream; None takes Spark's id, which stays with its checkpoint.
                Over Spark Connect a name is needed if several streams run in a session.

        Raises:
            DeclarationTypeError: `df` is not a DataFrame.
            SparkSetupError: Over Spark Connect, the stream cannot be distinguished from others.
            NullKeyError, StateValueError, StoreClosedError: As `apply`; Spark then fails the batch
                and repeats it.
        """
        feed = Feed(df, source)
        number = check_id(self.name, batch_id)
        # Read even for a batch that was applied before: a stateful stream cannot commit a batch whose rows
        # are not read.
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

        Changes wait from this call on, however late the first one is taken.

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
            queue_size: How many changes may wait to be taken.
            overflow: The treatment of one more change: "block" makes the writer wait, "drop_oldest"
                drops the oldest (`Changes.dropped` counts them), "error" ends the subscription with
                a QueueOverflowError.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
            StoreClosedError: The view is closed.
        """
        check_choice("overflow", overflow, OVERFLOWS)
        size = check_count(self.name, "queue_size", queue_size)
        subscribe = partial(self._subscribe, size=size, overflow=overflow)
        return self._changes(subscribe, key, where, start, limit, timeout)

    def _subscribe(
        self, wanted: RowFilter, is_latest: bool, size: int = 1000, overflow: str = "block"
    ) -> tuple[Queue, Replay | None]:
        queue = Queue(wanted, size, overflow)
        return queue, self._writer.subscribe(queue, None if is_latest else wanted)

    # Checking and closing

    def verify(self) -> None:
        """Check the whole file, as opening it does.

        Raises:
            CorruptStateError: Something in the file differs from what was written.
            StoreClosedError: The view is closed.
        """
        self._database.verify()

    def close(self) -> None:
        """Close the file, and end all subscriptions; changes that they hold can still be taken.

        A writer that is waiting for room in a queue stops waiting.  The changes that it did not
        publish are committed; a subscription with start="earliest" has them.
        """
        self._writer.close()

    def __repr__(self) -> str:
        return f"MaterializedView({self.name!r}, key={list(self.key_columns)}, path={str(self.path)!r})"
