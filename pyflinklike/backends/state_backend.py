# SPDX-License-Identifier: Apache-2.0
"""State backends: their settings, and the tables that they make for an operator.

A program chooses one `StateBackend` per operator.  It is pickled to the workers and shared by their
threads, so it holds settings and no state.  Its `create_keyed_state_backend` makes the tables of one
operator, a `KeyedStateBackend`.  `KeyedBackend` has the parts of these that do not depend on where
entries lie.  If you write a backend, run `pyflinklike.conformance` to check it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from pyflinklike._changelog.key_group_state import KeyedStateBackend, KeyGroupState
from pyflinklike._deprecation import WithoutJava
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Changes, Table, TableChanges, TableSpec


class StateBackend(WithoutJava, ABC):
    """The place in which working state is kept; immutable, picklable and thread-safe."""

    @abstractmethod
    def create_keyed_state_backend(self, current: CurrentKey, owner: str) -> KeyedStateBackend:
        """Create the tables of one operator instance.

        Args:
            current: Holds the current key, under which tables look.
            owner: The name of the operator in its query.  Working state that is kept warm under this
                name is used only by an operator of the same name.
        """

    def shared_by(self, processes: int) -> StateBackend:
        """Return the backend of each of some processes that share its memory; here it is the same."""
        return self

    def __str__(self) -> str:
        return type(self).__name__


class LoggedTable(Table, Protocol):
    """A table that reports its changes, and takes over entries from a log."""

    def drain(self) -> TableChanges:
        """Return the changes since the last drain, and count them as taken."""

    def apply(self, changes: TableChanges) -> None:
        """Take over entries; they do not count as changed."""

    def contents(self) -> TableChanges:
        """Return every entry of the key group, as changes to an empty key group."""


T = TypeVar("T", bound=LoggedTable)
"""The class of a backend's tables."""


class KeyedBackend(ABC, Generic[T]):
    """The tables of one operator, each pointed at its data of one key group at a time.

    A subclass makes a table (`new_table`) and a table's data of a key group (`new_data`), and turns
    a table to a key group (`point`).  Unless it overrides `pop_cached` and `cache`, nothing is
    kept warm, and each key group is rebuilt from its log in every micro-batch.

    Args:
        current: Holds the current key, under which tables look.
        owner: The name of the operator in its query, whose working state this is.
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
        """Create a table; it looks under the key that `spec.key_of(current)` returns."""

    @abstractmethod
    def new_data(self, spec: TableSpec) -> Any:
        """Create a table's data for a key group that has no entries yet."""

    @abstractmethod
    def point(self, table: T, index: int, data: Any) -> None:
        """Turn a table to a key group.

        Args:
            table: A table that `new_table` made.
            index: The index of the key group.
            data: The table's data of that group.  `new_data` made it, and the table has changed it
                since.
        """

    def table(self, spec: TableSpec) -> T:
        """Return the table of a state; the first call creates it."""
        table = self._tables.get(spec.name)
        if table is None:
            table = self._tables[spec.name] = self.new_table(spec)
            self._enter_table(table)
        return table

    def enter(self, index: int, tables: dict[str, Any]) -> None:
        """Point every table at the working state of a key group.

        Args:
            index: The index of the key group.
            tables: The data of the group by table name; tables that are missing get new data here.
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
        """Return False: this backend restores entries one by one."""
        return False

    def expect(self, keys: Sequence[Hashable]) -> None:
        """Do nothing: entries in memory need not be read ahead."""

    def drain(self) -> Sequence[Changes]:
        """Return the changes since the last drain."""
        return [table.drain() for table in self._tables.values()]

    def discard_changes(self) -> None:
        """Forget all changes since the last drain."""
        for table in self._tables.values():
            table.drain()

    def apply(self, changes: Any) -> None:
        """Take over restored entries of a table that exists already."""
        self._tables[changes.spec.name].apply(changes)

    def contents(self) -> Sequence[Changes]:
        """Return every entry of the key group."""
        return [table.contents() for table in self._tables.values()]

    def count(self) -> int:
        """Count the entries of the key group in all tables."""
        return sum(table.count() for table in self._tables.values())

    def pop_cached(self, index: int) -> KeyGroupState | None:
        """Return None: this class keeps nothing warm."""
        return None

    def cache(self, state: KeyGroupState) -> None:
        """Drop the working state: this class keeps nothing warm."""

    def release(self) -> None:
        """Release nothing: no other process waits for what is in memory."""

    def close(self) -> None:
        """Forget the tables."""
        self._tables.clear()
        self._data = {}
