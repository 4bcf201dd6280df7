# SPDX-License-Identifier: Apache-2.0
"""Tables over RocksDB: what a batch reads and writes lies over what is on disk.

`RocksTableData` is that overlay for one table in one key group.  Nothing is
written to the disk before the group is kept: `unsaved` gives all that must go
there.  `dirty` and `cleared` are what the next commit must log, and are gone
after it.

Key of an entry on disk: the table's prefix (which begins with the key group),
then the key, then the user key or the position.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import attrs

from pyflinklike.backends.rocksdb_keys import decode, encode
from pyflinklike.backends.rocksdb_store import LocalStore
from pyflinklike.table import MISSING, CurrentKey, Entry, TableChanges, TableSpec

__all__ = ["UNKNOWN", "RocksSingleTable", "RocksTable", "RocksTableData", "dump", "load"]

UNKNOWN: Any = object()
"""The overlay does not say."""


def dump(entry: Entry) -> bytes:
    """An entry as it lies on this worker's disk."""
    return pickle.dumps(entry, 5)


def load(data: bytes) -> Entry:
    """The entry again; only from files that `rocksdb_store` found to be this user's own."""
    return pickle.loads(data)  # noqa: S301


@attrs.define
class RocksTableData:
    """What was read and written of one table in one key group since the group was kept.

    Args:
        is_based: Whether there may be entries on disk that are not in here.
        size: Number of entries, on disk and in here.
        cursor: The key on disk before which the running sweep stopped.
        entries: Key to entry (`SINGLE`), or key to user key to entry; `MISSING` where
            there is none, whatever the disk says.
        whole: Keys of which nothing on disk is of interest any more (not `SINGLE`).
        ordered: Of these, the keys whose entries stand in order.
        unsaved: What is not on disk yet: keys, or key to user keys, without values.
        dirty: What is not logged yet, likewise.
        cleared: Keys cleared as a whole, not logged yet.
        ends: The position that an element appended to a list gets.
        rest: What the running sweep has still to look at in here.
        sorted: Key to the user keys in here in order, with the dict they are of (ordered tables).
    """

    is_based: bool = False
    size: int = 0
    cursor: bytes = b""
    entries: dict[Any, Any] = attrs.field(factory=dict)
    whole: set[Any] = attrs.field(factory=set)
    ordered: set[Any] = attrs.field(factory=set)
    unsaved: dict[Any, Any] = attrs.field(factory=dict)
    dirty: dict[Any, Any] = attrs.field(factory=dict)
    cleared: dict[Any, None] = attrs.field(factory=dict)
    ends: dict[Any, int] = attrs.field(factory=dict)
    rest: Iterator[Any] | None = None
    sorted: dict[Any, tuple[dict[Any, Any], list[bytes]]] = attrs.field(factory=dict)


class RocksTable:
    """What both shapes share."""

    def __init__(
        self, spec: TableSpec, scope: CurrentKey, opened: Callable[[], LocalStore]
    ) -> None:
        self.spec = spec
        self._scope = scope
        self._opened = opened
        self.point_at(RocksTableData(), b"")

    def point_at(self, data: RocksTableData, prefix: bytes) -> None:
        """Turn to a key group, where the table's entries on disk begin with `prefix`."""
        self._data = data
        self._prefix = prefix
        self._near_key: Any = UNKNOWN
        self._near: bytes = b""

    def _at(self, key: Any) -> bytes:
        """Where the entries of a key begin on disk."""
        if key is not self._near_key:
            self._near = self._prefix + encode(key)
            self._near_key = key
        return self._near

    def _on_disk(self) -> Iterator[tuple[Any, Any, bytes]]:
        """All on disk: key, user key and the entry's bytes."""
        if self._data.is_based:
            for raw, value in self._opened().items(self._prefix, self._prefix + b"\xff"):
                yield (*self._parsed(raw), value)

    def _parsed(self, raw: bytes) -> tuple[Any, Any]:
        raise NotImplementedError

    def _peek(self, key: Any, user_key: Any) -> Entry:
        """What the overlay says: an entry, MISSING or UNKNOWN."""
        raise NotImplementedError

    def _remove(self, key: Any, user_key: Any) -> None:
        """Delete an entry that is there."""
        raise NotImplementedError

    def _collected(self) -> list[tuple[Any, Any, Entry]]:
        raise NotImplementedError

    def scan(self) -> Iterator[tuple[Hashable, Any, Entry]]:
        return iter(self._collected())

    def contents(self) -> TableChanges:
        changes = TableChanges(self.spec)
        for key, user_key, entry in self._collected():
            changes.keys.append(key)
            changes.user_keys.append(user_key)
            changes.entries.append(entry)
        return changes

    def count(self) -> int:
        return self._data.size

    def sweep(self, count: int, is_dead: Callable[[Entry], bool]) -> int:
        data = self._data
        seen = deleted = 0
        if data.rest is None and data.is_based:
            begin, end = data.cursor or self._prefix, self._prefix + b"\xff"
            some = list(islice(self._opened().items(begin, end), count))
            for raw, value in some:
                key, user_key = self._parsed(raw)
                entry = self._peek(key, user_key)
                if _must_go(load(value) if entry is UNKNOWN else entry, is_dead):
                    self._remove(key, user_key)
                    deleted += 1
            seen = len(some)
            data.cursor = some[-1][0] + b"\x00" if some else b""
            if seen == count:
                return deleted
        if data.rest is None:
            data.rest = iter(self._overlaid())
        for key, user_key in islice(data.rest, count - seen):
            seen += 1
            if _must_go(self._peek(key, user_key), is_dead):
                self._remove(key, user_key)
                deleted += 1
        if seen < count:
            data.rest, data.cursor = None, b""
        return deleted

    def _overlaid(self) -> list[tuple[Any, Any]]:
        """Key and user key of what is in the overlay and not on disk, or not as it is there."""
        raise NotImplementedError

    def sweep_all(self, is_dead: Callable[[Entry], bool]) -> int:
        dead = [(key, user_key) for key, user_key, entry in self._collected() if is_dead(entry)]
        for key, user_key in dead:
            self._remove(key, user_key)
        return len(dead)


def _must_go(entry: Entry, is_dead: Callable[[Entry], bool]) -> bool:
    """Whether there is an entry here that a sweep deletes."""
    return entry is not MISSING and is_dead(entry)


class RocksSingleTable(RocksTable):
    """One entry per key."""

    def get(self, user_key: Hashable) -> Entry:
        return self._get(self._scope.key)

    def _get(self, key: Any) -> Entry:
        data = self._data
        entry = data.entries.get(key, UNKNOWN)
        if entry is not UNKNOWN:
            return entry
        if not data.is_based:
            return MISSING
        value = self._opened().get(self._at(key))
        entry = data.entries[key] = MISSING if value is None else load(value)
        return entry

    def put(self, user_key: Hashable, entry: Entry) -> None:
        key = self._scope.key
        self._put(key, entry)
        self._data.dirty[key] = None

    def _put(self, key: Any, entry: Entry) -> None:
        data = self._data
        data.size += self._get(key) is MISSING
        data.entries[key] = entry
        data.unsaved[key] = None

    def delete(self, user_key: Hashable) -> None:
        key = self._scope.key
        if self._get(key) is not MISSING:
            self._remove(key, None)

    def _remove(self, key: Any, user_key: Any) -> None:
        self._drop(key)
        self._data.dirty[key] = None

    def _drop(self, key: Any) -> None:
        if self._get(key) is not MISSING:
            self._data.size -= 1
            self._data.entries[key] = MISSING
            self._data.unsaved[key] = None

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

    def _parsed(self, raw: bytes) -> tuple[Any, Any]:
        return decode(raw, len(self._prefix))[0], None

    def _peek(self, key: Any, user_key: Any) -> Entry:
        return self._data.entries.get(key, UNKNOWN)

    def _overlaid(self) -> list[tuple[Any, Any]]:
        return [(key, None) for key in self._data.unsaved]

    def _collected(self) -> list[tuple[Any, Any, Entry]]:
        mine = self._data.entries
        found = [(key, None, load(value)) for key, _, value in self._on_disk() if key not in mine]
        found += [(key, None, entry) for key, entry in mine.items() if entry is not MISSING]
        return found

    def drain(self) -> TableChanges:
        data = self._data
        keys = list(data.dirty)
        data.dirty.clear()
        entries = [data.entries[key] for key in keys]
        return TableChanges(self.spec, keys=keys, user_keys=[None] * len(keys), entries=entries)

    def apply(self, changes: TableChanges) -> None:
        for key in changes.cleared:
            self._drop(key)
        for key, entry in zip(changes.keys, changes.entries):
            if entry is MISSING:
                self._drop(key)
            else:
                self._put(key, entry)

    def unsaved(self) -> Iterator[tuple[bytes, bytes | None]]:
        """What must be written to disk; None deletes."""
        for key in self._data.unsaved:
            entry = self._data.entries[key]
            yield self._at(key), None if entry is MISSING else dump(entry)
