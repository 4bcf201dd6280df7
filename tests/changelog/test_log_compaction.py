# SPDX-License-Identifier: Apache-2.0
"""Compaction: when a log is written anew, and what it keeps."""

from random import Random

import pytest
from group_log_support import Worker, read_cold

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._changelog.segments import read_segment
from pyflinklike.errors import IncompatibleStateError


def test_the_log_stays_within_its_bound(store):
    """Updates of the same few keys do not pile up."""
    worker = Worker()
    sizes = []
    for number in range(200):
        worker.batch(store, a=number, b=number)
        sizes.append(store.size)

    assert max(sizes) < 6_000


def test_the_log_of_much_state_stays_within_its_bound(store):
    """Within 2.5 times what a snapshot of the same entries takes, and some KiB."""
    worker, fresh = Worker(), InMemoryLogStorage()
    keys = [f"k{number}" for number in range(2_000)]
    sizes = []
    for number in range(20):
        worker.batch(store, **dict.fromkeys(keys[:: number % 3 + 1], number))
        sizes.append(store.size)
    Worker().batch(fresh, **dict.fromkeys(keys, 1))

    assert max(sizes) < 2.5 * fresh.size + 8_192


def test_a_log_of_small_commits_is_held_against_a_compressed_snapshot(store):
    """What a snapshot of the same entries takes counts, not what the commits took to write them."""
    random = Random(3)
    keys = [f"user-{number:06}" for number in range(4_000)]
    worker = Worker()
    worker.batch(store, **dict.fromkeys(keys, 1))
    for number in range(150):
        worker.batch(store, **dict.fromkeys(random.sample(keys, 80), number))
    size, fresh = store.size, InMemoryLogStorage()
    Worker().batch(fresh, **worker.contents())

    assert size < 2.1 * fresh.size + 8_192


def test_groups_that_fill_at_one_pace_are_compacted_in_different_batches():
    """Otherwise one batch would have to compact all of them."""
    compacted = []
    for index in (0, 20, 40, 60):
        store, worker = InMemoryLogStorage(), Worker()
        worker.group = KeyGroupState(index)
        worker.batch(store, **{f"key {number}": 0 for number in range(1_000)})
        batches = 0
        while not store.head.snapshot_entries:
            worker.batch(store, **{f"key {number}": batches for number in range(50)})
            batches += 1
        compacted.append(batches)

    assert len(set(compacted)) == len(compacted)


def test_compaction_asks_for_cleanup_first(store):
    """What the cleanup deletes is not in the snapshot."""
    worker = Worker(before=lambda: worker.delete("a"))
    worker.batch(store, a=1, b=2)
    worker.group.rewrite = True
    worker.commit(store)

    assert {"b": 2} == read_cold(store)


def test_compaction_of_an_empty_group_leaves_no_segment(store):
    """Only a head that says what the checkpoint was made with, and refuses anything else."""
    worker = Worker()
    worker.batch(store, a=1)
    worker.delete("a")
    worker.group.rewrite = True
    worker.commit(store)

    assert (0, 0, 8) == (store.head.next_sequence, store.head.log_bytes, store.head.max_parallelism)
    assert not store.segments
    with pytest.raises(IncompatibleStateError, match="fixed by its checkpoint at 8, got 4"):
        Worker(max_parallelism=4).load(store)


def test_an_erased_group_can_be_written_again(store):
    """Its new log declares its tables anew, and a new worker reads it."""
    worker = Worker()
    worker.batch(store, a=1)
    worker.delete("a")
    worker.group.rewrite = True
    worker.commit(store)
    worker.batch(store, b=2)

    assert {"b": 2} == read_cold(store)


def test_an_erased_group_is_not_compacted_again(store):
    """There is nothing to compact: an idle one costs no write, and the next entry is appended."""
    worker = Worker()
    worker.batch(store, a=1)
    worker.delete("a")
    worker.group.rewrite = True
    worker.commit(store)
    worker.commit(store)
    worker.batch(store, b=2)

    assert (1, 0) == (worker.metrics.compactions, store.head.snapshot_entries)


def test_a_compaction_writes_its_own_changes_before_the_snapshot(store):
    """What keeps a record of all writes can tell what a batch changed, also where it compacted."""
    worker = Worker()
    worker.batch(store, a=1, b=1)
    former = store.head.nonce
    written = []

    class Recorded(InMemoryLogStorage):
        def write_segment(self, sequence, blob):
            written.append((sequence, read_segment(blob, "")))
            super().write_segment(sequence, blob)

    recorded = Recorded(store.head, dict(store.segments))
    worker.load(recorded)
    worker.put("b", 2)
    worker.group.rewrite = True
    worker.commit(recorded)
    (at, own), (snapshot_at, snapshot) = written
    assert (at, former, b"") == (snapshot_at, own.parent, snapshot.parent)
    assert {"a": 1, "b": 2} == read_cold(recorded)
    assert 1 == len(recorded.segments)
