# SPDX-License-Identifier: Apache-2.0
"""What a restart may change of windows, what it may not, and that nothing is lost without a word."""

from __future__ import annotations

from typing import Any

import pytest
from window_support import Contents, Sum, contents, elements, harness, is_empty, processed

from pyflinklike import Types
from pyflinklike.errors import DeclarationValueError, IncompatibleStateError
from pyflinklike.windows import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    count_window,
    window,
)

TEN = TumblingEventTimeWindows.of(10)
SESSIONS = EventTimeSessionWindows.with_gap(5)


def snapshot(operator: Any, *times: int, watermark: int | None = None) -> bytes:
    """The state of windows that got elements at these times."""
    with harness(operator) as driver:
        driver.process_elements(elements(*times))
        if watermark is not None:
            driver.process_watermark(watermark)
        return driver.snapshot()


@pytest.mark.parametrize(
    ("former", "now"),
    [
        (processed(TEN), processed(SESSIONS)),
        (processed(SESSIONS), processed(TEN)),
        (processed(TEN), processed(TumblingProcessingTimeWindows.of(10))),
        (processed(TEN), processed(GlobalWindows.create())),
        (processed(TEN), count_window(2).process(Contents())),
        (processed(TEN), window(TEN).aggregate(Sum())),
        (processed(TEN), processed(TEN, evictor=CountEvictor.of(3))),
        (processed(TEN), window(TEN, Types.STRING()).process(Contents())),
    ],
    ids=["merging", "not merging", "clock", "global", "count", "folded", "evicted", "typed"],
)
def test_windows_of_another_kind_are_refused(former, now):
    """They would never end, or could not be read: the error names what it was and what it is now."""
    stored = snapshot(former, 1, 2)
    with pytest.raises(IncompatibleStateError, match=r"keeps the .* it was written with"):
        harness(now, restore=stored)


@pytest.mark.parametrize(
    "now",
    [
        processed(SlidingEventTimeWindows.of(4, 2)),
        processed(TumblingEventTimeWindows.of(3)),
        processed(TEN, trigger=EventTimeTrigger.create()),
    ],
)
def test_windows_that_are_open_stay_what_they_are(now):
    """Another size is that of the windows of the elements to come."""
    with harness(now, restore=snapshot(processed(TEN), 1, 2)) as driver:
        assert ((0, 10), [1, 2]) in contents(driver.end_of_input())
        assert is_empty(driver)


def test_another_gap_is_that_of_the_elements_to_come():
    """They meet the sessions there are."""
    stored = snapshot(processed(SESSIONS), 1)
    with harness(processed(EventTimeSessionWindows.with_gap(2)), restore=stored) as driver:
        driver.process_elements(elements(6, 9))
        assert [((1, 8), [1, 6]), ((9, 11), [9])] == contents(driver.end_of_input())


@pytest.mark.parametrize("assigner", [TEN, SESSIONS])
@pytest.mark.parametrize(("former", "now"), [(0, 5), (5, 0), (5, 9), (9, 5)])
@pytest.mark.parametrize("watermark", [3, 9, 12])
def test_the_lateness_may_change(assigner, former, now, watermark):
    """Windows that are open end by the new one or the former one, and nothing stays of them."""
    stored = snapshot(processed(assigner, allowed_lateness=former), 1, 5, watermark=watermark)
    with harness(processed(assigner, allowed_lateness=now), restore=stored) as driver:
        before = watermark >= 9
        assert (0 if before else 1) == len(driver.process_watermark(max(watermark, 9)))
        driver.end_of_input()
        assert is_empty(driver)


def test_another_trigger_is_asked_of_open_windows_too():
    """What the former one remembered stays in the state, for it may come back."""
    stored = snapshot(processed(TEN, trigger=CountTrigger.of(5)), 1, 2)
    with harness(processed(TEN), restore=stored) as driver:
        driver.process_elements(elements(3))
        assert [((0, 10), [1, 2, 3])] == contents(driver.end_of_input())


@pytest.mark.parametrize("lateness", [0, 7])
@pytest.mark.parametrize(
    "trigger", [None, EventTimeTrigger.create(), CountTrigger.of(50), ContinuousEventTimeTrigger(3)]
)
def test_a_session_that_has_grown_ends_under_another_trigger(trigger, lateness):
    """Its timer is that of its first element until it fires, whoever is asked then."""
    now = processed(SESSIONS, trigger=trigger, allowed_lateness=lateness)
    with harness(now, restore=snapshot(processed(SESSIONS), 1, 3, 6)) as driver:
        fired = contents(driver.process_watermark(10))
        if not isinstance(trigger, CountTrigger):
            assert ((1, 11), [1, 3, 6]) in fired
        driver.end_of_input()
        assert is_empty(driver)


def test_an_element_that_makes_a_session_longer_registers_no_timer():
    """So it costs nothing in the log; the timer there is sees to the next one when it fires."""
    with harness(processed(SESSIONS)) as driver:
        for time in (1, 4, 8):
            driver.process_elements(elements(time))
            assert 1 == driver.num_event_time_timers()
        assert [] == contents(driver.process_watermark(5))
        assert 1 == driver.num_event_time_timers()
        assert [] == contents(driver.process_watermark(11))
        assert [((1, 13), [1, 4, 8])] == contents(driver.process_watermark(12))
        assert is_empty(driver)


def test_nothing_is_pickled_where_that_is_refused():
    """The error names the state; types are the remedy."""
    with pytest.raises(DeclarationValueError, match="window-contents"):
        harness(processed(TEN), allow_pickle=False)
    typed = window(TEN, Types.TUPLE([Types.STRING(), Types.LONG()])).process(Contents())
    with harness(typed, allow_pickle=False) as driver:
        driver.process_elements(elements(1))
        assert 1 == len(driver.end_of_input())


def test_the_type_of_elements_may_grow():
    """What waits in a window is read in the new type."""

    def of(number: Any) -> Any:
        return window(TEN, Types.TUPLE([Types.STRING(), number])).process(Contents())

    with harness(of(Types.LONG()), restore=snapshot(of(Types.INT()), 1, 2)) as driver:
        driver.process_element(("k", 2**40), 3)
        assert [((0, 10), [1, 2, 2**40])] == contents(driver.process_watermark(20))
