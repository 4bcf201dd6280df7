# SPDX-License-Identifier: Apache-2.0
"""What all stores share: declaration, life, cursors, caching and the changelog."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from store_support import BACKENDS, Player, replayed

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor, errors, stores
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    StateAccessError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.stores import (
    ChangelogRecord,
    CursorClosedError,
    KeyValueStore,
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    StateStoreError,
    StoreClosedError,
    StoreNotInitializedError,
    TimestampedStoreDescriptor,
    UnknownStoreError,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
    open_in_memory,
)
from pyflinklike.stores import changes as changes_module
from pyflinklike.stores.kinds import store_of
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


class Doer(KeyedProcessFunction):
    """Opens stores, and does to them what its elements say."""

    def __init__(self, *descriptors):
        self.descriptors = descriptors

    def open(self, runtime_context):
        self.context = runtime_context
        self.stores = {each.name: runtime_context.get_store(each) for each in self.descriptors}

    def process_element(self, value, ctx):
        yield value(*self.stores.values())


def harness(*descriptors, **options):
    """Under the key "k"."""
    return KeyedProcessHarness(Doer(*descriptors), lambda _: "k", **options)


def put_something(store):
    """An entry in any kind of store."""
    kind = type(store).__name__
    if kind == "SessionStore":
        store.put("a", 1, 2, 7)
    elif kind in ("WindowStore", "VersionedStore", "TimestampedStore"):
        store.put("a", 7, 10)
    else:
        store.put("a", 7)


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
            r"\('key', 'partition'\), got 'global'",
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
    with harness(KV) as h:
        context, store = h._operator.function.context, h._operator.function.stores["kv"]
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


def test_the_names_of_1f_are_all_there():
    """Stores, exceptions (also in `errors`) and records."""
    exceptions = [
        "StateStoreError",
        "StoreClosedError",
        "StoreNotInitializedError",
        "CursorClosedError",
        "StoreMigratedError",
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


# Life


@of_each
def test_a_store_needs_a_key_and_to_be_open(descriptor):
    """It is refused in open(), between calls, before it was opened, and after it was closed."""
    use = {
        "SessionStore": lambda store: store.fetch("a"),
        "VersionedStore": lambda store: store.get("a"),
        "WindowStore": lambda store: store.get("a", 1),
    }.get(store_of(descriptor).__name__, lambda store: store.get("a"))
    bare = store_of(descriptor)(descriptor)
    assert (False, False, "kv") == (bare.is_open, bare.is_persistent, bare.name)
    with pytest.raises(StoreNotInitializedError, match="'kv' is not open"):
        use(bare)
    with pytest.raises(StoreNotInitializedError):
        _ = bare.changelog_name
    bare.close()
    bare.close()
    with harness(descriptor) as h:
        store = h._operator.function.stores["kv"]
        for access in (use, put_something):
            with pytest.raises(StateAccessError):
                access(store)
        h.process_element(put_something)
        assert store.is_open
    with pytest.raises(StoreClosedError, match="'kv' is closed"):
        use(store)
    assert (False, "kv") == (store.is_open, store.name)


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
    """And over them those that were declared."""
    assert expected == store_of(descriptor)(descriptor).changelog_config


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


# Caching and the changelog


def test_of_a_batch_only_the_last_change_of_an_entry_is_logged():
    """In the order of the last writes, each with the time of its element."""
    with harness(KV) as h:
        h.process_elements(
            [
                (lambda store: store.put("a", 1), 10),
                (lambda store: store.put("b", 1), 20),
                (lambda store: store.put("a", 20), 30),
                (lambda store: store.put("a", 300), 40),
            ]
        )
        assert [("kv", ("k", "b"), 1, 20, "put"), ("kv", ("k", "a"), 300, 40, "put")] == (
            h.side_output(KV.changelog_tag)
        )


def test_without_caching_every_change_is_logged():
    """At once, and in order."""
    descriptor = KeyValueStoreDescriptor("kv", TEXT, LONG, caching=False)
    with harness(descriptor) as h:
        h.process_element(lambda store: [store.put("a", each) for each in (1, 2, None)])

        assert [1, 2, None] == [r.value for r in h.side_output(descriptor.changelog_tag)]


@pytest.mark.parametrize("caching", [True, False])
def test_deleting_what_was_never_there_is_not_logged(caching):
    """Put, changed and deleted between two flushes, or deleted while it is absent."""
    descriptor = KeyValueStoreDescriptor("kv", TEXT, LONG, caching=caching)
    with harness(descriptor) as h:
        if caching:
            h.process_element(lambda store: [store.put("a", each) for each in (1, 2, None)])
        h.process_element(lambda store: store.put("b", None))
        h.process_element(lambda store: store.delete("c"))

        assert [] == h.side_output(descriptor.changelog_tag)


def test_a_flush_logs_at_once():
    """And what follows is a change of its own."""
    with harness(KV) as h:

        def act(store):
            store["a"] = 1
            store.flush()
            store["a"] = 2

        h.process_element(act)

        assert [1, 2] == [each.value for each in h.side_output(KV.changelog_tag)]


def test_a_full_cache_logs_all_it_holds(monkeypatch):
    """As Kafka's when it evicts a dirty entry."""
    monkeypatch.setattr(changes_module, "MAX_DIRTY", 2)
    with harness(KV) as h:
        h.process_element(lambda store: [store.put(each, 1) for each in "aabbccd"])

        assert list("abccd") == [each.key[1] for each in h.side_output(KV.changelog_tag)]


def test_a_failed_call_logs_nothing():
    """Not before a call succeeds, which logs what is in the store then."""
    with harness(KV) as h:

        def fail(store):
            store["a"] = 1
            raise RuntimeError("boom")

        with pytest.raises(UserFunctionError, match="boom"):
            h.process_element(fail)
        assert [] == h.side_output(KV.changelog_tag)
        h.process_element(lambda store: store.put("b", 2))
        assert {("k", "a"): 1, ("k", "b"): 2} == replayed(h.side_output(KV.changelog_tag))


def test_a_store_without_changelog_is_durable_all_the_same():
    """Nothing is sent to its tag, and everything is in the savepoint."""
    descriptor = KeyValueStoreDescriptor("kv", TEXT, LONG, changelog=False)
    with harness(descriptor) as h:
        h.process_element(put_something)
        blob = h.snapshot()
        assert [] == h.side_output(descriptor.changelog_tag)
    with harness(descriptor, restore=blob) as h:
        assert [7] == h.process_element(lambda store: store["a"])


def test_the_logged_key_tells_entries_apart():
    """Current key (scope "key"), key, and the times of windows and sessions."""
    window = WindowStoreDescriptor("w", TEXT, LONG, window_size=10, scope="partition")
    double = WindowStoreDescriptor("d", TEXT, LONG, window_size=10, retain_duplicates=True)
    session = SessionStoreDescriptor("s", TEXT, LONG)
    with harness(window, double, session) as h:

        def act(windows, doubles, sessions):
            windows.put("a", 1, 20)
            doubles.put("a", 1, 20)
            doubles.put("a", 2, 20)
            sessions.put("a", 5, 9, 1)

        h.process_element(act)
        keys = [
            [record.key for record in h.side_output(each.changelog_tag)]
            for each in (window, double, session)
        ]

    assert [[("a", 20)], [("k", "a", 20, 0), ("k", "a", 20, 1)], [("k", "a", 5, 9)]] == keys


def test_timers_have_stores_too():
    """A store is used in on_timer, and what it logs has the timer's time."""

    class Late(Doer):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(50)

        def on_timer(self, timestamp, ctx):
            self.stores["kv"]["fired"] = timestamp
            yield self.stores["kv"]["fired"]

    with KeyedProcessHarness(Late(KV), lambda _: "k") as h:
        h.process_element(0, 1)
        assert [50] == h.process_watermark(60)
        assert [ChangelogRecord("kv", ("k", "fired"), 50, 50, "put")] == (
            h.side_output(KV.changelog_tag)
        )


# Scopes


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
