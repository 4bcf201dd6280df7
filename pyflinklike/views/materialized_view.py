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
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import attrs

from pyflinklike._checks import check_choice
from pyflinklike._clock import wall_clock
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, PyflinklikeError, StateStoreError
from pyflinklike.views.batch_frame import Feed
from pyflinklike.views.file_database import FileDatabase
from pyflinklike.views.file_tables import Connection, Damage
from pyflinklike.views.incoming_rows import Arrival, BatchReader, final_row, to_ms
from pyflinklike.views.pull_query import Where
from pyflinklike.views.subscription import OVERFLOWS, Changes, Queue, Replay, RowFilter, Timeout
from pyflinklike.views.view import View, check_count, read_declaration
from pyflinklike.views.view_storage import NO_BATCH, AppliedBatch, RowChange

_FILE_SUFFIXES = {".db", ".sqlite", ".sqlite3"}


class MaterializedView(View):
    """A durable table by key, in an SQLite file, fed by batches.

    Any number of threads may use it, and other processes may open it, also by unpickling it.

    Example:
        ```python
        totals = MaterializedView("totals", key="user", path="/data/views")
        result.writeStream.foreachBatch(totals.foreach_batch)
        totals.get("ann")
        ```

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
        self._files = FileWriter(self._database, incoming, history, clock)
        super().__init__(incoming, history, clock, self._database, self._files)
        self.path = self._database.file
        """The view's file."""

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
        check_choice(overflow, OVERFLOWS, "overflow")
        size = check_count(self.name, "queue_size", queue_size)
        subscribe = partial(self._files.subscribe, size=size, overflow=overflow)
        return self._changes(subscribe, key, where, start, limit, timeout)

    def verify(self) -> None:
        """Check the whole file, as opening it does.

        Raises:
            CorruptStateError: Something in the file differs from what was written.
            StoreClosedError: The view is closed.
        """
        self._database.verify()

    def __repr__(self) -> str:
        return f"MaterializedView({self.name!r}, key={list(self.key_columns)}, path={str(self.path)!r})"


def file_of(name: str, path: str | Path) -> Path:
    """Return the file of a view: the path itself if it names a file, else one in that directory."""
    if not isinstance(path, (str, Path)):
        msg = f"view {name!r}: path must be a str or a Path, got {short_repr(path)}"
        raise DeclarationTypeError(f"{msg}; name a directory")
    file = Path(path).absolute()  # readers open it later, when the process may be elsewhere
    is_file = file.is_file() or (file.suffix in _FILE_SUFFIXES and not file.is_dir())
    return file if is_file else file / f"{name}.sqlite"


# The one writer of a view's file: it commits batches, and publishes them to the subscribers
#
# There are two locks, taken in this order:
#
# * `_applying` is held for a whole batch, even while the writer waits for room in a queue.
# * `_subscribing` is held only during a commit, never while waiting.  So a new subscriber gets each
#   batch as a whole, either in its queue or in its replay of the past.


@attrs.define(eq=False)
class FileWriter:
    """Applies the batches of a view, and publishes them.

    Args:
        database: The open file of the view.
        incoming: Reads the rows of batches.
        history: The length of the history in batches.
        clock: Returns the time in ms since the epoch.
    """

    _database: FileDatabase
    _incoming: BatchReader
    _history: int
    _clock: Callable[[], int]
    _applying: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _subscribing: threading.RLock = attrs.field(init=False, factory=threading.RLock)
    _queues: list[Queue] = attrs.field(init=False, factory=list)

    def apply(
        self, rows: Iterable[Any], batch_id: int, watermark: int | dt.datetime | None
    ) -> bool:
        """Apply rows of this process."""
        return self._apply(rows, "", batch_id, watermark, dt.timezone.utc)

    def apply_frame(self, feed: Feed, batch_id: int) -> None:
        """Apply a DataFrame, whose rows the driver collects."""
        # Read even for a batch that was applied before: a stateful stream cannot commit a batch whose rows
        # are not read.
        rows = feed.rows()
        self._apply(rows, feed.source, batch_id, feed.watermark, feed.zone)

    def _apply(
        self,
        rows: Iterable[Any],
        source: str,
        batch_id: int,
        watermark: int | dt.datetime | None,
        zone: dt.tzinfo,
    ) -> bool:
        reached = None if watermark is None else to_ms(watermark, zone)
        with self._applying:
            with self._database.lend_reader() as connection:
                if connection.is_seen(source, batch_id):
                    return False
            arrivals = self._incoming.read(rows)
            latest = _latest_time(arrivals, zone, reached)
            batch = NO_BATCH._replace(source=source, batch_id=batch_id, watermark=latest)
            return self._commit_and_publish(arrivals, batch)

    def _commit_and_publish(self, arrivals: list[Arrival], batch: AppliedBatch) -> bool:
        """Commit a batch and publish its changes; return False if another process has applied it.

        If this is interrupted after the commit, each subscriber that did not get all of the batch
        ends with an error, so that no subscriber misses changes without notice.
        """
        unserved: list[Queue] = []
        written = None
        try:
            with self._subscribing:
                self._queues = self._live_queues()
                # Queues that may be full come last, so that the others need not wait for them.
                unserved = sorted(self._queues, key=lambda queue: queue.waits)
                written = self._write(arrivals, batch)
            if written is None:
                return False
            changes, batch = written
            while unserved:
                unserved[0].publish(changes, batch.applied_at)
                del unserved[0]
        except BaseException:
            if unserved and self._is_committed(batch):
                _fail(unserved)
            raise
        finally:
            if written is not None:
                self._database.acknowledge(written[1].seq)
        return True

    def subscribe(
        self, wanted: RowFilter, is_latest: bool, size: int = 1000, overflow: str = "block"
    ) -> tuple[Queue, Replay | None]:
        """Publish to a new queue from now on; also return the past, if it is wanted and there was a batch.

        Raises:
            StoreClosedError: The view is closed.
        """
        queue = Queue(wanted, size, overflow)
        with self._subscribing:
            with self._database.lend_reader():  # raises if the view is closed
                replay = None if is_latest else self._replay(wanted)
            self._queues = [*self._live_queues(), queue]
        return queue, replay

    def close(self) -> None:
        """End all subscriptions, and close the file; changes that queues hold can still be taken.

        A writer that is waiting for room in a queue stops waiting.  The changes that it did not
        publish are committed; a subscription with start="earliest" has them.
        """
        self._end_subscriptions()  # so that a waiting writer continues
        with self._applying, self._subscribing:
            self._end_subscriptions()  # subscriptions that began in the meantime
            self._database.close()

    def _write(
        self, arrivals: list[Arrival], batch: AppliedBatch
    ) -> tuple[list[RowChange], AppliedBatch] | None:
        """Commit a batch; return its changes and its line, or None if it was applied before."""
        with self._database.lend_writer() as connection:
            # Another process may have applied it in the meantime.
            if connection.is_seen(batch.source, batch.batch_id):
                return None
            changes = self._changes(connection, arrivals)
            latest = connection.latest_batch()
            batch = batch.after(latest, self._clock())
            write_batch(connection, batch, latest, changes, self._history)
        return changes, batch

    def _is_committed(self, batch: AppliedBatch) -> bool:
        """Return whether a batch was committed despite an error; True if that is unknown."""
        try:
            with self._database.lend_reader() as connection:
                return connection.is_seen(batch.source, batch.batch_id)
        except PyflinklikeError:
            return True

    def _changes(self, connection: Connection, arrivals: list[Arrival]) -> list[RowChange]:
        """Return the changes of a batch, in the order in which its keys arrived."""
        by_key: dict[bytes, list[Arrival]] = {}
        for arrival in arrivals:
            by_key.setdefault(arrival.key, []).append(arrival)
        stored = connection.rows_of(by_key)
        order_of = self._incoming.order_of_stored if self._incoming.order_columns else None
        return [
            RowChange(key, stored.get(key), after)
            for key, mine in by_key.items()
            if (after := final_row(stored.get(key), mine, order_of)) != stored.get(key)
        ]

    def _live_queues(self) -> list[Queue]:
        return [queue for queue in self._queues if not queue.ended]

    def _replay(self, wanted: RowFilter) -> Replay | None:
        connection = self._database.open_detached_reader()
        oldest = connection.oldest_batch()
        if oldest is None:
            connection.close()
            return None
        changes = connection.replay(oldest, wanted.key)
        return Replay(connection, changes, wanted, self._database.make_error)

    def _end_subscriptions(self) -> None:
        with self._subscribing:
            for queue in self._queues:
                queue.end()


def _latest_time(arrivals: Iterable[Arrival], zone: dt.tzinfo, reached: int | None) -> int | None:
    """Return the latest event time in ms, `reached` included.

    It must be a function of its own.  From 3.12 on, Python inlines comprehensions, and the `with` block
    around one does not guard its jump: the writer would keep its lock if it was interrupted just there.
    """
    times = [to_ms(each.event_time, zone) for each in arrivals if each.event_time is not None]
    return max((each for each in [reached, *times] if each is not None), default=None)


def _fail(queues: list[Queue]) -> None:
    msg = (
        "a subscriber must get whole batches, got a part of one, since the writer was interrupted; "
        "subscribe again from 'earliest'"
    )
    for queue in queues:
        queue.fail(StateStoreError(msg))


def write_batch(
    connection: Connection,
    batch: AppliedBatch,
    latest: AppliedBatch | None,
    changes: Sequence[RowChange],
    history: int,
) -> None:
    """Apply a batch, and delete history that is too old.

    Args:
        connection: A connection in a transaction.
        batch: The batch, with its fields up to `watermark`; this function fills in the others.
        latest: The batch before; None for the first.
        changes: At most one change for each key, in the order in which they are published.
        history: The length of the history in batches.
    """
    before = latest or NO_BATCH
    # B-trees are faster to write to in key order.
    placed = sorted(enumerate(changes), key=lambda each: each[1].key)
    size, rows_sum = _write_rows(connection, [change for _, change in placed])
    # Keep the rows before only if an older batch can be queried.
    is_logged = batch.seq > 1 and history > 1
    count, changes_sum = _log(connection, batch.seq, placed) if is_logged else (0, 0)
    grown, grown_sum = _see(connection, batch.source, batch.batch_id)
    oldest = max(before.oldest, batch.seq - history + 1)
    batch = batch._replace(
        size=before.size + size,
        rows_sum=before.rows_sum + rows_sum,
        changes=count,
        changes_sum=changes_sum,
        runs=before.runs + grown,
        runs_sum=before.runs_sum + grown_sum,
        oldest=oldest,
    )
    line = (*batch, connection.sums.of_line("batches", *batch))
    connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", line)
    connection.execute("DELETE FROM batches WHERE seq < ?", (oldest,))
    # The rows before the oldest batch lead to a state that no query can ask for.
    connection.execute("DELETE FROM changes WHERE seq <= ?", (oldest,))


def _write_rows(connection: Connection, changes: Sequence[RowChange]) -> tuple[int, int]:
    """Write rows, and return by how much their number and the sum of their checksums grew."""
    of_row = connection.sums.of_row
    put = [
        (each.key, each.after, of_row(each.key, each.after))
        for each in changes
        if each.after is not None
    ]
    gone = [(each.key,) for each in changes if each.after is None]
    replaced = [of_row(each.key, each.before) for each in changes if each.before is not None]
    connection.executemany(
        """INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT (key)
        DO UPDATE SET row = excluded.row, checksum = excluded.checksum""",
        put,
    )
    deleted = connection.executemany("DELETE FROM rows WHERE key = ?", gone).rowcount
    if gone and deleted != len(gone):
        msg = "rows that were read and cannot be deleted"
        raise Damage(msg)
    return len(put) - len(replaced), sum(each[2] for each in put) - sum(replaced)


def _log(
    connection: Connection, seq: int, placed: Sequence[tuple[int, RowChange]]
) -> tuple[int, int]:
    """Store the rows before, and return their number and the sum of their checksums."""
    of_line = connection.sums.of_line
    lines = []
    for position, change in placed:
        line = (change.key, seq, position, change.before)
        lines.append((*line, of_line("changes", *line)))
    connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", lines)
    return len(lines), sum(line[-1] for line in lines)


def _see(connection: Connection, source: str, batch_id: int) -> tuple[int, int]:
    """Add an id to the runs of ids, and join runs that are now adjacent.

    Returns:
        How much the number of runs and the sum of their checksums grew.
    """
    first = last = batch_id
    # The neighbours are compared in Python: the id after the greatest has more than 64 bits.
    below = "WHERE source = ? AND first < ? ORDER BY first DESC LIMIT 1"
    above = "WHERE source = ? AND first > ? ORDER BY first LIMIT 1"
    gone = [run for run in connection.runs(below, source, batch_id) if run.last == batch_id - 1]
    gone += [run for run in connection.runs(above, source, batch_id) if run.first == batch_id + 1]
    for run in gone:
        first, last = min(first, run.first), max(last, run.last)
        connection.execute("DELETE FROM seen WHERE source = ? AND first = ?", (source, run.first))
    checksum = connection.sums.of_line("seen", source, first, last)
    connection.execute("INSERT INTO seen VALUES (?, ?, ?, ?)", (source, first, last, checksum))
    return 1 - len(gone), checksum - sum(run.checksum for run in gone)
