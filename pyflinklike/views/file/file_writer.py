# SPDX-License-Identifier: Apache-2.0
"""The one writer of a view: it commits batches, and publishes them to the subscribers.

Two locks, taken in this order:

* `_applying` is held for a whole batch, also while the writer waits for room in a queue.
* `_subscribing` is held for a commit, so that a new subscriber gets a batch as a whole, in its
  queue or in its replay of the past.  It is never held while waiting.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterable
from typing import Any

from pyflinklike.errors import PyflinklikeError, StateStoreError
from pyflinklike.views.core.arguments import to_ms
from pyflinklike.views.core.arrivals import Arrival, final_row
from pyflinklike.views.core.change import Filter
from pyflinklike.views.core.incoming import BatchReader
from pyflinklike.views.core.row_codec import decode_row
from pyflinklike.views.core.storage import RowChange
from pyflinklike.views.core.subscription import Replay
from pyflinklike.views.file import tables
from pyflinklike.views.file.applying import write_batch
from pyflinklike.views.file.database import Database
from pyflinklike.views.file.queue import Queue

__all__ = ["Writer"]


class Writer:
    """Applies the batches of a view.

    Args:
        database: The view's file.
        incoming: Reads the rows of batches.
        history: The length of the history in batches.
        clock: Returns the time in ms since the epoch.
    """

    def __init__(
        self, database: Database, incoming: BatchReader, history: int, clock: Callable[[], int]
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
            source: The stream of the batch; "" for none.
            zone: The time zone of naive event times.
            watermark: How far event time has come; None if it is unknown.
        """
        reached = None if watermark is None else to_ms(watermark, zone)
        with self._applying:
            with self._database.reading() as connection:
                if connection.is_seen(source, batch_id):
                    return False
            arrivals = self._incoming.read(rows)
            latest = _latest_time(arrivals, zone, reached)
            batch = tables.NO_BATCH._replace(source=source, batch_id=batch_id, watermark=latest)
            return self._commit_and_tell(arrivals, batch)

    def _commit_and_tell(self, arrivals: list[Arrival], batch: tables.Batch) -> bool:
        """Commit a batch and publish its changes; False if another process has applied it.

        If this is interrupted after the commit, each subscriber that did not get all of the batch
        ends with an error, so that nobody misses changes without notice.
        """
        untold: list[Queue] = []
        written = None
        try:
            with self._subscribing:
                self._queues = self._live_queues()
                # Queues that may be full come last, so that the others need not wait for them.
                untold = sorted(self._queues, key=lambda queue: queue.waits)
                written = self._write(arrivals, batch)
            if written is None:
                return False
            changes, batch = written
            while untold:
                untold[0].publish(changes, batch.applied_at)
                del untold[0]
        except BaseException:
            if untold and self._is_committed(batch):
                _fail(untold)
            raise
        finally:
            if written is not None:
                self._database.acknowledge(written[1].seq)
        return True

    def subscribe(self, queue: Queue, past: Filter | None) -> Replay | None:
        """Publish to a queue from now on.

        Args:
            queue: The queue of the subscriber.
            past: The changes of the past that the subscriber wants to see; None for none.

        Returns:
            The changes of the past, if they are wanted and there was a batch.

        Raises:
            StoreClosedError: The view is closed.
        """
        with self._subscribing:
            with self._database.reading():  # refuses where the view is closed
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
        self, arrivals: list[Arrival], batch: tables.Batch
    ) -> tuple[list[RowChange], tables.Batch] | None:
        """Commit a batch; return its changes and its line, None if it was applied before."""
        with self._database.writing() as connection:
            # Another process may have applied it in the meantime.
            if connection.is_seen(batch.source, batch.batch_id):
                return None
            changes = self._changes(connection, arrivals)
            latest = connection.latest_batch()
            marks = [batch.watermark, None if latest is None else latest.watermark]
            batch = batch._replace(
                seq=1 if latest is None else latest.seq + 1,
                applied_at=self._clock(),
                watermark=max((mark for mark in marks if mark is not None), default=None),
            )
            write_batch(connection, batch, latest, changes, self._history)
        return changes, batch

    def _is_committed(self, batch: tables.Batch) -> bool:
        """Return whether a batch was committed despite an error; True if that is unknown."""
        try:
            with self._database.reading() as connection:
                return connection.is_seen(batch.source, batch.batch_id)
        except PyflinklikeError:
            return True

    def _changes(self, connection: tables.Connection, arrivals: list[Arrival]) -> list[RowChange]:
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

    def _replay(self, wanted: Filter) -> Replay | None:
        connection = self._database.detached_reader()
        oldest = connection.oldest_batch()
        if oldest is None:
            connection.close()
            return None
        changes = connection.replay(oldest, wanted.key)
        return Replay(connection, changes, wanted, self._database.failed)

    def _end_subscriptions(self) -> None:
        with self._subscribing:
            for queue in self._queues:
                queue.end()


def _latest_time(arrivals: Iterable[Arrival], zone: dt.tzinfo, reached: int | None) -> int | None:
    """Return the latest event time in ms, `reached` included.

    It is a function of its own: from 3.12 on, Python leaves the jump of a comprehension unguarded
    by the `with` block around it, and the writer would keep its lock if it was interrupted just
    there.
    """
    times = [to_ms(each.event_time, zone) for each in arrivals if each.event_time is not None]
    return max((each for each in [reached, *times] if each is not None), default=None)


def _fail(queues: list[Queue]) -> None:
    msg = (
        "a subscriber must be told of whole batches, got one of which the writer was interrupted; "
        "subscribe again from 'earliest'"
    )
    for queue in queues:
        queue.fail(StateStoreError(msg))
