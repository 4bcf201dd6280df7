# SPDX-License-Identifier: Apache-2.0
"""Push queries: a view's changes, as they are made.

Each subscriber has a source of changes: in a file's view a queue of bounded length, which the writer fills after
each commit; in PostgreSQL the history in the database.  Rules:

* Changes are published after their batch is committed, batch by batch, one change for each key that
  the batch changed.  So a subscriber never sees a state that a reader could not have seen, as in
  Materialize's SUBSCRIBE (https://materialize.com/docs/sql/subscribe/).
* A subscriber's condition is checked for the row before and for the row after.  A row that begins
  to meet it is an insert, and a row that ceases to meet it is a delete.  So a subscriber can
  maintain the filtered view.
* A subscriber that is garbage collected is closed, so it cannot block the writer.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Union

import attrs

from pyflinklike._checks import is_number
from pyflinklike._clock import Duration, Time, to_milliseconds
from pyflinklike._messages import shown_error
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    QueueOverflowError,
    UserFunctionError,
)
from pyflinklike.types.row import DELETE, INSERT, UPDATE_AFTER
from pyflinklike.views.pull_query import Condition
from pyflinklike.views.row_codec import Failure, decode_row, from_key_bytes
from pyflinklike.views.view_storage import RowChange

Timeout = Union[timedelta, Time, Duration, float, None]
"""A length of time to wait; a number is seconds, as in Python's own functions that wait."""


def seconds(timeout: Timeout) -> float | None:
    """Return a timeout in seconds; None if there is no timeout.

    Raises:
        DeclarationTypeError: The timeout is not a length of time.
        DeclarationValueError: The timeout is negative.
    """
    if timeout is None:
        return None
    if isinstance(timeout, (timedelta, Time, Duration)):
        wait = to_milliseconds(timeout) / 1000
    elif is_number(timeout):
        wait = float(timeout)
    else:
        msg = f"timeout must be a timedelta, a number of seconds or None, got {timeout!r}"
        raise DeclarationTypeError(f"{msg}; for example timedelta(seconds=5)")
    if not wait >= 0:
        msg = f"timeout must not be negative, got {timeout!r}; 0 returns only changes that have been made"
        raise DeclarationValueError(msg)
    return wait


@attrs.define
class Replay:
    """The changes that were made before the subscription, read in a transaction of its own.

    Args:
        connection: A connection for these changes only, closed at the end.
        changes: The changes and their times in ms, read from the connection.
        wanted: The changes that the subscriber wants to see.
        failed: Translates an error of SQLite into one of ours.
    """

    connection: sqlite3.Connection
    changes: Iterator[tuple[RowChange, int]]
    wanted: RowFilter
    failed: Callable[[sqlite3.Error], Exception]

    def next(self) -> Change | None:
        """Return the next change; None at the end."""
        try:
            for raw, ts in self.changes:
                change = self.wanted.change(raw, ts)
                if change is not None:
                    return change
        except sqlite3.Error as error:
            raise self.failed(error) from error
        self.close()
        return None

    def close(self) -> None:
        """End the transaction."""
        self.changes = iter(())
        self.connection.close()


class ChangeSource(Protocol):
    """The source of a subscriber's new changes."""

    @property
    def closed(self) -> bool:
        """True once the subscriber is gone."""

    @property
    def dropped(self) -> int:
        """The number of changes that were dropped."""

    def take(self, wait: float | None) -> Change | None:
        """Return the next change; None if no more will come, or if none comes in `wait` seconds."""

    def close(self) -> None:
        """Return no more changes, not even to a thread that waits for one."""


class Change(NamedTuple):
    """The effect of a batch on the row of a key.

    Args:
        op: "insert", "update_after" or "delete".
        key: The plain value of the key column, or a tuple if there are several.
        before: The row before; None for an insert.
        after: The row after; None for a delete.
        ts: The time at which the batch was applied, in ms since the epoch.
    """

    op: str
    key: Any
    before: Any
    after: Any
    ts: int


class Changes(Iterator[Change], contextlib.AbstractContextManager["Changes"]):
    """A push query: iterate over it, close it or leave its `with` block.

    Threads may share one object; each change goes to one of them.

    Args:
        queue: The source of new changes.
        replay: The changes of the past, which are read first; None to begin with new ones.
        limit: How many changes to return in all; None for no end.
        wait: The longest wait for the next change, in seconds, after which the iteration ends; None
            waits forever.
    """

    def __init__(
        self,
        queue: ChangeSource,
        replay: Replay | None,
        limit: int | None,
        wait: float | None,
    ) -> None:
        self._queue = queue
        self._replay = replay
        self._left = limit
        self._wait = wait
        self._taking = threading.RLock()
        self._abandoned = weakref.finalize(self, _abandon, queue, replay)
        self._abandoned.atexit = False

    def __next__(self) -> Change:
        """Return the next change.

        After a `timeout` the iteration can go on; after `limit` changes it is closed.

        Raises:
            StopIteration: The subscription was closed, `limit` is reached, or `timeout` has passed.
            QueueOverflowError: The subscriber fell behind; only with `overflow="error"`.
            StateStoreError: The writer was interrupted before it had published all of a batch.
            CorruptStateError: The past cannot be read.
            UserFunctionError: `where` raised an error.
        """
        with self._taking:
            change = None if self._left == 0 else self._next()
            if change is None:
                raise StopIteration
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    self.close()
            return change

    def _next(self) -> Change | None:
        while self._replay is not None and not self._queue.closed:
            try:
                change = self._replay.next()
            except Exception:
                self.close()  # else the iteration could go on, and nothing would show that a change is missing
                raise
            if change is not None:
                return change
            self._replay = None
        return self._queue.take(self._wait)

    @property
    def closed(self) -> bool:
        """True once the subscription was closed."""
        return self._queue.closed

    @property
    def dropped(self) -> int:
        """The number of changes dropped so far; only with `overflow="drop_oldest"`."""
        return self._queue.dropped

    def close(self) -> None:
        """End the iteration, in whichever thread it runs, and let a waiting writer go on."""
        self._abandoned.detach()
        self._queue.close()
        with self._taking:
            if self._replay is not None:
                self._replay.close()
                self._replay = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _abandon(queue: ChangeSource, replay: Replay | None) -> None:
    """Close a garbage-collected subscription.  It may run in any thread, so it takes no other lock."""
    queue.close()
    if replay is not None:
        replay.close()


@attrs.frozen
class RowFilter:
    """The changes that a subscriber wants to see.

    Args:
        key: The only key, encoded; None for all keys.
        condition: The condition that rows must meet.
    """

    key: bytes | None
    condition: Condition

    def change(self, raw: RowChange, ts: int) -> Change | None:
        """Return the change as the subscriber sees it; None if it is filtered out.

        Raises:
            UserFunctionError: The condition raised an error that is not ours.
        """
        try:
            return self._change(raw, ts)
        except PyflinklikeError:
            raise
        except Exception as error:
            msg = f"the condition of a subscriber must take every row, got {shown_error(error)}; mend it"
            raise UserFunctionError(msg) from error

    def _change(self, raw: RowChange, ts: int) -> Change | None:
        if self.key is not None and raw.key != self.key:
            return None
        key = from_key_bytes(raw.key)
        before, after = self._see(key, raw.before), self._see(key, raw.after)
        if before is None:
            return None if after is None else Change(INSERT, key, None, after[0], ts)
        if after is None:
            return Change(DELETE, key, before[0], None, ts)
        return Change(UPDATE_AFTER, key, before[0], after[0], ts)

    def _see(self, key: Any, row: bytes | None) -> tuple[Any] | None:
        """Return the row in a tuple, since None may be a row; None if the subscriber does not see it."""
        if row is None:
            return None
        value = decode_row(row)
        if not self.condition.is_met(key, value):
            return None
        return (value.make_error(key) if isinstance(value, Failure) else value,)


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
