# SPDX-License-Identifier: Apache-2.0
"""The window store against a dict, with the rules of expiry written a second time."""

# ruff: noqa: B023 - what is defined in a loop here is called at once

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_support import BACKENDS, LIFE, Player, sequences

from pyflinklike import Types
from pyflinklike.errors import StateValueError
from pyflinklike.stores import (
    InMemoryWindowStore,
    StoreValueError,
    WindowStoreDescriptor,
    windows_for,
)

SIZE, RETENTION = 10, 40
KEYS = ["a", "a\x00", "aa", "b"]
TIMES = st.integers(-60, 120)
BOUND = st.none() | TIMES
of_each_backend = pytest.mark.parametrize("backend", range(len(BACKENDS)))


class Model:
    """Windows as a dict, and the stream time; one for all current keys."""

    def __init__(self, scope, stream_time, *, duplicates):
        self.scope, self.mode, self.duplicates = scope, stream_time, duplicates
        self.windows = {}  # (owner, key, start) -> [values]
        self.times = {}  # owner of the time -> stream time
        self.watermark = None

    def owner(self, current):
        """Whose windows: the current key's, or those of all."""
        return current if self.scope == "key" else None

    def now(self, current):
        """The stream time that judges."""
        if self.mode == "watermark":
            return self.watermark
        return self.times.get(current if self.mode == "key" else None)

    def expired(self, current, start):
        """Whether a window with this start is."""
        now = self.now(current)
        return now is not None and start <= now - RETENTION

    def put(self, current, key, value, start):
        """None deletes; what is late is dropped; whether it was in time."""
        if self.mode != "watermark":
            clock = current if self.mode == "key" else None
            self.times[clock] = max(start, self.times.get(clock, start))
        if self.expired(current, start):
            return False
        at = (self.owner(current), key, start)
        if self.duplicates:
            if value is not None:
                self.windows.setdefault(at, []).append(value)
        elif value is None:
            self.windows.pop(at, None)
        else:
            self.windows[at] = [value]
        return True

    def find(self, current, key_from, key_to, time_from, time_to):
        """What may be shown: (key, start, value), by key and start."""
        return [
            (key, start, value)
            for (owner, key, start), values in sorted(
                self.windows.items(), key=lambda item: item[0][1:]
            )
            for value in values
            if owner == self.owner(current)
            and (key_from is None or key_from <= key)
            and (key_to is None or key <= key_to)
            and (time_from is None or time_from <= start)
            and (time_to is None or start <= time_to)
            and not self.expired(current, start)
        ]


STEPS = sequences(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(KEYS), st.none() | st.integers(0, 3), TIMES),
        st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(0, 3), TIMES),
        st.tuples(st.just("get"), st.sampled_from(KEYS), TIMES),
        st.tuples(st.just("fetch"), st.sampled_from(KEYS), BOUND, BOUND, st.booleans()),
        st.tuples(
            st.just("range"),
            st.none() | st.sampled_from(KEYS),
            st.none() | st.sampled_from(KEYS),
            BOUND,
            BOUND,
            st.booleans(),
        ),
        st.tuples(st.just("live"), LIFE),
        st.tuples(st.just("watermark"), TIMES),
    )
)
MODES = st.sampled_from(
    [
        ("key", None),
        ("key", "key"),
        ("key", "partition"),
        ("key", "watermark"),
        ("partition", None),
        ("partition", "watermark"),
    ]
)


def by_key(found):
    """What is promised of the order over several keys: by time within each key."""
    ordered = {}
    for key, *rest in found:
        ordered.setdefault(key, []).append(tuple(rest))
    return ordered


@of_each_backend
@given(steps=STEPS, mode=MODES, duplicates=st.booleans())
def test_a_window_store_is_a_dict_with_expiry(steps, mode, duplicates, backend):
    """Through any writes, reads, commits, losses and restarts, in every mode of stream time."""
    scope, stream_time = mode
    descriptor = WindowStoreDescriptor(
        "w",
        Types.STRING(),
        Types.LONG(),
        window_size=SIZE,
        retention=RETENTION,
        retain_duplicates=duplicates,
        scope=scope,
        stream_time=stream_time,
    )
    player = Player(descriptor, backend)
    model = Model(scope, stream_time or scope, duplicates=duplicates)
    dropped = 0
    for number, (verb, *arguments) in enumerate(steps):
        current = "xy"[number % 2]
        if verb == "live":
            player.live(*arguments)
            if arguments[0] in ("restart", "move"):
                dropped = 0
        elif verb == "watermark":
            model.watermark = max(arguments[0], model.watermark or arguments[0])
            player.watermark(model.watermark)
        elif verb == "put":
            key, value, start = arguments
            dropped += not model.put(current, key, value, start)
            player.do(lambda store: store.put(key, value, start), current)
            assert dropped == player.do(lambda store: store.dropped_records, current)
            assert model.now(current) == player.do(
                lambda store: store.observed_stream_time, current
            )
        elif verb == "get":
            if not duplicates:
                key, start = arguments
                found = model.find(current, key, key, start, start)
                expected = found[0][2] if found else "none"
                assert expected == player.do(
                    lambda store: store.get(key, start, "none"),
                    current,
                )
        elif verb == "fetch":
            key, begin, end, reverse = arguments
            expected = [found[1:] for found in model.find(current, key, key, begin, end)]
            actual = player.do(
                lambda store: list(store.fetch(key, begin, end, reverse=reverse)),
                current,
            )
            assert (expected[::-1] if reverse else expected) == actual
        else:
            *bounds, reverse = arguments
            expected = by_key(model.find(current, *bounds))
            actual = player.do(
                lambda store: list(store.fetch_range(*bounds, reverse=reverse)),
                current,
            )
            assert all(each.end == each.start + SIZE for each in actual)
            actual = [(each.key, each.start, each.value) for each in actual]
            assert expected == by_key(actual[::-1] if reverse else actual), number
    alive = sum(len(model.find(current, None, None, None, None)) for current in "xy")
    player.operator.cleanup.drop_expired()
    assert (alive if scope == "key" else alive // 2) == player.count()
    player.close()


@of_each_backend
def test_expired_windows_leave_the_storage(backend):
    """Not only the eye: as stream time goes on, of one key and of many."""
    for scope in ("key", "partition"):
        descriptor = WindowStoreDescriptor(
            "w", Types.STRING(), Types.LONG(), window_size=1, retention=160, scope=scope
        )
        player = Player(descriptor, backend)
        sizes = []
        for time in range(0, 2_000, 5):
            player.do(lambda store: store.put(f"key {time % 3}", 1, time))
            sizes.append(player.count())
            if time % 100 == 0:
                player.live("warm")
        player.live("lose")
        player.close()

        # 32 are alive; a sixteenth of the retention, 2 windows, may lag behind.
        assert max(sizes) <= 32 + 2


def test_whole_segments_of_other_keys_leave_at_a_compaction():
    """A key that is not touched again keeps nothing once the key group is compacted."""
    descriptor = WindowStoreDescriptor(
        "w", Types.STRING(), Types.LONG(), window_size=1, retention=10, stream_time="partition"
    )
    player = Player(descriptor, 0)
    player.do(lambda store: store.put("a", 1, 0), "idle")
    player.do(lambda store: store.put("a", 1, 100), "busy")
    before = player.count()
    player.operator.cleanup.drop_expired()

    assert (2, 1) == (before, player.count())
    player.close()


def test_many_segments_are_found_as_few_are():
    """Forwards, backwards, and within bounds."""
    store = InMemoryWindowStore(1, retention=3_600_000, segments=61)
    starts = list(range(0, 3_600_000, 240_000))
    for start in starts:
        store.put("a", start, start)

    assert starts == [start for start, _ in store.fetch("a")]
    assert starts[::-1] == [each.start for each in store.all(reverse=True)]
    assert starts[2:9] == [start for start, _ in store.fetch("a", starts[2], starts[8])]


def test_the_boundary_of_expiry():
    """W=3, R=120000, ST=140000: starts up to 20000 are dropped and hidden, 20001 is alive."""
    store = InMemoryWindowStore(3, retention=120_000)
    store.put("k", "edge", 20_001)
    store.put("k", "gone", 20_000)
    store.put("k", "newest", 140_000)
    store.put("k", "late", 20_000)

    assert [(20_001, "edge"), (140_000, "newest")] == list(store.fetch("k", 0, 200_000))
    assert (None, "edge", 1) == (
        store.get("k", 20_000),
        store.get("k", 20_001),
        store.dropped_records,
    )


def test_what_is_expired_is_hidden_though_still_stored():
    """A sweep may lag behind by a sixteenth of the retention; no read does."""
    descriptor = WindowStoreDescriptor(
        "w", Types.STRING(), Types.LONG(), window_size=1, retention=160
    )
    player = Player(descriptor, 0)
    for start in (3, 160, 163):
        player.do(lambda store: store.put("a", start, start))

    assert 3 == player.count()
    assert None is player.do(lambda store: store.get("a", 3))
    assert [160, 163] == player.do(lambda store: [start for start, _ in store.fetch("a", 0)])
    assert [160, 163] == player.do(lambda store: [each.start for each in store.all()])
    player.close()


def test_bounds_are_those_of_starts_and_included():
    """KIP-205's table: A at 10, 15, 20, 25 of size 10, fetched from 10 to 20."""
    store = InMemoryWindowStore(10)
    for start in (10, 15, 20, 25):
        store.put("A", start, start)
    store.put("AA", 0, 15)

    assert [10, 15, 20] == [start for start, _ in store.fetch("A", 10, 20)]
    assert [20, 15, 10] == [start for start, _ in store.fetch("A", 10, 20, reverse=True)]
    assert [("A", 15), ("A", 20), ("AA", 15)] == [
        (each.key, each.start) for each in store.fetch_all(11, 20)
    ]
    assert [] == list(store.fetch("A", 20, 10))
    assert 5 == len(list(store.all()))


def test_windows_of_the_future_are_shown():
    """An open bound is open; Kafka's is the wall clock."""
    store = InMemoryWindowStore(10)
    far = 2**53
    store.put("A", "x", far)

    assert [(far, "x")] == list(store.fetch("A"))


def test_the_end_of_a_window_saturates():
    """At the largest time there is."""
    store = InMemoryWindowStore(10)
    store.put("A", "x", 2**63 - 5)

    assert [2**63 - 1] == [each.end for each in store.all()]


def test_times_are_ints_or_aware_datetimes():
    """A naive datetime is ambiguous, a bool or float is no time."""
    store = InMemoryWindowStore(dt.timedelta(milliseconds=10))
    store.put("A", "x", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc))
    (found,) = store.all()
    assert (1_000, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc)) == (
        found.start,
        found.start_time,
    )
    assert found.end_time - found.start_time == dt.timedelta(milliseconds=10)
    for wrong in (True, 1.0, "1"):
        with pytest.raises(StateValueError, match="int of ms"):
            store.fetch("A", wrong)
    for wrong in (dt.datetime(2020, 1, 1), 2**63):
        with pytest.raises(StoreValueError):
            store.fetch("A", wrong)


def test_the_window_of_the_element_is_the_default():
    """Aligned downwards, before the epoch, too; without a time it is refused."""
    descriptor = WindowStoreDescriptor("w", Types.STRING(), Types.LONG(), window_size=10)
    player = Player(descriptor, 0)
    for time in (27, -3):
        player.do(lambda store: store.put("a", 1), timestamp=time)
    assert [-10, 20] == player.do(lambda store: [start for start, _ in store.fetch("a")])
    with pytest.raises(StoreValueError, match="a window needs a start"):
        player.do(lambda store: store.put("a", 1))
    player.close()


def test_duplicates_have_no_point_lookup():
    """And None deletes none of them, for it cannot say which."""
    store = InMemoryWindowStore(10, retain_duplicates=True)
    for value in "xyx":
        store.put("A", value, 0)
    store.put("A", None, 0)

    assert [(0, "x"), (0, "y"), (0, "x")] == list(store.fetch("A"))
    with pytest.raises(TypeError, match="point lookup undefined with retain_duplicates"):
        store.get("A", 0)


def test_late_writes_are_told():
    """`on_late` gets what was dropped; a deletion moves the stream time, too."""
    store = InMemoryWindowStore(10, retention=10)
    late = []
    store.on_late = lambda *what: late.append(what)
    store.put("A", None, 100)
    store.put("A", "x", 90)

    assert ([("A", "x", 90)], 100, []) == (late, store.observed_stream_time, list(store.all()))


@of_each_backend
@given(
    starts=st.lists(st.integers(0, 400_000), min_size=1, max_size=12),
    changes=st.lists(
        st.tuples(st.sampled_from([60_000, 150_000, 300_000, 10**7]), st.booleans()),
        min_size=1,
        max_size=4,
    ),
)
def test_retention_and_segments_may_change(starts, changes, backend):
    """Entries move to segments of the new width; a longer retention finds what is still there."""

    def declared(retention):
        return WindowStoreDescriptor(
            "w", Types.STRING(), Types.LONG(), window_size=1, retention=retention
        )

    player = Player(declared(10**7), backend)
    for key in ("k", "other"):
        for start in starts:
            player.do(lambda store: store.put("a", start, start), key)
    stored = set(starts)
    shortest = 10**7
    for retention, is_compacted in changes:
        # Its commit may compact the log, and so drop what is expired by the former retention.
        player.redeclare(declared(retention))
        stored &= player.times()
        assert {start for start in starts if start > max(starts) - shortest} <= stored
        shortest = min(shortest, retention)
        alive = {start for start in stored if start > max(starts) - retention}
        if is_compacted:
            player.operator.cleanup.drop_expired()
            stored = alive
        # Reading drops nothing.
        for key in ("other", "k"):
            expected = [(start, start) for start in sorted(alive)]
            assert expected == player.do(lambda store: list(store.fetch("a")), key)
        assert stored == player.times()
    player.close()


def test_windows_for_an_event():
    """Kafka's examples: hopping windows of 10 by 5, tumbling ones, and a refused advance."""
    assert [5, 10] == windows_for(12, 10, 5)
    assert [[10], [0], [-10]] == [windows_for(time, 10) for time in (10, 9, -1)]
    with pytest.raises(StoreValueError):
        windows_for(1, 10, 11)
