# SPDX-License-Identifier: Apache-2.0
"""The key-value, timestamped and LRU stores: what they take, order and refuse."""

from __future__ import annotations

import logging

import pytest
from store_support import Player

from pyflinklike import Types
from pyflinklike.errors import StateValueError
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    StoreValueError,
    TimestampedStoreDescriptor,
    ValueAndTimestamp,
)


def test_an_eviction_is_told():
    """`on_evict` gets key and value of what is forgotten, and only of that."""
    evicted = []
    player = Player(LruStoreDescriptor("lru", Types.STRING(), Types.LONG(), max_entries=2), 0)

    def act(store):
        store.on_evict = lambda key, value: evicted.append((key, value))
        store.put_all([("a", 1), ("b", 2)])
        assert store.get("a") == 1
        list(store.range())
        assert "b" in store
        store["c"] = 3
        store["c"] = 4
        store.delete("a")
        store["d"] = 5
        return list(store)

    assert (["c", "d"], [("b", 2)]) == (player.do(act), evicted)
    player.close()


def test_a_value_without_any_time_is_refused():
    """Kafka would take the wall clock; a time that is given twice is refused, too."""
    player = Player(TimestampedStoreDescriptor("ts", Types.STRING(), Types.LONG()), 0)
    with pytest.raises(StoreValueError, match=r"'ts': a value needs a time"):
        player.do(lambda store: store.put("a", 1))
    with pytest.raises(StateValueError, match="give one time"):
        player.do(lambda store: store.put("a", ValueAndTimestamp(1, 2), 3))
    assert ValueAndTimestamp.make(None, 5) is None
    assert player.do(lambda store: store.put_if_absent("a", None)) is None
    assert player.do(len) == 0
    player.close()


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.get(None),
        lambda store: store.put(None, 1),
        lambda store: store.put_all([("a", 1), (None, 1)]),
        lambda store: store.put_if_absent(None, 1),
        lambda store: store.delete(None),
        lambda store: None in store,
        lambda store: store.prefix_scan(None),
        lambda store: store.multi_get(["a", None]),
    ],
)
def test_a_key_is_never_none(act):
    """A TypeError, and nothing was applied."""
    player = Player(KeyValueStoreDescriptor("kv", Types.STRING(), Types.LONG()), 0)
    with pytest.raises(TypeError, match=r"'kv': key must not be None"):
        player.do(act)
    assert player.do(len) == 0
    player.close()


@pytest.mark.parametrize(("key", "value"), [(1, 1), ("a", "x"), (b"a", 1)])
def test_a_key_and_a_value_fit_their_types(key, value):
    """What does not is refused with the store's name, and put_all applies nothing."""
    player = Player(KeyValueStoreDescriptor("kv", Types.STRING(), Types.LONG()), 0)
    with pytest.raises(StateValueError, match="store 'kv'"):
        player.do(lambda store: store.put_all([("first", 1), (key, value)]))
    assert player.do(len) == 0
    player.close()


def test_a_range_in_the_wrong_order_is_empty_and_warned_of(caplog):
    """As in Kafka, which never raises there."""
    player = Player(KeyValueStoreDescriptor("kv", Types.STRING(), Types.LONG()), 0)
    player.do(lambda store: store.put_all({"a": 1, "b": 2}))
    with caplog.at_level(logging.WARNING, "pyflinklike.stores"):
        found = player.do(lambda store: list(store.range("b", "a")))
    player.close()

    assert ([], 1) == (found, len(caplog.records))


@pytest.mark.parametrize(
    ("key_type", "prefix", "keys", "expected"),
    [
        (Types.STRING(), "1", ["1", "11", "13", "2", "1\x00"], ["1", "1\x00", "11", "13"]),
        (Types.LONG(), 1, [1, 10, 11], [1]),
        (
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            b"\xff\xff",
            [b"\xff", b"\xff\xff", b"\xff\xff\xff", b"\xfe"],
            [b"\xff\xff", b"\xff\xff\xff"],
        ),
        (
            Types.TUPLE([Types.STRING(), Types.LONG()]),
            ("a",),
            [("a", 1), ("a", -1), ("a\x00", 1), ("aa", 1), ("a", None)],
            [("a", None), ("a", -1), ("a", 1)],
        ),
    ],
)
def test_a_prefix_selects_the_keys_that_begin_with_it(key_type, prefix, keys, expected):
    """Of texts, bytes and tuples; of a number only the number itself."""
    player = Player(KeyValueStoreDescriptor("kv", key_type, Types.LONG()), 0)
    player.do(lambda store: store.put_all([(key, 0) for key in keys]))

    assert expected == player.do(lambda store: [key for key, _ in store.prefix_scan(prefix)])
    player.close()


def test_what_was_read_is_the_callers_own():
    """Changing it changes nothing in the store."""
    descriptor = KeyValueStoreDescriptor("kv", Types.STRING(), Types.LIST(Types.LONG()))
    player = Player(descriptor, 0)

    def act(store):
        store["a"] = [1]
        store["a"].append(2)
        for value in store.values():
            value.append(3)
        return store["a"]

    assert [1] == player.do(act)
    player.close()


def test_a_store_is_equal_to_itself_only():
    """It is no value, and can be a key."""
    player = Player(KeyValueStoreDescriptor("kv", Types.STRING(), Types.LONG()), 0)
    store = player.do(lambda store: store)

    assert {store: 1} == {store: 1}
    assert store != {}
    player.close()
