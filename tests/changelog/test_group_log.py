# SPDX-License-Identifier: Apache-2.0
"""The log of a key group: commits, the nonce rule, catching up."""

import attrs
import pytest
from group_log_support import Worker, read_cold

from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike.errors import CorruptStateError


def test_a_commit_writes_only_what_changed(store):
    """The second segment is as small as its batch."""
    worker = Worker()
    worker.batch(store, **{f"k{number}": number for number in range(500)})
    worker.batch(store, k1=0)

    assert len(store.segments[1]) < len(store.segments[0]) / 5


def test_a_commit_without_changes_writes_nothing(store):
    """Neither a segment nor a head."""
    worker = Worker()
    worker.load(store)

    assert (None, InMemoryLogStorage()) == (worker.commit(store), store)


def test_a_commit_without_changes_moves_the_time_to_wake(store):
    """The head alone is written, and the state is the same."""
    worker = Worker()
    worker.batch(store, a=1)
    before = store.head
    worker.commit(store, wake_at=5)

    assert attrs.evolve(before, wake_at=5) == store.head


def test_every_commit_draws_another_nonce(store):
    """Also where it writes the same entries."""
    worker = Worker()
    nonces = set()
    for _ in range(5):
        worker.batch(store, a=1)
        nonces.add(store.head.nonce)

    assert 5 == len(nonces)


def test_warm_working_state_is_used(store):
    """Where its nonce is the head's, nothing is read."""
    worker = Worker()
    worker.batch(store, a=1)
    warm = worker.group
    unreadable = InMemoryLogStorage(store.head)

    assert warm is worker.load(unreadable)


def test_warm_working_state_of_another_commit_is_not_used(store):
    """Of two that followed one state, only the durable one counts."""
    lost, winner = Worker(), Worker()
    lost.batch(store, a=1)
    winner.load(store)
    lost.batch(store.copy(), a=2)
    winner.batch(store, a=3)
    lost.load(store)

    assert {"a": 3} == lost.contents()


def test_working_state_whose_first_commit_was_lost_is_not_used(store):
    """The group has no head, so it is empty."""
    worker = Worker()
    worker.batch(store.copy(), a=1)
    worker.load(store)

    assert {} == worker.contents()


def test_an_older_working_state_is_caught_up(store):
    """Only the segments since are read."""
    away, here = Worker(), Worker()
    away.batch(store, a=1, b=1)
    here.batch(store, a=2)
    here.batch(store, c=3)
    del store.segments[0]
    away.load(store)

    assert {"a": 2, "b": 1, "c": 3} == away.contents()


def test_an_older_working_state_of_a_lost_commit_is_not_caught_up(store):
    """The segment that follows it has another parent."""
    lost, winner = Worker(), Worker()
    lost.batch(store, a=1)
    winner.load(store)
    lost.batch(store.copy(), lost=1)
    winner.batch(store, a=2)
    winner.batch(store, b=3)
    lost.load(store)

    assert {"a": 2, "b": 3} == lost.contents()


def test_a_late_attempt_in_the_place_of_one_that_counts_is_refused(store):
    """As Spark's first checkpoint format lets it happen: the same entries, and the next segment has another parent."""
    late, winner = Worker(), Worker()
    late.batch(store, a=1)
    elsewhere = store.copy()
    winner.batch(store, a=2)
    winner.batch(store, b=3)
    late.batch(elsewhere, a=2)
    store.segments[1] = elsewhere.segments[1]

    with pytest.raises(CorruptStateError, match="segment 2"):
        read_cold(store)
