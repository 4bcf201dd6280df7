# SPDX-License-Identifier: Apache-2.0
"""The backends of `UpsertState`: their life, their files, and spilling."""

import pytest
from index_support import needs_rocksdict, put, values

from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    HostError,
    StoreClosedError,
)
from pyflinklike.upsert import (
    AutoSpillBackend,
    FinalizedValue,
    PutValue,
    RocksDBUpsertBackend,
    Tombstone,
    UpsertState,
)


def test_a_closed_backend_refuses(backend):
    """All verbs; closing it again does nothing."""
    state = UpsertState(backend)
    state.close()
    state.close()

    for use in (
        lambda: state.multi_get(["a"]),
        lambda: state.multi_put([("a", PutValue(FinalizedValue(1), None))]),
        lambda: state.consolidate_chunk([("a", 1, 1)]),
        lambda: UpsertState(backend),
    ):
        with pytest.raises(StoreClosedError, match="after close"):
            use()


def test_state_takes_a_backend_only():
    """Told at once."""
    with pytest.raises(TypeError, match="takes a backend"):
        UpsertState({})


@needs_rocksdict
def test_a_rocksdb_is_gone_on_with(tmp_path):
    """With the numbers of what it holds, operands not folded yet included."""
    state = UpsertState(RocksDBUpsertBackend(tmp_path / "new" / "place"))
    state.consolidate_chunk([("a", "v", 1), ("b", "w", 1)])
    size = state.size_bytes
    state.close()
    again = UpsertState(RocksDBUpsertBackend(tmp_path / "new" / "place"))

    assert (2, 0, size) == (again.num_records, again.num_tombstones, again.size_bytes)
    put(again, "a", Tombstone(7))
    again.close()
    last = UpsertState(RocksDBUpsertBackend(tmp_path / "new" / "place"))
    assert (1, 1) == (last.num_records, last.num_tombstones)
    assert [Tombstone(7), FinalizedValue("w", None)] == values(last, "a", "b")


@needs_rocksdict
def test_a_directory_that_cannot_be_used_is_told(tmp_path):
    """A file in its place, or somebody else who has it open."""
    (tmp_path / "file").write_text("x")
    open_already = RocksDBUpsertBackend(tmp_path / "open")

    for path in ("file", "open"):
        with pytest.raises(HostError, match="open only once"):
            RocksDBUpsertBackend(tmp_path / path)
    open_already.close()


@needs_rocksdict
def test_spilling_makes_the_directory_when_it_is_needed(tmp_path):
    """And removes it when the backend is closed."""
    path = tmp_path / "spill"
    backend = AutoSpillBackend(threshold=100, path=path)
    state = UpsertState(backend)
    put(state, "a", FinalizedValue("x" * 50))
    assert (False, False, False) == (backend.is_spilled, backend.supports_merge, path.exists())

    put(state, "b", FinalizedValue("y" * 50))
    assert (True, True, True) == (backend.is_spilled, backend.supports_merge, path.exists())
    assert [FinalizedValue("x" * 50), FinalizedValue("y" * 50)] == values(state, "a", "b")

    put(state, "a", None)
    put(state, "b", None)
    assert backend.is_spilled
    assert (0, 0) == (state.num_records, state.size_bytes)
    state.close()
    assert not path.exists()


def test_what_is_replaced_makes_room(tmp_path):
    """Only what is held counts, not what was ever put."""
    backend = AutoSpillBackend(threshold=100, path=tmp_path / "spill")
    state = UpsertState(backend)
    for number in range(50):
        put(state, "a", FinalizedValue(f"{number:050}"))
    put(state, "a", None)
    put(state, "b", FinalizedValue("y" * 50))

    assert not backend.is_spilled


@needs_rocksdict
def test_a_spill_that_fails_leaves_all_in_memory(tmp_path):
    """The put is undone; when there is room again it goes on."""
    backend = AutoSpillBackend(threshold=100, path=tmp_path / "d" / "spill")
    state = UpsertState(backend)
    put(state, "a", FinalizedValue("x"))
    (tmp_path / "d").write_text("in the way")

    with pytest.raises((HostError, OSError)):
        put(state, "b", FinalizedValue("y" * 100))
    assert ([FinalizedValue("x"), None], 1) == (values(state, "a", "b"), state.num_records)

    (tmp_path / "d").unlink()
    put(state, "b", FinalizedValue("y" * 100))
    assert (True, 2) == (backend.is_spilled, state.num_records)
    state.close()


@needs_rocksdict
def test_what_a_killed_spill_left_is_removed(tmp_path):
    """Nothing of it comes back."""
    killed = AutoSpillBackend(threshold=0, path=tmp_path / "a")
    put(UpsertState(killed), "left", FinalizedValue("x"))
    killed._rocks.close()  # its process is gone, its files are not
    backend = AutoSpillBackend(threshold=0, path=tmp_path / "a")
    state = UpsertState(backend)
    put(state, "new", FinalizedValue("y"))

    assert [None, FinalizedValue("y")] == values(state, "left", "new")
    assert 1 == state.num_records == backend.totals().values_diff
    state.close()


def test_a_directory_with_something_else_is_not_spilled_into(tmp_path):
    """It would have to be removed first."""
    (tmp_path / "precious").write_text("x")

    with pytest.raises(DeclarationValueError, match="new or empty"):
        AutoSpillBackend(threshold=0, path=tmp_path)


@pytest.mark.parametrize(
    ("threshold", "error"), [(-1, ValueError), ("1", TypeError), (True, TypeError)]
)
def test_a_threshold_is_a_number_of_bytes(tmp_path, threshold, error):
    """Checked when it is declared."""
    with pytest.raises((DeclarationTypeError, DeclarationValueError)) as raised:
        AutoSpillBackend(threshold=threshold, path=tmp_path)
    assert isinstance(raised.value, error)
