# SPDX-License-Identifier: Apache-2.0
"""The narrow waist: what states ask of a backend, and all that a backend knows.

A state is a handful of *entries* under the *current key*.  A `Table` is the view of one state's
entries under that key; it knows neither what an entry means nor that there is such a thing as time.
Above it stand the states, each written once, and TTL, which is a policy on reading an entry.  Below
it stand the backends, which are blind maps.

Three shapes cover every state, so that a backend may store the common one without a nested map:

* `Shape.SINGLE`: one entry per key, always under the user key `None` (value, reducing and
  aggregating state);
* `Shape.MAP`: entries under user keys (map state, timers);
* `Shape.LIST`: entries under ascending int positions, extended by `append`.

A table may have further properties.  An *ordered* table is a `MAP` under user keys of bytes that
also answers `range`; a backend need not keep an order before the first call.  The entries of a
table *per group* belong to the key group and not to a key: every key of the group sees them all,
and they can be used only while a key is current.  If they are *replicated*, the same in every key
group, they can be used at any time.  The entries of a *namespaced* table belong to the pair of the
current key and the current namespace, such as a window.  To a backend that pair is the key, but the
key group follows from the key alone.

Rules every backend keeps, and `pyflinklike.conformance` checks:

1. Absence is `MISSING`, never `None`; `None` is data.
2. Entries are immutable values and are handed back equal, of the same types.
3. `items`, `elements` and `scan` return the entries of the moment when they were called; any change
   while they are read is allowed.
4. Where no key is current, every verb raises `StateAccessError`.
5. A `MAP` table iterates in insertion order (heap) or key order (RocksDB); users are told that it
   is unspecified.  A `LIST` table iterates by position.
6. `range` of an ordered table returns the entries of the moment when it was called, in order.

The log gets what changed as `TableChanges`.  A table whose entries lie in columns gives and takes
`ColumnChanges` instead, which have no object for each entry.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Protocol

import attrs

from pyflinklike.state.current_key import (
    CurrentKey,
    KeyAtAnyTime,
    KeyOfGroup,
    NamespacedKey,
    TableKey,
)
from pyflinklike.types import TypeInformation

__all__ = [
    "CLEAR",
    "DELETE",
    "LAYOUT",
    "MISSING",
    "PUT",
    "REPLICATED",
    "RESERVED_PREFIX",
    "WATERMARK_TIME",
    "Changes",
    "ColumnChanges",
    "Entry",
    "OrderedTable",
    "Setting",
    "Shape",
    "Table",
    "TableChanges",
    "TableSpec",
    "Tables",
    "stream_time_kind",
]

RESERVED_PREFIX: Final = "__pyflinklike."
"""Beginning of the names of the runtime's own tables."""

# The kinds of tables whose entries no key owns.  A savepoint merges and divides them by their kind.

REPLICATED: Final = "broadcast"
"""The kind of tables whose entries are the same in every key group."""
LAYOUT: Final = "layout"
"""The kind of tables with one number: how long the segments of a store are in the key group."""


def stream_time_kind(mode: str) -> str:
    """Return the kind of the table in which a store notes its stream time.

    Args:
        mode: The store's `stream_time`.
    """
    return f"stream time by {mode}"


WATERMARK_TIME: Final = stream_time_kind("watermark")
"""The kind of tables with one number: the largest watermark that a store has seen."""

Entry = Any
"""The content of a table under a user key: any immutable value."""


class _Missing(Enum):
    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing.MISSING
"""Stands for an entry that is not there.  Falsy, and distinct from `None`, which is data."""


class Shape(Enum):
    """The number of entries that a table keeps under one key."""

    SINGLE = "single"
    MAP = "map"
    LIST = "list"


@attrs.frozen
class Setting:
    """A further thing, beside kind and types, that must stay as it was while state is continued.

    Args:
        name: Name in words, for messages: "the clock of its TTL".
        value: What the program says now, in words for messages.
        accepts: Other values that a log may have been written with.
        remedy: Advice for messages to a user who wants the other value.
    """

    name: str
    value: str
    accepts: tuple[str, ...] = attrs.field(default=(), eq=False)
    remedy: str = attrs.field(default="", eq=False)


def _by_name(settings: Iterable[Setting]) -> tuple[Setting, ...]:
    return tuple(sorted(settings, key=lambda each: each.name))


@attrs.frozen
class TableSpec:
    """The knowledge of a backend and the log about one table.

    Args:
        name: Name of its state or store, unique in the operator.
        shape: Arrangement of its entries.
        kind: What the user declared it as, for messages and restore checks.
        value_type: Type of an entry's value, or None where entries have none.
        user_key_type: Type of the user keys of a `MAP`, else None.
        paired: Whether an entry is `(number, value)` and not the value alone.  The number is a time
            in ms (of the write under a TTL, of the event in a timestamped store), or in an LRU
            store a count of uses.
        ordered: Whether `range` will be called: a `MAP` under user keys of bytes.
        per_group: Whether the entries belong to the key group and not to a key.
        nullable: Whether a value may be None whatever its type says.
        namespace_type: Type of the namespaces of a namespaced table, else None.
        settings: What else must stay as it was, sorted by name.
    """

    name: str
    shape: Shape
    kind: str
    value_type: TypeInformation | None = None
    user_key_type: TypeInformation | None = None
    paired: bool = False
    ordered: bool = False
    per_group: bool = False
    nullable: bool = False
    namespace_type: TypeInformation | None = None
    settings: tuple[Setting, ...] = attrs.field(default=(), converter=_by_name)

    @property
    def is_replicated(self) -> bool:
        """Whether the entries are the same in every key group, as broadcast state is."""
        return self.kind == REPLICATED

    def key_of(self, current: CurrentKey) -> TableKey:
        """Return the object from which a table of this spec reads the key to look under."""
        if self.is_replicated:
            return KeyAtAnyTime()
        if self.per_group:
            return KeyOfGroup(current)
        return current if self.namespace_type is None else NamespacedKey(current)


class Table(Protocol):
    """The entries of one state under the current key."""

    spec: TableSpec

    def get(self, user_key: Hashable) -> Entry:
        """Return the entry, or `MISSING`."""

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry in place of the former one."""

    def delete(self, user_key: Hashable) -> None:
        """Remove an entry; nothing happens where there is none."""

    def append(self, entry: Entry) -> None:
        """Put an entry after the last position of a `LIST`."""

    def items(self) -> Iterable[tuple[Any, Entry]]:
        """Return the user keys and entries of now, in order."""

    def elements(self) -> Iterable[Entry]:
        """Return the entries of now, in order."""

    def is_empty(self) -> bool:
        """Return whether there is no entry."""

    def clear(self) -> None:
        """Remove every entry under the current key."""

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        """Return the entry or `MISSING` of each user key."""

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        """Store many entries at once; of equal user keys the last one stays."""

    # Across keys, for the runtime: cleanup, snapshots, counting, timers.

    def scan(self) -> Iterator[tuple[Hashable, Any, Entry]]:
        """Return every (key, user key, entry) of the key group, whatever the current key is."""

    def sweep(
        self,
        count: int,
        is_dead: Callable[[Entry], bool],
        any_dead: Callable[[Sequence[Entry]], bool] | None = None,
    ) -> int:
        """Look at the next entries of the key group, and delete those for which `is_dead` is true.

        Each call goes on where the last one stopped; after the last key a pass begins anew.

        Args:
            count: About how many entries to look at; a call does not go beyond the end of a pass.
            is_dead: Returns whether an entry must be deleted.
            any_dead: Returns whether `is_dead` is true of any of these entries, if that can be told
                faster than by asking for each; a table need not ask.

        Returns:
            The number of entries that were deleted.
        """

    def sweep_all(self, is_dead: Callable[[Entry], bool]) -> int:
        """Delete every entry of the key group for which `is_dead` is true, and return how many."""

    def count(self) -> int:
        """Count the entries of the key group in this table."""


class OrderedTable(Table, Protocol):
    """A table whose spec says `ordered`."""

    def range(
        self,
        begin: bytes | None = None,
        end: bytes | None = None,
        *,
        backwards: bool = False,
        limit: int | None = None,
    ) -> Iterable[tuple[bytes, Entry]]:
        """Return user keys and entries by the unsigned order of the keys' bytes.

        Args:
            begin: Lower bound of the user keys, included; None for the first there is.
            end: Upper bound, excluded; None for no end.
            backwards: Whether the last ones come first.
            limit: Most entries to return; None for all.
        """


class Tables(Protocol):
    """The tables of one operator: the part of a backend that states, timers and stores use."""

    current: CurrentKey
    is_persistent: bool
    """Whether working state lies on a disk and not in memory."""

    def table(self, spec: TableSpec) -> Table:
        """Return a state's table, created at its first use; an `OrderedTable` if its spec says so."""


# Changed entries, for the log


@attrs.define
class TableChanges:
    """Final states of the entries of one table that changed, for the log.

    The lists run in parallel.  A cleared key comes before the entries put under
    it since; an entry that is `MISSING` was deleted.

    Args:
        spec: Declaration of the table.
        cleared: Keys of which all older entries are gone.
        keys: Key of each changed entry.
        user_keys: User key of each changed entry.
        entries: What is stored now, or `MISSING`.
    """

    spec: TableSpec
    cleared: list[Any] = attrs.field(factory=list)
    keys: list[Any] = attrs.field(factory=list)
    user_keys: list[Any] = attrs.field(factory=list)
    entries: list[Entry] = attrs.field(factory=list)

    def __len__(self) -> int:
        return len(self.cleared) + len(self.keys)


PUT, DELETE, CLEAR = 0, 1, 2
"""The operations on an entry; `CLEAR` is one on all entries of a key."""


@attrs.frozen(eq=False)
class ColumnChanges:
    """Final states of the entries of a table that changed; the columns run in parallel.

    Args:
        spec: Declaration of the table.
        keys: An Arrow array of the key type.
        values: An Arrow array of the value type, null where the entry was deleted.
        user_keys: An Arrow array of the user keys' type, null where a key is cleared; None where
            there is one entry per key.
        stamps: A NumPy array of int64 in ms where entries are `paired`, else None.
        operations: A NumPy array of int8, or None where all were put.
    """

    spec: TableSpec
    keys: Any
    values: Any
    user_keys: Any = attrs.field(default=None, kw_only=True)
    stamps: Any = None
    operations: Any = None

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, mask: Any) -> ColumnChanges:
        """Return the changes for which a NumPy array of bools is true."""
        (rows,) = mask.nonzero()
        return attrs.evolve(
            self,
            keys=self.keys.take(rows),
            values=self.values.take(rows),
            user_keys=None if self.user_keys is None else self.user_keys.take(rows),
            stamps=None if self.stamps is None else self.stamps[rows],
            operations=None if self.operations is None else self.operations[rows],
        )


Changes = Any
"""`TableChanges`, or `ColumnChanges` of a table whose entries lie in columns."""
