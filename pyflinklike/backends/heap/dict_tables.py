# SPDX-License-Identifier: Apache-2.0
"""Tables over dicts: one entry for each key, or entries under user keys.

`HeapTableData` is the working state of one table in one key group.  It outlives the micro-batch in the
worker's warm cache.  A table is a view of it, and a function's states hold the table; pointing a view
at another key group is one assignment.

A table remembers which entries changed, not which operations changed them: an entry that is updated a
thousand times in a batch is logged once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, compress, islice, repeat
from typing import Any

import attrs

from pyflinklike.state.current_key import TableKey
from pyflinklike.state.table import MISSING, Entry, TableChanges, TableSpec


@attrs.define
class HeapTableData:
    """The entries of one table in one key group, and the changes since the last commit.

    Args:
        spec: The declaration of the table when the entries were put.
        entries: Key to entry (`SINGLE`), to user key to entry (`MAP`), or to a list.
        dirty: Changed keys (`SINGLE`, as a dict without values); key to the changed user keys, each
            with its entry now, or `MISSING` if it was deleted (`MAP`); or key to the positions that
            were put or deleted (`LIST`, as a dict without values).
        reborn: Key to the user keys that were deleted and then put again, each with `MISSING`.
        cleared: The keys that were cleared as a whole.
        size: The number of entries of a table with user keys.
        cursor: The keys that the running sweep has not reached yet.
        resting: The place where the sweep stopped within a key, if it did: the key, and its user keys
            that are left (`MAP`) or the next position (`LIST`).
        sorted: Key to its user keys in order, if a range was read under it (ordered tables).
        appended: Key to the position from which on everything is new since the last commit (lists).
        starts: Key to the position of the first entry in its list; 0 if the key is not here.
        gaps: Key to the number of gaps in its list; a list without gaps is not here.
        weight: The most bytes that `entries` take; None if they were never measured.
        measured: The `weight` of the last measurement.
    """

    spec: TableSpec
    entries: dict[Any, Any] = attrs.field(factory=dict)
    dirty: dict[Any, Any] = attrs.field(factory=dict)
    reborn: dict[Any, dict[Any, Any]] = attrs.field(factory=dict)
    cleared: dict[Any, None] = attrs.field(factory=dict)
    size: int = 0
    cursor: Iterator[Any] = attrs.field(factory=lambda: iter(()))
    resting: tuple[Any, Any] | None = None
    sorted: dict[Any, list[bytes]] = attrs.field(factory=dict)
    appended: dict[Any, int] = attrs.field(factory=dict)
    starts: dict[Any, int] = attrs.field(factory=dict)
    gaps: dict[Any, int] = attrs.field(factory=dict)
    weight: int | None = None
    measured: int = 0


def any_by(is_dead: Callable[[Entry], bool]) -> Callable[[Sequence[Entry]], bool]:
    """Return a function that says whether any entry is dead, by checking one after another."""
    return lambda entries: any(map(is_dead, entries))


def find_entries(entries: dict[Any, Any], keys: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the keys that are there, and the entries under them."""
    # Usually all keys are there.  So this tries one pass of C, and searches only if it fails.
    try:
        return keys, list(map(entries.__getitem__, keys))
    except KeyError:
        keys = [key for key in keys if key in entries]
        return keys, [entries[key] for key in keys]


class _HeapTable:
    """The view of a table's data, in one key group at a time."""

    __slots__ = ("_current", "_data", "_dirty", "_entries", "spec")

    def __init__(self, spec: TableSpec, current: TableKey) -> None:
        self.spec = spec
        self._current = current
        self.point_at(HeapTableData(spec))

    def point_at(self, data: HeapTableData) -> None:
        self._data = data
        self._entries = data.entries
        self._dirty = data.dirty


class SingleTable(_HeapTable):
    """One entry for each key."""

    __slots__ = ()

    def get(self, user_key: Hashable) -> Entry:
        return self._entries.get(self._current.key, MISSING)

    def put(self, user_key: Hashable, entry: Entry) -> None:
        key = self._current.key
        self._entries[key] = entry
        self._dirty[key] = None

    def delete(self, user_key: Hashable) -> None:
        key = self._current.key
        # Look it up first: an empty dict's `pop` would not hash NO_KEY, and hashing it is what raises.
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
                # Iterate over a copy, because keys come and go before the sweep comes round.
                data.cursor = iter(tuple(entries))
                break
            keys, stored = find_entries(entries, keys)
            seen += len(stored)
            if any_dead(stored):  # usually none is
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


class ManyTable(_HeapTable):
    """Entries under user keys, for each key."""

    __slots__ = ()

    def get(self, user_key: Hashable) -> Entry:
        mine = self._entries.get(self._current.key)
        return MISSING if mine is None else mine.get(user_key, MISSING)

    def put(self, user_key: Hashable, entry: Entry) -> None:
        key = self._current.key
        mine = self._entries.get(key)
        if mine is None:
            mine = self._entries[key] = {}
        touched = self._dirty.get(key)
        if touched is None:
            touched = self._dirty[key] = {}
        if user_key not in mine:
            self._data.size += 1
            if user_key in touched:
                # It was deleted before.  Now it comes last, and must come last when it is rebuilt.
                # The log is replayed in its order, so both the deletion and the put are logged.
                del touched[user_key]
                self._data.reborn.setdefault(key, {})[user_key] = MISSING
        mine[user_key] = touched[user_key] = entry

    def delete(self, user_key: Hashable) -> None:
        self._delete(self._current.key, user_key)

    def _delete(self, key: Any, user_key: Any) -> None:
        mine = self._entries.get(key)
        if mine is None or user_key not in mine:
            return
        del mine[user_key]
        self._data.size -= 1
        if not mine:
            del self._entries[key]
        touched = self._dirty.get(key)
        if touched is None:
            touched = self._dirty[key] = {}
        touched[user_key] = MISSING

    def append(self, entry: Entry) -> None:
        raise NotImplementedError  # a list is a HeapListTable

    def items(self) -> list[tuple[Any, Entry]]:
        mine = self._entries.get(self._current.key)
        return [] if mine is None else list(mine.items())

    def elements(self) -> list[Entry]:
        mine = self._entries.get(self._current.key)
        return [] if mine is None else list(mine.values())

    def is_empty(self) -> bool:
        return self._current.key not in self._entries

    def clear(self) -> None:
        key = self._current.key
        mine = self._entries.get(key)
        if mine is not None:
            del self._entries[key]
            self._data.size -= len(mine)
            self._data.cleared[key] = None
            self._dirty.pop(key, None)
            self._data.reborn.pop(key, None)

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        mine = self._entries.get(self._current.key, {})
        return [mine.get(user_key, MISSING) for user_key in user_keys]

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        for user_key, entry in items:
            self.put(user_key, entry)

    def scan(self) -> Iterator[tuple[Hashable, Any, Entry]]:
        return iter(
            [
                (key, user_key, entry)
                for key, mine in self._entries.items()
                for user_key, entry in mine.items()
            ]
        )

    def sweep(
        self,
        count: int,
        is_dead: Callable[[Entry], bool],
        any_dead: Callable[[Sequence[Entry]], bool] | None = None,
    ) -> int:
        any_dead = any_dead or any_by(is_dead)
        data, left, deleted = self._data, count, 0
        while left > 0:
            resting, data.resting = data.resting, None
            key, at = resting or (next(data.cursor, MISSING), None)
            if key is MISSING:
                data.cursor = iter(tuple(self._entries))
                break
            mine = self._entries.get(key)
            if not mine:
                continue
            # A key with few entries is swept at once.  A key with many is swept in steps: when a sweep
            # looked at all of a million entries, an add to the list took 30 ms.
            if at is None and len(mine) <= count:
                left -= len(mine)
                deleted += self._delete_dead(key, mine, is_dead)
            else:
                seen, dead, at = self._sweep_within(key, at, left, is_dead, any_dead)
                left -= seen
                deleted += dead
                data.resting = None if at is None else (key, at)
        return deleted

    def _sweep_within(
        self,
        key: Any,
        at: Any,
        count: int,
        is_dead: Callable[[Entry], bool],
        any_dead: Callable[[Sequence[Entry]], bool],
    ) -> tuple[int, int, Any]:
        """Sweep some entries of a key that has many.

        Args:
            key: The key whose entries are swept.
            at: The entries that are left, from an earlier call; None to begin.
            count: The number of entries to look at; those deleted meanwhile do not count.
            is_dead: Returns whether an entry must be deleted.
            any_dead: Returns whether one of several entries must be deleted; usually none must.

        Returns:
            How many entries were looked at and deleted, and the entries that are left; None if there
            are none left.
        """
        mine = self._entries[key]
        rest = iter(tuple(mine)) if at is None else at
        seen = 0
        dead: list[Any] = []
        while seen < count:
            user_keys = list(islice(rest, count - seen))
            if not user_keys:
                rest = None
                break
            user_keys, entries = find_entries(mine, user_keys)
            seen += len(entries)
            if any_dead(entries):
                dead += compress(user_keys, map(is_dead, entries))
        for user_key in dead:
            self._delete(key, user_key)
        return seen, len(dead), rest

    def sweep_all(self, is_dead: Callable[[Entry], bool]) -> int:
        return sum(
            self._delete_dead(key, mine, is_dead) for key, mine in list(self._entries.items())
        )

    def _delete_dead(self, key: Any, mine: dict[Any, Any], is_dead: Callable[[Any], bool]) -> int:
        dead = [user_key for user_key, entry in mine.items() if is_dead(entry)]
        for user_key in dead:
            self._delete(key, user_key)
        return len(dead)

    def count(self) -> int:
        return self._data.size

    def drain(self) -> TableChanges:
        data = self._data
        changes = TableChanges(self.spec, list(data.cleared), *_unfold(data.reborn, data.dirty))
        data.cleared.clear()
        data.reborn.clear()
        data.dirty.clear()
        return changes

    def contents(self) -> TableChanges:
        return TableChanges(self.spec, [], *_unfold(self._entries))

    def apply(self, changes: TableChanges) -> None:
        entries, size = self._entries, self._data.size
        for key in changes.cleared:
            size -= len(entries.pop(key, ()))
        for key, user_key, entry in zip(changes.keys, changes.user_keys, changes.entries):
            mine = entries.get(key)
            if entry is MISSING:
                if mine is not None and mine.pop(user_key, MISSING) is not MISSING:
                    size -= 1
                    if not mine:
                        del entries[key]
            else:
                if mine is None:
                    mine = entries[key] = {}
                size += user_key not in mine
                mine[user_key] = entry
        self._data.size = size


def _unfold(*nested: dict[Any, dict[Any, Entry]]) -> tuple[list[Any], list[Any], list[Entry]]:
    """Turn dicts of dicts into three lists side by side: keys, user keys and entries."""
    keys = chain(*nested)
    mine = list(chain.from_iterable(map(dict.values, nested)))
    return (
        list(chain.from_iterable(map(repeat, keys, map(len, mine)))),
        list(chain.from_iterable(mine)),
        list(chain.from_iterable(map(dict.values, mine))),
    )
