# SPDX-License-Identifier: Apache-2.0
"""The journal of a broadcast input: the writes of each element, to be repeated.

Every key group has its own copy of broadcast state, and all copies are equal.  So the function
processes an element only in the first key group of a task, and the journal repeats its writes in
the others, which keeps the copies equal.  An element that looked at the state of keys is processed
in each key group, for each has other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import attrs

from pyflinklike.state.table import Entry, Table, TableSpec

__all__ = ["Journal", "JournaledTable", "Processed"]


@attrs.define
class Processed:
    """An element of the broadcast input that was processed in one key group.

    Args:
        value: The element.
        timestamp: The event time in ms, or None.
        changes: The writes, in order: each is a call that writes into the current key group.
        is_local: Whether the element looked at the state of the key group's keys.
    """

    value: Any
    timestamp: int | None
    changes: list[Callable[[], None]] = attrs.field(factory=list)
    is_local: bool = False


class Journal:
    """The elements of one task's broadcast input, in order."""

    def __init__(self) -> None:
        self._elements: list[Processed] = []
        self._taken: dict[int, int] = {}
        self._written: Processed | None = None

    def next_of(self, index: int) -> Processed | None:
        """Return the next element of a key group, or None if no group of the task has had it.

        Args:
            index: The number of the key group.
        """
        at = self._taken.get(index, 0)
        self._taken[index] = at + 1
        return self._elements[at] if at < len(self._elements) else None

    def begin(self, value: Any, timestamp: int | None) -> Processed:
        """Begin an element that is new to the task: its writes are recorded until `end`."""
        self._written = Processed(value, timestamp)
        self._elements.append(self._written)
        return self._written

    def end(self) -> None:
        """End the element: writes from now on repeat recorded ones."""
        self._written = None

    def write(self, change: Callable[[], None]) -> None:
        """Record a write of the current element."""
        if self._written is not None:
            self._written.changes.append(change)

    def keep_local(self) -> None:
        """Mark the current element as one that each key group must process itself."""
        if self._written is not None:
            self._written.is_local = True

    def forget(self) -> None:
        """Forget the elements of the task that is over."""
        self._elements.clear()
        self._taken.clear()
        self._written = None


@attrs.frozen
class JournaledTable:
    """A table whose writes go to the journal, too; it has what a map uses of `Table`.

    Entries are immutable, so a repeated write stores what the first one stored.

    Args:
        table: Writes into whichever key group is current, also when a write is repeated.
        journal: Records the writes.
    """

    _table: Table
    _journal: Journal

    @property
    def spec(self) -> TableSpec:
        """The spec of the table."""
        return self._table.spec

    def get(self, user_key: Hashable) -> Entry:
        """Return the entry, or `MISSING`."""
        return self._table.get(user_key)

    def items(self) -> Iterable[tuple[Any, Entry]]:
        """Return the user keys with their entries."""
        return self._table.items()

    def is_empty(self) -> bool:
        """Return whether there is no entry."""
        return self._table.is_empty()

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry, in place of an earlier one."""
        self._change(lambda: self._table.put(user_key, entry))

    def delete(self, user_key: Hashable) -> None:
        """Remove an entry; do nothing where there is none."""
        self._change(lambda: self._table.delete(user_key))

    def clear(self) -> None:
        """Remove every entry."""
        self._change(self._table.clear)

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        """Store many entries at once."""
        # The items may be an iterator, which could not be read again when the write is repeated.
        entries = list(items)
        self._change(lambda: self._table.multi_put(entries))

    def _change(self, change: Callable[[], None]) -> None:
        change()
        self._journal.write(change)
