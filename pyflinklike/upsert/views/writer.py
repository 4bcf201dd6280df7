# SPDX-License-Identifier: Apache-2.0
"""The one writer of a view: it commits batches, and publishes them to who subscribed.

Two locks, taken in this order:

* `_applying` is held for a whole batch, also while the writer waits for room in a queue.
* `_subscribing` is held for a commit, so that who subscribes gets all of a batch or, with the
  past, finds it there; and never while anything is waited for.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterable
from typing import Any

from pyflinklike.upsert.views import tables
from pyflinklike.upsert.views.arguments import to_ms
from pyflinklike.upsert.views.change import Filter
from pyflinklike.upsert.views.changes import Replay
from pyflinklike.upsert.views.codec import decode_row
from pyflinklike.upsert.views.database import Database
from pyflinklike.upsert.views.incoming import Arrival, BatchReader, final_row
from pyflinklike.upsert.views.queue import Queue

__all__ = ["Writer"]


class Writer:
    """Applies the batches of a view.

    Args:
        database: Of the view.
        incoming: Reads the rows of batches.
        history: How many batches are kept.
        clock: Gives the time in ms since the epoch.
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
        """Apply a batch, as `MaterializedView.apply`.

        Args:
            rows: Changes or plain rows.
            batch_id: Counts the batches of the source.
            source: The stream that they are from.
            zone: Of naive event times.
            watermark: How far event time has come, if that is known.
        """
        reached = None if watermark is None else to_ms(watermark, zone)
        with self._applying:
            with self._database.reading() as connection:
                if tables.is_seen(connection, source, batch_id):
                    return False
            arrivals = self._incoming.read(rows)
            times = [to_ms(a.event_time, zone) for a in arrivals if a.event_time is not None]
            reached = max((each for each in [reached, *times] if each is not None), default=None)
            with self._subscribing:
                written = self._write(arrivals, source, batch_id, reached)
                queues = self._queues = self._live_queues()
            if written is None:
                return False
            changes, applied_at = written
            for queue in queues:
                for change in changes:
                    queue.publish(change, applied_at)
            return True

    def subscribe(self, queue: Queue, past: Filter | None) -> Replay | None:
        """Publish to a queue from now on.

        Args:
            queue: Of the subscriber.
            past: What of the past the subscriber wants to see; None for nothing.

        Returns:
            The past, if it is wanted and there is one.

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
        self._end_subscriptions()  # so that a writer that waits goes on
        with self._applying, self._subscribing:
            self._end_subscriptions()  # also those of who came meanwhile
            self._database.close()

    def _write(
        self, arrivals: list[Arrival], source: str, batch_id: int, watermark: int | None
    ) -> tuple[list[tables.RowChange], int] | None:
        """Commit a batch; its changes and time, None if another process has applied it."""
        with self._database.writing() as connection:
            if tables.is_seen(connection, source, batch_id):
                return None
            changes = self._changes(connection, arrivals)
            latest = tables.latest_batch(connection)
            seq, size = (1, 0) if latest is None else (latest.seq + 1, latest.size)
            size += sum((each.after is not None) - (each.before is not None) for each in changes)
            marks = [watermark, None if latest is None else latest.watermark]
            watermark = max((mark for mark in marks if mark is not None), default=None)
            applied_at = self._clock()
            # What was before the first batch, or before the only one kept, cannot be asked for.
            tables.write_rows(connection, seq, changes, log=seq > 1 and self._history > 1)
            batch = tables.Batch(seq, source, batch_id, applied_at, watermark, size)
            tables.add_batch(connection, batch, self._history)
        return changes, applied_at

    def _changes(
        self, connection: tables.Connection, arrivals: list[Arrival]
    ) -> list[tables.RowChange]:
        """What a batch changes, in the order in which its keys arrived."""
        by_key: dict[bytes, list[Arrival]] = {}
        for arrival in arrivals:
            by_key.setdefault(arrival.key, []).append(arrival)
        # Read in the order of the file, which is half the work of any other.
        stored = {key: tables.row_of(connection, key) for key in sorted(by_key)}
        order_of = self._order_of if self._incoming.order_columns else None
        return [
            tables.RowChange(key, stored[key], after)
            for key, mine in by_key.items()
            if (after := final_row(stored[key], mine, order_of)) != stored[key]
        ]

    def _order_of(self, row: bytes) -> tuple[Any, ...] | None:
        return self._incoming.order_of(decode_row(row))

    def _live_queues(self) -> list[Queue]:
        return [queue for queue in self._queues if not queue.ended]

    def _replay(self, wanted: Filter) -> Replay | None:
        connection = self._database.detached_reader()
        oldest = tables.oldest_batch(connection)
        if oldest is None:
            connection.close()
            return None
        return Replay(connection, tables.replay(connection, oldest, wanted.key), wanted)

    def _end_subscriptions(self) -> None:
        with self._subscribing:
            for queue in self._queues:
                queue.end()
