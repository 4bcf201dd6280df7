# SPDX-License-Identifier: Apache-2.0
"""The narrow waist: what states ask of a backend, and all that a backend knows.

A state is a handful of *entries* under the *current key*.  A `Table` is the
view of one state's entries under that key; it neither knows what an entry
means nor that there is such a thing as time.  Above it stand the states, each
written once, and TTL, which is a policy on reading an entry.  Below it stand
the backends, which are blind maps.

Three shapes cover every state, so that a backend may store the common one
without a nested map:

* `Shape.SINGLE`: one entry per key, always under the user key `None`
  (value, reducing and aggregating state);
* `Shape.MAP`: entries under user keys (map state, timers);
* `Shape.LIST`: entries under ascending int positions, extended by `append`.

A table can have two more properties.  An *ordered* table is a `MAP` under user keys of
bytes that also answers `range`; a backend need not keep an order before that is called.
The entries of a table *per group* belong to the key group and not to a key: every key of
the group sees them all, and like any others they can be used only while a key is current;
unless they are *replicated*, the same in every key group: those can be used at any time.
Those of a *namespaced* table belong to the pair of the current key and the current namespace,
such as a window: to a backend that pair is the key, and whose key group it is in is decided by
the key alone.

Rules every backend keeps, and `pyflinklike.testing.conformance` checks:

1. Absence is `MISSING`, never `None`; `None` is data.
2. Entries are immutable values and are handed back equal, of the same types.
3. `items`, `elements` and `scan` give what was there when they were called;
   any change while they are read is allowed.
4. Where no key is current, every verb raises `StateAccessError`.
5. A `MAP` table iterates in insertion order (heap) or key order (RocksDB);
   users are told it is unspecified.  A `LIST` table iterates by position.
6. `range` of an ordered table gives what was there when it was called, in order.
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
    "MISSING",
    "REPLICATED",
    "RESERVED_PREFIX",
    "Entry",
    "OrderedTable",
    "Setting",
    "Shape",
    "Table",
    "TableChanges",
    "TableSpec",
    "Tables",
]

RESERVED_PREFIX: Final = "__pyflinklike."
"""Names of the runtime's own tables begin so."""

REPLICATED: Final = "broadcast"
"""The kind of tables whose entries are the same in every key group."""

Entry = Any
"""What a table stores under a user key: any immutable value."""


class _Missing(Enum):
    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing.MISSING
"""There is no entry.  Falsy, and distinct from `None`, which is data."""


class Shape(Enum):
    """How many entries a table keeps under one key."""

    SINGLE = "single"
    MAP = "map"
    LIST = "list"


@attrs.frozen
class Setting:
    """One more thing that must stay as it was while state is gone on from, beyond kind and types.

    Args:
        name: What it is, in words for messages: "the clock of its TTL".
        value: What the program says now, likewise.
        accepts: Other values that a log may have been written with.
        remedy: What else a user can do who wants the other value, for messages.
    """

    name: str
    value: str
    accepts: tuple[str, ...] = attrs.field(default=(), eq=False)
    remedy: str = attrs.field(default="", eq=False)


def _by_name(settings: Iterable[Setting]) -> tuple[Setting, ...]:
    return tuple(sorted(settings, key=lambda each: each.name))


@attrs.frozen
class TableSpec:
    """What a backend and the log must know of one table.

    Args:
        name: Of the state or store it is a table of, unique in its operator.
        shape: How its entries are arranged.
        kind: What the user declared it as, for messages and restore checks.
        value_type: Type of an entry's value, or None where entries carry none.
        user_key_type: Type of the user keys of a `MAP`, else None.
        paired: Whether an entry is `(number, value)` rather than the value.  The number is a time
            in ms (when the entry was written, under a TTL, or the event's, in a timestamped
            store), or in an LRU store a count of uses.
        ordered: Whether `range` is asked of it: a `MAP` under user keys of bytes.
        per_group: Whether its entries belong to the key group and not to a key.
        nullable: Whether a value may be None whatever its type says.
        namespace_type: Type of the namespaces of a namespaced table, else None.
        settings: What else must stay as it was, by name in order.
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
        """Whether its entries are the same in every key group, as broadcast state is."""
        return self.kind == REPLICATED

    def key_of(self, current: CurrentKey) -> TableKey:
        """What tells a table of this spec which key to look under."""
        if self.is_replicated:
            return KeyAtAnyTime()
        if self.per_group:
            return KeyOfGroup(current)
        return current if self.namespace_type is None else NamespacedKey(current)


class Table(Protocol):
    """The entries of one state under the current key."""

    spec: TableSpec

    def get(self, user_key: Hashable) -> Entry:
        """The entry, or `MISSING`."""

    def put(self, user_key: Hashable, entry: Entry) -> None:
        """Store an entry, replacing the one there was."""

    def delete(self, user_key: Hashable) -> None:
        """Remove an entry; nothing happens where there is none."""

    def append(self, entry: Entry) -> None:
        """Put an entry after the last position of a `LIST`."""

    def items(self) -> Iterable[tuple[Any, Entry]]:
        """The user keys and entries there are now, in order."""

    def elements(self) -> Iterable[Entry]:
        """The entries there are now, in order."""

    def is_empty(self) -> bool:
        """Whether there is no entry."""

    def clear(self) -> None:
        """Remove every entry under the current key."""

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        """The entry or `MISSING` for each of the user keys."""

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        """Store many entries at once; of equal user keys the last one stays."""

    # Across keys, for the runtime: cleanup, snapshots, counting, timers.

    def scan(self) -> Iterator[tuple[Hashable, Any, Entry]]:
        """Every (key, user key, entry) of the key group, whatever the current key."""

    def sweep(
        self,
        count: int,
        is_dead: Callable[[Entry], bool],
        any_dead: Callable[[Sequence[Entry]], bool] | None = None,
    ) -> int:
        """Look at the next entries of the key group, and delete those for which `is_dead` is true.

        Each call goes on where the last one stopped; after the last key a pass begins anew.

        Args:
            count: How many entries to look at, about: a call does not go beyond the end of a pass.
            is_dead: Whether an entry shall be deleted.
            any_dead: Whether `is_dead` says so of any of these entries, where that is told
                faster than by asking it for each; a table need not ask.

        Returns:
            How many entries were deleted.
        """

    def sweep_all(self, is_dead: Callable[[Entry], bool]) -> int:
        """Delete every entry of the key group for which `is_dead` is true; the number deleted."""

    def count(self) -> int:
        """How many entries the key group holds in this table."""


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
        """User keys and entries of an ordered table, by the unsigned order of the keys' bytes.

        Args:
            begin: The first user key that may be given; None for the first there is.
            end: The first user key that is too high; None for no end.
            backwards: Whether the last ones come first.
            limit: How many to give at most.
        """


@attrs.define
class TableChanges:
    """Final states of the entries of one table that changed, for the log.

    The lists run in parallel.  A cleared key comes before the entries put under
    it since; an entry that is `MISSING` was deleted.

    Args:
        spec: Whose entries.
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


class Tables(Protocol):
    """The tables of one operator: what states, timers and stores see of a backend."""

    current: CurrentKey
    is_persistent: bool
    """Whether working state lies on a disk rather than in memory."""

    def table(self, spec: TableSpec) -> Table:
        """The table of a state, created at its first use; an `OrderedTable` if its spec says so."""
