# SPDX-License-Identifier: Apache-2.0
"""What all stores share: their life, and that of cursors."""

from __future__ import annotations

import pytest
from store_functions import EACH, KV, Doer, harness, of_each, of_each_backend, put_something
from store_support import BACKENDS, Player

from pyflinklike import DeadLetters, OutputTag, Types
from pyflinklike.errors import StateAccessError
from pyflinklike.stores import (
    CursorClosedError,
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    StoreClosedError,
    StoreNotInitializedError,
)
from pyflinklike.testing import KeyedProcessHarness

TEXT, LONG = Types.STRING(), Types.LONG()


# Life


@of_each
def test_a_store_needs_a_key_and_to_be_open(descriptor):
    """It is refused in open(), between calls, before it was opened, and after it was closed."""
    use = {
        "SessionStore": lambda store: store.fetch("a"),
        "VersionedStore": lambda store: store.get("a"),
        "WindowStore": lambda store: store.get("a", 1),
    }.get(type(descriptor.new_store()).__name__, lambda store: store.get("a"))
    bare = descriptor.new_store()
    assert (False, False, "kv") == (bare.is_open, bare.is_persistent, bare.name)
    with pytest.raises(StoreNotInitializedError, match="'kv' is not open"):
        use(bare)
    with pytest.raises(StoreNotInitializedError):
        _ = bare.changelog_name
    bare.close()
    bare.close()
    doer = Doer(descriptor)
    with KeyedProcessHarness(doer, lambda _: "k") as h:
        store = doer.stores["kv"]
        for access in (use, put_something):
            with pytest.raises(StateAccessError):
                access(store)
        h.process_element(put_something)
        assert store.is_open
    with pytest.raises(StoreClosedError, match="'kv' is closed"):
        use(store)
    assert (False, "kv") == (store.is_open, store.name)


@pytest.mark.parametrize(
    "descriptor",
    [
        # An LRU store keeps who was used first.
        *(each for each in EACH if not isinstance(each, LruStoreDescriptor)),
        KeyValueStoreDescriptor("kv", TEXT, LONG, scope="partition"),
    ],
    ids=lambda each: f"{type(each).__name__}-{each.scope}",
)
def test_a_failure_snapshot_has_the_entries_in_one_order(descriptor):
    """The same bytes whichever was put first, and on whichever backend."""
    dead = OutputTag("dead")
    found = set()
    for backend in BACKENDS:
        for keys in ("ab", "ba"):
            with harness(descriptor, on_error=DeadLetters(dead), state_backend=backend) as h:
                for key in keys:
                    h.process_element(lambda store, key=key: put_something(store, key))
                h.process_element(None)
                found.add(h.side_output(dead)[0].failure_snapshot)
    assert 1 == len(found)


def test_a_closed_store_has_flushed_and_closed_its_cursors():
    """Closing is idempotent; what comes after is refused."""
    with harness(KV) as h:

        def act(store):
            store["a"] = 1
            cursor = store.all()
            store.close()
            store.close()
            with pytest.raises(CursorClosedError):
                next(cursor)
            with pytest.raises(StoreClosedError):
                store.get("a")

        h.process_element(act)
        assert 1 == len(h.side_output(KV.changelog_tag))


@of_each_backend
def test_what_a_store_says_of_itself(backend):
    """Names, where it lies, and what it is part of."""
    lru = LruStoreDescriptor("lru", TEXT, LONG, max_entries=2)
    with harness(KV, lru, state_backend=BACKENDS[backend]) as h:
        (said,) = h.process_element(
            lambda kv, lru: (kv.name, kv.changelog_name, kv.is_persistent, lru.is_persistent)
        )
        assert ("kv", "Doer-kv-changelog", backend == 1, False) == said
        assert [{0: 0}] == h.process_element(lambda kv, _: kv.position)
    player = Player(KV, backend)
    for _ in range(3):
        player.do(put_something)
        player.commit()
    assert {3: 3} == player.do(lambda store: store.position)
    player.close()


@pytest.mark.parametrize(
    ("descriptor", "expected"),
    [
        (KV, {"cleanup.policy": "compact"}),
        (EACH[3], {"cleanup.policy": "compact,delete", "retention.ms": "172800000"}),
        (EACH[5], {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400010"}),
        (
            KeyValueStoreDescriptor(
                "kv", TEXT, LONG, changelog_config={"cleanup.policy": "delete", "x": 1}
            ),
            {"cleanup.policy": "delete", "x": "1"},
        ),
    ],
)
def test_the_settings_of_the_topic_are_kafka_streams(descriptor, expected):
    """Settings that were declared replace them."""
    assert expected == descriptor.new_store().changelog_config


# Cursors


def test_a_cursor_is_a_snapshot():
    """Changes while it is read are not seen; it can be peeked at, and closes at its end."""
    with harness(KV) as h:

        def act(store):
            store.put_all([("a", 1), ("b", 2), ("c", 3)])
            with store.range() as cursor:
                assert ("a", 1) == cursor.peek() == next(cursor)
                store.delete("b")
                store.put("c", 4)
                store.put("d", 5)
                rest = list(cursor)
                assert cursor.closed
                assert cursor.peek() is None
                with pytest.raises(StopIteration):
                    next(cursor)
            with pytest.raises(CursorClosedError):
                cursor.peek()
            return rest

        assert [[("b", 2), ("c", 3)]] == h.process_element(act)


def test_a_cursor_does_not_outlive_its_call():
    """It is closed when the next call begins or the batch ends, with a ResourceWarning."""
    kept = []
    with harness(KV) as h:
        h.process_element(lambda store: store.put("a", 1))

        def look(_):
            with pytest.raises(CursorClosedError):
                next(kept[0])

        with pytest.warns(ResourceWarning, match="'kv' was left open"):
            h.process_elements([(lambda store: kept.append(store.all()), None), (look, None)])
        with pytest.warns(ResourceWarning, match="'kv' was left open"):
            h.process_element(lambda store: kept.append(store.all()))
        with pytest.raises(CursorClosedError, match="within the call that opened it"):
            next(kept[1])


def test_what_is_read_to_its_end_or_closed_is_not_warned_of(recwarn):
    """Nor are items, values, popitem and a membership test, which open none that stays."""
    with harness(KV) as h:

        def act(store):
            store.put("a", 1)
            list(store.all())
            with store.range() as cursor:
                next(cursor)
            assert ("a", 1) in store.items()
            assert [1] == list(store.values())
            assert "a" in store
            store.popitem()

        h.process_element(act)
    assert [] == [each for each in recwarn if each.category is ResourceWarning]
