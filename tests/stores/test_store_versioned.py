# SPDX-License-Identifier: Apache-2.0
"""The versioned store against all versions ever put."""

# ruff: noqa: B023 - what is defined in a loop here is called at once

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_functions import law_of_each_backend, times
from store_support import LIFE, Player, sequences

from pyflinklike import Types
from pyflinklike.stores import (
    NOT_PUT,
    StoreValueError,
    VersionedRecord,
    VersionedStoreDescriptor,
)

HISTORY = 20
KEYS = ["a", "a\x00", "b"]
TIMES = times(-20, 40)


class Model:
    """Forgets nothing, and says what may still be seen."""

    def __init__(self):
        self.versions = {key: {} for key in KEYS}
        self.now = None

    def put(self, key, value, time):
        """As the store's."""
        self.now = time if self.now is None else max(self.now, time)
        if time < self.now - HISTORY:
            return NOT_PUT
        self.versions[key][time] = value
        return self.valid_to(key, time)

    def valid_to(self, key, time):
        """When the next version begins."""
        return min((each for each in self.versions[key] if each > time), default=None)

    def get(self, key, time):
        """As the store's."""
        versions = self.versions[key]
        begun = [each for each in versions if time is None or each <= time]
        if not begun:
            return None
        last = max(begun)
        is_latest = last == max(versions)
        if not is_latest and time < self.now - HISTORY:
            return None
        value = versions[last]
        return None if value is None else (value, last, self.valid_to(key, last))

    def history(self, key, begin, end):
        """The latest first."""
        found = []
        for time, value in sorted(self.versions[key].items(), reverse=True):
            valid_to = self.valid_to(key, time)
            known = valid_to is None or valid_to > self.now - HISTORY
            asked = (end is None or time <= end) and (
                begin is None or valid_to is None or valid_to > begin
            )
            if value is not None and known and asked:
                found.append((value, time, valid_to))
        return found


@law_of_each_backend
@given(
    steps=sequences(
        st.one_of(
            st.tuples(st.just("put"), st.sampled_from(KEYS), st.none() | st.integers(0, 3), TIMES),
            st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(0, 3), TIMES),
            st.tuples(st.just("delete"), st.sampled_from(KEYS), TIMES),
            st.tuples(st.just("get"), st.sampled_from(KEYS), st.none() | TIMES),
            st.tuples(
                st.just("history"),
                st.sampled_from(KEYS),
                st.none() | TIMES,
                st.none() | TIMES,
                st.booleans(),
            ),
            st.tuples(st.just("live"), LIFE),
            st.tuples(st.just("compact")),
        )
    ),
    scope=st.sampled_from(["key", "partition"]),
)
def test_a_versioned_store_remembers_what_it_must(steps, scope, backend):
    """As one that never forgets, but for what is older than the history."""
    descriptor = VersionedStoreDescriptor(
        "v", Types.STRING(), Types.LONG(), history_retention=HISTORY, scope=scope
    )
    player, model = Player(descriptor, backend), Model()
    for verb, *arguments in steps:
        if verb == "live":
            player.live(*arguments)
        elif verb == "compact":
            player.operator.cleanup.drop_expired()
        elif verb == "put":
            expected = model.put(*arguments)
            assert expected == player.do(lambda store: store.put(*arguments))
        elif verb == "delete":
            key, time = arguments
            expected = model.get(key, time)
            if model.put(key, None, time) == NOT_PUT:
                expected = None
            assert expected == player.do(lambda store: store.delete(key, time))
        elif verb == "get":
            assert model.get(*arguments) == player.do(lambda store: store.get(*arguments))
        else:
            *what, ascending = arguments
            expected = model.history(*what)
            actual = player.do(
                lambda store: list(store.history(*what, order="asc" if ascending else "desc"))
            )
            assert (expected[::-1] if ascending else expected) == actual
    player.operator.cleanup.drop_expired()
    visible = sum(len(model.history(key, None, None)) for key in KEYS)
    tombstones = sum(value is None for key in KEYS for value in model.versions[key].values())
    assert visible <= player.count() <= visible + tombstones
    player.close()


def test_forgotten_versions_leave_the_storage():
    """A key that is written again and again keeps its history and no more."""
    descriptor = VersionedStoreDescriptor(
        "v", Types.STRING(), Types.LONG(), history_retention=HISTORY
    )
    player = Player(descriptor, 0)
    for time in range(500):
        player.do(lambda store: store.put("a", time, time))

    assert HISTORY + 1 == player.count()
    player.close()


def test_every_version_is_logged_with_its_time():
    """Caching would lose versions; a version that says there is no value is a deletion."""
    descriptor = VersionedStoreDescriptor(
        "v", Types.STRING(), Types.LONG(), history_retention=HISTORY, scope="partition"
    )
    player = Player(descriptor, 0)

    def act(store):
        store.put("a", 1, 10)
        store.put("a", 2, 5)
        store.delete("a", 20)
        store.put("b", None, 20)

    player.do(act)
    player.commit()
    player.close()

    assert [("a", 1, 10, "put"), ("a", 2, 5, "put")] == [r[1:] for r in player.records[:2]]
    assert [("a", None, 20, "delete"), ("b", None, 20, "delete")] == [
        r[1:] for r in player.records[2:]
    ]


def test_the_order_of_a_history_is_one_of_two():
    """Anything else is refused."""
    descriptor = VersionedStoreDescriptor(
        "v", Types.STRING(), Types.LONG(), history_retention=HISTORY
    )
    player = Player(descriptor, 0)
    player.do(lambda store: store.put("a", 1, 10))
    with pytest.raises(StoreValueError, match="'asc' or 'desc', got 'up'"):
        player.do(lambda store: store.history("a", order="up"))
    assert VersionedRecord(1, 10, None) == player.do(lambda store: store.get("a"))
    player.close()
