# SPDX-License-Identifier: Apache-2.0
"""When Spark is to call a key group without records, and which of its timers is there for that."""

import attrs
import pytest

from pyflinklike._changelog.log_storage import Head
from pyflinklike._clock import MAX_WATERMARK, TimeDomain
from pyflinklike._runtime.micro_batch import BatchResult
from pyflinklike.spark._host.wake_up import find_wanted_call, replace_timer
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.state_processor._logs.column_values import BatchClock

EVENT, PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME


class Timers:
    """The timers that Spark holds for a key group."""

    def __init__(self, *times):
        self.times = set(times)

    def deleteTimer(self, time):
        self.times.remove(time)

    def registerTimer(self, time):
        self.times.add(time)


def timers_after(held, former, now, fired=None):
    """What Spark holds once a head that wakes at `former` has become one that wakes at `now`."""
    blank = Head.blank(4)
    heads = [
        None if each == "none" else attrs.evolve(blank, wake_at=each) for each in (former, now)
    ]
    timers = Timers(*held)
    replace_timer(timers, BatchResult(*heads), fired)
    return timers.times


@pytest.mark.parametrize(
    ("watermark", "first", "expected"),
    [(700, 1_900, 1_900), (700, 301, 701), (700, 700, 701), (-5, -20, 1), (MAX_WATERMARK, 9, None)],
    ids=["later", "overdue", "due", "before the first event", "at the end"],
)
def test_an_event_timer_calls_once_the_watermark_has_moved(watermark, first, expected):
    """For a time that has come, Spark would call again in the same micro-batch."""
    times = BatchClock(50, watermark)
    assert expected == find_wanted_call(TimeMode.EVENT_TIME, times, {EVENT: first})


@pytest.mark.parametrize(
    ("earliest", "expected"),
    [({EVENT: 90_000}, 51), ({PROCESSING: 75}, 75), ({PROCESSING: 40}, 51), ({}, None)],
    ids=["event", "processing", "overdue", "none"],
)
def test_at_triggers_an_event_timer_needs_the_next_micro_batch(earliest, expected):
    """Its watermark may fire the timer, and Spark calls by the processing time alone."""
    assert expected == find_wanted_call(TimeMode.PROCESSING_TIME, BatchClock(50, 700), earliest)


def test_a_call_that_moves_takes_its_old_timer_away():
    """A key group has one timer of Spark."""
    assert {901} == timers_after([307], former=307, now=901)


def test_the_timer_that_fires_is_left_to_spark():
    """Spark deletes it itself: the state operator fails where it is gone."""
    assert {307, 901} == timers_after([307], former=307, now=901, fired=int("307"))


def test_another_timer_than_the_one_that_fires_is_taken_away():
    """Of a key group called late: its head wakes at another time than Spark's timer says."""
    assert {901} == timers_after([1_307], former=1_307, now=901, fired=1_306)


def test_the_last_timer_of_a_key_group_goes_with_it():
    """Nothing is left of a key group without state."""
    assert set() == timers_after([1_307], former=1_307, now="none")
