# SPDX-License-Identifier: Apache-2.0
"""Tables that drop writes: between a backend, and the TTL and stores that write when they are read.

A read of a function removes what has expired, renews a stamp, counts as a use.  In a replica none of
that may be seen by the next read: it stands still between two micro-batches of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Entry, Table, Tables, TableSpec

__all__ = ["UnwrittenTables"]


class UnwrittenTables:
    """The tables of an operator, which take no writes.

    Args:
        tables: Of the backend.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.current: CurrentKey = tables.current
        self.is_persistent: bool = tables.is_persistent
        self.takes_writes = False
        """Whether the tables are being brought into another layout, which reads need."""

    def table(self, spec: TableSpec) -> UnwrittenTable:
        """The table of a state."""
        return UnwrittenTable(self._tables.table(spec), self)

    @contextmanager
    def written(self) -> Iterator[None]:
        """Within it the tables take writes."""
        self.takes_writes = True
        try:
            yield
        finally:
            self.takes_writes = False


class UnwrittenTable:
    """A `Table` that takes no writes, or an `OrderedTable` over one.

    Args:
        table: Of the backend.
        tables: Say whether it is written.
    """

    def __init__(self, table: Table, tables: UnwrittenTables) -> None:
        self.spec = table.spec
        self._table = table
        self._tables = tables
        # What is read is read of the table itself.
        self.get, self.multi_get = table.get, table.multi_get
        self.items, self.elements, self.is_empty = table.items, table.elements, table.is_empty
        self.scan, self.count = table.scan, table.count
        if self.spec.ordered:
            self.range = table.range  # type: ignore[attr-defined]

    def put(self, user_key: Any, entry: Entry) -> None:
        """Nothing, but while the layout changes."""
        if self._tables.takes_writes:
            self._table.put(user_key, entry)

    def delete(self, user_key: Any) -> None:
        """Nothing, but while the layout changes."""
        if self._tables.takes_writes:
            self._table.delete(user_key)

    def append(self, entry: Entry) -> None:
        """Nothing."""

    def clear(self) -> None:
        """Nothing."""

    def multi_put(self, items: Iterable[tuple[Any, Entry]]) -> None:
        """Nothing."""

    def sweep(
        self,
        count: int,  # noqa: ARG002
        is_dead: Callable[[Entry], bool],  # noqa: ARG002
        any_dead: Callable[[Sequence[Entry]], bool] | None = None,  # noqa: ARG002
    ) -> int:
        """Nothing."""
        return 0

    def sweep_all(self, is_dead: Callable[[Entry], bool]) -> int:  # noqa: ARG002
        """Nothing."""
        return 0
