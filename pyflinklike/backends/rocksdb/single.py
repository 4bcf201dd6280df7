# SPDX-License-Identifier: Apache-2.0
"""The table of one entry for each key over RocksDB: a row for each key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from pyflinklike.backends.rocksdb.table import UNKNOWN, RocksTable, RocksTableData, dump, load
from pyflinklike.errors import LocalStateError
from pyflinklike.state.table import MISSING, Entry, TableChanges
from pyflinklike.types.frozen_keys import decode, encode

__all__ = ["RocksSingleTable"]


class RocksSingleTable(RocksTable):
    """One entry for each key, in a row."""

    def get(self, user_key: Hashable) -> Entry:
        key = self._current.key
        entry = self._entries.get(key, UNKNOWN)
        return self._read(key) if entry is UNKNOWN else entry

    def _read(self, key: Any) -> Entry:
        """Read the entry of a key that the overlay does not know."""
        if not self._data.is_based:
            return MISSING
        try:
            row = self._row(self._prefix + encode(key))
            entry = MISSING if row is None else load(row)
        except LocalStateError as error:
            self._rebuild(error)
            return self._entries.get(key, MISSING)
        self._entries[key] = entry
        return entry

    def _put_under(self, rebuilt: RocksTableData) -> None:
        entries = self._entries
        for key, entry in rebuilt.entries.items():
            entries.setdefault(key, entry)

    def _lookup(self, key: Any, user_key: Any) -> Entry:
        entry = self._entries.get(key, UNKNOWN)
        return self._read(key) if entry is UNKNOWN else entry

    def put(self, user_key: Hashable, entry: Entry) -> None:
        key = self._current.key
        former = self._entries.get(key, UNKNOWN)
        if former is UNKNOWN:
            former = self._read(key)
        if former is MISSING:
            self._data.size += 1
        self._entries[key] = entry
        self._dirty[key] = None

    def delete(self, user_key: Hashable) -> None:
        self._remove(self._current.key, None)

    def _remove(self, key: Any, user_key: Any) -> None:
        if self._lookup(key, None) is not MISSING:
            self._data.size -= 1
            self._entries[key] = MISSING
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
        return self.get(None) is MISSING

    def clear(self) -> None:
        self.delete(None)

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        return [self.get(user_key) for user_key in user_keys]

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        for user_key, entry in items:
            self.put(user_key, entry)

    def _sweep_row(
        self, raw: bytes, row: bytes, is_dead: Callable[[Entry], bool]
    ) -> tuple[int, int]:
        # Entries changed in memory are swept by `_overlaid`.
        if not is_dead(load(row)):
            return 1, 0
        return 1, self._delete_dead(decode(raw, len(self._prefix))[0], None, is_dead)

    def _overlaid(self) -> list[tuple[Any, Any]]:
        return [(key, None) for key in self._changed()]

    def _collect(self) -> list[tuple[Any, Any, Entry]]:
        mine, start = self._entries, len(self._prefix)
        below = [(decode(raw, start)[0], row) for raw, row in self._rows()]
        found = [(key, None, load(row)) for key, row in below if key not in mine]
        found += [(key, None, entry) for key, entry in mine.items() if entry is not MISSING]
        return found

    def drain(self) -> TableChanges:
        data = self._data
        keys = list(data.dirty)
        entries = list(map(data.entries.__getitem__, keys))
        if data.is_based:
            data.unsaved.update(data.dirty)
        data.dirty.clear()
        return TableChanges(self.spec, keys=keys, user_keys=[None] * len(keys), entries=entries)

    def apply(self, changes: TableChanges) -> None:
        data, entries = self._data, self._entries
        keys = changes.cleared + changes.keys
        if data.is_based:
            self._fetch(keys)
            data.unsaved.update(dict.fromkeys(keys))
        size = data.size
        for key, entry in zip(keys, [MISSING] * len(changes.cleared) + changes.entries):
            size += (entries.get(key, MISSING) is MISSING) - (entry is MISSING)
            entries[key] = entry
        data.size = size

    def _fetch(self, keys: list[Any]) -> None:
        """Read what the overlay does not know, in one call."""
        unknown = list(set(keys).difference(self._entries))
        rows = self._opened().get_many([self._prefix + encode(key) for key in unknown])
        for key, row in zip(unknown, rows):
            self._entries[key] = MISSING if row is None else load(row)

    def unsaved(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the rows to write to disk; None deletes."""
        entries, prefix = self._entries, self._prefix
        for key in self._changed():
            entry = entries[key]
            yield prefix + encode(key), None if entry is MISSING else dump(entry)
