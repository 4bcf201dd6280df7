# SPDX-License-Identifier: Apache-2.0
"""State backends: the settings of one, and the tables that it makes for an operator.

A `StateBackend` is chosen once per operator, pickled to the workers and shared by their threads, so
it holds settings and no state.  Its `create_keyed_state_backend` makes the tables of one operator,
a `KeyedStateBackend`.  `KeyedBackend` has everything of these that does not depend on where entries
lie.  `pyflinklike.testing.conformance` tells whether a backend of your own is right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from pyflinklike._changelog.working_state import KeyedStateBackend, WorkingState
from pyflinklike._deprecation import WithoutJava
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Changes, Table, TableChanges, TableSpec

__all__ = ["KeyedBackend", "LoggedTable", "StateBackend"]


class StateBackend(WithoutJava, ABC):
    """The choice of where working state is kept; immutable, picklable and thread-safe."""

    @abstractmethod
    def create_keyed_state_backend(self, current: CurrentKey, owner: str) -> KeyedStateBackend:
        """Create the tables of one operator instance.

        Args:
            current: Tells the tables the current key.
            owner: Names the operator of one query: only its own working state is kept warm for it.
        """

    def __str__(self) -> str:
        return type(self).__name__


class LoggedTable(Table, Protocol):
    """A table that can tell what changed in it, and take over entries from a log."""

    def drain(self) -> TableChanges:
        """Return what changed since the last drain, and count it as taken."""

    def apply(self, changes: TableChanges) -> None:
        """Take over entries; they do not count as changed."""

    def contents(self) -> TableChanges:
        """Return every entry of the key group, as changes to an empty one."""


T = TypeVar("T", bound=LoggedTable)
"""A backend's type of tables."""


class KeyedBackend(ABC, Generic[T]):
    """The tables of one operator, each pointed at its data of one key group at a time.

    A subclass makes a table (`new_table`) and a table's data of a key group (`new_data`), and turns
    a table to a key group (`point`).  Unless it overrides `take_warm` and `keep_warm`, nothing is
    kept warm, and each key group is rebuilt from its log in every micro-batch.

    Args:
        current: Tells the tables the current key.
        owner: Names the operator of one query, whose working state this is.
    """

    is_persistent = False

    def __init__(self, current: CurrentKey, owner: str) -> None:
        self.current = current
        self.owner = owner
        self._tables: dict[str, T] = {}
        self._index = 0
        self._data: dict[str, Any] = {}

    @abstractmethod
    def new_table(self, spec: TableSpec) -> T:
        """Create a table; `spec.key_of(current)` is the key to look under."""

    @abstractmethod
    def new_data(self, spec: TableSpec) -> Any:
        """Create a table's data of a key group without entries."""

    @abstractmethod
    def point(self, table: T, index: int, data: Any) -> None:
        """Turn a table to a key group.

        Args:
            table: The table.
            index: Index of the key group.
            data: The table's data of that group, which `new_data` made and the table has changed
                since.
        """

    def table(self, spec: TableSpec) -> T:
        """Return the table of a state, created at its first use."""
        table = self._tables.get(spec.name)
        if table is None:
            table = self._tables[spec.name] = self.new_table(spec)
            self._enter_table(table)
        return table

    def enter(self, index: int, tables: dict[str, Any]) -> None:
        """Point every table at the working state of a key group.

        Args:
            index: Index of the key group.
            tables: The data of the group by table name; data of tables that have none is added.
        """
        self._index, self._data = index, tables
        for table in self._tables.values():
            self._enter_table(table)

    def _enter_table(self, table: T) -> None:
        spec = table.spec
        data = self._data.get(spec.name)
        if data is None:
            data = self._data[spec.name] = self.new_data(spec)
        self.point(table, self._index, data)

    def takes_columns(self, spec: TableSpec) -> bool:
        """Return False: entries are restored one by one."""
        return False

    def drain(self) -> Sequence[Changes]:
        """Return what changed since the last drain."""
        return [table.drain() for table in self._tables.values()]

    def discard_changes(self) -> None:
        """Forget what changed."""
        for table in self._tables.values():
            table.drain()

    def apply(self, changes: Any) -> None:
        """Take over restored entries of a table that was created before."""
        self._tables[changes.spec.name].apply(changes)

    def contents(self) -> Sequence[Changes]:
        """Return every entry of the key group."""
        return [table.contents() for table in self._tables.values()]

    def count(self) -> int:
        """Count the entries of the key group in all tables."""
        return sum(table.count() for table in self._tables.values())

    def take_warm(self, index: int) -> WorkingState | None:
        """Return None: nothing is kept warm."""
        return None

    def keep_warm(self, state: WorkingState) -> None:
        """Drop the working state: nothing is kept warm."""

    def release(self) -> None:
        """Release nothing: no other process can want what is in memory."""

    def close(self) -> None:
        """Forget the tables."""
        self._tables.clear()
        self._data = {}
