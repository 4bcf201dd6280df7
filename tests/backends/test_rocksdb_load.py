# SPDX-License-Identifier: Apache-2.0
"""Key groups that RocksDB takes in as a file: the former ones give way, and no crash mixes the two."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from rocksdb_tasks import (
    NONCE,
    contents,
    fill,
    found,
    found_nonce,
    in_directory,
    kept,
    leave,
    only_directory,
    opened,
)

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.backends.rocksdb.local_database import LocalDatabase
from pyflinklike.backends.rocksdb.rocksdb_backend import row_at

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

from rocksdb_support import Damaged, flips, losses

LATER = bytes(16)


@pytest.fixture(autouse=True)
def _every_group_in_a_file(monkeypatch):
    monkeypatch.setattr(LocalDatabase, "most_in_batch", 1)


def rebuild(backend: Any, tables: dict[str, Any]) -> None:
    """Fill group 3 from a log, as it were, and keep it in place of the former one."""
    group = KeyGroupState(3, LATER)
    backend.enter(3, group.tables)
    for backend.current.key in ("b", "z"):
        tables["value"].put(None, "later")
        tables["map"].put(7, "later")
    kept(backend, group)


LATER_CONTENTS = {
    "value": [("b", None, "later"), ("z", None, "later")],
    "map": [("b", 7, "later"), ("z", 7, "later")],
}


def test_a_group_without_entries_replaces_the_former_one(tmp_path):
    """A file has at least one row, so there is none."""
    leave(tmp_path)
    backend, tables = opened(in_directory(tmp_path), 3)
    group = KeyGroupState(3, LATER)
    backend.enter(3, group.tables)
    backend.current.key = "a"
    tables["value"].put(None, "gone")
    tables["value"].delete(None)
    kept(backend, group)
    backend.close()
    backend, _, group = found(tmp_path)

    assert (LATER, {}) == (group.nonce, contents(backend))
    backend.close()


# Crashes


class Photographed:
    """A RocksDB whose files are copied before and after each write, as a crash would leave them."""

    def __init__(self, db: Any, files: Path, images: Path) -> None:
        self._db, self._files, self._images = db, files, images
        self.taken: list[Path] = []

    def take(self) -> None:
        """Copy the files; what is only in RocksDB's memory is not among them."""
        root = self._images / str(len(self.taken))
        path = root / self._files.parent.name
        path.mkdir(mode=0o700, parents=True)
        shutil.copytree(self._files, path / self._files.name)
        self.taken.append(root)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._db, name)
        if name not in ("write", "flush", "ingest_external_file"):
            return found

        def photographed(*arguments: Any) -> None:
            self.take()
            found(*arguments)
            self.take()

        return photographed


@pytest.mark.parametrize("former", ["none", "in memory", "on disk", "stray rows"])
def test_a_crash_leaves_the_former_group_or_the_later_one_or_none(tmp_path, former):
    """At any moment of a load; and a group that is found is the one that its nonce says."""
    backend, tables = opened(in_directory(tmp_path / "run"), 3)
    if former != "none":
        fill(tables, backend.current)
        former_contents = contents(backend)
        kept(backend, KeyGroupState(3, NONCE, tables=backend.groups[3]))
    if former in ("on disk", "stray rows"):
        backend.release()
    database = backend._ensure_database()
    # A compaction in the background would delete files while they are copied.
    database._db.set_options({"disable_auto_compactions": "true"})
    if former == "stray rows":
        database.write({row_at(3): None})
    camera = database._db = Photographed(database._db, database.path, tmp_path / "images")
    rebuild(backend, tables)
    camera.take()
    backend.release()
    camera.take()
    backend.close()
    nonces = []
    for image in camera.taken:
        again, _, group = found(image)
        nonces.append(group and group.nonce)
        if group is not None:
            expected = LATER_CONTENTS if group.nonce == LATER else former_contents
            assert expected == contents(again)
        again.close()

    assert nonces[-1] == LATER
    # In this order, and not back.
    assert sorted(nonces, key=[NONCE, None, LATER].index) == nonces


def test_rows_that_a_crash_left_are_gone_after_the_next_load(tmp_path):
    """Although no row vouches for them."""
    backend, tables = opened(in_directory(tmp_path), 3)
    fill(tables, backend.current)
    database = backend._ensure_database()
    rows = {raw: row for table in tables.values() for raw, row in table.rows_to_write()}
    backend.drain()
    database._ingest(rows)
    rebuild(backend, tables)
    backend.close()
    backend, _, group = found(tmp_path)

    assert (LATER, LATER_CONTENTS) == (group.nonce, contents(backend))
    backend.close()


def test_the_file_is_rocksdbs_own_afterwards(tmp_path):
    """It is moved, not copied."""
    leave(tmp_path)

    assert [] == list(only_directory(tmp_path).glob("rows-to-take-in"))
    assert NONCE == found_nonce(tmp_path)


def test_damage_to_a_loaded_group_changes_nothing(tmp_path):
    """Flipped bits, files that are gone or cut short: it is rebuilt from the log."""
    damaged = Damaged(tmp_path)
    expected = damaged.run()
    files = [file for file in damaged.files if file.suffix == ".sst"]
    assert files
    for damage in [*flips(files, 2_000), *losses(files)]:
        assert expected == damaged.run(damage), damage.name
