# SPDX-License-Identifier: Apache-2.0
"""The warm cache: working state that a worker process keeps between batches.

The cache is only an optimisation.  Working state in it may be stale, and its nonce decides whether
it may be used.  A group is taken out while it is worked on, so that after a batch that failed
half-way there is nothing to undo.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from pyflinklike.backends.heap.weight import measured, slack, weight_of
from pyflinklike.log.working_state import WorkingState

__all__ = ["WARM_GROUPS", "WarmGroups"]

_WORTH_MEASURING = 8
_ROUNDS = 8
"""Rounds, of as many turns as groups are kept, after which a group that nobody asked for may go.

Spark gives a group to any worker, so a group may stay away from this one for some rounds.
"""


class _Kept(NamedTuple):
    group: WorkingState
    size: int
    turn: int


class WarmGroups:
    """Key groups by (operator, index), within a bound of bytes.

    Args:
        in_rounds: Whether the groups are asked for in turn.  If they do not all fit, the group kept
            last is dropped then, else the least recently used one.
    """

    def __init__(self, *, in_rounds: bool = False) -> None:
        self._groups: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._in_rounds, self._turn = in_rounds, 0
        self._bytes = 0
        self._lock = threading.Lock()

    def take(self, owner: Hashable) -> WorkingState | None:
        """Remove and return a group, if it is here."""
        with self._lock:
            return self._remove(owner)

    def use(self, owner: Hashable) -> WorkingState | None:
        """Return a group that stays here, now as the one used last; None if it is not here."""
        with self._lock:
            if owner not in self._groups:
                return None
            self._groups.move_to_end(owner)
            return self._groups[owner].group

    def keep(self, owner: Hashable, group: WorkingState, limit: int) -> None:
        """Put a group back, and drop groups until all fit in `limit` bytes; 0 keeps nothing.

        A group that does not fit by itself is dropped at once, and no other for it.
        """
        size = weight_of(group) if limit else 0
        if size > limit:
            size = measured(group)
        with self._lock:
            self._remove(owner)
            if not limit or size > limit:
                return
            self._turn += 1
            self._groups[owner] = _Kept(group, size, self._turn)
            self._bytes += size
            if self._bytes > limit:
                self._measure(limit)
            while self._bytes > limit:
                self._remove(self._superfluous())

    def _superfluous(self) -> Hashable:
        """Choose the group to drop."""
        # Each micro-batch asks for the same groups in the same order, so the least recently used
        # group is just the one asked for next: with room for two thirds of the groups nothing was
        # ever found.
        least_recent, kept = next(iter(self._groups.items()))
        if not self._in_rounds or self._turn - kept.turn > _ROUNDS * len(self._groups):
            return least_recent
        return next(reversed(self._groups))

    def _remove(self, owner: Hashable) -> WorkingState | None:
        kept = self._groups.pop(owner, None)
        if kept is None:
            return None
        self._bytes -= kept.size
        return kept.group

    def _measure(self, limit: int) -> None:
        """Measure groups that may weigh less than their bound: a rebuild would take longer."""
        for owner, (group, size, turn) in self._groups.items():
            if self._bytes <= limit:
                return
            if _WORTH_MEASURING * slack(group) > size:
                now = measured(group)
                self._groups[owner] = _Kept(group, now, turn)
                self._bytes += now - size

    def clear(self) -> None:
        """Drop everything, as the loss of the worker would."""
        with self._lock:
            self._groups.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def total_bytes(self) -> int:
        """The weight of all groups, in bytes: an upper bound."""
        return self._bytes


WARM_GROUPS = WarmGroups(in_rounds=True)
"""The warm cache of this process."""
