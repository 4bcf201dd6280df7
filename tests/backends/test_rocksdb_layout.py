# SPDX-License-Identifier: Apache-2.0
"""How entries lie in RocksDB: rows that grow, spread and shrink, under keys of any type."""

from __future__ import annotations

from datetime import date
from math import nan

import pytest
from rocksdb_tasks import NONCE, contents, found, in_directory, kept, leave, opened

from pyflinklike import Row, Types
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.backends.rocksdb.rocksdb_backend import entries_at
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Shape, TableSpec
from pyflinklike.types.pickled_type import Pickled


def test_what_a_batch_changes_lies_over_what_is_on_disk(tmp_path):
    """Through three tasks: puts, deletions, clears and appends, read before and after."""
    leave(tmp_path)
    for _ in range(2):
        backend, tables, group = found(tmp_path)
        backend.current.key = "a"
        tables["list"].delete(4)
        tables["list"].append("new")
        tables["map"].delete(0)
        tables["map"].put(-1, "new")
        backend.current.key = "b"
        tables["value"].delete(None)
        tables["map"].clear()
        tables["map"].put(2, "after")
        before = contents(backend)
        size = backend.count()
        kept(backend, group)
        backend.close()
        backend, tables, group = found(tmp_path)

        assert (before, size) == (contents(backend), backend.count())
        assert size == sum(map(len, before.values()))
        backend.current.key = "a"
        assert ["a0", "a1", "a2", "a3", "new"] == tables["list"].elements()
        assert [-1, 1, 2, 3, 4] == [user_key for user_key, _ in tables["map"].items()]
        backend.close()


def test_a_list_with_gaps_on_disk_keeps_its_order(tmp_path):
    """Positions are used again before the entry that lay behind them is gone from the disk."""
    backend, tables = opened(in_directory(tmp_path), 3)
    backend.current.key = "a"
    for at in range(6):
        tables["list"].append(f"old {at}")
    for at in range(1, 5):
        tables["list"].delete(at)
    kept(backend, KeyGroupState(3, NONCE, tables=backend.groups[3]))
    group = backend.pop_cached(3)
    backend.enter(3, group.tables)
    before = tables["list"].elements()
    tables["list"].delete(5)
    for at in range(1, 8):
        tables["list"].append(f"new {at}")

    assert ["old 0", "old 5"] == before
    assert ["old 0", *(f"new {at}" for at in range(1, 8))] == tables["list"].elements()
    backend.close()


def test_a_key_that_outgrows_its_row_is_spread_and_shrinks_to_nothing(tmp_path):
    """It is what it was through all tasks: in a row, a row for each entry, again without any."""
    group, sizes = None, []
    for begin, end in [(0, 5), (5, 300), (300, 303), (0, 0)]:
        backend, tables, group = found(tmp_path)
        group = group or KeyGroupState(3, NONCE, tables=backend.groups[3])
        backend.enter(3, group.tables)
        for backend.current.key in "ab":
            tables["map"].multi_put([(at, f"m{at}") for at in range(begin, end)])
            for at in range(begin, end):
                tables["list"].append(f"l{at}")
            if not end:
                for at in range(303):
                    tables["map"].delete(at)
                tables["list"].clear()
        kept(backend, group)
        backend.close()
        backend, tables, group = found(tmp_path)
        backend.current.key = "b"
        sizes.append(backend.count())

        assert [(at, f"m{at}") for at in range(end)] == tables["map"].items()
        assert [f"l{at}" for at in range(end)] == tables["list"].elements()
        backend.close()

    assert [20, 1200, 1212, 0] == sizes
    backend, _, group = found(tmp_path)
    begin, end = entries_at(3)
    assert [] == list(backend._ensure_database().items(begin, end))
    backend.close()


@pytest.mark.parametrize("user_key", [nan, (nan, 1), Pickled(b"x"), Row(a=nan), date(2024, 1, 1)])
def test_a_user_key_of_any_type_is_found_again_in_the_next_task(tmp_path, user_key):
    """A dict finds a NaN only as the very object that was put in."""
    spec = TableSpec("any", Shape.MAP, "map", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
    backend = in_directory(tmp_path).create_keyed_state_backend(CurrentKey(), "query/0")
    table = backend.table(spec)
    group = KeyGroupState(3, NONCE)
    for number in range(3):
        backend.enter(3, group.tables)
        backend.current.key = "a"
        assert (number - 1 if number else MISSING) == table.get(user_key)
        table.put(user_key, number)
        kept(backend, group)
        group = backend.pop_cached(3)

    assert 1 == group.tables["any"].size
    backend.close()
