# SPDX-License-Identifier: Apache-2.0
"""Stores of a replica answer as the function's own do, and as Kafka's over several partitions.

The function is the oracle: the same verb in an operator over a copy of the log.  Of scope "partition"
what it gives in each key group is put in order here.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_support import FollowedQuery, replica_of

from pyflinklike import Types
from pyflinklike.errors import ScanDisabledError, StateAccessError, StateValueError
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)

TEXT, LONG = Types.STRING(), Types.LONG()
OWNERS = ["x", "y", "z"]
KEYS = ["a", "a\x00", "b"]
MINUTE = 60_000
FEW = settings(max_examples=max(settings().max_examples // 16, 3))

TIMES = st.integers(0, 12).map(lambda n: n * MINUTE // 2)
BOUND = st.none() | TIMES
KEY, NUMBER = st.sampled_from(KEYS), st.integers(0, 9)

KINDS = {
    "kv": (KeyValueStoreDescriptor, {}, st.tuples(KEY, st.none() | NUMBER)),
    "lru": (LruStoreDescriptor, {"max_entries": 2}, st.tuples(KEY, NUMBER)),
    "timestamped": (TimestampedStoreDescriptor, {}, st.tuples(KEY, NUMBER, TIMES)),
    "window": (
        WindowStoreDescriptor,
        {"window_size": MINUTE, "retention": 3 * MINUTE},
        st.tuples(KEY, st.none() | NUMBER, TIMES),
    ),
    "duplicates": (
        WindowStoreDescriptor,
        {"window_size": MINUTE, "retention": 3 * MINUTE, "retain_duplicates": True},
        st.tuples(KEY, NUMBER, TIMES),
    ),
    "session": (
        SessionStoreDescriptor,
        {"retention": 3 * MINUTE},
        st.tuples(KEY, TIMES, TIMES, NUMBER).map(lambda p: (p[0], *sorted(p[1:3]), p[3])),
    ),
    "versioned": (
        VersionedStoreDescriptor,
        {"history_retention": 3 * MINUTE},
        st.tuples(KEY, st.none() | NUMBER, TIMES),
    ),
}
BY_KEY = [("range", 2), ("all", 0), ("prefix_scan", 1)]
SCANS = {
    "kv": BY_KEY,
    "lru": BY_KEY,
    "timestamped": BY_KEY,
    "window": [("fetch_range", 4), ("all", 0), ("fetch_all", 2)],
    "duplicates": [("fetch_range", 4), ("all", 0), ("fetch_all", 2)],
    "session": [("fetch_range", 2), ("find_sessions_range", 4), ("find_ended_sessions", 2)],
    "versioned": [],
}


def puts(kind, calls):
    """Records that call `put`."""
    return [(owner, lambda on, call=call: on["s"].put(*call)) for owner, call in calls]


def descriptor(kind, scope, **options):
    """Of a store of a kind."""
    made, said, _ = KINDS[kind]
    return made("s", TEXT, LONG, scope=scope, **said | options)


def point_reads(kind, data):
    """Verbs that look up a key: a name, and its arguments."""
    key = data.draw(KEY)
    if kind in ("kv", "lru", "timestamped"):
        return [("get", (key,)), ("multi_get", (KEYS,)), ("approximate_num_entries", ())]
    if kind == "versioned":
        return [("get", (key,)), ("get", (key, data.draw(TIMES)))]
    if kind == "session":
        return [("fetch_session", (key, *sorted((data.draw(TIMES), data.draw(TIMES)))))]
    return [("get", (key, data.draw(TIMES)))] if kind == "window" else []


def cursors(kind, data):
    """Verbs that give cursors: a name, arguments and options."""
    times, reverse = (data.draw(BOUND), data.draw(BOUND)), {"reverse": data.draw(st.booleans())}
    if kind == "versioned":
        order = data.draw(st.sampled_from(["asc", "desc"]))
        return [("history", (data.draw(KEY), *times), {"order": order})]
    of_key = {"window": ("fetch", times), "duplicates": ("fetch", times)}
    of_key["session"] = ("find_sessions", times)
    found = []
    if kind in of_key:
        verb, bounds = of_key[kind]
        found.append((verb, (data.draw(KEY), *bounds), reverse))
    arguments = {0: (), 1: (data.draw(KEY),), 2: times, 4: (data.draw(KEY), data.draw(KEY), *times)}
    for verb, count in SCANS[kind]:
        given_ = arguments[count]
        if count == 2 and verb in ("range", "fetch_range"):
            given_ = (data.draw(st.none() | KEY), data.draw(st.none() | KEY))
        found.append((verb, given_, reverse))
    return found


def run(verb, arguments, options=None):
    """Calls a verb of a store."""

    def act(store):
        found = getattr(store, verb)(*arguments, **options or {})
        return found if options is None else list(found)

    return act


BATCHES = st.integers(1, 4)


def played(kind, scope, data):
    """A query that has played some batches, and its replica, refreshed now and then."""
    query = FollowedQuery([descriptor(kind, scope)], 3)
    query.batch([("x", lambda on: None)])
    replica = replica_of(query)
    calls = st.lists(st.tuples(st.sampled_from(OWNERS), KINDS[kind][2]), max_size=6)
    for _ in range(data.draw(BATCHES)):
        compact = data.draw(st.booleans())
        query.batch(puts(kind, data.draw(calls)), compact=compact)
        if data.draw(st.booleans()):
            replica.refresh()
            replica.store("s", **({"key": "x"} if scope == "key" else {}))
    replica.refresh()
    return query, replica


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@FEW
def test_a_store_under_a_key_reads_as_the_functions_does(kind, data):
    """Every verb, twice: a use, or a cleanup, of the first leaves nothing for the second."""
    query, replica = played(kind, "key", data)
    reads = [(*each, None) for each in point_reads(kind, data)] + cursors(kind, data)
    for owner, read in itertools.product(OWNERS, reads * 2):
        expected = query.ask(owner, lambda on, read=read: run(*read)(on["s"]))
        assert expected == run(*read)(replica.store("s", key=owner)), (owner, read)


def in_order(kind, parts, read):
    """What several key groups gave, in the store's own order; duplicates by their number."""
    verb, _, options = read

    def place(item):
        if kind in ("window", "duplicates") and verb == "fetch":
            return item[0]
        if kind in ("window", "duplicates"):
            return item.start // (3 * MINUTE), item.key, item.start
        if kind == "session":
            return item.end // (3 * MINUTE), item.key, item.end, item.start
        return item.key

    def numbered(part):
        """Each item of a group with its place; duplicates of a window count from 0 in each group."""
        seen = Counter()
        for item in reversed(part) if options["reverse"] else part:
            yield (place(item), seen[place(item)]), item
            seen[place(item)] += 1

    found = itertools.chain.from_iterable(map(numbered, parts))
    return [item for _, item in sorted(found, key=itemgetter(0), reverse=options["reverse"])]


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "versioned"])
@given(data=st.data())
@FEW
def test_a_store_of_all_keys_is_merged_over_key_groups(kind, data):
    """In the order that one key group would have; what is equal in it, by key group."""
    query, replica = played(kind, "partition", data)
    groups = [index for index, each in enumerate(query.stores) if each.head is not None]
    store = replica.store("s")
    for read in cursors(kind, data):
        parts = [
            query.ask_group(index, "x", lambda on, read=read: run(*read)(on["s"]))
            for index in groups
        ]
        # Reversed sorting keeps the order of what is equal, as merging does.
        expected = in_order(kind, parts, read)
        assert list(map(repr, expected)) == list(map(repr, run(*read)(store))), read
    for verb, arguments in point_reads(kind, data):
        parts = [
            query.ask_group(
                index, "x", lambda on, verb=verb, given_=arguments: run(verb, given_)(on["s"])
            )
            for index in groups
        ]
        found = run(verb, arguments)(store)
        if verb == "multi_get":
            assert {k: v for part in reversed(parts) for k, v in part.items()} == found
        elif verb == "approximate_num_entries":
            assert sum(parts) == found == len(store)
        else:
            assert next((each for each in parts if each is not None), None) == found


def test_kip_205s_table():
    """A at 10, 15, 20 and 25: bounds are those of a window's start, both included."""
    query = FollowedQuery([WindowStoreDescriptor("s", TEXT, LONG, window_size=10)])
    writes = [("A", 1, 10), ("A", 2, 15), ("A", 3, 20), ("A", 4, 25), ("B", 5, 18)]
    query.batch([("x", lambda on, call=call: on["s"].put(*call)) for call in writes])
    with replica_of(query, allow_scan=False) as replica:
        store = replica.store("s", key="x")
        assert [(10, 1), (15, 2), (20, 3)] == list(store.fetch("A", 10, 20))
        assert [(20, 3), (15, 2), (10, 1)] == list(store.fetch("A", 10, 20, reverse=True))
        assert [(20, 3), (25, 4)] == list(store.fetch("A", 16))
        assert [10, 15, 18, 20, 25] == sorted(each.start for each in store.all())
        assert [("A", 15, 25), ("A", 20, 30), ("B", 18, 28)] == [
            (each.key, each.start, each.end) for each in store.fetch_all(15, 20)
        ]
        assert (3, None) == (store.get("A", 20), store.get("A", 21))


@pytest.mark.parametrize("first", [2, 5])
def test_a_window_store_whose_segments_changed_is_read_in_the_new_layout(first):
    """A key group that nothing was written to since lies in the old one still."""
    query = FollowedQuery([descriptor("window", "key", segments=first, retention=30 * MINUTE)], 4)
    query.batch([(owner, lambda on: on["s"].put("a", 1, 20 * MINUTE)) for owner in OWNERS])
    with replica_of(query) as replica:
        assert [(20 * MINUTE, 1)] == list(replica.store("s", key="x").fetch("a"))
        changed = descriptor("window", "key", segments=7 - first, retention=30 * MINUTE)
        query.restart([changed])
        query.batch([("x", lambda on: on["s"].put("a", 2, 21 * MINUTE))])
        replica.refresh()
        for owner in OWNERS:
            expected = query.ask(owner, lambda on: list(on["s"].fetch("a", 0)))
            assert expected == list(replica.store("s", key=owner).fetch("a", 0))
            assert (20 * MINUTE, 1) in expected


def test_a_cursor_keeps_its_batch():
    """It is read on after the replica went on."""
    query = FollowedQuery([descriptor("kv", "partition")])
    query.batch([(owner, lambda on, o=owner: on["s"].put(o, 1)) for owner in OWNERS])
    with replica_of(query) as replica:
        cursor = replica.store("s").all()
        first = next(cursor)
        query.batch([(owner, lambda on, o=owner: on["s"].put(o, 2)) for owner in OWNERS])
        replica.refresh()
        replica.store("s").get("x")
        assert [("x", 1), ("y", 1), ("z", 1)] == [tuple(first), *map(tuple, cursor)]


def test_bounds_the_wrong_way_round_give_nothing_and_a_warning(caplog):
    """As a store of the function."""
    query = FollowedQuery([descriptor("kv", "key")])
    query.batch([("x", lambda on: on["s"].put("a", 1))])
    with replica_of(query) as replica, caplog.at_level(logging.WARNING):
        assert [] == list(replica.store("s", key="x").range("b", "a"))
    assert "wrong order" in caplog.text


def test_a_null_key_is_refused():
    """The stream's and the store's."""
    query = FollowedQuery([descriptor("kv", "key")])
    query.batch([("x", lambda on: on["s"].put("a", 1))])
    with replica_of(query) as replica:
        with pytest.raises(StateValueError):
            replica.store("s", key=None)
        with pytest.raises(StateValueError):
            replica.store("s", key="x").get(None)


def test_a_store_is_only_read():
    """Kafka's read-only stores have no such verbs; ours say what to do instead."""
    query = FollowedQuery([descriptor("kv", "partition")])
    query.batch([("x", lambda on: on["s"].put("a", 1))])
    with (
        replica_of(query) as replica,
        pytest.raises(StateAccessError, match=r"got put_if_absent\(\)"),
    ):
        replica.store("s").put_if_absent("a", 2)


def test_a_scan_over_key_groups_has_to_be_allowed():
    """A lookup, and the store of one key, do not."""
    query = FollowedQuery([descriptor("kv", "partition"), KeyValueStoreDescriptor("k", TEXT, LONG)])
    query.batch([("x", lambda on: (on["s"].put("a", 1), on["k"].put("a", 2)))])
    with replica_of(query, allow_scan=False) as replica:
        assert (1, [("a", 2)]) == (
            replica.store("s").get("a"),
            list(map(tuple, replica.store("k", key="x").all())),
        )
        for verb in ("all", "range", "items"):
            with pytest.raises(ScanDisabledError, match=verb.replace("items", "all")):
                getattr(replica.store("s"), verb)()
