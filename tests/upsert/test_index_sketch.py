# SPDX-License-Identifier: Apache-2.0
"""Sketches: differences that add up to a record, in any order and in chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.errors import StateValueError, UpsertStateError
from pyflinklike.upsert import (
    Consolidating,
    FinalizedValue,
    ProvisionalValue,
    Tombstone,
    consolidating_merge_function,
)

# Modes


def test_a_value_is_never_none():
    """None is a tombstone."""
    with pytest.raises(TypeError, match="Tombstone"):
        FinalizedValue(None, 1)


def test_a_provisional_value_of_another_time_is_ignored():
    """What is settled is in force instead."""
    state = FinalizedValue("old", 3).into_provisional_value("new", 7, 5)

    assert ("new", 5) == (state.provisional_value_ref(7), state.provisional_order(7))
    assert ("old", 3) == (state.provisional_value_ref(8), state.provisional_order(8))
    assert FinalizedValue("old", 3) == state.into_finalized_value()
    assert not state.is_tombstone


def test_a_provisional_tombstone_keeps_what_is_settled():
    """The deletion holds at its own time only."""
    state = FinalizedValue("old", 3).into_provisional_tombstone(7, 5)

    assert (None, "old") == (state.provisional_value_ref(7), state.provisional_value_ref(8))
    assert ProvisionalValue(("old", 3), ("newer", 7, 6)) == state.into_provisional_value(
        "newer", 7, 6
    )


def test_a_provisional_value_may_have_nothing_settled():
    """It then counts as no record yet."""
    state = ProvisionalValue.new("new", 7, 5)

    assert (True, None, None) == (
        state.is_tombstone,
        state.into_finalized_value(),
        state.provisional_order(8),
    )
    assert state == Tombstone(9).into_provisional_value("new", 7, 5)


# Sketches


def test_the_differences_of_one_record_add_up_to_it():
    """Though the new value came before the old one went."""
    sketch = Consolidating()
    removable = [
        sketch.merge_update("new", 1),
        sketch.merge_update("old, which was longer", -1),
        sketch.merge_update("old, which was longer", 1),
    ]

    assert [False] * 3 == removable
    assert FinalizedValue("new", None) == sketch.ensure_decoded()


def test_a_record_taken_away_leaves_nothing():
    """The key may be forgotten; read, it is a tombstone."""
    sketch = Consolidating()
    sketch.merge_update("v", 1)

    assert sketch.merge_update("v", -1) is True
    assert Tombstone(None) == sketch.ensure_decoded()


@pytest.mark.parametrize(
    ("differences", "message"),
    [
        ([("a", 2)], "non 0/1 diff_sum: 2"),
        ([("a", -1)], "non 0/1 diff_sum: -1"),
        ([("a", 1), ("bb", -1)], "len_sum is non-0"),
        ([("a", 1), ("b", -1)], "checksum_sum is non-0"),
        ([("a", 1), ("b", 1), ("c", -1)], "checksum_sum does not match"),
        ([("aaaa", 2), ("b", -1)], "not the same length"),
        ([("a", 1), ("b", 2), ("c", -2)], "checksum_sum does not match"),
    ],
)
def test_a_collection_that_is_not_whole_is_told(differences, message):
    """A wrong value is never returned."""
    sketch = Consolidating()
    for value, diff in differences:
        sketch.merge_update(value, diff)

    with pytest.raises(UpsertStateError, match=f"invalid upsert state: .*{message}"):
        sketch.ensure_decoded()


@pytest.mark.parametrize(("value", "diff"), [(None, 1), ("v", True), ("v", 1.0), ("v", 2**63)])
def test_a_difference_that_is_none_is_refused(value, diff):
    """And the sketch is unchanged."""
    sketch = Consolidating()

    with pytest.raises(StateValueError):
        sketch.merge_update(value, diff)
    assert Consolidating() == sketch


def test_sums_wrap_around():
    """As 64-bit integers do, so that what goes up comes down."""
    sketch = Consolidating()
    for diff in (2**63 - 1, 2**63 - 1, -(2**63), -(2**63) + 2, 1):
        sketch.merge_update("a longer value", diff)

    assert FinalizedValue("a longer value", None) == sketch.ensure_decoded()


@given(st.lists(st.tuples(st.text(max_size=9), st.integers(-3, 3)), max_size=9), st.randoms())
def test_merging_is_associative_and_commutative(differences, random):
    """However the differences are dealt into sketches, and these merged."""
    whole = Consolidating()
    parts = [Consolidating() for _ in range(3)]
    for value, diff in differences:
        whole.merge_update(value, diff)
    for value, diff in random.sample(differences, len(differences)):
        random.choice(parts).merge_update(value, diff)

    left = consolidating_merge_function(
        "k", [consolidating_merge_function("k", parts[:2]), parts[2]]
    )
    right = consolidating_merge_function("k", parts[::-1])

    assert whole == left == right


def test_merged_values_count_as_one_record_each():
    """Of a provisional value what is settled, of a tombstone nothing."""
    sketch = Consolidating()
    sketch.merge_update("old", -1)

    merged = consolidating_merge_function(
        "k",
        [FinalizedValue("old", 4), sketch, Tombstone(5), ProvisionalValue(("v", 1), ("w", 2, 3))],
    )

    assert FinalizedValue("v", None) == merged.ensure_decoded()
