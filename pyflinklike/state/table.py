# SPDX-License-Identifier: Apache-2.0
"""The table: the only interface between states and backends.

A state is a handful of *entries* under the *current key*.  A `Table` is the view of one state's
entries under that key.  It does not know the meaning of an entry, nor of time.  Above it are the
states, each written once, and TTL, which is a rule for reading an entry.  Below it are the
backends, which are plain maps.  So a new backend needs no code for states or TTL, and a new state
none for backends.

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

Every backend keeps these rules, and `pyflinklike.conformance` checks them:

1. Absence is `MISSING`, never `None`; `None` is data.
2. Entries are immutable values.  A table returns an equal value of the same types.
3. `items`, `elements` and `scan` return the entries at the time of the call; the caller may change
   the table while it iterates.
4. If no key is current, every method raises `StateAccessError`.
5. A `MAP` table iterates in insertion order (heap) or key order (RocksDB); for users, the order is
   unspecified.  A `LIST` table iterates by position.
6. `range` of an ordered table returns the entries at the time of the call, in order.

Changes go to the log as `TableChanges`.  If a table keeps its entries in columns, it gives and
takes `ColumnChanges` instead, which have no object for each entry.
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

RESERVED_PREFIX: Final = "__pyflinklike."
"""Beginning of the names of the runtime's own tables."""

# The kinds of tables whose entries belong to no key.  A savepoint merges and divides them by kind.

REPLICATED: Final = "broadcast"
"""The kind of tables whose entries are the same in every key group."""
LAYOUT: Final = "layout"
"""The kind of tables with one number: the length of a store's segments in the key group, in ms."""


def stream_time_kind(mode: str) -> str:
    """Return the kind of the table in which a store notes its stream time.

    Args:
        mode: The `stream_time` that the store is declared with, such as "watermark".
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
"""Stands for an entry that does not exist.  Falsy, and distinct from `None`, which is data."""


class Shape(Enum):
    """The number of entries that a table keeps under one key."""

    SINGLE = "single"
    MAP = "map"
    LIST = "list"


@attrs.frozen
class Setting:
    """A property beside kind and types that must not change while a query goes on with its state.

    Args:
        name: Name in words, for messages: "the clock of its TTL".
        value: The program's value, in words for messages.
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
    """The declaration of one table, for a backend and the log.

    Args:
        name: Name of its state or store, unique in the operator.
        shape: Arrangement of its entries under a key.
        kind: The kind that the user declared, such as "list", for messages and restore checks.
        value_type: Type of an entry's value, or None if entries are without values.
        user_key_type: Type of the user keys of a `MAP`, else None.
        paired: Whether an entry is `(number, value)` and not the value alone.  The number is a time
            in ms (of the write under a TTL, of the event in a timestamped store), or in an LRU
            store a count of uses.
        ordered: Whether `range` will be called: a `MAP` under user keys of bytes.
        per_group: Whether the entries belong to the key group and not to a key.
        nullable: Whether a value may be None even if its type does not allow it.
        namespace_type: Type of the namespaces of a namespaced table, else None.
        settings: Everything else that must not change, sorted by name.
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
        """Remove an entry; if it is missing, this does nothing."""

    def append(self, entry: Entry) -> None:
        """Put an entry after the last position of a `LIST`."""

    def items(self) -> Iterable[tuple[Any, Entry]]:
        """Return the user keys and entries at this moment, in order."""

    def elements(self) -> Iterable[Entry]:
        """Return the entries at this moment, in order."""

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
        """Return every (key, user key, entry) of the key group; the current key does not matter."""

    def sweep(
        self,
        count: int,
        is_dead: Callable[[Entry], bool],
        any_dead: Callable[[Sequence[Entry]], bool] | None = None,
    ) -> int:
        """Look at the next entries of the key group, and delete those for which `is_dead` is true.

        Each call continues after the last entry of the call before; after the last key, a new pass
        begins.

        Args:
            count: About how many entries to look at; a call does not go beyond the end of a pass.
            is_dead: Returns whether an entry must be deleted.
            any_dead: Returns whether `is_dead` is true for any of these entries, faster than by one
                call each.  A table need not use it.

        Returns:
            The number of entries that were deleted.
        """

    def sweep_all(self, is_dead: Callable[[Entry], bool]) -> int:
        """Delete every entry of the key group for which `is_dead` is true; return their number."""

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
            begin: Lower bound of the user keys, included; None begins at the first.
            end: Upper bound of the user keys, excluded; None goes on to the last.
            backwards: Whether the last entries come first.
            limit: Most entries to return; None returns all.
        """


class Tables(Protocol):
    """The tables of one operator: the part of a backend that states, timers and stores use."""

    current: CurrentKey
    is_persistent: bool
    """Whether working state is on a disk and not in memory."""

    def table(self, spec: TableSpec) -> Table:
        """Return a state's table, created at its first use; if `spec.ordered`, an `OrderedTable`."""


# Changed entries, for the log


@attrs.define
class TableChanges:
    """Final states of the entries of one table that changed, for the log.

    The lists but `cleared` run in parallel.  Keys are cleared first, and entries are put or deleted
    afterwards.

    Args:
        spec: Declaration of the table.
        cleared: Keys whose older entries are all deleted.
        keys: Key of each changed entry.
        user_keys: User key of each changed entry.
        entries: The present entries; `MISSING` for a deleted one.
    """

    spec: TableSpec
    cleared: list[Any] = attrs.field(factory=list)
    keys: list[Any] = attrs.field(factory=list)
    user_keys: list[Any] = attrs.field(factory=list)
    entries: list[Entry] = attrs.field(factory=list)

    def __len__(self) -> int:
        return len(self.cleared) + len(self.keys)


PUT, DELETE, CLEAR = 0, 1, 2
"""The operations on an entry; `CLEAR` is an operation on all entries of a key."""


@attrs.frozen(eq=False)
class ColumnChanges:
    """Final states of the entries of a table that changed; the columns run in parallel.

    Args:
        spec: Declaration of the table.
        keys: An Arrow array of the key type.
        values: An Arrow array of the value type, with a null for each deleted entry.
        user_keys: An Arrow array of the user keys' type, with a null for each cleared key.  None if
            each key has one entry.
        stamps: A NumPy array of int64 in ms if entries are `paired`, else None.
        operations: A NumPy array of int8, or None if all are puts.
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
"""`TableChanges`, or `ColumnChanges` of a table that keeps its entries in columns."""
