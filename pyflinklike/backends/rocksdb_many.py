# SPDX-License-Identifier: Apache-2.0
"""The table of maps, lists and timers over RocksDB: entries under user keys.

A map iterates in the order of its encoded user keys, a list by position.  What
is logged needs no order but the latter, for no rebuilt table depends on when an
entry of a map was put.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from pyflinklike.backends.rocksdb_keys import decode, encode
from pyflinklike.backends.rocksdb_single import UNKNOWN, RocksTable, dump, load
from pyflinklike.backends.rocksdb_store import LocalStore
from pyflinklike.table import MISSING, CurrentKey, Entry, Shape, TableChanges, TableSpec

__all__ = ["RocksManyTable"]

_position = struct.Struct(">Q")


class RocksManyTable(RocksTable):
    """Entries under user keys, or under positions, per key."""

    def __init__(
        self, spec: TableSpec, scope: CurrentKey, opened: Callable[[], LocalStore]
    ) -> None:
        super().__init__(spec, scope, opened)
        self._is_list = spec.shape is Shape.LIST
        self._encode: Callable[[Any], bytes] = _position.pack if self._is_list else encode

    # One entry

    def get(self, user_key: Hashable) -> Entry:
        return self._get(self._scope.key, user_key)

    def _get(self, key: Any, user_key: Any) -> Entry:
        entry = self._peek(key, user_key)
        if entry is not UNKNOWN:
            return entry
        value = self._opened().get(self._at(key) + self._encode(user_key))
        entry = MISSING if value is None else load(value)
        self._data.entries.setdefault(key, {})[user_key] = entry
        return entry

    def _peek(self, key: Any, user_key: Any) -> Entry:
        data = self._data
        mine = data.entries.get(key)
        entry = UNKNOWN if mine is None else mine.get(user_key, UNKNOWN)
        if entry is UNKNOWN and (not data.is_based or key in data.whole):
            return MISSING
        return entry

    def put(self, user_key: Hashable, entry: Entry) -> None:
        key = self._scope.key
        self._put(key, user_key, entry)
        self._data.dirty.setdefault(key, {})[user_key] = None

    def _put(self, key: Any, user_key: Any, entry: Entry) -> None:
        data = self._data
        is_new = self._get(key, user_key) is MISSING
        mine = data.entries.setdefault(key, {})
        if is_new:
            data.size += 1
            if user_key not in mine:
                data.ordered.discard(key)
            if key in data.ends:
                data.ends[key] = max(data.ends[key], user_key + 1)
        mine[user_key] = entry
        data.unsaved.setdefault(key, {})[user_key] = None

    def delete(self, user_key: Hashable) -> None:
        key = self._scope.key
        if self._get(key, user_key) is not MISSING:
            self._remove(key, user_key)

    def _remove(self, key: Any, user_key: Any) -> None:
        self._drop(key, user_key)
        self._data.dirty.setdefault(key, {})[user_key] = None

    def _drop(self, key: Any, user_key: Any) -> None:
        if self._get(key, user_key) is not MISSING:
            data = self._data
            data.size -= 1
            data.entries.setdefault(key, {})[user_key] = MISSING
            data.unsaved.setdefault(key, {})[user_key] = None
            data.ends.pop(key, None)

    # The end of a list

    def append(self, entry: Entry) -> None:
        data, key = self._data, self._scope.key
        position = data.ends.get(key)
        if position is None:
            position = data.ends[key] = self._end_of(key)
        mine = data.entries.get(key)
        if mine is None:
            mine = data.entries[key] = {}
        elif position not in mine and mine and next(reversed(mine)) > position:
            data.ordered.discard(key)  # what lay behind it is deleted, but not yet on disk
        mine[position] = entry
        data.size += 1
        data.ends[key] = position + 1
        data.unsaved.setdefault(key, {})[position] = None
        data.dirty.setdefault(key, {})[position] = None

    def _end_of(self, key: Any) -> int:
        data = self._data
        mine = data.entries.get(key, {})
        end = max((at + 1 for at, entry in mine.items() if entry is not MISSING), default=0)
        if data.is_based and key not in data.whole:
            begin = self._at(key)
            for raw in self._opened().keys_backwards(begin, begin + b"\xff"):
                position: int = _position.unpack_from(raw, len(begin))[0]
                if mine.get(position) is not MISSING:
                    return max(end, position + 1)
        return end

    # All entries of a key

    def _loaded(self, key: Any) -> dict[Any, Entry]:
        """All entries of a key, in order; MISSING where one was deleted."""
        data = self._data
        mine: dict[Any, Entry] = data.entries.get(key, {})
        if data.is_based and key not in data.whole:
            begin = self._at(key)
            start, over = len(begin), mine
            mine = {}
            for raw, value in self._opened().items(begin, begin + b"\xff"):
                user_key = self._user_key(raw, start)
                entry = over.get(user_key, UNKNOWN)
                mine[user_key] = load(value) if entry is UNKNOWN else entry
            if any(user_key not in mine for user_key in over):
                mine.update(over)
            else:
                data.ordered.add(key)
            data.whole.add(key)
            data.entries[key] = mine
        if len(mine) > 1 and key not in data.ordered:
            mine = data.entries[key] = self._sorted(mine)
            data.ordered.add(key)
        return mine

    def _sorted(self, mine: dict[Any, Entry]) -> dict[Any, Entry]:
        order = None if self._is_list else encode
        return {user_key: mine[user_key] for user_key in sorted(mine, key=order)}

    def _user_key(self, raw: bytes, at: int) -> Any:
        return _position.unpack_from(raw, at)[0] if self._is_list else decode(raw, at)[0]

    def items(self) -> list[tuple[Any, Entry]]:
        mine = self._loaded(self._scope.key)
        return [item for item in mine.items() if item[1] is not MISSING]

    def elements(self) -> list[Entry]:
        mine = self._loaded(self._scope.key)
        return [entry for entry in mine.values() if entry is not MISSING]

    def is_empty(self) -> bool:
        data, key = self._data, self._scope.key
        mine = data.entries.get(key, {})
        if any(entry is not MISSING for entry in mine.values()):
            return False
        if not data.is_based or key in data.whole:
            return True
        begin = self._at(key)
        return all(
            self._user_key(raw, len(begin)) in mine
            for raw, _ in self._opened().items(begin, begin + b"\xff")
        )

    def clear(self) -> None:
        key = self._scope.key
        if self._wipe(key):
            self._data.cleared[key] = None
            self._data.dirty.pop(key, None)

    def _wipe(self, key: Any) -> bool:
        """Delete all entries of a key; whether there were any."""
        mine, data = self._loaded(key), self._data
        alive = [user_key for user_key, entry in mine.items() if entry is not MISSING]
        if alive:
            data.size -= len(alive)
            mine.update(dict.fromkeys(alive, MISSING))
            data.unsaved.setdefault(key, {}).update(dict.fromkeys(alive))
        data.ends.pop(key, None)
        return bool(alive)

    # Many entries

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        key = self._scope.key
        entries = [self._peek(key, user_key) for user_key in user_keys]
        if any(entry is UNKNOWN for entry in entries):
            self._fetch(key, [k for k, entry in zip(user_keys, entries) if entry is UNKNOWN])
            return [self._peek(key, user_key) for user_key in user_keys]
        hash(key)
        return entries

    def _fetch(self, key: Any, user_keys: list[Any]) -> None:
        begin = self._at(key)
        values = self._opened().get_many([begin + self._encode(each) for each in user_keys])
        mine = self._data.entries.setdefault(key, {})
        for user_key, value in zip(user_keys, values):
            mine[user_key] = MISSING if value is None else load(value)

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        pairs = list(items)
        self.multi_get([user_key for user_key, _ in pairs])
        for user_key, entry in pairs:
            self.put(user_key, entry)

    # Across keys

    def _parsed(self, raw: bytes) -> tuple[Any, Any]:
        key, at = decode(raw, len(self._prefix))
        return key, self._user_key(raw, at)

    def _overlaid(self) -> list[tuple[Any, Any]]:
        return [(key, each) for key, touched in self._data.unsaved.items() for each in touched]

    def _collected(self) -> list[tuple[Any, Any, Entry]]:
        over = self._data.entries
        if not over:
            return [(key, user_key, load(value)) for key, user_key, value in self._on_disk()]
        found: dict[Any, dict[Any, Entry]] = {}
        for key, user_key, value in self._on_disk():
            entry = over.get(key, {}).get(user_key, UNKNOWN)
            entry = load(value) if entry is UNKNOWN else entry
            found.setdefault(key, {})[user_key] = entry
        for key, mine in over.items():
            found.setdefault(key, {}).update(mine)
            if self._is_list:
                found[key] = self._sorted(found[key])
        return [
            (key, user_key, entry)
            for key, mine in found.items()
            for user_key, entry in mine.items()
            if entry is not MISSING
        ]

    def drain(self) -> TableChanges:
        data = self._data
        changes = TableChanges(self.spec, cleared=list(data.cleared))
        for key, touched in data.dirty.items():
            mine = data.entries[key]
            user_keys = sorted(touched) if self._is_list else list(touched)
            changes.keys.extend([key] * len(user_keys))
            changes.user_keys.extend(user_keys)
            changes.entries.extend(mine.get(user_key, MISSING) for user_key in user_keys)
        data.dirty.clear()
        data.cleared.clear()
        return changes

    def apply(self, changes: TableChanges) -> None:
        for key in changes.cleared:
            self._wipe(key)
        for key, user_key, entry in zip(changes.keys, changes.user_keys, changes.entries):
            if entry is MISSING:
                self._drop(key, user_key)
            else:
                self._put(key, user_key, entry)

    def unsaved(self) -> Iterator[tuple[bytes, bytes | None]]:
        """What must be written to disk; None deletes."""
        for key, touched in self._data.unsaved.items():
            mine, begin = self._data.entries[key], self._at(key)
            for user_key in touched:
                entry = mine[user_key]
                yield begin + self._encode(user_key), None if entry is MISSING else dump(entry)
