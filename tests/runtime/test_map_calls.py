# SPDX-License-Identifier: Apache-2.0
"""Maps, flat maps and filters of keyed elements: what they give, their state, and their errors."""

from __future__ import annotations

import pytest

from pyflinklike import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ValueStateDescriptor,
)
from pyflinklike.errors import DeclarationTypeError, OutputError, UserFunctionError
from pyflinklike.functions.element_functions import (
    as_filter_function,
    as_flat_map_function,
    as_map_function,
)
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.types import Types

COUNT = ValueStateDescriptor("count", Types.LONG())
ELEMENTS = [("a", 1), ("b", 2), ("a", 3), ("a", 4)]
TAG = OutputTag("odd", Types.LONG())


class Counting:
    """How many elements of its key there were, this one included."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def counted(self):
        self.count.update((self.count.value() or 0) + 1)
        return self.count.value()


class Numbered(Counting, MapFunction):
    """Each element with its number under its key."""

    def map(self, value):
        return (*value, self.counted())


class Repeated(Counting, FlatMapFunction):
    """Each element as often as its number, but none of the third."""

    def flat_map(self, value):
        number = self.counted()
        return None if number == 3 else [value] * number


class EverySecond(Counting, FilterFunction):
    """Every second element of a key."""

    def filter(self, value):
        return not self.counted() % 2


def given(function, elements=ELEMENTS):
    """What a function gives for elements, keyed by their first field."""
    with KeyedProcessHarness(function, key_selector=lambda pair: pair[0]) as harness:
        for element in elements:
            harness.process_element(element, timestamp=0)
        return harness.output


def test_a_map_gives_one_output_for_each_element_with_state_of_its_key():
    """The count of one key is not that of another."""
    assert [("a", 1, 1), ("b", 2, 1), ("a", 3, 2), ("a", 4, 3)] == given(Numbered())


def test_a_map_that_gives_none_gives_an_output():
    """As in Flink, where a co-map gives none."""
    assert [None, None] == given(as_map_function(lambda _: None), ELEMENTS[:2])


def test_a_flat_map_gives_any_number_of_outputs_with_state_of_its_key():
    """None is nothing."""
    assert [("a", 1), ("b", 2), ("a", 3), ("a", 3)] == given(Repeated())


def test_a_filter_keeps_elements_as_they_are_with_state_of_its_key():
    """Only the second of the three under the key."""
    assert [("a", 3)] == given(EverySecond())


@pytest.mark.parametrize(("truth", "kept"), [(0, 0), ("", 0), (None, 0), (2, 1), ("no", 1)])
def test_truth_decides_what_a_filter_keeps(truth, kept):
    """It need be no bool."""
    assert kept == len(given(as_filter_function(lambda _: truth), ELEMENTS[:1]))


def test_a_generator_is_a_flat_map():
    """Each output that it yields."""

    def halves(pair):
        yield pair[0]
        yield pair[1]

    assert ["a", 1, "b", 2] == given(as_flat_map_function(halves), ELEMENTS[:2])


def test_a_tagged_output_of_a_map_goes_to_the_side():
    """As in PyFlink, where a map is a process function."""

    def odd(pair):
        return (TAG, pair[1]) if pair[1] % 2 else pair[1]

    with KeyedProcessHarness(as_map_function(odd), key_selector=lambda pair: pair[0]) as harness:
        harness.process_elements([(each, None) for each in ELEMENTS])
        assert ([2, 4], [1, 3]) == (harness.output, harness.side_output(TAG))


def test_the_state_of_a_map_is_that_of_a_process_function():
    """A snapshot of one goes on as the other: there is one kind of state."""

    class Goes(Counting, KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield self.counted()

    with KeyedProcessHarness(Numbered(), key_selector=lambda pair: pair[0]) as harness:
        harness.process_element(("a", 1))
        snapshot = harness.snapshot()
    with KeyedProcessHarness(
        Goes(), key_selector=lambda pair: pair[0], restore=snapshot
    ) as harness:
        assert [2] == harness.process_element(("a", 1))


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (as_map_function(lambda pair: 1 // 0), r"<lambda>\.map"),
        (as_flat_map_function(lambda pair: [1 // 0]), r"<lambda>\.flat_map"),
        (as_filter_function(lambda pair: 1 // 0), r"<lambda>\.filter"),
    ],
)
def test_an_error_names_the_method_the_key_and_the_element(function, call):
    """And the function that the user wrote, not our wrapper of it."""
    with pytest.raises(UserFunctionError, match=f"{call} failed for key 'a', element \\('a', 1\\)"):
        given(function)


def test_a_flat_map_that_returns_a_single_output_is_told():
    """A text would be taken apart into letters."""
    with pytest.raises(
        OutputError, match=r"^flat_map functions give an iterable of outputs, got 'a'"
    ):
        given(as_flat_map_function(lambda pair: pair[0]))


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (as_map_function, "MapFunction"),
        (as_flat_map_function, "FlatMapFunction"),
        (as_filter_function, "FilterFunction"),
    ],
)
@pytest.mark.parametrize("wrong", [5, None, "a"])
def test_what_is_neither_function_nor_callable_is_refused(wrap, name, wrong):
    """With PyFlink's words."""
    with pytest.raises(DeclarationTypeError, match=f"must be a {name} or a callable function"):
        wrap(wrong)


def test_the_class_of_a_function_is_refused():
    """It is callable, too, and would make an instance of every element."""
    with pytest.raises(DeclarationTypeError, match=r"give an instance of it, Numbered\(\.\.\.\)"):
        as_map_function(Numbered)


def test_a_function_of_another_kind_is_refused():
    """A filter is no map."""
    with pytest.raises(DeclarationTypeError, match="must be a MapFunction"):
        as_map_function(EverySecond())
