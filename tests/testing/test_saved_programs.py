# SPDX-License-Identifier: Apache-2.0
"""Programs go on from what another backend, or a directory, has of their state."""

from __future__ import annotations

import pytest
from saved_programs import PROGRAMS, backends_of, outputs_after, saved, written


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
