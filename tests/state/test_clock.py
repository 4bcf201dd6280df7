# SPDX-License-Identifier: Apache-2.0
import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike._clock import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    Clock,
    Duration,
    Time,
    TimeDomain,
    to_milliseconds,
)
from pyflinklike.errors import DeclarationTypeError


def test_min_watermark_is_flinks():
    """The watermark before any event is Java's Long.MIN_VALUE."""
    assert -9223372036854775808 == MIN_WATERMARK


def test_max_watermark_is_flinks():
    """The watermark after the last event is Java's Long.MAX_VALUE."""
    assert 9223372036854775807 == MAX_WATERMARK


def test_time_domains_have_pyflinks_values():
    """The members and values of TimeDomain are PyFlink's."""
    expected = {"EVENT_TIME": 0, "PROCESSING_TIME": 1}

    assert expected == {domain.name: domain.value for domain in TimeDomain}


def test_clock_starts_before_all_events():
    """A new clock stands at processing time 0 and before the first watermark."""
    assert Clock(processing_time=0, watermark=MIN_WATERMARK) == Clock()


def test_clock_is_moved_by_assignment():
    """A host moves its clock by assigning to it."""
    clock = Clock()

    clock.processing_time = 5
    clock.watermark = 3

    assert Clock(5, 3) == clock


def test_clock_has_no_other_hand():
    """Assigning to a misspelt attribute of the clock is an error."""
    clock = Clock()

    with pytest.raises(AttributeError):
        clock.processing_tme = 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("expected", "time"),
    [
        (7, Time(7)),
        (7, Time.milliseconds(7)),
        (2_000, Time.seconds(2)),
        (120_000, Time.minutes(2)),
        (7_200_000, Time.hours(2)),
        (172_800_000, Time.days(2)),
    ],
)
def test_time_is_in_milliseconds(expected, time):
    """Each way to make a Time gives its length in ms."""
    assert expected == time.to_milliseconds()


def test_time_prints_as_pyflinks():
    """The str of a Time is its ms with the unit."""
    assert "3600000 ms" == str(Time.hours(1))


def test_times_of_one_length_are_equal():
    """A Time is compared by its length, not by its unit."""
    assert Time.minutes(60) == Time.hours(1)


def test_times_of_one_length_have_one_hash():
    """A Time can be a key of a dict."""
    assert {Time.hours(1)} == {Time.minutes(60), Time.hours(1)}


def test_time_is_frozen():
    """A Time cannot be changed."""
    with pytest.raises(AttributeError):
        Time(1)._milliseconds = 2  # type: ignore[misc]


def test_time_survives_pickling():
    """A Time goes to the workers and stays the same."""
    assert Time(5) == pickle.loads(pickle.dumps(Time(5)))


@pytest.mark.parametrize(
    ("expected", "duration"),
    [
        (172_800_000, Duration.of_days(2)),
        (7_200_000, Duration.of_hours(2)),
        (120_000, Duration.of_minutes(2)),
        (2_000, Duration.of_seconds(2)),
        (7, Duration.of_millis(7)),
        (7, Duration.of_nanos(7_000_000)),
    ],
)
def test_duration_is_in_milliseconds(expected, duration):
    """Each way to make a Duration gives its length in ms."""
    assert expected == duration.to_milliseconds()


def test_duration_is_rounded_down():
    """What is left of a Duration below a ms is dropped."""
    assert 1 == Duration.of_nanos(1_999_999).to_milliseconds()


def test_negative_duration_is_rounded_down():
    """A Duration just below zero is -1 ms, as by Java's Duration.toMillis."""
    assert -1 == Duration.of_nanos(-1).to_milliseconds()


def test_durations_of_one_length_are_equal():
    """A Duration is compared by its length, not by its unit."""
    assert Duration.of_minutes(60) == Duration.of_hours(1)


def test_durations_of_one_length_have_one_hash():
    """A Duration can be a key of a dict."""
    assert {Duration.of_hours(1)} == {Duration.of_minutes(60), Duration.of_hours(1)}


def test_durations_below_a_millisecond_differ():
    """A Duration is exact, although it is asked for its ms."""
    assert Duration.of_nanos(1) != Duration.of_nanos(2)


def test_duration_survives_pickling():
    """A Duration goes to the workers and stays the same."""
    assert Duration.of_nanos(5) == pickle.loads(pickle.dumps(Duration.of_nanos(5)))


@pytest.mark.parametrize(
    "length",
    [Time.seconds(90), Duration.of_seconds(90), timedelta(seconds=90), 90_000],
    ids=lambda length: type(length).__name__,
)
def test_every_kind_of_length_is_taken(length):
    """A Time, a Duration, a timedelta and an int of ms all tell a length."""
    assert 90_000 == to_milliseconds(length)


def test_timedelta_is_rounded_down():
    """What is left of a timedelta below a ms is dropped."""
    assert 1 == to_milliseconds(timedelta(microseconds=1_999))


@given(st.integers(min_value=-(10**14), max_value=10**14))
def test_timedelta_is_exact(milliseconds):
    """No float comes between a timedelta and its ms, however long it is."""
    assert milliseconds == to_milliseconds(timedelta(milliseconds=1) * milliseconds)


@pytest.mark.parametrize("length", [None, True, 1.5, "1 h", Time(1.5), Time(True)], ids=repr)
def test_other_lengths_are_refused(length):
    """What is no length in whole ms is refused; a bool is not an int."""
    with pytest.raises(DeclarationTypeError):
        to_milliseconds(length)


def test_refusal_names_what_was_measured():
    """The message tells which duration was wrong, what was got, and what to write."""
    rule = "the gap must be a timedelta, Time, Duration or an int of ms, got '1 h'; "

    with pytest.raises(DeclarationTypeError, match=rule + "write for example timedelta"):
        to_milliseconds("1 h", "the gap")  # type: ignore[arg-type]
