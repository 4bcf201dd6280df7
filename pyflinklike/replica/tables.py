# SPDX-License-Identifier: Apache-2.0
"""Tables that drop writes, beneath the TTL and stores that write when they are read.

A read by a function removes expired entries, renews a stamp, counts as a use.  The next read of a
replica must not see any of that: a replica stands still between two micro-batches of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Entry, Table, Tables, TableSpec

__all__ = ["UnwrittenTables"]


class UnwrittenTables:
    """The tables of an operator, which drop writes."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.current: CurrentKey = tables.current
        self.is_persistent: bool = tables.is_persistent
        self.takes_writes = False
        """Whether writes are taken now: while a store arranges the layout that its reads need."""

    def table(self, spec: TableSpec) -> UnwrittenTable:
        """Make the table of a state."""
        return UnwrittenTable(self._tables.table(spec), self)

    @contextmanager
    def written(self) -> Iterator[None]:
        """Let the tables take writes within the context."""
        self.takes_writes = True
        try:
            yield
        finally:
            self.takes_writes = False


class UnwrittenTable:
    """A `Table` that drops writes; over an `OrderedTable` it is one, too.

    Args:
        table: The backend's table, which is read.
        tables: Know whether writes are taken now.
    """

    def __init__(self, table: Table, tables: UnwrittenTables) -> None:
        self.spec = table.spec
        self._table = table
        self._tables = tables
        # Reads go straight to the table.
        self.get, self.multi_get = table.get, table.multi_get
        self.items, self.elements, self.is_empty = table.items, table.elements, table.is_empty
        self.scan, self.count = table.scan, table.count
        if self.spec.ordered:
            self.range = table.range  # type: ignore[attr-defined]

    def put(self, user_key: Any, entry: Entry) -> None:
        """Do nothing, except while a store arranges the layout."""
        if self._tables.takes_writes:
            self._table.put(user_key, entry)

    def delete(self, user_key: Any) -> None:
        """Do nothing, except while a store arranges the layout."""
        if self._tables.takes_writes:
            self._table.delete(user_key)

    def append(self, entry: Entry) -> None:
        """Do nothing."""

    def clear(self) -> None:
        """Do nothing."""

    def multi_put(self, items: Iterable[tuple[Any, Entry]]) -> None:
        """Do nothing."""

    def sweep(
        self,
        count: int,  # noqa: ARG002
        is_dead: Callable[[Entry], bool],  # noqa: ARG002
        any_dead: Callable[[Sequence[Entry]], bool] | None = None,  # noqa: ARG002
    ) -> int:
        """Do nothing."""
        return 0

    def sweep_all(self, is_dead: Callable[[Entry], bool]) -> int:  # noqa: ARG002
        """Do nothing."""
        return 0
