# SPDX-License-Identifier: Apache-2.0
"""Which windows an element is in: each assigner, its default trigger and what it refuses."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_support import Contents, harness, processed, streamed

from pyflinklike import MAX_WATERMARK, Time
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.windows import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    count_window,
    window,
)


class Now(WindowAssigner.WindowAssignerContext):
    """A context with a processing time."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def get_current_processing_time(self) -> int:
        return self.now

    def get_runtime_context(self) -> Any:
        raise NotImplementedError


class Field(SessionWindowTimeGapExtractor):
    """The gap is the second field of the element."""

    def extract(self, element: Any) -> Any:
        return element[1]

    def __repr__(self) -> str:
        return "Field()"


def starts(assigner: Any, time: int) -> list[int]:
    """The starts of the windows of a time, by event time or the clock."""
    if assigner.is_event_time():
        windows = assigner.assign_windows(("k", 1), time, Now())
    else:
        windows = assigner.assign_windows(("k", 1), 999_999, Now(time))
    return [each.start for each in windows]


TUMBLING = [TumblingEventTimeWindows, TumblingProcessingTimeWindows]
SLIDING = [SlidingEventTimeWindows, SlidingProcessingTimeWindows]
SESSIONS = [EventTimeSessionWindows, ProcessingTimeSessionWindows]


@pytest.mark.parametrize("kind", TUMBLING)
@pytest.mark.parametrize(
    ("offset", "time", "start"),
    [(0, 0, 0), (0, 4, 0), (0, 5, 5), (0, -1, -5), (2, 1, -3), (2, 2, 2), (-2, 3, 3), (-2, 2, -2)],
)
def test_tumbling_windows(kind, offset, time, start):
    """[start, start + size) by multiples of the size, moved by the offset, before 1970, too."""
    windows = kind.of(Time.milliseconds(5), Time.milliseconds(offset))
    assert [start] == starts(windows, time)


@pytest.mark.parametrize("kind", SLIDING)
@pytest.mark.parametrize(
    ("size", "slide", "offset", "time", "expected"),
    [
        (4, 2, 0, 5, [4, 2]),
        (5, 2, 0, 5, [4, 2]),
        (5, 2, 0, 4, [4, 2, 0]),
        (4, 2, 1, 5, [5, 3]),
        (4, 2, -1, 5, [5, 3]),
        (4, 2, 0, -1, [-2, -4]),
        (2, 5, 0, 6, [5]),
        (2, 5, 0, 7, []),
    ],
)
def test_sliding_windows_newest_first(kind, size, slide, offset, time, expected):
    """While the start is after the time less the size; a slide longer than the size leaves gaps."""
    assert expected == starts(kind.of(size, slide, offset), time)
    assert expected == starts(kind.of(size, slide, offset), time), "nor does asking twice differ"


def test_days_in_utc_plus_8():
    """An offset of minus eight hours: days begin at 16:00 UTC."""
    midnight = dt.datetime(2026, 11, 22, tzinfo=dt.timezone(dt.timedelta(hours=8)))
    days = TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))
    start = int(midnight.timestamp() * 1000)
    assert [start] == starts(days, start) == starts(days, start + 86_399_999)


@pytest.mark.parametrize("kind", SESSIONS)
def test_session_windows(kind):
    """From the time to that and the gap, static or told by the element."""
    windows = kind.with_gap(Time.milliseconds(7))
    context = Now(10)
    assert [TimeWindow(10, 17)] == [*windows.assign_windows(("k", 3), 10, context)]
    dynamic = kind.with_dynamic_gap(Field())
    assert [TimeWindow(10, 13)] == [*dynamic.assign_windows(("k", 3), 10, context)]


@pytest.mark.parametrize("gap", [0, -1, None, "5"])
def test_a_dynamic_gap_is_positive(gap):
    """The element that gives another one is named."""
    for kind in (DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows):
        with pytest.raises(DeclarationValueError, match=r"must satisfy 0 < gap.*'k'"):
            kind.with_dynamic_gap(Field()).assign_windows(("k", gap), 10, Now())


def test_global_windows():
    """All elements are in one, which never fires by itself and has no end."""
    assert [GlobalWindow.get()] == [*GlobalWindows.create().assign_windows(1, None, Now())]
    assert MAX_WATERMARK == GlobalWindow.get().max_timestamp()
    assert [] == streamed(processed(GlobalWindows.create()), [("k", 1), ("k", 2)])


def numbers(assigner: Any, count: int) -> list[Any]:
    """The windows of so many elements, and the elements in each."""
    with harness(processed(assigner)) as driver:
        driver.process_elements((("k", n), None) for n in range(count))
        driver.end_of_input()
        return [(number, [n for _, n in elements]) for _, number, elements in driver.output]


def test_count_tumbling_windows():
    """Number of the element under its key by n; what is left never fires, not even at the end."""
    assert [(0, [0, 1, 2]), (1, [3, 4, 5])] == numbers(CountTumblingWindowAssigner.of(3), 8)


def test_count_sliding_windows():
    """Every window of just n elements: none that begins before the first one (Java has those)."""
    assigner = CountSlidingWindowAssigner.of(4, 2)
    assert [(0, [0, 1, 2, 3]), (1, [2, 3, 4, 5]), (2, [4, 5, 6, 7])] == numbers(assigner, 8)


def test_count_sliding_windows_with_gaps():
    """A slide longer than the size leaves elements out."""
    assigner = CountSlidingWindowAssigner.of(2, 3)
    assert [(0, [0, 1]), (1, [3, 4]), (2, [6, 7])] == numbers(assigner, 9)


def test_count_windows_count_each_key():
    """And never end by time."""
    with harness(count_window(2).process(Contents())) as driver:
        driver.process_elements((each, None) for each in (("a", 1), ("b", 2), ("b", 3), ("a", 4)))
        assert ["b", "a"] == [key for key, _, _ in driver.output]
    assert MAX_WATERMARK == CountWindow(3).max_timestamp()


@pytest.mark.parametrize(
    ("assigner", "trigger"),
    [
        (TumblingEventTimeWindows.of(5), EventTimeTrigger()),
        (SlidingEventTimeWindows.of(5, 1), EventTimeTrigger()),
        (EventTimeSessionWindows.with_gap(5), EventTimeTrigger()),
        (EventTimeSessionWindows.with_dynamic_gap(Field()), EventTimeTrigger()),
        (TumblingProcessingTimeWindows.of(5), ProcessingTimeTrigger()),
        (SlidingProcessingTimeWindows.of(5, 1), ProcessingTimeTrigger()),
        (ProcessingTimeSessionWindows.with_gap(5), ProcessingTimeTrigger()),
        (ProcessingTimeSessionWindows.with_dynamic_gap(Field()), ProcessingTimeTrigger()),
        (GlobalWindows.create(), NeverTrigger()),
        (CountTumblingWindowAssigner.of(3), PurgingTrigger(CountTrigger(3))),
        (CountSlidingWindowAssigner.of(3, 2), PurgingTrigger(CountTrigger(3))),
    ],
    ids=lambda each: type(each).__name__,
)
def test_default_triggers(assigner, trigger):
    """By event time, by the clock, by number, or never; also after the way to a worker."""
    assert trigger == assigner.get_default_trigger() == assigner.get_default_trigger(None)
    again = pickle.loads(pickle.dumps(assigner))
    assert (repr(again), trigger) == (repr(assigner), again.get_default_trigger())


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(5, 5),
        lambda: TumblingEventTimeWindows.of(5, -5),
        lambda: TumblingProcessingTimeWindows.of(0),
        lambda: SlidingEventTimeWindows.of(5, 2, 2),
        lambda: SlidingEventTimeWindows.of(0, 2),
        lambda: SlidingProcessingTimeWindows.of(5, 0),
        lambda: EventTimeSessionWindows.with_gap(0),
        lambda: ProcessingTimeSessionWindows.with_gap(Time.milliseconds(-1)),
        lambda: CountTumblingWindowAssigner.of(0),
        lambda: CountSlidingWindowAssigner.of(3, 0),
    ],
)
def test_lengths_are_checked(make):
    """abs(offset) < size or slide, and sizes, slides and gaps positive."""
    with pytest.raises(DeclarationValueError):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of("5"),
        lambda: EventTimeSessionWindows.with_gap(True),
        lambda: CountTumblingWindowAssigner.of(2.0),
        lambda: EventTimeSessionWindows.with_dynamic_gap(lambda element: 5),
        lambda: window("tumbling"),
        lambda: window(TumblingEventTimeWindows),
    ],
)
def test_kinds_are_checked(make):
    """The error names what is wanted."""
    with pytest.raises(DeclarationTypeError):
        make()


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(5),
        SlidingEventTimeWindows.of(5, 1),
        EventTimeSessionWindows.with_gap(5),
    ],
)
def test_event_time_needs_timestamps(assigner):
    """An element without one is refused, with PyFlink's words in the error and the remedy."""
    with (
        harness(processed(assigner)) as driver,
        pytest.raises(DeclarationValueError, match=r"Long.MIN_VALUE.*event_time"),
    ):
        driver.process_element(("k", 1))


def test_time_windows_are_values():
    """Equal, hashed and ordered by start and end, with PyFlink's text; touching ones intersect."""
    one, other = TimeWindow(1, 5), TimeWindow(5, 9)
    assert (one == TimeWindow(1, 5), one != other, one < other, 4) == (
        True,
        True,
        True,
        one.max_timestamp(),
    )
    assert {one} == {TimeWindow(1, 5), one}
    assert "TimeWindow(start=1, end=5)" == repr(one)
    assert (True, True, False) == (
        one.intersects(other),
        other.intersects(one),
        one.intersects(TimeWindow(6, 7)),
    )
    assert TimeWindow(1, 9) == one.cover(other) == other.cover(one)
    assert one != (1, 5)
    assert CountWindow(1) != GlobalWindow()


@given(
    size=st.integers(1, 9), slide=st.integers(1, 9), offset=st.integers(-8, 8), time=st.integers()
)
def test_a_spell_has_all_times_around_one_with_the_same_windows(size, slide, offset, time):
    """And not the time before it, nor the one after it; in gaps, too."""
    windows = SlidingEventTimeWindows(size, slide, offset % slide)

    def at(moment: int) -> list[TimeWindow]:
        return list(windows.assign_windows(None, moment, Now()))

    low, high, found = windows.find_spell(time)
    assert low <= time < high
    assert {tuple(found)} == {tuple(at(moment)) for moment in range(low, high)}
    assert at(low - 1) != list(found) != at(high)
