# SPDX-License-Identifier: Apache-2.0
"""A key group that begins with a savepoint in several segments: each is added to what is there."""

from __future__ import annotations

import pytest
from probe import Probe, Record
from stream_support import BACKENDS, READ, Stream, act, five_states

from pyflinklike import HashMapStateBackend, StateTtlConfig
from pyflinklike._changelog.entry_codec import rows_in
from pyflinklike._changelog.segment_chain import sections_of
from pyflinklike.state_processor._logs.checkpoint_logs import read_log

KEYS = [f"key {n}" for n in range(9)]


def found(stream, now=0):
    """What the states of each key are."""
    return {
        key: read for key, *_, read in stream.batch([Record(key, READ) for key in KEYS], now, 0)
    }


@pytest.fixture
def former():
    """A stream of which each key has something in every state, and timers."""
    stream = Stream(Probe(*five_states(None)), HashMapStateBackend(), 3)
    for what in ("write", "event timer", "processing timer"):
        stream.batch([Record(key, act(what, n)) for n, key in enumerate(KEYS, 3)], 0, 0)
    return stream


@pytest.mark.parametrize("states", [five_states(None), []], ids=["declared", "not declared"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_each_entry_is_logged_once(former, backend, states):
    """However many segments a group is given in, none is written again for the next."""
    stream = Stream(Probe(*states), backend, 2, savepoint=former.savepoint(), segment_bytes=1)
    segments = [len(store.segments) for store in stream.stores]

    assert min(segments) == 7 * 4  # five states and two kinds of timers, of four keys at least
    assert [0, 0] == [store.head.first_sequence for store in stream.stores]
    assert 7 * len(KEYS) == sum(segments) == sum(store.head.log_entries for store in stream.stores)


@pytest.mark.parametrize("backend", BACKENDS)
def test_states_that_nobody_declares_are_logged_as_they_are(former, backend):
    """Whoever goes on from the log finds them, whatever was done with the others meanwhile."""
    value, *others = five_states(None)
    without = Stream(Probe(value), backend, 2, savepoint=former.savepoint(), segment_bytes=1)
    without.batch([Record(key, lambda state, _: state.update([])) for key in KEYS], 0, 0)
    again = Stream(Probe(value, *others), backend, 5, savepoint=without.savepoint())

    assert {key: ([], *kept) for key, (_, *kept) in found(former).items()} == found(again)


def test_a_compaction_counts_the_entries_of_states_that_nobody_declares(former):
    """As whoever checks the log does; and it is due when the log has outgrown all of them."""
    value, *_ = five_states(None)
    stream = Stream(Probe(value), HashMapStateBackend(), 1, savepoint=former.savepoint())
    (store,) = stream.stores
    begun = store.head
    compacted = 0
    for number in range(200):
        numbers = [number] * 40
        stream.batch([Record("key 0", lambda state, _: state.update(numbers))], 0, 0)  # noqa: B023
        compacted += len(store.segments) == 1
        rows = sum(
            rows_in(section, "test")
            for log in [read_log(store.head, store.segments, "test")]
            for section in sections_of(log, "test")
        )
        assert rows == store.head.log_entries

    assert 7 * len(KEYS) == begun.log_entries == store.head.snapshot_entries
    assert 0 < compacted < 20


def test_entries_from_before_ttl_was_switched_on_are_logged_with_the_time_of_the_beginning(former):
    """Not stamped anew whenever they are read, as if they were used then."""
    ttl = StateTtlConfig.new_builder(10).build()
    stream = Stream(
        Probe(*five_states(ttl)),
        HashMapStateBackend(),
        2,
        savepoint=former.savepoint(),
        now=100,
        segment_bytes=1,
    )
    again = Stream(Probe(*five_states(ttl)), HashMapStateBackend(), 2, now=109)
    again.stores = stream.stores

    assert found(former) == found(again, 109)
    assert dict.fromkeys(KEYS, (None, [], [], None, None)) == found(again, 110)
