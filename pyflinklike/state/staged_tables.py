# SPDX-License-Identifier: Apache-2.0
"""Tables whose writes wait until the call that made them has succeeded.

A call of a function that fails must leave nothing behind where its record becomes a dead letter.  So
a `StagedTables` stands between the states and the backend.  While a call is under way, writes go to
an overlay that reads look at first.  When the call has succeeded, they go to the backend's table;
when it has failed, they are dropped.  The backend never sees them, so that what it would log, keep
or count is exactly what it would be without the call.

Outside a call, writes pass at once.  Cleanup (`sweep`, `sweep_all`) passes always: it deletes what
has expired, which no call can have written.

A call of a program of ours may hold calls of the user's function that fail alone: `mark` and
`go_back` undo the writes of such a part, and `set_aside` shows what there was before the whole call.
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

__all__ = ["Stage", "StageMark", "StagedTable", "StagedTables"]


class StageMark(NamedTuple):
    """What a stage held at a moment of a call.

    Args:
        overlays: Of each table that had been written to.
        later: How many changes were to be made later.
        undo: How many changes could be undone.
    """

    overlays: list[tuple[StagedTable, dict[Any, Any]]]
    later: int
    undo: int


class SetAside(NamedTuple):
    """What a stage held, while it holds nothing.

    Args:
        overlays: Of each table that was written to.
        later: The changes to be made later.
        undo: The changes that could be undone, which are undone.
        redo: Make these again, the latest first.
    """

    overlays: list[tuple[StagedTable, dict[Any, Any]]]
    later: list[Callable[[], None]]
    undo: list[Undo]
    redo: list[Callable[[], None]]


Undo = Callable[[], Callable[[], None]]
"""Undoes a change beside the tables, and returns what makes it again."""


class Stage:
    """What a call that is under way has written.

    Args:
        current: The current key, which a commit assigns while it writes.
    """

    def __init__(self, current: CurrentKey) -> None:
        self.is_open = False
        """Whether a call is under way."""
        self.has_changed = False
        """Whether the call has changed anything."""
        self.written: list[StagedTable] = []
        """The tables that the call has written to."""
        self.current = current
        self.settlers: list[Callable[[bool], None]] = []
        """Write to the stage what stores keep beside their tables, of the current key or of all keys."""
        self._later: list[Callable[[], None]] = []
        self._undo: list[Undo] = []

    def begin(self) -> None:
        """Begin a call, after what was written before it is written to the backend."""
        if self.has_changed:
            self.commit()
        self.is_open = True

    def end(self) -> None:
        """End calls: what is written from now on passes at once."""
        self.commit()
        self.is_open = False

    def commit(self) -> None:
        """Write to the backend what the call has written, which has succeeded."""
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
        if self._undo:
            self._undo.clear()
        self.has_changed = False

    def drop(self) -> None:
        """Forget what the call has written, which has failed."""
        for table in self.written:
            table.drop()
        self.written.clear()
        self._later.clear()
        while self._undo:
            self._undo.pop()()
        self.has_changed = False

    def mark(self) -> StageMark:
        """Return what the call has written so far, for `go_back`."""
        overlays = [(table, table.copy_overlay()) for table in self.written]
        return StageMark(overlays, len(self._later), len(self._undo))

    def go_back(self, mark: StageMark) -> None:
        """Forget what the call has written since a mark, which serves once."""
        for table in self.written:
            table.drop()
        self._write_again(mark.overlays)
        del self._later[mark.later :]
        while len(self._undo) > mark.undo:
            self._undo.pop()()

    def set_aside(self) -> SetAside:
        """Hold nothing for a while, so that all is as it was before the call."""
        overlays = [(table, table.take_overlay()) for table in self.written]
        redo = [undo() for undo in reversed(self._undo)]
        held = SetAside(overlays, self._later, self._undo, redo)
        self.written.clear()
        self._later, self._undo = [], []
        return held

    def take_back(self, held: SetAside) -> None:
        """Hold again what was set aside."""
        self._write_again(held.overlays)
        for redo in reversed(held.redo):
            redo()
        self._later, self._undo = held.later, held.undo
        self.has_changed = bool(self.written or self._later or self._undo)

    def _write_again(self, overlays: list[tuple[StagedTable, dict[Any, Any]]]) -> None:
        self.written.clear()
        for table, overlay in overlays:
            table.put_overlay(overlay)
            self.written.append(table)

    def add(self, table: StagedTable) -> None:
        """Take note of a table that the call has written to."""
        self.has_changed = True
        self.written.append(table)

    def do_later(self, change: Callable[[], None]) -> None:
        """Make a change that is beside the tables: now, or when the call has succeeded."""
        if self.is_open:
            self.has_changed = True
            self._later.append(change)
        else:
            change()

    def undo_by(self, undo: Undo) -> None:
        """Remember how to undo a change beside the tables, which is made at once."""
        if self.is_open:
            self.has_changed = True
            self._undo.append(undo)


class StagedTables:
    """The tables of one operator, each with an overlay.

    Args:
        tables: Those of the backend.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._made: dict[str, StagedTable] = {}
        self.current = tables.current
        self.is_persistent = tables.is_persistent
        self.stage = Stage(tables.current)
        """What the call that is under way has written."""

    @property
    def made(self) -> Iterable[StagedTable]:
        """The tables that were made so far."""
        return self._made.values()

    def enter_group(self) -> None:
        """Forget what was found out about the former key group."""
        for table in self._made.values():
            table.forget_namespaces()

    def table(self, spec: TableSpec) -> Table:
        """Return the table of a state, created at its first use."""
        table = self._made.get(spec.name)
        if table is None:
            made = self._tables.table(spec)
            kind = StagedOrderedTable if spec.ordered else _KINDS[spec.shape]
            table = self._made[spec.name] = kind(made, spec.key_of(self.current), self.stage)
        return cast(Table, table)


class StagedTable:
    """The part that tables of all shapes share.

    Args:
        table: The backend's.
        key: Tells the key to look under, as it tells the backend's table.
        stage: Tells whether a call is under way.
    """

    def __init__(self, table: Table, key: TableKey, stage: Stage) -> None:
        self.spec = table.spec
        self._table: Any = table
        self._key: Any = key
        self._stage = stage
        self._overlay: dict[Any, Any] = {}
        self._namespaces: dict[Any, dict[Any, None]] | None = None
        # The entries of a key group have one key, which nobody assigns.
        self._is_keyed = not (self.spec.per_group or self.spec.is_replicated)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._table!r})"

    def commit(self) -> None:
        """Write the overlay to the backend's table; the current key is another one afterwards."""
        overlay, self._overlay = self._overlay, {}
        if self._namespaces is not None:
            self._add_namespaces(overlay)
        for key, mine in overlay.items():
            if self._is_keyed:
                self._key.key = key
            self._write(mine)

    def drop(self) -> None:
        """Forget the overlay."""
        self._overlay = {}

    def copy_overlay(self) -> dict[Any, Any]:
        """Return a copy of the overlay, which no write changes."""
        return {key: mine.copy() for key, mine in self._overlay.items()}

    def take_overlay(self) -> dict[Any, Any]:
        """Return the overlay, and forget it."""
        overlay, self._overlay = self._overlay, {}
        return overlay

    def put_overlay(self, overlay: dict[Any, Any]) -> None:
        """Have an overlay that was taken."""
        self._overlay = overlay

    # For who tells what a call began with

    def under(self, key: Any) -> list[tuple[Any, Entry]]:
        """Make a key current, and return the user keys and entries under it, in order."""
        if self._is_keyed:
            self._key.key = key
        return list(self.items())

    def namespaces_of(self, key: Any) -> list[Any]:
        """Return the namespaces of a key that may have entries in the backend's table.

        The first call looks at the whole key group; from then on, commits keep count.
        """
        if self._namespaces is None:
            self._namespaces = {}
            self._add_namespaces(pair for pair, _, _ in self._table.scan())
        return list(self._namespaces.get(key, ()))

    def forget_namespaces(self) -> None:
        """Have the next call look at the key group, which is another one."""
        self._namespaces = None

    def _add_namespaces(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        assert self._namespaces is not None
        for key, namespace in pairs:
            self._namespaces.setdefault(key, {})[namespace] = None

    def _write(self, mine: Any) -> None:
        """Write the overlay of the current key to the backend's table."""
        raise NotImplementedError

    def _count_more(self, mine: Any) -> int:
        """Return by how many entries the current key has more than in the backend's table."""
        raise NotImplementedError

    # Under the current key

    def get(self, user_key: Hashable) -> Entry:
        """Return the entry, or `MISSING`."""
        raise NotImplementedError

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry in place of the former one."""
        raise NotImplementedError

    def items(self) -> list[tuple[Any, Entry]]:
        """Return the user keys and entries of now, in order."""
        raise NotImplementedError

    def elements(self) -> Iterable[Entry]:
        """Return the entries of now, in order."""
        key = self._key.key
        if key not in self._overlay:
            found: Iterable[Entry] = self._table.elements()
            return found
        return [entry for _, entry in self.items()]

    def is_empty(self) -> bool:
        """Return whether there is no entry."""
        key = self._key.key
        if key not in self._overlay:
            return bool(self._table.is_empty())
        return not self.items()

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        """Return the entry or `MISSING` of each user key."""
        key = self._key.key
        if key not in self._overlay:
            found: list[Entry] = self._table.multi_get(user_keys)
            return found
        return [self.get(user_key) for user_key in user_keys]

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        """Store many entries at once; of equal user keys the last one stays."""
        if not self._stage.is_open:
            self._namespaces = None
            self._table.multi_put(items)
            return
        for user_key, entry in items:
            self.put(user_key, entry)

    # Across keys

    def scan(self) -> Iterator[tuple[Hashable, Any, Entry]]:
        """Return every (key, user key, entry) of the key group, whatever the current key is."""
        found: Iterator[tuple[Hashable, Any, Entry]] = self._table.scan()
        if not self._overlay:
            return found
        overlay = self._overlay
        rows = [each for each in found if each[0] not in overlay]
        for key, _ in self._under_each_key():
            rows += [(key, *item) for item in self.items()]
        return iter(rows)

    def count(self) -> int:
        """Count the entries of the key group in this table."""
        count: int = self._table.count()
        if not self._overlay:
            return count
        return count + sum(self._count_more(mine) for _, mine in self._under_each_key())

    def _under_each_key(self) -> Iterator[tuple[Any, Any]]:
        """Make each key of the overlay current in turn; yield it and its part of the overlay."""
        current = self._stage.current
        former = current.key, current.namespace
        try:
            for key, mine in list(self._overlay.items()):
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


class StagedSingleTable(StagedTable):
    """One entry for each key; the overlay has the entry of a key, `MISSING` if it is deleted."""

    def __init__(self, table: Table, key: TableKey, stage: Stage) -> None:
        super().__init__(table, key, stage)
        # Functions read and write such a table for every record.
        self._get, self._put = table.get, table.put

    def get(self, user_key: Hashable) -> Entry:
        """Return the entry, or `MISSING`."""
        overlay = self._overlay
        if overlay:
            entry = overlay.get(self._key.key, _UNKNOWN)
            if entry is not _UNKNOWN:
                return entry
        return self._get(user_key)

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry in place of the former one."""
        overlay, stage = self._overlay, self._stage
        if not overlay:
            if not stage.is_open:
                self._namespaces = None
                self._table.put(user_key, entry)
                return
            stage.has_changed = True  # `Stage.add` written out: a call per record less
            stage.written.append(self)
        overlay[self._key.key] = entry

    def copy_overlay(self) -> dict[Any, Any]:
        """Return a copy of the overlay, which no write changes."""
        return dict(self._overlay)

    def append(self, entry: Entry) -> None:
        """Store the entry."""
        self.put(None, entry)

    def delete(self, user_key: Hashable) -> None:
        """Remove the entry; nothing happens where there is none."""
        if not self._stage.is_open:
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
        """Write the overlay to the backend's table; the current key is another one afterwards."""
        overlay, at, put = self._overlay, self._key if self._is_keyed else _Unread, self._put
        if self._namespaces is not None:
            self._add_namespaces(overlay)
        for at.key, entry in overlay.items():
            if entry is MISSING:
                self._table.delete(None)
            else:
                put(None, entry)
        overlay.clear()

    def _count_more(self, mine: Entry) -> int:
        return (mine is not MISSING) - (self._table.get(None) is not MISSING)


class _Unread:
    """Takes the key of a table whose entries have one key, which is assigned nowhere."""

    key: Any


class _Written:
    """What a call has written under one key.  Made for almost every record, so it is bare."""

    __slots__ = ("again", "entries", "is_cleared")

    def __init__(self) -> None:
        self.is_cleared = False
        """Whether all that was there before is gone."""
        self.entries: dict[Any, Entry] = {}
        """By user key; `MISSING` where the entry was deleted."""
        self.again: set[Any] | tuple[()] = ()
        """The user keys that were deleted, and then put again: they come last."""

    def copy(self) -> _Written:
        """Return a copy, which no write changes."""
        made = type(self)()
        made.is_cleared, made.entries, made.again = self.is_cleared, dict(self.entries), self.again
        return made


class StagedMapTable(StagedTable):
    """Entries under user keys, for each key."""

    def _mine(self) -> Any:
        """Return the part of the overlay for the current key, to write to."""
        key = self._key.key
        mine = self._overlay.get(key)
        if mine is None:
            mine = _Written()
            if not self._overlay:
                self._stage.add(self)
            self._overlay[key] = mine
        return mine

    def get(self, user_key: Hashable) -> Entry:
        """Return the entry, or `MISSING`."""
        key = self._key.key
        if self._overlay:
            mine = self._overlay.get(key)
            if mine is not None:
                entry = mine.entries.get(user_key, _UNKNOWN)
                if entry is not _UNKNOWN:
                    return entry
                if mine.is_cleared:
                    return MISSING
        return self._table.get(user_key)

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry in place of the former one."""
        if not self._stage.is_open:
            self._namespaces = None
            self._table.put(user_key, entry)
            return
        mine = self._overlay.get(self._key.key) or self._mine()
        entries = mine.entries
        if entries and entries.get(user_key, _UNKNOWN) is MISSING:
            del entries[user_key]
            mine.again = {*mine.again, user_key}
        entries[user_key] = entry

    def append(self, entry: Entry) -> None:
        """Refuse: a list has a table of its own."""
        raise NotImplementedError

    def delete(self, user_key: Hashable) -> None:
        """Remove an entry; nothing happens where there is none."""
        if not self._stage.is_open:
            self._table.delete(user_key)
        elif self.get(user_key) is not MISSING:
            self._mine().entries[user_key] = MISSING

    def clear(self) -> None:
        """Remove every entry under the current key."""
        if not self._stage.is_open:
            self._table.clear()
        elif not self.is_empty():
            mine = self._mine()
            mine.is_cleared = True
            mine.entries.clear()
            mine.again = ()

    def items(self) -> list[tuple[Any, Entry]]:
        """Return the user keys and entries of now, in order."""
        key = self._key.key
        mine = self._overlay.get(key)
        if mine is None:
            return list(self._table.items())
        return list(_merge(mine, () if mine.is_cleared else self._table.items()))

    def _write(self, mine: Any) -> None:
        table = self._table
        again = mine.again
        if mine.is_cleared:
            table.clear()
        for user_key, entry in mine.entries.items():
            if entry is MISSING:
                table.delete(user_key)
                continue
            if again and user_key in again:
                table.delete(user_key)
            table.put(user_key, entry)

    def _count_more(self, mine: Any) -> int:
        alive = sum(entry is not MISSING for entry in mine.entries.values())
        if mine.is_cleared:
            return alive - len(list(self._table.items()))
        there = self._table.multi_get(list(mine.entries))
        return alive - sum(entry is not MISSING for entry in there)


def _merge(mine: _Written, items: Iterable[tuple[Any, Entry]]) -> Iterator[tuple[Any, Entry]]:
    """Yield the items of the backend's table as the call has changed them, then its new ones."""
    seen = set()
    for user_key, entry in items:
        written = mine.entries.get(user_key, entry)
        if user_key not in mine.again:
            seen.add(user_key)
            if written is not MISSING:
                yield user_key, written
    for user_key, entry in mine.entries.items():
        if entry is not MISSING and user_key not in seen:
            yield user_key, entry


class StagedOrderedTable(StagedMapTable):
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
        table, key = cast(OrderedTable, self._table), self._key.key
        mine = self._overlay.get(key)
        if mine is None:
            return table.range(begin, end, backwards=backwards, limit=limit)
        written = {
            user_key: entry
            for user_key, entry in mine.entries.items()
            if (begin is None or begin <= user_key) and (end is None or user_key < end)
        }
        found: dict[bytes, Entry] = {}
        if not mine.is_cleared:
            # As many more as the call may have deleted.
            most = None if limit is None else limit + len(written)
            found = dict(table.range(begin, end, backwards=backwards, limit=most))
        found.update(written)
        merged = [
            (user_key, found[user_key])
            for user_key in sorted(found, reverse=backwards)
            if found[user_key] is not MISSING
        ]
        return merged if limit is None else merged[:limit]


class _WrittenList(_Written):
    """What a call has written to one list."""

    __slots__ = ("appended", "end")

    def __init__(self) -> None:
        # Made for each record that appends, so the base class is not called.
        self.is_cleared, self.entries, self.again = False, {}, ()
        self.appended: list[Entry] = []
        """What it has appended, `MISSING` where it deleted that again."""
        self.end: int | None = None
        """The position of the first of these, once it is known."""

    def copy(self) -> _WrittenList:
        made = super().copy()
        assert isinstance(made, _WrittenList)
        made.appended, made.end = list(self.appended), self.end
        return made


class StagedListTable(StagedMapTable):
    """Entries under positions, for each key."""

    def _mine(self) -> Any:
        key = self._key.key
        mine = self._overlay.get(key)
        if mine is None:
            mine = _WrittenList()
            if not self._overlay:
                self._stage.add(self)
            self._overlay[key] = mine
        return mine

    def append(self, entry: Entry) -> None:
        """Put an entry after the last position."""
        if not self._stage.is_open:
            self._namespaces = None
            self._table.append(entry)
            return
        mine = self._mine()
        if not mine.appended:
            # Without a change the end is that of the backend's list, whenever it is asked for.
            mine.end = self._end_of(mine) if mine.is_cleared or mine.entries else None
        mine.appended.append(entry)

    def _end_of(self, mine: _WrittenList) -> int:
        """Return the position behind the last entry that was not appended."""
        items = list(_merge(mine, () if mine.is_cleared else self._table.items()))
        return max((position for position, _ in items), default=-1) + 1

    def _index(self, mine: _WrittenList, position: int) -> int:
        """Return the index of a position among the appended ones; negative or too large if none."""
        if not mine.appended:
            return -1
        if mine.end is None:
            items = list(self._table.items())
            mine.end = items[-1][0] + 1 if items else 0
        return position - mine.end

    def get(self, user_key: Any) -> Entry:
        """Return the entry, or `MISSING`."""
        key = self._key.key
        mine = self._overlay.get(key)
        if mine is not None and mine.appended:
            index = self._index(mine, user_key)
            if index >= 0:
                return mine.appended[index] if index < len(mine.appended) else MISSING
        return super().get(user_key)

    def put(self, user_key: Any, entry: Entry) -> None:
        """Store an entry in place of one that is there: new ones are appended."""
        if not self._stage.is_open:
            self._namespaces = None
            self._table.put(user_key, entry)
            return
        mine = self._mine()
        index = self._index(mine, user_key)
        if index < 0:
            mine.entries[user_key] = entry
        else:
            mine.appended[index] = entry

    def delete(self, user_key: Any) -> None:
        """Remove an entry; nothing happens where there is none."""
        if not self._stage.is_open:
            self._table.delete(user_key)
        elif self.get(user_key) is not MISSING:
            mine = self._mine()
            index = self._index(mine, user_key)
            if index < 0:
                mine.entries[user_key] = MISSING
                return
            mine.appended[index] = MISSING
            while mine.appended and mine.appended[-1] is MISSING:
                mine.appended.pop()

    def clear(self) -> None:
        """Remove every entry under the current key."""
        super().clear()
        mine = self._overlay.get(self._key.key)
        if mine is not None and self._stage.is_open:
            mine.appended.clear()
            mine.end = None

    def items(self) -> list[tuple[Any, Entry]]:
        """Return the positions and entries of now, in order."""
        key = self._key.key
        mine = self._overlay.get(key)
        if mine is None:
            return list(self._table.items())
        items = sorted(_merge(mine, () if mine.is_cleared else self._table.items()), key=_position)
        if mine.appended:
            first = -self._index(mine, 0)
            items += [
                (position, entry)
                for position, entry in enumerate(mine.appended, first)
                if entry is not MISSING
            ]
        return items

    def elements(self) -> list[Entry]:
        """Return the entries of now, in order."""
        key = self._key.key
        mine = self._overlay.get(key)
        if mine is None or mine.is_cleared or mine.entries or MISSING in mine.appended:
            return list(super().elements())
        return [*self._table.elements(), *mine.appended]

    def is_empty(self) -> bool:
        """Return whether there is no entry."""
        mine = self._overlay.get(self._key.key)
        return (mine is None or not mine.appended) and super().is_empty()

    def _write(self, mine: Any) -> None:
        if mine.is_cleared or mine.entries:
            super()._write(mine)
        append = self._table.append
        for entry in mine.appended:
            if entry is not MISSING:
                append(entry)

    def _count_more(self, mine: Any) -> int:
        return super()._count_more(mine) + sum(each is not MISSING for each in mine.appended)


def _position(item: tuple[int, Entry]) -> int:
    return item[0]


_KINDS: dict[Shape, type[StagedTable]] = {
    Shape.SINGLE: StagedSingleTable,
    Shape.MAP: StagedMapTable,
    Shape.LIST: StagedListTable,
}
