# SPDX-License-Identifier: Apache-2.0
"""When windows fire: each trigger, what it remembers, and what is left of it."""

from __future__ import annotations

from typing import Any

import pytest
from window_support import Sum, harness, processed, streamed

from pyflinklike import ListStateDescriptor, Types, ValueStateDescriptor
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, UserFunctionError
from pyflinklike.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    window,
)

TEN = TumblingEventTimeWindows.of(10)


def sizes(results: Any) -> list[Any]:
    """Window and number of elements of each firing."""
    return [(bounds, len(elements)) for _, bounds, elements in results]


def elements(*times: int) -> list[Any]:
    """Elements of one key with their times."""
    return [(("k", time), time) for time in times]


def is_empty(driver: Any) -> bool:
    """Whether nothing is left: no entry of any state, and no timer."""
    return driver._operator.backend.count() == 0


def test_processing_time_trigger():
    """At the end of the window by the clock; event time does nothing."""
    with harness(processed(TumblingProcessingTimeWindows.of(10))) as driver:
        driver.set_processing_time(1)
        driver.process_elements(elements(1, 2))
        assert [] == driver.process_watermark(100)
        assert [] == driver.set_processing_time(8)
        assert [((0, 10), 2)] == sizes(driver.set_processing_time(9))
        assert is_empty(driver)


def test_sessions_by_the_clock():
    """They grow with each element, and end a gap after the last one."""
    with harness(processed(ProcessingTimeSessionWindows.with_gap(5))) as driver:
        for now in (1, 4, 20):
            driver.set_processing_time(now)
            driver.process_element(("k", now))
        assert [((1, 9), 2)] == sizes(driver.output)
        assert [((20, 25), 1)] == sizes(driver.set_processing_time(24))
        assert is_empty(driver)


def test_continuous_processing_time_trigger():
    """At multiples of the interval by the clock, at most at the end of the window."""
    trigger = ContinuousProcessingTimeTrigger.of(4)
    assigner = TumblingProcessingTimeWindows.of(10)
    with harness(processed(assigner, trigger=trigger)) as driver:
        driver.set_processing_time(1)
        driver.process_elements(elements(1))
        fired = [len(driver.set_processing_time(now)) for now in (3, 4, 7, 8, 9)]
        assert [0, 1, 0, 1, 1] == fired
        assert is_empty(driver)


def test_continuous_processing_time_trigger_in_event_time():
    """Timers of both domains in one window: those of the clock do not end it."""
    trigger = ContinuousProcessingTimeTrigger.of(4)
    with harness(processed(TEN, trigger=trigger)) as driver:
        driver.process_elements(elements(1))
        assert [((0, 10), 1)] == sizes(driver.set_processing_time(4))
        driver.process_elements(elements(2))
        assert [((0, 10), 2)] == sizes(driver.set_processing_time(8))
        assert [] == driver.process_watermark(9)
        assert is_empty(driver)


@pytest.mark.parametrize("purges", [False, True])
@pytest.mark.parametrize("restored", [False, True])
def test_a_continuous_trigger_fires_once_when_the_clock_passes_an_open_window(purges, restored):
    """At 9 by the clock, the window's end, it waits for no other time; the watermark frees the window."""
    trigger: Any = ContinuousProcessingTimeTrigger.of(4)
    operator = processed(TEN, trigger=PurgingTrigger.of(trigger) if purges else trigger)
    with harness(operator) as first:
        first.set_processing_time(8)
        first.process_elements(elements(1))
        stored = first.snapshot()
        with harness(operator, restore=stored) if restored else first as driver:
            fired = [len(driver.set_processing_time(now)) for now in (9, 10, 50)]
            assert [1, 0, 0] == fired
            assert [] == driver.process_watermark(9)
            assert is_empty(driver)


def test_elements_behind_the_end_of_their_window_by_the_clock_fire_it_once_each_time():
    """Past data: else it would never come out, for the watermark does not make this trigger fire."""
    operator = processed(TEN, trigger=ContinuousProcessingTimeTrigger.of(4))
    with harness(operator) as driver:
        driver.set_processing_time(1_000)
        fired = []
        for number in (1, 2, 3):
            driver.process_elements(elements(number))
            fired.append(sizes(driver.set_processing_time(1_000 + number)))
        assert [[((0, 10), 1)], [((0, 10), 2)], [((0, 10), 3)]] == fired


def test_a_continuous_trigger_of_a_window_without_an_end_comes_to_an_end():
    """When the input ends: at the next multiple and at the end of time, not at all between."""
    operator = processed(GlobalWindows.create(), trigger=ContinuousEventTimeTrigger.of(4))
    assert [("all", 2)] * 2 == sizes(streamed(operator, [("k", 1), ("k", 2)]))


class Endless(Trigger):
    """Wants to be asked again at the time at which it is asked."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(5)
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        ctx.register_event_time_timer(time)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        raise NotImplementedError

    def clear(self, window, ctx):
        return None


def test_a_trigger_without_an_end_is_blamed_by_name():
    """And not the function of the window, which registers no timer."""
    operator = window(TEN).trigger(PurgingTrigger.of(Endless())).aggregate(Sum())
    with harness(operator) as driver:
        driver.process_elements(elements(1))
        said = r"^the trigger Endless must come to an end, got more than 100,000 timers"
        with pytest.raises(UserFunctionError, match=said) as raised:
            driver.process_watermark(6)
        assert "Endless failed for key 'k'" in raised.value.__notes__[0]


def test_never_trigger():
    """Nothing fires, and the window ends all the same."""
    with harness(processed(TEN, trigger=NeverTrigger())) as driver:
        driver.process_elements(elements(1, 2))
        assert [] == driver.end_of_input()
        assert is_empty(driver)


class Doubling(Trigger):
    """Fires at the first, second, fourth ... element; remembers the elements, too."""

    COUNT = ValueStateDescriptor("count", Types.LONG())
    SEEN = ListStateDescriptor("seen", Types.LONG())

    def __init__(self) -> None:
        self.noted: list[Any] = []

    def on_element(self, element, timestamp, window, ctx):
        count = ctx.get_partitioned_state(self.COUNT)
        count.update((count.value() or 0) + 1)
        ctx.get_partitioned_state(self.SEEN).add(element[1])
        is_power = count.value() & (count.value() - 1) == 0
        return TriggerResult.FIRE if is_power else TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        self.noted.append((time, list(ctx.get_partitioned_state(self.SEEN))))
        return TriggerResult.PURGE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.SEEN)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.COUNT).clear()
        ctx.get_partitioned_state(self.SEEN).clear()


def test_an_own_trigger():
    """Its state is of key and window, and goes when it clears it; the end of a window is a timer."""
    trigger = Doubling()
    with harness(processed(TEN, trigger=trigger)) as driver:
        mixed = [(("k", 1), 1), (("b", 2), 2), (("k", 11), 11), (("k", 3), 3), (("k", 4), 4)]
        fired = driver.process_elements(mixed)
        assert [((0, 10), 1), ((0, 10), 1), ((10, 20), 1), ((0, 10), 2)] == sizes(fired)
        driver.end_of_input()
        assert [(9, [1, 3, 4]), (9, [2]), (19, [11])] == sorted(trigger.noted)
        assert is_empty(driver)


def test_an_own_trigger_of_windows_that_merge():
    """A list is joined, the new window's (there is none yet) first, then the merged ones'."""
    trigger = Doubling()
    with harness(processed(EventTimeSessionWindows.with_gap(5), trigger=trigger)) as driver:
        driver.process_elements(elements(1, 10, 5))
        driver.end_of_input()
        assert [(14, [1, 10, 5])] == trigger.noted


def test_a_trigger_may_ask_for_time_and_metrics():
    """The watermark, the clock, and where metrics are registered; deleted timers do not fire."""
    asked = []

    class Asking(NeverTrigger):
        def on_element(self, element, timestamp, window, ctx):
            asked.append((ctx.get_current_watermark(), ctx.get_current_processing_time()))
            ctx.get_metric_group().counter("asked").inc()
            ctx.register_event_time_timer(7)
            ctx.register_processing_time_timer(7)
            ctx.delete_event_time_timer(7)
            ctx.delete_processing_time_timer(7)
            return TriggerResult.CONTINUE

        on_event_time = on_processing_time = lambda self, time, window, ctx: asked.append(time)

    with harness(processed(GlobalWindows.create(), trigger=Asking())) as driver:
        driver.process_watermark(3)
        driver.set_processing_time(4)
        driver.process_element(("k", 1), 5)
        driver.process_watermark(100)
        driver.set_processing_time(100)
        assert ([(3, 4)], 1) == (asked, driver.metrics()["asked"])


def test_a_trigger_lists_the_timers_of_its_window():
    """Of this key and window alone, the end of the window among them; a firing one has gone."""
    listed = []

    class Listing(NeverTrigger):
        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(timestamp + 2)
            ctx.register_processing_time_timer(50)
            listed.append((ctx.list_event_time_timers(), ctx.list_processing_time_timers()))
            return TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            listed.append((time, ctx.list_event_time_timers()))
            return TriggerResult.CONTINUE

    with harness(processed(TEN, trigger=Listing())) as driver:
        mixed = [(("k", 1), 1), (("b", 2), 2), (("k", 11), 11), (("k", 3), 3)]
        driver.process_elements(mixed)
        assert [([3], [50]), ([4], [50]), ([13], [50]), ([3, 5, 9], [50])] == listed
        del listed[:]
        driver.process_watermark(3)
        assert [(3, [5, 9])] == listed


def test_results_say_what_happens():
    """Fire, purge, both or nothing."""
    said = {each.name: (each.is_fire(), each.is_purge()) for each in TriggerResult}
    assert {
        "CONTINUE": (False, False),
        "FIRE": (True, False),
        "PURGE": (False, True),
        "FIRE_AND_PURGE": (True, True),
    } == said


def test_a_trigger_that_cannot_merge_is_refused_for_sessions():
    """When it is given, as in Java (PyFlink finds out when windows merge)."""
    with pytest.raises(DeclarationTypeError, match=r"does not support merging.*can_merge"):
        window(EventTimeSessionWindows.with_gap(5)).trigger(NeverTrigger())
    with pytest.raises(DeclarationTypeError, match="does not support merging"):
        window(EventTimeSessionWindows.with_gap(5)).trigger(PurgingTrigger.of(NeverTrigger()))


@pytest.mark.parametrize(
    "trigger",
    [
        EventTimeTrigger(),
        CountTrigger(2),
        ContinuousEventTimeTrigger(2),
        PurgingTrigger.of(CountTrigger(2)),
    ],
    ids=lambda trigger: type(trigger).__name__,
)
def test_a_trigger_with_on_merge_can_merge(trigger):
    """Of ours, each that has the method."""
    assert trigger.can_merge()
    window(EventTimeSessionWindows.with_gap(5)).trigger(trigger)


def test_triggers_are_checked():
    """Counts and intervals are positive, and a nested trigger is one."""
    for make in (
        CountTrigger.of,
        ContinuousEventTimeTrigger.of,
        ContinuousProcessingTimeTrigger.of,
    ):
        with pytest.raises(DeclarationValueError, match="at least 1"):
            make(0)
    with pytest.raises(DeclarationTypeError, match="takes a Trigger"):
        PurgingTrigger.of(CountTrigger)
    with pytest.raises(DeclarationTypeError, match="takes a Trigger"):
        window(TEN).trigger(CountTrigger)


def test_the_end_of_time_is_no_cleanup():
    """An event-time trigger makes a global window fire when the input ends."""
    operator = processed(GlobalWindows.create(), trigger=EventTimeTrigger())
    assert [("all", 2)] == sizes(streamed(operator, [("k", 1), ("k", 2)]))


def test_an_event_time_trigger_of_windows_by_the_clock():
    """They end by the clock, whatever makes them fire."""
    operator = processed(TumblingProcessingTimeWindows.of(10), trigger=EventTimeTrigger())
    with harness(operator) as driver:
        driver.process_element(("k", 1))
        assert [((0, 10), 1)] == sizes(driver.process_watermark(9))
        driver.set_processing_time(9)
        assert is_empty(driver)
