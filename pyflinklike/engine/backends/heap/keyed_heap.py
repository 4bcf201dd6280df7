# SPDX-License-Identifier: Apache-2.0
"""The tables of one operator over dicts, and the key groups that a worker keeps warm.

The warm cache holds working state in a worker process between batches.  It is only an optimisation:
working state in it may be stale, and its nonce decides whether it may be used.  A group is taken
out while it is worked on, so that after a batch that failed half-way there is nothing to undo.

The cache has a bound of bytes, so each group has a weight, which is an upper bound of its memory.
A sample would not do: one entry among a million may weigh more than all others.  So a group is
measured as a whole once, and from then on each batch adds what it put (`charge`).  What a batch
replaced or deleted is not taken off; the cache has a group measured again when that matters.
"""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, islice
from sys import getsizeof
from typing import Any, NamedTuple

import pyarrow as pa

from pyflinklike.engine.backends.heap.dict_tables import HeapTableData
from pyflinklike.engine.backends.heap.ordered_table import HeapTable, new_table
from pyflinklike.engine.backends.state_backend import KeyedBackend
from pyflinklike.engine.log.working_state import WorkingState
from pyflinklike.engine.state.current_key import CurrentKey
from pyflinklike.engine.state.table import MISSING, Changes, Shape, TableChanges, TableSpec
from pyflinklike.engine.state.timer_agenda import timers_table

__all__ = [
    "WARM_GROUPS",
    "HeapKeyedStateBackend",
    "WarmGroups",
    "measure",
    "slack",
    "weight_of",
]


class HeapKeyedStateBackend(KeyedBackend[HeapTable]):
    """Tables over dicts, pointed at the dicts of one key group at a time.

    Args:
        current: Tells the tables the current key.
        owner: Names the operator of one query, whose working state this is.
        max_warm_bytes: As of `HashMapStateBackend`.
    """

    def __init__(self, current: CurrentKey, owner: str, max_warm_bytes: int) -> None:
        super().__init__(current, owner)
        self._max_warm_bytes = max_warm_bytes

    def new_table(self, spec: TableSpec) -> HeapTable:
        """Create a table over dicts."""
        return new_table(spec, self.current)

    def new_data(self, spec: TableSpec) -> HeapTableData:
        """Create dicts without entries."""
        return HeapTableData(spec)

    def point(self, table: HeapTable, index: int, data: HeapTableData) -> None:
        """Turn a table to the dicts of a key group."""
        table.point_at(data)

    def drain(self) -> Sequence[Changes]:
        """Return what changed since the last drain, and weigh it."""
        drained = [table.drain() for table in self._tables.values()]
        for changes in drained:
            self._charge(changes)
        return drained

    def apply(self, changes: Any) -> None:
        """Take over restored entries, and weigh them."""
        super().apply(changes)
        self._charge(changes)

    def _charge(self, changes: TableChanges) -> None:
        charge(self._data[changes.spec.name], changes)

    def take_warm(self, index: int) -> WorkingState | None:
        """Return the working state that this process keeps of a key group, and keep it no more.

        It is None where the state has tables that are not declared now: a snapshot would lose their
        entries.  Such a group is read from the log again, which keeps undeclared states as they
        are.
        """
        state = WARM_GROUPS.take((self.owner, index))
        if state is not None:
            for name, data in state.tables.items():
                if not self._is_declared(name, data):
                    return None
        return state

    def _is_declared(self, name: str, data: Any) -> bool:
        """Return whether the data has no entries, or its table is declared as it was."""
        table = self._tables.get(name)
        return not data.entries or (table is not None and table.spec == data.spec)

    def keep_warm(self, state: WorkingState) -> None:
        """Keep a key group in this process, within the memory bound."""
        WARM_GROUPS.keep((self.owner, state.index), state, self._max_warm_bytes)


# The warm cache


_WORTH_MEASURING = 8
_ROUNDS = 8
"""Rounds, of as many turns as groups are kept, after which a group that nobody asked for may go.

Spark gives a group to any worker, so a group may stay away from this one for some rounds.
"""


class _WarmGroup(NamedTuple):
    group: WorkingState
    size: int
    turn: int


class WarmGroups:
    """Key groups by (operator, index), within a bound of bytes.

    Args:
        in_rounds: Whether the groups are asked for in turn.  If they do not all fit, the group kept
            last is dropped then, else the least recently used one.
    """

    def __init__(self, *, in_rounds: bool = False) -> None:
        self._groups: OrderedDict[Hashable, _WarmGroup] = OrderedDict()
        self._in_rounds, self._turn = in_rounds, 0
        self._bytes = 0
        self._lock = threading.Lock()

    def take(self, owner: Hashable) -> WorkingState | None:
        """Remove and return a group, if it is here."""
        with self._lock:
            return self._remove(owner)

    def use(self, owner: Hashable) -> WorkingState | None:
        """Return a group that stays here, now as the one used last; None if it is not here."""
        with self._lock:
            if owner not in self._groups:
                return None
            self._groups.move_to_end(owner)
            return self._groups[owner].group

    def keep(self, owner: Hashable, group: WorkingState, limit: int) -> None:
        """Put a group back, and drop groups until all fit in `limit` bytes; 0 keeps nothing.

        A group that does not fit by itself is dropped at once, and no other for it.
        """
        size = weight_of(group) if limit else 0
        if size > limit:
            size = measure(group)
        with self._lock:
            self._remove(owner)
            if not limit or size > limit:
                return
            self._turn += 1
            self._groups[owner] = _WarmGroup(group, size, self._turn)
            self._bytes += size
            if self._bytes > limit:
                self._measure(limit)
            while self._bytes > limit:
                self._remove(self._superfluous())

    def _superfluous(self) -> Hashable:
        """Choose the group to drop."""
        # Each micro-batch asks for the same groups in the same order, so the least recently used
        # group is just the one asked for next: with room for two thirds of the groups nothing was
        # ever found.
        least_recent, kept = next(iter(self._groups.items()))
        if not self._in_rounds or self._turn - kept.turn > _ROUNDS * len(self._groups):
            return least_recent
        return next(reversed(self._groups))

    def _remove(self, owner: Hashable) -> WorkingState | None:
        kept = self._groups.pop(owner, None)
        if kept is None:
            return None
        self._bytes -= kept.size
        return kept.group

    def _measure(self, limit: int) -> None:
        """Measure groups that may weigh less than their bound: a rebuild would take longer."""
        for owner, (group, size, turn) in self._groups.items():
            if self._bytes <= limit:
                return
            if _WORTH_MEASURING * slack(group) > size:
                now = measure(group)
                self._groups[owner] = _WarmGroup(group, now, turn)
                self._bytes += now - size

    def clear(self) -> None:
        """Drop everything, as the loss of the worker would."""
        with self._lock:
            self._groups.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def total_bytes(self) -> int:
        """The weight of all groups, in bytes: an upper bound."""
        return self._bytes


WARM_GROUPS = WarmGroups(in_rounds=True)
"""The warm cache of this process."""


# The weight of a group: objects are weighed by columns, each in a few passes of C


_GROUP = 1024
_FIXED = 56
"""A number of 64 bits, at most, in bytes."""
_TEXT = 80
"""A str or bytes without its characters, in bytes."""
_STAMPED = 56 + 32
"""The pair of a stamp and a value, in bytes."""
_PLACE = 64
"""The slot of an entry in a dict that has just grown, in bytes."""
_CONTAINER = 240
"""A small dict or list, and everything else kept of a key, in bytes."""
_AT_ONCE = 8192
_small = frozenset({float, bool, type(None), type(MISSING)})


def weight_of(group: WorkingState) -> int:
    """Return the most that a group weighs, in bytes; it is measured if it never was."""
    if any(data.weight is None for _, data in _dicts(group)):
        return measure(group)
    columns: int = sum(data.nbytes for data in group.tables.values() if hasattr(data, "nbytes"))
    return (
        _GROUP
        + _count_pending_bytes(group)
        + columns
        + sum(_total(data) for _, data in _dicts(group))
    )


def measure(group: WorkingState) -> int:
    """Measure a group by a look at each entry, and return its weight in bytes."""
    for name, data in _dicts(group):
        data.weight = _measure_table(data)
        for domain, agenda in group.timers.items():
            if name == timers_table(domain):
                data.weight += getsizeof(agenda.keys_at) + getsizeof(agenda.times)
                data.weight += _inner(agenda.keys_at.values()) + _FIXED * len(agenda.keys_at)
        data.measured = data.weight
    return weight_of(group)


def charge(data: HeapTableData, changes: TableChanges) -> None:
    """Add the weight of what was put since the last charge."""
    if data.weight is None or not changes.keys:
        return
    spec, keys = data.spec, changes.keys
    places = 0
    if spec.shape is not Shape.SINGLE:
        distinct = list(set(keys))
        # A timer lies in its table and in the agenda.
        copies = 2 if spec.kind == "timers" else 1
        places = copies * (_PLACE * len(keys) + _CONTAINER * len(distinct))
        keys = distinct
        if spec.shape is Shape.MAP:
            places += _column(changes.user_keys)
    data.weight += places + _column(keys) + _entries(spec, changes.entries)


def slack(group: WorkingState) -> int:
    """Return how many bytes a measurement may take off."""
    return sum((data.weight or 0) - data.measured for _, data in _dicts(group))


def _dicts(group: WorkingState) -> Iterator[tuple[str, HeapTableData]]:
    """Yield the tables over dicts, by name; columns tell their weight themselves."""
    for name, data in group.tables.items():
        if isinstance(data, HeapTableData):
            yield name, data


def _total(data: HeapTableData) -> int:
    return (data.weight or 0) + getsizeof(data.entries)


def _count_pending_bytes(group: WorkingState) -> int:
    return sum(len(each.payload) for sections in group.pending.values() for each in sections)


def _measure_table(data: HeapTableData) -> int:
    """Weigh keys, user keys and entries of a table, without the dict of its keys."""
    spec, entries = data.spec, data.entries
    weight = _column(entries)
    if spec.shape is Shape.SINGLE:
        return weight + _entries(spec, entries.values())
    weight += sum(map(getsizeof, data.sorted.values())) + _CONTAINER * len(entries)
    weight += _inner(entries.values())
    if spec.shape is Shape.LIST:
        return weight + _entries(spec, chain.from_iterable(map(_in_order, entries.values())))
    weight += _column(chain.from_iterable(entries.values()))
    return weight + _entries(spec, chain.from_iterable(map(dict.values, entries.values())))


def _inner(containers: Iterable[Any]) -> int:
    """Weigh dicts or lists without their contents, with room for the growth by one entry."""
    return sum(max(getsizeof(each), _PLACE * len(each)) for each in containers)


def _in_order(mine: Any) -> Iterable[Any]:
    """Return the entries of a list, which is a dict by position where they lie far apart."""
    return mine.values() if type(mine) is dict else mine


def _entries(spec: TableSpec, entries: Iterable[Any]) -> int:
    if spec.value_type is None:
        return 0
    arrow = spec.value_type.arrow_type
    is_fixed = (
        # Numbers have one size at most: their objects need not be looked at.
        pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_boolean(arrow)
    )
    if is_fixed and isinstance(entries, list):
        return len(entries) * (_FIXED + _STAMPED * spec.paired)
    weight = 0
    for chunk in _chunks(entries):
        if spec.paired:
            stored = [entry[1] for entry in chunk if entry is not MISSING]
            weight += _STAMPED * len(stored)
        else:
            stored = chunk
        weight += _FIXED * len(stored) if is_fixed else _same(stored)
    return weight


def _column(objects: Iterable[Hashable]) -> int:
    return sum(map(_same, _chunks(objects)))


def _chunks(objects: Iterable[Any]) -> Iterator[list[Any]]:
    read = iter(objects)
    while chunk := list(islice(read, _AT_ONCE)):
        yield chunk


def _same(objects: list[Any]) -> int:
    """Weigh objects that are mostly of one kind, many times as fast as `getsizeof` would."""
    kinds = set(map(type, objects))
    if kinds == {str}:
        text = "".join(objects)
        return len(text) * (1 if text.isascii() else 4) + _TEXT * len(objects)  # at most 4
    if all(issubclass(kind, bytes) for kind in kinds):
        return sum(map(len, objects)) + _TEXT * len(objects)
    if kinds == {int}:
        return sum(map(int.bit_length, objects)) // 7 + 32 * len(objects)
    if kinds <= _small:
        return 32 * len(objects)
    if kinds == {tuple} and len(set(map(len, objects))) == 1:  # pairs of key and namespace
        own = getsizeof(objects[0]) * len(objects)
        return own + sum(_same(list(parts)) for parts in zip(*objects))
    return _any(objects)


def _any(objects: list[Any]) -> int:
    """Weigh objects of any kind, with all that they refer to."""
    weight, seen = 0, set[int]()
    while objects:
        weight += sum(map(getsizeof, objects))
        inner = gc.get_referents(*objects)
        # An object that several entries share counts for each of them: after a restart it is
        # several. An object of a cycle counts once.
        seen.update(map(id, objects))
        objects = [each for each in inner if not isinstance(each, type) and id(each) not in seen]
    return weight
