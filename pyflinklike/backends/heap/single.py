# SPDX-License-Identifier: Apache-2.0
"""Tables of one entry for each key, over a dict."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import compress, islice, repeat
from typing import Any

from pyflinklike.backends.heap.data import HeapTableData, any_by, found
from pyflinklike.state.current_key import TableKey
from pyflinklike.state.table import MISSING, Entry, TableChanges, TableSpec

__all__ = ["SingleTable"]


class SingleTable:
    """One entry for each key."""

    __slots__ = ("_current", "_data", "_dirty", "_entries", "spec")

    def __init__(self, spec: TableSpec, current: TableKey) -> None:
        self.spec = spec
        self._current = current
        self.point_at(HeapTableData(spec))

    def point_at(self, data: HeapTableData) -> None:
        self._data = data
        self._entries = data.entries
        self._dirty = data.dirty

    def get(self, user_key: Hashable) -> Entry:
        return self._entries.get(self._current.key, MISSING)

    def put(self, user_key: Hashable, entry: Entry) -> None:
        key = self._current.key
        self._entries[key] = entry
        self._dirty[key] = None

    def delete(self, user_key: Hashable) -> None:
        key = self._current.key
        # Look it up first: `{}.pop(NO_KEY)` never hashes, and hashing is what raises.
        if key in self._entries:
            del self._entries[key]
            self._dirty[key] = None

    def append(self, entry: Entry) -> None:
        self.put(None, entry)

    def items(self) -> list[tuple[Any, Entry]]:
        entry = self.get(None)
        return [] if entry is MISSING else [(None, entry)]

    def elements(self) -> list[Entry]:
        entry = self.get(None)
        return [] if entry is MISSING else [entry]

    def is_empty(self) -> bool:
        return self._current.key not in self._entries

    def clear(self) -> None:
        self.delete(None)

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        return [self.get(user_key) for user_key in user_keys]

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        for user_key, entry in items:
            self.put(user_key, entry)

    def scan(self) -> Iterator[tuple[Hashable, Any, Entry]]:
        return iter([(key, None, entry) for key, entry in self._entries.items()])

    def sweep(
        self,
        count: int,
        is_dead: Callable[[Entry], bool],
        any_dead: Callable[[Sequence[Entry]], bool] | None = None,
    ) -> int:
        any_dead = any_dead or any_by(is_dead)
        data, entries = self._data, self._entries
        seen = 0
        dead: list[Any] = []
        while seen < count:
            keys = list(islice(data.cursor, count - seen))
            if not keys:
                # A copy, for the keys change before the sweep comes round.
                data.cursor = iter(tuple(entries))
                break
            keys, stored = found(entries, keys)
            seen += len(stored)
            if any_dead(stored):  # as a rule none is
                dead += compress(keys, map(is_dead, stored))
        return self._delete(dead)

    def sweep_all(self, is_dead: Callable[[Entry], bool]) -> int:
        return self._delete([key for key, entry in self._entries.items() if is_dead(entry)])

    def _delete(self, keys: list[Hashable]) -> int:
        for key in keys:
            del self._entries[key]
            self._dirty[key] = None
        return len(keys)

    def count(self) -> int:
        return len(self._entries)

    def drain(self) -> TableChanges:
        keys = list(self._dirty)
        self._dirty.clear()
        entries = list(map(self._entries.get, keys, repeat(MISSING)))
        return TableChanges(self.spec, keys=keys, user_keys=[None] * len(keys), entries=entries)

    def contents(self) -> TableChanges:
        keys = list(self._entries)
        return TableChanges(
            self.spec, keys=keys, user_keys=[None] * len(keys), entries=list(self._entries.values())
        )

    def apply(self, changes: TableChanges) -> None:
        for key in changes.cleared:
            self._entries.pop(key, None)
        if MISSING in changes.entries:
            for key, entry in zip(changes.keys, changes.entries):
                if entry is MISSING:
                    self._entries.pop(key, None)
                else:
                    self._entries[key] = entry
        else:
            self._entries.update(zip(changes.keys, changes.entries))
