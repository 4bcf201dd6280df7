# SPDX-License-Identifier: Apache-2.0
"""What a state refuses: the error names the state, and nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest
from probe import Sum, drive
from ttl_support import aggregating, all_corners, call, list_, map_, quiet, reducing, value

from pyflinklike import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Types,
)
from pyflinklike.errors import StateValueError, UserFunctionError

LONG = Types.LONG()


class Stubborn(Sum):
    """Fails at negative numbers, forgets all at 99, and has no result at 12."""

    def add(self, value, accumulator):
        if value < 0:
            raise ArithmeticError(value)
        return None if value == 99 else accumulator + value

    def get_result(self, accumulator):
        return 12 // (accumulator - 12)


def pickled() -> ListStateDescriptor:
    """A list whose elements may be anything."""
    return ListStateDescriptor("s", Types.PICKLED_BYTE_ARRAY())


def stubborn() -> AggregatingStateDescriptor:
    """A state of that function."""
    return AggregatingStateDescriptor("s", Stubborn(), LONG)


def reduced(function: Any) -> Any:
    """Declares a reducing state."""
    return lambda: ReducingStateDescriptor("s", function, LONG)


FIT = "state 's': type Long takes .* got "
NO_NONE = "state 's': .* must not be None"
NO_LIST = r"state 's': elements come as a list, got .*add\(\)"
FILL = {"value": ("update", 1), "map": ("put", "a", 1)}
REFUSED = [
    (value, ("update", "x"), StateValueError, FIT + "'x'"),
    *((each, ("add", None), StateValueError, NO_NONE) for each in (list_, pickled)),
    *((each, ("add_all", None), StateValueError, NO_NONE) for each in (list_, pickled)),
    *((each, ("add_all", [2, None]), StateValueError, NO_NONE) for each in (list_, pickled)),
    *((each, ("update", None), StateValueError, NO_NONE) for each in (list_, pickled)),
    *((each, ("update", [2, None]), StateValueError, NO_NONE) for each in (list_, pickled)),
    # A str is one element and not a list of characters.
    *((pickled, ("add_all", each), StateValueError, NO_LIST) for each in ("ab", b"ab", 7)),
    *((pickled, ("update", each), StateValueError, NO_LIST) for each in ("ab", b"ab", 7)),
    (list_, ("add", "x"), StateValueError, FIT),
    (list_, ("add_all", [2, "x"]), StateValueError, FIT),
    (map_, ("put", "a", None), StateValueError, FIT),
    (map_, ("put", 1, 1), StateValueError, "state 's': type String"),
    (map_, ("put_all", {"b": 2, "c": "x"}), StateValueError, FIT),
    *(
        (map_, each, StateValueError, "state 's': .*got None")
        for each in (
            ("get", None),
            ("put", None, 1),
            ("put_all", {None: 1}),
            ("remove", None),
            ("contains", None),
        )
    ),
    (reducing, ("add", None), StateValueError, "state 's': an element must not be None"),
    (reducing, ("add", "x"), StateValueError, FIT),
    (reduced(lambda a, b: f"{a}{b}"), ("add", 2), StateValueError, FIT),
    (reduced(lambda a, b: a // b), ("add", 0), UserFunctionError, "state 's': ZeroDivisionError"),
    (
        reduced(lambda _a, _b: None),  # as in windows: Flink's heap drops what was kept, in silence
        ("add", 2),
        StateValueError,
        r"state 's': reduce must return .* from <function",
    ),
    (aggregating, ("add", None), StateValueError, "state 's': an element must not be None"),
    (aggregating, ("add", 0.5), StateValueError, FIT),
    (stubborn, ("add", -1), UserFunctionError, "state 's': ArithmeticError: -1"),
    (
        stubborn,
        ("add", 99),
        StateValueError,
        r"state 's': add must return .* got None from Stubborn",
    ),
]


@pytest.mark.parametrize(("declare", "refused", "error", "match"), REFUSED)
def test_what_is_refused_changes_nothing(declare, refused, error, match):
    """The error names the state; of many values all are stored or none."""
    descriptor = declare()
    kind = type(descriptor).__name__.partition("State")[0].lower()
    state = drive(descriptor)
    call(state, FILL.get(kind, ("add", 1)))
    before = state.harness.snapshot()
    with pytest.raises(error, match=match) as raised:
        call(state, refused)
    if error is UserFunctionError:
        assert isinstance(raised.value.__cause__, ArithmeticError), "the user's own is the cause"
    assert _contents(descriptor, before) == _contents(descriptor, state.harness.snapshot())


def _contents(descriptor: Any, snapshot: bytes) -> Any:
    state = drive(descriptor, restore=snapshot)
    read = {"Value": "value", "Map": "items"}.get(
        type(descriptor).__name__.partition("State")[0], "get"
    )
    return call(state, (read,)), state.entries()


@pytest.mark.parametrize("declare", [list_, reducing, aggregating])
def test_a_refusal_in_an_empty_state_leaves_it_empty(declare):
    """The refusal of None is a TypeError, as Python's own containers have it."""
    state = drive(declare())
    with pytest.raises(TypeError, match="state 's'"):
        state.add(None)
    assert 0 == state.entries()


@pytest.mark.parametrize("kind", [value, list_, reducing, aggregating])
@pytest.mark.parametrize("time", [50, 100], ids=["alive", "expired"])
@all_corners
def test_a_refused_write_renews_no_stamp(kind, time, corner):
    """It neither clears nor refreshes what is there."""
    state = quiet(kind, corner)
    call(state, FILL.get(kind.__name__, ("add", 1)))
    with pytest.raises(StateValueError, match="state 's'"):
        call(state.at(time), ("update", "x") if kind is value else ("add", None))
    assert 1 == state.entries()
    call(state.at(100), ("value",) if kind is value else ("get",))
    assert 0 == state.entries()


def test_an_error_of_get_result_names_the_state():
    """The accumulator stays."""
    state = drive(stubborn())
    state.add(12)
    with pytest.raises(UserFunctionError, match="state 's': ZeroDivisionError"):
        state.get()
    state.add(12)
    assert 1 == state.get()


# Values that are easily taken for others


@pytest.mark.parametrize("falsy", [0, "", b"", False, [], {}, 0.0], ids=repr)
@pytest.mark.parametrize("kind", ["value", "reducing", "aggregating"])
def test_a_falsy_value_is_not_an_absent_one(kind, falsy):
    """Only None means that there is none."""
    anything = Types.PICKLED_BYTE_ARRAY()

    class Last(Sum):
        def add(self, value, accumulator):
            return value

    state = drive(
        {
            "value": lambda: value().__class__("s", anything),
            "reducing": lambda: ReducingStateDescriptor("s", lambda _a, b: b, anything),
            "aggregating": lambda: AggregatingStateDescriptor("s", Last(), anything),
        }[kind]()
    )
    for _ in range(2):
        call(state, ("update" if kind == "value" else "add", falsy))
    assert (falsy, 1) == (call(state, ("value" if kind == "value" else "get",)), state.entries())


def test_an_accumulator_may_begin_as_none():
    """As in Flink: `add` gets it, and returns one that is kept."""

    class FromNothing(Sum):
        def create_accumulator(self):
            return None

        def add(self, value, accumulator):
            return value if accumulator is None else accumulator + value

    state = drive(AggregatingStateDescriptor("s", FromNothing(), LONG))
    state.add(1)
    state.add(2)
    assert 3 == state.get()


def test_a_first_element_is_stored_as_it_is():
    """A reduce function is not called for it."""

    def never(_a, _b):
        raise AssertionError

    state = drive(ReducingStateDescriptor("s", never, LONG))
    state.add(1)
    assert 1 == state.get()


def test_an_accumulator_is_created_for_the_first_element_only():
    """Then it is the stored one."""

    class CountsCalls(Sum):
        created = 0

        def create_accumulator(self):
            self.created += 1
            return 100 * self.created

    state = drive(AggregatingStateDescriptor("s", CountsCalls(), LONG))
    state.add(1)
    state.add(2)
    assert 103 == state.get()


def test_put_all_takes_int_keys():
    """PyFlink's process mode cannot unpack them."""
    state = drive(MapStateDescriptor("s", LONG, LONG))
    state.put_all({1: 10, 2: 20})
    assert [(1, 10), (2, 20)] == state.items()


def test_states_of_different_names_do_not_see_each_other():
    """Two names are two states, and each shows its kind and name."""
    other = value().__class__("t", LONG)
    both = drive(value(), other)
    both.run(lambda states, _: states[0].update(1))
    assert (1, None) == both.run(lambda states, _: (states[0].value(), states[1].value()))
    assert "ValueState('s')" == both.run(lambda states, _: repr(states[0]))
