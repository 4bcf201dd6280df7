# SPDX-License-Identifier: Apache-2.0
"""Values that are collected difference by difference, and states that are merged."""

from random import Random

import pytest
from index_support import put, values

from pyflinklike.errors import StateValueError, UpsertStateError
from pyflinklike.upsert import (
    Consolidating,
    FinalizedValue,
    MergeStats,
    MergeValue,
    ProvisionalValue,
    Tombstone,
    UpsertValueAndSize,
)

# Consolidating


def test_a_snapshot_in_any_order_is_the_collection(state):
    """Old values go, whenever they come; sizes are those of what is left."""
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


def test_what_is_taken_away_again_leaves_nothing(state):
    """No state is held for its key."""
    state.consolidate_chunk([("a", "v", 1), ("b", "v", -1)])
    state.consolidate_chunk([("a", "v", -1), ("b", "v", 1)])

    assert (0, 0) == (state.num_records, state.size_bytes)
    assert [UpsertValueAndSize(None, None)] * 2 == state.multi_get(["a", "b"])


def test_a_snapshot_is_completed_once(state):
    """Twice is a RuntimeError that changes nothing; later chunks are what is appended."""
    state.consolidate_chunk([("a", "v", 1)], completed=True)

    with pytest.raises(RuntimeError, match="completed once"):
        state.consolidate_chunk([("b", "v", 1)], completed=True)
    state.consolidate_chunk([("a", "v", -1), ("a", "w", 1)])

    assert [FinalizedValue("w", None), None] == values(state, "a", "b")


def test_a_collection_that_is_not_whole_is_no_value(state):
    """Its key reads as the sketch it is, which tells why when it is decoded."""
    state.consolidate_chunk([("a", "v", 1), ("a", "w", 1)])
    [held] = values(state, "a")

    assert isinstance(held, Consolidating)
    with pytest.raises(UpsertStateError, match="diff_sum: 2"):
        held.ensure_decoded()


def test_differences_of_what_was_put_are_exact(state):
    """The order keys and tombstones that go are known, although a sketch has neither."""
    put(state, "a", FinalizedValue("v", 10**9))
    put(state, "b", Tombstone(10**9))
    state.consolidate_chunk([("a", "v", -1), ("b", "w", 1), ("a", "vv", 1)])

    assert [FinalizedValue("vv", None), FinalizedValue("w", None)] == values(state, "a", "b")
    sizes = [each.metadata.size for each in state.multi_get(["a", "b"])]
    assert (2, 0, sum(sizes)) == (state.num_records, state.num_tombstones, state.size_bytes)


def test_of_a_provisional_value_what_is_settled_counts(state):
    """What was emitted comes back as a difference."""
    put(state, "a", ProvisionalValue(("old", 1), ("new", 5, 2)))
    state.consolidate_chunk([("a", "new", 1), ("a", "old", -1)])

    assert [FinalizedValue("new", None)] == values(state, "a")
    assert 1 == state.num_records


# Merging


def merge_of(value, diff=1):
    """A difference as a state to add."""
    sketch = Consolidating()
    sketch.merge_update(value, diff)
    return MergeValue(sketch, diff)


def test_merged_states_are_added_to_what_is_there(state):
    """A value counts as one record, and several states of one key are all added."""
    put(state, "a", FinalizedValue("old", 5))
    stats = state.multi_merge(
        [
            ("a", merge_of("new")),
            ("b", MergeValue(FinalizedValue("v", None), 1)),
            ("a", merge_of("old", -1)),
        ]
    )

    assert [FinalizedValue("new", None), FinalizedValue("v", None)] == values(state, "a", "b")
    sizes = [each.metadata.size for each in state.multi_get(["a", "b"])]
    assert (2, sum(sizes)) == (state.num_records, state.size_bytes)
    assert (3, stats) == (stats.written_merge_operands, state.merge_stats)
    assert stats.size_diff == state.size_bytes - state.put_stats.size_diff


@pytest.mark.parametrize("bad", [("a", Consolidating()), ("a", MergeValue("v", 1)), (None, "v")])
def test_a_merge_that_is_none_adds_nothing(state, bad):
    """Neither do the good ones beside it."""
    with pytest.raises(StateValueError):
        state.multi_merge([("b", merge_of("v")), bad])

    assert ([None], 0, MergeStats()) == (values(state, "b"), state.num_records, state.merge_stats)


def test_many_differences_come_in_chunks(state):
    """The bytes of some keys are beginnings of others'."""
    random = Random(3)
    keys = list(dict.fromkeys(random.randbytes(random.randrange(1, 4)) for _ in range(2_000)))
    expected = {key: FinalizedValue(i, None) for i, key in enumerate(keys)}
    rows = [(key, each.value, 1) for key, each in expected.items()]
    rows += [row for key in keys for row in ((key, "old", 1), (key, "old", -1))]
    random.shuffle(rows)
    for begin in range(0, len(rows), 999):
        state.consolidate_chunk(rows[begin : begin + 999])

    assert list(expected.values()) == values(state, *expected)
    assert len(expected) == state.num_records
