# SPDX-License-Identifier: Apache-2.0
"""The ordered table over RocksDB: ranges over the disk and over the batch's own entries.

RocksDB finds the beginning of a range by itself.  The entries that the batch has read and written lie
over the disk, in a dict.  The first range under a key sorts the user keys of that dict, and a later
range inserts the user keys that have come since.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

from pyflinklike.backends.rocksdb.local_database import LocalDatabase
from pyflinklike.backends.rocksdb.many_table import RocksManyTable
from pyflinklike.backends.rocksdb.rocks_tables import Rebuild, RocksSingleTable, load
from pyflinklike.errors import LocalStateError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Entry, Shape, TableSpec

__all__ = ["RocksTableOfAnyShape", "new_table"]

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
