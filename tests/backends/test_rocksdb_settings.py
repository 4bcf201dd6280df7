# SPDX-License-Identifier: Apache-2.0
"""The settings of the RocksDB backend, and the names of Flink 1.x."""

from __future__ import annotations

import pickle
import sys

import pytest
from rocksdb_tasks import NONCE, Everything, fill, in_directory, kept, only_directory, opened

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend, PredefinedOptions
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    SparkSetupError,
)
from pyflinklike.pyflink.datastream.state_backend import (
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    RocksDBStateBackend,
)
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.testing import KeyedProcessHarness


def test_a_missing_package_is_named(monkeypatch):
    """When the backend is made."""
    monkeypatch.setitem(sys.modules, "rocksdict", None)

    with pytest.raises(SparkSetupError, match=r"pip install '\.\[rocksdb\]'"):
        EmbeddedRocksDBStateBackend().create_keyed_state_backend(CurrentKey(), "query/0")


@pytest.mark.parametrize("options", list(PredefinedOptions), ids=lambda options: options.name)
def test_rocksdb_takes_all_predefined_options(tmp_path, options):
    """They are settings of its own."""
    backend = in_directory(tmp_path)
    backend.set_predefined_options(options)
    keyed, tables = opened(backend, 0)
    fill(tables, keyed.current)
    kept(keyed, KeyGroupState(0, NONCE, tables=keyed.groups[0]))
    keyed.close()

    text = next(only_directory(tmp_path).glob("OPTIONS-*")).read_text()
    dynamic = "SPINNING" in options.name
    assert f"level_compaction_dynamic_level_bytes={str(dynamic).lower()}" in text


# Settings


def test_settings_are_read_back():
    """The setters change the object and return None."""
    backend = EmbeddedRocksDBStateBackend(True)
    returned = [
        backend.set_db_storage_paths("/a", "file:///b"),
        backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED),
    ]

    assert [None, None] == returned
    assert ["/a", "/b"] == backend.get_db_storage_paths()
    assert PredefinedOptions.FLASH_SSD_OPTIMIZED is backend.get_predefined_options()
    assert backend.is_incremental_checkpoints_enabled()
    assert backend == pickle.loads(pickle.dumps(backend))
    assert backend != EmbeddedRocksDBStateBackend(True)


def test_the_defaults_are_flinks():
    """As PyFlink's getters give them."""
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths("/a")
    backend.set_db_storage_paths()

    assert ([], False, None, 4, PredefinedOptions.DEFAULT) == (
        backend.get_db_storage_paths(),
        backend.is_incremental_checkpoints_enabled(),
        backend.get_options(),
        backend.get_number_of_transfer_threads(),
        backend.get_predefined_options(),
    )


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda b: EmbeddedRocksDBStateBackend("yes"), DeclarationTypeError, "'yes'"),
        (lambda b: EmbeddedRocksDBStateBackend(None, object()), DeclarationError, "Java"),
        (lambda b: b.set_db_storage_paths(1), DeclarationTypeError, "str"),
        (lambda b: b.set_db_storage_paths("a/b"), DeclarationValueError, "absolute"),
        (lambda b: b.set_db_storage_paths("hdfs://a/b"), DeclarationValueError, "local"),
        (lambda b: b.set_predefined_options(3), DeclarationTypeError, "PredefinedOptions"),
        (lambda b: b.set_options("a.B"), DeclarationValueError, "a.B"),
        (lambda b: b.set_number_of_transfer_threads(8), DeclarationError, "8"),
    ],
)
def test_what_cannot_be_set_says_so(call, error, text):
    """With the reason."""
    with pytest.raises(error, match=text):
        call(EmbeddedRocksDBStateBackend())


def test_a_keyed_backend_keeps_the_settings_it_was_made_with(tmp_path):
    """A setter called later changes the next one."""
    backend = in_directory(tmp_path / "first")
    keyed = backend.create_keyed_state_backend(CurrentKey(), "query/0")
    backend.set_db_storage_paths(str(tmp_path / "second"))
    keyed.pop_cached(0)
    keyed.close()

    assert ["first"] == [path.name for path in tmp_path.iterdir()]


# The names of Flink 1.x


@pytest.mark.parametrize(
    ("make", "real"),
    [
        (MemoryStateBackend, HashMapStateBackend),
        (lambda: FsStateBackend("file:///checkpoints"), HashMapStateBackend),
        (lambda: RocksDBStateBackend("file:///checkpoints"), EmbeddedRocksDBStateBackend),
    ],
)
def test_a_name_of_flink_1_is_a_door_to_a_real_backend(make, real):
    """It warns, is a value, and works."""
    with pytest.warns(DeprecationWarning, match=real.__name__):
        backend = make()

    assert isinstance(backend, real)
    assert (backend, hash(backend)) == (pickle.loads(pickle.dumps(backend)), hash(backend))
    with KeyedProcessHarness(Everything(), lambda value: 0, state_backend=backend) as harness:
        assert [(3, [3], [("0", 3)])] == harness.process_element(3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_settings_of_flink_1_are_read_back():
    """With Flink's defaults."""
    memory, fs = MemoryStateBackend(), FsStateBackend("file:///c")
    rocks = RocksDBStateBackend("file:///c", True)

    assert (5 * 1024**2, True) == (
        memory.get_max_state_size(),
        memory.is_using_asynchronous_snapshots(),
    )
    assert ("file:///c", 20480, 20480, True) == (
        fs.get_checkpoint_path(),
        fs.get_min_file_size_threshold(),
        fs.get_write_buffer_size(),
        fs.is_using_asynchronous_snapshots(),
    )
    assert (fs, True, 4) == (
        rocks.get_checkpoint_backend(),
        rocks.is_incremental_checkpoints_enabled(),
        rocks.get_number_of_transfering_threads(),
    )
    assert ["MemoryStateBackend", "FsStateBackend"] == [str(memory), str(fs)]


@pytest.mark.parametrize("door", [FsStateBackend, RocksDBStateBackend])
def test_a_place_for_checkpoints_is_required_as_in_flink(door):
    """Though nothing is put there."""
    with pytest.raises(DeclarationValueError, match="is required"):
        door()


def test_a_backend_of_ones_own_may_be_wrapped():
    """And nothing else."""
    backend = CustomStateBackend(HashMapStateBackend())
    with KeyedProcessHarness(Everything(), lambda value: 0, state_backend=backend) as harness:
        assert [(3, [3], [("0", 3)])] == harness.process_element(3)
    with pytest.raises(DeclarationTypeError, match="StateBackend"):
        CustomStateBackend("mine")
