# SPDX-License-Identifier: Apache-2.0
"""The window store: expiry, bounds, times, duplicates, late writes."""

# ruff: noqa: B023 - what is defined in a loop here is called at once

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_functions import law_of_each_backend, of_each_backend
from store_support import Player

from pyflinklike import Types
from pyflinklike.errors import StateValueError
from pyflinklike.stores import (
    InMemoryWindowStore,
    StoreValueError,
    WindowStoreDescriptor,
    windows_for,
)


@of_each_backend
def test_expired_windows_leave_the_storage(backend):
    """They are deleted, not only hidden, as stream time goes on: of one key and of many."""
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


@law_of_each_backend
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
