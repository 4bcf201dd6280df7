# SPDX-License-Identifier: Apache-2.0
"""Tables of which only a part is known: reads of anything else are refused.

The capsule of a call whose key has more state than it may hold has only what the call had read.  A
function that is called again over it may read that, and what it has written meanwhile.  Any other
read would be answered as if nothing were there, so it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import attrs

from pyflinklike.engine.shown import shown, shown_state
from pyflinklike.engine.state.current_key import CurrentKey, TableKey
from pyflinklike.engine.state.table import Entry, OrderedTable, Table, Tables, TableSpec
from pyflinklike.errors import StateAccessError

__all__ = ["KnownPart", "PartialTables"]

Range = tuple["bytes | None", "bytes | None", bool, "int | None"]


@attrs.define
class KnownPart:
    """The known part of a table.

    Args:
        whole: The keys of which everything is known.
        points: Pairs of a key and a user key of which is known whether there is an entry, and which.
        ranges: The arguments of `range` whose answer is known: begin, end, backwards, limit.
        is_every: Whether all keys are known.
        unknown: The number of entries of the key group that are not known, if the call has counted.
    """

    whole: set[Any] = attrs.field(factory=set)
    points: set[tuple[Any, Any]] = attrs.field(factory=set)
    ranges: set[Range] = attrs.field(factory=set)
    is_every: bool = False
    unknown: int = 0


class PartialTables:
    """The tables of one operator, of which only parts are known.

    Args:
        tables: Hold the known entries.
        known: The known part by the name of the table; nothing is known of others.
    """

    def __init__(self, tables: Tables, known: Mapping[str, KnownPart]) -> None:
        self._tables = tables
        self._known = known
        self._made: dict[str, PartialTable] = {}
        self.current: CurrentKey = tables.current
        self.is_persistent = tables.is_persistent

    def table(self, spec: TableSpec) -> Table:
        """Return the table of a state, created at its first use."""
        made = self._made.get(spec.name)
        if made is None:
            part = self._known.get(spec.name) or KnownPart()
            made = self._made[spec.name] = PartialTable(
                self._tables.table(spec), spec.key_of(self.current), part
            )
        return cast(Table, made)


class PartialTable:
    """A table of any shape, which answers what is known.

    Args:
        table: Holds the known entries.
        key: Tells the key to look under, as it tells the table.
        known: Grows by what is written.
    """

    def __init__(self, table: Table, key: TableKey, known: KnownPart) -> None:
        self.spec = table.spec
        self._table = table
        self._key = key
        self._known = known
        # Cleanup passes whatever is known.
        self.sweep, self.sweep_all = table.sweep, table.sweep_all

    def _check(self, user_key: Hashable) -> None:
        key, known = self._key.key, self._known
        if not (known.is_every or key in known.whole or (key, user_key) in known.points):
            raise self._unknown(f"a read of {shown(user_key)}")

    def _check_whole(self) -> None:
        if not (self._known.is_every or self._key.key in self._known.whole):
            raise self._unknown("a read of all of it")

    def _unknown(self, got: str) -> StateAccessError:
        return StateAccessError(
            f"{shown_state(self.spec.name)}: this capsule has only what the call that failed had "
            f"read, since the state of its key is larger than capsule_bytes, got {got}; raise "
            "capsule_bytes of DeadLetters, or restore a savepoint"
        )

    def get(self, user_key: Hashable) -> Entry:
        """Return the entry, or `MISSING`."""
        self._check(user_key)
        return self._table.get(user_key)

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry in place of the former one."""
        self._known.points.add((self._key.key, user_key))
        self._table.put(user_key, entry)

    def delete(self, user_key: Hashable) -> None:
        """Remove an entry; nothing happens where there is none."""
        self._known.points.add((self._key.key, user_key))
        self._table.delete(user_key)

    def append(self, entry: Entry) -> None:
        """Put an entry after the last position."""
        self._table.append(entry)

    def items(self) -> Iterable[tuple[Any, Entry]]:
        """Return the user keys and entries of now, in order."""
        self._check_whole()
        return self._table.items()

    def elements(self) -> Iterable[Entry]:
        """Return the entries of now, in order."""
        self._check_whole()
        return self._table.elements()

    def is_empty(self) -> bool:
        """Return whether there is no entry."""
        self._check_whole()
        return self._table.is_empty()

    def clear(self) -> None:
        """Remove every entry under the current key."""
        self._known.whole.add(self._key.key)
        self._table.clear()

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        """Return the entry or `MISSING` of each user key."""
        for user_key in user_keys:
            self._check(user_key)
        return self._table.multi_get(user_keys)

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        """Store many entries at once; of equal user keys the last one stays."""
        for user_key, entry in items:
            self.put(user_key, entry)

    def range(
        self,
        begin: bytes | None = None,
        end: bytes | None = None,
        *,
        backwards: bool = False,
        limit: int | None = None,
    ) -> Iterable[tuple[bytes, Entry]]:
        """Return user keys and entries by the unsigned order of the keys' bytes."""
        known, asked = self._known, (begin, end, backwards, limit)
        if not (known.is_every or self._key.key in known.whole or asked in known.ranges):
            raise self._unknown(f"a read of the range from {shown(begin)} to {shown(end)}")
        return cast(OrderedTable, self._table).range(begin, end, backwards=backwards, limit=limit)

    def scan(self) -> Iterator[tuple[Hashable, Any, Entry]]:
        """Return every (key, user key, entry) of the key group, whatever the current key is."""
        if not self._known.is_every:
            raise self._unknown("a read of all keys")
        return self._table.scan()

    def count(self) -> int:
        """Count the entries of the key group in this table, the unknown ones, too."""
        return self._table.count() + self._known.unknown

    sweep: Callable[..., int]
    sweep_all: Callable[..., int]
