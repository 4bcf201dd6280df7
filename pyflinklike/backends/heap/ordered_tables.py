# SPDX-License-Identifier: Apache-2.0
"""The tables over dicts whose entries have an order: lists, and user keys of bytes with ranges.

A table of lists is a dict of Python's lists.  An entry's position is its index, as long as nothing was deleted.  A deleted entry leaves a gap, which
is `MISSING`; a list never ends with a gap.  When its changes are drained, the gaps at its beginning are
cut off, and from then on it starts at a later position than 0.  Only TTL deletes entries one by one,
and usually the first entry to come is the first to expire.  If an entry outlives those that came after
it, gaps pile up behind it; a list that is mostly gaps is written anew.

If the positions of a list lie far apart, it is a dict by position until it is written anew.

An ordered table keeps the sorted list of a key's user keys beside its dict.  The first range under that
key makes the list, and from then on the table keeps it up to date.  A key without ranges, or a table
that is not ordered, costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress, repeat
from typing import Any

from pyflinklike.backends.heap.dict_tables import HeapTableData, ManyTable, SingleTable
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Entry, Shape, TableChanges, TableSpec

_LONGEST_STEP = 256  # a sweep of a long gap must not take longer than one of entries
_FEW_GAPS = 16
"""A list takes so many gaps from a log, and two more for each entry; with more it becomes a dict."""


class HeapListTable(ManyTable):
    """Entries under positions, for each key."""

    __slots__ = ("_appended", "_gaps", "_starts")

    def point_at(self, data: HeapTableData) -> None:
        super().point_at(data)
        self._appended = data.appended
        self._starts = data.starts
        self._gaps = data.gaps

    # One entry

    def append(self, entry: Entry) -> None:
        key = self._current.key
        mine = self._entries.get(key)
        if mine is None:
            mine = self._entries[key] = []
            self._appended[key] = 0
        elif key not in self._appended:
            self._appended[key] = self._end(key, mine)
        if type(mine) is dict:
            mine[self._end(key, mine)] = entry
        else:
            mine.append(entry)
        self._data.size += 1

    def _end(self, key: Any, mine: Any) -> int:
        """Return the position after the last entry."""
        if type(mine) is dict:
            return int(next(reversed(mine))) + 1
        return int(self._starts.get(key, 0)) + len(mine)

    def get(self, user_key: Any) -> Entry:
        return self._get(self._current.key, user_key)

    def _get(self, key: Any, position: int) -> Entry:
        mine = self._entries.get(key, ())
        if type(mine) is dict:
            return mine.get(position, MISSING)
        index = position - self._starts.get(key, 0)
        return mine[index] if 0 <= index < len(mine) else MISSING

    def put(self, user_key: Any, entry: Entry) -> None:
        key = self._current.key
        is_new = self._get(key, user_key) is MISSING
        self._put(key, user_key, entry)
        if is_new:
            self._sort(key)
        self._dirty.setdefault(key, {})[user_key] = None

    def _put(self, key: Any, position: int, entry: Entry) -> None:
        mine: Any = self._entries.get(key)
        if mine is None:
            mine = self._entries[key] = []
            if position:
                self._starts[key] = position
        if self._is_far(key, mine, position):
            mine = self._by_position(key)
        if type(mine) is dict:
            self._data.size += position not in mine
            mine[position] = entry
            return
        index = position - self._starts.get(key, 0)
        if index < 0:
            mine[:0] = repeat(MISSING, -index)
            self._starts[key] = position
            self._gap(key, -index)
            index = 0
        elif index >= len(mine):
            more = index + 1 - len(mine)
            mine.extend(repeat(MISSING, more))
            self._gap(key, more)
        if mine[index] is MISSING:
            self._gap(key, -1)
            self._data.size += 1
        mine[index] = entry

    def _is_far(self, key: Any, mine: Any, position: int) -> bool:
        """Return whether an entry at that position would bring more gaps than a list should have.

        Without this limit, a position of 2**28 in a crafted log would make gaps of 2 GiB.
        """
        if type(mine) is dict:
            return False
        index, length = position - self._starts.get(key, 0), len(mine)
        more = max(-index, index - length)
        if more <= _FEW_GAPS:
            return False
        gaps = self._gaps.get(key, 0)
        return gaps + more > _FEW_GAPS + 2 * (length - gaps)

    def _by_position(self, key: Any) -> dict[int, Entry]:
        """Turn a list into a dict; a caller that adds entries out of order must sort it."""
        mine = self._entries[key] = dict(self._items(key))
        self._starts.pop(key, None)
        self._gaps.pop(key, None)
        return mine

    def _sort(self, key: Any) -> None:
        mine = self._entries.get(key)
        if type(mine) is dict:
            self._entries[key] = dict(sorted(mine.items()))

    def _delete(self, key: Any, user_key: Any) -> None:
        if self._get(key, user_key) is not MISSING:
            self._remove(key, user_key)
            self._dirty.setdefault(key, {})[user_key] = None

    def _remove(self, key: Any, position: int) -> None:
        mine = self._entries[key]
        if type(mine) is dict:
            del mine[position]
            self._data.size -= 1
            if not mine:
                self._forget(key)
            return
        mine[position - self._starts.get(key, 0)] = MISSING
        gaps = 1
        while mine and mine[-1] is MISSING:
            mine.pop()
            gaps -= 1
        self._gap(key, gaps)
        self._data.size -= 1
        if not mine:
            self._forget(key)

    def _gap(self, key: Any, more: int) -> None:
        gaps = self._gaps.get(key, 0) + more
        if gaps:
            self._gaps[key] = gaps
        else:
            self._gaps.pop(key, None)

    def _forget(self, key: Any) -> None:
        for each in (self._entries, self._starts, self._gaps, self._appended):
            each.pop(key, None)

    # All entries of a key

    def items(self) -> list[tuple[int, Entry]]:
        return self._items(self._current.key)

    def _items(self, key: Any) -> list[tuple[int, Entry]]:
        mine = self._entries.get(key, ())
        if type(mine) is dict:
            return list(mine.items())
        items = enumerate(mine, self._starts.get(key, 0))
        return [item for item in items if item[1] is not MISSING]

    def elements(self) -> list[Entry]:
        key = self._current.key
        mine = self._entries.get(key, ())
        if type(mine) is dict:
            return [*mine.values()]
        return [entry for entry in mine if entry is not MISSING] if key in self._gaps else [*mine]

    def clear(self) -> None:
        key = self._current.key
        mine = self._entries.get(key)
        if mine is not None:
            self._wipe(key, mine)
            self._data.cleared[key] = None
            self._dirty.pop(key, None)

    def _wipe(self, key: Any, mine: list[Entry]) -> None:
        self._data.size -= len(mine) - self._gaps.get(key, 0)
        self._forget(key)

    def multi_get(self, user_keys: Sequence[Any]) -> list[Entry]:
        key = self._current.key
        # Hashing NO_KEY raises, and here it must raise even if no positions are given.
        hash(key)
        return [self._get(key, position) for position in user_keys]

    # Across keys

    def scan(self) -> Iterator[tuple[Any, int, Entry]]:
        return iter([(key, *item) for key in self._entries for item in self._items(key)])

    def _delete_dead(self, key: Any, mine: Any, is_dead: Callable[[Any], bool]) -> int:
        dead = [position for position, entry in self._items(key) if is_dead(entry)]
        for position in dead:
            self._delete(key, position)
        return len(dead)

    def _sweep_within(
        self,
        key: Any,
        at: int | None,
        count: int,
        is_dead: Callable[[Any], bool],
        any_dead: Callable[[Sequence[Any]], bool],
    ) -> tuple[int, int, int | None]:
        # A dict has no index to go on from, so it is swept as a whole.
        if type(self._entries[key]) is dict:
            return len(self._entries[key]), self._delete_dead(key, None, is_dead), None
        mine, start, gaps = self._entries[key], self._starts.get(key, 0), key in self._gaps
        index = 0 if at is None else max(at - start, 0)
        end, seen, width = len(mine), 0, count
        dead: list[int] = []
        while seen < count and index < end:
            positions: Iterable[int] = range(start + index, start + end)
            entries = mine[index : index + width]
            index += width
            if gaps:
                there = [entry is not MISSING for entry in entries]
                positions, entries = compress(positions, there), list(compress(entries, there))
            # In a long gap, take longer steps.
            width = count - seen - len(entries) if entries else min(2 * width, _LONGEST_STEP)
            seen += len(entries)
            if any_dead(entries):
                dead += compress(positions, map(is_dead, entries))
        for position in dead:
            self._delete(key, position)
        return seen, len(dead), start + index if index < end else None

    def drain(self) -> TableChanges:
        data, starts = self._data, self._starts
        sparse = [key for key in self._dirty if self._is_sparse(key)]
        sparse += [key for key in self._appended if type(self._entries[key]) is dict]
        for key in dict.fromkeys(sparse):
            self._close_gaps(key)
        changes = TableChanges(self.spec, list(data.cleared))
        for key, touched in self._dirty.items():
            self._drain_touched(changes, key, sorted(touched))
        tails = [
            self._entries[key][at - starts.get(key, 0) :] for key, at in self._appended.items()
        ]
        _extend(changes, self._appended, self._appended.values(), tails)
        for key in self._dirty:
            self._trim(key)
        for each in (data.cleared, self._dirty, self._appended):
            each.clear()
        return changes

    def _drain_touched(self, changes: TableChanges, key: Any, touched: list[int]) -> None:
        """Add the entries that were put or deleted, except those among the appended ones."""
        end = self._starts.get(key, 0) + len(self._entries.get(key, ()))
        appended = range(self._appended.get(key, end), end)
        positions = [position for position in touched if position not in appended]
        changes.keys.extend(repeat(key, len(positions)))
        changes.user_keys.extend(positions)
        changes.entries.extend(map(self._get, repeat(key), positions))

    def _is_sparse(self, key: Any) -> bool:
        mine = self._entries.get(key, (MISSING,))
        if type(mine) is dict:
            return True
        return mine[0] is not MISSING and 2 * self._gaps.get(key, 0) > len(mine)

    def _close_gaps(self, key: Any) -> None:
        """Let the log say that a list was cleared and filled again."""
        resting, items = self._data.resting, self._items(key)
        if resting is not None and resting[0] == key:
            self._data.resting = (key, sum(position < resting[1] for position, _ in items))
        self._entries[key] = [entry for _, entry in items]
        for each in (self._starts, self._gaps, self._dirty):
            each.pop(key, None)
        self._appended[key] = 0
        self._data.cleared[key] = None

    def _trim(self, key: Any) -> None:
        """Cut off the gaps at the beginning of a list."""
        mine = self._entries.get(key)
        if mine is not None and mine[0] is MISSING:
            gaps = next(index for index, entry in enumerate(mine) if entry is not MISSING)
            del mine[:gaps]
            self._starts[key] = self._starts.get(key, 0) + gaps
            self._gap(key, -gaps)

    def contents(self) -> TableChanges:
        changes = TableChanges(self.spec)
        if self._gaps or dict in map(type, self._entries.values()):
            for key, position, entry in self.scan():
                changes.keys.append(key)
                changes.user_keys.append(position)
                changes.entries.append(entry)
        else:
            starts = map(self._starts.get, self._entries, repeat(0))
            _extend(changes, self._entries, starts, list(self._entries.values()))
        return changes

    def apply(self, changes: TableChanges) -> None:
        for key in changes.cleared:
            old = self._entries.get(key)
            if old is not None:
                self._wipe(key, old)
        entries, starts = self._entries, self._starts
        unsorted: dict[Any, None] = {}
        for key, position, entry in zip(changes.keys, changes.user_keys, changes.entries):
            mine: Any = entries.get(key)
            at_end = type(mine) is list and position == starts.get(key, 0) + len(mine)
            if at_end and entry is not MISSING:
                mine.append(entry)
                self._data.size += 1
            elif entry is not MISSING:
                self._put(key, position, entry)
                if type(entries[key]) is dict:
                    unsorted[key] = None
            elif self._get(key, position) is not MISSING:
                self._remove(key, position)
        for key in unsorted:
            self._sort(key)


def _extend(
    changes: TableChanges, keys: Iterable[Any], starts: Iterable[int], lists: list[list[Entry]]
) -> None:
    """Add whole lists, each from its position on; gaps become deletions."""
    positions = (range(start, start + len(mine)) for start, mine in zip(starts, lists))
    changes.keys.extend(chain.from_iterable(map(repeat, keys, map(len, lists))))
    changes.user_keys.extend(chain.from_iterable(positions))
    changes.entries.extend(chain.from_iterable(lists))


# Ordered tables


HeapTable = SingleTable | ManyTable
"""A table of any shape."""


class HeapOrderedTable(ManyTable):
    """Entries under user keys of bytes, for each key; sorted once a range is read."""

    __slots__ = ("_sorted",)

    def point_at(self, data: HeapTableData) -> None:
        super().point_at(data)
        self._sorted = data.sorted

    def put(self, user_key: Any, entry: Entry) -> None:
        order = self._sorted.get(self._current.key)
        if order is not None and self.get(user_key) is MISSING:
            # If user keys come in order, as times do, the search is not needed.
            if order and order[-1] < user_key:
                order.append(user_key)
            else:
                insort(order, user_key)
        super().put(user_key, entry)

    def _delete(self, key: Any, user_key: Any) -> None:
        order = self._sorted.get(key)
        if order is not None:
            at = bisect_left(order, user_key)
            if at < len(order) and order[at] == user_key:
                del order[at]
                if not order:
                    del self._sorted[key]
        super()._delete(key, user_key)

    def clear(self) -> None:
        super().clear()
        self._sorted.pop(self._current.key, None)

    def apply(self, changes: TableChanges) -> None:
        # A restore brings many entries: the next range sorts them once, which is cheaper.
        self._sorted.clear()
        super().apply(changes)

    def range(
        self,
        begin: bytes | None = None,
        end: bytes | None = None,
        *,
        backwards: bool = False,
        limit: int | None = None,
    ) -> list[tuple[bytes, Entry]]:
        key = self._current.key
        mine = self._entries.get(key)
        if mine is None:
            return []
        order = self._sorted.get(key)
        if order is None:
            order = self._sorted[key] = sorted(mine)
        start = 0 if begin is None else bisect_left(order, begin)
        stop = len(order) if end is None else bisect_left(order, end)
        if limit is not None and backwards:
            start = max(start, stop - limit)
        elif limit is not None:
            stop = min(stop, start + limit)
        found = order[start:stop]
        if backwards:
            found.reverse()
        return [(user_key, mine[user_key]) for user_key in found]


def new_table(spec: TableSpec, current: CurrentKey) -> HeapTable:
    """Create the table that fits a spec."""
    key = spec.key_of(current)
    if spec.ordered:
        return HeapOrderedTable(spec, key)
    return _TABLES[spec.shape](spec, key)


_TABLES: dict[Shape, type[SingleTable] | type[ManyTable]] = {
    Shape.SINGLE: SingleTable,
    Shape.MAP: ManyTable,
    Shape.LIST: HeapListTable,
}
