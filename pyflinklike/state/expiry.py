# SPDX-License-Identifier: Apache-2.0
"""Which entries are expired: the tests that tables and readers are given.

An entry with a TTL is a pair of its stamp and its value, in ms.  It is expired if its stamp is
not after the *horizon*: the current time minus the TTL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyflinklike.state.table import Entry

__all__ = ["ExpiredAt", "JudgedElements", "expired_by_a_moving_clock"]


class ExpiredAt:
    """Whether an entry was stamped so long ago that it is expired."""

    __slots__ = ("_horizon",)

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon

    def __call__(self, entry: Entry) -> bool:
        """Whether this entry is expired."""
        expired: bool = entry[0] <= self._horizon
        return expired

    def any_of(self, entries: Sequence[Entry]) -> bool:
        """Whether any of these is expired; three times as fast as asking for each."""
        horizon = self._horizon
        for stamp, _ in entries:  # noqa: SIM110 - a generator would take twice as long
            if stamp <= horizon:
                return True
        return False


def expired_by_a_moving_clock(
    horizon_now: Callable[[], int], every: int
) -> Callable[[Entry], bool]:
    """A test that asks for the horizon again after a number of entries.

    Args:
        horizon_now: Tells it.
        every: For how many entries one answer is used.
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
        judge: Gives the values of those that may be seen.
        items: Positions and entries, as they were when the list was read.
    """

    def __init__(
        self, judge: Callable[[list[tuple[Any, Entry]]], Iterator[Any]], items: list[Any]
    ) -> None:
        self._judge = judge
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return self._judge(self._items)
