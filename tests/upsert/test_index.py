# SPDX-License-Identifier: Apache-2.0
"""`UpsertState` on each backend: getting and putting."""

import pytest
from index_support import put, values

from pyflinklike import Row
from pyflinklike.errors import StateValueError
from pyflinklike.upsert import (
    FinalizedValue,
    GetStats,
    PutStats,
    PutValue,
    SnapshotStats,
    UpsertValueAndSize,
)


def test_absence_has_no_metadata(state):
    """Both fields are None."""
    assert [UpsertValueAndSize(None, None)] == state.multi_get(["a"])


def test_keys_are_told_apart_by_type(state):
    """As keys are everywhere here."""
    for key in (1, True, 1.0, "1", b"1", (1,), Row(a=1)):
        put(state, key, FinalizedValue(repr(key)))

    assert 7 == state.num_records
    assert [FinalizedValue("True"), FinalizedValue("1")] == values(state, True, 1)


def test_a_key_asked_for_twice_is_refused(state):
    """The answer would have to be put twice, too."""
    with pytest.raises(ValueError, match="keys of one multi_get must differ, got 'a' twice"):
        state.multi_get(["a", "b", "a"])


@pytest.mark.parametrize("bad", [None, {1, 2}])
def test_a_key_that_is_none_is_refused(state, bad):
    """By every verb, as a TypeError."""
    with pytest.raises(TypeError):
        state.multi_get([bad])
    with pytest.raises(TypeError):
        state.multi_put([(bad, PutValue(FinalizedValue(1), None))])
    with pytest.raises(TypeError):
        state.consolidate_chunk([(bad, 1, 1)])


def test_what_cannot_be_stored_stops_the_whole_batch(state):
    """Bad input corrupts nothing: neither what is held nor the numbers."""
    good = PutValue(FinalizedValue("v"), None)

    for bad in (PutValue(FinalizedValue({1}), None), PutValue("v", None), FinalizedValue("v")):
        with pytest.raises(StateValueError):
            state.multi_put([("a", good), ("b", bad)])
    for bad in (("b", "v"), ("b", None, 1), ("b", {1}, 1), ("b", "v", "1"), 5):
        with pytest.raises((StateValueError, ValueError)):
            state.consolidate_chunk([("a", "v", 1), bad])

    assert ([None], 0, 0) == (values(state, "a"), state.num_records, state.size_bytes)
    assert PutStats() == state.put_stats
    assert SnapshotStats() == state.snapshot_stats


def test_what_was_handed_out_is_the_callers_own(state):
    """Changing it changes nothing here; nor does changing what was put."""
    value = {"n": [1]}
    put(state, "a", FinalizedValue(value))
    value["n"].append(2)
    state.multi_get(["a"])[0].value.value["n"].append(3)

    assert [FinalizedValue({"n": [1]})] == values(state, "a")


def test_gets_are_counted(state):
    """Asked for, found, and the bytes of what was found."""
    put(state, "a", FinalizedValue("v"))
    state.multi_get(["a", "b"])

    assert GetStats(3, 4, 1) == state.get_stats
