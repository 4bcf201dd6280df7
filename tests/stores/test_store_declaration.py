# SPDX-License-Identifier: Apache-2.0
"""What all stores share: how they are declared, and what becomes of a declaration at a restore."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from store_functions import EACH, KV, Doer, harness, of_each, of_each_backend, put_something
from store_support import BACKENDS

from pyflinklike import Types, ValueStateDescriptor, errors, stores
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
)
from pyflinklike.stores import (
    CursorClosedError,
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    StateStoreError,
    UnknownStoreError,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.testing import KeyedProcessHarness

TEXT, LONG = Types.STRING(), Types.LONG()


# Declaration


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "."])
def test_a_name_is_kafkas(name):
    """1 to 249 of the characters of a topic's name."""
    assert name == KeyValueStoreDescriptor(name, TEXT, LONG).name


@pytest.mark.parametrize(
    ("declare", "error", "got"),
    [
        (lambda: KeyValueStoreDescriptor("", TEXT, LONG), DeclarationValueError, "''"),
        (lambda: KeyValueStoreDescriptor("a/b", TEXT, LONG), DeclarationValueError, "'a/b'"),
        (lambda: KeyValueStoreDescriptor("x" * 250, TEXT, LONG), DeclarationValueError, "xxx"),
        (lambda: KeyValueStoreDescriptor(None, TEXT, LONG), DeclarationTypeError, "None"),
        (lambda: KeyValueStoreDescriptor("a", Types.STRING, LONG), DeclarationTypeError, "STRING"),
        (lambda: KeyValueStoreDescriptor("a", TEXT, str), DeclarationTypeError, "class 'str'"),
        (
            lambda: KeyValueStoreDescriptor("a", Types.PICKLED_BYTE_ARRAY(), LONG),
            DeclarationTypeError,
            "Pickled",
        ),
        (
            lambda: KeyValueStoreDescriptor("a", Types.TUPLE([TEXT, Types.BIG_DEC()]), LONG),
            DeclarationTypeError,
            "BigDec",
        ),
        (
            lambda: KeyValueStoreDescriptor("a", TEXT, LONG, scope="global"),
            DeclarationValueError,
            r"\['key', 'partition'\], got 'global'",
        ),
        (
            lambda: KeyValueStoreDescriptor("a", TEXT, LONG, caching=1),
            DeclarationTypeError,
            "caching must be a bool, got 1",
        ),
        (
            lambda: KeyValueStoreDescriptor("a", TEXT, LONG, changelog_config=["x"]),
            DeclarationTypeError,
            "changelog_config",
        ),
        (lambda: LruStoreDescriptor("a", TEXT, LONG), TypeError, "max_entries"),
        (lambda: LruStoreDescriptor("a", TEXT, LONG, max_entries=0), DeclarationValueError, "0"),
        (
            lambda: LruStoreDescriptor("a", TEXT, LONG, max_entries=True),
            DeclarationTypeError,
            "True",
        ),
        (lambda: LruStoreDescriptor("a", TEXT, LONG, max_entries=2.0), DeclarationTypeError, "2.0"),
        (lambda: WindowStoreDescriptor("a", TEXT, LONG), TypeError, "window_size"),
        (lambda: WindowStoreDescriptor("a", TEXT, LONG, window_size=0), ValueError, "0 ms"),
        (
            lambda: WindowStoreDescriptor("a", TEXT, LONG, window_size=11, retention=10),
            DeclarationValueError,
            "retention 10 ms and window_size 11 ms",
        ),
        (
            lambda: WindowStoreDescriptor("a", TEXT, LONG, window_size=1, segments=1),
            DeclarationValueError,
            "segments must be at least 2, got 1",
        ),
        (
            lambda: WindowStoreDescriptor("a", TEXT, LONG, window_size=1, stream_time="wall"),
            DeclarationValueError,
            "'wall'",
        ),
        (
            lambda: SessionStoreDescriptor("a", TEXT, LONG, stream_time="key", scope="partition"),
            DeclarationValueError,
            "needs scope 'key'",
        ),
        (lambda: SessionStoreDescriptor("a", TEXT, LONG, retention=0), ValueError, "0 ms"),
        (lambda: VersionedStoreDescriptor("a", TEXT, LONG), TypeError, "history_retention"),
        (
            lambda: VersionedStoreDescriptor("a", TEXT, LONG, history_retention=-1),
            DeclarationValueError,
            "-1",
        ),
    ],
)
def test_a_wrong_declaration_is_refused_at_once(declare, error, got):
    """With what was got, before any function runs."""
    with pytest.raises(error, match=got):
        declare()


def test_a_descriptor_is_a_value():
    """It compares, hashes and pickles by value, with times in ms and defaults filled in."""
    one = WindowStoreDescriptor("w", TEXT, LONG, window_size=timedelta(seconds=1))
    same = WindowStoreDescriptor("w", TEXT, LONG, window_size=1_000, retention=86_400_000)

    assert (one, hash(one), one) == (same, hash(same), pickle.loads(pickle.dumps(one)))
    assert ("key", 2, 1_000) == (one.stream_time, one.segments, one.window_size)
    shared = SessionStoreDescriptor("s", TEXT, LONG, scope="partition")
    assert "partition" == shared.stream_time


def test_a_store_is_made_once():
    """The same declaration gives the same store, another one under its name is refused."""
    doer = Doer(KV)
    with KeyedProcessHarness(doer, lambda _: "k"):
        context, store = doer.context, doer.stores["kv"]
        assert store is context.get_store(KeyValueStoreDescriptor("kv", TEXT, LONG))
        with pytest.raises(DeclarationValueError, match="already declared"):
            context.get_store(KeyValueStoreDescriptor("kv", LONG, LONG))
        with pytest.raises(DeclarationTypeError, match="get_store takes a descriptor"):
            context.get_store(ValueStateDescriptor("v", LONG))
        with pytest.raises(DeclarationError, match="already declared as a store"):
            context.get_state(ValueStateDescriptor("kv", LONG))
        context.get_state(ValueStateDescriptor("state", LONG))
        with pytest.raises(DeclarationError, match="already declared as a state"):
            context.get_store(KeyValueStoreDescriptor("state", TEXT, LONG))
        context.get_state(ValueStateDescriptor("w/time", LONG))
        with pytest.raises(DeclarationError, match="'w/time' is already declared as a state"):
            context.get_store(WindowStoreDescriptor("w", TEXT, LONG, window_size=1))


def test_all_public_names_are_there():
    """Stores, exceptions (also in `errors`) and records."""
    exceptions = [
        "StateStoreError",
        "StoreClosedError",
        "StoreNotInitializedError",
        "CursorClosedError",
        "UnknownStoreError",
        "UpsertError",
        "KeyDecodeError",
        "ValueDecodeError",
        "NullKeyError",
    ]
    assert all(getattr(stores, each) is getattr(errors, each) for each in exceptions)
    assert issubclass(CursorClosedError, RuntimeError)
    assert issubclass(UnknownStoreError, KeyError)
    assert all(issubclass(getattr(stores, each), StateStoreError) for each in exceptions)
    assert [] == [each for each in stores.__all__ if not hasattr(stores, each)]


# What was restored


@of_each
@of_each_backend
def test_each_store_survives_a_savepoint(descriptor, backend):
    """Of one backend into the other."""
    look = {
        "SessionStore": lambda store: list(store.fetch("a")),
        "WindowStore": lambda store: list(store.all()),
        "VersionedStore": lambda store: list(store.history("a")),
    }
    with harness(descriptor, state_backend=BACKENDS[backend]) as h:
        h.process_element(put_something, 5)
        kind = type(h.store("kv", "k")).__name__
        find = look.get(kind, lambda store: list(store.all()))
        before = h.process_element(find)
        blob = h.snapshot()
    other = BACKENDS[(backend + 1) % len(BACKENDS)]
    with harness(descriptor, state_backend=other, restore=blob) as h:
        assert [] != before == h.process_element(find)
        assert [] == h.side_output(descriptor.changelog_tag)


@pytest.mark.parametrize(
    ("before", "after", "got"),
    [
        (KV, EACH[1], "lru store"),
        (KV, KeyValueStoreDescriptor("kv", LONG, LONG), "by Long"),
        (KV, KeyValueStoreDescriptor("kv", TEXT, TEXT), "value type"),
        (KV, KeyValueStoreDescriptor("kv", TEXT, LONG, scope="partition"), "scope partition"),
        (EACH[3], WindowStoreDescriptor("kv", TEXT, LONG, window_size=11), "window of 11 ms"),
        (
            EACH[3],
            WindowStoreDescriptor("kv", TEXT, LONG, window_size=10, retain_duplicates=True),
            "several values",
        ),
        (
            EACH[3],
            WindowStoreDescriptor("kv", TEXT, LONG, window_size=10, stream_time="watermark"),
            "by watermark",
        ),
    ],
)
def test_another_kind_of_store_is_not_read(before, after, got):
    """What was written as another kind, type, size, scope or time is an error that says so."""
    with harness(before) as h:
        h.process_element(put_something, 5)
        blob = h.snapshot()
    with pytest.raises(IncompatibleStateError, match=got):
        harness(after, restore=blob)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (EACH[1], LruStoreDescriptor("kv", TEXT, LONG, max_entries=5, caching=False)),
        (EACH[3], WindowStoreDescriptor("kv", TEXT, LONG, window_size=10, retention=20)),
        (EACH[3], WindowStoreDescriptor("kv", TEXT, LONG, window_size=10, segments=9)),
        (EACH[4], SessionStoreDescriptor("kv", TEXT, LONG, retention=20, changelog=False)),
        (EACH[5], VersionedStoreDescriptor("kv", TEXT, LONG, history_retention=99)),
    ],
)
def test_what_may_change_between_runs(before, after):
    """Retention, segments, the bound of an LRU, caching and logging."""
    with harness(before) as h:
        h.process_element(put_something, 5)
        blob = h.snapshot()
    with harness(after, restore=blob) as h:
        assert 1 == h.num_keyed_state_entries("kv")
