# SPDX-License-Identifier: Apache-2.0
"""The default backend: working state in Python dicts of the worker."""

from __future__ import annotations

from typing import Any

import attrs

from pyflinklike.backends.base import StateBackend
from pyflinklike.backends.heap.data import HeapTableData
from pyflinklike.backends.heap.many import ManyTable
from pyflinklike.backends.heap.ordered import new_table
from pyflinklike.backends.heap.single import SingleTable
from pyflinklike.backends.heap.warm import WARM_GROUPS
from pyflinklike.backends.heap.weight import charge
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.log.working_state import WorkingState
from pyflinklike.shown import shown
from pyflinklike.state.table import Scope, TableChanges, TableSpec

__all__ = ["HashMapStateBackend", "HeapKeyedStateBackend"]

_DEFAULT_WARM_BYTES = 512 * 1024 * 1024


@attrs.frozen
class HashMapStateBackend(StateBackend):
    """Keeps working state in dicts, as Flink's HashMapStateBackend keeps it on the heap.

    Args:
        max_warm_bytes: How much working state each Python worker keeps between
            micro-batches, in bytes; the key groups used least recently go first and
            are rebuilt when needed.  What is kept is weighed from above, so that the
            bound holds whatever the entries are.  A batch that needs more than this
            still gets it while it runs.

    Raises:
        DeclarationTypeError, DeclarationValueError: `max_warm_bytes` is not an int >= 0.
    """

    max_warm_bytes: int = attrs.field(default=_DEFAULT_WARM_BYTES)

    @max_warm_bytes.validator
    def _check_max_warm_bytes(self, attribute: attrs.Attribute[int], value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            msg = f"max_warm_bytes must be an int of bytes, got {shown(value)}; for example 256 * 1024**2"
            raise DeclarationTypeError(msg)
        if value < 0:
            msg = f"max_warm_bytes must be at least 0, got {shown(value)}; 0 keeps nothing warm"
            raise DeclarationValueError(msg)

    def create_keyed_state_backend(self, scope: Scope, owner: str) -> HeapKeyedStateBackend:
        """A backend for one operator instance."""
        return HeapKeyedStateBackend(scope, owner, self.max_warm_bytes)

    def __str__(self) -> str:
        return "HashMapStateBackend"


class HeapKeyedStateBackend:
    """Tables over dicts, pointed at the dicts of one key group at a time."""

    is_persistent = False

    def __init__(self, scope: Scope, owner: str, max_warm_bytes: int) -> None:
        self.scope = scope
        self.owner = owner
        self._max_warm_bytes = max_warm_bytes
        self._tables: dict[str, SingleTable | ManyTable] = {}
        self._group: dict[str, Any] = {}

    def table(self, spec: TableSpec) -> SingleTable | ManyTable:
        """The table of a state, created at its first use."""
        table = self._tables.get(spec.name)
        if table is None:
            table = self._tables[spec.name] = new_table(spec, self.scope)
            table.point_at(self._group.setdefault(spec.name, HeapTableData(spec)))
        return table

    def enter(self, index: int, tables: dict[str, Any]) -> None:
        """Point every table at the working state of a key group."""
        self._group = tables
        for name, table in self._tables.items():
            data = tables.get(name)
            if data is None:
                data = tables[name] = HeapTableData(table.spec)
            table.point_at(data)

    def drain(self) -> list[TableChanges]:
        """What changed since the last drain."""
        drained = [table.drain() for table in self._tables.values()]
        for changes in drained:
            charge(self._group[changes.spec.name], changes)
        return drained

    def discard_changes(self) -> None:
        """Forget what changed."""
        for table in self._tables.values():
            table.drain()

    def apply(self, changes: TableChanges) -> None:
        """Take over restored entries."""
        self._tables[changes.spec.name].apply(changes)
        charge(self._group[changes.spec.name], changes)

    def contents(self) -> list[TableChanges]:
        """Every entry of the key group."""
        return [table.contents() for table in self._tables.values()]

    def count(self) -> int:
        """How many entries the key group holds in all tables."""
        return sum(table.count() for table in self._tables.values())

    def take_warm(self, index: int) -> WorkingState | None:
        """What this process kept of a key group, if all of it is declared by now.

        A snapshot of what is not would lack it: such a group is read from the
        log again, which keeps undeclared states as they are.
        """
        group = WARM_GROUPS.take((self.owner, index))
        if group is not None:
            for name, data in group.tables.items():
                table = self._tables.get(name)
                if data.entries and (table is None or table.spec != data.spec):
                    return None
        return group

    def keep_warm(self, state: WorkingState) -> None:
        """Keep a key group in this process, within the memory bound."""
        WARM_GROUPS.keep((self.owner, state.index), state, self._max_warm_bytes)

    def release(self) -> None:
        """Nothing: what is kept is this process's own."""

    def close(self) -> None:
        """Forget the tables."""
        self._tables.clear()
