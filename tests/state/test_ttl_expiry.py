# SPDX-License-Identifier: Apache-2.0
"""When an entry expires: at exactly its stamp plus the TTL, in every corner."""

from ttl_support import (
    NEVER,
    all_corners,
    both_update_types,
    builder,
    call,
    expiring,
    holding_one,
    reads,
    value,
)

from pyflinklike import MAX_WATERMARK, StateTtlConfig


@reads
@all_corners
def test_an_entry_is_alive_until_its_last_millisecond(read, corner):
    """Written at 0 with a TTL of 100, it is alive at 99."""
    state = holding_one(read.kind, corner)
    assert read.seen == call(state.at(99), read.read)
    assert 1 == state.entries()


@reads
@both_update_types
def test_an_entry_is_expired_from_its_boundary_on(read, update):
    """Written at 0 with a TTL of 100, it is expired at 100."""
    state = holding_one(read.kind, (update, NEVER))
    assert read.gone == call(state.at(100), read.read)


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
