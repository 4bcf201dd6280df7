# SPDX-License-Identifier: Apache-2.0
"""Values, their bytes, sketches and statistics of upserts."""

import datetime as dt
import math
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Instant, Row
from pyflinklike.errors import (
    CorruptStateError,
    NullKeyError,
    StateValueError,
    UpsertError,
    UpsertStateError,
    ValueDecodeError,
)
from pyflinklike.upsert import (
    Consolidating,
    FinalizedValue,
    GetStats,
    MergeStats,
    ProvisionalValue,
    PutStats,
    SnapshotStats,
    Tombstone,
    ValueMetadata,
    consolidating_merge_function,
)
from pyflinklike.upsert.index.codec import (
    decode_from,
    decode_value,
    encode_upsert_key,
    encode_value,
)
from pyflinklike.upsert.index.consolidate import consolidate, consolidate_scalar
from pyflinklike.upsert.index.encoding import decode_state, encode_state, size_of
from pyflinklike.upsert.index.sketch import Difference

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.datetimes()
    | st.dates()
    | st.timedeltas(dt.timedelta(-9), dt.timedelta(9))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 3), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda pair: Row(a=pair[0], b=pair[1]))
    ),
    max_leaves=8,
)


def kinds(value):
    """The value with the type of each part, so that 1 and True differ."""
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [kinds(item) for item in value]
    return type(value).__name__, value


# The bytes of values


@given(VALUES)
def test_a_value_is_read_back_as_it_was(value):
    """With the types of all its parts, and also with something behind it."""
    data = encode_value(value)

    assert kinds(value) == kinds(decode_value(data))
    assert (len(data) + 1, kinds(value)) == (
        decode_from(b"x" + data + encode_value(None), 1)[1],
        kinds(decode_from(b"x" + data, 1)[0]),
    )


@given(VALUES, VALUES)
def test_different_values_are_different_bytes(one, other):
    """Else a sketch would take one for the other."""
    assert (kinds(one) == kinds(other)) == (encode_value(one) == encode_value(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (0.0, -0.0),
        (math.nan, -math.nan),
        (Decimal("1.10"), Decimal("1.1")),
        (bytearray(b"x"), b"x"),
    ],
    ids=str,
)
def test_equal_values_are_equal_bytes(one, other):
    """Whatever order or sign they were made with."""
    assert encode_value(one) == encode_value(other)


@pytest.mark.parametrize(
    "value", [Instant(5, 6), UpsertError("x"), NullKeyError("y"), dt.time(1, 2, 3), Decimal("2.5")]
)
def test_rarer_values_are_read_back(value):
    """Instants and errors are values, too."""
    assert value == decode_value(encode_value((value,)))[0]


@pytest.mark.parametrize("value", [object(), {1, 2}, [object()], {"a": {1}}, 1j])
def test_a_value_that_has_no_bytes_is_refused(value):
    """With a word on what is taken."""
    with pytest.raises(StateValueError, match="convert it"):
        encode_value(value)


def test_a_value_that_contains_itself_is_refused():
    """Instead of recursing to the end."""
    value = []
    value.append(value)

    with pytest.raises(StateValueError, match="contains itself"):
        encode_value(value)


def test_a_key_is_never_none():
    """It is a TypeError, as everywhere."""
    with pytest.raises(TypeError, match="key must not be None"):
        encode_upsert_key(None)


@pytest.mark.parametrize("data", [b"", b"\x05\x15\x09\x00", b"\xff", encode_value(1) + b"x"])
def test_damaged_bytes_are_told(data):
    """Not read as something else."""
    with pytest.raises(CorruptStateError):
        decode_value(data)


# The bytes of states


STATES = (
    st.builds(FinalizedValue, VALUES.filter(lambda v: v is not None), st.none() | SCALARS)
    | st.builds(Tombstone, st.none() | SCALARS)
    | st.builds(
        ProvisionalValue,
        st.none() | st.tuples(SCALARS, SCALARS),
        st.tuples(SCALARS, st.integers(), SCALARS),
    )
)


@given(STATES)
def test_a_state_is_read_back_as_it_was(state):
    """Each kind has bytes of its own, which are its size."""
    data = encode_state(state)

    assert state == decode_state(data)
    assert len(data) == size_of(data)


def test_only_states_have_the_bytes_of_one():
    """A bare value is told to be wrapped."""
    with pytest.raises(StateValueError, match="wrap a value"):
        encode_state("v")


def test_a_sketch_counts_what_it_will_be():
    """So that nothing changes when it becomes a value."""
    sketch = Consolidating()
    sketch.merge_update("value", 1)
    sketch.merge_update("other, longer value", 1)
    sketch.merge_update("other, longer value", -1)

    assert sketch == decode_state(encode_state(sketch))
    assert len(encode_state(sketch.ensure_decoded())) == size_of(encode_state(sketch))


@pytest.mark.parametrize("data", [b"", b"C", b"?abc", b"F", b"f\x15"])
def test_damaged_states_are_told(data):
    """Not read as something else."""
    with pytest.raises(CorruptStateError):
        decode_state(data)


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
    vectorized = pytest.importorskip("pyflinklike.upsert.index.vectorized")
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


# Statistics


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ((5, False), None, PutStats(0, 1, 0, 5, 1, 0, 0)),
        ((5, False), (3, False), PutStats(0, 0, 0, 2, 0, 1, 0)),
        ((5, False), (2, True), PutStats(0, 1, -1, 3, 1, 0, 0)),
        ((2, True), (5, False), PutStats(0, -1, 1, -3, 0, 0, 1)),
        ((2, True), (3, True), PutStats(0, 0, 0, -1, 0, 0, 0)),
        ((2, True), None, PutStats(0, 0, 1, 2, 0, 0, 0)),
        (None, (5, False), PutStats(0, -1, 0, -5, 0, 0, 1)),
        (None, (2, True), PutStats(0, 0, -1, -2, 0, 0, 0)),
        (None, None, PutStats()),
    ],
)
def test_puts_are_accounted_exactly(new, old, expected):
    """From nothing, a value or a tombstone to each of the three."""
    stats = PutStats()
    stats.adjust(new and ValueMetadata(*new), old and ValueMetadata(*old))

    assert expected == stats


def test_statistics_add_field_by_field():
    """In place."""
    total = SnapshotStats(1, 2, 3, 4, 5)
    same = total
    total += SnapshotStats(10, -20, -30, 40, 50)

    assert SnapshotStats(11, -18, -27, 44, 55) == total
    assert same is total


@pytest.mark.parametrize("kind", [GetStats, MergeStats, PutStats])
def test_statistics_of_two_kinds_do_not_add(kind):
    """Their fields mean different things."""
    total = kind()
    with pytest.raises(TypeError):
        total += SnapshotStats()


def test_errors_are_values():
    """Equal if they say the same."""
    assert ValueDecodeError("x") == ValueDecodeError("x")
    assert ValueDecodeError("x") != NullKeyError("x")
    assert 1 == len({ValueDecodeError("x"), ValueDecodeError("x")})
