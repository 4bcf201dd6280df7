# SPDX-License-Identifier: Apache-2.0
"""The table of maps, lists and timers over RocksDB: entries under user keys.

A map iterates in the order of its encoded user keys, a list by position.  So only the entries of
lists are logged in order: the order of a rebuilt map does not depend on when an entry was put.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from pyflinklike.backends.rocksdb.layout import POSITION, RocksManyRows
from pyflinklike.errors import LocalStateError
from pyflinklike.state.table import MISSING, Entry, TableChanges

__all__ = ["RocksManyTable"]


class RocksManyTable(RocksManyRows):
    """Entries under user keys, or under positions, for each key."""

    # One entry

    def get(self, user_key: Hashable) -> Entry:
        key = self._current.key
        mine = self._entries.get(key)
        if mine is None:
            mine = self._read(key)
        if self._partial and user_key not in mine and key in self._partial:
            self._fetch(key, mine, [user_key])
        return mine.get(user_key, MISSING)

    def put(self, user_key: Hashable, entry: Entry) -> None:
        key = self._current.key
        mine = self._entries.get(key)
        if mine is None:
            mine = self._read(key)
        if mine.get(user_key, MISSING) is MISSING:
            self._count_in(key, mine, user_key)
        mine[user_key] = entry
        touched = self._dirty.get(key)
        if touched is None:
            touched = self._dirty[key] = {}
        touched[user_key] = None

    def _count_in(self, key: Any, mine: dict[Any, Entry], user_key: Any) -> None:
        """Count an entry that is about to be put, if there is none under its user key."""
        data = self._data
        if user_key not in mine:
            if key in self._partial:
                self._fetch(key, mine, [user_key])
                if mine[user_key] is not MISSING:
                    return
            data.ordered.discard(key)
        data.size += 1
        if key in self._ends:
            self._ends[key] = max(self._ends[key], user_key + 1)

    def delete(self, user_key: Hashable) -> None:
        self._remove(self._current.key, user_key)

    def _remove(self, key: Any, user_key: Any) -> None:
        if self._drop(key, user_key):
            self._dirty.setdefault(key, {})[user_key] = None

    def _drop(self, key: Any, user_key: Any) -> bool:
        """Delete an entry, and return whether there was one."""
        if self._lookup(key, user_key) is MISSING:
            return False
        self._entries[key][user_key] = MISSING
        self._data.size -= 1
        self._ends.pop(key, None)
        return True

    # The end of a list

    def append(self, entry: Entry) -> None:
        data, key = self._data, self._current.key
        position = self._ends.get(key)
        if position is None:
            position = self._end_of(key)
        mine = self._entries[key]
        if position not in mine and mine and next(reversed(mine)) > position:
            data.ordered.discard(key)  # what lay behind it is deleted, but not yet on disk
        mine[position] = entry
        data.size += 1
        self._ends[key] = position + 1
        touched = self._dirty.get(key)
        if touched is None:
            touched = self._dirty[key] = {}
        touched[position] = None

    def _end_of(self, key: Any) -> int:
        mine = self._mine(key)
        if key in self._ends:
            return self._ends[key]
        last = -1
        if key in self._partial:
            try:
                last = self._last_on_disk(key, mine)
            except LocalStateError as error:
                self._rebuild(error)  # takes in the whole list
        alive: list[int] = [at for at, entry in mine.items() if entry is not MISSING]
        return max(last, *alive, -1) + 1

    def _last_on_disk(self, key: Any, mine: dict[Any, Entry]) -> int:
        begin = self._at(key)
        for raw in self._opened().keys_backwards(begin + b"\x00", begin + b"\xff"):
            position: int = POSITION.unpack_from(raw, len(begin))[0]
            if mine.get(position) is not MISSING:
                return position
        return -1

    # All entries of a key

    def items(self) -> list[tuple[Any, Entry]]:
        mine = self._loaded(self._current.key)
        return [item for item in mine.items() if item[1] is not MISSING]

    def elements(self) -> list[Entry]:
        mine = self._loaded(self._current.key)
        return [entry for entry in mine.values() if entry is not MISSING]

    def is_empty(self) -> bool:
        return self._is_empty(self._current.key)

    def clear(self) -> None:
        key = self._current.key
        if self._wipe(key):
            self._data.cleared[key] = None
            self._dirty.pop(key, None)

    def _wipe(self, key: Any) -> bool:
        """Delete all entries of a key, and return whether there were any."""
        # All user keys must be known, for each of them has a row to delete.
        mine, data = self._loaded(key), self._data
        alive = [user_key for user_key, entry in mine.items() if entry is not MISSING]
        if alive:
            data.size -= len(alive)
            mine.update(dict.fromkeys(alive, MISSING))
            if data.is_based:
                data.unsaved.setdefault(key, {}).update(dict.fromkeys(mine))
        self._ends.pop(key, None)
        return bool(alive)

    # Many entries

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        key = self._current.key
        mine = self._mine(key)
        if key in self._partial:
            unknown = [user_key for user_key in user_keys if user_key not in mine]
            if unknown:
                self._fetch(key, mine, unknown)
        return [mine.get(user_key, MISSING) for user_key in user_keys]

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        pairs = list(items)
        self.multi_get([user_key for user_key, _ in pairs])  # one read from disk for all of them
        for user_key, entry in pairs:
            self.put(user_key, entry)

    # Across keys

    def drain(self) -> TableChanges:
        data = self._data
        changes = TableChanges(self.spec, cleared=list(data.cleared))
        for key, touched in data.dirty.items():
            mine = data.entries[key]
            user_keys = sorted(touched) if self._is_list else list(touched)
            changes.keys.extend([key] * len(user_keys))
            changes.user_keys.extend(user_keys)
            changes.entries.extend(map(mine.__getitem__, user_keys))
            if data.is_based:
                unsaved = data.unsaved.setdefault(key, touched)
                if unsaved is not touched:
                    unsaved.update(touched)
        data.dirty.clear()
        data.cleared.clear()
        return changes

    def apply(self, changes: TableChanges) -> None:
        for key in changes.cleared:
            self._wipe(key)
        data, entries, partial = self._data, self._entries, self._partial
        size = data.size
        unsaved = data.unsaved if data.is_based else None
        for key, user_key, entry in zip(changes.keys, changes.user_keys, changes.entries):
            mine = entries.get(key)
            if mine is None:
                mine = self._read(key)
            if user_key not in mine:
                if key in partial:
                    self._fetch(key, mine, [user_key])
                data.ordered.discard(key)
            size += (mine.get(user_key, MISSING) is MISSING) - (entry is MISSING)
            mine[user_key] = entry
            if unsaved is not None:
                unsaved.setdefault(key, {})[user_key] = None
        data.size = size
        self._ends.clear()
