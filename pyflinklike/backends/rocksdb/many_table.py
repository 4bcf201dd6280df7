# SPDX-License-Identifier: Apache-2.0
"""The tables of maps, lists and timers over RocksDB: entries under user keys, and ranges of them.

The entries of a key lie on disk in one of two ways:

* *packed*: one row under the key holds them all, as a dict.  Any use of the key reads that row, and
  from then on all entries of the key are in memory, as on the heap.  So a small key needs one read, and
  one write brings it to disk.
* *spread*: there is an empty row under the key, and behind it one row for each entry, under key and
  user key (or position).  Only the entries that are used are read.

A key without a row has no entries.  So one read says how a key lies.  A key becomes spread if its
entries outgrow a row that is cheap to write anew, or if a user key might not be equal to itself after
pickling.  It stays spread until it has no entries.

A map iterates in the order of its encoded user keys, and a list by position.  So only the entries of
lists are logged in order: the order of a rebuilt map does not depend on when an entry was put.

RocksDB finds the beginning of a range by itself.  The entries that the batch has read and written lie
over the disk, in a dict.  The first range under a key sorts the user keys of that dict, and a later
range inserts the user keys that have come since.
"""

from __future__ import annotations

import heapq
import struct
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import islice
from operator import itemgetter
from typing import Any

from pyflinklike.backends.rocksdb.local_database import LocalDatabase
from pyflinklike.backends.rocksdb.rocks_tables import (
    UNKNOWN,
    Found,
    Rebuild,
    RocksSingleTable,
    RocksTable,
    RocksTableData,
    dump,
    load,
)
from pyflinklike.errors import LocalStateError
from pyflinklike.state.current_key import CurrentKey, TableKey
from pyflinklike.state.table import MISSING, Entry, Shape, TableChanges, TableSpec
from pyflinklike.types.frozen_keys import decode, encode

POSITION = struct.Struct(">Q")
"""Writes a position in a list; it follows the key's bytes."""
_SPREAD = b""
_PACKABLE = frozenset((int, str, bytes, bool, date, datetime))
"""The types of user keys that keep equality and hash through pickling; a NaN does not."""


class RocksManyTable(RocksTable):
    """Entries under user keys, or under positions, for each key."""

    most_packed, most_packed_bytes = 128, 2048
    """The largest packed row, in entries and bytes; RocksDB reads whole blocks, which are larger."""

    def __init__(
        self,
        spec: TableSpec,
        current: TableKey,
        opened: Callable[[], LocalDatabase],
        rebuild: Rebuild,
    ) -> None:
        self._is_list = spec.shape is Shape.LIST
        self._encode: Callable[[Any], bytes] = POSITION.pack if self._is_list else encode
        super().__init__(spec, current, opened, rebuild)

    def point_at(self, data: RocksTableData, prefix: bytes) -> None:
        super().point_at(data, prefix)
        self._partial = data.partial
        self._ends = data.ends

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
        """Count an entry that the caller is about to put, if there is none under its user key."""
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
            data.ordered.discard(key)  # later positions were deleted, but are still on disk
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
                self._rebuild(error)  # reads the whole list
        alive: list[int] = [at for at, entry in mine.items() if entry is not MISSING]
        return max(last, *alive, -1) + 1

    def _last_on_disk(self, key: Any, mine: dict[Any, Entry]) -> int:
        begin = self._at(key)
        for raw, _ in self._opened().items_backwards(begin + b"\x00", begin + b"\xff"):
            position: int = POSITION.unpack_from(raw, len(begin))[0]
            if mine.get(position) is not MISSING:
                return position
        return -1

    # All entries of a key

    def items(self) -> list[tuple[Any, Entry]]:
        mine = self._load(self._current.key)
        return [item for item in mine.items() if item[1] is not MISSING]

    def elements(self) -> list[Entry]:
        mine = self._load(self._current.key)
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
        # All user keys must be known, because each of them has a row to delete.
        mine, data = self._load(key), self._data
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

    # The rows of a key

    def _read(self, key: Any) -> dict[Any, Entry]:
        """Read a key into the overlay, with all its entries unless it is `partial`."""
        data = self._data
        try:
            row = self._row_of(key) if data.is_based else None
            mine: dict[Any, Entry] = load(row) if row else {}
        except LocalStateError as error:
            self._rebuild(error)
            return self._mine(key)
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

    def _lookup(self, key: Any, user_key: Any) -> Entry:
        mine = self._mine(key)
        if user_key not in mine and key in self._partial:
            self._fetch(key, mine, [user_key])
        return mine.get(user_key, MISSING)

    def _fetch(self, key: Any, mine: dict[Any, Entry], user_keys: list[Any]) -> None:
        """Read entries of a partial key."""
        begin = self._at(key)
        try:
            rows = self._opened().get_many([begin + self._encode(each) for each in user_keys])
            entries = [MISSING if row is None else load(row) for row in rows]
        except LocalStateError as error:
            self._rebuild(error)
            for user_key in user_keys:
                mine.setdefault(user_key, MISSING)
            return
        mine.update(zip(user_keys, entries))

    # All rows of a key

    def _read_spread_rows(self, key: Any) -> Iterator[tuple[Any, bytes]]:
        """Yield the user key and the row of each entry on disk, in order."""
        begin = self._at(key)
        start = len(begin)
        for raw, row in self._opened().items(begin + b"\x00", begin + b"\xff"):
            yield self._user_key(raw, start), row

    def _load(self, key: Any) -> dict[Any, Entry]:
        """Return all entries of a key, in order, with `MISSING` for a deleted one."""
        data = self._data
        mine = self._mine(key)
        if key in self._partial:
            try:
                mine = self._load_spread(key, mine)
            except LocalStateError as error:
                self._rebuild(error)  # reads the whole key
        if len(mine) > 1 and key not in data.ordered:
            mine = self._entries[key] = self._sort(mine)
            data.ordered.add(key)
        return mine

    def _load_spread(self, key: Any, over: dict[Any, Entry]) -> dict[Any, Entry]:
        mine: dict[Any, Entry] = {}
        for user_key, row in self._read_spread_rows(key):
            entry = over.get(user_key, UNKNOWN)
            mine[user_key] = load(row) if entry is UNKNOWN else entry
        if any(user_key not in mine for user_key in over):
            mine.update(over)
        else:
            self._data.ordered.add(key)
        self._partial.discard(key)
        self._entries[key] = mine
        return mine

    def _put_under(self, rebuilt: RocksTableData) -> None:
        data, entries = self._data, self._entries
        for key, theirs in rebuilt.entries.items():
            mine = entries.get(key)
            if mine is None:
                entries[key] = theirs
                data.ordered |= rebuilt.ordered & {key}
            elif key in self._partial:
                # The dict itself changes, because a method that is reading this key goes on with it.
                for user_key, entry in theirs.items():
                    mine.setdefault(user_key, entry)
                data.ordered.discard(key)

    def _sort(self, mine: dict[Any, Entry]) -> dict[Any, Entry]:
        # Strings and numbers sort as their bytes do, and that is faster.
        by_nature = self._is_list or set(map(type, mine)) in ({int}, {str})
        order = sorted(mine) if by_nature else sorted(mine, key=encode)
        return {user_key: mine[user_key] for user_key in order}

    def _user_key(self, raw: bytes, at: int) -> Any:
        return POSITION.unpack_from(raw, at)[0] if self._is_list else decode(raw, at)[0]

    def _is_empty(self, key: Any) -> bool:
        mine = self._mine(key)
        if any(entry is not MISSING for entry in mine.values()):
            return False
        try:
            rest = self._read_spread_rows(key) if key in self._partial else ()
            return all(user_key in mine for user_key, _ in rest)
        except LocalStateError as error:
            self._rebuild(error)
            return self._is_empty(key)

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
        if not (data.is_based or entries or MISSING in changes.entries):
            self._apply_first(changes)
            return
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

    def _apply_first(self, changes: TableChanges) -> None:
        """Take over entries into an empty table; no entry is `MISSING`."""
        entries = self._entries
        for key, user_key, entry in zip(changes.keys, changes.user_keys, changes.entries):
            mine = entries.get(key)
            if mine is None:
                mine = entries[key] = {}
            mine[user_key] = entry
        self._data.size = sum(map(len, entries.values()))

    def _sweep_row(
        self, raw: bytes, row: bytes, is_dead: Callable[[Entry], bool]
    ) -> tuple[int, int]:
        key, at = decode(raw, len(self._prefix))
        if at < len(raw):
            entries = {self._user_key(raw, at): load(row)}
        else:
            entries = load(row) if row else {}
        # `_overlaid` sweeps the entries that changed in memory.
        dead = [user_key for user_key, entry in entries.items() if is_dead(entry)]
        return len(entries), sum([self._delete_dead(key, user_key, is_dead) for user_key in dead])

    def _overlaid(self) -> list[tuple[Any, Any]]:
        data = self._data
        if not data.is_based:
            return [(key, each) for key, mine in data.entries.items() for each in mine]
        return [
            (key, each)
            for key in self._find_changed()
            for each in data.unsaved.get(key, {}) | data.dirty.get(key, {})
        ]

    def _collect(self) -> Found:
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
                found[key] = self._sort(found[key])
        keys: list[Any] = []
        user_keys: list[Any] = []
        entries: list[Entry] = []
        for key, mine in found.items():
            alive = _alive(mine)
            keys += [key] * len(alive)
            user_keys += alive
            entries += alive.values()
        return keys, user_keys, entries

    def _count_known(self) -> int:
        return sum(map(len, self._entries.values()))

    def _pack(self, mine: dict[Any, Entry]) -> bytes | None:
        """Return all entries of a key as one row, or None if they must be spread."""
        if len(mine) > self.most_packed or not _PACKABLE.issuperset(map(type, mine)):
            return None
        row = dump(mine)
        return row if len(row) <= self.most_packed_bytes else None

    def rows_to_write(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the rows to write to disk; the row None deletes."""
        data, keys = self._data, list(self._find_changed())
        for key, begin in zip(keys, self._raws_of(keys)):
            mine = self._entries[key]
            if key in data.spread:
                touched: Iterable[Any] = data.unsaved.get(key, {}) | data.dirty.get(key, {})
                if self._is_empty(key):
                    yield begin, None
            else:
                touched = mine = _alive(mine)
                if self._is_list and key not in data.ordered:
                    mine = self._sort(mine)
                row = self._pack(mine)
                if row is not None:
                    yield begin, row if mine else None
                    continue
                yield begin, _SPREAD
            for user_key in touched:
                entry = mine[user_key]
                yield begin + self._encode(user_key), None if entry is MISSING else dump(entry)


def _alive(mine: dict[Any, Entry]) -> dict[Any, Entry]:
    """Return the entries without the deleted ones."""
    if MISSING not in mine.values():
        return mine
    return {user_key: entry for user_key, entry in mine.items() if entry is not MISSING}


# Ordered tables


RocksTableOfAnyShape = RocksSingleTable | RocksManyTable
"""A table of any shape."""

_first = itemgetter(0)


class RocksOrderedTable(RocksManyTable):
    """Entries under user keys of bytes, for each key, in order."""

    def range(
        self,
        begin: bytes | None = None,
        end: bytes | None = None,
        *,
        backwards: bool = False,
        limit: int | None = None,
    ) -> list[tuple[bytes, Entry]]:
        try:
            return self._range(begin, end, backwards=backwards, limit=limit)
        except LocalStateError as error:
            self._rebuild(error)
            return self._range(begin, end, backwards=backwards, limit=limit)

    def _range(
        self, begin: bytes | None, end: bytes | None, *, backwards: bool, limit: int | None
    ) -> list[tuple[bytes, Entry]]:
        key = self._current.key
        over = self._over(key, begin, end, backwards=backwards)
        found = over
        if key in self._partial:
            below = self._below(key, begin, end, backwards=backwards)
            found = heapq.merge(over, below, key=_first, reverse=backwards)
        return list(islice((item for item in found if item[1] is not MISSING), limit))

    def _over(
        self, key: Any, begin: bytes | None, end: bytes | None, *, backwards: bool
    ) -> Iterator[tuple[bytes, Any]]:
        """Return the entries of the range that are in memory."""
        mine = self._mine(key)
        order = self._order(key, mine)
        start = 0 if begin is None else bisect_left(order, begin)
        stop = len(order) if end is None else bisect_left(order, end)
        found = order[start:stop]
        if backwards:
            found.reverse()
        return ((user_key, mine[user_key]) for user_key in found)

    def _order(self, key: Any, mine: dict[Any, Any]) -> list[bytes]:
        of, order = self._data.sorted.get(key, (None, []))
        if of is not mine:  # a new dict: the key was read as a whole since
            order = sorted(mine)
            self._data.sorted[key] = mine, order
        # A deletion stores MISSING, so the dict only gets more user keys, at its end.
        for user_key in islice(reversed(mine), len(mine) - len(order)):
            insort(order, user_key)
        return order

    def _below(
        self, key: Any, begin: bytes | None, end: bytes | None, *, backwards: bool
    ) -> Iterator[tuple[bytes, Entry]]:
        """Yield the entries of the range that are on disk and not in memory."""
        at = self._at(key)
        mine = self._entries[key]
        first = at + (b"\x00" if begin is None else self._encode(begin))
        stop = at + (b"\xff" if end is None else self._encode(end))
        if first >= stop:
            return
        read = self._opened().items_backwards if backwards else self._opened().items
        for raw, row in read(first, stop):
            user_key = self._user_key(raw, len(at))
            if user_key not in mine:
                yield user_key, load(row)


def new_table(
    spec: TableSpec, current: CurrentKey, opened: Callable[[], LocalDatabase], rebuild: Rebuild
) -> RocksTableOfAnyShape:
    """Create the table that fits a spec."""
    key = spec.key_of(current)
    if spec.ordered:
        return RocksOrderedTable(spec, key, opened, rebuild)
    if spec.shape is Shape.SINGLE:
        return RocksSingleTable(spec, key, opened, rebuild)
    return RocksManyTable(spec, key, opened, rebuild)
