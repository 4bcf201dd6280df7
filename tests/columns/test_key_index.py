# SPDX-License-Identifier: Apache-2.0
"""The key index: a dict from keys to rows, for many keys at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike.columns.key_index import KeyIndex
from pyflinklike.columns.vectors import hashes_of

_PAIR = pa.struct([("f0", pa.string()), ("f1", pa.int64())])
_INTS = st.integers(-(2**63), 2**63 - 1)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_KINDS = {
    "ints": (pa.int64(), _INTS | st.integers(0, 9)),
    "bools": (pa.bool_(), st.booleans()),
    "strings": (pa.string(), _TEXT),
    "bytes": (pa.binary(), st.binary(max_size=20)),
    "pairs": (
        _PAIR,
        st.fixed_dictionaries({"f0": st.none() | _TEXT, "f1": st.none() | st.integers(0, 3)}),
    ),
}


def few_hashes(keys):
    """Hashes of which most collide."""
    return hashes_of(keys) & np.uint64(1)


def one_hash(keys):
    """All keys in one slot."""
    return np.zeros(len(keys), np.uint64)


def frozen(key):
    """A key as a dict takes it."""
    return (key["f0"], key["f1"]) if isinstance(key, dict) else key


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("hashed", [hashes_of, few_hashes, one_hash])
@given(data=st.data())
@settings(max_examples=settings().max_examples // 3 + 1)
def test_it_is_a_dict(kind, hashed, data):
    """Each key has one row, whichever other keys have its hash, and however often it comes."""
    arrow, keys = _KINDS[kind]
    batches = data.draw(st.lists(st.lists(keys, max_size=30), max_size=4))
    index, model = KeyIndex(arrow, hashed), {}

    for batch in batches:
        column = pa.array(batch, arrow)
        known = [frozen(key) in model for key in batch]
        found = index.find(column)
        assert known == (found >= 0).tolist()
        rows = index.add(column).tolist()
        for key, row in zip(batch, rows):
            assert row == model.setdefault(frozen(key), row)
        assert index.find(column).tolist() == rows
        assert index.keys(np.array(rows, np.int64)).to_pylist() == batch

    assert len(set(model.values())) == len(model) == index.count


@given(st.lists(_TEXT, unique=True, max_size=200), st.data())
def test_what_is_kept_keeps_its_keys(keys, data):
    """And the others are gone, and may come again."""
    index = KeyIndex(pa.string(), few_hashes)
    index.add(pa.array(keys, pa.string()))
    rows = sorted(data.draw(st.sets(st.integers(0, len(keys) - 1)))) if keys else []
    kept = index.keys(np.array(rows, np.int64)).to_pylist()

    index.keep(np.array(rows, np.int64))

    assert list(range(len(rows))) == index.find(pa.array(kept, pa.string())).tolist()
    gone = [key for key in keys if key not in kept]
    assert {-1} >= set(index.find(pa.array(gone, pa.string())).tolist())
    index.add(pa.array(gone, pa.string()))
    assert len(keys) == index.count


def test_a_million_keys_have_a_row_each():
    """The index grows while keys are added."""
    keys = pa.array(np.arange(1_000_000) * 1_000_003)
    index = KeyIndex(pa.int64())

    rows = index.add(keys)

    assert 1_000_000 == index.count
    assert index.keys(rows).equals(keys)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 64, 511, 512, 513, 5000])
def test_a_hash_depends_on_every_byte(length):
    """Also on those of a long key, and on zeros at its end."""
    ones = [bytes(at) + b"\x01" + bytes(length - at - 1) for at in range(length)]
    keys = [bytes(length), bytes(length + 1), *ones]
    hashes = hashes_of(pa.array(keys[:600], pa.binary()))

    assert len(keys[:600]) == len(set(hashes.tolist()))


def test_a_hash_does_not_depend_on_the_place_of_a_key():
    """Nor on a slice, nor on the other keys of the column."""
    keys = pa.array(["a", "longer than a word", "", "ö", "a", "x" * 600])
    hashes = hashes_of(keys).tolist()

    assert hashes[0] == hashes[4]
    assert hashes[1:5] == hashes_of(keys.slice(1, 4)).tolist()
    assert hashes[5:] == hashes_of(keys.slice(5)).tolist()
    assert hashes == [hashes_of(pa.array([key]))[0] for key in keys.to_pylist()]
