# SPDX-License-Identifier: Apache-2.0
"""The window operator step by step: lateness, merging, what is freed."""

from __future__ import annotations

import pytest
from stream_support import BACKENDS, Stream
from window_support import Sum, contents, elements, harness, is_empty, processed, streamed

from pyflinklike import (
    OutputTag,
    Types,
)
from pyflinklike._clock import MAX_WATERMARK
from pyflinklike._runtime.micro_batch import Records, serve
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
)
from pyflinklike.windows import (
    EventTimeSessionWindows,
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    window,
)

TEN = TumblingEventTimeWindows.of(10)
SESSIONS = EventTimeSessionWindows.with_gap(5)
LATE = OutputTag("late", Types.TUPLE([Types.STRING(), Types.INT()]))
on_both_backends = pytest.mark.parametrize("backend", BACKENDS)


# Elements


@on_both_backends
def test_an_element_is_in_each_of_its_windows(backend):
    """Newest first, and each of them fires by itself."""
    operator = processed(SlidingEventTimeWindows.of(6, 2))
    with harness(operator, state_backend=backend) as driver:
        driver.process_elements(elements(5, 3))
        fired = contents(driver.end_of_input())
        assert [((-2, 4), [3]), ((0, 6), [5, 3]), ((2, 8), [5, 3]), ((4, 10), [5])] == fired
        assert is_empty(driver)


def test_a_late_element_is_dropped_and_counted():
    """`numLateRecordsDropped`; a window is late when the watermark has reached its last time."""
    with harness(processed(TEN)) as driver:
        driver.process_watermark(8)
        driver.process_elements(elements(1))
        driver.process_watermark(9)
        driver.process_elements(elements(2, 3))
        assert [((0, 10), [1])] == contents(driver.output)
        assert 2 == driver.metrics()["numLateRecordsDropped"]
        assert is_empty(driver)


def test_a_late_element_goes_to_the_side_output():
    """And is not counted as dropped."""
    with harness(processed(TEN, side_output_late_data=LATE)) as driver:
        driver.process_watermark(9)
        driver.process_elements(elements(2, 11))
        assert [("k", 2)] == driver.side_output(LATE)
        assert 0 == driver.metrics()["numLateRecordsDropped"]
        assert [((10, 20), [11])] == contents(driver.end_of_input())


def test_an_element_that_is_late_for_some_windows_only_is_not_late():
    """It is in the others."""
    operator = processed(SlidingEventTimeWindows.of(10, 5), side_output_late_data=LATE)
    with harness(operator) as driver:
        driver.process_watermark(12)
        driver.process_elements(elements(7))
        assert [] == driver.side_output(LATE)
        assert [((5, 15), [7])] == contents(driver.end_of_input())


@pytest.mark.parametrize(("lateness", "late"), [(0, [("k", 8)]), (1, [("k", 8)]), (2, [])])
def test_an_element_in_no_window_is_late_if_it_is_late(lateness, late):
    """Gaps between windows: in time it is dropped without a word, too late it is late data."""
    operator = processed(
        SlidingEventTimeWindows.of(2, 5), allowed_lateness=lateness, side_output_late_data=LATE
    )
    with harness(operator) as driver:
        driver.process_elements(elements(8))
        driver.process_watermark(9)
        driver.process_elements(elements(8))
        assert late == driver.side_output(LATE)
        assert 0 == driver.metrics()["numLateRecordsDropped"]


@pytest.mark.parametrize(("watermark", "is_late"), [(13, False), (14, True)])
def test_allowed_lateness_ends_when_the_watermark_reaches_it(watermark, is_late):
    """At the last time of the window plus the lateness."""
    with harness(processed(TEN, allowed_lateness=5, side_output_late_data=LATE)) as driver:
        driver.process_elements(elements(1))
        driver.process_watermark(watermark)
        driver.process_elements(elements(2))
        assert is_late == bool(driver.side_output(LATE))
        assert [1] if is_late else [1, 2] == [len(each[2]) for each in driver.output]


def test_allowed_lateness_has_no_effect_by_the_clock():
    """Windows of processing time end at their end."""
    with harness(processed(TumblingProcessingTimeWindows.of(10), allowed_lateness=100)) as driver:
        driver.process_element(("k", 1))
        assert 1 == len(driver.set_processing_time(9))
        assert is_empty(driver)


def test_a_lateness_beyond_the_end_of_time():
    """The window is there until the end of the input."""
    with harness(processed(TEN, allowed_lateness=MAX_WATERMARK)) as driver:
        driver.process_elements(elements(1))
        driver.process_watermark(MAX_WATERMARK - 1)
        driver.process_elements(elements(2))
        assert [1, 2] == [len(each[2]) for each in driver.output]


def test_lateness_is_checked():
    """An int of ms or a length of time, not negative."""
    with pytest.raises(DeclarationValueError, match="cannot be negative"):
        window(TEN).allowed_lateness(-1)
    with pytest.raises(DeclarationTypeError):
        window(TEN).allowed_lateness("5")
    with pytest.raises(DeclarationTypeError, match="OutputTag"):
        window(TEN).side_output_late_data("late")


# Merging


@on_both_backends
def test_sessions_bridged_by_a_late_comer(backend):
    """Both sessions become one: the earlier one's elements first, then the other's, then it."""
    with harness(processed(SESSIONS), state_backend=backend) as driver:
        driver.process_elements(elements(1, 3, 10, 12, 6))
        assert [((1, 17), [1, 3, 10, 12, 6])] == contents(driver.end_of_input())
        assert is_empty(driver)


@on_both_backends
def test_a_bridged_aggregate_is_merged(backend):
    """With `merge` (quirk Q13 of PyFlink, which loses what all but one of the sessions held)."""
    operator = window(SESSIONS).aggregate(Sum(), accumulator_type=Types.LONG())
    with harness(operator, state_backend=backend) as driver:
        driver.process_elements(elements(1, 10, 5))
        assert [16] == driver.end_of_input()


def test_a_bridged_reduction_is_reduced():
    """In the order of the sessions."""
    joined = window(SESSIONS).reduce(lambda one, other: ("k", f"{one[1]}{other[1]}"))
    with harness(joined) as driver:
        driver.process_elements(
            [(("k", letter), time) for letter, time in (("a", 1), ("c", 10), ("b", 5))]
        )
        assert [("k", "acb")] == driver.end_of_input()


def test_sessions_that_touch_are_one():
    """[0, 5) and [5, 10)."""
    assert [((0, 10), [0, 5])] == contents(streamed(processed(SESSIONS), [("k", 0), ("k", 5)]))


def test_a_session_grows_to_the_front():
    """By an element before it."""
    with harness(processed(SESSIONS)) as driver:
        driver.process_elements(elements(10, 7))
        assert [((7, 15), [10, 7])] == contents(driver.end_of_input())


def test_a_late_session_is_not_begun():
    """An element whose own session is over is late, unless it meets one that is open."""
    with harness(processed(SESSIONS, side_output_late_data=LATE)) as driver:
        driver.process_elements(elements(20))
        driver.process_watermark(18)
        driver.process_elements(elements(5, 17))
        assert [("k", 5)] == driver.side_output(LATE)
        assert [((17, 25), [20, 17])] == contents(driver.end_of_input())
        assert is_empty(driver)


def test_a_session_that_fired_grows_within_the_lateness():
    """It fires again as a larger one; nothing of the smaller one fires any more."""
    with harness(processed(SESSIONS, allowed_lateness=10)) as driver:
        driver.process_elements(elements(1))
        driver.process_watermark(6)
        driver.process_elements(elements(4))
        assert [((1, 6), [1])] == contents(driver.output)
        assert [((1, 9), [1, 4])] == contents(driver.process_watermark(8))
        assert [] == driver.process_watermark(100)
        assert is_empty(driver)


def test_equal_sessions_keep_their_contents():
    """A later element whose own session is the merged one (Flink forgets the contents)."""

    class Second(SessionWindowTimeGapExtractor):
        def extract(self, element):
            return element[2]

    sessions = EventTimeSessionWindows.with_dynamic_gap(Second())
    given = [(("k", 1, 5), 0), (("k", 2, 6), 4), (("k", 3, 10), 0)]
    with harness(processed(sessions)) as driver:
        driver.process_elements(given)
        assert [[1, 2, 3]] == [[n for _, n, _ in each[2]] for each in driver.end_of_input()]


class Shrinking(MergingWindowAssigner):
    """Merges windows into one that is over."""

    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(timestamp, timestamp + 10)]

    def merge_windows(self, windows, callback):
        callback.merge(windows, TimeWindow(0, 1))

    def get_default_trigger(self, env=None):
        return SESSIONS.get_default_trigger()

    def get_window_serializer(self):
        return SESSIONS.get_window_serializer()

    def is_event_time(self):
        return True


def test_windows_cannot_merge_into_one_that_is_over():
    """Such an assigner is wrong, as Flink's UnsupportedOperationException says."""
    with harness(processed(Shrinking())) as driver:
        driver.process_watermark(5)
        with pytest.raises(DeclarationError, match="must not become earlier than now by merging"):
            driver.process_elements(elements(6, 7))


def test_keys_do_not_share_windows():
    """Nor sessions."""
    given = [(("a", 1), 1), (("b", 2), 2), (("a", 3), 3)]
    with harness(processed(SESSIONS)) as driver:
        driver.process_elements(given)
        fired = sorted(driver.end_of_input())
        assert [("a", (1, 8), [("a", 1), ("a", 3)]), ("b", (2, 7), [("b", 2)])] == fired


# Cost, and what is freed


@on_both_backends
def test_an_element_costs_the_same_whatever_is_in_the_window(backend):
    """What is logged of it is the element, and not the list: as much after 2,000 as after 20."""
    stream = Stream(
        processed(TumblingEventTimeWindows.of(10**9)), backend, 1, key_type=Types.LONG()
    )
    logged = []
    for size in (20, 1, 2_000, 1):
        records = Records([5] * size, [(5, 7)] * size, [7] * size)
        serve(stream.operator, stream.stores[0], 0, records)
        stream.operator.group.cache()
        logged.append(len(max(stream.stores[0].segments.items())[1]))
    stream.close()
    assert logged[1] == logged[3] < logged[0]


@on_both_backends
@pytest.mark.parametrize("assigner", [TEN, SlidingEventTimeWindows.of(10, 3), SESSIONS])
def test_nothing_is_left_of_windows_that_ended(assigner, backend):
    """Of whatever state, in a snapshot either."""
    with harness(processed(assigner, allowed_lateness=4), state_backend=backend) as driver:
        for time in range(0, 90, 9):
            driver.process_element((f"k{time % 2}", time), time)
            driver.process_watermark(time - 1)
        driver.process_watermark(1_000)
        assert is_empty(driver)
        assert b"window-contents" not in driver.snapshot()
