# SPDX-License-Identifier: Apache-2.0
"""The one writer of a view's file: it commits batches, and publishes them to the subscribers.

There are two locks, taken in this order:

* `_applying` is held for a whole batch, even while the writer waits for room in a queue.
* `_subscribing` is held only during a commit, never while waiting.  So a new subscriber gets each batch as a
  whole, either in its queue or in its replay of the past.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyflinklike.errors import PyflinklikeError, QueueOverflowError, StateStoreError
from pyflinklike.views.arguments import to_ms
from pyflinklike.views.file.file_database import FileDatabase
from pyflinklike.views.file.file_tables import NO_BATCH, Connection, Damage
from pyflinklike.views.incoming_rows import Arrival, BatchReader, final_row
from pyflinklike.views.row_codec import decode_row
from pyflinklike.views.subscription import Change, Replay, RowFilter
from pyflinklike.views.view_storage import AppliedBatch, RowChange

__all__ = ["OVERFLOWS", "FileWriter", "Queue", "write_batch"]


class FileWriter:
    """Applies the batches of a view.

    Args:
        database: The open file of the view.
        incoming: Reads the rows of batches.
        history: The length of the history in batches.
        clock: Returns the time in ms since the epoch.
    """

    def __init__(
        self, database: FileDatabase, incoming: BatchReader, history: int, clock: Callable[[], int]
    ) -> None:
        self._database = database
        self._incoming = incoming
        self._history = history
        self._clock = clock
        self._applying = threading.Lock()
        self._subscribing = threading.RLock()
        self._queues: list[Queue] = []

    def apply(
        self,
        rows: Iterable[Any],
        batch_id: int,
        *,
        source: str = "",
        zone: dt.tzinfo = dt.timezone.utc,
        watermark: int | dt.datetime | None = None,
    ) -> bool:
        """Apply a batch, as `MaterializedView.apply` does.

        Args:
            rows: Changes or plain rows.
            batch_id: The number of the batch in its source.
            source: The stream of the batch; "" if it comes from no stream.
            zone: The time zone of naive event times.
            watermark: The event time that the stream has reached; None if it is unknown.
        """
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

    def subscribe(self, queue: Queue, past: RowFilter | None) -> Replay | None:
        """Publish to a queue from now on.

        Args:
            queue: The queue of the subscriber.
            past: The changes of the past that the subscriber wants to see; None if it wants only new ones.

        Returns:
            The changes of the past, if they are wanted and there was a batch.

        Raises:
            StoreClosedError: The view is closed.
        """
        with self._subscribing:
            with self._database.lend_reader():  # raises if the view is closed
                replay = None if past is None else self._replay(past)
            self._queues = [*self._live_queues(), queue]
        return replay

    def close(self) -> None:
        """End all subscriptions, and close the file."""
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
        order_of = self._order_of if self._incoming.order_columns else None
        return [
            RowChange(key, stored.get(key), after)
            for key, mine in by_key.items()
            if (after := final_row(stored.get(key), mine, order_of)) != stored.get(key)
        ]

    def _order_of(self, row: bytes) -> tuple[Any, ...] | None:
        return self._incoming.order_of(decode_row(row))

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


# The queue of a subscriber
#
# Either side may wait: the writer for room, and the subscriber for a change.  Both wake when the
# queue ends.


OVERFLOWS = ("block", "drop_oldest", "error")
"""The treatments of a change for which a queue has no room."""


class Queue:
    """Changes between the writer and one subscriber.

    Args:
        wanted: The changes that go in.
        size: How many changes may wait.
        overflow: The treatment of one more change: "block", "drop_oldest" or "error".
    """

    def __init__(self, wanted: RowFilter, size: int, overflow: str) -> None:
        self._wanted = wanted
        self._size = size
        self._overflow = overflow
        self._changes: deque[Change] = deque()
        self._moved = threading.Condition(threading.RLock())  # close may come from a finalizer
        self._error: Exception | None = None
        self.ended = False
        """True once no more changes will be added."""
        self.closed = False
        """True once the subscriber is gone."""
        self.dropped = 0
        """The number of changes that were dropped because the queue was full."""

    @property
    def waits(self) -> bool:
        """True if publishing may wait for room."""
        return self._overflow == "block"

    def publish(self, changes: Iterable[RowChange], ts: int) -> None:
        """Add the changes of a batch; this may wait for room.

        The writer calls it.  It raises nothing: an error goes to the subscriber.
        """
        for raw in changes:
            if self.ended:
                return
            try:
                change = self._wanted.change(raw, ts)
            except PyflinklikeError as error:
                self.fail(error)
                return
            if change is not None:
                self._add(change)

    def _add(self, change: Change) -> None:
        with self._moved:
            if self.waits:
                self._moved.wait_for(lambda: self.ended or len(self._changes) < self._size)
            if self.ended:
                return
            if len(self._changes) >= self._size:
                if self._overflow == "error":
                    self.fail(self._make_overflow_error())
                    return
                self._changes.popleft()
                self.dropped += 1
            self._changes.append(change)
            self._moved.notify_all()

    def take(self, wait: float | None) -> Change | None:
        """Return the next change; None if the queue has ended, or if none comes in time.

        Raises:
            QueueOverflowError: The queue has overflowed, and all changes that it held are taken.
            StateStoreError: The writer was interrupted.
            UserFunctionError: The condition raised an error.
        """
        with self._moved:
            self._moved.wait_for(lambda: self._changes or self.ended, wait)
            if self.closed:
                return None
            if self._changes:
                change = self._changes.popleft()
                self._moved.notify_all()
                return change
            if self._error is not None:
                raise self._error
            return None

    def end(self) -> None:
        """Add no more changes; changes in the queue can still be taken."""
        with self._moved:
            self.ended = True
            self._moved.notify_all()

    def close(self) -> None:
        """Drop all changes: the subscriber is gone."""
        with self._moved:
            self.ended = self.closed = True
            self._changes.clear()
            self._moved.notify_all()

    def fail(self, error: Exception) -> None:
        """Add no more changes; once the changes in the queue are taken, `take` raises this error."""
        with self._moved:
            if not self.ended:
                self._error = error
                self.end()

    def _make_overflow_error(self) -> QueueOverflowError:
        msg = f"a subscriber must keep up, got more than {self._size} changes that it did not take"
        return QueueOverflowError(f"{msg}; raise queue_size, or subscribe again from 'earliest'")
