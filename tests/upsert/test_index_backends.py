# SPDX-License-Identifier: Apache-2.0
"""The backends of `UpsertState`: their life, their files, snapshots, and moving out of memory."""

import pytest
from index_support import MAKERS, needs_rocksdict, put, rocksdb, values

from pyflinklike.errors import CorruptStateError, SparkSetupError, StoreClosedError
from pyflinklike.upsert import FinalizedValue, PutValue, Tombstone, UpsertState


def files_in(path):
    """The files of backends below a path."""
    return [each for each in path.rglob("*") if each.is_file()]


def test_a_closed_state_refuses(state):
    """Every method does; to close it again does nothing."""
    state.close()
    state.close()

    for use in (
        lambda: state.multi_get(["a"]),
        lambda: state.multi_put([("a", PutValue(FinalizedValue(1), None))]),
        lambda: state.consolidate_chunk([("a", 1, 1)]),
        state.snapshot,
    ):
        with pytest.raises(StoreClosedError, match="after close"):
            use()


def test_state_takes_a_state_backend_only():
    """A dict is refused when the state is made."""
    with pytest.raises(TypeError, match="takes a StateBackend"):
        UpsertState({})


# Snapshots


@pytest.mark.parametrize(
    "then", ["memory", *(pytest.param(n, marks=needs_rocksdict) for n in list(MAKERS)[1:])]
)
def test_a_snapshot_is_gone_on_with(state, then, tmp_path):
    """On any backend, with order keys, tombstones, sketches, and the numbers of all of them."""
    state.consolidate_chunk([("a", "v", 1), ("b", "w", 1), ("c", "x", 2)])
    put(state, "a", Tombstone(7))
    put(state, "d", FinalizedValue("y", (1, 2)))
    again = MAKERS[then](tmp_path / "again", restore=state.snapshot())

    assert values(state, "a", "b", "c", "d") == values(again, "a", "b", "c", "d")
    for number in ("num_records", "num_tombstones", "size_bytes"):
        assert getattr(state, number) == getattr(again, number)
    again.consolidate_chunk([("c", "x", -1), ("b", "w", -1)])
    assert [None, FinalizedValue("x", None)] == values(again, "b", "c")
    again.close()


def test_a_snapshot_of_nothing_is_nothing(state):
    """It can be restored all the same."""
    again = UpsertState(restore=state.snapshot())

    assert ([None], 0, 0) == (values(again, "a"), again.num_records, again.size_bytes)


def test_no_flipped_bit_of_a_snapshot_is_silent(state):
    """Each is found when the snapshot is restored, wherever it is."""
    state.consolidate_chunk([("a", "v", 1), ("b", "w", 1)])
    good = state.snapshot()

    for at in range(len(good)):
        with pytest.raises(CorruptStateError):
            UpsertState(restore=good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    with pytest.raises(CorruptStateError):
        UpsertState(restore=good[:-1])


# RocksDB


@needs_rocksdict
def test_files_are_removed_when_the_state_is_closed(tmp_path, nothing_stays_in_memory):
    """Nobody could use them: only a snapshot outlives the state."""
    state = UpsertState(rocksdb(tmp_path))
    put(state, "a", FinalizedValue("x"))
    assert files_in(tmp_path)

    state.close()
    assert [] == files_in(tmp_path)


@needs_rocksdict
def test_two_states_share_a_path(tmp_path, nothing_stays_in_memory):
    """Each has a directory of its own."""
    one, other = UpsertState(rocksdb(tmp_path)), UpsertState(rocksdb(tmp_path))
    put(one, "a", FinalizedValue("x"))
    put(other, "a", FinalizedValue("y"))
    one.close()

    assert [FinalizedValue("y")] == values(other, "a")
    other.close()


@needs_rocksdict
def test_a_directory_that_cannot_be_used_is_said(tmp_path, nothing_stays_in_memory):
    """The state is closed: it does not know what is stored."""
    (tmp_path / "file").write_text("x")
    state = UpsertState(rocksdb(tmp_path / "file"))

    with pytest.raises(SparkSetupError, match="read and write its working state"):
        put(state, "a", FinalizedValue("x"))
    with pytest.raises(StoreClosedError):
        values(state, "a")


@needs_rocksdict
def test_damaged_files_are_never_silent(tmp_path, nothing_stays_in_memory):
    """What cannot be read is an error, not a key without a state."""
    state = UpsertState(rocksdb(tmp_path))
    keys = [f"key-{number:04}" for number in range(2_000)]
    state.consolidate_chunk((key, key, 1) for key in keys)
    state._entries._backend._database._db.flush()
    for file in tmp_path.rglob("*.sst"):
        damaged = bytearray(file.read_bytes())
        damaged[100:20_000] = bytes(19_900)
        file.write_bytes(damaged)

    with pytest.raises(SparkSetupError, match="read and write its working state"):
        state.multi_get(keys)
    with pytest.raises(StoreClosedError):
        state.snapshot()


# Moving out of memory


@needs_rocksdict
def test_states_move_when_they_are_too_large(tmp_path):
    """Files are made only then; the states do not come back when they get fewer."""
    state = UpsertState(rocksdb(tmp_path), max_heap_bytes=100)
    put(state, "a", FinalizedValue("x" * 50))
    assert (False, []) == (state.is_spilled, files_in(tmp_path))

    put(state, "b", FinalizedValue("y" * 50))
    assert state.is_spilled
    assert files_in(tmp_path)
    assert [FinalizedValue("x" * 50), FinalizedValue("y" * 50)] == values(state, "a", "b")

    put(state, "a", None)
    put(state, "b", None)
    assert state.is_spilled
    assert (0, 0) == (state.num_records, state.size_bytes)
    state.close()
    assert [] == files_in(tmp_path)


def test_what_is_replaced_makes_room(tmp_path):
    """Only what is held counts, not what was ever put."""
    state = UpsertState(rocksdb(tmp_path), max_heap_bytes=100)
    for number in range(50):
        put(state, "a", FinalizedValue(f"{number:050}"))
    put(state, "a", None)
    put(state, "b", FinalizedValue("y" * 50))

    assert not state.is_spilled


@needs_rocksdict
def test_a_move_that_fails_leaves_all_in_memory(tmp_path):
    """The put is undone; when there is room again it goes on."""
    state = UpsertState(rocksdb(tmp_path / "d"), max_heap_bytes=100)
    put(state, "a", FinalizedValue("x"))
    (tmp_path / "d").write_text("in the way")

    with pytest.raises(SparkSetupError, match="nothing was put"):
        put(state, "b", FinalizedValue("y" * 100))
    assert ([FinalizedValue("x"), None], 1) == (values(state, "a", "b"), state.num_records)

    (tmp_path / "d").unlink()
    put(state, "b", FinalizedValue("y" * 100))
    assert (True, 2) == (state.is_spilled, state.num_records)
    state.close()


@pytest.mark.parametrize(("bound", "error"), [(0, ValueError), ("1", TypeError), (True, TypeError)])
def test_a_bound_is_a_number_of_bytes(bound, error):
    """It is checked when the state is made."""
    with pytest.raises(error, match="max_heap_bytes"):
        UpsertState(max_heap_bytes=bound)
