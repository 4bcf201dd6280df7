# SPDX-License-Identifier: Apache-2.0
"""The window operator step by step: lateness, merging, what is freed."""

from __future__ import annotations

import pytest
from stream_support import BACKENDS, Stream
from window_support import contents, elements, harness, is_empty, processed

from pyflinklike import (
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
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    window,
)

TEN = TumblingEventTimeWindows.of(10)
SESSIONS = EventTimeSessionWindows.with_gap(5)
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
