# SPDX-License-Identifier: Apache-2.0
"""Evictors by Java's rules: what is removed, before the function or after it, and what stays."""

from __future__ import annotations

from typing import Any

import pytest
from window_support import harness, processed

from pyflinklike import AggregateFunction, Types
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.windows import (
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    Evictor,
    GlobalWindows,
    TimeEvictor,
    TimestampedValue,
    TumblingEventTimeWindows,
    window,
)

TEN = TumblingEventTimeWindows.of(10)
EVERY_TWO = CountTrigger.of(2)


def elements(*times: Any) -> list[Any]:
    """Elements of one key with their times."""
    return [(("k", time), time) for time in times]


def fired(evictor: Any, given: Any, **options: Any) -> list[Any]:
    """The numbers of each firing of a global window that fires at every second element."""
    operator = processed(GlobalWindows.create(), trigger=EVERY_TWO, evictor=evictor)
    with harness(operator, **options) as driver:
        driver.process_elements(given)
        return [[n for _, n in numbers] for _, _, numbers in driver.output]


def test_java_count_window():
    """A count evictor makes Java's sliding count window: the last four, fewer at first."""
    assert [[1, 2], [1, 2, 3, 4], [3, 4, 5, 6]] == fired(
        CountEvictor.of(4), elements(1, 2, 3, 4, 5, 6)
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((1, 2, 11, 12), [[1, 2], [11, 12]]),
        ((1, 2, 10, 11), [[1, 2], [2, 10, 11]]),
        ((20, 2), [[20]]),
    ],
)
def test_time_evictor(given, expected):
    """What is older than the newest by the time, or just that much, goes."""
    assert expected == fired(TimeEvictor.of(10), elements(*given))


def test_time_evictor_without_timestamps():
    """It keeps all where the first element has none."""
    assert [[1, 2]] == fired(TimeEvictor.of(10), [(("k", 1), None), (("k", 2), 50)])


def test_delta_evictor():
    """What differs from the last one by the threshold or more goes."""

    def difference(one: Any, last: Any) -> float:
        return abs(one[1] - last[1])

    evictor = DeltaEvictor.of(5, difference)
    assert [[1, 2], [6, 7]] == fired(evictor, elements(1, 2, 6, 7))
    assert [[4, 8], [4, 8, 5, 6]] == fired(evictor, elements(4, 8, 5, 6))


class Sum(AggregateFunction):
    """The sum of the second fields."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def test_elements_are_folded_when_the_window_fires():
    """Reduced or aggregated after the eviction."""
    windowed = window(TEN, Types.TUPLE([Types.STRING(), Types.LONG()])).evictor(CountEvictor.of(2))
    for operator, expected in (
        (windowed.aggregate(Sum()), [7]),
        (windowed.reduce(lambda one, other: (one[0], one[1] + other[1])), [("k", 7)]),
    ):
        with harness(operator) as driver:
            driver.process_elements(elements(1, 2, 3, 4))
            assert expected == driver.end_of_input()


class All(Evictor):
    """Removes all, and notes what it was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def evict_before(self, elements, size, window, evictor_context):
        self.told.append((size, window.end, evictor_context.get_current_watermark()))
        assert isinstance(elements[0], TimestampedValue)
        assert elements[0].has_timestamp()
        assert elements[0].get_timestamp() == elements[0].timestamp
        assert elements[0].get_value() == elements[0].value
        assert evictor_context.get_current_processing_time() == 0
        evictor_context.get_metric_group().counter("evicted").inc(size)
        elements.clear()

    def evict_after(self, elements, size, window, evictor_context):
        self.told.append(size)


def test_an_own_evictor():
    """A function of the whole window gets nothing of nothing, a reduction does not come about."""
    evictor = All()
    with harness(processed(TEN, evictor=evictor)) as driver:
        driver.process_elements(elements(1, 2))
        assert [("k", (0, 10), [])] == driver.process_watermark(9)
        assert ([(2, 10, 9), 0], 2) == (evictor.told, driver.metrics()["evicted"])
        assert 0 == driver._operator.backend.count()
    with harness(window(TEN).evictor(All()).reduce(max)) as driver:
        driver.process_elements(elements(1, 2))
        assert [] == driver.process_watermark(9)


def test_evictors_are_checked():
    """Counts and times are positive, and functions are functions."""
    with pytest.raises(DeclarationValueError, match="at least 1"):
        CountEvictor.of(0)
    with pytest.raises(DeclarationValueError, match="at least 1"):
        TimeEvictor.of(0)
    with pytest.raises(DeclarationTypeError, match="function of two"):
        DeltaEvictor.of(1, 5)
    with pytest.raises(DeclarationValueError, match="must be a number"):
        DeltaEvictor.of(float("nan"), max)
    with pytest.raises(DeclarationTypeError, match="takes a Evictor"):
        window(TEN).evictor(CountEvictor)
