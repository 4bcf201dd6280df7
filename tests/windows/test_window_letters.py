# SPDX-License-Identifier: Apache-2.0
"""Dead letters of windows: a firing fails alone, and the window goes on as if it had succeeded."""

from __future__ import annotations

from typing import Any

import pytest
from window_support import harness, is_empty

from pyflinklike import AggregateFunction, DeadLetters, OutputTag, Types, ValueStateDescriptor
from pyflinklike.errors import UserFunctionError
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    window,
)

DEAD, SIDE = OutputTag("dead"), OutputTag("side")
LETTERS = DeadLetters(DEAD, at_most=100, per="batch")
TEN = TumblingEventTimeWindows.of(10)
ALL = GlobalWindows.create()


class Refusing(ProcessWindowFunction):
    """The numbers of a window; refuses those whose sum is more than 100, behind writes and outputs.

    Args:
        fails_to_clear: Whether it raises where a window ends.
    """

    FIRED = ValueStateDescriptor("fired", Types.LONG())

    def __init__(self, *, fails_to_clear: bool = False) -> None:
        self.fails_to_clear = fails_to_clear

    def open(self, runtime_context: Any) -> None:
        self.all = runtime_context.get_state(ValueStateDescriptor("all", Types.LONG()))
        self.count = runtime_context.get_metrics_group().counter("firings")

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        numbers = [number for _, number in elements]
        self.all.update((self.all.value() or 0) + 1)
        self.count.inc()
        yield numbers, self.all.value()
        yield SIDE, sum(numbers)
        if sum(numbers) > 100:
            raise OverflowError(numbers)

    def clear(self, context: Any) -> None:
        if self.fails_to_clear:
            self.all.update(1_000)
            raise LookupError(context.window().start)


def told(driver: Any) -> list[Any]:
    """Call and subject of each letter."""
    return [(row.call, row.subject) for row in driver.side_output(DEAD)]


def test_a_session_that_fails_is_over():
    """An element near it begins a session of its own; nothing is left of either."""
    operator = window(EventTimeSessionWindows.with_gap(10)).process(Refusing())
    with harness(operator, on_error=LETTERS) as driver:
        driver.process_element(("k", 200), 0)
        driver.process_watermark(9)
        driver.process_element(("k", 1), 8)
        driver.process_watermark(50)
        assert [([1], 1)] == driver.output
        assert [("Refusing.process", "TimeWindow(start=0, end=10) of [('k', 200)]")] == told(driver)
        assert (1, [1]) == (driver.metrics()["firings"], driver.side_output(SIDE))
        assert 0 == driver.num_keyed_state_entries("window-contents")
        assert 0 == driver.num_event_time_timers()


def test_a_window_that_fails_at_its_end_leaves_nothing():
    """Neither contents nor timers, with an allowed lateness when that is over."""
    for lateness in (0, 5):
        windowed = window(TEN).allowed_lateness(lateness)
        with harness(windowed.process(Refusing()), on_error=LETTERS) as driver:
            driver.process_element(("k", 200), 3)
            driver.process_watermark(9)
            driver.process_element(("k", 1), 4)  # with a lateness it fires, and fails, once more
            driver.process_watermark(20)
            assert ([], 1 + (lateness > 0)) == (driver.output, len(told(driver)))
            assert is_empty(driver)


def test_a_continuous_trigger_goes_on_behind_a_failure():
    """What it registers for the next time stands, though the function fails again and again."""
    operator = window(ALL).trigger(ContinuousEventTimeTrigger.of(10)).process(Refusing())
    with harness(operator, on_error=LETTERS) as driver:
        driver.process_element(("k", 200), 1)
        fired = []
        for at in (10, 20, 30):
            driver.process_watermark(at)
            fired.append(len(told(driver)))
        assert [1, 2, 3] == fired
        assert 2 == driver.num_event_time_timers()


@pytest.mark.parametrize("slides", [False, True])
def test_a_count_window_that_fails_is_over(slides):
    """Its letter has its contents; the key lives, and the windows behind it are whole."""
    if slides:
        windowed = window(ALL).trigger(CountTrigger.of(1)).evictor(CountEvictor.of(2))
    else:
        windowed = window(ALL).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    with harness(windowed.process(Refusing()), on_error=LETTERS) as driver:
        for number in (1, 2, 200, 4, 5, 6):
            driver.process_element(("k", number), 1)
            # An element is not kept because the function has failed with it.
            assert driver.num_keyed_state_entries("window-contents") <= 2
        given = [numbers for numbers, _ in driver.output]
        failed = [row.message for row in driver.side_output(DEAD)]
        if slides:
            assert ([[1], [1, 2], [4, 5], [5, 6]], ["[2, 200]", "[200, 4]"]) == (given, failed)
        else:
            assert ([[1, 2], [5, 6]], ["[200, 4]"]) == (given, failed)
            assert [("Refusing.process", "GlobalWindow of [('k', 200), ('k', 4)]")] == told(driver)


class Sum(AggregateFunction):
    """The sum; refuses to add to more than 100, and to tell one of more than 1,000."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        if accumulator > 100:
            raise OverflowError(accumulator)
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        if accumulator > 1_000:
            raise OverflowError(accumulator)
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def test_an_element_that_one_of_its_windows_refuses_is_in_none():
    """Also not in the one that took it."""
    windowed = window(SlidingEventTimeWindows.of(10, 5)).trigger(CountTrigger.of(2))
    with harness(windowed.aggregate(Sum()), on_error=LETTERS) as driver:
        driver.process_element(("k", 2_000), 2)
        for number in (1, 3):
            driver.process_element(("k", number), 7)  # (5, 15) takes it, and (0, 10) refuses it
        driver.process_element(("k", 4), 12)
        driver.process_element(("k", 5), 12)  # the second one of (5, 15) and of (10, 20)
        assert ([9, 9], ["Sum.add"] * 2) == (driver.output, [call for call, _ in told(driver)])


class FailsBefore(CountTrigger):
    """Fires at each element, and fails in the window that begins at -5, the second one of two."""

    def __init__(self) -> None:
        super().__init__(1)

    def on_element(self, element, timestamp, window, ctx):
        if window.start < 0:
            raise LookupError(window.start)
        return super().on_element(element, timestamp, window, ctx)


def test_letters_of_firings_go_with_an_element_that_is_refused_later():
    """There is one letter, of the element, and it alone is counted against the bound."""
    operator = window(SlidingEventTimeWindows.of(10, 5)).trigger(FailsBefore()).process(Refusing())
    with harness(operator, on_error=DeadLetters(DEAD, at_most=2, per="batch")) as driver:
        for _ in range(2):
            driver.process_element(("k", 200), 2)
        assert [("FailsBefore.on_element", "('k', 200)")] * 2 == told(driver)
        assert (2, {"firings": 0, "numLateRecordsDropped": 0}) == (
            driver._operator.metrics.dead_letters,
            driver.metrics(),
        )
        assert 0 == driver.num_keyed_state_entries("window-contents")


def test_a_result_that_cannot_be_told_is_of_the_firing():
    """The window shows without contents, as these cannot be told either; it is over."""
    with harness(window(TEN).aggregate(Sum()), on_error=LETTERS) as driver:
        driver.process_element(("k", 2_000), 2)
        driver.process_element(("k", 5), 12)
        driver.process_watermark(30)
        assert ([5], [("Sum.get_result", "TimeWindow(start=0, end=10)")]) == (
            driver.output,
            told(driver),
        )
        assert is_empty(driver)


class FailsLate(EventTimeTrigger):
    """Fails when it is asked at the end of a window that begins at 0."""

    def on_event_time(self, time, window, ctx):
        if window.start == 0:
            raise LookupError(window.start)
        return super().on_event_time(time, window, ctx)


def test_a_trigger_that_fails_at_a_timer_does_not_keep_the_window():
    """It does not fire, and ends."""
    operator = window(TEN).trigger(FailsLate()).process(Refusing())
    with harness(operator, on_error=LETTERS) as driver:
        driver.process_element(("k", 1), 2)
        driver.process_element(("k", 5), 12)
        driver.process_watermark(30)
        name = "FailsLate.on_event_time"
        assert ([([5], 1)], [(name, "TimeWindow(start=0, end=10)")]) == (
            driver.output,
            told(driver),
        )
        assert 0 == driver.num_keyed_state_entries("window-contents")


def test_a_window_ends_though_the_function_fails_to_clear():
    """Its outputs stand, and what `clear` did before it raised is undone."""
    operator = window(TEN).process(Refusing(fails_to_clear=True))
    with harness(operator, on_error=LETTERS) as driver:
        driver.process_element(("k", 1), 2)
        driver.process_watermark(9)
        driver.process_element(("k", 5), 12)
        driver.process_watermark(30)
        assert [([1], 1), ([5], 2)] == driver.output
        assert ["Refusing.clear"] * 2 == [call for call, _ in told(driver)]
        assert 0 == driver.num_keyed_state_entries("window-contents")


class FailsToEvict(Evictor):
    """Evicts the first element, and then fails.

    Args:
        after: Whether after the function, and not before.
    """

    def __init__(self, *, after: bool) -> None:
        self.after = after

    def evict_before(self, elements, size, window, evictor_context):
        self._evict(elements, not self.after)

    def evict_after(self, elements, size, window, evictor_context):
        self._evict(elements, self.after)

    def _evict(self, elements, fails):
        if fails:
            del elements[0]
            raise LookupError(len(elements))


@pytest.mark.parametrize("after", [False, True])
def test_an_evictor_that_fails_has_evicted_nothing(after):
    """Before the function, the function is not asked; after it, its outputs stand."""
    windowed = window(ALL).trigger(CountTrigger.of(2)).evictor(FailsToEvict(after=after))
    with harness(windowed.process(Refusing()), on_error=LETTERS) as driver:
        for number in (1, 2, 3, 4):
            driver.process_element(("k", number), 1)
        assert ([([1, 2], 1), ([1, 2, 3, 4], 2)] if after else []) == driver.output
        name = "FailsToEvict.evict_after" if after else "FailsToEvict.evict_before"
        assert [name] * 2 == [call for call, _ in told(driver)]


class RunsOut(Refusing):
    """Has no memory for a sum of more than 100."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        try:
            yield from super().process(key, context, elements)
        except OverflowError:
            raise MemoryError from None


def test_what_is_no_record_s_error_fails_in_a_firing_too():
    """So does a letter more than is wanted, with the one sentence that says so."""
    with harness(window(TEN).process(RunsOut()), on_error=LETTERS) as driver:
        driver.process_element(("k", 200), 2)
        with pytest.raises(UserFunctionError, match=r"RunsOut.process failed for key 'k'"):
            driver.process_watermark(9)
        assert [] == told(driver)
    few = DeadLetters(DEAD, at_most=1, per="batch")
    with harness(window(TEN).process(Refusing()), on_error=few) as driver:
        driver.process_element(("k", 200), 2)
        driver.process_element(("k", 300), 12)
        said = (
            r"^operator 'WindowOperator': DeadLetters takes at most 1 .* got 2 in a task of a "
            r"micro-batch; .* The last one: Refusing.process failed for key 'k', window "
        )
        with pytest.raises(UserFunctionError, match=said):
            driver.process_watermark(30)


@pytest.mark.parametrize(
    "windowed",
    [
        window(ALL).trigger(ContinuousEventTimeTrigger.of(10)),
        window(ALL).trigger(PurgingTrigger.of(CountTrigger.of(3))),
        window(ALL).trigger(CountTrigger.of(1)).evictor(CountEvictor.of(2)),
        window(SlidingEventTimeWindows.of(10, 5)).trigger(CountTrigger.of(3)),
        window(EventTimeSessionWindows.with_gap(10)),
    ],
    ids=["continuous", "count", "evicted", "sliding", "sessions"],
)
def test_a_letter_s_failure_snapshot_makes_the_firing_again(windowed):
    """Contents, trigger and the state of the key are as they were before the element or timer came."""
    operator = windowed.process(Refusing())
    with harness(operator, on_error=LETTERS) as driver:
        for number, at in [(1, 0), (2, 1), (200, 2), (3, 3), (4, 4)]:
            driver.process_element(("k", number), at)
        driver.process_watermark(20)
        letters = driver.side_output(DEAD)
    assert letters
    for letter in letters:
        again = KeyedProcessHarness.of_failure(letter.failure_snapshot, operator, allow_pickle=True)
        with again, pytest.raises(OverflowError) as raised:
            again.replay()
        assert letter.message == str(raised.value)
