# SPDX-License-Identifier: Apache-2.0
"""Keys as bytes in RocksDB: decoded as they were, and never one inside another."""

from __future__ import annotations

from datetime import date
from math import nan

import pytest
from rocksdb_tasks import NONCE, in_directory, kept, opened

from pyflinklike import Instant, Row
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.errors import StateValueError
from pyflinklike.types.frozen_keys import decode, encode
from pyflinklike.types.key_codec import EncodedKey
from pyflinklike.types.pickled_type import Pickled


@pytest.mark.parametrize(
    "key",
    [
        *(None, True, 0, -1, 2**63, -(2**3000), 1.5, nan, "", "a\x00b", "\ud800", b"\x00\xff"),
        *(date(2024, 1, 1), Instant(-1, 5), Pickled(b"\x80\x00x"), EncodedKey(b"\x21\x00")),
        *((), (None,), ("a", (1, None), b""), Row(a=1, b=("x", None)), ("a", "\x00")),
    ],
    ids=repr,
)
def test_a_key_is_decoded_as_it_was(key):
    """Equal, of the same type, and whatever follows it."""
    actual, end = decode(b"!" + encode(key) + encode("next"), 1)

    assert (repr(key), type(key), 1 + len(encode(key))) == (repr(actual), type(actual), end)


def test_a_nan_is_decoded_as_the_one_that_types_freeze_to():
    """A dict finds no other."""
    assert decode(encode((nan,)), 0)[0][0] is nan


def test_no_key_of_an_unknown_type_is_kept():
    """Equal keys could get different bytes."""
    with pytest.raises(StateValueError, match="frozenset"):
        encode(frozenset())


def test_a_key_does_not_see_the_entries_of_a_longer_one(tmp_path):
    """Not even where one key's bytes begin with another's."""
    backend, tables = opened(in_directory(tmp_path), 0)
    for key in ("a", "a\x00b", "ab"):
        backend.current.key = key
        tables["map"].put(1, key)
        tables["list"].append(key)
    kept(backend, KeyGroupState(0, NONCE, tables=backend.groups[0]))
    group = backend.pop_cached(0)
    backend.enter(0, group.tables)
    backend.current.key = "a"

    assert ([(1, "a")], ["a"]) == (tables["map"].items(), tables["list"].elements())
    backend.close()
