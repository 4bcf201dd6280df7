# SPDX-License-Identifier: Apache-2.0
"""Functions of windows for tests, and ways to drive windows in a harness."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyflinklike import AggregateFunction
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import (
    CountWindow,
    ProcessWindowFunction,
    TimeWindow,
    Trigger,
    Window,
    Windowed,
    WindowFunction,
    WindowOperator,
    window,
)

__all__ = [
    "Contents",
    "Sum",
    "Sums",
    "bounds",
    "contents",
    "elements",
    "harness",
    "is_empty",
    "processed",
    "streamed",
]


def bounds(window: Window) -> Any:
    """What tells a window from others, as data."""
    if isinstance(window, CountWindow):
        return window.id
    return (window.start, window.end) if isinstance(window, TimeWindow) else "all"


class Contents(ProcessWindowFunction):
    """The elements of each window, in order; `clear` is noted."""

    def __init__(self) -> None:
        self.cleared: list[Any] = []

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        yield key, bounds(context.window()), list(elements)

    def clear(self, context: Any) -> None:
        self.cleared.append(bounds(context.window()))


class Sums(WindowFunction):
    """The key and the sum of the first fields."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        return [(key, sum(each[0] for each in inputs))]


def harness(operator: WindowOperator, **options: Any) -> KeyedProcessHarness:
    """A harness for elements that have their key in front."""
    return KeyedProcessHarness(operator, key_selector=lambda element: element[0], **options)


def processed(
    assigner: Any, function: Any = None, *, trigger: Trigger | None = None, **settings: Any
) -> WindowOperator:
    """Windows that are processed whole.

    Args:
        assigner: Of the windows.
        function: `Contents()` by default.
        trigger: The assigner's by default.
        settings: Calls of `Windowed` with their argument.
    """
    windowed: Windowed = window(assigner)
    if trigger is not None:
        windowed.trigger(trigger)
    for name, argument in settings.items():
        getattr(windowed, name)(argument)
    return windowed.process(function or Contents())


def streamed(
    operator: WindowOperator, elements: Iterable[Any], at: Any = None, **options: Any
) -> Any:
    """What windows give of a stream that ends: each element is followed by its watermark.

    Args:
        operator: The windows.
        elements: Pairs of key and value.
        at: Tells the time of an element; by default its second field.  The watermark that follows
            it is one less, as of monotonous timestamps.
        options: Of the harness.
    """
    at = at or (lambda element: element[1])
    with harness(operator, **options) as driver:
        for element in elements:
            driver.process_element(element, at(element))
            if at(element) is not None and at(element) - 1 > driver.watermark:
                driver.process_watermark(at(element) - 1)
        driver.end_of_input()
        return driver.output


def elements(*times: int) -> list[Any]:
    """Elements of one key with their times."""
    return [(("k", time), time) for time in times]


def contents(results: Any) -> list[Any]:
    """Window and numbers of each firing."""
    return [(bounds, [n for _, n in each]) for _, bounds, each in results]


def is_empty(driver: Any) -> bool:
    """Whether nothing is left: no entry of any state, and no timer."""
    return bool(driver._operator.backend.count() == 0)


class Sum(AggregateFunction):
    """The sum of the second fields."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        total: int = accumulator + value[1]
        return total

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b
