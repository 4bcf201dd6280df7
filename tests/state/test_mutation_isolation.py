# SPDX-License-Identifier: Apache-2.0
"""A value that was read, or handed over, is the user's own: changing it changes no state."""

import pytest
from probe import Mean, drive

from pyflinklike import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)

LONG = Types.LONG()


class Box:
    """An object of the user's."""

    def __init__(self, content):
        self.content = content

    def __eq__(self, other):
        return type(other) is Box and self.content == other.content

    __hash__ = None


def box():
    """A box that holds a list."""
    return Box([1])


MUTABLE = {
    "list": (Types.LIST(LONG), lambda: [1], lambda v: v.append(2)),
    "nested list": (Types.LIST(Types.LIST(LONG)), lambda: [[1]], lambda v: v[0].append(2)),
    "map": (Types.MAP(Types.STRING(), LONG), lambda: {"a": 1}, lambda v: v.update(b=2)),
    "map of lists": (
        Types.MAP(Types.STRING(), Types.LIST(LONG)),
        lambda: {"a": [1]},
        lambda v: v["a"].append(2),
    ),
    "row": (Types.ROW([Types.LIST(LONG)]), lambda: Row(f0=[1]), lambda v: v[0].append(2)),
    "named row": (
        Types.ROW_NAMED(["a"], [Types.LIST(LONG)]),
        lambda: Row(a=[1]),
        lambda v: v.a.append(2),
    ),
    "tuple": (Types.TUPLE([Types.LIST(LONG)]), lambda: ([1],), lambda v: v[0].append(2)),
    "primitive array": (Types.PRIMITIVE_ARRAY(LONG), lambda: [1], lambda v: v.append(2)),
    "basic array": (Types.BASIC_ARRAY(LONG), lambda: [1], lambda v: v.append(2)),
    "object array": (
        Types.OBJECT_ARRAY(Types.LIST(LONG)),
        lambda: [[1]],
        lambda v: v[0].append(2),
    ),
    "pickled list": (Types.PICKLED_BYTE_ARRAY(), lambda: [1], lambda v: v.append(2)),
    "pickled dict": (Types.PICKLED_BYTE_ARRAY(), lambda: {"a": [1]}, lambda v: v["a"].append(2)),
    "pickled tuple": (Types.PICKLED_BYTE_ARRAY(), lambda: ([1],), lambda v: v[0].append(2)),
    "pickled set": (Types.PICKLED_BYTE_ARRAY(), lambda: {1}, lambda v: v.add(2)),
    "pickled object": (Types.PICKLED_BYTE_ARRAY(), box, lambda v: v.content.append(2)),
}
VALUE, LIST, MAP, REDUCING = "value", "list", "map", "reducing"
kinds = pytest.mark.parametrize("kind", [VALUE, LIST, MAP, REDUCING])
mutable = pytest.mark.parametrize(("type_info", "make", "mutate"), MUTABLE.values(), ids=MUTABLE)
warmth = pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
with_or_without_ttl = pytest.mark.parametrize("ttl", [None, 100], ids=["plain", "ttl"])


def declared(kind, type_info, ttl=None):
    """A descriptor of that kind, whose reading refreshes if it has a TTL."""
    descriptor = {
        VALUE: lambda: ValueStateDescriptor("s", type_info),
        LIST: lambda: ListStateDescriptor("s", type_info),
        MAP: lambda: MapStateDescriptor("s", Types.STRING(), type_info),
        REDUCING: lambda: ReducingStateDescriptor("s", lambda a, _b: a, type_info),
    }[kind]()
    if ttl:
        builder = StateTtlConfig.new_builder(ttl).update_ttl_on_read_and_write()
        descriptor.enable_time_to_live(builder.build())
    return descriptor


def write(kind, state, value):
    """Store the value."""
    {
        VALUE: lambda: state.update(value),
        LIST: lambda: state.add(value),
        MAP: lambda: state.put("u", value),
        REDUCING: lambda: state.add(value),
    }[kind]()


def read(kind, state):
    """The value that is stored, by every way of reading it."""
    return {
        VALUE: lambda: [state.value()],
        LIST: lambda: [*state.get(), *state],
        MAP: lambda: [state.get("u"), state["u"], *state.values(), dict(state.items())["u"]],
        REDUCING: lambda: [state.get()],
    }[kind]()


@mutable
@kinds
@warmth
@with_or_without_ttl
def test_changing_what_was_read_changes_no_state(kind, type_info, make, mutate, restored, ttl):
    """However it was read, in memory or after a restore, stamped anew or not, in the same call or later."""

    def read_mutate_read(state, _):
        for value in read(kind, state):
            mutate(value)
        return read(kind, state)

    descriptor = declared(kind, type_info, ttl)
    state = drive(descriptor)
    state.run(lambda state, _: write(kind, state, make()))
    if restored:
        state = state.restored(descriptor)
    values = state.run(read_mutate_read)
    values += state.run(lambda state, _: read(kind, state))
    values += state.restored(descriptor).run(lambda state, _: read(kind, state))
    assert [make()] * len(values) == values


@mutable
@kinds
@with_or_without_ttl
def test_changing_what_was_stored_changes_no_state(kind, type_info, make, mutate, ttl):
    """The state has its own; a write of what was changed does change it."""

    def write_then_mutate(state, _):
        value = make()
        write(kind, state, value)
        mutate(value)
        return value

    state = drive(declared(kind, type_info, ttl))
    changed = state.run(write_then_mutate)
    values = state.run(lambda state, _: read(kind, state))
    assert [make()] * len(values) == values
    if kind in (VALUE, MAP):
        state.run(lambda state, _: write(kind, state, changed))
        assert changed == state.run(lambda state, _: read(kind, state)[0])


@mutable
def test_an_iterable_gives_new_objects_each_time(type_info, make, mutate):
    """A list that is iterated twice shows nothing of what the first time did."""

    def iterate_twice(state, _):
        elements = state.get()
        for element in elements:
            mutate(element)
        return list(elements)

    state = drive(declared(LIST, type_info))
    state.run(lambda state, _: state.add(make()))
    assert [make()] == state.run(iterate_twice)


@with_or_without_ttl
def test_clearing_the_list_that_was_got_clears_no_state(ttl):
    """Nor does appending to it make the state longer."""
    state = drive(declared(LIST, LONG, ttl))
    state.update([1, 2])
    state.run(lambda state, _: [*state.get()].clear())
    state.run(lambda state, _: getattr(state.get(), "clear", lambda: None)())
    assert [1, 2] == state.get()


def test_a_list_handed_over_is_copied():
    """What is added to it later is not added to the state."""

    def update_then_extend(state, _):
        elements = [1]
        state.update(elements)
        elements.append(2)

    state = drive(declared(LIST, LONG))
    state.run(update_then_extend)
    assert [1] == state.get()


@warmth
def test_a_function_that_changes_its_accumulator_in_get_result_changes_no_state(restored):
    """It was handed a copy."""

    class Greedy(Mean):
        def get_result(self, accumulator):
            accumulator[0] += 1
            return accumulator[0]

    descriptor = AggregatingStateDescriptor("s", Greedy(), Types.LIST(LONG))
    state = drive(descriptor)
    state.add(5)
    if restored:
        state = state.restored(descriptor)
    assert (6, 6) == (state.get(), state.get())


def test_a_reduce_function_that_changes_its_arguments_changes_what_it_returns_only():
    """Neither the element of the caller's record nor an older value is the state's."""

    def extend(current, added):
        added.append(0)
        return current + added

    state = drive(ReducingStateDescriptor("s", extend, Types.LIST(LONG)))
    element = [1]
    state.add(element)
    state.add([2])
    assert ([1], [1, 2, 0]) == (element, state.get())
