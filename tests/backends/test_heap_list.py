# SPDX-License-Identifier: Apache-2.0
"""Lists and maps of the heap backend: positions, gaps, and what of them is logged."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.conformance.instances import MAP, Instance, through_bytes
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Shape, TableChanges, TableSpec
from pyflinklike.types import Types

LIST = TableSpec("list", Shape.LIST, "list", Types.STRING())
KEYS = st.sampled_from("ab")
STEPS = st.one_of(
    st.tuples(st.just("append"), KEYS, st.just(0)),
    st.tuples(st.just("append"), KEYS, st.just(0)),
    st.tuples(st.just("delete"), KEYS, st.integers(0, 7)),
    st.tuples(st.just("put"), KEYS, st.integers(0, 7)),
    st.tuples(st.sampled_from(["clear", "sweep", "drain"]), KEYS, st.integers(0, 7)),
)


def opened():
    """A heap backend with a list."""
    backend = HashMapStateBackend().create_keyed_state_backend(CurrentKey(), "tested")
    instance = Instance(backend, {"list": backend.table(LIST)})
    instance.enter(0)
    return instance


def appended(instance, elements):
    """The list of the instance under the key "k", with these elements."""
    instance.at("k")
    for element in elements:
        instance.tables["list"].append(element)
    return instance.tables["list"]


def modelled(model, verb, key, position, entry):
    """Do to dicts of positions what a step does to a table."""
    mine = model.setdefault(key, {})
    if verb == "append":
        mine[max(mine, default=-1) + 1] = entry
    elif verb == "clear":
        mine.clear()
    elif verb == "sweep":
        for each in model.values():
            for dead in [at for at, old in each.items() if int(old) % 3 == position % 3]:
                del each[dead]
    elif position in mine and verb == "delete":
        del mine[position]
    elif position in mine and verb == "put":
        mine[position] = entry


def done(table, verb, position, entry):
    """Do a step to the list of the current key."""
    if verb == "append":
        table.append(entry)
    elif verb == "clear":
        table.clear()
    elif verb == "sweep":
        table.sweep_all(lambda old: int(old) % 3 == position % 3)
    elif verb == "delete":
        table.delete(position)
    elif verb == "put" and table.multi_get([position])[0]:
        table.put(position, entry)


def in_all(instance):
    """What each way of reading gives, by key."""
    table, read = instance.tables["list"], {}
    for key in "abk":
        instance.at(key)
        if not table.is_empty():
            read[key] = dict(table.items())
            assert list(table.elements()) == list(read[key].values())
            assert sorted(read[key]) == list(read[key])
    assert table.count() == sum(map(len, read.values()))
    assert instance.contents().get("list", {}) == read
    return read


def elements(lists):
    """By key, in the order of their positions."""
    return {key: [mine[at] for at in sorted(mine)] for key, mine in lists.items() if mine}


@given(st.lists(STEPS, max_size=40))
def test_a_list_is_its_model_and_so_is_what_its_log_rebuilds(steps):
    """Whatever is appended, replaced, deleted and swept, and however it is cut into commits."""
    one, other, model = opened(), opened(), {}
    for number, (verb, key, position) in enumerate([*steps, ("drain", "a", 0)]):
        one.at(key)
        modelled(model, verb, key, position, str(number))
        if verb == "drain":
            other.apply(map(through_bytes, one.drain()))
            read = in_all(one)
            assert read == in_all(other)
            assert elements(read) == elements(model)
            model = {each: dict(mine) for each, mine in read.items()}  # gaps may be closed
        else:
            done(one.tables["list"], verb, position, str(number))
        assert in_all(one) == {each: mine for each, mine in model.items() if mine}


@given(
    st.lists(st.integers(0, 7).map(lambda each: each**9), min_size=1, max_size=5, unique=True),
    st.lists(STEPS, max_size=20),
)
def test_a_list_of_far_positions_is_its_model_too(positions, steps):
    """As a log may bring it, in any order; what it is written anew as is the same list."""
    one, other = opened(), opened()
    restored = TableChanges(LIST, [], ["a"] * len(positions), positions, ["0"] * len(positions))
    one.apply([restored])
    other.apply([restored])
    model = {"a": dict.fromkeys(positions, "0")}
    for number, (verb, key, at) in enumerate([*steps, ("drain", "a", 0)]):
        places = sorted(model.get(key, {})) or [0]
        position = at if verb == "sweep" else places[at % len(places)]
        one.at(key)
        modelled(model, verb, key, position, str(number))
        if verb == "drain":
            other.apply(map(through_bytes, one.drain()))
            read = in_all(one)
            assert read == in_all(other)
            assert elements(read) == elements(model)
            model = {each: dict(mine) for each, mine in read.items()}  # gaps may be closed
        else:
            done(one.tables["list"], verb, position, str(number))
        assert elements(in_all(one)) == elements(model)


def test_the_room_of_expired_elements_is_given_back():
    """A list that keeps losing its first elements does not grow."""
    one, other = opened(), opened()
    table = appended(one, "x" * 10)
    sizes = []
    for first in range(2_000):
        table.delete(first)
        table.append("x")
        other.apply(one.drain())
        sizes.append(sys.getsizeof(one.groups[0]["list"].entries["k"]))

    assert max(sizes) < 500
    assert (list(range(2_000, 2_010)), 10) == ([at for at, _ in table.items()], table.count())
    assert in_all(one) == in_all(other)


def test_the_room_behind_an_element_that_stays_is_given_back():
    """A list whose first element outlives what comes after it does not grow."""
    one, other = opened(), opened()
    table = appended(one, "abc")
    sizes = []
    for _ in range(2_000):
        table.delete([at for at, _ in table.items()][1])
        table.append("x")
        other.apply(one.drain())
        sizes.append(sys.getsizeof(one.groups[0]["list"].entries["k"]))

    assert max(sizes) < 500
    assert (["a", "x", "x"], 3) == (list(table.elements()), table.count())
    assert in_all(one) == in_all(other)


@pytest.mark.parametrize("verb", ["clear", "delete"])
def test_a_list_that_lost_its_first_element_and_then_all_begins_anew(verb):
    """At position 0, in the log as well."""
    one, other = opened(), opened()
    table = appended(one, "abc")
    table.delete(0)
    other.apply(one.drain())
    for position in (1, 2):
        done(table, verb, position, None)
    appended(one, "xy")
    other.apply(one.drain())

    assert {"k": {0: "x", 1: "y"}} == one.contents()["list"] == other.contents()["list"]
    assert 2 == table.count() == other.tables["list"].count()


def test_a_rebuilt_map_has_the_order_of_the_working_one():
    """An entry that was deleted and put again comes after the others in both."""
    one, other = HashMapStateBackend(), HashMapStateBackend()
    tables = []
    for each in (one, other):
        current = CurrentKey("k")
        tables.append(each.create_keyed_state_backend(current, "tested").table(MAP))
    table, rebuilt = tables
    table.multi_put([(1, "a"), (2, "b"), (3, "c")])
    rebuilt.apply(table.drain())
    table.put(3, "C")
    table.delete(1)
    table.multi_put([(4, "d"), (1, "A")])
    rebuilt.apply(table.drain())

    assert [(2, "b"), (3, "C"), (4, "d"), (1, "A")] == table.items() == rebuilt.items()


def test_an_element_between_others_that_lie_far_apart_comes_between_them():
    """Such a list is a dict by position, which has the order in which it was filled."""
    table = appended(opened(), ["first"])
    table.put(10**6, "last")
    table.put(5 * 10**5, "between")

    assert ["first", "between", "last"] == table.elements()


def test_an_element_far_from_a_list_with_gaps_brings_no_gaps():
    """However many there are already."""
    instance = opened()
    table = appended(instance, "a")
    table.put(12, "b")
    table.put(40_000, "c")

    assert ["a", "b", "c"] == table.elements()
    assert sys.getsizeof(instance.groups[0]["list"].entries["k"]) < 1_000
