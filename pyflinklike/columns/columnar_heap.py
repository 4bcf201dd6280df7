# SPDX-License-Identifier: Apache-2.0
"""Working state as columns in the worker's memory, with one key index for a whole key group.

It is the heap backend with another kind of table.  Timers are in such tables, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend, HeapKeyedStateBackend
from pyflinklike.columns.column_tables import ColumnTable, KeyGroupColumns, MapTable
from pyflinklike.errors import DeclarationValueError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import RESERVED_PREFIX, Changes, ColumnChanges, Shape, TableSpec

__all__ = ["ColumnarStateBackend", "check_columnar"]

_COLUMNS = f"{RESERVED_PREFIX}columns"


def check_columnar(state_backend: Any) -> HashMapStateBackend:
    """Return a backend whose working state can lie in columns.

    Raises:
        DeclarationValueError: It has no columns.
    """
    if not isinstance(state_backend, HashMapStateBackend):
        msg = (
            "a KeyedBatchFunction needs a backend with columns, got "
            f"{state_backend!r}; use HashMapStateBackend() (both read the same checkpoint), or a "
            "KeyedProcessFunction"
        )
        raise DeclarationValueError(msg)
    return state_backend


class ColumnarStateBackend(HeapKeyedStateBackend):
    """Column tables, pointed at the columns of one key group at a time.

    Args:
        current: The current key, for the tables over dicts.
        owner: The name of the operator in one query, under which working state is cached.
        max_warm_bytes: The bound of cached working state, as in `HashMapStateBackend`.
        key_kind: Arrow's type of the keys.
    """

    def __init__(self, current: CurrentKey, owner: str, max_warm_bytes: int, key_kind: Any) -> None:
        super().__init__(current, owner, max_warm_bytes)
        self._key_kind = key_kind
        self._column_tables: dict[str, ColumnTable] = {}
        self._undo_log: list[Callable[[], None]] = []
        self.columns = KeyGroupColumns(key_kind)
        """The columns of the current key group."""

    def column_table(self, spec: TableSpec) -> ColumnTable:
        """Return the table of a state; the first call makes it."""
        table = self._column_tables.get(spec.name)
        if table is None:
            kind = MapTable if spec.shape is Shape.MAP else ColumnTable
            table = self._column_tables[spec.name] = kind(spec)
            table.point_at(self.columns)
        return table

    def begin_call(self) -> None:
        """Begin a call whose changes can be undone."""
        log: list[Callable[[], None]] = []
        for table in self._column_tables.values():
            table.undo_log = log
        self._undo_log = log

    def undo_call(self) -> None:
        """Undo what the call has changed, the latest change first, and end it."""
        log = self._undo_log
        # The log ends first, or undoing would write to it.
        self.end_call()
        while log:
            log.pop()()

    def end_call(self) -> None:
        """End the call: changes from now on are not undone."""
        for table in self._column_tables.values():
            table.undo_log = None
        self._undo_log = []

    def takes_columns(self, spec: TableSpec) -> bool:
        """Return whether a state has its entries in columns."""
        return spec.name in self._column_tables

    def enter(self, index: int, tables: dict[str, Any]) -> None:
        """Point every table at the working state of a key group."""
        columns = tables.get(_COLUMNS)
        if columns is None:
            columns = tables[_COLUMNS] = KeyGroupColumns(self._key_kind)
        self.columns = columns
        for table in self._column_tables.values():
            table.point_at(columns)
        super().enter(index, tables)

    def drain(self) -> Sequence[Changes]:
        """Return what changed since the last drain."""
        drained = [changes for each in self._column_tables.values() for changes in each.drain()]
        return [*super().drain(), *drained]

    def discard_changes(self) -> None:
        """Forget what changed."""
        super().discard_changes()
        for table in self._column_tables.values():
            table.discard()

    def apply(self, changes: Any) -> None:
        """Take over restored entries."""
        if isinstance(changes, ColumnChanges):
            self._column_tables[changes.spec.name].apply(changes)
        else:
            super().apply(changes)

    def contents(self) -> Sequence[Changes]:
        """Return every entry of the key group."""
        every = [changes for each in self._column_tables.values() for changes in each.contents()]
        return [*super().contents(), *every]

    def count(self) -> int:
        """Count the entries of the key group in all tables."""
        return super().count() + sum(each.count() for each in self._column_tables.values())

    def _is_declared(self, name: str, data: Any) -> bool:
        if name != _COLUMNS:
            return super()._is_declared(name, data)
        tables = self._column_tables
        return all(
            not columns.count or (at in tables and tables[at].spec == columns.spec)
            for at, columns in data.tables.items()
        )

    def cache(self, state: KeyGroupState) -> None:
        """Cache a key group in this process, without keys that no longer have an entry."""
        self.columns.free()
        super().cache(state)

    def close(self) -> None:
        """Forget the tables."""
        super().close()
        self._column_tables.clear()
        self.columns = KeyGroupColumns(self._key_kind)
