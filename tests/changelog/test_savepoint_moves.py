# SPDX-License-Identifier: Apache-2.0
"""Going on from a savepoint in another place is going on."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probe import Probe, Record, drive
from stream_support import BACKENDS, READ, STRING, Harness, Stream, act, dump, five_states

from pyflinklike import HashMapStateBackend, StateTtlConfig


def on_timer(states: Any, timestamp: int, ctx: Any) -> Any:
    """Says which it is, and writes."""
    states[3].add(f"@{timestamp};")
    return ctx.get_current_key(), timestamp, ctx.time_domain().name, dump(states)


ACTIONS = ["write", "write", "clear", "remove", "event timer", "processing timer", "delete timers"]
RECORDS = st.builds(
    lambda key, what, n: Record(key, act(what, n)),
    st.sampled_from("abcd"),
    st.sampled_from(ACTIONS),
    st.integers(0, 12),
)
TTLS = st.none() | st.builds(
    lambda ms, on_read: (
        StateTtlConfig.new_builder(ms)
        .set_update_type(
            StateTtlConfig.UpdateType.OnReadAndWrite
            if on_read
            else StateTtlConfig.UpdateType.OnCreateAndWrite
        )
        .disable_cleanup_in_background()
        .build()
    ),
    st.integers(1, 6),
    st.booleans(),
)
MOVES = st.none() | st.tuples(
    st.sampled_from([Stream, partial(Stream, segment_bytes=1), Harness]),
    st.sampled_from([each.values[0] for each in BACKENDS if each.values[0]]),
    st.sampled_from([1, 2, 5, 64]),
)


@settings(max_examples=settings().max_examples // 2)
@given(
    ttl=TTLS,
    batches=st.lists(
        st.tuples(MOVES, st.lists(RECORDS, max_size=6), st.integers(0, 3)), max_size=6
    ),
)
def test_going_on_elsewhere_is_going_on(ttl, batches):
    """Whatever is done, between any two batches state moves to another host, backend and max_parallelism."""

    def probe():
        return Probe(*five_states(ttl), on_timer=on_timer)

    now = 0
    model = Harness(probe(), None, 128, None, 0)
    place = Harness(probe(), None, 128, None, 0)
    for move, records, passed in batches:
        if move is not None:
            host, backend, max_parallelism = move
            blob = place.savepoint()
            place.close()
            place = host(probe(), backend, max_parallelism, savepoint=blob, now=now)
        now += passed
        expected = model.batch(records, now, now)
        assert sorted(expected, key=repr) == sorted(place.batch(records, now, now), key=repr)
    place.close()


@pytest.mark.parametrize("key_type", [None, STRING], ids=["keys converted", "keys as stored"])
def test_a_savepoint_is_replayed_in_order(key_type):
    """Clearings, removals and what was written after them, each in a segment of its own, of several key groups."""
    written = [act("write", n) for n in (1, 2, 3)]
    cleared = [act("clear", n) for n in range(5)]
    scripts = {
        "a": [*written, *cleared],
        "b": [*written, *cleared, *written],
        "c": [*written, act("remove", 1), act("write", 4)],
        "d": [*written, act("remove", 2), act("event timer", 7), act("delete timers", 7)],
        "e": [act("event timer", 7), act("processing timer", 8), act("write", 9)],
    }
    stream = Stream(Probe(*five_states(None), on_timer=on_timer), HashMapStateBackend(), 3)
    found = {}
    for step in range(11):
        records = [Record(key, mine[step]) for key, mine in scripts.items() if step < len(mine)]
        found.update({result[0]: result[-1] for result in stream.batch(records, 0, 0)})
    assert all(len(store.segments) > 2 for store in stream.stores)

    blob = stream.savepoint()
    moved = Stream(Probe(*five_states(None)), HashMapStateBackend(), 7, savepoint=blob)
    for savepoint in (blob, moved.savepoint()):
        again = drive(*five_states(None), restore=savepoint, key_type=key_type, on_timer=on_timer)
        assert found == {key: again.of(key).run(READ)[-1] for key in scripts}
        assert ["e"] == [fired[0] for fired in again.harness.process_watermark(9)]
        assert ["e"] == [fired[0] for fired in again.harness.set_processing_time(9)]
