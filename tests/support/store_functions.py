# SPDX-License-Identifier: Apache-2.0
"""A function that does to its stores what its elements say, and a store of each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from store_support import BACKENDS

from pyflinklike import KeyedProcessFunction, Types
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    StoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.testing import KeyedProcessHarness

TEXT, LONG = Types.STRING(), Types.LONG()
KV = KeyValueStoreDescriptor("kv", TEXT, LONG)
EACH = [
    KV,
    LruStoreDescriptor("kv", TEXT, LONG, max_entries=2),
    TimestampedStoreDescriptor("kv", TEXT, LONG),
    WindowStoreDescriptor("kv", TEXT, LONG, window_size=10),
    SessionStoreDescriptor("kv", TEXT, LONG),
    VersionedStoreDescriptor("kv", TEXT, LONG, history_retention=10),
]
of_each = pytest.mark.parametrize("descriptor", EACH, ids=lambda each: type(each).__name__)
of_each_backend = pytest.mark.parametrize("backend", range(len(BACKENDS)))


def law_of_each_backend(test: Callable[..., Any]) -> Any:
    """A law tried over each backend, on half the examples: a history opens RocksDB again and again."""
    return of_each_backend(settings(max_examples=settings().max_examples // 2)(test))


def times(first: int, last: int) -> st.SearchStrategy[int]:
    """Tens and their neighbours: boundaries lie tens apart, and are met and not only passed."""
    tens, beside = st.integers(first // 10, last // 10), st.sampled_from([0, 0, 0, -1, 1])
    return st.builds(lambda ten, by: 10 * ten + by, tens, beside)


class Doer(KeyedProcessFunction):
    """Opens stores, and does to them what its elements say."""

    def __init__(self, *descriptors: StoreDescriptor) -> None:
        self.descriptors = descriptors

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context
        self.stores = {each.name: runtime_context.get_store(each) for each in self.descriptors}

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value(*self.stores.values())


def harness(*descriptors: StoreDescriptor, **options: Any) -> KeyedProcessHarness:
    """Under the key "k"."""
    return KeyedProcessHarness(Doer(*descriptors), lambda _: "k", **options)


def put_something(store: Any, key: str = "a") -> None:
    """An entry in any kind of store."""
    kind = type(store).__name__
    if kind == "SessionStore":
        store.put(key, 1, 2, 7)
    elif kind in ("WindowStore", "VersionedStore", "TimestampedStore"):
        store.put(key, 7, 10)
    else:
        store.put(key, 7)
