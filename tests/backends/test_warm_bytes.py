# SPDX-License-Identifier: Apache-2.0
"""What the warm cache thinks a group weighs: never less than it does, whatever is put into it."""

from __future__ import annotations

import sys

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.backends.heap.heap_backend import (
    HashMapStateBackend,
    WarmGroups,
    measure,
    slack,
    weight_of,
)
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.types import Types

TEXT, ANY = Types.STRING(), Types.PICKLED_BYTE_ARRAY()
SPECS = [
    TableSpec("numbers", Shape.SINGLE, "value", Types.LONG()),
    TableSpec("value", Shape.SINGLE, "value", TEXT),
    TableSpec("stamped", Shape.SINGLE, "value", ANY, paired=True),
    TableSpec("map", Shape.MAP, "map", TEXT, TEXT),
    TableSpec("of numbers", Shape.MAP, "map", Types.LONG(), TEXT),
    TableSpec("list", Shape.LIST, "list", TEXT, paired=True),
]

sizes = st.sampled_from([0, 1, 10, 3_000, 50_000])
letters = st.sampled_from("a\xe9\u20ac\U0001f600")
texts = st.builds(lambda letter, size: letter + "x" * size, letters, sizes)
values = {
    "numbers": st.integers(-(2**63), 2**63 - 1),
    "value": texts,
    "stamped": texts | st.integers() | st.tuples(st.integers(), st.tuples(texts, st.none())),
    "map": texts,
    "of numbers": st.integers(-(2**63), 2**63 - 1),
    "list": texts,
}
keys = st.builds(lambda number, size: f"{number}" + "k" * size, st.integers(0, 9), sizes)
puts = st.sampled_from(SPECS).flatmap(
    lambda spec: st.tuples(
        st.just(spec.name), keys, keys, st.integers(1, 30), values[spec.name], st.booleans()
    )
)
batches = st.lists(st.lists(puts, max_size=8), max_size=6)


class Working:
    """A heap backend in one key group."""

    def __init__(self):
        self.backend = HashMapStateBackend().create_keyed_state_backend(CurrentKey(), "weighed")
        self.tables = {spec.name: self.backend.table(spec) for spec in SPECS}
        self.group = KeyGroupState(0)
        self.backend.enter(0, self.group.tables)

    def put(self, name, key, user_key, count, value, deletes=False):
        """So many entries under a key, or none any more."""
        spec, table = self.tables[name].spec, self.tables[name]
        self.backend.current.key = key
        entry = (2**40, value) if spec.paired else value
        if deletes:
            table.clear()
            return
        for at in range(count):
            if spec.shape is Shape.LIST:
                table.append(entry)
            elif spec.shape is Shape.MAP:
                table.put(f"{user_key}{at}", entry)
            else:
                table.put(None, entry)


def deep_size(found, seen):
    """Bytes of an object and of all in it, each object once."""
    if id(found) in seen:
        return 0
    seen.add(id(found))
    size = sys.getsizeof(found)
    if isinstance(found, dict):
        return size + sum(deep_size(each, seen) for item in found.items() for each in item)
    if isinstance(found, (list, tuple)):
        return size + sum(deep_size(each, seen) for each in found)
    if attrs.has(type(found)):
        return size + deep_size(attrs.astuple(found, recurse=False), seen)
    return size


def real_weight(group):
    """Of all entries of a group."""
    seen = set()
    return sum(deep_size(data.entries, seen) for data in group.tables.values())


@given(batches)
def test_no_group_weighs_more_than_it_is_thought_to(batches):
    """Through puts, replacements and deletions, of keys, user keys and values of any size."""
    working = Working()
    for batch in batches:
        for put in batch:
            working.put(*put)
        working.backend.drain()
        thought = weight_of(working.group)

        assert real_weight(working.group) <= thought


@given(batches)
def test_a_group_that_is_measured_weighs_about_what_it_does(batches):
    """A text that is not ASCII may count four times, and what several entries share once for each."""
    working = Working()
    for batch in batches:
        for put in batch:
            working.put(*put)
    working.backend.drain()
    thought = measure(working.group)
    entries = sum(table.count() for table in working.tables.values())
    letters = sum(len(str(part)) for each in working.backend.contents() for part in _parts(each))

    most = (4_096 + 700 * entries + 4 * letters) * 17 // 16
    assert (0, True) == (slack(working.group), thought <= most)


def _parts(changes):
    return [*set(changes.keys), *changes.user_keys, *changes.entries]


def test_one_large_entry_among_many_small_ones_counts():
    """Wherever it lies."""
    working = Working()
    for at in range(1_000):
        working.put("value", f"{at:04}", "", 1, "x")
    working.backend.drain()
    before = weight_of(working.group)
    working.put("value", "0777", "", 1, "x" * 10**6)
    working.backend.drain()

    assert 10**6 < weight_of(working.group) - before < 1.1 * 10**6


@pytest.mark.parametrize("name", ["numbers", "map", "list"])
def test_a_batch_costs_what_it_changes(name):
    """A large group is not measured again for it."""
    working = Working()
    for each in ("map", "list"):
        working.put(each, "hot", "u", 20_000, "x")
    working.backend.drain()
    first = weight_of(working.group)
    for at in range(3):
        working.put(name, "hot", f"new {at}", 1, 1 if name == "numbers" else "y")
        working.backend.drain()

    assert 0 < slack(working.group) <= weight_of(working.group) - first < 3_000


def test_what_was_replaced_is_taken_off_before_a_group_is_dropped():
    """A group written over and over again is kept, as long as what it is now fits."""
    working, warm = Working(), WarmGroups()
    for _ in range(50):
        working.put("value", "k", "", 1, "x" * 100_000)
        working.backend.drain()
        warm.keep("a", working.group, 500_000)

        assert warm.total_bytes <= 500_000
        assert working.group is warm.take("a")


def test_others_are_measured_before_one_is_dropped():
    """The one that was kept first and has shrunk since makes room for the next one."""
    warm, shrunk, next_one = WarmGroups(), Working(), Working()
    shrunk.put("value", "k", "", 1, "x" * 100)
    weight_of(shrunk.group)
    for _ in range(3):
        shrunk.put("value", "k", "", 1, "x" * 100_000)
        shrunk.backend.drain()
    next_one.put("value", "k", "", 1, "x" * 100_000)
    warm.keep("a", shrunk.group, 320_000)
    warm.keep("b", next_one.group, 320_000)

    assert (shrunk.group, next_one.group) == (warm.take("a"), warm.take("b"))
