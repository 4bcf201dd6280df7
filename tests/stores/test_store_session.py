# SPDX-License-Identifier: Apache-2.0
"""The session store: primitives against a dict, merging against the sorted events."""

# ruff: noqa: B023 - what is defined in a loop here is called at once

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_functions import law_of_each_backend, of_each_backend, times
from store_support import LIFE, Player, replayed, sequences

from pyflinklike import Types
from pyflinklike.errors import StateValueError
from pyflinklike.stores import (
    SessionKey,
    SessionStoreDescriptor,
    StoreValueError,
)

RETENTION = 50
GAP = 5
KEYS = ["a", "aa", "b"]
TIMES = times(-20, 80)


def declared(**options):
    """A store of lists of event times."""
    return SessionStoreDescriptor("s", Types.STRING(), Types.LIST(Types.LONG()), **options)


def add(store, key, time, grace=0, gap=GAP):
    """Add an event whose value is its time."""
    return store.add(
        key,
        time,
        time,
        gap=gap,
        grace=grace,
        initializer=list,
        aggregator=lambda _, value, agg: [*agg, value],
        merger=lambda _, one, other: one + other,
    )


def clusters(times, gap=GAP):
    """The sessions of events: a new one begins after a silence longer than the gap."""
    found = []
    for time in sorted(times):
        if found and time - found[-1][-1] <= gap:
            found[-1].append(time)
        else:
            found.append([time])
    return found


@of_each_backend
@pytest.mark.parametrize("order", list(itertools.permutations([10, 12, 20, 16])))
def test_the_example_merges_in_every_order(order, backend):
    """10, 12, 20, 16 with gap 5: one session in the end, and each absorbed one is retracted."""
    player = Player(declared(caching=False), backend)
    there = {}
    for number, time in enumerate(order, start=1):
        update = player.do(lambda store: add(store, "k", time, grace=5))
        assert not update.late
        for absorbed in update.removed:
            assert there.pop(absorbed) == absorbed.value
        there[update.session] = update.agg
        expected = [(each[0], each[-1], each) for each in clusters(order[:number])]
        actual = [(key.start, key.end, sorted(agg)) for key, agg in sorted(there.items())]
        assert expected == actual
    assert [(SessionKey("k", 10, 20), [10, 12, 16, 20])] == [
        (key, sorted(agg)) for key, agg in there.items()
    ]
    player.commit()
    player.close()

    assert {("k", "k", 10, 20): [10, 12, 16, 20]} == {
        key: sorted(agg) for key, agg in replayed(player.records).items()
    }


@law_of_each_backend
@given(
    events=sequences(st.tuples(st.sampled_from(KEYS), TIMES)),
    lives=st.lists(st.none() | st.none() | LIFE, min_size=40, max_size=40),
    gap=st.integers(1, 9),
    scope=st.sampled_from(["key", "partition"]),
)
def test_sessions_are_the_clusters_of_the_events(events, lives, gap, scope, backend):
    """Whatever the order of arrival, where nothing is late; through losses and restarts."""
    player = Player(declared(retention=10**6, scope=scope), backend)
    for (key, time), life in zip(events, lives):
        update = player.do(lambda store: add(store, key, time, 10**5, gap))
        assert not update.late
        if life is not None:
            player.live(life)
    for key in KEYS:
        expected = [
            (key, each, each[0], each[-1])
            for each in clusters([time for mine, time in events if mine == key], gap)
        ]
        actual = player.do(lambda store: list(store.fetch(key)))
        assert expected == [(each.key, sorted(each.value), *each[2:]) for each in actual]
        backwards = player.do(lambda store: list(store.fetch(key, reverse=True)))
        assert actual[::-1] == backwards
    player.commit()
    everything = player.do(lambda store: list(store.fetch_range()))
    player.commit()
    player.close()
    first = () if scope == "partition" else ("k",)

    assert {(*first, each.key, each.start, each.end): each.value for each in everything} == (
        replayed(player.records)
    )


STEPS = sequences(
    st.one_of(
        st.tuples(
            st.just("put"),
            st.sampled_from(KEYS),
            TIMES,
            st.integers(0, 12),
            st.none() | st.just([1]),
        ),
        st.tuples(st.just("remove"), st.sampled_from(KEYS), TIMES, st.integers(0, 12)),
        st.tuples(st.just("session"), st.sampled_from(KEYS), TIMES, st.integers(0, 12)),
        st.tuples(st.just("find"), st.sampled_from(KEYS), st.none() | TIMES, st.none() | TIMES),
        st.tuples(
            st.just("range"),
            st.none() | st.sampled_from(KEYS),
            st.none() | st.sampled_from(KEYS),
            st.none() | TIMES,
            st.none() | TIMES,
        ),
        st.tuples(st.just("ended"), st.none() | TIMES, st.none() | TIMES),
        st.tuples(st.just("live"), LIFE),
    )
)


@law_of_each_backend
@given(steps=STEPS, scope=st.sampled_from(["key", "partition"]))
def test_a_session_store_is_a_dict_with_expiry(steps, scope, backend):
    """Through any writes, reads, commits, losses and restarts; sessions need not be disjoint."""
    player = Player(declared(retention=RETENTION, scope=scope), backend)
    sessions = {}
    now = None

    def shown(of_key=lambda _: True, of_times=lambda _, __: True):
        return sorted(
            (key, agg, start, end)
            for (key, start, end), agg in sessions.items()
            if of_key(key) and of_times(start, end) and end > now - RETENTION
        )

    for verb, *arguments in steps:
        if verb == "live":
            player.live(*arguments)
        elif verb in ("put", "remove", "session"):
            key, start, length, *agg = arguments
            end = start + length
            if verb == "put":
                now = end if now is None else max(now, end)
                if end > now - RETENTION:
                    sessions[key, start, end] = agg[0]
                    if agg[0] is None:
                        del sessions[key, start, end]
                player.do(lambda store: store.put(key, start, end, agg[0]))
            elif verb == "remove":
                sessions.pop((key, start, end), None)
                player.do(lambda store: store.remove(key, start, end))
            else:
                alive = now is not None and end > now - RETENTION
                expected = sessions.get((key, start, end)) if alive else None
                assert expected == player.do(lambda store: store.fetch_session(key, start, end))
        elif now is not None:
            if verb == "find":
                key, earliest_end, latest_start = arguments
                keys = (key, key)
                found = player.do(
                    lambda store: list(store.find_sessions(key, earliest_end, latest_start))
                )
                assert [each.end for each in found] == sorted(each.end for each in found)
            elif verb == "range":
                *keys, earliest_end, latest_start = arguments
                found = player.do(
                    lambda store: list(store.find_sessions_range(*keys, earliest_end, latest_start))
                )
            else:
                keys, latest_start = (None, None), None
                earliest_end, latest_end = arguments
                found = player.do(
                    lambda store: list(store.find_ended_sessions(earliest_end, latest_end))
                )
                found = [each for each in found if latest_end is None or each.end <= latest_end]
            expected = shown(
                lambda key: (
                    (keys[0] is None or keys[0] <= key) and (keys[1] is None or key <= keys[1])
                ),
                lambda start, end: (
                    (earliest_end is None or end >= earliest_end)
                    and (latest_start is None or start <= latest_start)
                ),
            )
            if verb == "ended" and latest_end is not None:
                expected = [each for each in expected if each[3] <= latest_end]
            assert expected == sorted(map(tuple, found)), (verb, arguments)
    player.operator.cleanup.drop_expired()
    assert (0 if now is None else len(shown())) == player.count()
    player.close()


@pytest.mark.parametrize(
    ("grace", "time", "late"), [(0, 15, False), (0, 14, True), (5, 10, False), (5, 9, True)]
)
def test_lateness_is_judged_on_the_merged_session(grace, time, late):
    """An event is late whose session ends before stream time - grace - gap; the edge is in time."""
    player = Player(declared(), 0)
    player.do(lambda store: add(store, "other", 20, grace))
    update = player.do(lambda store: add(store, "k", time, grace))

    assert (late, int(late)) == (update.late, player.do(lambda store: store.dropped_records))
    player.close()


@pytest.mark.parametrize(("time", "late"), [(50, True), (51, False)])
@of_each_backend
def test_a_session_that_ends_a_retention_ago_is_late(time, late, backend):
    """Where gap and grace take all of the retention: that edge is not in time any more."""
    player = Player(declared(retention=RETENTION), backend)
    player.do(lambda store: add(store, "other", 100, RETENTION - GAP))
    update = player.do(lambda store: add(store, "k", time, RETENTION - GAP))
    found = player.do(lambda store: [each[2:] for each in store.fetch("k")])

    assert (late, [] if late else [(time, time)]) == (update.late, found)
    player.close()


def test_an_old_event_that_joins_a_live_session_is_taken():
    """Though alone it would be late; what it bridges to is absorbed."""
    player = Player(declared(), 0)
    for time in (18, 22, 30):
        player.do(lambda store: add(store, "k", time))
    joined = player.do(lambda store: add(store, "k", 25))
    player.do(lambda store: add(store, "k", 40))
    update = player.do(lambda store: add(store, "k", 13, grace=5))

    assert ([(18, 22), (30, 30)], (18, 30)) == (
        [each[1:] for each in joined.removed],
        joined.session[1:],
    )
    assert ([(18, 30)], (13, 30), False) == (
        [each[1:] for each in update.removed],
        update.session[1:],
        update.late,
    )
    player.close()


def test_an_equal_session_is_overwritten_in_place():
    """The second event of one time retracts nothing; one inside a session retracts that session."""
    player = Player(declared(), 0)
    player.do(lambda store: add(store, "k", 10))
    again = player.do(lambda store: add(store, "k", 10))
    player.do(lambda store: add(store, "k", 14))
    inside = player.do(lambda store: add(store, "k", 12))

    assert ([], [10, 10]) == (again.removed, again.agg)
    assert [("k", 10, 14)] == inside.removed
    player.close()


def test_an_event_without_a_value_is_skipped():
    """And counted; it makes no session."""
    player = Player(declared(), 0)
    update = player.do(
        lambda store: store.add("k", 1, None, gap=5, initializer=list, aggregator=None, merger=None)
    )

    assert ([], None, None, False) == update
    assert (1, []) == player.do(lambda store: (store.skipped_records, list(store.fetch("k"))))
    player.close()


@pytest.mark.parametrize(
    ("options", "got"),
    [({"gap": 0}, "gap"), ({"gap": 5, "grace": -1}, "grace"), ({"gap": 90_000_000}, "90000000")],
)
def test_gap_and_grace_must_fit(options, got):
    """A positive gap, a grace that is not negative, and together no more than the retention."""
    player = Player(declared(), 0)
    with pytest.raises(StoreValueError, match=got):
        player.do(
            lambda store: store.add(
                "k", 1, 1, **options, initializer=list, aggregator=None, merger=None
            )
        )
    player.close()


def test_a_session_does_not_end_before_it_starts():
    """And its key is not None."""
    player = Player(declared(), 0)
    with pytest.raises(StoreValueError, match="start 5 and end 4"):
        player.do(lambda store: store.put("k", 5, 4, [1]))
    with pytest.raises(StateValueError, match="key must not be None"):
        player.do(lambda store: store.put(None, 4, 5, [1]))
    player.close()
