# SPDX-License-Identifier: Apache-2.0
"""Driving `KeyedTwoInputHarness`: elements of two inputs, their watermarks, errors and arguments."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_input_support import BACKENDS, Enrich, EnrichModel

from pyflinklike import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    CoFlatMapFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    DeclarationTypeError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.testing import KeyedTwoInputHarness

TAG = OutputTag("side", Types.STRING())


def first(element):
    """The key of an element."""
    return element[0]


@pytest.fixture(params=BACKENDS, ids=str)
def harness(request):
    """A harness of `Enrich`."""
    with KeyedTwoInputHarness(Enrich(), first, state_backend=request.param) as made:
        yield made


def test_a_silent_input_holds_the_watermark(harness):
    """As in Flink, until it ends."""
    harness.process_element1(("a", 1), 1_000)

    assert [] == harness.process_watermark1(MAX_WATERMARK - 1)
    assert [("a", 1, None)] == harness.end_of_input2()


def test_the_watermark_never_goes_back(harness):
    """One that is lower than before has no effect, as in Flink."""
    harness.process_both_watermarks(100)
    harness.process_watermark2(50)

    assert 100 == harness.watermark


def test_both_watermarks_move_together(harness):
    """In one call, as Flink's harness has it."""
    harness.process_element1(("a", 1), 0)

    assert [("a", 1, None)] == harness.process_both_watermarks(2)


def test_each_input_may_have_a_key_selector_of_its_own():
    """The second one is for the second input."""
    with KeyedTwoInputHarness(Enrich(), first, lambda element: element[1]) as h:
        h.process_element2((0, "x"), 0)

        assert [("x", 7, "x")] == h.process_element1(("x", 7), 0)


# CoMapFunction and CoFlatMapFunction


class Count(CoMapFunction):
    """The number of elements of both inputs, but nothing for zeros."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map1(self, value):
        if value[1] == 0:
            return None
        self.count.update((self.count.value() or 0) + 1)
        return "one", self.count.value()

    def map2(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return "two", self.count.value()


def test_a_co_map_gives_one_output_for_each_element():
    """With state that both inputs share; None is no output."""
    with KeyedTwoInputHarness(Count(), first) as h:
        h.process_element1(("a", 1))
        h.process_element2(("a", 0))
        h.process_element1(("a", 0))
        h.process_element1(("b", 1))

        assert [("one", 1), ("two", 2), ("one", 1)] == h.output


class Spread(CoFlatMapFunction):
    """As many outputs as the element says, of the first input to a side output as well."""

    def flat_map1(self, value):
        yield from range(value[1])
        yield TAG, str(value[1])

    def flat_map2(self, value):
        return [value[1]] * value[1]


def test_a_co_flat_map_gives_any_number_of_outputs():
    """A list, an empty one or a generator, with side outputs."""
    with KeyedTwoInputHarness(Spread(), first) as h:
        outputs = h.process_element1(("a", 2)), h.process_element2(("a", 2))

        assert (([0, 1], [2, 2]), []) == (outputs, h.process_element2(("a", 0)))
        assert ["2"] == h.side_output(TAG)


# What goes wrong


class Fail(KeyedCoProcessFunction):
    """Divides one by the element."""

    def process_element1(self, value, ctx):
        yield 1 / value[1]

    def process_element2(self, value, ctx):
        yield 2 / value[1]


class Add(CoMapFunction):
    """Adds one to the element."""

    def map1(self, value):
        return value[1] + 1

    def map2(self, value):
        return value[1] + 2


@pytest.mark.parametrize("number", [1, 2])
def test_an_error_names_the_method_of_its_input(number):
    """With the key, the element without the number of its input, and the line."""
    with KeyedTwoInputHarness(Fail(), first) as h:
        told = (
            f"Fail.process_element{number} failed for key 'a', element ('a', 0), at time 3: "
            f"ZeroDivisionError: division by zero ({__file__}:"
        )
        with pytest.raises(UserFunctionError, match=re.escape(told)):
            getattr(h, f"process_element{number}")(("a", 0), 3)


@pytest.mark.parametrize(
    ("function", "method"), [(Add(), "map2"), (Spread(), "flat_map2")], ids=["map", "flat_map"]
)
def test_an_error_of_a_co_map_names_its_method(function, method):
    """Which is not called process_element."""
    told = rf"{method} failed for key 'a', element \('a', 'x'\), at time None: TypeError"
    with (
        KeyedTwoInputHarness(function, first) as h,
        pytest.raises(UserFunctionError, match=told),
    ):
        h.process_element2(("a", "x"))


def test_an_element_needs_a_key():
    """None is none."""
    with (
        KeyedTwoInputHarness(Enrich(), first) as h,
        pytest.raises(StateValueError, match="every element needs a key, got None"),
    ):
        h.process_element2((None, 1))


class OneInput(KeyedProcessFunction):
    """A function of one input."""

    def process_element(self, value, ctx):
        yield value


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((OneInput(), first), "KeyedCoProcessFunction or CoMapFunction or CoFlatMapFunction"),
        ((Enrich, first), "KeyedCoProcessFunction"),
        ((Enrich(), "key"), "key_selector1 should be a callable function, got 'key'"),
        ((Enrich(), first, "key"), "key_selector2 should be a callable function, got 'key'"),
    ],
)
def test_arguments_of_another_kind_are_refused(arguments, told):
    """Before anything is opened."""
    with pytest.raises(DeclarationTypeError, match=told):
        KeyedTwoInputHarness(*arguments)


# Against rules over dicts

NUMBERS = st.sampled_from([1, 2])
KEYS = st.sampled_from("ab")
TIMES = st.integers(0, 6)
ELEMENTS = st.tuples(st.just("element"), NUMBERS, KEYS, TIMES)
WATERMARKS = st.tuples(st.just("watermark"), NUMBERS, TIMES)
RESTARTS = st.tuples(st.just("restart"), st.integers(0, len(BACKENDS) - 1))
STEPS = st.lists(st.one_of(ELEMENTS, ELEMENTS, WATERMARKS, RESTARTS), max_size=20)


def of_backend(backend, restore=None):
    """Of `Enrich`."""
    return KeyedTwoInputHarness(Enrich(), first, state_backend=BACKENDS[backend], restore=restore)


def element_of(number, key, at):
    """The element of a step, unlike all others."""
    return (key, at) if number == 1 else (key, f"name{at}")


@given(STEPS)
def test_two_inputs_agree_with_dicts(steps):
    """Elements and watermarks of either input in any order, restarted anywhere on any backend.

    A restart loses the watermarks, as every restart does; they are said again.  A watermark that
    does not move the smaller one fires nothing, as in Flink, whatever was registered since.
    """
    model, h = EnrichModel(), of_backend(0)
    expected, actual = [], []
    told = MIN_WATERMARK
    for at, (what, *arguments) in enumerate(steps):
        if what == "element":
            number, key, timestamp = arguments
            element = element_of(number, key, at)
            expected.append(model.element(number, *element, timestamp))
            process = h.process_element1 if number == 1 else h.process_element2
            actual.append(process(element, timestamp))
        elif what == "watermark":
            number, time = arguments
            time = max(time, model.watermarks[number])
            moves = min(time, model.watermarks[3 - number]) > told
            fired = model.watermark(number, time) if moves else []
            model.watermarks[number] = time
            told = min(model.watermarks.values())
            expected.append(sorted(fired, key=str))
            advance = h.process_watermark1 if number == 1 else h.process_watermark2
            actual.append(sorted(advance(time), key=str))
        else:
            blob = h.snapshot()
            h.close()
            h = of_backend(arguments[0], restore=blob)
            told = min(model.watermarks.values())
            moves = told > MIN_WATERMARK
            fired = model.watermark(1, model.watermarks[1]) if moves else []
            expected.append(sorted(fired, key=str))
            said = h.process_watermark1(model.watermarks[1])
            actual.append(sorted(said + h.process_watermark2(model.watermarks[2]), key=str))
    h.close()

    assert expected == actual
