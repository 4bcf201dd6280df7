# SPDX-License-Identifier: Apache-2.0
"""The chain of a log is read link by link, by whoever reads it: cold, catching up, or into a savepoint."""

from __future__ import annotations

import attrs
import pytest
from group_log_support import Worker, read_cold

from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._changelog.segments import read_segment
from pyflinklike.errors import CorruptStateError
from pyflinklike.state_processor._logs.checkpoint_logs import read_log

LENGTH = 5


def log(key: str) -> InMemoryLogStorage:
    """A log of five segments."""
    worker, store = Worker(), InMemoryLogStorage()
    for number in range(LENGTH):
        worker.batch(store, **{key: number, f"{key}{number}": number})
    assert [0, 1, 2, 3, 4] == sorted(store.segments)
    return store


@pytest.fixture
def store() -> InMemoryLogStorage:
    """A key group."""
    return log("a")


@pytest.fixture
def other() -> InMemoryLogStorage:
    """Another key group of the same shape."""
    return log("b")


def assert_refused(store: InMemoryLogStorage, match: str = "segment") -> None:
    """By a worker that starts anew, and by a savepoint."""
    with pytest.raises(CorruptStateError, match=rf"operator 'totals', key group 0.*{match}"):
        read_cold(store)
    with pytest.raises(CorruptStateError, match=match):
        read_log(store.head, store.segments, "operator 'totals', key group 0")


def test_a_log_that_is_whole_is_read(store):
    """All of it."""
    assert 6 == len(read_cold(store))


@pytest.mark.parametrize("at", range(LENGTH))
def test_a_whole_segment_of_another_key_group_is_refused(store, other, at):
    """Wherever it is; it is named."""
    store.segments[at] = other.segments[at]
    # What is before it is right; the first needs none before it, so its successor tells.
    assert_refused(store, f"segment {max(at, 1)}: the segment does not follow")


def test_all_segments_of_another_key_group_are_refused(store, other):
    """The head knows its last."""
    store.segments = other.segments
    assert_refused(store, "last segment is not the one its head names")


@pytest.mark.parametrize("first", range(1, LENGTH))
def test_a_head_that_drops_segments_is_refused(store, first):
    """The first that counts must need none before it."""
    store.head = attrs.evolve(store.head, first_sequence=first)
    assert_refused(store, f"segment {first}: the segment does not follow")


def test_a_head_that_ends_too_early_or_too_late_is_refused(store):
    """Its nonce is the last segment's, and there is none behind."""
    whole = store.head
    store.head = attrs.evolve(whole, next_sequence=LENGTH - 1)
    assert_refused(store, "last segment is not the one its head names")
    store.head = attrs.evolve(whole, next_sequence=LENGTH + 1)
    assert_refused(store, f"segment {LENGTH}: the segment is missing")


@pytest.mark.parametrize("at", range(LENGTH - 1))
def test_segments_in_another_order_are_refused(store, at):
    """Each names the one before it."""
    one, two = store.segments[at], store.segments[at + 1]
    store.segments[at], store.segments[at + 1] = two, one
    assert_refused(store)


@pytest.mark.parametrize("at", range(1, LENGTH))
def test_a_segment_that_is_there_twice_is_refused(store, at):
    """In place of the next one."""
    store.segments[at] = store.segments[at - 1]
    assert_refused(store, f"segment {at}: the segment does not follow")


@pytest.mark.parametrize("at", range(2, LENGTH))
def test_catching_up_reads_every_link(store, other, at):
    """And not the first alone."""
    behind = Worker()
    early = InMemoryLogStorage(
        attrs.evolve(store.head, nonce=read_segment(store.segments[0], "").nonce, next_sequence=1),
        {0: store.segments[0]},
    )
    behind.load(early)
    store.segments[at] = other.segments[at]
    with pytest.raises(CorruptStateError, match=f"segment {at}: the segment does not follow"):
        behind.load(store)


def test_working_state_that_is_no_ancestor_is_built_anew(store, other):
    """It is not damage that another history is kept warm."""
    behind = Worker()
    behind.load(
        InMemoryLogStorage(
            attrs.evolve(
                other.head, nonce=read_segment(other.segments[0], "").nonce, next_sequence=1
            ),
            {0: other.segments[0]},
        )
    )
    behind.load(store)
    assert read_cold(store) == behind.contents()
    assert 0 == behind.metrics.caught_up_loads
