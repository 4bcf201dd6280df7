# SPDX-License-Identifier: Apache-2.0
"""A subscription to a view in PostgreSQL: it reads the batches that it has not seen.

The database holds the batches of the view's history, for subscribers in any process.  So neither the writer nor
other subscribers wait for a slow one, and a subscriber that falls behind the history gets an error.  A
notification (`NOTIFY`) wakes subscribers after each batch; on a standby, which has no notifications, they poll.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from pyflinklike.errors import QueueOverflowError, StateStoreError, StoreClosedError
from pyflinklike.views.postgres_database import PostgresDatabase
from pyflinklike.views.postgres_tables import PostgresSnapshot
from pyflinklike.views.subscription import Change, RowFilter
from pyflinklike.views.view_storage import RowChange

_POLL_SECONDS = 0.5  # if no notification comes, and until a close is noticed


class Follower:
    """The source of the changes of a `Changes`.

    Args:
        database: The tables of the view.
        wanted: The changes that the subscriber wants to see.
        is_latest: True for new changes only; False for the changes of the history first.
    """

    def __init__(self, database: PostgresDatabase, wanted: RowFilter, *, is_latest: bool) -> None:
        self._database = database
        self._wanted = wanted
        self._waiting: deque[tuple[RowChange, int]] = deque()
        self._seq: int | None = None
        self._listener: psycopg.Connection[Any] | None = None
        self._can_listen = True
        self._ended = threading.Event()
        self._closed = False
        self._taking = threading.RLock()
        with database.lend_reader() as snapshot:
            latest = snapshot.latest_batch()
        if is_latest or latest is None:
            self._seq = 0 if latest is None else latest.seq

    @property
    def dropped(self) -> int:
        """0: no change is ever dropped."""
        return 0

    @property
    def closed(self) -> bool:
        """True once the subscriber is gone."""
        return self._closed

    def take(self, wait: float | None) -> Change | None:
        """Return the next change; None if no more will come, or if none comes in time.

        Args:
            wait: The longest wait in seconds; None waits for ever.

        Raises:
            QueueOverflowError: The history no longer has the next batch.
            StateStoreError: The database cannot be read, or was restored from an older copy.
            UserFunctionError: The condition raised an error.
        """
        with self._taking:
            try:
                return self._take(wait)
            except Exception:
                self.close()  # else the iteration could go on, and nothing would show that a change is missing
                raise
            finally:
                if self._closed:
                    self._stop_listening()

    def _take(self, left: float | None) -> Change | None:
        while not self.closed:
            while self._waiting:
                change = self._wanted.change(*self._waiting.popleft())
                if change is not None:
                    return change
            if self._ended.is_set():
                return None
            try:
                if self._fetch():
                    continue
            except StoreClosedError:
                if self._ended.is_set():  # the view was closed just now
                    return None
                raise
            if left is not None and left <= 0:
                return None
            slice_ = _POLL_SECONDS if left is None else min(left, _POLL_SECONDS)
            self._pause(slice_)
            left = None if left is None else left - slice_
        return None

    def end(self) -> None:
        """Read no more batches; changes that were read can still be taken."""
        self._ended.set()

    def close(self) -> None:
        """Return no more changes: the subscriber is gone."""
        self._closed = True
        self._ended.set()
        # A thread that waits for a notification closes the listener itself, soon.
        if self._taking.acquire(blocking=False):
            try:
                self._stop_listening()
            finally:
                self._taking.release()

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def _fetch(self) -> bool:
        """Read one batch, and return whether there was one."""
        with self._database.lend_reader() as snapshot:
            latest = snapshot.latest_batch()
            if latest is None:
                return False
            if self._seq is None:
                self._read_past(snapshot)
                return True
            if latest.seq == self._seq:
                return False
            if latest.seq < self._seq:
                raise self._make_went_back_error(latest.seq)
            if self._seq + 1 < latest.oldest:
                raise self._make_overflow_error()
            self._read(snapshot, self._seq + 1)
        return True

    def _read_past(self, snapshot: PostgresSnapshot) -> None:
        oldest = snapshot.oldest_batch()
        if oldest is not None:
            rows = snapshot.rows(oldest.seq)
            self._waiting.extend(
                (RowChange(key, None, row), oldest.applied_at) for key, row in rows
            )
            self._seq = oldest.seq

    def _read(self, snapshot: PostgresSnapshot, seq: int) -> None:
        batch = snapshot.batch_numbered(seq)
        changes = snapshot.changes_of(seq)
        ts = 0 if batch is None else batch.applied_at
        self._waiting.extend((change, ts) for change in changes)
        self._seq = seq

    def _pause(self, seconds: float) -> None:
        """Wait for a notification, at most this long."""
        listener = self._listen()
        if listener is None:
            self._ended.wait(seconds)
            return
        try:
            for _ in listener.notifies(timeout=seconds, stop_after=1):
                pass
        except psycopg.Error:  # closed, or the server is gone; the next read reports it
            self._listener = None
            self._ended.wait(seconds)

    def _listen(self) -> psycopg.Connection[Any] | None:
        if self._listener is None and self._can_listen and not self._ended.is_set():
            connection = self._database.conninfo.connect("subscriber", autocommit=True)
            try:
                channel = sql.Identifier(self._database.about.channel)
                connection.execute(sql.SQL("LISTEN {}").format(channel))
                self._listener = connection
            except psycopg.Error:  # a standby has no notifications, so we poll
                self._can_listen = False
                connection.close()
        return self._listener

    def _make_overflow_error(self) -> QueueOverflowError:
        name = self._database.names.view
        msg = f"a subscriber of view {name!r} must keep up, got one that has fallen behind the view's history"
        return QueueOverflowError(f"{msg}; raise history, or subscribe again from 'earliest'")

    def _make_went_back_error(self, seq: int) -> StateStoreError:
        msg = (
            f"view {self._database.names.view!r}: batches must never go back, "
            f"got {seq} after {self._seq}: the database was restored from an older copy"
        )
        return StateStoreError(f"{msg}; subscribe again from 'earliest'")

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()
