# SPDX-License-Identifier: Apache-2.0
"""The tests for expired entries that tables and readers are given.

An entry with a TTL is a pair of its stamp, in ms, and its value.  It is expired if its stamp is not
after the *horizon*: the current time minus the TTL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyflinklike.state.table import Entry

__all__ = ["ExpiredAt", "JudgedElements", "expired_by_a_moving_clock"]


class ExpiredAt:
    """A test for entries that were stamped so long ago that they are expired."""

    __slots__ = ("_horizon",)

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon

    def __call__(self, entry: Entry) -> bool:
        """Return whether an entry is expired."""
        expired: bool = entry[0] <= self._horizon
        return expired

    def any_of(self, entries: Sequence[Entry]) -> bool:
        """Return whether any entry is expired; three times as fast as asking for each."""
        horizon = self._horizon
        for stamp, _ in entries:  # noqa: SIM110 - a generator would take twice as long
            if stamp <= horizon:
                return True
        return False


def expired_by_a_moving_clock(
    horizon_now: Callable[[], int], every: int
) -> Callable[[Entry], bool]:
    """Build a test that asks for the horizon again after a number of entries.

    Args:
        horizon_now: Returns the horizon, in ms.
        every: Number of entries for which one answer is used.
    """
    horizon, left = 0, 0

    def is_dead(entry: Entry) -> bool:
        nonlocal horizon, left
        if not left:
            horizon, left = horizon_now(), every
        left -= 1
        dead: bool = entry[0] <= horizon
        return dead

    return is_dead


class JudgedElements:
    """An iterable that judges the elements of a list anew each time it is iterated.

    Args:
        judge: Returns the values that may be seen.
        items: Positions and entries, as they were when the list was read.
    """

    def __init__(
        self, judge: Callable[[list[tuple[Any, Entry]]], Iterator[Any]], items: list[Any]
    ) -> None:
        self._judge = judge
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return self._judge(self._items)
