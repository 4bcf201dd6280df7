# SPDX-License-Identifier: Apache-2.0
"""The interface of a view's storage: an SQLite file, or tables of PostgreSQL.

Keys and rows are bytes here, so every storage returns them exactly as they were put in.  Threads that read at
the same time have a connection each; connections are reused.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from pyflinklike.errors import StoreClosedError


class RowChange(NamedTuple):
    """The effect of a batch on a key, encoded; None stands for no row."""

    key: bytes
    before: bytes | None
    after: bytes | None


class AppliedBatch(NamedTuple):
    """A batch that was applied.

    Args:
        seq: The number of the batch among the applied batches, from 1.
        source: The stream that the batch came from; "" if it came from no stream.
        batch_id: The id of the batch in that stream.
        applied_at: The time at which the batch was applied, in ms since the epoch.
        watermark: The event time that was reached, in ms since the epoch; None if it was unknown.
        size: How many rows the view had after it.
        rows_sum: The sum of the checksums of these rows.
        changes: How many keys it changed, if its changes are stored.
        oldest: The seq of the oldest batch in the history after it.
        changes_sum: The sum of the checksums of these changes; in files only.
        runs: How many runs of ids had been seen after it; in files only.
        runs_sum: The sum of the checksums of these runs; in files only.
    """

    seq: int
    source: str
    batch_id: int
    applied_at: int
    watermark: int | None
    size: int
    rows_sum: int
    changes: int
    oldest: int
    changes_sum: int = 0
    runs: int = 0
    runs_sum: int = 0

    def after(self, latest: AppliedBatch | None, now: int) -> AppliedBatch:
        """Return the batch with its number and its time; its watermark is never before the last one.

        Args:
            latest: The batch before; None for the first.
            now: The time in ms since the epoch.
        """
        if latest is None:
            return self._replace(seq=1, applied_at=now)
        marks = [each for each in (self.watermark, latest.watermark) if each is not None]
        return self._replace(seq=latest.seq + 1, applied_at=now, watermark=max(marks, default=None))


NO_BATCH: Final = AppliedBatch(0, "", 0, 0, None, 0, 0, 0, oldest=1)
"""The fields before the first batch."""


class Snapshot(ABC):
    """A view as one transaction sees it."""

    @abstractmethod
    def rows_of(self, keys: Iterable[bytes], seq: int | None = None) -> Mapping[bytes, bytes]:
        """Return the rows of those keys that have one, now or after a batch of the history."""

    def rows(self, seq: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys and rows, now or after a batch of the history, in the order of the keys."""
        batch = self.latest_batch() if seq is None else self.batch_numbered(seq)
        count = total = 0
        for key, row, checksum in self._lines(seq):
            count += 1
            total += checksum
            yield key, row
        if (count, total) != ((0, 0) if batch is None else (batch.size, batch.rows_sum)):
            got = "rows that are missing, or not of that batch"
            raise self._make_damage(got)

    @abstractmethod
    def _lines(self, seq: int | None) -> Iterator[tuple[bytes, bytes, int]]:
        """Return all keys and rows, each with its checksum, in the order of the keys."""

    @abstractmethod
    def _make_damage(self, got: str) -> Exception:
        """Return the error for a storage that holds this in the place of what was written."""

    @abstractmethod
    def batches(self, which: str = "ORDER BY seq", *values: int) -> Iterator[AppliedBatch]:
        """Return batches of the history, by default all, the oldest first.

        Args:
            which: The end of a query in SQL, with `?` for each value.
            values: The values for the `?`, in order.
        """

    def latest_batch(self) -> AppliedBatch | None:
        """Return the last batch that was applied."""
        return next(self.batches("ORDER BY seq DESC LIMIT 1"), None)

    def oldest_batch(self) -> AppliedBatch | None:
        """Return the oldest batch of the history."""
        return next(self.batches("ORDER BY seq LIMIT 1"), None)

    def batch_of(self, batch_id: int) -> AppliedBatch | None:
        """Return the last batch of that id, if the history has it."""
        of_id = "WHERE batch_id = ? ORDER BY seq DESC LIMIT 1"
        return next(self.batches(of_id, batch_id), None)

    def batch_numbered(self, seq: int) -> AppliedBatch | None:
        """Return the batch with that number, if the history has it."""
        return next(self.batches("WHERE seq = ?", seq), None)


class ViewStorage(Protocol):
    """The storage of a view."""

    fault: type[Exception]
    """The error class of the library beneath; a caller's own database may raise it, too."""

    def lend_reader(self) -> AbstractContextManager[Snapshot]:
        """Begin a transaction that sees one state of the view.

        Raises:
            StateStoreError: The storage cannot be read.
            StoreClosedError: The view is closed.
            CorruptStateError: The storage is damaged.
        """


class _Closable(Protocol):
    def close(self) -> None: ...


_C = TypeVar("_C", bound=_Closable)


class ReaderPool(Generic[_C]):
    """Lends connections to threads; a connection is lent to one thread at a time.

    Args:
        connect: Opens one more connection.
        view: The name of the view, for messages.
    """

    def __init__(self, connect: Callable[[], _C], view: str) -> None:
        self._connect = connect
        self._view = view
        self._idle: list[_C] = []
        self._lent = 0
        self._moved = threading.Condition()
        self._is_closed = False

    def check_open(self) -> None:
        """Raise an error if the pool lends no more connections.

        Raises:
            StoreClosedError: The view is closed.
        """
        if self._is_closed:
            msg = f"a view must be open to be used, got {self._view!r}; open it again"
            raise StoreClosedError(msg)

    @contextmanager
    def lent(self) -> Iterator[_C]:
        """Lend a connection that no other thread uses; `close` waits for its return."""
        connection = self._take()
        try:
            yield connection
        finally:
            with self._moved:
                self._idle.append(connection)
            self._leave()

    def close(self) -> None:
        """Wait for the connections that are lent, and close all connections."""
        with self._moved:
            self._is_closed = True
            self._moved.wait_for(lambda: self._lent == 0)
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def _take(self) -> _C:
        with self._moved:
            self.check_open()
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        # Outside of the lock: opening may take seconds, and other threads return connections meanwhile.
        try:
            return self._connect()
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        with self._moved:
            self._lent -= 1
            self._moved.notify_all()
