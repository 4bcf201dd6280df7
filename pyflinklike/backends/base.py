# SPDX-License-Identifier: Apache-2.0
"""What a state backend is made from: its configuration, and the tables of one operator.

A `StateBackend` is chosen once per operator, pickled to the workers and shared
by their threads, so it holds settings and no state.  What its
`create_keyed_state_backend` makes are the tables of one operator, as
`pyflinklike.log.backend.KeyedStateBackend` says; `KeyedBackend` has all of it that does
not depend on where entries lie.  `pyflinklike.testing.conformance` tells whether a
backend of your own is right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from pyflinklike.errors import DeclarationValueError
from pyflinklike.log.backend import KeyedStateBackend
from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.column_changes import Changes
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Table, TableChanges, TableSpec

__all__ = ["KeyedBackend", "LoggedTable", "StateBackend"]


class StateBackend(ABC):
    """Chooses where working state is kept; immutable, picklable and thread-safe."""

    @abstractmethod
    def create_keyed_state_backend(self, current: CurrentKey, owner: str) -> KeyedStateBackend:
        """A backend for one operator instance.

        Args:
            current: Tells its tables the current key.
            owner: Names the operator of one query: what is kept warm is its own.
        """

    def create_columnar_state_backend(
        self,
        current: CurrentKey,
        owner: str,
        key_kind: Any,
    ) -> KeyedStateBackend:
        """A backend for one instance of an operator whose state lies in columns.

        Args:
            current: Tells its tables the current key.
            owner: Names the operator of one query: what is kept warm is its own.
            key_kind: Arrow's type of the keys.

        Raises:
            DeclarationValueError: This backend has no columns.
        """
        msg = (
            f"a KeyedBatchFunction keeps its state in columns, which {self} does not have, got "
            f"{self!r}; use HashMapStateBackend() (both read the same checkpoint), or a "
            "KeyedProcessFunction"
        )
        raise DeclarationValueError(msg)

    def __str__(self) -> str:
        return type(self).__name__


class LoggedTable(Table, Protocol):
    """A table that can say what changed in it, and take over what a log has of it."""

    def drain(self) -> TableChanges:
        """What changed since the last drain; the changes count as taken."""

    def apply(self, changes: TableChanges) -> None:
        """Take over entries; they do not count as changed."""

    def contents(self) -> TableChanges:
        """Every entry of the key group, as changes to an empty one."""


T = TypeVar("T", bound=LoggedTable)
"""A backend's tables."""


class KeyedBackend(ABC, Generic[T]):
    """The tables of one operator, each pointed at its data of one key group at a time.

    A subclass says how a table is made (`new_table`), what it keeps of a key group
    (`new_data`), and how it turns to another one (`point`).  It keeps nothing warm, so that
    each key group is rebuilt from its log in every micro-batch, unless it overrides
    `take_warm` and `keep_warm`.

    Args:
        current: Tells the tables the current key.
        owner: Whose working state it keeps.
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
        """A table of that spec; `spec.key_of(self.current)` tells it which key to look under."""

    @abstractmethod
    def new_data(self, spec: TableSpec) -> Any:
        """What a table keeps of a key group, for one that has no entries."""

    @abstractmethod
    def point(self, table: T, index: int, data: Any) -> None:
        """Turn a table to a key group.

        Args:
            table: Which one.
            index: Of the group.
            data: Of the table in that group: what `new_data` gave, and the table has made of it.
        """

    def table(self, spec: TableSpec) -> T:
        """The table of a state, created at its first use."""
        table = self._tables.get(spec.name)
        if table is None:
            table = self._tables[spec.name] = self.new_table(spec)
            self._enter_table(table)
        return table

    def enter(self, index: int, tables: dict[str, Any]) -> None:
        """Point every table at the working state of a key group.

        Args:
            index: Of the group.
            tables: The data of the group by table name, which is added to.
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
        """No: entries are restored one by one."""
        return False

    def drain(self) -> Sequence[Changes]:
        """What changed since the last drain."""
        return [table.drain() for table in self._tables.values()]

    def discard_changes(self) -> None:
        """Forget what changed."""
        for table in self._tables.values():
            table.drain()

    def apply(self, changes: Any) -> None:
        """Take over restored entries of a table there is."""
        self._tables[changes.spec.name].apply(changes)

    def contents(self) -> Sequence[Changes]:
        """Every entry of the key group."""
        return [table.contents() for table in self._tables.values()]

    def count(self) -> int:
        """How many entries the key group holds in all tables."""
        return sum(table.count() for table in self._tables.values())

    def take_warm(self, index: int) -> WorkingState | None:
        """None: nothing is kept warm."""
        return None

    def keep_warm(self, state: WorkingState) -> None:
        """Nothing."""

    def release(self) -> None:
        """Nothing: no other process can want what is in memory."""

    def close(self) -> None:
        """Forget the tables."""
        self._tables.clear()
        self._data = {}
