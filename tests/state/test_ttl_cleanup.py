# SPDX-License-Identifier: Apache-2.0
"""Background cleanup: incremental, at every record, at a compaction, and in full snapshots."""

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

OFF = builder().disable_cleanup_in_background().build()


def many(config, kind=value, keys=200):
    """A driver of a state in which so many keys expired, at time 100."""
    state = expiring(kind, config)
    for key in range(keys):
        call(state.of(key), PLAIN_READ[kind].write)
    return state.at(100)


NOTHING = ()
"""A record that does not access the state."""


@pytest.mark.parametrize(
    ("kind", "config", "access", "left"),
    [
        # The default: each access looks at a few entries, whichever key it is of.
        *((kind, builder().build(), read.read, 0) for kind, read in PLAIN_READ.items()),
        (value, builder().build(), ("update", 1), 1),
        (value, builder().build(), ("clear",), 0),
        (map_, builder().build(), ("put", "u", 1), 1),
        *(
            (map_, builder().build(), access, 0)
            for access in (("put_all", {}), ("remove", "u"), ("contains", "u"), ("is_empty",))
        ),
        # In Flink only ValueState.clear() is an access.
        (map_, builder().build(), ("clear",), 200),
        *((kind, OFF, read.read, 200) for kind, read in PLAIN_READ.items()),
        # Only defaults are disabled.
        (
            value,
            builder().cleanup_incrementally(5, False).disable_cleanup_in_background().build(),
            ("value",),
            0,
        ),
        (value, builder().cleanup_incrementally(3, True).build(), NOTHING, 0),
        (value, builder().cleanup_incrementally(3, False).build(), NOTHING, 200),
    ],
)
def test_what_an_access_of_another_key_cleans(kind, config, access, left):
    """Of 200 expired entries of other keys, after 200 accesses."""
    state = many(config, kind)
    for _ in range(200):
        if access is NOTHING:
            state.run(lambda _state, _ctx: None)
        else:
            call(state.of("other"), access)
    assert left == state.entries()


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
        (1, builder().build()),
        (201, OFF),
        (
            1,
            builder()
            .cleanup_in_rocksdb_compact_filter(1000)
            .disable_cleanup_in_background()
            .build(),
        ),
    ],
    ids=["default", "disabled", "explicit"],
)
def test_compaction_drops_what_expired(entries, config):
    """Unless background cleanup is disabled and nothing explicit is set; what is alive stays."""
    state = many(config)
    state.at(99).of("alive").update(2)
    state.at(100).harness.compact()
    assert (entries, 2) == (state.entries(), state.of("alive").value())


# Full snapshots


FILTERED = builder().cleanup_full_snapshot().disable_cleanup_in_background().build()


@pytest.mark.parametrize(("config", "kept"), [(FILTERED, 1), (OFF, 2)], ids=["filtered", "not"])
@KINDS
def test_a_full_snapshot_leaves_expired_entries_out_if_it_is_told_to(kind, config, kept):
    """cleanup_full_snapshot() filters what is written, not what is stored."""
    state = expiring(kind, config)
    call(state, PLAIN_READ[kind].write)
    call(state.at(50).of("b"), PLAIN_READ[kind].write)
    restored = state.at(100).restored(kind())
    assert (2, kept) == (state.entries(), restored.entries())
    assert PLAIN_READ[kind].seen == call(restored.of("b"), PLAIN_READ[kind].read)


@pytest.mark.parametrize(
    ("kind", "write", "read", "kept"),
    [
        # Everything from the first alive element on is kept, expired or not.
        (list_, lambda state, each: state.add(each), "get", [3, 4, 5]),
        (map_, lambda state, each: state.put(str(each), each), "values", [3, 5]),
    ],
)
def test_a_full_snapshot_drops_the_expired_prefix_of_a_list(kind, write, read, kept):
    """A map has no prefix: its entries are judged one by one."""
    state = expiring(kind, FILTERED)
    for time, each in [(0, 1), (0, 2), (50, 3), (0, 4), (50, 5)]:
        write(state.at(time), each)
    assert kept == getattr(state.at(100).restored(kind()), read)()
