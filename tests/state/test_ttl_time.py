# SPDX-License-Identifier: Apache-2.0
"""Which time a TTL follows, and where it ends: processing time, or the watermark and nothing else."""

import pytest
from probe import drive
from ttl_support import NEVER, READ_WRITE, WRITE, builder, expiring, value

from pyflinklike import MAX_WATERMARK, StateTtlConfig


def by_event_time(kind=value, corner=(WRITE, NEVER)):
    """A driver of a state whose TTL follows the watermark."""
    return expiring(kind, builder(corner).use_event_time().disable_cleanup_in_background().build())


def test_an_event_time_ttl_follows_the_watermark():
    """Stamped at watermark 0 it is alive at 99 and expired at 100."""
    state = by_event_time().at_watermark(0)
    state.update(1)
    assert 1 == state.at_watermark(99).value()
    assert None is state.at_watermark(100).value()


def test_an_event_time_ttl_does_not_follow_the_processing_time():
    """However late it is."""
    state = by_event_time().at_watermark(0)
    state.update(1)
    assert 1 == state.at(10**9).value()


def test_a_processing_time_ttl_does_not_follow_the_watermark():
    """However far it is."""
    state = expiring(value)
    state.update(1)
    assert 1 == state.at_watermark(10**9).value()


def test_an_entry_written_ahead_of_the_watermark_does_not_die_young():
    """It is stamped with the time of its element."""
    state = by_event_time().at_watermark(0).stamped(500)
    state.update(1)
    assert 1 == state.at_watermark(599).value()
    assert None is state.at_watermark(600).value()


def test_an_entry_written_late_is_stamped_with_the_watermark():
    """The larger of both times counts."""
    state = by_event_time().at_watermark(500).stamped(0)
    state.update(1)
    assert 1 == state.at_watermark(599).value()
    assert None is state.at_watermark(600).value()


def test_nothing_expires_before_the_first_watermark():
    """Nothing is known of the time yet."""
    state = by_event_time().stamped(0)
    state.update(1)
    assert 1 == state.stamped(10**9).value()


def test_an_entry_written_before_any_time_is_known_stays_until_it_is_written_again():
    """It cannot be said to grow old: neither a watermark nor an element told the time."""
    state = by_event_time()
    state.update(1)
    assert 1 == state.at_watermark(10**9).value()
    state.update(2)
    assert None is state.at_watermark(10**9 + 100).value()


def test_a_read_refreshes_an_event_time_stamp():
    """Under OnReadAndWrite, to the time of the reading element."""
    state = by_event_time(corner=(READ_WRITE, NEVER)).at_watermark(0).stamped(0)
    state.update(1)
    assert 1 == state.stamped(80).value()
    assert 1 == state.stamped(None).at_watermark(179).value()


@pytest.mark.parametrize(("register", "time"), [("processing", 10**6), ("event", 5)])
def test_a_timer_stamps_an_event_time_entry_with_the_watermark(register, time):
    """The time of a processing timer is no event time, and that of the last element is over."""
    descriptor = value()
    descriptor.enable_time_to_live(builder().use_event_time().build())
    state = drive(descriptor, on_timer=lambda state, _time, _ctx: state.update(1))
    name = f"register_{register}_time_timer"
    state.stamped(50).run(lambda _, ctx: getattr(ctx.timer_service(), name)(time))
    state.at_watermark(10).at(10**9)
    state.at_watermark(109)
    assert 1 == state.value()
    assert None is state.at_watermark(110).value()


# The ends of time


def test_a_ttl_that_overflows_saturates():
    """An entry that would expire after the end of time expires at the end of time."""
    state = expiring(value, builder(ttl=MAX_WATERMARK).build()).at(10)
    state.update(1)
    assert 1 == state.at(MAX_WATERMARK - 1).value()
    assert None is state.at(MAX_WATERMARK).value()


def test_a_ttl_on_a_negative_time_does_not_overflow():
    """Before the epoch there is nothing to clamp."""
    state = expiring(value, builder(ttl=MAX_WATERMARK).build()).at(-10)
    state.update(1)
    assert 1 == state.at(MAX_WATERMARK - 11).value()
    assert None is state.at(MAX_WATERMARK - 10).value()


def test_a_clock_that_goes_back_lets_state_live_longer():
    """There is no monotonic guard, and a write then stamps the smaller time."""
    state = expiring(value).at(1000)
    state.update(1)
    assert 1 == state.at(500).value()
    state.update(2)
    assert 2 == state.at(599).value()
    assert None is state.at(600).value()


def test_a_disabled_ttl_is_none():
    """UpdateType.Disabled expires nothing."""
    state = expiring(value, StateTtlConfig.DISABLED)
    state.update(1)
    assert 1 == state.at(MAX_WATERMARK).value()


def test_the_time_of_a_key_does_not_count_for_another():
    """Each key has its own stamp."""
    state = expiring(value)
    state.update(1)
    state.of("b").at(50).update(2)
    assert (None, 2) == (state.at(100).value(), state.of("b").value())
