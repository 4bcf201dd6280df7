# SPDX-License-Identifier: Apache-2.0
"""The ordered table over dicts: user keys of bytes, and ranges of them.

The sorted list of a key's user keys stands beside its dict.  The first range under that key makes the
list, and from then on the table keeps it up to date.  A key without ranges, or a table that is not
ordered, costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

from pyflinklike.backends.heap.dict_tables import HeapTableData, ManyTable, SingleTable
from pyflinklike.backends.heap.list_table import HeapListTable
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Entry, Shape, TableChanges, TableSpec

__all__ = ["HeapTable", "new_table"]

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
