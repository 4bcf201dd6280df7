# SPDX-License-Identifier: Apache-2.0
"""Statistics of puts, gets and merges, and errors as values."""

import pytest

from pyflinklike.errors import NullKeyError, ValueDecodeError
from pyflinklike.upsert import GetStats, MergeStats, PutStats, SnapshotStats, ValueMetadata


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
