# SPDX-License-Identifier: Apache-2.0
"""Each restart with another declaration goes on as the page of restarts says, or is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from restart_cells import CELLS, READ, REFUSED, Cell, given, keeping, ttl, value
from surroundings import is_installed

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
from pyflinklike.errors import PyflinklikeError

BACKENDS = {"heap": HashMapStateBackend, "rocksdb": EmbeddedRocksDBStateBackend}
CASES = [
    pytest.param(
        cell,
        backend,
        id=f"{cell}-{backend}",
        marks=pytest.mark.restarts(cell.row, cell.answer),
    )
    for cell in CELLS
    for backend in cell.on
]


def _rows(outputs: Any) -> list[Any]:
    return outputs.to_pylist() if isinstance(outputs, pa.Table) else list(outputs)


def _driven(harness: Any, steps: list[Any]) -> list[Any]:
    given = [_rows(getattr(harness, name)(*arguments)) for name, *arguments in steps]
    return [each for some in given for each in some]


def _stored(cell: Cell, backend: str) -> bytes:
    made = BACKENDS["heap" if cell.on != ("heap", "rocksdb") else backend]()
    with cell.former(state_backend=made) as harness:
        _driven(harness, cell.before)
        snapshot: bytes = harness.snapshot()
        return snapshot


@pytest.mark.parametrize(("cell", "backend"), CASES)
def test_a_restart_with_another_declaration(cell, backend):
    """It goes on with what the page says, or an error names what differs."""
    if backend == "rocksdb" and not is_installed("rocksdict"):
        pytest.skip("rocksdict is not installed")
    snapshot = _stored(cell, backend)
    if cell.answer == REFUSED:
        with pytest.raises(PyflinklikeError, match=cell.expected):
            cell.now(state_backend=BACKENDS[backend](), restore=snapshot)
        return
    with cell.now(state_backend=BACKENDS[backend](), restore=snapshot) as harness:
        assert cell.expected == _driven(harness, cell.after)


@pytest.mark.restarts("TTL: clock, after it was off", "goes on")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_ttl_that_was_off_in_between_may_have_another_clock(backend):
    """Its entries have lost the stamps of the former one."""
    if backend == "rocksdb" and not is_installed("rocksdict"):
        pytest.skip("rocksdict is not installed")
    snapshot = None
    programs = [keeping(value(), ttl=each) for each in (ttl(), None, ttl(use_event_time=()))]
    for program, steps in zip(programs, (given(7), [], READ)):
        with program(state_backend=BACKENDS[backend](), restore=snapshot) as harness:
            outputs = _driven(harness, steps)
            snapshot = harness.snapshot()

    assert [[7]] == outputs
