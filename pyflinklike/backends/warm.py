# SPDX-License-Identifier: Apache-2.0
"""The warm cache: working state that a worker process keeps between batches.

It is an optimisation and nothing else: what is in it may be stale, and
`KeyGroupLog.load` decides by its nonce whether it may be used.  A group is
taken out while it is worked on, so that one whose batch failed half-way is
simply gone.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable
from itertools import islice
from typing import Any

from pyflinklike.key_group import KeyGroup

__all__ = ["WARM_GROUPS", "WarmGroups"]

_SAMPLE = 8


class WarmGroups:
    """Key groups by (operator, index), the least recently used dropped first."""

    def __init__(self) -> None:
        self._groups: OrderedDict[Hashable, tuple[KeyGroup, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def take(self, owner: Hashable) -> KeyGroup | None:
        """Remove and return a group, if it is here."""
        with self._lock:
            group, size = self._groups.pop(owner, (None, 0))
            self._bytes -= size
        return group

    def keep(self, owner: Hashable, group: KeyGroup, limit: int) -> None:
        """Put a group back, and drop others until all fit in `limit` bytes; 0 keeps nothing.

        A group that does not fit by itself is dropped at once, and no other for it.
        """
        size = estimated_bytes(group) if limit else 0
        with self._lock:
            _, former = self._groups.pop(owner, (None, 0))
            self._bytes -= former
            if not limit or size > limit:
                return
            self._groups[owner] = (group, size)
            self._bytes += size
            while self._bytes > limit and self._groups:
                _, (_, dropped) = self._groups.popitem(last=False)
                self._bytes -= dropped

    def clear(self) -> None:
        """Drop everything, as the loss of the worker would."""
        with self._lock:
            self._groups.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def total_bytes(self) -> int:
        """Estimated size of all groups, in bytes."""
        return self._bytes


WARM_GROUPS = WarmGroups()
"""Of this process."""


def estimated_bytes(group: KeyGroup) -> int:
    """What the tables of a heap group weigh, from a sample of their entries, in bytes."""
    weight = 1024
    for data in group.tables.values():
        entries: dict[Any, Any] = getattr(data, "entries", {})
        sample = list(islice(entries.items(), _SAMPLE))
        if sample:
            sampled = sum(_weight(key) + _weight(entry) for key, entry in sample)
            weight += sys.getsizeof(entries) + sampled * len(entries) // len(sample)
    for agenda in group.timers.values():
        weight += _weight(agenda.keys_at)
    for sections in group.pending.values():
        weight += sum(len(section.payload) for section in sections)
    return weight


def _weight(value: Any) -> int:
    if isinstance(value, dict):
        items = list(islice(value.items(), _SAMPLE))
        sampled = sum(_weight(key) + _weight(entry) for key, entry in items)
        return sys.getsizeof(value) + sampled * len(value) // max(len(items), 1)
    if isinstance(value, list):
        sample = value[:_SAMPLE]
        sampled = sum(map(_weight, sample))
        return sys.getsizeof(value) + sampled * len(value) // max(len(sample), 1)
    if isinstance(value, tuple):
        return sys.getsizeof(value) + sum(map(_weight, value))
    return sys.getsizeof(value)
