# SPDX-License-Identifier: Apache-2.0
"""Incremental cleanup on the heap: what a step looks at, and that everything is reached."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import StateTtlConfig
from pyflinklike._clock import Clock
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend, HeapKeyedStateBackend
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Shape, Table, TableSpec
from pyflinklike.state.ttl_table import TtlTable
from pyflinklike.types import Types

SPECS = {
    "single": TableSpec("single", Shape.SINGLE, "value", Types.LONG(), paired=True),
    "map": TableSpec("map", Shape.MAP, "map", Types.LONG(), Types.LONG(), paired=True),
    "list": TableSpec("list", Shape.LIST, "list", Types.LONG(), paired=True),
    "ordered": TableSpec(
        "ordered", Shape.MAP, "store", Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE()), True, True
    ),
}
MANY = ["map", "list", "ordered"]


@attrs.define
class Heap:
    """One table of the heap backend."""

    spec: TableSpec
    backend: HeapKeyedStateBackend
    table: Table
    number: int = 0

    @classmethod
    def of(cls, shape: str) -> Heap:
        """An empty one, under the key "k"."""
        backend = HashMapStateBackend().create_keyed_state_backend(CurrentKey("k"), "tested")
        return cls(SPECS[shape], backend, backend.table(SPECS[shape]))

    def user_key(self, number: int) -> Any:
        """A user key of this shape."""
        return number.to_bytes(4, "big") if self.spec.ordered else number

    def add(self, table: Any, entries: list[Any]) -> None:
        """Entries under new user keys, or at the end, or in place of the one."""
        for entry in entries:
            self.number += 1
            if self.spec.shape is Shape.LIST:
                table.append(entry)
            else:
                table.put(self.user_key(self.number), entry)


class Looking:
    """Counts the entries that a sweep asks about."""

    def __init__(self, dead: Any = lambda _: False) -> None:
        self.seen: list[Any] = []
        self.dead = dead

    def __call__(self, entry: Any) -> bool:
        self.seen.append(entry)
        return bool(self.dead(entry))


def new(first: int, count: int) -> list[tuple[int, int]]:
    """Entries that differ."""
    return [(0, first + each) for each in range(count)]


@pytest.mark.parametrize("shape", MANY)
def test_a_sweep_looks_at_no_more_entries_of_a_key_than_it_was_told(shape: str) -> None:
    """The key of a hundred thousand entries costs a step what a small one does."""
    heap = Heap.of(shape)
    heap.add(heap.table, new(0, 100_000))
    for _ in range(50):
        looking = Looking()
        heap.table.sweep(5, looking)
        assert len(looking.seen) <= 5


@pytest.mark.parametrize("shape", ["single", *MANY])
def test_a_sweep_of_many_keys_ends_where_it_was_told(shape: str) -> None:
    """Not at the end of a pass: a key's entries are looked at together, so it may be some more."""
    heap = Heap.of(shape)
    for heap.backend.current.key in range(200):
        heap.add(heap.table, new(0, 3))
    heap.table.sweep(10, lambda _: False)  # begins the pass
    for _ in range(10):
        looking = Looking()
        heap.table.sweep(10, looking)
        assert 10 <= len(looking.seen) < 10 + 3


def test_keys_deleted_since_a_pass_began_are_made_up_for() -> None:
    """By just as many others."""
    heap = Heap.of("single")
    for heap.backend.current.key in range(100):
        heap.add(heap.table, new(heap.number, 1))
    heap.table.sweep(1, lambda _: False)  # begins the pass
    for heap.backend.current.key in range(5):
        heap.table.delete(None)
    looking = Looking()
    heap.table.sweep(10, looking)
    assert new(5, 10) == looking.seen


def test_a_sweep_goes_on_in_a_list_whose_gaps_were_closed() -> None:
    """Its positions change with that."""
    heap = Heap.of("list")
    heap.add(heap.table, new(0, 100))
    heap.table.sweep(1, lambda _: False)
    heap.table.sweep(90, lambda entry: 1 <= entry[1] < 80)
    heap.backend.drain()
    looking = Looking()
    heap.table.sweep(100, looking)
    assert new(90, 10) == looking.seen


def test_gaps_of_a_list_cost_a_sweep_no_entries() -> None:
    """One step reaches what is behind thousands of them."""
    heap = Heap.of("list")
    heap.add(heap.table, new(0, 10_000))
    heap.table.sweep_all(lambda entry: 0 < entry[1] < 9_000)
    looking = Looking()
    for _ in range(3):
        heap.table.sweep(5, looking)
    assert (0, 9_000) == (looking.seen[0][1], looking.seen[1][1])
    assert len(looking.seen) < 600


@pytest.mark.parametrize("shape", ["single", *MANY])
def test_what_has_gone_since_a_pass_began_costs_it_no_entries(shape: str) -> None:
    """Otherwise a pass would take more looks than there are entries."""
    heap = Heap.of(shape)
    current = heap.backend.current
    for current.key in range(500):
        heap.add(heap.table, new(0, 1))
    current.key = "k"
    heap.add(heap.table, new(0, 500))
    heap.table.sweep(5, lambda _: False)
    heap.table.sweep(5, lambda _: False)
    heap.table.sweep_all(lambda _: True)
    current.key = "l"
    heap.add(heap.table, new(7, 1))
    looking = Looking()
    for _ in range(3):
        heap.table.sweep(5, looking)
    assert new(7, 1) == sorted(set(looking.seen))


MOST = 9
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("ab"), st.integers(1, 30)),
        st.tuples(st.just("replace"), st.sampled_from("ab"), st.integers(0, 60)),
        st.tuples(st.just("delete"), st.sampled_from("ab"), st.integers(0, 60)),
        st.tuples(st.sampled_from(["clear", "drain"]), st.sampled_from("ab"), st.just(0)),
        st.tuples(st.just("sweep"), st.just("a"), st.integers(1, MOST)),
        st.tuples(st.just("sweep"), st.just("a"), st.integers(1, MOST)),
    ),
    max_size=30,
)


def do(heap: Heap, step: tuple[str, str, int], entry: Any, dead: Any) -> int:
    """Do a step; how many entries were added."""
    verb, heap.backend.current.key, number = step
    table = heap.table
    if verb == "add":
        heap.add(table, [(entry[0], entry[1] + each) for each in range(number)])
        return number
    if verb == "clear":
        table.clear()
    elif verb == "drain":
        heap.backend.drain()
    elif verb == "sweep":
        table.sweep(number, dead)
    else:
        items = list(table.items())
        if items:
            user_key = items[number % len(items)][0]
            if verb == "delete":
                table.delete(user_key)
            else:
                table.put(user_key, entry)
    return 0


@pytest.mark.parametrize("shape", ["single", *MANY])
@given(before=steps, after=steps, size=st.integers(1, MOST))
def test_two_passes_look_at_all_that_is_there(
    shape: str, before: Any, after: Any, size: int
) -> None:
    """Wherever the running one stands, whatever is written meanwhile; only dead entries are deleted."""
    heap = Heap.of(shape)
    looking = Looking(lambda entry: entry[1] % 4 == 0)
    for number, step in enumerate(before):
        do(heap, step, (0, number * 100), looking)
    there = {entry for *_, entry in heap.table.scan()}
    looking.seen.clear()
    added = looks = 0
    gone: set[Any] = set()
    for number, step in enumerate(after, 1_000):
        held = {entry for *_, entry in heap.table.scan()}
        added += do(heap, step, (0, number * 100), looking)
        left = {entry for *_, entry in heap.table.scan()}
        if step[0] == "sweep":
            assert all(entry[1] % 4 == 0 for entry in held - left)
            looks += step[2]
        else:
            gone |= held - left
    while looks < 2 * (len(there) + added + MOST):
        heap.table.sweep(size, looking)
        looks += size
    assert set() == there - gone - set(looking.seen)
    assert heap.table.count() == len(list(heap.table.scan()))


accesses = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("ab"), st.integers(1, 200)),
        st.tuples(st.just("replace"), st.sampled_from("ab"), st.integers(0, 60)),
        st.tuples(st.sampled_from(["clear", "drain", "read"]), st.sampled_from("ab"), st.just(0)),
        st.tuples(st.just("time"), st.just("a"), st.integers(1, 60)),
    ),
    max_size=20,
)


@pytest.mark.parametrize("shape", ["single", *MANY])
@pytest.mark.parametrize("size", [1, 5])
@given(steps=accesses)
def test_all_that_has_expired_is_gone_after_so_many_accesses(
    shape: str, size: int, steps: Any
) -> None:
    """And whatever is alive stays."""
    clock = Clock()
    heap = Heap.of(shape)
    config = StateTtlConfig.new_builder(100).cleanup_incrementally(size, False).build()
    table = TtlTable(heap.table, config, clock)
    current = heap.backend.current
    alive: dict[int, int] = {}  # value to stamp, of all that no one but a sweep deletes
    for number, (verb, current.key, count) in enumerate([*steps, ("time", "a", 60)]):
        before = {entry[1] for *_, entry in heap.table.scan()}
        now = clock.processing_time
        if verb == "time":
            clock.processing_time = now + count
        elif verb == "drain":
            heap.backend.drain()
        elif verb == "read":
            list(table.elements())
        elif verb == "clear":
            mine = [entry[1] for entry in heap.table.elements()]
            table.clear()
            for each in mine:
                del alive[each]
        elif verb == "add":
            values = [number * 1_000 + each for each in range(count)]
            if shape == "single" and (old := heap.table.elements()):
                alive.pop(old[0][1], None)
            heap.add(table, values)
            alive.update(dict.fromkeys(values if shape != "single" else values[-1:], now))
        elif items := list(heap.table.items()):
            user_key, (_, old_value) = items[count % len(items)]
            alive.pop(old_value, None)
            table.put(user_key, number * 1_000)
            alive[number * 1_000] = now
        stored = {entry[1] for *_, entry in heap.table.scan()}
        now = clock.processing_time
        assert set() == {each for each, at in alive.items() if at + 100 > now} - stored
        assert stored <= before | set(alive)
        alive = {each: at for each, at in alive.items() if each in stored}
    current.key = "nobody"
    stored_now = table.count()
    for _ in range(2 * (2 * stored_now // size + 64)):
        table.get(heap.user_key(0))
    left = {entry[1] for *_, entry in heap.table.scan()}
    assert {each for each, at in alive.items() if at + 100 > clock.processing_time} == left


def test_a_pass_comes_to_the_last_element_of_a_list_that_begins_later() -> None:
    """As one that was read from a log, and had lost its first ones before."""
    heap = Heap.of("list")
    heap.table.put(3, (0, 3))
    heap.add(heap.table, new(4, 4))
    heap.table.sweep(1, Looking())  # begins the pass
    looking = Looking(lambda entry: entry[1] == 7)
    deleted = [heap.table.sweep(2, looking) for _ in range(3)]

    assert [0, 0, 1] == deleted
    assert [3, 4, 5, 6] == [position for position, _ in heap.table.items()]
