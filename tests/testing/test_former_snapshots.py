# SPDX-License-Identifier: Apache-2.0
"""What an earlier commit wrote is read, and each program goes on as it did there.

`former/<commit>/snapshots.zip` was written by `support/former_programs.py` with that commit.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from former_programs import PROGRAMS, backends_of, outputs_after

FORMER = sorted((Path(__file__).parent / "former").glob("*/snapshots.zip"))
CASES = [
    pytest.param(archive, name, backend, id=f"{archive.parent.name}-{name}-{backend}")
    for archive in FORMER
    for name in PROGRAMS
    for backend in backends_of(name)
]


@pytest.mark.parametrize(("archive", "name", "backend"), CASES)
def test_a_program_goes_on_from_a_snapshot_of_an_earlier_commit(archive, name, backend):
    """Every kind of state, store, window, join and fold gives what it gave with that commit."""
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    with zipfile.ZipFile(archive) as former:
        snapshot = former.read(f"{name}/{backend}.snapshot")
        expected = former.read(f"{name}/{backend}.outputs").decode().splitlines()

    assert expected == outputs_after(PROGRAMS[name], backend, snapshot)
