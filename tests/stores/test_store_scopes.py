# SPDX-License-Identifier: Apache-2.0
"""Stores of a partition, stores alone, and who sees whose changes."""

from __future__ import annotations

import pytest
from store_functions import KV, Doer, harness, of_each, of_each_backend, put_something
from store_support import BACKENDS, replayed

from pyflinklike import Types
from pyflinklike.errors import StateValueError
from pyflinklike.stores import (
    KeyValueStore,
    KeyValueStoreDescriptor,
    UnknownStoreError,
    WindowStoreDescriptor,
    open_in_memory,
)
from pyflinklike.testing import KeyedProcessHarness

TEXT, LONG = Types.STRING(), Types.LONG()


@of_each_backend
def test_a_store_of_a_partition_is_shared_by_its_keys(backend):
    """And one of a key is not."""
    shared = KeyValueStoreDescriptor("shared", TEXT, LONG, scope="partition")

    class Both(Doer):
        def process_element(self, value, ctx):
            for store in self.stores.values():
                store[value] = store.get(value, 0) + 1
                yield len(store), dict(store.items())

    with KeyedProcessHarness(Both(KV, shared), lambda v: v, state_backend=BACKENDS[backend]) as h:
        h.process_element("a")
        assert [(1, {"b": 1}), (2, {"a": 1, "b": 1})] == h.process_element("b")
        assert 1 == h.store("kv", "a")["a"]
        assert {"a": 1, "b": 1} == dict(h.store("shared").items())
        with pytest.raises(StateValueError):
            h.store("kv")
        with pytest.raises(UnknownStoreError, match="no store 'x' is declared, got only"):
            h.store("x")
        h.store("kv", "a").put("z", 26)
        h.process_element("a")
        assert {"a": 2, "z": 26} == dict(h.store("kv", "a").items())
        assert {("a", "a"): 2, ("a", "z"): 26, ("b", "b"): 1} == (
            replayed(h.side_output(KV.changelog_tag))
        )


def test_the_frontier_of_a_watermark_outlives_a_restart():
    """Though the harness begins at no watermark again: what was expired stays so."""
    descriptor = WindowStoreDescriptor(
        "w", TEXT, LONG, window_size=10, retention=20, stream_time="watermark"
    )
    with harness(descriptor) as h:
        h.process_element(lambda store: store.put("a", 1, 0))
        h.process_watermark(100)
        assert [[]] == h.process_element(lambda store: list(store.all()))
        blob = h.snapshot()
    with harness(descriptor, restore=blob) as h:
        assert [([], 100)] == h.process_element(
            lambda store: (list(store.all()), store.observed_stream_time)
        )
        h.process_element(lambda store: store.put("a", 1, 80))
        assert [[]] == h.process_element(lambda store: list(store.all()))
        h.process_element(lambda store: store.put("a", 1, 81))
        h.end_of_input()
        assert [[(81, 1)]] == h.process_element(lambda store: list(store.fetch("a")))


@of_each
def test_a_store_can_stand_alone(descriptor):
    """For unit tests of code that is given one."""
    store = open_in_memory(descriptor)
    put_something(store)

    assert store.is_open
    assert isinstance(store, KeyValueStore) == hasattr(store, "prefix_scan")


def test_the_changes_of_a_shared_entry_are_one_whoever_makes_them():
    """In scope "partition" two keys that write one entry in a batch leave its last change."""
    shared = KeyValueStoreDescriptor("shared", TEXT, LONG, scope="partition")
    with KeyedProcessHarness(Doer(shared), lambda value: value[0]) as h:

        class By(tuple):
            __slots__ = ()

            def __call__(self, store):
                store.put(*self[1:])

        h.process_elements(
            [
                (By(("x", "a", 1)), 1),
                (By(("y", "a", 2)), 2),
                (By(("x", "b", 1)), 3),
                (By(("y", "b", None)), 4),
            ]
        )

        assert [("shared", "a", 2, 2, "put")] == h.side_output(shared.changelog_tag)
