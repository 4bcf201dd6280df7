# SPDX-License-Identifier: Apache-2.0
"""The groups of a batch: what a loop over a dict computes."""

from __future__ import annotations

import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Types
from pyflinklike.columns.keyed_batch import Groups, KeyReader, frozen_keys
from pyflinklike.errors import StateValueError

_FLOATS = st.floats(width=64)


def groups_of(keys: list) -> Groups:
    """Of records with these keys."""
    numbers = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    codes = np.array([numbers[key] for key in keys], np.int64)
    return Groups(codes, np.array([keys.index(key) for key in numbers], np.int64))


def bits(values) -> list:
    """Floats by their bits, but for NaN's; others as they are."""
    values = values.tolist() if hasattr(values, "tolist") else values
    return [
        (math.isnan(each) or struct.pack("<d", each)) if isinstance(each, float) else each
        for each in values
    ]


def looped(function, keys, values, start) -> list:
    """What `running` gives, by a loop."""
    state, results = {}, []
    for key, value in zip(keys, values):
        with np.errstate(all="ignore"):
            state[key] = function(state.get(key, start), value)
        results.append(state[key])
    return results


@st.composite
def records(draw, values):
    """Keys, few of them with many records, and a value for each."""
    keys = draw(st.lists(st.integers(0, 5), max_size=12))
    hot = draw(st.integers(0, 5))
    keys = keys + [hot] * draw(st.sampled_from([0, 63, 64, 65, 200]))
    size = len(keys)
    some = draw(st.lists(values, min_size=min(size, 16), max_size=min(size, 16)))
    return keys, [some[at % len(some)] for at in range(size)] if some else []


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum, np.minimum])
@given(data=st.data())
def test_running_floats_are_a_loop(ufunc, data):
    """To the last bit, for keys with few records and with many."""
    keys, values = data.draw(records(_FLOATS))
    start = data.draw(_FLOATS)

    got = groups_of(keys).running(ufunc, np.array(values, np.float64), start)

    expected = looped(ufunc, keys, np.array(values, np.float64), np.float64(start))
    assert bits(np.array(expected, np.float64)) == bits(got)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.maximum])
@given(data=st.data())
def test_running_ints_are_a_loop(ufunc, data):
    """Within 64 bits."""
    keys, values = data.draw(records(st.integers(-(2**53), 2**53)))
    start = data.draw(st.integers(-(2**53), 2**53))

    got = groups_of(keys).running(ufunc, np.array(values, np.int64), start)

    python = {np.add: int.__add__, np.subtract: int.__sub__, np.maximum: max}[ufunc]
    assert looped(python, keys, values, start) == got.tolist()


@pytest.mark.parametrize("many", [1, 64, 65, 1000])
@pytest.mark.parametrize(
    ("ufunc", "start", "value"),
    [
        (np.add, 2**63 - 1, 1),
        (np.add, -(2**63), -1),
        (np.subtract, -(2**63), 1),
        (np.multiply, 2**62, 2),
    ],
)
def test_what_does_not_fit_is_refused(ufunc, start, value, many):
    """A wrapped number would be a wrong result without an error."""
    with pytest.raises(StateValueError, match="must fit in int64"):
        groups_of([1] * many).running(ufunc, np.full(many, value), start)


@given(records(st.integers(-(2**62), 2**62)))
def test_sums_are_exact_or_refused(given_records):
    """As Python's ints say."""
    keys, values = given_records
    sums = {}
    for key, value in zip(keys, values):
        sums[key] = sums.get(key, 0) + value
    fits = all(-(2**63) <= each < 2**63 for each in sums.values())

    if fits:
        assert list(sums.values()) == groups_of(keys).sum(np.array(values, np.int64)).tolist()
    else:
        with pytest.raises(StateValueError, match="must fit"):
            groups_of(keys).sum(np.array(values, np.int64))


@given(records(_FLOATS))
def test_per_key_figures_are_a_loop(given_records):
    """Counts, ranks, first and last, least and greatest, sums of floats."""
    keys, values = given_records
    groups, column = groups_of(keys), np.array(values, np.float64)
    by_key = {}
    for key, value in zip(keys, values):
        by_key.setdefault(key, []).append(value)
    parts = list(by_key.values())

    assert list(map(len, parts)) == groups.counts.tolist()
    assert [keys[:at].count(key) for at, key in enumerate(keys)] == groups.rank().tolist()
    assert bits([part[0] for part in parts]) == bits(groups.first(column))
    assert bits([part[-1] for part in parts]) == bits(groups.last(column))
    np.testing.assert_array_equal([np.min(part) for part in parts], groups.min(column))
    np.testing.assert_array_equal([np.max(part) for part in parts], groups.max(column))
    assert bits([sum(part, 0.0) for part in parts]) == bits(groups.sum(column))
    spread = groups.spread(groups.last(column))
    np.testing.assert_array_equal([by_key[key][-1] for key in keys], spread)


@pytest.mark.parametrize("count", [2, 70_000, 200_000])
def test_many_keys_keep_the_order_of_records(count):
    """Beyond the 16 bits that are sorted at once, too."""
    keys = np.arange(2 * count) % count
    groups = Groups(keys, np.arange(count))

    assert [0] * count + [1] * count == groups.rank().tolist()


def test_a_value_too_few_is_refused():
    """Per key and per record are told apart."""
    groups = groups_of([1, 1, 2])

    with pytest.raises(StateValueError, match="one value for each record, that is 3 here, got 2"):
        groups.sum(np.array([1, 2]))
    with pytest.raises(StateValueError, match="one value for each key, that is 2 here, got 3"):
        groups.spread(np.array([1, 2, 3]))
    with pytest.raises(StateValueError, match="got 1 nulls"):
        groups.sum(pa.array([1, None, 2]))
    with pytest.raises(StateValueError, match="takes numbers"):
        groups.running(np.add, np.array(["a", "b", "c"]), 0)


def reader(key_type, *names) -> KeyReader:
    """Of those columns."""
    return KeyReader(names, key_type, lambda columns: frozen_keys(key_type, columns))


_KEYS = {
    "ints": (Types.LONG(), [pa.array([3, 1, 3, 2], pa.int32())], [0, 1, 0, 2]),
    "strings": (Types.STRING(), [pa.array(["b", "", "b", "ö"])], [0, 1, 0, 2]),
    "bools": (Types.BOOLEAN(), [pa.array([True, False, True, True])], [0, 1, 0, 0]),
    "pairs": (
        Types.TUPLE([Types.STRING(), Types.LONG()]),
        [pa.array(["a", "a", None, None]), pa.array([1, None, 1, 1])],
        [0, 1, 2, 2],
    ),
}


@pytest.mark.parametrize("kind", _KEYS)
def test_keys_are_numbered_as_they_come(kind):
    """Whatever they are made of."""
    key_type, columns, expected = _KEYS[kind]
    names = [f"k{at}" for at in range(len(columns))]

    distinct, codes, first = reader(key_type, *names).read(
        pa.RecordBatch.from_arrays(columns, names)
    )

    assert expected == codes.tolist()
    assert [expected.index(at) for at in range(max(expected) + 1)] == first.tolist()
    frozen = frozen_keys(key_type, columns)
    assert [frozen[at] for at in first] == key_type.from_arrow(distinct)


def test_a_null_key_is_refused():
    """As everywhere."""
    batch = pa.RecordBatch.from_arrays([pa.array(["a", None])], ["k"])

    with pytest.raises(StateValueError, match="every record needs a key"):
        reader(Types.STRING(), "k").read(batch)
