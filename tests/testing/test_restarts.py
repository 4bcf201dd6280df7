# SPDX-License-Identifier: Apache-2.0
"""Each restart with another declaration goes on as the page of restarts says, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import attrs
import pyarrow as pa
import pytest
from restart_cells import CELLS, READ, REFUSED, Cell, given, keeping, ttl, value
from surroundings import is_installed

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike.errors import PyflinklikeError

BACKENDS = {"heap": HashMapStateBackend, "rocksdb": EmbeddedRocksDBStateBackend}
THROUGH = ("snapshot", "log")


def _is_of_snapshots(cell: Cell, backend: str) -> bool:
    """Whether there is no log of it: on RocksDB a harness settles each broadcast element."""
    return "harness" in cell.row or (backend == "rocksdb" and "broadcast" in cell.row)


def _cases() -> Iterator[Any]:
    for at, cell in enumerate(CELLS):
        for backend, through in product(cell.on, THROUGH):
            if through == "log" and _is_of_snapshots(cell, backend):
                continue
            marks = [pytest.mark.restarts(cell.row, cell.answer)]
            # By day each cell goes one way, with its neighbours on the others; at night all of them.
            ways = [each for each in product(cell.on, THROUGH) if each != ("heap", "snapshot")]
            if not _is_of_snapshots(cell, backend) and (backend, through) != ways[at % len(ways)]:
                marks.append(pytest.mark.thorough)
            yield pytest.param(
                cell, backend, through, id=f"{cell}-{backend}-{through}", marks=marks
            )


def _rows(outputs: Any) -> list[Any]:
    return outputs.to_pylist() if isinstance(outputs, pa.Table) else list(outputs)


def _driven(harness: Any, steps: list[Any]) -> list[Any]:
    given = [_rows(getattr(harness, name)(*arguments)) for name, *arguments in steps]
    return [each for some in given for each in some]


def _backend_of_former(cell: Cell, backend: str) -> Any:
    return BACKENDS[backend if len(cell.on) == len(BACKENDS) else "heap"]()


def _snapshot_of(cell: Cell, backend: str) -> bytes:
    with cell.former(state_backend=_backend_of_former(cell, backend)) as harness:
        _driven(harness, cell.before)
        snapshot: bytes = harness.snapshot()
        return snapshot


def _log_of(cell: Cell, backend: str) -> InMemoryLogStorage:
    """A segment for each step, as of a stream whose micro-batches these are."""
    store = InMemoryLogStorage()
    with cell.former(state_backend=_backend_of_former(cell, backend)) as harness:
        for step in cell.before:
            _driven(harness, [step])
            harness._operator.commit(store, store.head)
    return store


@contextmanager
def _gone_on(cell: Cell, backend: str, through: str) -> Iterator[Any]:
    """The harness of now with the former state."""
    made = BACKENDS[backend]()
    if through == "snapshot":
        with cell.now(state_backend=made, restore=_snapshot_of(cell, backend)) as harness:
            yield harness
        return
    store = _log_of(cell, backend)
    with cell.now(state_backend=made) as harness:
        group = harness._operator.group
        # What identifies the operator is compared elsewhere: `test_key_group_registry`.
        wanted = harness._operator.runtime_context.get_max_number_of_parallel_subtasks()
        head = attrs.evolve(store.head, identity="", max_parallelism=wanted)
        group.load(store, head, KeyGroupState(0))
        yield harness


@pytest.mark.parametrize(("cell", "backend", "through"), list(_cases()))
def test_a_restart_with_another_declaration(cell, backend, through):
    """It goes on with what the page says, or an error names what differs."""
    if backend == "rocksdb" and not is_installed("rocksdict"):
        pytest.skip("rocksdict is not installed")
    if cell.answer == REFUSED:
        with (
            pytest.raises(PyflinklikeError, match=cell.expected),
            _gone_on(cell, backend, through),
        ):
            pass
        return
    with _gone_on(cell, backend, through) as harness:
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
