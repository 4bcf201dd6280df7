# SPDX-License-Identifier: Apache-2.0
"""Working state that outlives its task in RocksDB's files."""

from __future__ import annotations

import pytest
from rocksdb_tasks import (
    LIST,
    MAP,
    NONCE,
    VALUE,
    contents,
    fill,
    found,
    found_nonce,
    in_directory,
    kept,
    leave,
)

from pyflinklike.backends.rocksdb.local_database import LocalDatabase
from pyflinklike.errors import SparkSetupError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, TableChanges


def test_what_a_group_caught_up_with_is_on_disk_in_the_next_task(tmp_path):
    """Although it does not count as changed: puts, deletions and a clear of another worker."""
    leave(tmp_path)
    backend, tables, group = found(tmp_path)
    backend.apply(TableChanges(VALUE, [], ["a", "z"], [None, None], [MISSING, "new"]))
    for spec in (MAP, LIST):
        changes = TableChanges(spec, ["c"], ["a", "a", "z"], [0, 9, 1], [MISSING, "new", "new"])
        backend.apply(changes)
    backend.current.key = "a"
    tables["list"].append("last")
    before, size = contents(backend), backend.count()
    kept(backend, group)
    backend.close()
    backend, _, _ = found(tmp_path)

    assert (3 + 2 * (10 + 1) + 1, before, size) == (size, contents(backend), backend.count())
    assert size == sum(map(len, before.values()))
    assert ("a", 10, "last") in before["list"]
    backend.close()


def test_a_state_that_is_not_declared_yet_is_not_lost(tmp_path):
    """Its group is rebuilt from the log, which has it."""
    leave(tmp_path)
    backend = in_directory(tmp_path).create_keyed_state_backend(CurrentKey(), "query/0")
    backend.table(VALUE)

    assert None is backend.pop_cached(3)
    backend.close()


def test_a_sweep_goes_on_in_the_next_task(tmp_path):
    """It reaches every entry, although no task sweeps more than one key's."""
    leave(tmp_path)
    seen = []
    for _ in range(3):
        backend, tables, group = found(tmp_path)
        tables["map"].sweep(3, lambda entry: bool(seen.append(entry)))
        kept(backend, group)
        backend.close()

    assert sorted(f"{key}{at}" for key in "abc" for at in range(5)) == sorted(seen)


def test_owners_do_not_see_each_other(tmp_path):
    """Each has a directory."""
    leave(tmp_path, owner="query/0")
    backend, _, group = found(tmp_path, owner="query/1")

    assert None is group
    backend.close()


def test_a_failed_write_is_a_clear_error_and_leaves_the_former_state(tmp_path, monkeypatch):
    """A full disk, say: the next attempt finds what was there."""
    leave(tmp_path)
    backend, tables, group = found(tmp_path)
    fill(tables, backend.current, 9)
    backend.drain()
    monkeypatch.setattr(LocalDatabase, "_db", None, raising=False)
    backend._ensure_database()._db.close()
    with pytest.raises(SparkSetupError, match="set_db_storage_paths"):
        backend.cache(group)
    backend.close()

    assert NONCE == found_nonce(tmp_path)


def test_what_was_appended_unread_comes_behind_what_is_on_the_disk(tmp_path):
    """Whoever asks for all entries gets both."""
    leave(tmp_path)
    backend, tables, _ = found(tmp_path)
    backend.current.key = "b"
    tables["list"].append("more")
    all_entries = contents(backend)["list"]
    backend.close()

    mine = [entry for key, _, entry in all_entries if key == "b"]
    assert [*(f"b{at}" for at in range(5)), "more"] == mine
