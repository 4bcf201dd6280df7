# SPDX-License-Identifier: Apache-2.0
"""The bounded queue between the writer of a view and one subscriber.

Either side may wait, the writer for room and the subscriber for a change; both are woken when the
queue ends.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from pyflinklike.errors import PyflinklikeError, QueueOverflowError
from pyflinklike.views.core.change import Change, Filter
from pyflinklike.views.core.storage import RowChange

__all__ = ["OVERFLOWS", "Queue"]

OVERFLOWS = ("block", "drop_oldest", "error")
"""The treatments of a change for which a queue has no room."""


class Queue:
    """Changes between the writer and one subscriber.

    Args:
        wanted: The changes that go in.
        size: How many changes may wait.
        overflow: The treatment of one more change: "block", "drop_oldest" or "error".
    """

    def __init__(self, wanted: Filter, size: int, overflow: str) -> None:
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
        """True where publishing may wait for room."""
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
                    self.fail(self._overflowed())
                    return
                self._changes.popleft()
                self.dropped += 1
            self._changes.append(change)
            self._moved.notify_all()

    def take(self, wait: float | None) -> Change | None:
        """Return the next change; None if the queue has ended, or none came in time.

        Raises:
            QueueOverflowError: The queue has overflowed, and all that it held is taken.
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
        """Add no more changes; those in the queue can still be taken."""
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
        """Add no more changes; once those in the queue are taken, raise this error."""
        with self._moved:
            if not self.ended:
                self._error = error
                self.end()

    def _overflowed(self) -> QueueOverflowError:
        msg = f"a subscriber must keep up, got more than {self._size} changes that it did not take"
        return QueueOverflowError(f"{msg}; raise queue_size, or subscribe again from 'earliest'")
