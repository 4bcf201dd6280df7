# SPDX-License-Identifier: Apache-2.0
"""Points and lengths of time: clocks, `Time`, `Duration` and all that tells a length."""

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


def test_watermarks_and_time_domains_are_flinks():
    """Before any event Java's Long.MIN_VALUE, after the last one Long.MAX_VALUE."""
    assert (-9223372036854775808, 9223372036854775807) == (MIN_WATERMARK, MAX_WATERMARK)
    domains = {domain.name: domain.value for domain in TimeDomain}
    assert {"EVENT_TIME": 0, "PROCESSING_TIME": 1} == domains


def test_a_clock_is_moved_by_assignment():
    """It starts before all events; a misspelt attribute is an error."""
    clock = Clock()
    assert Clock(processing_time=0, watermark=MIN_WATERMARK) == clock
    clock.processing_time = 5
    clock.watermark = 3
    assert Clock(5, 3) == clock
    with pytest.raises(AttributeError):
        clock.processing_tme = 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("expected", "length"),
    [
        (7, Time(7)),
        (7, Time.milliseconds(7)),
        (2_000, Time.seconds(2)),
        (120_000, Time.minutes(2)),
        (7_200_000, Time.hours(2)),
        (172_800_000, Time.days(2)),
        (172_800_000, Duration.of_days(2)),
        (7_200_000, Duration.of_hours(2)),
        (120_000, Duration.of_minutes(2)),
        (2_000, Duration.of_seconds(2)),
        (7, Duration.of_millis(7)),
        (7, Duration.of_nanos(7_000_000)),
        # What is left below a ms is dropped, below zero too, as by Java's Duration.toMillis.
        (1, Duration.of_nanos(1_999_999)),
        (-1, Duration.of_nanos(-1)),
        (1, timedelta(microseconds=1_999)),
        (90_000, timedelta(seconds=90)),
        (90_000, 90_000),
    ],
    ids=repr,
)
def test_a_length_is_in_milliseconds(expected, length):
    """A Time, a Duration, a timedelta and an int of ms all tell one."""
    assert expected == to_milliseconds(length)
    if isinstance(length, (Time, Duration)):
        assert expected == length.to_milliseconds()


def test_lengths_are_values():
    """Compared by length and not by unit, exact below a ms, frozen, pickled, shown as PyFlink's."""
    assert {Time.hours(1)} == {Time.minutes(60), Time.hours(1)}
    assert {Duration.of_hours(1)} == {Duration.of_minutes(60), Duration.of_hours(1)}
    assert Duration.of_nanos(1) != Duration.of_nanos(2)
    both = Time(5), Duration.of_nanos(5)
    assert (both, "3600000 ms") == (pickle.loads(pickle.dumps(both)), str(Time.hours(1)))
    with pytest.raises(AttributeError):
        Time(1)._milliseconds = 2  # type: ignore[misc]


@given(st.integers(min_value=-(10**14), max_value=10**14))
def test_timedelta_is_exact(milliseconds):
    """No float comes between a timedelta and its ms, however long it is."""
    assert milliseconds == to_milliseconds(timedelta(milliseconds=1) * milliseconds)


@pytest.mark.parametrize("length", [None, True, 1.5, "1 h", Time(1.5), Time(True)], ids=repr)
def test_other_lengths_are_refused(length):
    """A bool is not an int; the message tells which duration was wrong, and what to write."""
    rule = "the gap must be a timedelta, Time, Duration or an int of ms, got .*write for example"
    with pytest.raises(DeclarationTypeError, match=rule):
        to_milliseconds(length, "the gap")
