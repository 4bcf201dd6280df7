# SPDX-License-Identifier: Apache-2.0
"""Background cleanup: incremental, at every record, and at a compaction."""

import pytest
from probe import Record, drive
from ttl_support import (
    KINDS,
    PLAIN_READ,
    RELAXED,
    WRITE,
    builder,
    call,
    expiring,
    list_,
    map_,
    value,
)

from pyflinklike import Types, ValueStateDescriptor


def many(config, kind=value, keys=200):
    """A driver of a state in which so many keys expired, at time 100."""
    state = expiring(kind, config)
    for key in range(keys):
        call(state.of(key), PLAIN_READ[kind].write)
    return state.at(100)


@KINDS
def test_the_default_cleanup_empties_a_state_that_is_accessed(kind):
    """Each access of the state looks at a few entries, whichever key it is of."""
    state = many(builder().build(), kind)
    for _ in range(200):
        call(state.of("other"), PLAIN_READ[kind].read)
    assert 0 == state.entries()


@KINDS
def test_without_background_cleanup_what_is_not_read_stays(kind):
    """disable_cleanup_in_background() drops the default."""
    state = many(builder().disable_cleanup_in_background().build(), kind)
    for _ in range(200):
        call(state.of("other"), PLAIN_READ[kind].read)
    assert 200 == state.entries()


def test_an_explicit_incremental_cleanup_survives_disabling():
    """Only defaults are disabled."""
    config = builder().cleanup_incrementally(5, False).disable_cleanup_in_background().build()
    state = many(config)
    for _ in range(200):
        state.of("other").value()
    assert 0 == state.entries()


@pytest.mark.parametrize(
    "access", [("update", 1), ("value",), ("clear",)], ids=lambda access: access[0]
)
def test_any_access_of_a_value_state_cleans(access):
    """clear() too."""
    state = many(builder().build())
    for _ in range(200):
        call(state.of("other"), access)
    assert state.entries() <= 1


@pytest.mark.parametrize(
    "access",
    [("put", "u", 1), ("put_all", {}), ("remove", "u"), ("contains", "u"), ("is_empty",)],
    ids=lambda access: access[0],
)
def test_any_access_of_a_map_state_cleans(access):
    """is_empty() and remove() too."""
    state = many(builder().build(), map_)
    for _ in range(200):
        call(state.of("other"), access)
    assert state.entries() <= 1


def test_clear_of_another_state_than_a_value_cleans_nothing():
    """In Flink only ValueState.clear() is an access."""
    state = many(builder().build(), map_)
    for _ in range(200):
        state.of("other").clear()
    assert 200 == state.entries()


def test_cleanup_leaves_what_is_alive():
    """Only the expired keys go."""
    state = many(builder().build())
    for key in range(10):
        state.of(key).update(2)
    for _ in range(200):
        state.of("other").value()
    assert 10 == state.entries()
    assert [2] * 10 == [state.of(key).value() for key in range(10)]


def test_cleanup_rewrites_a_list_of_mixed_ages():
    """Its expired elements go, the others keep their order."""
    state = expiring(list_, builder((WRITE, RELAXED)).build())
    state.add(1)
    state.at(50).add_all([2, 3])
    state.at(100)
    for _ in range(10):
        state.of("other").get()
    assert ([2, 3], 2) == (state.get(), state.entries())


def test_cleanup_of_one_state_leaves_another_alone():
    """The steps belong to the state that is accessed."""
    swept, other = value(), ValueStateDescriptor("t", Types.LONG())
    for descriptor in (swept, other):
        descriptor.enable_time_to_live(builder().build())
    both = drive(swept, other)
    for key in range(20):
        both.of(key).run(lambda states, _: [state.update(1) for state in states])
    both.at(100)
    for _ in range(50):
        both.of("other").run(lambda states, _: states[0].value())
    assert (0, 20) == (both.entries("s"), both.entries("t"))


def test_a_state_cleaned_at_every_record_need_not_be_accessed():
    """cleanup_incrementally(n, True) takes a step at each record."""
    state = many(builder().cleanup_incrementally(3, True).build())
    for _ in range(200):
        state.run(lambda _state, _ctx: None)
    assert 0 == state.entries()


def test_a_state_not_cleaned_at_every_record_waits_for_an_access():
    """cleanup_incrementally(n, False) takes a step at each access only."""
    state = many(builder().cleanup_incrementally(3, False).build())
    for _ in range(200):
        state.run(lambda _state, _ctx: None)
    assert 200 == state.entries()


def test_a_large_state_is_cleaned_as_well():
    """However many keys there are."""
    state = many(builder().build(), keys=3_000)
    state.harness.process_elements(
        (Record("other", lambda state, _: state.value()), None) for _ in range(3_000)
    )
    assert 0 == state.entries()


def test_a_single_expired_entry_is_still_returned_once_with_cleanup_on():
    """The default cleanup does not get ahead of the first relaxed read."""
    state = expiring(value, builder((WRITE, RELAXED)).build())
    state.update(1)
    assert (1, None) == (state.at(500).value(), state.value())


@pytest.mark.parametrize(
    ("entries", "config"),
    [
        (0, builder().build()),
        (200, builder().disable_cleanup_in_background().build()),
        (
            0,
            builder()
            .cleanup_in_rocksdb_compact_filter(1000)
            .disable_cleanup_in_background()
            .build(),
        ),
    ],
    ids=["default", "disabled", "explicit"],
)
def test_compaction_drops_what_expired(entries, config):
    """Unless background cleanup is disabled and nothing explicit is set."""
    state = many(config)
    state.harness.compact()
    assert entries == state.entries()


def test_compaction_leaves_what_is_alive():
    """It judges by the same rule."""
    state = expiring(value, builder().build())
    state.update(1)
    state.of("b").at(50).update(2)
    state.at(100).harness.compact()
    assert (1, 2) == (state.entries(), state.of("b").value())
