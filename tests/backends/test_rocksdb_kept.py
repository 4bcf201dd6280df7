# SPDX-License-Identifier: Apache-2.0
"""What RocksDB keeps of a key group beside its entries, and what is made of rows that are not ours."""

from __future__ import annotations

import pickle
import sys

import pytest
from rocksdb_support import BATCHES, contents, run_task
from rocksdb_tasks import NONCE, found, found_nonce, in_directory, leave

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._changelog.segments import Declaration, Section
from pyflinklike.backends.rocksdb.rocksdb_backend import TableOnDisk, from_row, row_at, to_row
from pyflinklike.state.current_key import CurrentKey

DECLARATION = Declaration("s", "map", "map", "str", "int", "")
KEPT = {"s": TableOnDisk("form", 4, b"\x00g", True), "t": TableOnDisk(None, 0, b"", False)}
HEADER_SIZE = 8


def state() -> KeyGroupState:
    """Working state of which every field that is kept differs from its default."""
    return KeyGroupState(
        3,
        NONCE,
        7,
        declared={"s": 0},
        declarations={0: DECLARATION},
        pending={"gone": [Section(DECLARATION, b"\x00\xff", "segment 1")]},
        rewrite=True,
    )


def planted(path, row: bytes, index: int = 3) -> None:
    """Have this row stand in the place of the key group's."""
    backend = in_directory(path).create_keyed_state_backend(CurrentKey(), "query/0")
    backend._ensure_database().write({row_at(index): row})
    backend.close()


def of_a_later_layout(nonce: bytes) -> bytes:
    """A row whose header says so, whatever follows."""
    row = to_row(KeyGroupState(3, nonce, 7), {})
    return row[:4] + bytes((row[4] + 1,)) + row[5:]


def test_a_row_holds_all_but_tables_and_timers():
    """Each field by its name, also the sections that no table has taken yet."""
    read, tables = from_row(to_row(state(), KEPT), 3)

    assert (state(), KEPT) == (read, tables)
    assert "segment 1" == read.pending["gone"][0].where


def test_a_row_names_no_class():
    """What is pickled are builtin values: they outlive every move of a class."""
    row = to_row(state(), KEPT)

    assert b"pyflinklike" not in row


def test_a_row_that_names_a_function_calls_none(monkeypatch):
    """It is not ours, whoever wrote it."""
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    header = to_row(state(), KEPT)[:HEADER_SIZE]

    assert from_row(header + b"cantigravity\nfly\n)R.", 3) is None
    assert "antigravity" not in sys.modules


def test_a_row_that_is_cut_short_is_none():
    """Wherever it ends, in the header too."""
    row = to_row(state(), KEPT)

    assert [] == [size for size in range(len(row)) if from_row(row[:size], 3) is not None]
    assert from_row(row, 3) is not None


@pytest.mark.parametrize("fields", [{}, {"tables": {}}, {"tables": {}, "nonce": b"", "more": 1}, 7])
def test_a_row_of_other_fields_is_none(fields):
    """The header alone does not make it ours."""
    header = to_row(state(), KEPT)[:HEADER_SIZE]

    assert from_row(header + pickle.dumps(fields), 3) is None


def test_a_group_that_another_version_kept_is_not_gone_on_from(tmp_path):
    """Its header says another layout."""
    leave(tmp_path)
    planted(tmp_path, of_a_later_layout(NONCE))

    assert None is found_nonce(tmp_path)


def test_what_another_version_kept_is_replaced(tmp_path):
    """By the first batch that goes on from the log: nothing of it is left among the new entries."""
    leave(tmp_path)
    planted(tmp_path, of_a_later_layout(NONCE))
    backend, tables, _ = found(tmp_path)
    rebuilt = KeyGroupState(3, bytes(16))
    backend.enter(3, rebuilt.tables)
    backend.current.key = "a"
    tables["value"].put(None, "of the log")
    backend.drain()
    backend.cache(rebuilt)
    backend.close()
    backend, _, again = found(tmp_path)

    assert (bytes(16), 1) == (again.nonce, backend.count())
    backend.close()


# From the log


class Elsewhere:
    """Of a module that is not there any more when it is read."""


def unreadable_row() -> bytes:
    """The pickle of a value whose class is gone."""
    return pickle.dumps(Elsewhere(), 5).replace(b"Elsewhere", b"Elsewhen!")


def batches(backend, store, begin, end):
    """The outputs of some tasks, one batch each, and which of them were warm."""
    outputs, warm = [], []
    for number in range(begin, end):
        outputs += run_task(
            backend, store, number, lambda operator: warm.append(operator.metrics.warm_loads)
        )
    return outputs, warm


@pytest.fixture
def two_batches(tmp_path):
    """A backend and a log after two batches, and what the next ones give where all is well."""
    backend, store = in_directory(tmp_path / "planted"), InMemoryLogStorage()
    twin, twins_store = in_directory(tmp_path / "twin"), InMemoryLogStorage()
    batches(twin, twins_store, 0, 2)
    batches(backend, store, 0, 2)
    outputs, _ = batches(twin, twins_store, 2, BATCHES)
    return backend, store, (outputs, contents(twins_store))


def test_a_stream_goes_on_from_its_log_where_another_version_kept_a_group(tmp_path, two_batches):
    """With the same outputs and the same state; the batch after it is warm again."""
    backend, store, expected = two_batches
    planted(tmp_path / "planted", of_a_later_layout(store.head.nonce), index=0)
    outputs, warm = batches(backend, store, 2, BATCHES)

    assert expected == (outputs, contents(store))
    assert (0, 1) == (warm[0], warm[-1])


def test_entries_that_cannot_be_unpickled_are_rebuilt_from_the_log(tmp_path, two_batches):
    """In the batch that meets them: RocksDB found their bytes to be right, and they are not."""
    backend, store, expected = two_batches
    keyed = backend.create_keyed_state_backend(CurrentKey(), "query/0")
    database = keyed._ensure_database()
    rows = [raw for raw, row in database.items(b"g", b"h") if row]
    database.write(dict.fromkeys(rows, unreadable_row()))
    keyed.close()
    outputs, _ = batches(backend, store, 2, BATCHES)

    assert len(rows) > 100
    assert expected == (outputs, contents(store))
