# SPDX-License-Identifier: Apache-2.0
"""The default backend: working state in Python dicts, and the key groups that a worker keeps warm.

The warm cache holds working state in a worker process between batches.  It only saves time: working
state in it may be stale, and its nonce says whether it may be used.  A group leaves the cache while a
batch works on it, so if the batch fails half-way, there is nothing to undo.

The cache has a bound of bytes, so each group has a weight, which is an upper bound of its memory.
A sample would not do, because one entry among a million may weigh more than all others.  So a group is
measured as a whole once, and after that each batch adds the weight of what it put (`charge`).  The
weight of what a batch replaces or deletes stays in the sum; if that matters, the cache measures the
group again.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, islice
from sys import getsizeof
from typing import Any, NamedTuple

import attrs
import pyarrow as pa

from pyflinklike._changelog.key_group_state import KeyGroupState, timers_table
from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr
from pyflinklike.backends.heap.dict_tables import HeapTableData
from pyflinklike.backends.heap.ordered_tables import HeapTable, new_table
from pyflinklike.backends.state_backend import KeyedBackend, StateBackend
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Changes, Shape, TableChanges, TableSpec

_DEFAULT_WARM_BYTES = 2 * 1024**3


@attrs.frozen
class HashMapStateBackend(StateBackend):
    """Working state in dicts, as Flink's HashMapStateBackend keeps it on the heap.

    Args:
        max_warm_bytes: The most working state that an executor keeps between micro-batches, in
            bytes; each of its keepers has an equal share.  (On PySpark 3.5, and for a function with
            accumulators, each Python worker may keep as much.)  If not all key groups fit, those
            that are used most often stay, and the others are rebuilt when they get records.  A group counts with an upper bound of its weight, so
            that the limit holds whatever the entries are.  A batch that needs more than this still
            gets it while it runs.

    Raises:
        DeclarationTypeError, DeclarationValueError: `max_warm_bytes` is not an int >= 0.
    """

    max_warm_bytes: int = attrs.field(default=_DEFAULT_WARM_BYTES)

    @max_warm_bytes.validator
    def _check_max_warm_bytes(self, attribute: attrs.Attribute[int], value: int) -> None:
        if not is_int(value):
            msg = f"max_warm_bytes must be an int of bytes, got {short_repr(value)}; for example 256 * 1024**2"
            raise DeclarationTypeError(msg)
        if value < 0:
            msg = (
                f"max_warm_bytes must be at least 0, got {short_repr(value)}; 0 keeps nothing warm"
            )
            raise DeclarationValueError(msg)

    def create_keyed_state_backend(self, current: CurrentKey, owner: str) -> HeapKeyedStateBackend:
        """Create the tables of one operator instance."""
        return HeapKeyedStateBackend(current, owner, self.max_warm_bytes)

    def shared_by(self, processes: int) -> HashMapStateBackend:
        """Return the backend of each of some processes, which share `max_warm_bytes`."""
        return HashMapStateBackend(self.max_warm_bytes // processes)

    def __str__(self) -> str:
        return "HashMapStateBackend"


class HeapKeyedStateBackend(KeyedBackend[HeapTable]):
    """Tables over dicts, pointed at the dicts of one key group at a time.

    Args:
        current: Holds the current key, under which tables look.
        owner: The name of the operator in its query, whose working state this is.
        max_warm_bytes: The bound of the warm cache in bytes, as for `HashMapStateBackend`.
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
        """Return the changes since the last drain, and add their weight."""
        drained = [table.drain() for table in self._tables.values()]
        for changes in drained:
            self._charge(changes)
        return drained

    def apply(self, changes: Any) -> None:
        """Take over restored entries, and add their weight."""
        super().apply(changes)
        self._charge(changes)

    def _charge(self, changes: TableChanges) -> None:
        charge(self._data[changes.spec.name], changes)

    def pop_cached(self, index: int) -> KeyGroupState | None:
        """Return the working state that this process keeps of a key group, and stop keeping it.

        If the state has tables that are not declared now, the result is None: a snapshot would lose
        their entries.  The group is read from the log again, which keeps undeclared states as they
        are.
        """
        state = WARM_GROUPS.take((self.owner, index))
        if state is not None:
            for name, data in state.tables.items():
                if not self._is_declared(name, data):
                    return None
        return state

    def _is_declared(self, name: str, data: Any) -> bool:
        """Return whether the data has no entries, or its table is declared as before."""
        table = self._tables.get(name)
        return not data.entries or (table is not None and table.spec == data.spec)

    def cache(self, state: KeyGroupState) -> None:
        """Keep a key group in this process, within the memory bound."""
        WARM_GROUPS.keep((self.owner, state.index), state, self._max_warm_bytes)


# The warm cache


# A measurement looks at every entry, so it must promise to free at least an eighth of the weight.
_WORTH_MEASURING = 8
_ROUNDS = 2
"""Rounds after which the number of uses of each group is halved.

A worker that gets another partition for some micro-batches adapts within a few rounds.  With 8 rounds
instead of 2, some 2 % more groups of skewed keys were found, but up to 18 % fewer if partitions moved
now and then (`bench/warm_groups.py`).
"""
_HALVINGS = 4
"""After so many halvings, groups without room are weighed again."""
_MOST_COUNTED = 4096
"""The cache counts the uses of at most so many groups that it does not hold."""


class _WarmGroup(NamedTuple):
    group: KeyGroupState
    size: int


class WarmGroups:
    """Key groups by (operator, index), within a bound of bytes.

    Each micro-batch asks for the same groups in the same order.  If they do not all fit, the least
    recently used group is just the one that the next request wants.  So with the usual rule and room
    for two thirds of the groups, the cache would never find one.  Here the groups that are used most
    often stay.  If several groups are used equally often, those that are here already stay.  Uses of
    groups that found no room count, too, and old uses count less.
    """

    def __init__(self) -> None:
        self._groups: dict[Hashable, _WarmGroup] = {}  # the least recently used one first
        self._uses: dict[Hashable, int] = {}
        self._left_out: dict[Hashable, int] = {}
        """The weight of groups that found no room."""
        self._turn = self._halved_at = self._halvings = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def __contains__(self, owner: Hashable) -> bool:
        return owner in self._groups

    def take(self, owner: Hashable) -> KeyGroupState | None:
        """Remove and return a group, if it is here."""
        with self._lock:
            return self._remove(owner)

    def use(self, owner: Hashable) -> KeyGroupState | None:
        """Return a group that stays here, now as the one used last; None if it is not here."""
        with self._lock:
            # A dict keeps its order of insertion: out and in again makes the group the newest one.
            kept = self._groups.pop(owner, None)
            if kept is None:
                return None
            self._groups[owner] = kept
            self._count_use(owner)
            return kept.group

    def keep(self, owner: Hashable, group: KeyGroupState, limit: int) -> None:
        """Put a group back, if it fits in `limit` bytes beside groups that are used as often.

        A limit of 0 keeps nothing.  If a group is too large by itself, no other group is dropped for
        it.
        """
        if self._is_hopeless(owner, limit):
            return
        size = weight_of(group) if limit else 0
        if size > limit and slack(group):
            size = measure(group)
        with self._lock:
            self._remove(owner)
            if not limit:
                return
            self._count_use(owner)
            if size > limit:
                self._left_out[owner] = size
                return
            self._shrink(limit)  # another operator may have a larger bound
            if self._bytes + size > limit:
                size = self._measure(group, size, limit)
            dropped = self._superfluous(owner, self._bytes + size - limit)
            if dropped is None:
                self._left_out[owner] = size
                return
            for each in dropped:
                self._remove(each)
            self._left_out.pop(owner, None)
            self._groups[owner] = _WarmGroup(group, size)
            self._bytes += size

    def has_room(self, owner: Hashable, size: int, limit: int) -> bool:
        """Return whether a group of that weight would stay; if it would not, count a use."""
        with self._lock:
            excess = self._bytes + size - limit
            if size <= limit and self._superfluous(owner, excess, ahead=1) is not None:
                return True
            self._count_use(owner)
            return False

    def shrink(self, limit: int) -> None:
        """Drop groups until all fit in `limit` bytes."""
        with self._lock:
            self._shrink(limit)

    def _shrink(self, limit: int) -> None:
        while self._bytes > limit:
            self._remove(min(self._groups, key=self._uses.__getitem__))

    def _is_hopeless(self, owner: Hashable, limit: int) -> bool:
        """Return whether a group will find no room again, and count its use; then it is not weighed."""
        with self._lock:
            size = self._left_out.get(owner)
            excess = 0 if size is None else self._bytes + size - limit
            if excess <= 0 or self._superfluous(owner, excess, ahead=1) is not None:
                return False
            self._count_use(owner)
            return True

    def _count_use(self, owner: Hashable) -> None:
        uses = self._uses
        uses[owner] = uses.get(owner, 0) + 1
        self._turn += 1
        # Old uses must fade, or a group that was busy yesterday would stay for ever.
        is_long_ago = self._turn - self._halved_at > _ROUNDS * len(uses)
        if is_long_ago or len(uses) > _MOST_COUNTED + _ROUNDS * len(self._groups):
            here = self._groups
            self._uses = {
                each: count // 2 for each, count in uses.items() if count > 1 or each in here
            }
            self._uses.setdefault(owner, 1)
            self._halved_at = self._turn
            self._halvings += 1
            if self._halvings % _HALVINGS == 0:
                self._left_out.clear()

    def _superfluous(
        self, owner: Hashable, excess: int, *, ahead: int = 0
    ) -> list[Hashable] | None:
        """Choose groups to drop for one that comes back; None if they are used more often than it.

        Args:
            owner: The owner of the group that comes back.
            excess: The number of bytes that have to go.
            ahead: The uses of that group that are not counted yet.
        """
        dropped: list[Hashable] = []
        if excess <= 0:
            return dropped
        uses = self._uses
        # A group goes only if it has clearly fewer uses, two thirds at most: the one that comes back
        # is a use ahead of those whose turn comes later.  Also, Spark gives groups to any worker, so
        # some groups stay away from this one for a while.
        most = max(0, (2 * (uses.get(owner, 0) + ahead) - 3) // 3)
        for each in sorted(self._groups, key=uses.__getitem__):
            if uses[each] > most:
                return None
            dropped.append(each)
            excess -= self._groups[each].size
            if excess <= 0:
                return dropped
        return None

    def _remove(self, owner: Hashable) -> KeyGroupState | None:
        kept = self._groups.pop(owner, None)
        if kept is None:
            return None
        self._bytes -= kept.size
        return kept.group

    def _measure(self, group: KeyGroupState, size: int, limit: int) -> int:
        """Measure groups whose real weight may be far below the bound; a rebuild would take longer.

        Returns:
            The weight of the group that comes back.
        """
        if _WORTH_MEASURING * slack(group) > size:
            size = measure(group)
        for each, (kept, former) in self._groups.items():
            if self._bytes + size <= limit:
                break
            if _WORTH_MEASURING * slack(kept) > former:
                now = measure(kept)
                self._groups[each] = _WarmGroup(kept, now)
                self._bytes += now - former
        return size

    def clear(self) -> None:
        """Drop everything, as the loss of the worker would."""
        with self._lock:
            self._groups.clear()
            self._uses.clear()
            self._left_out.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def total_bytes(self) -> int:
        """The weight of all groups, in bytes: an upper bound."""
        return self._bytes


WARM_GROUPS = WarmGroups()
"""The warm cache of this process."""


# The weight of a group: objects are weighed in columns, each in a few passes of C


# These sizes are of CPython with 64 bits, rounded up to the steps of its allocator.
_GROUP = 1024
_NUMBER, _WIDE_NUMBER = 32, 48
"""The bytes of a number of less than 60 bits, and of one of 64 bits."""
_SHORT = 2**60
_ASCII, _BYTES = 49, 33
"""The bytes of an ASCII str and of a bytes object, without their characters."""
_TEXT = 80
"""The bytes of a str that is not ASCII, without its characters."""
_STAMPED = 64 + 32
"""The bytes of the pair of a stamp and a value."""
_PLACE = 64
"""The bytes of an entry's slot in a dict that has just grown."""
_SPARE = 32
"""The bytes of a dict beyond its size, because it consists of several objects."""
_CONTAINER = 240
"""The bytes of a small dict or list."""
_AT_ONCE = 8192  # objects in a chunk, so that a pass needs little memory of its own
_small = frozenset({float, bool, type(None), type(MISSING)})


def weight_of(group: KeyGroupState) -> int:
    """Return an upper bound of a group's bytes; a group that never was measured is measured now."""
    if any(data.weight is None for _, data in _dicts(group)):
        return measure(group)
    columns: int = sum(data.nbytes for data in group.tables.values() if hasattr(data, "nbytes"))
    objects = sum(_total(data) for _, data in _dicts(group))
    # Python's allocator keeps some of its blocks empty: 2 to 4 % of what it was asked for.
    return _GROUP + _count_pending_bytes(group) + columns + objects * 17 // 16


def measure(group: KeyGroupState) -> int:
    """Measure a group by looking at each entry, and return its weight in bytes."""
    for name, data in _dicts(group):
        data.weight = _measure_table(data)
        for domain, agenda in group.timers.items():
            if name == timers_table(domain):
                data.weight += getsizeof(agenda.keys_at) + getsizeof(agenda.times)
                data.weight += _inner(agenda.keys_at.values()) + _NUMBER * len(agenda.keys_at)
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
        # A timer is in its table and in the agenda.
        copies = 2 if spec.kind == "timers" else 1
        places = copies * (_PLACE * len(keys) + _CONTAINER * len(distinct))
        keys = distinct
        if spec.shape is Shape.MAP:
            places += _column(changes.user_keys)
    data.weight += places + _column(keys) + _entries(spec, changes.entries)


def slack(group: KeyGroupState) -> int:
    """Return how many bytes a measurement could take off the weight."""
    return sum((data.weight or 0) - data.measured for _, data in _dicts(group))


def _dicts(group: KeyGroupState) -> Iterator[tuple[str, HeapTableData]]:
    """Yield the tables over dicts, by name; tables of columns know their weight."""
    for name, data in group.tables.items():
        if isinstance(data, HeapTableData):
            yield name, data


def _total(data: HeapTableData) -> int:
    return (data.weight or 0) + getsizeof(data.entries)


def _count_pending_bytes(group: KeyGroupState) -> int:
    return sum(len(each.payload) for sections in group.pending.values() for each in sections)


def _measure_table(data: HeapTableData) -> int:
    """Weigh keys, user keys and entries of a table, without the dict of its keys."""
    spec, entries = data.spec, data.entries
    weight = _column(entries)
    if spec.shape is Shape.SINGLE:
        return weight + _entries(spec, entries.values())
    weight += sum(map(getsizeof, data.sorted.values())) + _inner(entries.values())
    if spec.shape is Shape.LIST:
        return weight + _entries(spec, chain.from_iterable(map(_in_order, entries.values())))
    weight += _column(chain.from_iterable(entries.values()))
    return weight + _entries(spec, chain.from_iterable(map(dict.values, entries.values())))


def _inner(containers: Iterable[Any]) -> int:
    """Weigh dicts or lists without their contents, with room to grow by one entry."""
    return sum(
        max(getsizeof(each) + _SPARE, _PLACE * len(each))
        if type(each) is dict
        else getsizeof(each) * 9 // 8 + _PLACE
        for each in containers
    )


def _in_order(mine: Any) -> Iterable[Any]:
    """Return the entries of a list, which is a dict by position if its entries lie far apart."""
    return mine.values() if type(mine) is dict else mine


def _entries(spec: TableSpec, entries: Iterable[Any]) -> int:
    if spec.value_type is None:
        return 0
    arrow = spec.value_type.arrow_type
    is_number = (
        pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_boolean(arrow)
    )
    if is_number and isinstance(entries, list):
        # No number is larger, so the objects of a batch need not be looked at.
        return len(entries) * (_WIDE_NUMBER + _STAMPED * spec.paired)
    weight = 0
    for chunk in _chunks(entries):
        if spec.paired:
            stored = [entry[1] for entry in chunk if entry is not MISSING]
            weight += _STAMPED * len(stored)
        else:
            stored = chunk
        weight += _numbers(stored) if is_number else _same(stored)
    return weight


def _numbers(objects: list[Any]) -> int:
    """Weigh numbers of at most 64 bits, and the marks that stand for no number."""
    if set(map(type, objects)) == {int} and -_SHORT < min(objects) and max(objects) < _SHORT:
        return _NUMBER * len(objects)
    return _WIDE_NUMBER * len(objects)


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
        if not text.isascii():
            return 4 * len(text) + _TEXT * len(objects)  # a character has at most 4 bytes
        return _weigh_texts(_ASCII, objects)
    if all(issubclass(kind, bytes) for kind in kinds):
        return _weigh_texts(_BYTES, objects)
    if kinds == {int}:
        if -_SHORT < min(objects) and max(objects) < _SHORT:
            return _NUMBER * len(objects)
        return sum(map(int.bit_length, objects)) // 7 + _WIDE_NUMBER * len(objects)
    if kinds <= _small:
        return 32 * len(objects)
    if kinds == {tuple} and len(set(map(len, objects))) == 1:  # pairs of key and namespace
        own = _round(getsizeof(objects[0])) * len(objects)
        return own + sum(_same(list(parts)) for parts in zip(*objects))
    return _any(objects)


def _weigh_texts(own: int, objects: list[Any]) -> int:
    """Weigh texts or bytes as they are allocated: `own` bytes and one for each character."""
    lengths = set(map(len, objects))
    if len(lengths) == 1:
        return len(objects) * _round(own + lengths.pop())
    total = sum(map(len, objects))
    # An object is at most one step larger, and one of more than 512 bytes has 16 bytes more.
    return len(objects) * (own + 15) + total + total // 28


def _round(size: int) -> int:
    """Return the bytes that an object of that size takes: the allocator gives steps of 16 bytes."""
    return (size + 15) // 16 * 16 + (16 if size > 512 else 0)


def _any(objects: list[Any]) -> int:
    """Weigh objects of any kind, with all that they refer to."""
    weight, seen = 0, set[int]()
    while objects:
        weight += sum(map(getsizeof, objects))
        inner = gc.get_referents(*objects)
        # If several entries share an object, it counts for each of them, because after a restart it
        # is several objects.  An object of a cycle counts once.
        seen.update(map(id, objects))
        objects = [each for each in inner if not isinstance(each, type) and id(each) not in seen]
    return weight
