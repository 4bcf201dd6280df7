# SPDX-License-Identifier: Apache-2.0
"""The weight of a heap group's working state in memory: an upper bound.

A sample would not do: one entry among a million may weigh more than all others.  So a group is
measured as a whole once, and from then on each batch adds what it put (`charge`).  What a batch
replaced or deleted is not taken off, so the sum is an upper bound; the cache has a group measured
again when that matters.

Objects are weighed by columns (keys, user keys, values), each in a few passes of C.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from pyflinklike.backends.heap.data import HeapTableData
from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.agenda import timers_table
from pyflinklike.state.table import MISSING, Shape, TableChanges, TableSpec

__all__ = ["charge", "measured", "slack", "weight_of"]

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
        return measured(group)
    columns: int = sum(data.nbytes for data in group.tables.values() if hasattr(data, "nbytes"))
    return _GROUP + _pending(group) + columns + sum(_total(data) for _, data in _dicts(group))


def measured(group: WorkingState) -> int:
    """Measure a group by a look at each entry, and return its weight in bytes."""
    for name, data in _dicts(group):
        data.weight = _measured(data)
        for domain, agenda in group.timers.items():
            if name == timers_table(domain):
                data.weight += sys.getsizeof(agenda.keys_at) + sys.getsizeof(agenda.times)
                data.weight += _inner(agenda.keys_at.values()) + _FIXED * len(agenda.keys_at)
        data.measured = data.weight
    return weight_of(group)


def slack(group: WorkingState) -> int:
    """Return how many bytes a measurement may take off."""
    return sum((data.weight or 0) - data.measured for _, data in _dicts(group))


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


def _dicts(group: WorkingState) -> Iterator[tuple[str, HeapTableData]]:
    """Yield the tables over dicts, by name; columns tell their weight themselves."""
    for name, data in group.tables.items():
        if isinstance(data, HeapTableData):
            yield name, data


def _total(data: HeapTableData) -> int:
    return (data.weight or 0) + sys.getsizeof(data.entries)


def _pending(group: WorkingState) -> int:
    return sum(len(each.payload) for sections in group.pending.values() for each in sections)


def _measured(data: HeapTableData) -> int:
    """Weigh keys, user keys and entries of a table, without the dict of its keys."""
    spec, entries = data.spec, data.entries
    weight = _column(entries)
    if spec.shape is Shape.SINGLE:
        return weight + _entries(spec, entries.values())
    weight += sum(map(sys.getsizeof, data.sorted.values())) + _CONTAINER * len(entries)
    weight += _inner(entries.values())
    if spec.shape is Shape.LIST:
        return weight + _entries(spec, chain.from_iterable(map(_in_order, entries.values())))
    weight += _column(chain.from_iterable(entries.values()))
    return weight + _entries(spec, chain.from_iterable(map(dict.values, entries.values())))


def _inner(containers: Iterable[Any]) -> int:
    """Weigh dicts or lists without their contents, with room for the growth by one entry."""
    return sum(max(sys.getsizeof(each), _PLACE * len(each)) for each in containers)


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
        own = sys.getsizeof(objects[0]) * len(objects)
        return own + sum(_same(list(parts)) for parts in zip(*objects))
    return _any(objects)


def _any(objects: list[Any]) -> int:
    """Weigh objects of any kind, with all that they refer to."""
    weight, seen = 0, set[int]()
    while objects:
        weight += sum(map(sys.getsizeof, objects))
        inner = gc.get_referents(*objects)
        # An object that several entries share counts for each of them: after a restart it is
        # several. An object of a cycle counts once.
        seen.update(map(id, objects))
        objects = [each for each in inner if not isinstance(each, type) and id(each) not in seen]
    return weight
