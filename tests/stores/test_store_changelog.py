# SPDX-License-Identifier: Apache-2.0
"""What all stores share: caching and the changelog."""

from __future__ import annotations

import pytest
from store_functions import KV, Doer, harness, put_something
from store_support import replayed

from pyflinklike import Types
from pyflinklike.errors import UserFunctionError
from pyflinklike.stores import (
    ChangelogRecord,
    KeyValueStoreDescriptor,
    SessionStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.stores import state_store as changes_module
from pyflinklike.testing import KeyedProcessHarness

TEXT, LONG = Types.STRING(), Types.LONG()


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
