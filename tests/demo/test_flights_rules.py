# SPDX-License-Identifier: Apache-2.0
"""The rules of the example function, in the harness, on a few made-up flights."""

from datetime import datetime, timedelta

import pytest
from demo.flights import SILENT, LateAircraft

from pyflinklike import Row
from pyflinklike.testing import KeyedProcessHarness

HOUR = 3_600_000
DAY = 24 * HOUR
EPOCH = datetime(1970, 1, 1)


def flight(delay, tailnum="N1"):
    """A flight of an aircraft with its delay in minutes."""
    return Row(tailnum=tailnum, flight="XY1", origin="JFK", dest="LAX", delay=delay)


@pytest.fixture
def harness():
    """The function keyed by aircraft."""
    with KeyedProcessHarness(LateAircraft(), key_selector=lambda row: row.tailnum) as harness:
        yield harness


def alerts_of(harness):
    """Who was alerted of, and when in ms."""
    return [(row[0], (row[1] - EPOCH) // timedelta(milliseconds=1)) for row in harness.output]


def silences_of(harness):
    """Who went silent, and the time of the last flight before in ms."""
    return [
        (row.tailnum, (row.last_departure - EPOCH) // timedelta(milliseconds=1))
        for row in harness.side_output(SILENT)
    ]


def fly(harness, *flights, watermark_follows=False):
    """Process flights given as (time in ms, delay)."""
    for time, delay in flights:
        harness.process_element(flight(delay), time)
        if watermark_follows:
            harness.process_watermark(time)


def test_the_third_late_flight_running_raises_an_alert(harness):
    """It tells the aircraft, the flight and its delay."""
    fly(harness, (0, 20), (HOUR, 15), (2 * HOUR, 99))

    assert [("N1", EPOCH + timedelta(hours=2), "XY1", "JFK-LAX", 99)] == harness.output


def test_a_delay_below_the_limit_is_not_late(harness):
    """15 minutes are late, 14 are not."""
    fly(harness, (0, 15), (1, 15), (2, 14))

    assert [] == harness.output


def test_a_flight_on_time_breaks_the_streak(harness):
    """Three late flights with one on time among them are not three running."""
    fly(harness, (0, 20), (1, 20), (2, -5), (3, 20))

    assert [] == harness.output


def test_a_streak_raises_one_alert(harness):
    """The fourth late flight running adds nothing; a new streak does."""
    fly(harness, *[(time, 20) for time in range(5)], (5, 0), *[(time, 20) for time in range(6, 9)])

    assert [("N1", 2), ("N1", 8)] == alerts_of(harness)


def test_aircraft_do_not_mix(harness):
    """State is per key."""
    for time, tailnum in enumerate(["N1", "N2", "N1", "N2", "N1"]):
        harness.process_element(flight(20, tailnum), time)

    assert [("N1", 4)] == alerts_of(harness)


@pytest.mark.parametrize("watermark_follows", [False, True])
@pytest.mark.parametrize(("gap", "alerts"), [(7 * DAY - 1, 1), (7 * DAY, 0)])
def test_an_aircraft_is_forgotten_after_seven_days(harness, watermark_follows, gap, alerts):
    """To the ms, whether TTL had a chance to remove the state or not."""
    fly(harness, (0, 20), (1, 20), (1 + gap, 20), watermark_follows=watermark_follows)

    assert alerts == len(harness.output)


@pytest.mark.parametrize("watermark_follows", [False, True])
@pytest.mark.parametrize(("gap", "silences"), [(7 * DAY - 1, []), (7 * DAY, [("N1", 5)])])
def test_a_silence_is_reported_once(harness, watermark_follows, gap, silences):
    """In the same words, whether the timer fires before the next flight or after it."""
    fly(harness, (5, 0), (5 + gap, 0), watermark_follows=watermark_follows)
    harness.process_watermark(5 + gap)
    harness.process_watermark(5 + gap + 7 * DAY - 1)

    assert silences == silences_of(harness)


def test_every_silence_is_reported(harness):
    """Several gaps of one aircraft, told at the end as in a batch."""
    fly(harness, (0, 0), (8 * DAY, 0), (9 * DAY, 0), (20 * DAY, 0))
    harness.end_of_input()

    assert [("N1", 0), ("N1", 9 * DAY), ("N1", 20 * DAY)] == silences_of(harness)


def test_flights_at_one_time_leave_one_timer(harness):
    """A timer is known by key and time."""
    fly(harness, (0, 0), (0, 0))

    assert 1 == harness.num_event_time_timers()


def test_the_state_of_a_silent_aircraft_is_removed(harness):
    """TTL keeps the state as small as the fleet that flies."""
    fly(harness, (0, 0))
    harness.process_watermark(7 * DAY)
    harness.compact()

    assert (0, 0) == (
        harness.num_keyed_state_entries("history"),
        harness.num_event_time_timers(),
    )


def test_a_restored_function_goes_on(harness):
    """The streak and the timer are in the snapshot."""
    fly(harness, (0, 20), (1, 20))
    restored = KeyedProcessHarness(
        LateAircraft(), key_selector=lambda row: row.tailnum, restore=harness.snapshot()
    )

    with restored:
        fly(restored, (2, 20))
        restored.end_of_input()

        assert ([("N1", 2)], [("N1", 2)]) == (alerts_of(restored), silences_of(restored))
