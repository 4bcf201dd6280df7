# SPDX-License-Identifier: Apache-2.0
"""The table of maps, lists and timers over RocksDB: entries under user keys.

The entries of a key lie on disk in one of two ways:

* *packed*: one row under the key holds them all, as a dict.  Any use of the key
  reads it, and from then on all of the key is in memory, as on the heap.
* *spread*: an empty row under the key, and behind it a row for each entry under
  key and user key (or position).  Only what is used of it is read.

A key without a row has no entries, so that one read tells how a key lies.  A key
is spread when its entries outgrow a row that is cheap to write anew, and stays so
until it has none.

A map iterates in the order of its encoded user keys, a list by position.  What
is logged needs no order but the latter, for no rebuilt table depends on when an
entry of a map was put.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from pyflinklike.backends.rocksdb_keys import decode, encode
from pyflinklike.backends.rocksdb_single import UNKNOWN, RocksTable, RocksTableData, dump, load
from pyflinklike.backends.rocksdb_store import LocalStore
from pyflinklike.table import MISSING, CurrentKey, Entry, Shape, TableChanges, TableSpec

__all__ = ["RocksManyTable"]

_position = struct.Struct(">Q")
_SPREAD = b""
_MOST_PACKED, _MOST_PACKED_BYTES = 128, 2048
"""What a packed row holds at most.  A block of RocksDB, which is read as a whole, is larger."""


class RocksManyTable(RocksTable):
    """Entries under user keys, or under positions, per key."""

    def __init__(
        self, spec: TableSpec, scope: CurrentKey, opened: Callable[[], LocalStore]
    ) -> None:
        self._is_list = spec.shape is Shape.LIST
        self._encode: Callable[[Any], bytes] = _position.pack if self._is_list else encode
        super().__init__(spec, scope, opened)

    def point_at(self, data: RocksTableData, prefix: bytes) -> None:
        super().point_at(data, prefix)
        self._partial = data.partial
        self._ends = data.ends

    # A key

    def _read(self, key: Any) -> dict[Any, Entry]:
        """Take a key into the overlay: its entries there, all of them unless it is `partial`."""
        data = self._data
        row = self._row(self._prefix + encode(key)) if data.is_based else None
        mine: dict[Any, Entry] = load(row) if row else {}
        if row == _SPREAD:
            data.spread.add(key)
            data.partial.add(key)
        elif self._is_list:
            data.ordered.add(key)
            self._ends[key] = next(reversed(mine)) + 1 if mine else 0
        self._entries[key] = mine
        return mine

    def _mine(self, key: Any) -> dict[Any, Entry]:
        mine = self._entries.get(key)
        return self._read(key) if mine is None else mine

    # One entry

    def get(self, user_key: Hashable) -> Entry:
        key = self._scope.key
        mine = self._entries.get(key)
        if mine is None:
            mine = self._read(key)
        if self._partial and user_key not in mine and key in self._partial:
            self._fetch(key, mine, [user_key])
        return mine.get(user_key, MISSING)

    def _lookup(self, key: Any, user_key: Any) -> Entry:
        mine = self._mine(key)
        if user_key not in mine and key in self._partial:
            self._fetch(key, mine, [user_key])
        return mine.get(user_key, MISSING)

    def _fetch(self, key: Any, mine: dict[Any, Entry], user_keys: list[Any]) -> None:
        """Read entries of a partial key."""
        begin = self._at(key)
        rows = self._opened().get_many([begin + self._encode(each) for each in user_keys])
        for user_key, row in zip(user_keys, rows):
            mine[user_key] = MISSING if row is None else load(row)

    def put(self, user_key: Hashable, entry: Entry) -> None:
        key = self._scope.key
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
        """Make ready for an entry that the overlay does not have."""
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
        self._remove(self._scope.key, user_key)

    def _remove(self, key: Any, user_key: Any) -> None:
        if self._drop(key, user_key):
            self._dirty.setdefault(key, {})[user_key] = None

    def _drop(self, key: Any, user_key: Any) -> bool:
        """Delete an entry; whether there was one."""
        if self._lookup(key, user_key) is MISSING:
            return False
        self._entries[key][user_key] = MISSING
        self._data.size -= 1
        self._ends.pop(key, None)
        return True

    # The end of a list

    def append(self, entry: Entry) -> None:
        data, key = self._data, self._scope.key
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
        end = max((at + 1 for at, entry in mine.items() if entry is not MISSING), default=0)
        if key in self._partial:
            begin = self._at(key)
            for raw in self._opened().keys_backwards(begin + b"\x00", begin + b"\xff"):
                position: int = _position.unpack_from(raw, len(begin))[0]
                if mine.get(position) is not MISSING:
                    return max(end, position + 1)
        return end

    # All entries of a key

    def _spread_rows(self, key: Any) -> Iterator[tuple[Any, bytes]]:
        """User key and row of each entry on disk, in order."""
        begin = self._at(key)
        start = len(begin)
        for raw, row in self._opened().items(begin + b"\x00", begin + b"\xff"):
            yield self._user_key(raw, start), row

    def _loaded(self, key: Any) -> dict[Any, Entry]:
        """All entries of a key, in order; MISSING where one was deleted."""
        data = self._data
        mine = self._mine(key)
        if key in self._partial:
            over, mine = mine, {}
            for user_key, row in self._spread_rows(key):
                entry = over.get(user_key, UNKNOWN)
                mine[user_key] = load(row) if entry is UNKNOWN else entry
            if any(user_key not in mine for user_key in over):
                mine.update(over)
            else:
                data.ordered.add(key)
            self._partial.discard(key)
            self._entries[key] = mine
        if len(mine) > 1 and key not in data.ordered:
            mine = self._entries[key] = self._sorted(mine)
            data.ordered.add(key)
        return mine

    def _sorted(self, mine: dict[Any, Entry]) -> dict[Any, Entry]:
        # Texts and numbers sort as their bytes do.
        by_nature = self._is_list or set(map(type, mine)) in ({int}, {str})
        order = sorted(mine) if by_nature else sorted(mine, key=encode)
        return {user_key: mine[user_key] for user_key in order}

    def _user_key(self, raw: bytes, at: int) -> Any:
        return _position.unpack_from(raw, at)[0] if self._is_list else decode(raw, at)[0]

    def items(self) -> list[tuple[Any, Entry]]:
        mine = self._loaded(self._scope.key)
        return [item for item in mine.items() if item[1] is not MISSING]

    def elements(self) -> list[Entry]:
        mine = self._loaded(self._scope.key)
        return [entry for entry in mine.values() if entry is not MISSING]

    def is_empty(self) -> bool:
        key = self._scope.key
        mine = self._mine(key)
        if any(entry is not MISSING for entry in mine.values()):
            return False
        return key not in self._partial or all(each in mine for each, _ in self._spread_rows(key))

    def clear(self) -> None:
        key = self._scope.key
        if self._wipe(key):
            self._data.cleared[key] = None
            self._dirty.pop(key, None)

    def _wipe(self, key: Any) -> bool:
        """Delete all entries of a key; whether there were any."""
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
        key = self._scope.key
        mine = self._mine(key)
        if key in self._partial:
            unknown = [user_key for user_key in user_keys if user_key not in mine]
            if unknown:
                self._fetch(key, mine, unknown)
        return [mine.get(user_key, MISSING) for user_key in user_keys]

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        pairs = list(items)
        self.multi_get([user_key for user_key, _ in pairs])
        for user_key, entry in pairs:
            self.put(user_key, entry)

    # Across keys

    def _sweep_row(
        self, raw: bytes, row: bytes, is_dead: Callable[[Entry], bool]
    ) -> tuple[int, int]:
        key, at = decode(raw, len(self._prefix))
        if at < len(raw):
            entries = {self._user_key(raw, at): load(row)}
        else:
            entries = load(row) if row else {}
        # Where the overlay has another entry, that one is among the overlaid.
        dead = [user_key for user_key, entry in entries.items() if is_dead(entry)]
        return len(entries), sum([self._bury(key, user_key, is_dead) for user_key in dead])

    def _overlaid(self) -> list[tuple[Any, Any]]:
        data = self._data
        if not data.is_based:
            return [(key, each) for key, mine in data.entries.items() for each in mine]
        return [
            (key, each)
            for key in self._changed()
            for each in data.unsaved.get(key, {}) | data.dirty.get(key, {})
        ]

    def _collected(self) -> list[tuple[Any, Any, Entry]]:
        over, partial, start = self._entries, self._partial, len(self._prefix)
        found: dict[Any, dict[Any, Entry]] = {}
        for raw, row in self._rows():
            key, at = decode(raw, start)
            if key in over and key not in partial:
                continue
            if at < len(raw):
                found.setdefault(key, {})[self._user_key(raw, at)] = load(row)
            elif row:
                found[key] = load(row)
        for key, mine in over.items():
            found[key] = found[key] | mine if key in found else mine
            if self._is_list and key not in self._data.ordered:
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

    def _known(self) -> int:
        return sum(map(len, self._entries.values()))

    def unsaved(self) -> Iterator[tuple[bytes, bytes | None]]:
        """What must be written to disk; None deletes."""
        data = self._data
        for key in self._changed():
            mine, begin = self._entries[key], self._at(key)
            if key in data.spread:
                touched: Iterable[Any] = data.unsaved.get(key, {}) | data.dirty.get(key, {})
                if key not in self._partial and not _alive(mine):
                    yield begin, None
            else:
                touched = mine = _alive(mine)
                if self._is_list and key not in data.ordered:
                    mine = self._sorted(mine)
                row = dump(mine) if len(mine) <= _MOST_PACKED else None
                if row is not None and len(row) <= _MOST_PACKED_BYTES:
                    yield begin, row if mine else None
                    continue
                yield begin, _SPREAD
            for user_key in touched:
                entry = mine[user_key]
                yield begin + self._encode(user_key), None if entry is MISSING else dump(entry)


def _alive(mine: dict[Any, Entry]) -> dict[Any, Entry]:
    """Without what is deleted."""
    if MISSING not in mine.values():
        return mine
    return {user_key: entry for user_key, entry in mine.items() if entry is not MISSING}
