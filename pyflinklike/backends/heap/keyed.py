# SPDX-License-Identifier: Apache-2.0
"""The tables of one operator over dicts, and the key groups that a worker keeps warm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyflinklike.backends.base import KeyedBackend
from pyflinklike.backends.heap.data import HeapTableData
from pyflinklike.backends.heap.ordered import HeapTable, new_table
from pyflinklike.backends.heap.warm import WARM_GROUPS
from pyflinklike.backends.heap.weight import charge
from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.column_changes import Changes
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import TableChanges, TableSpec

__all__ = ["HeapKeyedStateBackend"]


class HeapKeyedStateBackend(KeyedBackend[HeapTable]):
    """Tables over dicts, pointed at the dicts of one key group at a time.

    Args:
        current: Tells the tables the current key.
        owner: Names the operator of one query, whose working state this is.
        max_warm_bytes: As of `HashMapStateBackend`.
    """

    def __init__(self, current: CurrentKey, owner: str, max_warm_bytes: int) -> None:
        super().__init__(current, owner)
        self._max_warm_bytes = max_warm_bytes

    def new_table(self, spec: TableSpec) -> HeapTable:
        """Create a table over dicts."""
        return new_table(spec, self.current)

    def new_data(self, spec: TableSpec) -> HeapTableData:
        """Create dicts without entries."""
        return HeapTableData(spec)

    def point(self, table: HeapTable, index: int, data: HeapTableData) -> None:
        """Turn a table to the dicts of a key group."""
        table.point_at(data)

    def drain(self) -> Sequence[Changes]:
        """Return what changed since the last drain, and weigh it."""
        drained = [table.drain() for table in self._tables.values()]
        for changes in drained:
            self._charge(changes)
        return drained

    def apply(self, changes: Any) -> None:
        """Take over restored entries, and weigh them."""
        super().apply(changes)
        self._charge(changes)

    def _charge(self, changes: TableChanges) -> None:
        charge(self._data[changes.spec.name], changes)

    def take_warm(self, index: int) -> WorkingState | None:
        """Return the working state that this process keeps of a key group, and keep it no more.

        It is None where the state has tables that are not declared now: a snapshot would lose their
        entries.  Such a group is read from the log again, which keeps undeclared states as they
        are.
        """
        state = WARM_GROUPS.take((self.owner, index))
        if state is not None:
            for name, data in state.tables.items():
                if not self._is_declared(name, data):
                    return None
        return state

    def _is_declared(self, name: str, data: Any) -> bool:
        """Return whether the data has no entries, or its table is declared as it was."""
        table = self._tables.get(name)
        return not data.entries or (table is not None and table.spec == data.spec)

    def keep_warm(self, state: WorkingState) -> None:
        """Keep a key group in this process, within the memory bound."""
        WARM_GROUPS.keep((self.owner, state.index), state, self._max_warm_bytes)
