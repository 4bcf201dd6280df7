# SPDX-License-Identifier: Apache-2.0
"""XXH64 in Python: its published values, and the forms of numbers that Spark uses.

That Spark's `xxhash64` gives the same is tested beside a session, in `test_jobs_key_route`.
"""

import pytest
from pyspark.sql import types as st

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.queryable_state.xxhash64 import add_sign, hash_bytes, hash_int, hash_long
from pyflinklike.spark._wire.key_groups import group_ids, index_of
from pyflinklike.state_processor._checkpoints.state_frames import KeyGroupFinder
from pyflinklike.types import Types


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_the_published_values(data, expected):
    """Of XXH64 with the seed 0, one of them longer than a stripe."""
    assert expected == hash_bytes(data, 0)


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_numbers_are_hashed_as_their_bytes(value):
    """Four of them, or eight, in little-endian order."""
    four, eight = value.to_bytes(4, "little", signed=True), value.to_bytes(8, "little", signed=True)
    assert (hash_bytes(four), hash_bytes(eight)) == (hash_int(value), hash_long(value))


def test_the_values_in_sparks_documentation():
    """Of one column, of several, and of an array, whose elements follow each other."""
    abc = hash_bytes(b"ABC")
    spark = hash_int(2, hash_int(123, hash_bytes(b"Spark")))
    found = [add_sign(each) for each in (abc, hash_bytes(b"DEF", abc), spark)]
    assert [4105715581806190027, 3233247871021311208, 5602566077635097486] == found


def test_a_hash_has_a_sign():
    """Spark shows it as a bigint, of which it takes the remainder."""
    assert (2**63 - 1, -(2**63), -1) == (add_sign(2**63 - 1), add_sign(2**63), add_sign(2**64 - 1))


def test_keys_without_columns_are_of_the_first_key_group():
    """As those of a broadcast input are."""
    finder = KeyGroupFinder({}, Types.LONG(), 4, "UTC")
    assert [0, 0] == finder.of(None, [1, 2])


@pytest.mark.parametrize(
    ("types", "keys", "told"),
    [
        ([st.DoubleType()], [1.0, 1], "got 1, which becomes 1.0 there"),
        (
            [st.DoubleType(), st.StringType()],
            [(1.0, "a"), (1, "b")],
            r"got \(1, 'b'\), which becomes \(1.0, 'b'\) there",
        ),
    ],
)
def test_keys_that_their_columns_hold_as_others_are_refused(types, keys, told):
    """Records would never bring them."""
    columns = {f"k{at}": each for at, each in enumerate(types)}
    finder = KeyGroupFinder(columns, Types.PICKLED_BYTE_ARRAY(), 4, "UTC")
    with pytest.raises(IncompatibleStateError, match=told):
        finder.of(None, keys)


# Key groups over partitions


@pytest.mark.parametrize("max_parallelism", [1, 2, 6, 100, 128])
def test_each_key_group_has_a_number_of_its_own(max_parallelism):
    """And a number tells its key group."""
    ids = group_ids(max_parallelism)

    assert list(range(max_parallelism)) == [index_of(each, max_parallelism) for each in ids]
    assert max_parallelism == len(set(ids))
