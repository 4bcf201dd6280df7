# SPDX-License-Identifier: Apache-2.0
"""The key-value, timestamped and LRU stores against plain dicts."""

# ruff: noqa: B023 - what is defined in a loop here is called at once

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_functions import law_of_each_backend
from store_support import LIFE, Player, replayed, sequences

from pyflinklike import Types
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    TimestampedStoreDescriptor,
    ValueAndTimestamp,
)

TEXTS = ["", "a", "a\x00", "aa", "ab", "b", "\x00", "\u00e9", "\U0001f600"]
NUMBERS = [-300, -256, -2, -1, 0, 1, 255, 256, 2**40]
VALUES = st.integers(0, 3)
SCOPES = st.sampled_from(["key", "partition"])


def operations(keys):
    """What may be done to a key-value store: (verb, arguments)."""
    key = st.sampled_from(keys)
    bound = st.none() | key
    value = st.none() | VALUES
    return sequences(
        st.one_of(
            st.tuples(st.sampled_from(["put", "put", "put_if_absent", "setdefault"]), key, value),
            st.tuples(st.sampled_from(["get", "delete", "contains", "item", "pop", "del"]), key),
            st.tuples(st.just("range"), bound, bound, st.booleans()),
            st.tuples(st.just("prefix"), key, st.booleans()),
            st.tuples(st.just("put_all"), st.lists(st.tuples(key, value), max_size=3)),
            st.tuples(st.just("multi_get"), st.lists(key, max_size=3)),
            st.tuples(st.sampled_from(["len", "all", "iter", "popitem", "clear", "flush"])),
            st.tuples(st.just("live"), LIFE),
        )
    )


def writes(keys):
    """The same without what is seldom wrong: many changes of few keys."""
    key = st.sampled_from(keys)
    return sequences(
        st.one_of(
            st.tuples(st.just("put"), key, VALUES),
            st.tuples(st.sampled_from(["get", "delete"]), key),
            st.tuples(st.just("live"), LIFE),
        )
    )


def apply(store, verb, *arguments):
    """One operation on a real store."""
    if verb == "range":
        begin, end, reverse = arguments
        return list(store.range(begin, end, reverse=reverse))
    if verb == "prefix":
        prefix, reverse = arguments
        return list(store.prefix_scan(prefix, reverse=reverse))
    if verb == "all":
        return list(store.items()), list(store.all()), list(store.values()), bool(store)
    if verb in ("item", "popitem", "del"):
        try:
            if verb == "item":
                return store[arguments[0]]
            if verb == "del":
                del store[arguments[0]]
                return None
            return store.popitem()
        except KeyError:
            return "KeyError"
    simple = {
        "put": store.put,
        "put_if_absent": store.put_if_absent,
        "setdefault": store.setdefault,
        "get": lambda key: store.get(key, "none"),
        "delete": store.delete,
        "pop": lambda key: store.pop(key, "gone"),
        "contains": lambda key: key in store,
        "put_all": store.put_all,
        "multi_get": store.multi_get,
        "len": lambda: (len(store), store.approximate_num_entries()),
        "iter": lambda: list(store),
        "clear": store.clear,
        "flush": store.flush,
    }
    return simple[verb](*arguments)


class Model(dict):
    """The same on a dict."""

    def put(self, key, value):
        """None deletes."""
        if value is None:
            self.pop(key, None)
        else:
            self[key] = value

    def starts(self, key, prefix):
        """Whether a key begins with a prefix."""
        return key.startswith(prefix) if isinstance(key, str) else key == prefix

    def used(self, key):
        """A read of a key."""

    def apply(self, verb, *arguments):
        """One operation."""
        ordered = sorted(self.items())
        if verb == "range":
            begin, end, reverse = arguments
            found = [
                (key, value)
                for key, value in ordered
                if (begin is None or begin <= key) and (end is None or key <= end)
            ]
            return found[::-1] if reverse else found
        if verb == "prefix":
            prefix, reverse = arguments
            found = [(key, value) for key, value in ordered if self.starts(key, prefix)]
            return found[::-1] if reverse else found
        if verb == "all":
            return ordered, ordered, [value for _, value in ordered], bool(self)
        if verb == "len":
            return len(self), len(self)
        if verb == "iter":
            return [key for key, _ in ordered]
        if verb == "popitem":
            return (ordered[0][0], self.pop(ordered[0][0])) if ordered else "KeyError"
        if verb == "clear":
            return self.clear()
        if verb == "put_all":
            for key, value in arguments[0]:
                self.put(key, value)
            return None
        if verb == "multi_get":
            for key in arguments[0]:
                self.used(key)
            return {key: self[key] for key in arguments[0] if key in self}
        if verb == "flush":
            return None
        return self._of_key(verb, *arguments)

    def _of_key(self, verb, key, value=None):
        there = self.get(key)
        if verb not in ("contains", "del", "delete", "put"):
            self.used(key)
        if verb == "put":
            self.put(key, value)
            return None
        if verb == "put_if_absent":
            if there is None and value is not None:
                self.put(key, value)
            return there
        if verb == "setdefault":
            if there is None:
                self.put(key, value)
                return value
            return there
        if verb == "contains":
            return there is not None
        if verb == "get":
            return "none" if there is None else there
        if verb == "item":
            return "KeyError" if there is None else there
        self.pop(key, None)
        if verb == "del":
            return None if there is not None else "KeyError"
        if verb == "pop":
            return "gone" if there is None else there
        return there


def compare(descriptor, backend, steps, new_model, keys=("k",)):
    """Play the same operations on the store and on a model; the player and the models."""
    player = Player(descriptor, backend)
    shared = descriptor.scope == "partition"
    models = {key: new_model() for key in keys}
    for number, (verb, *arguments) in enumerate(steps):
        if verb == "live":
            player.live(*arguments)
            continue
        key = keys[number % len(keys)]
        model = models[keys[0] if shared else key]
        expected = model.apply(verb, *arguments)
        actual = player.do(lambda store: apply(store, verb, *arguments), key)
        assert expected == actual, (number, verb, arguments)
    player.commit()
    for key in keys:
        expected = models[keys[0] if shared else key]
        assert sorted(expected.items()) == player.do(lambda store: list(store.all()), key)
    player.commit()
    return player, models


def logged(models, descriptor):
    """What the changelog must come to."""
    if descriptor.scope == "partition":
        return dict(next(iter(models.values())))
    return {(key, mine): value for key, model in models.items() for mine, value in model.items()}


@law_of_each_backend
@pytest.mark.parametrize(
    ("key_type", "keys"), [(Types.STRING(), TEXTS), (Types.LONG(), NUMBERS)], ids=["text", "int"]
)
@given(data=st.data())
def test_a_key_value_store_is_a_sorted_dict(data, backend, key_type, keys):
    """Through any operations, commits, losses and restarts; and its changelog replays to it."""
    steps = data.draw(operations(keys) | writes(keys[:2]))
    scope, caching = data.draw(SCOPES), data.draw(st.booleans())
    descriptor = KeyValueStoreDescriptor("kv", key_type, Types.LONG(), scope=scope, caching=caching)
    player, models = compare(descriptor, backend, steps, Model, ("k", "other"))
    player.close()

    assert logged(models, descriptor) == replayed(player.records)


class LruModel(Model):
    """A dict whose order is that of use, the least recent first."""

    size = 3

    def put(self, key, value):
        super().put(key, value)
        self.used(key)
        if len(self) > self.size:
            self.pop(next(iter(self)))

    def used(self, key):
        if key in self:
            self[key] = self.pop(key)


@law_of_each_backend
@given(steps=operations(TEXTS[:6]) | writes(TEXTS[:5]), scope=SCOPES)
def test_an_lru_store_forgets_what_was_used_least_recently(steps, backend, scope):
    """The order of reads and writes outlives commits, losses and restarts; evictions are logged."""
    descriptor = LruStoreDescriptor("lru", Types.STRING(), Types.LONG(), max_entries=3, scope=scope)
    player, models = compare(descriptor, backend, steps, LruModel, ("k", "other"))
    uses = player.count("lru/use")
    player.close()

    assert logged(models, descriptor) == replayed(player.records)
    assert len(logged(models, descriptor)) == uses


@law_of_each_backend
@given(
    steps=sequences(
        st.tuples(
            st.sampled_from(["put", "pair", "item", "delete", "live"]),
            st.sampled_from(TEXTS[:4]),
            st.integers(-5, 5),
            LIFE,
        )
    )
)
def test_a_timestamped_store_keeps_each_values_time(steps, backend):
    """Given, in a pair, or that of the element; in the order of the puts, not of the times."""
    player = Player(TimestampedStoreDescriptor("ts", Types.STRING(), Types.LONG()), backend)
    model = {}
    for verb, key, time, life in steps:
        if verb == "live":
            player.live(life)
        elif verb == "put":
            player.do(lambda store: store.put(key, 7, time))
            model[key] = (7, time)
        elif verb == "pair":
            player.do(lambda store: store.put_all([(key, ValueAndTimestamp(8, time))]))
            model[key] = (8, time)
        elif verb == "item":
            player.do(lambda store: store.__setitem__(key, 9), timestamp=time)
            model[key] = (9, time)
        else:
            assert model.pop(key, None) == player.do(lambda store: store.delete(key))
        assert sorted(model.items()) == player.do(lambda store: list(store.all()))
    player.commit()
    player.close()
    times = {record.key: record.ts for record in player.records if record.op == "put"}

    assert {key: value for key, (value, _) in model.items()} == {
        key: value for (_, key), value in replayed(player.records).items()
    }
    assert {("k", key): time for key, (_, time) in model.items()}.items() <= times.items()
