# SPDX-License-Identifier: Apache-2.0
"""Cursors: what a store found, read once, in order.

A cursor is a snapshot: changes after it was opened are not seen.  It closes
itself at its end.  It does not outlive the call in which it was opened; one that
is then still open is closed with a `ResourceWarning`, because Kafka's would leak.
"""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from types import TracebackType
from typing import Any, Generic, TypeVar

from pyflinklike.errors import CursorClosedError

__all__ = ["Cursor", "OpenCursors"]

T = TypeVar("T")


class OpenCursors:
    """The cursors that are open in the current call."""

    def __init__(self) -> None:
        self._open: dict[int, Cursor[Any]] = {}

    def add(self, cursor: Cursor[Any]) -> None:
        """Remember a cursor until it is closed."""
        self._open[id(cursor)] = cursor

    def discard(self, cursor: Cursor[Any]) -> None:
        """Forget one that is closed."""
        self._open.pop(id(cursor), None)

    def end_call(self) -> None:
        """Close what the call has left open, and say so."""
        while self._open:
            _, cursor = self._open.popitem()
            cursor.close()
            warnings.warn(
                f"a cursor over store {cursor.store!r} was left open; read it to its end, "
                "close() it, or open it in a `with` block",
                ResourceWarning,
                stacklevel=2,
            )

    def close_of(self, store: str) -> None:
        """Close those over one store, which is closed."""
        for cursor in [each for each in self._open.values() if each.store == store]:
            cursor.close()


class Cursor(Iterator[T], Generic[T]):
    """Reads what a store found; also a context manager.

    Args:
        store: Name of the store.
        found: The raw items.
        decode: Makes an item of a raw one.
        opened: Where it is listed while it is open.
    """

    def __init__(
        self, store: str, found: Sequence[Any], decode: Callable[[Any], T], opened: OpenCursors
    ) -> None:
        self.store = store
        """Name of the store."""
        self._found: Sequence[Any] = found
        self._decode = decode
        self._opened = opened
        self._next = 0
        self._is_closed = False
        self._is_exhausted = False
        opened.add(self)

    @classmethod
    def merged(cls, cursors: Sequence[Cursor[T]], *, reverse: bool) -> Cursor[T]:
        """One cursor over what several found, which are closed by that.

        Args:
            cursors: One at least, each over the same store in another key group, and unread.
            reverse: Whether they begin with the last ones.
        """
        # The first part of a raw item orders what a store finds: its user key, or its time.
        found = heapq.merge(*(each._found for each in cursors), key=itemgetter(0), reverse=reverse)
        first = cursors[0]
        merged = cls(first.store, list(found), first._decode, OpenCursors())
        for each in cursors:
            each.close()
        return merged

    @property
    def closed(self) -> bool:
        """Whether it was closed, or read to its end."""
        return self._is_closed or self._is_exhausted

    def __next__(self) -> T:
        self._check()
        if self._next >= len(self._found):
            self._is_exhausted = True
            self._found = ()
            self._next = 0
            self._opened.discard(self)
            raise StopIteration
        item = self._decode(self._found[self._next])
        self._next += 1
        return item

    def peek(self) -> T | None:
        """The next item without going on to it; None at the end.

        Raises:
            CursorClosedError: It was closed.
        """
        self._check()
        return self._decode(self._found[self._next]) if self._next < len(self._found) else None

    def close(self) -> None:
        """Release what was found; closing again does nothing."""
        self._is_closed = True
        self._found = ()
        self._opened.discard(self)

    def __enter__(self) -> Cursor[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Cursor({self.store!r}, closed={self.closed})"

    def _check(self) -> None:
        if self._is_closed:
            msg = (
                f"a cursor can be read until it is closed and within the call that opened it, "
                f"got a read of one over store {self.store!r} after that; open another one"
            )
            raise CursorClosedError(msg)
