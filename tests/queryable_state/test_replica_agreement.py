# SPDX-License-Identifier: Apache-2.0
"""What a replica answers is what the function would read in the batch it names, whatever was written.

The function itself is the oracle: the same reads in an operator over a copy of the log.
"""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_support import FollowedQuery, replica_of
from stream_support import five_states

from pyflinklike import ListStateDescriptor, StateTtlConfig, Time, Types

KEYS = ["a", "b", "c", "d"]
TTL = StateTtlConfig.UpdateType, StateTtlConfig.StateVisibility
FEW = settings(max_examples=max(settings().max_examples // 16, 3))


def do(what, n):
    """What a record does to the states, by name."""

    def act(on):
        if what == "write":
            on["value"].update([*(on["value"].value() or []), n])
            on["list"].add((f"{n}", n))
            on["map"].put(f"m{n % 3}", [n])
            on["reducing"].add(f"{n};")
            on["aggregating"].add(n)
        elif what == "clear":
            list(on.values())[n % 5].clear()
        elif what == "remove":
            on["map"].remove(f"m{n % 3}")
            on["list"].update([row for row in on["list"] if row.n % 2])

    return act


def read(on):
    """All that a key has, as a replica shows it."""
    state = on["aggregating"]
    folded = state._table.get(None)  # the accumulator, which no verb of the state shows
    shown = {
        "value": on["value"].value(),
        "list": list(on["list"]) or None,
        "map": dict(on["map"].items()) or None,
        "reducing": on["reducing"].get(),
        "aggregating": state._thaw(folded) if folded else None,
    }
    return copy.deepcopy(shown)


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.sampled_from(["write", "write", "clear", "remove"]),
        st.integers(0, 6),
    ),
    max_size=4,
)
BATCHES = st.lists(st.tuples(RECORDS, st.integers(0, 3), st.booleans(), st.booleans()), max_size=5)


def ttl_of(update, visibility):
    """One of 10 ms, by either clock."""
    ttl = StateTtlConfig.new_builder(Time.milliseconds(10))
    return ttl.set_update_type(update).set_state_visibility(visibility).build()


TTLS = [
    None,
    *(ttl_of(update, visibility) for update in list(TTL[0])[1:] for visibility in TTL[1]),
]


@pytest.mark.parametrize("ttl", TTLS, ids=str)
@given(batches=BATCHES, cache=st.sampled_from([0, 3000, 6000, 2**20]))
@FEW
def test_a_replica_reads_as_the_function_does(ttl, batches, cache):
    """After each batch and twice: a read of an expired or renewed entry leaves nothing behind."""
    query = FollowedQuery(five_states(ttl))
    query.batch([("a", do("write", 1))])
    with replica_of(query, cache_bytes=cache) as replica:
        for records, later, compact, refreshes in batches:
            acts = [(key, do(what, n)) for key, what, n in records]
            query.batch(acts, query.now + 4 * later, compact=compact)
            if not refreshes:
                continue
            replica.refresh()
            expected = {key: query.ask(key, read) for key in KEYS}
            for key in KEYS + KEYS:
                found = {name: replica[name].get(key) for name in expected[key]}
                assert expected[key] == found, key
        assert 0 == replica.metrics.reopens


@given(batches=BATCHES)
@FEW
def test_a_snapshot_stays_at_its_batch(batches):
    """Snapshots of all batches are read at the end, when the log has gone on and was compacted."""
    query = FollowedQuery(five_states(None))
    query.batch([("a", do("write", 1))])
    kept = []
    with replica_of(query) as replica:
        for records, later, compact, _ in batches:
            acts = [(key, do(what, n)) for key, what, n in records]
            query.batch(acts, query.now + later, compact=compact)
            replica.refresh()
            snapshot = replica.snapshot()
            at = snapshot.__enter__()
            kept.append((at, at.position, {key: query.ask(key, read) for key in KEYS}))
        for at, position, expected in [*kept, *reversed(kept)]:
            found = {key: {name: at[name].get(key) for name in expected[key]} for key in KEYS}
            assert (position, expected) == (at.position, found)


@given(batches=BATCHES)
@FEW
def test_a_scan_gives_what_every_key_has(batches):
    """Each key once, and none that has nothing."""
    query = FollowedQuery(five_states(None))
    query.batch([("a", do("write", 1))])
    for records, later, compact, _ in batches:
        acts = [(key, do(what, n)) for key, what, n in records]
        query.batch(acts, query.now + later, compact=compact)
    with replica_of(query) as replica:
        for name in ("value", "list", "map"):
            expected = {key: query.ask(key, read)[name] for key in KEYS}
            found = list(replica[name].items())
            assert len(found) == len(dict(found))
            assert {key: each for key, each in expected.items() if each} == dict(found)


@pytest.mark.parametrize("kind", [Types.DOUBLE(), Types.TUPLE([Types.STRING(), Types.LONG()])])
def test_of_a_key_group_that_does_not_stay_one_key_is_decoded(kind):
    """Also where keys are compared by their codes, since Arrow's NaN is not NaN."""
    values = {Types.DOUBLE(): [math.nan, -0.5]}.get(kind, [("é", 1), ("", -1)])
    query = FollowedQuery([ListStateDescriptor("l", kind)], max_parallelism=2)
    one, other = (next(k for k in "abcdef" if query.group_of(k) == at) for at in (0, 1))
    query.batch(
        [
            (one, lambda on: on["l"].update(values)),
            (other, lambda on: on["l"].add(values[0])),
            ("g", lambda on: on["l"].add(values[1])),
        ]
    )
    with replica_of(query, cache_bytes=0) as replica:
        found = [repr(replica["l"].get(key)) for key in [one, other] * 12]
        assert [repr(values), repr(values[:1])] * 12 == found
        # Two for the first time, when it is not known how much room they take.
        assert (24, 22) == (replica.metrics.cold_loads, replica.metrics.key_loads)
