# SPDX-License-Identifier: Apache-2.0
"""Tables whose writes wait until the call that made them has succeeded.

If a call fails and its record becomes a dead letter, the call must leave no trace in state.  So a
`BufferedTables` stands between the states and the backend.  While a call runs, each write goes to
an *overlay* of its table, and reads look there first.  If the call succeeds, `WriteBuffer.commit`
writes the overlays to the backend's tables.  If it fails, `WriteBuffer.drop` forgets them.  The
backend never sees the writes of a failed call, so it logs, caches and counts as if the call had not
been made.

Outside a call, writes pass at once.  Cleanup (`sweep`, `sweep_all`) always passes: it deletes
expired entries, and the current call cannot have written any of these.

A call of one of our programs (a window, say) may contain calls of the user's function that fail by
themselves: `mark` and `go_back` undo the writes of such a part.  Until the whole call has
succeeded, the backend's tables have the entries from before it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from pyflinklike.state.current_key import CurrentKey, TableKey
from pyflinklike.state.table import (
    MISSING,
    Entry,
    OrderedTable,
    Shape,
    Table,
    Tables,
    TableSpec,
)


class BufferMark(NamedTuple):
    """The contents of a write buffer at a moment of a call.

    Args:
        overlays: A copy of the overlay of each table that the call has written to.
        later: Number of changes that wait for the success of the call.
    """

    overlays: list[tuple[BufferedTable, dict[Any, Any]]]
    later: int


class WriteBuffer:
    """The writes of the call that runs now.

    Args:
        current: The current key, which a commit assigns while it writes.
    """

    def __init__(self, current: CurrentKey) -> None:
        self.is_open = False
        """Whether a call runs now."""
        self.has_changed = False
        """Whether the call has changed anything."""
        self.written: list[BufferedTable] = []
        """The tables that the call has written to."""
        self.current = current
        self._later: list[Callable[[], None]] = []

    def commit(self) -> None:
        """Write the overlays to the backend, because the call has succeeded."""
        # Writing makes other keys current, and the caller may still need the present one.
        current = self.current
        key, namespace = current.key, current.namespace
        for table in self.written:
            table.commit()
        current.key, current.namespace = key, namespace
        self.written.clear()
        if self._later:
            for each in self._later:
                each()
            self._later.clear()
        self.has_changed = False

    def drop(self) -> None:
        """Forget the writes of the call, because it has failed."""
        self.go_back(BufferMark([], 0))
        self.has_changed = False

    def mark(self) -> BufferMark:
        """Return a copy of the writes so far, for `go_back`."""
        return BufferMark([(each, each.copy_overlay()) for each in self.written], len(self._later))

    def go_back(self, mark: BufferMark) -> None:
        """Forget the writes since a mark; a mark can be used once."""
        for table in self.written:
            table.overlay = {}
        self.written.clear()
        for table, overlay in mark.overlays:
            table.overlay = overlay
            self.written.append(table)
        del self._later[mark.later :]

    def add(self, table: BufferedTable) -> None:
        """Note that the call has written to a table."""
        self.has_changed = True
        self.written.append(table)

    def do_later(self, change: Callable[[], None]) -> None:
        """Make a change outside the tables: now, or if a call runs, when it has succeeded."""
        if self.is_open:
            self.has_changed = True
            self._later.append(change)
        else:
            change()


class BufferedTables:
    """The tables of one operator, each with an overlay.

    Args:
        tables: The tables of the backend.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._buffered: dict[str, BufferedTable] = {}
        self.current = tables.current
        self.is_persistent = tables.is_persistent
        self.write_buffer = WriteBuffer(tables.current)
        """The writes of the call that runs now."""
        self.made: list[Table] = []
        """The backend's tables that were made so far, without the writes of that call."""

    def table(self, spec: TableSpec) -> Table:
        """Return the table of a state, created at its first use."""
        table = self._buffered.get(spec.name)
        if table is None:
            made = self._tables.table(spec)
            self.made.append(made)
            kind = BufferedOrderedTable if spec.ordered else _KINDS[spec.shape]
            table = self._buffered[spec.name] = kind(
                made, spec.key_of(self.current), self.write_buffer
            )
        return cast(Table, table)


class BufferedTable:
    """The part that tables of all shapes share.

    Args:
        table: The table of the backend.
        key: The key to look under, as the backend's table has it.
        write_buffer: The writes of the call that runs now.
    """

    def __init__(self, table: Table, key: TableKey, write_buffer: WriteBuffer) -> None:
        self.spec = table.spec
        self.overlay: dict[Any, Any] = {}
        """The writes of the call to this table, by key."""
        self._table: Any = table
        self._key: Any = key
        self._write_buffer = write_buffer
        # Entries that belong to the key group have one constant key, which cannot be assigned.
        self._is_keyed = not (self.spec.per_group or self.spec.is_replicated)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._table!r})"

    def commit(self) -> None:
        """Write the overlay to the backend's table; this changes the current key."""
        overlay, self.overlay = self.overlay, {}
        for key, mine in overlay.items():
            if self._is_keyed:
                self._key.key = key
            self._write(mine)

    def copy_overlay(self) -> dict[Any, Any]:
        """Return a copy of the overlay, which no write changes."""
        return {key: mine.copy() for key, mine in self.overlay.items()}

    def _write(self, mine: Any) -> None:
        """Write the overlay of the current key to the backend's table."""
        raise NotImplementedError

    def _count_more(self, mine: Any) -> int:
        """Return how many entries the current key has gained by the overlay; may be negative."""
        raise NotImplementedError

    # Under the current key

    def get(self, user_key: Hashable) -> Entry:
        """Return the entry, or `MISSING`."""
        raise NotImplementedError

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry in place of the former one."""
        raise NotImplementedError

    def items(self) -> list[tuple[Any, Entry]]:
        """Return the user keys and entries at this moment, in order."""
        raise NotImplementedError

    def elements(self) -> Iterable[Entry]:
        """Return the entries at this moment, in order."""
        if self._key.key not in self.overlay:
            found: Iterable[Entry] = self._table.elements()
            return found
        return [entry for _, entry in self.items()]

    def is_empty(self) -> bool:
        """Return whether there is no entry."""
        if self._key.key not in self.overlay:
            return bool(self._table.is_empty())
        return not self.items()

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        """Return the entry or `MISSING` of each user key."""
        if self._key.key not in self.overlay:
            found: list[Entry] = self._table.multi_get(user_keys)
            return found
        return [self.get(user_key) for user_key in user_keys]

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        """Store many entries at once; of equal user keys the last one stays."""
        if not self._write_buffer.is_open:
            self._table.multi_put(items)
            return
        for user_key, entry in items:
            self.put(user_key, entry)

    # Across keys

    def scan(self) -> Iterator[tuple[Hashable, Any, Entry]]:
        """Return every (key, user key, entry) of the key group; the current key does not matter."""
        found: Iterator[tuple[Hashable, Any, Entry]] = self._table.scan()
        if not self.overlay:
            return found
        overlay = self.overlay
        rows = [each for each in found if each[0] not in overlay]
        for key, _ in self._under_each_key():
            rows += [(key, *item) for item in self.items()]
        return iter(rows)

    def count(self) -> int:
        """Count the entries of the key group in this table."""
        count: int = self._table.count()
        if not self.overlay:
            return count
        return count + sum(self._count_more(mine) for _, mine in self._under_each_key())

    def _under_each_key(self) -> Iterator[tuple[Any, Any]]:
        """Make each key of the overlay current in turn; yield it and its part of the overlay."""
        current = self._write_buffer.current
        former = current.key, current.namespace
        try:
            for key, mine in list(self.overlay.items()):
                if self._is_keyed:
                    self._key.key = key
                yield key, mine
        finally:
            current.key, current.namespace = former

    def sweep(
        self,
        count: int,
        is_dead: Callable[[Entry], bool],
        any_dead: Callable[[Sequence[Entry]], bool] | None = None,
    ) -> int:
        """Let the backend's table look at its next entries."""
        deleted: int = self._table.sweep(count, is_dead, any_dead)
        return deleted

    def sweep_all(self, is_dead: Callable[[Entry], bool]) -> int:
        """Let the backend's table delete every entry for which `is_dead` is true."""
        deleted: int = self._table.sweep_all(is_dead)
        return deleted


_UNKNOWN: Any = object()
"""Stands for an entry that the call has not written."""


class BufferedSingleTable(BufferedTable):
    """One entry for each key; the overlay has the entry of a key, `MISSING` if it is deleted."""

    def __init__(self, table: Table, key: TableKey, write_buffer: WriteBuffer) -> None:
        super().__init__(table, key, write_buffer)
        # Functions read and write such a table for every record.
        self._get, self._put = table.get, table.put

    def get(self, user_key: Hashable) -> Entry:
        """Return the entry, or `MISSING`."""
        overlay = self.overlay
        if overlay:
            entry = overlay.get(self._key.key, _UNKNOWN)
            if entry is not _UNKNOWN:
                return entry
        return self._get(user_key)

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry in place of the former one."""
        overlay, write_buffer = self.overlay, self._write_buffer
        if not overlay:
            if not write_buffer.is_open:
                self._table.put(user_key, entry)
                return
            # `WriteBuffer.add` written out, which saves a call for each record.
            write_buffer.has_changed = True
            write_buffer.written.append(self)
        overlay[self._key.key] = entry

    def copy_overlay(self) -> dict[Any, Any]:
        """Return a copy of the overlay, which no write changes."""
        return dict(self.overlay)

    def append(self, entry: Entry) -> None:
        """Store the entry."""
        self.put(None, entry)

    def delete(self, user_key: Hashable) -> None:
        """Remove the entry; if it is missing, this does nothing."""
        if not self._write_buffer.is_open:
            self._table.delete(user_key)
        elif self.get(None) is not MISSING:
            self.put(None, MISSING)

    def clear(self) -> None:
        """Remove the entry under the current key."""
        self.delete(None)

    def items(self) -> list[tuple[Any, Entry]]:
        """Return the entry, under None."""
        entry = self.get(None)
        return [] if entry is MISSING else [(None, entry)]

    def commit(self) -> None:
        """Write the overlay to the backend's table; this changes the current key."""
        overlay, at, put = self.overlay, self._key if self._is_keyed else _Unread, self._put
        # The loop itself assigns the current key, since this runs for almost every record.
        for at.key, entry in overlay.items():
            if entry is MISSING:
                self._table.delete(None)
            else:
                put(None, entry)
        overlay.clear()

    def _count_more(self, mine: Entry) -> int:
        return (mine is not MISSING) - (self._table.get(None) is not MISSING)


class _Unread:
    """A place to assign the key of a table that has one constant key; it is never read."""

    key: Any


class _BufferedWrites:
    """The writes of a call under one key.  Almost every record makes one, so it must be cheap."""

    __slots__ = ("appended", "end", "entries", "first", "gone", "is_cleared")

    def __init__(self) -> None:
        self.is_cleared = False
        """Whether the call has cleared the key: the backend's entries do not count."""
        self.gone: set[Any] | tuple[()] = ()
        """The user keys of deleted entries.  If one is also in `entries`, it was put again later."""
        self.entries: dict[Any, Entry] = {}
        """The entries that were put, by user key."""
        self.appended: list[Entry] = []
        """Elements that were appended to a list and have no position yet."""
        self.first: int | None = None
        """The position of the first appended element, if `_place` has moved them to `entries`."""
        self.end = 0
        """The position of the next appended element."""

    def copy(self) -> _BufferedWrites:
        """Return a copy, which no write changes."""
        made = _BufferedWrites()
        made.is_cleared, made.gone, made.entries = self.is_cleared, self.gone, dict(self.entries)
        made.appended, made.first, made.end = list(self.appended), self.first, self.end
        return made


class BufferedMapTable(BufferedTable):
    """Entries under user keys, for each key."""

    def _mine(self) -> Any:
        """Return the part of the overlay for the current key, to write to."""
        key = self._key.key
        mine = self.overlay.get(key)
        if mine is None:
            mine = _BufferedWrites()
            if not self.overlay:
                self._write_buffer.add(self)
            self.overlay[key] = mine
        return mine

    def get(self, user_key: Hashable) -> Entry:
        """Return the entry, or `MISSING`."""
        if self.overlay:
            mine = self.overlay.get(self._key.key)
            if mine is not None:
                entry = mine.entries.get(user_key, _UNKNOWN)
                if entry is not _UNKNOWN:
                    return entry
                if mine.is_cleared or user_key in mine.gone:
                    return MISSING
        return self._table.get(user_key)

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry in place of the former one."""
        if self._write_buffer.is_open:
            self._mine().entries[user_key] = entry
        else:
            self._table.put(user_key, entry)

    def append(self, entry: Entry) -> None:
        """Refuse, because only lists append, and they have their own class."""
        raise NotImplementedError

    def delete(self, user_key: Hashable) -> None:
        """Remove an entry; if it is missing, this does nothing."""
        if not self._write_buffer.is_open:
            self._table.delete(user_key)
        elif self.get(user_key) is not MISSING:
            mine = self._mine()
            # Also note a key that only the overlay had: deleting it again in the backend is
            # harmless.
            mine.entries.pop(user_key, None)
            mine.gone = {*mine.gone, user_key}

    def clear(self) -> None:
        """Remove every entry under the current key."""
        if not self._write_buffer.is_open:
            self._table.clear()
        elif not self.is_empty():
            self._mine()  # registers the table with the buffer
            self.overlay[self._key.key] = mine = _BufferedWrites()
            mine.is_cleared = True

    def items(self) -> list[tuple[Any, Entry]]:
        """Return the user keys and entries at this moment, in order."""
        mine = self.overlay.get(self._key.key)
        return list(self._table.items() if mine is None else self._merge(mine))

    def _merge(self, mine: _BufferedWrites) -> Iterator[tuple[Any, Entry]]:
        """Yield the items of the backend's table with the call's changes, then its new items."""
        seen = set()
        for user_key, entry in () if mine.is_cleared else self._table.items():
            if user_key not in mine.gone:
                seen.add(user_key)
                yield user_key, mine.entries.get(user_key, entry)
        for user_key, entry in mine.entries.items():
            if user_key not in seen:
                yield user_key, entry

    def _write(self, mine: Any) -> None:
        table = self._table
        if mine.is_cleared:
            table.clear()
        for user_key in mine.gone:
            table.delete(user_key)
        for user_key, entry in mine.entries.items():
            table.put(user_key, entry)

    def _count_more(self, mine: Any) -> int:
        if mine.is_cleared:
            return len(mine.entries) - len(list(self._table.items()))
        touched = [*{*mine.entries, *mine.gone}]
        there = self._table.multi_get(touched)
        return len(mine.entries) - sum(entry is not MISSING for entry in there)


class BufferedOrderedTable(BufferedMapTable):
    """Entries under user keys of bytes, which also answers `range`."""

    def range(
        self,
        begin: bytes | None = None,
        end: bytes | None = None,
        *,
        backwards: bool = False,
        limit: int | None = None,
    ) -> Iterable[tuple[bytes, Entry]]:
        """Return user keys and entries by the unsigned order of the keys' bytes."""
        table = cast(OrderedTable, self._table)
        mine = self.overlay.get(self._key.key)
        if mine is None:
            return table.range(begin, end, backwards=backwards, limit=limit)
        found: dict[bytes, Entry] = {}
        if not mine.is_cleared:
            # Ask for as many more entries as the call may have deleted.
            most = None if limit is None else limit + len(mine.gone)
            there = table.range(begin, end, backwards=backwards, limit=most)
            found = {user_key: entry for user_key, entry in there if user_key not in mine.gone}
        for user_key, entry in mine.entries.items():
            if (begin is None or begin <= user_key) and (end is None or user_key < end):
                found[user_key] = entry
        return [(each, found[each]) for each in sorted(found, reverse=backwards)[:limit]]


class BufferedListTable(BufferedMapTable):
    """Entries under positions, for each key.

    To find the next position, the whole list has to be read.  So `append` only collects elements,
    and `_place` gives them positions after the backend's when a caller first asks for one.
    """

    def append(self, entry: Entry) -> None:
        """Put an entry after the last position."""
        if not self._write_buffer.is_open:
            self._table.append(entry)
            return
        mine = self._mine()
        if mine.first is None:
            mine.appended.append(entry)
        else:
            mine.entries[mine.end] = entry
            mine.end += 1

    def _place(self) -> None:
        """Give the appended elements of the current list their positions."""
        mine = self.overlay.get(self._key.key)
        if mine is not None and mine.appended:
            there = () if mine.is_cleared else self._table.items()
            mine.first = 1 + max((at for at, _ in there if at not in mine.gone), default=-1)
            mine.end = mine.first + len(mine.appended)
            mine.entries.update(zip(range(mine.first, mine.end), mine.appended))
            mine.appended = []

    def get(self, user_key: Any) -> Entry:
        """Return the entry, or `MISSING`."""
        self._place()
        return super().get(user_key)

    def put(self, user_key: Any, entry: Entry) -> None:
        """Replace an existing entry; new entries are appended instead."""
        self._place()
        super().put(user_key, entry)

    def delete(self, user_key: Any) -> None:
        """Remove an entry; if it is missing, this does nothing."""
        self._place()
        super().delete(user_key)
        mine = self.overlay.get(self._key.key)
        if mine is not None and mine.first is not None:
            while mine.end > mine.first and mine.end - 1 not in mine.entries:
                mine.end -= 1
            if mine.end == mine.first:
                mine.first = None

    def items(self) -> list[tuple[Any, Entry]]:
        """Return the positions and entries at this moment, in order."""
        self._place()
        return sorted(super().items(), key=_position)

    def elements(self) -> Iterable[Entry]:
        """Return the entries at this moment, in order."""
        mine = self.overlay.get(self._key.key)
        # Without positions in the overlay, no sorting is needed.
        if mine is None or mine.first is not None or mine.entries or mine.gone:
            return super().elements()
        return [*(() if mine.is_cleared else self._table.elements()), *mine.appended]

    def is_empty(self) -> bool:
        """Return whether there is no entry."""
        mine = self.overlay.get(self._key.key)
        return (mine is None or not mine.appended) and super().is_empty()

    def _write(self, mine: Any) -> None:
        entries, first = mine.entries, mine.first
        # The backend counts positions by itself, so append the new elements and put only the old.
        if first is not None:
            mine.entries = {at: entry for at, entry in entries.items() if at < first}
            mine.appended = [entry for at, entry in entries.items() if at >= first]
        super()._write(mine)
        for entry in mine.appended:
            self._table.append(entry)

    def _count_more(self, mine: Any) -> int:
        return super()._count_more(mine) + len(mine.appended)


def _position(item: tuple[int, Entry]) -> int:
    return item[0]


_KINDS: dict[Shape, type[BufferedTable]] = {
    Shape.SINGLE: BufferedSingleTable,
    Shape.MAP: BufferedMapTable,
    Shape.LIST: BufferedListTable,
}
