# SPDX-License-Identifier: Apache-2.0
"""What elements of a broadcast input did, so that it need not be computed again.

Every key group has its own copy of broadcast state, and all copies are equal.  So a function
processes an element in the first key group of a task only; what it stored there is stored again in
the task's other key groups, which end as equal as they began.  Only an element that looked at the
state of keys is processed in each key group, for each has other keys.
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
        timestamp: Its time in ms, or None.
        changes: What was stored, in order: calls that store it in the key group that is current.
        is_local: Whether it looked at the state of the key group's keys.
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
        """What became of the next element of a key group, or None where it is the first to get it.

        Args:
            index: Of the key group.
        """
        at = self._taken.get(index, 0)
        self._taken[index] = at + 1
        return self._elements[at] if at < len(self._elements) else None

    def begin(self, value: Any, timestamp: int | None) -> Processed:
        """An element is processed for the first time in the task: what it does is written down."""
        self._written = Processed(value, timestamp)
        self._elements.append(self._written)
        return self._written

    def end(self) -> None:
        """It was processed: what is done now is done again, and written down already."""
        self._written = None

    def write(self, change: Callable[[], None]) -> None:
        """Something was stored for the element that is processed now."""
        if self._written is not None:
            self._written.changes.append(change)

    def keep_local(self) -> None:
        """The element that is processed now looks at the state of keys."""
        if self._written is not None:
            self._written.is_local = True

    def forget(self) -> None:
        """The task is over."""
        self._elements.clear()
        self._taken.clear()
        self._written = None


@attrs.frozen
class JournaledTable:
    """A table of the backend, whose changes are written down: all of a `Table` that a map uses.

    Entries are immutable, so they are later what they were.

    Args:
        table: It changes whichever key group is current.
        journal: Gets the changes.
    """

    _table: Table
    _journal: Journal

    @property
    def spec(self) -> TableSpec:
        """Of the table."""
        return self._table.spec

    def get(self, user_key: Hashable) -> Entry:
        """The entry, or `MISSING`."""
        return self._table.get(user_key)

    def items(self) -> Iterable[tuple[Any, Entry]]:
        """The user keys and entries there are now."""
        return self._table.items()

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return self._table.is_empty()

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry, replacing the one there was."""
        self._change(lambda: self._table.put(user_key, entry))

    def delete(self, user_key: Hashable) -> None:
        """Remove an entry; nothing happens where there is none."""
        self._change(lambda: self._table.delete(user_key))

    def clear(self) -> None:
        """Remove every entry."""
        self._change(self._table.clear)

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        """Store many entries at once."""
        entries = list(items)
        self._change(lambda: self._table.multi_put(entries))

    def _change(self, change: Callable[[], None]) -> None:
        change()
        self._journal.write(change)
