# SPDX-License-Identifier: Apache-2.0
"""The data of a heap table in one key group.

It is the working state of one table: it outlives the micro-batch in the worker's warm cache.
`SingleTable`, `ManyTable` and `HeapListTable` are views of it, which a function's states hold;
pointing a view at another key group is one assignment.

Changes are remembered as the set of entries touched, not as a list of operations: an entry updated
a thousand times in a batch is logged once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from pyflinklike.state.table import Entry, TableSpec

__all__ = ["HeapTableData", "any_by", "found"]


@attrs.define
class HeapTableData:
    """Entries of one table in one key group, and what changed since the last commit.

    Args:
        spec: Declaration of the table when the entries were put.
        entries: Key to entry (`SINGLE`), to user key to entry (`MAP`), or to a list.
        dirty: Changed keys (`SINGLE`, as a dict without values), key to the changed user keys with
            the entry of each now, `MISSING` if it was deleted (`MAP`), or key to the positions put
            or deleted (`LIST`, as a dict without values).
        reborn: Key to the user keys that were deleted and then put again, each with `MISSING`.
        cleared: Keys cleared as a whole.
        size: Number of entries of a table with user keys.
        cursor: The keys that the running sweep has not reached yet.
        resting: Where the sweep stopped within a key, if it did: the key, and its user keys that
            are left (`MAP`) or the next position (`LIST`).
        sorted: Key to its user keys in order, where a range was asked for (ordered tables).
        appended: Key to the position from which on everything is new since the last commit (lists).
        starts: Key to the position of the first entry in its list; 0 if the key is not here.
        gaps: Key to the number of gaps in its list, where there are any.
        weight: Most bytes that `entries` take; None if they were never measured.
        measured: `weight` when it was last measured as a whole.
    """

    spec: TableSpec
    entries: dict[Any, Any] = attrs.field(factory=dict)
    dirty: dict[Any, Any] = attrs.field(factory=dict)
    reborn: dict[Any, dict[Any, Any]] = attrs.field(factory=dict)
    cleared: dict[Any, None] = attrs.field(factory=dict)
    size: int = 0
    cursor: Iterator[Any] = attrs.field(factory=lambda: iter(()))
    resting: tuple[Any, Any] | None = None
    sorted: dict[Any, list[bytes]] = attrs.field(factory=dict)
    appended: dict[Any, int] = attrs.field(factory=dict)
    starts: dict[Any, int] = attrs.field(factory=dict)
    gaps: dict[Any, int] = attrs.field(factory=dict)
    weight: int | None = None
    measured: int = 0


def any_by(is_dead: Callable[[Entry], bool]) -> Callable[[Sequence[Entry]], bool]:
    """Return a function that tells whether any entry is dead by asking for each."""
    return lambda entries: any(map(is_dead, entries))


def found(entries: dict[Any, Any], keys: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the keys that are there, and the entries under them."""
    # As a rule all keys are there: one pass of C, and a search only if one is not.
    try:
        return keys, list(map(entries.__getitem__, keys))
    except KeyError:
        keys = [key for key in keys if key in entries]
        return keys, [entries[key] for key in keys]
