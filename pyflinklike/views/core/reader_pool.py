# SPDX-License-Identifier: Apache-2.0
"""The connections that read a view: one for each thread that reads at the same time, reused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

__all__ = ["ReaderPool"]


class _Closable(Protocol):
    def close(self) -> None: ...


_C = TypeVar("_C", bound=_Closable)


class ReaderPool(Generic[_C]):
    """Lends connections to threads; a connection is lent to one thread at a time.

    Args:
        connect: Opens one more connection.
        closed_error: Makes the error that is raised once the pool is closed.
    """

    def __init__(self, connect: Callable[[], _C], closed_error: Callable[[], Exception]) -> None:
        self._connect = connect
        self._closed_error = closed_error
        self._idle: list[_C] = []
        self._lent = 0
        self._moved = threading.Condition()
        self.closed = False
        """True once the pool lends no more connections."""

    @contextmanager
    def taken(self) -> Iterator[_C]:
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
            self.closed = True
            self._moved.wait_for(lambda: self._lent == 0)
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def _take(self) -> _C:
        with self._moved:
            if self.closed:
                raise self._closed_error()
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect()
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        with self._moved:
            self._lent -= 1
            self._moved.notify_all()
