# SPDX-License-Identifier: Apache-2.0
"""Sketches: differences that add up to a record, in any order and in chunks."""

from random import Random

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
from pyflinklike.upsert.index.difference_sketch import Difference
from pyflinklike.upsert.index.upsert_state import consolidate, consolidate_scalar

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


# Chunks


KEYS = st.sampled_from([b"a", b"b", b"c"]) | st.binary(max_size=3)
DIFFERENCES = st.builds(
    Difference,
    KEYS,
    st.binary(max_size=12) | st.binary(min_size=60, max_size=70),
    st.integers(-3, 3) | st.sampled_from([1, -1, 1, -1, 2**63 - 1, -(2**63)]),
)


@given(st.lists(DIFFERENCES, max_size=40), st.randoms())
def test_the_two_ways_to_consolidate_agree(chunk, random):
    """Record by record and with arrays: the same keys, order and sketches, bit by bit."""
    vectorized = pytest.importorskip("pyflinklike.upsert.index.numpy_consolidation")
    chunk += random.sample(chunk, len(chunk) // 2)

    expected = consolidate_scalar(chunk)
    actual = vectorized.consolidate_vectorized(chunk)

    assert list(expected.items()) == list(actual.items())


@given(st.lists(DIFFERENCES, max_size=40), st.randoms(), st.integers(1, 5))
def test_order_and_chunks_do_not_matter(differences, random, size):
    """The sum is that of all the differences at once."""
    expected = consolidate_scalar(differences)
    shuffled = random.sample(differences, len(differences))
    actual = {}
    for begin in range(0, len(shuffled), size):
        for key, sketch in consolidate(shuffled[begin : begin + size]).items():
            actual.setdefault(key, Consolidating()).merge_state(sketch)

    assert expected == actual


def test_a_large_chunk_is_consolidated_the_same():
    """The size at which arrays are used does not show."""
    random = Random(7)
    chunk = [
        Difference(b"%d" % random.randrange(900), random.randbytes(random.randrange(40)), diff)
        for diff in random.choices([1, -1, 2, -2, 3], k=5_000)
    ]

    assert consolidate_scalar(chunk) == consolidate(chunk)
