# SPDX-License-Identifier: Apache-2.0
"""What an earlier commit wrote is read, and each program goes on as it did there.

`former/<commit>/snapshots.zip` and `savepoints.zip` were written by `support/former_programs.py` with
that commit.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from former_programs import (
    IN_DIRECTORIES,
    PROGRAMS,
    Program,
    backends_of,
    outputs_after,
    saved,
    written,
)
from window_support import Contents, harness

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.windows import count_window

FORMER = sorted((Path(__file__).parent / "former").glob("*/snapshots.zip"))


def _cases(names):
    return [
        pytest.param(archive, name, backend, id=f"{archive.parent.name}-{name}-{backend}")
        for archive in FORMER
        for name in names
        for backend in backends_of(name)
    ]


def _expected(archive, name, backend):
    with zipfile.ZipFile(archive) as former:
        return former.read(f"{name}/{backend}.outputs").decode().splitlines()


def _needs(backend):
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")


@pytest.mark.parametrize(("archive", "name", "backend"), _cases(PROGRAMS))
def test_a_program_goes_on_from_a_snapshot_of_an_earlier_commit(archive, name, backend):
    """Every kind of state, store, window, join and fold gives what it gave with that commit."""
    _needs(backend)
    with zipfile.ZipFile(archive) as former:
        snapshot = former.read(f"{name}/{backend}.snapshot")

    assert _expected(archive, name, backend) == outputs_after(PROGRAMS[name], backend, snapshot)


@pytest.mark.parametrize(("archive", "name", "backend"), _cases(IN_DIRECTORIES))
def test_a_program_goes_on_from_a_savepoint_of_an_earlier_commit(archive, name, backend, tmp_path):
    """A directory of Parquet files gives what the snapshot of the same moment gave with that commit."""
    _needs(backend)
    with zipfile.ZipFile(archive.with_name("savepoints.zip")) as former:
        former.extractall(tmp_path)
    directory = tmp_path / name / backend

    assert _expected(archive, name, backend) == outputs_after(PROGRAMS[name], backend, directory)


def _count_windows(size):
    return Program(
        lambda **options: harness(count_window(size).process(Contents()), **options), [], []
    )


@pytest.mark.parametrize("archive", FORMER, ids=lambda archive: archive.parent.name)
def test_a_setting_that_an_earlier_commit_did_not_keep_is_kept_from_the_first_restart_on(archive):
    """That restart has nothing to compare with; the next one has."""
    with zipfile.ZipFile(archive) as former:
        snapshot = former.read("windows: of a count/heap.snapshot")
    for size in (4, 3):
        with _count_windows(size).make(restore=snapshot) as restored:
            told = restored.snapshot()
        with pytest.raises(IncompatibleStateError, match=f"keeps the windows, '.* of {size}'"):
            _count_windows(size + 1).make(restore=told)


@pytest.mark.restarts("backend", "goes on")
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_goes_on_from_the_other_backend_and_from_a_directory(name, backend, tmp_path):
    """A snapshot is of no backend, and a savepoint has all that it has: folds and joins, too."""
    other = {"heap": "rocksdb", "rocksdb": "heap"}[backend]
    if not {backend, other} <= set(backends_of(name)):
        pytest.skip("columns are on the heap")
    pytest.importorskip("rocksdict")
    program = PROGRAMS[name]
    expected = outputs_after(program, backend, written(program, backend))
    saved(program, other, tmp_path / "savepoint")

    assert expected == outputs_after(program, backend, written(program, other))
    assert expected == outputs_after(program, backend, tmp_path / "savepoint")
