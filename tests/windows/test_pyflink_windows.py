# SPDX-License-Identifier: Apache-2.0
"""PyFlink's own window tests (`pyflink/datastream/tests/test_window.py`): their inputs and results.

Each test has the name it has there.  Where PyFlink's results do not depend on when the watermark
comes, it comes after each element here; in two tests it comes at the end alone, as it does there.
"""

from __future__ import annotations

from typing import Any

from window_support import harness, processed, streamed

from pyflinklike import AggregateFunction, Time, Types
from pyflinklike.windows import (
    EventTimeSessionWindows,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    SessionWindowTimeGapExtractor,
    TumblingEventTimeWindows,
    window,
    window_all,
)

TWO_KEYS = [("a", 1), ("a", 2), ("b", 3), ("a", 6), ("b", 8), ("b", 9), ("a", 15)]
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


def milliseconds(number: int) -> Time:
    """So many of them."""
    return Time.milliseconds(number)


class Counted(ProcessWindowFunction):
    """Key, start, end and number of elements."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


class Reported(ProcessWindowFunction):
    """A text about what was reduced."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield f"current window start at {context.window().start}, reduce result {next(iter(elements))}"


class ReportedOfAll(ProcessAllWindowFunction):
    """The same without keys."""

    def process(self, context: Any, elements: Any) -> Any:
        yield f"current window start at {context.window().start}, reduce result {next(iter(elements))}"


class SumAndKey(AggregateFunction):
    """The sum, and the last key."""

    def create_accumulator(self) -> Any:
        return 0, ""

    def add(self, value: Any, accumulator: Any) -> Any:
        return value[1] + accumulator[0], value[0]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[1], accumulator[0]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1]


class Told(ProcessWindowFunction):
    """A text about what was aggregated."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        name, total = next(iter(elements))
        yield f"key {name} timestamp sum {total}"


class ToldOfAll(ProcessAllWindowFunction):
    """The same without keys."""

    def process(self, context: Any, elements: Any) -> Any:
        name, total = next(iter(elements))
        yield f"key {name} timestamp sum {total}"


class CountedOfAll(ProcessAllWindowFunction):
    """Start, end and number of elements."""

    def process(self, context: Any, elements: Any) -> Any:
        return [(context.window().start, context.window().end, len(list(elements)))]


class ByItself(SessionWindowTimeGapExtractor):
    """An element's gap is its number."""

    def extract(self, element: Any) -> int:
        return element[1]


def sessions_of_two() -> Any:
    """Sessions with a gap of 2 ms over pairs."""
    return window(EventTimeSessionWindows.with_gap(milliseconds(2)), PAIR)


def sessions_of_all() -> Any:
    """The same without keys."""
    return window_all(EventTimeSessionWindows.with_gap(milliseconds(2)), PAIR)


def unkeyed(operator: Any, elements: Any) -> Any:
    """What windows of a stream without keys give."""
    keyed = [("all", element) for element in elements]
    return sorted(streamed(_of_value(operator), keyed, at=lambda each: each[1][1]))


def _of_value(operator: Any) -> Any:
    """A harness's elements have their key in front; these windows look at the rest."""
    process = operator.process_element
    operator.process_element = lambda value, ctx: process(value[1], ctx)
    return operator


def summed(one: Any, other: Any) -> Any:
    """The key of the second, and the sum."""
    return other[0], one[1] + other[1]


def test_event_time_dynamic_gap_session_window():
    """Each element tells how long it keeps the session open."""
    elements = [("hi", n) for n in (1, 2, 3, 4, 9, 9, 15)]
    operator = processed(EventTimeSessionWindows.with_dynamic_gap(ByItself()), Counted())
    assert [("hi", 1, 8, 4), ("hi", 9, 30, 3)] == streamed(operator, elements)


def test_window_reduce_process():
    """A function of windows gets the one result."""
    results = streamed(sessions_of_two().reduce(summed, Reported()), TWO_KEYS)
    expected = {1: ("a", 3), 15: ("a", 15), 3: ("b", 3), 6: ("a", 6), 8: ("b", 17)}
    assert {
        f"current window start at {start}, reduce result {result}"
        for start, result in expected.items()
    } == set(results)


def test_window_aggregate_process():
    """A function of windows gets the one result."""
    kind = Types.TUPLE([Types.INT(), Types.STRING()])
    results = streamed(sessions_of_two().aggregate(SumAndKey(), Told(), kind), TWO_KEYS)
    expected = [("a", 15), ("a", 3), ("a", 6), ("b", 17), ("b", 3)]
    assert [f"key {key} timestamp sum {total}" for key, total in expected] == sorted(results)


def test_event_time_tumbling_window_all():
    """Windows of all elements, whatever is in them."""
    elements = [("hi", 1), ("hello", 2), ("hi", 3), ("hello", 4), ("hello", 5)]
    elements += [("hi", 8), ("hi", 9), ("hi", 15)]
    operator = window_all(TumblingEventTimeWindows.of(milliseconds(5))).process(CountedOfAll())
    assert [(0, 5, 4), (5, 10, 3), (15, 20, 1)] == unkeyed(operator, elements)


def test_window_all_reduce_process():
    """With a function of windows."""
    reduced = sessions_of_all().reduce(
        lambda one, other: (one[0], one[1] + other[1]), ReportedOfAll()
    )
    assert [
        "current window start at 1, reduce result ('a', 6)",
        "current window start at 15, reduce result ('a', 15)",
        "current window start at 6, reduce result ('a', 23)",
    ] == unkeyed(reduced, TWO_KEYS)


def test_window_all_aggregate_process():
    """With a function of windows."""
    kind = Types.TUPLE([Types.INT(), Types.STRING()])
    operator = sessions_of_all().aggregate(SumAndKey(), ToldOfAll(), kind)
    expected = [("a", 15), ("b", 23), ("b", 6)]
    assert [f"key {key} timestamp sum {total}" for key, total in expected] == unkeyed(
        operator, TWO_KEYS
    )


def test_chained_window():
    """A key of three fields, of which one is time, and a map behind."""
    first, second = 1676461680000, 1676461740000
    elements = [(first, "a1", "b1"), (first, "a1", "b1"), (first, "a2", "b2"), (first, "a1", "b2")]
    elements += [(second, "a1", "b1"), (second, "a2", "b2")]
    counting = window(TumblingEventTimeWindows.of(Time.minutes(1))).reduce(
        lambda one, other: (*one[:3], one[3] + other[3])
    )
    with harness(counting) as driver:
        driver._key_selector = lambda element: element[:3]
        driver.process_elements(((*element, 1), element[0]) for element in elements)
        results = [(at, name, count) for at, name, _, count in driver.end_of_input()]
    expected = [(first, "a1", 1), (first, "a1", 2), (first, "a2", 1)]
    assert [*expected, (second, "a1", 1), (second, "a2", 1)] == sorted(results)
