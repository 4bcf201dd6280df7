# SPDX-License-Identifier: Apache-2.0
"""Values that are collected difference by difference, and backends that merge."""

from random import Random

import pytest
from index_support import needs_rocksdict, put, values

from pyflinklike.errors import StateValueError, UpsertStateError
from pyflinklike.upsert import (
    Consolidating,
    FinalizedValue,
    MergeValue,
    ProvisionalValue,
    PutStats,
    PutValue,
    RocksDBUpsertBackend,
    Tombstone,
    UpsertState,
    ValueMetadata,
)

# Consolidating


def test_a_snapshot_in_any_order_is_the_collection(backend):
    """Old values go, whenever they come; sizes are those of what is left."""
    state = UpsertState(backend)
    state.consolidate_chunk([("a", "new", 1), ("b", "gone", -1)])
    state.consolidate_chunk([("c", "c", 1), ("a", "older, longer", -1), ("b", "gone", 1)])
    stats = state.consolidate_chunk([("a", "older, longer", 1)], completed=True)

    assert [FinalizedValue("new", None), None, FinalizedValue("c", None)] == values(
        state, "a", "b", "c"
    )
    sizes = [each.metadata.size for each in state.multi_get(["a", "c"])]
    assert (2, 0, sum(sizes)) == (state.num_records, state.num_tombstones, state.size_bytes)
    assert (1, 1, 1, 0) == (stats.updates, stats.values_diff, stats.inserts, stats.deletes)
    assert (6, 2, 4, 2) == (
        state.snapshot_stats.updates,
        state.snapshot_stats.values_diff,
        state.snapshot_stats.inserts,
        state.snapshot_stats.deletes,
    )


def test_what_is_taken_away_again_leaves_nothing(backend):
    """No state is held for its key."""
    state = UpsertState(backend)
    state.consolidate_chunk([("a", "v", 1), ("b", "v", -1)])
    state.consolidate_chunk([("a", "v", -1), ("b", "v", 1)])

    assert (0, 0) == (state.num_records, state.size_bytes)
    assert PutStats() == backend.totals()


def test_a_snapshot_is_completed_once(backend):
    """Twice is a RuntimeError that changes nothing; later chunks are what is appended."""
    state = UpsertState(backend)
    state.consolidate_chunk([("a", "v", 1)], completed=True)

    with pytest.raises(RuntimeError, match="completed once"):
        state.consolidate_chunk([("b", "v", 1)], completed=True)
    state.consolidate_chunk([("a", "v", -1), ("a", "w", 1)])

    assert [FinalizedValue("w", None), None] == values(state, "a", "b")


def test_a_collection_that_is_not_whole_is_no_value(backend):
    """Its key reads as the sketch it is, which tells why when it is decoded."""
    state = UpsertState(backend)
    state.consolidate_chunk([("a", "v", 1), ("a", "w", 1)])
    [held] = values(state, "a")

    assert isinstance(held, Consolidating)
    with pytest.raises(UpsertStateError, match="diff_sum: 2"):
        held.ensure_decoded()


def test_differences_of_what_was_put_are_exact(backend):
    """The order keys and tombstones that go are known, although a sketch has neither."""
    state = UpsertState(backend)
    put(state, "a", FinalizedValue("v", 10**9))
    put(state, "b", Tombstone(10**9))
    state.consolidate_chunk([("a", "v", -1), ("b", "w", 1), ("a", "vv", 1)])

    assert [FinalizedValue("vv", None), FinalizedValue("w", None)] == values(state, "a", "b")
    sizes = [each.metadata.size for each in state.multi_get(["a", "b"])]
    assert (2, 0, sum(sizes)) == (state.num_records, state.num_tombstones, state.size_bytes)


def test_of_a_provisional_value_what_is_settled_counts(backend):
    """What was emitted comes back as a difference."""
    state = UpsertState(backend)
    put(state, "a", ProvisionalValue(("old", 1), ("new", 5, 2)))
    state.consolidate_chunk([("a", "new", 1), ("a", "old", -1)])

    assert [FinalizedValue("new", None)] == values(state, "a")
    assert 1 == state.num_records


# Merging


def test_a_backend_says_whether_it_merges(backend):
    """Truthfully: it then does, and else refuses."""
    sketch = Consolidating()
    sketch.merge_update("v", 1)
    merge = [("a", MergeValue(sketch, 1))]
    if backend.supports_merge:
        stats = backend.multi_merge(merge)
        assert (1, 4) == (stats.written_merge_operands, stats.size_diff)
        assert [FinalizedValue("v", None)] == values(UpsertState(backend), "a")
    else:
        with pytest.raises(NotImplementedError, match="does not support merging"):
            backend.multi_merge(merge)


@needs_rocksdict
def test_operands_are_added_to_values(tmp_path):
    """As a merge operator would: a value is one record."""
    backend = RocksDBUpsertBackend(tmp_path)
    backend.multi_put([("a", PutValue(FinalizedValue("old", 5), None))])
    for value, diff in (("new", 1), ("old", -1)):
        sketch = Consolidating()
        sketch.merge_update(value, diff)
        backend.multi_merge([("a", MergeValue(sketch, diff))])

    assert [FinalizedValue("new", None)] == values(UpsertState(backend), "a")
    with pytest.raises(StateValueError, match="multi_merge takes"):
        backend.multi_merge([("a", sketch)])


@needs_rocksdict
def test_a_put_after_operands_replaces_them(tmp_path):
    """Nothing of them comes back."""
    backend = RocksDBUpsertBackend(tmp_path)
    sketch = Consolidating()
    sketch.merge_update("v", 1)
    backend.multi_merge([("a", MergeValue(sketch, 1)), ("aa", MergeValue(sketch, 1))])
    backend.multi_put([("a", PutValue(Tombstone(1), ValueMetadata(4, False)))])

    assert [Tombstone(1), FinalizedValue("v", None)] == values(UpsertState(backend), "a", "aa")


@needs_rocksdict
def test_many_operands_are_folded_in_slices(tmp_path):
    """More keys than one slice, whose bytes are beginnings of one another."""
    random = Random(3)
    keys = [random.randbytes(random.randrange(1, 4)) for _ in range(4_000)]
    expected = {key: FinalizedValue(i, None) for i, key in enumerate(keys)}
    rows = [(key, each.value, 1) for key, each in expected.items()]
    rows += [row for key in keys for row in ((key, "old", 1), (key, "old", -1))]
    random.shuffle(rows)
    backend = RocksDBUpsertBackend(tmp_path)
    state = UpsertState(backend)
    for begin in range(0, len(rows), 999):
        state.consolidate_chunk(rows[begin : begin + 999])

    assert list(expected.values()) == values(state, *expected)
    assert len(expected) == state.num_records == UpsertState(backend).num_records
