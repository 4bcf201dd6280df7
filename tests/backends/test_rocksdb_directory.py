# SPDX-License-Identifier: Apache-2.0
"""The directory of the RocksDB backend: whose it is, when it is taken, damaged or old."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rocksdb_tasks import NONCE, fill, found, found_nonce, kept, leave, only_directory

from pyflinklike import EmbeddedRocksDBStateBackend, PredefinedOptions
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.backends.rocksdb.local_database import LocalDatabase
from pyflinklike.errors import SparkSetupError
from pyflinklike.state.current_key import CurrentKey


def test_the_directory_is_its_users_alone(tmp_path):
    """No one else may read it, nor plant a pickle in it."""
    leave(tmp_path)
    directory = only_directory(tmp_path)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (directory, directory.parent)]

    assert ([0o700, 0o700], f"pyflinklike-{os.getuid()}") == (modes, directory.parent.name)


def test_a_directory_open_to_others_is_refused(tmp_path):
    """Somebody may have prepared it."""
    leave(tmp_path)
    only_directory(tmp_path).parent.chmod(0o777)

    with pytest.raises(SparkSetupError, match="only this user"):
        found(tmp_path)


@pytest.mark.parametrize("how", ["deleted", "emptied", "manifest", "data"])
def test_a_damaged_directory_is_begun_anew(tmp_path, how):
    """By this attempt or, where the damage shows only on reading, by the next one."""
    leave(tmp_path)
    directory = only_directory(tmp_path)
    if how in ("deleted", "emptied"):
        shutil.rmtree(directory)
        if how == "emptied":
            directory.mkdir(mode=0o700)
    else:
        pattern = "MANIFEST*" if how == "manifest" else "*.sst"
        for file in directory.glob(pattern):
            file.write_bytes(b"\xaa" * file.stat().st_size)
    group = "unread"
    for _ in range(2):
        try:
            backend, _, group = found(tmp_path)
            backend.close()
            break
        except SparkSetupError:  # what was damaged is deleted
            continue

    assert None is group
    leave(tmp_path)
    assert NONCE == found_nonce(tmp_path)


def test_an_attempt_that_finds_the_directory_taken_works_elsewhere(tmp_path):
    """Cold, and leaves nothing behind."""
    leave(tmp_path)
    first, _, _ = found(tmp_path)
    second, tables, group = found(tmp_path)
    fill(tables, second.current)
    kept(second, KeyGroupState(3, bytes(16)))
    second.close()
    first.close()

    assert (None, NONCE) == (group, found_nonce(tmp_path))
    assert 1 == len(list(only_directory(tmp_path).parent.iterdir()))


def test_an_attempt_in_another_process_finds_the_directory_taken(tmp_path):
    """The lock is the system's."""
    leave(tmp_path)
    first, _, _ = found(tmp_path)
    code = (
        "import sys; sys.path.insert(0, 'tests/support'); import rocksdb_tasks; "
        f"print(rocksdb_tasks.found_nonce({str(tmp_path)!r}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    first.close()

    assert (0, "None") == (run.returncode, run.stdout.strip()), run.stderr


def test_a_place_that_is_no_directory_is_a_clear_error(tmp_path):
    """With what to do."""
    (tmp_path / "file").write_text("")

    with pytest.raises(SparkSetupError, match="set_db_storage_paths"):
        found(tmp_path / "file" / "below")


def test_the_directories_of_queries_that_are_gone_are_deleted(tmp_path):
    """After a day, and unless somebody has them open."""
    leave(tmp_path, owner="old")
    leave(tmp_path, owner="young")
    held, _, _ = found(tmp_path, owner="held")
    root = next(tmp_path.iterdir())
    long_ago = time.time() - 2 * 24 * 60 * 60
    for path in root.iterdir():
        if not path.name.startswith("young"):
            os.utime(path, (long_ago, long_ago))
    leave(tmp_path, owner="new")
    names = sorted(path.name.partition("-")[0] for path in root.iterdir())
    held.close()

    assert ["held", "new", "young"] == names


def test_without_paths_spark_says_where(tmp_path, monkeypatch):
    """One of its local directories, the same one every time."""
    places = [str(tmp_path / name) for name in "abc"]
    monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(places))
    for _ in range(2):
        backend = EmbeddedRocksDBStateBackend().create_keyed_state_backend(CurrentKey(), "query/0")
        backend.pop_cached(0)
        backend.close()

    assert 1 == len(list(tmp_path.iterdir()))


def test_a_directory_that_another_process_holds_is_passed_by(tmp_path):
    """Whoever cleans up does not wait for it."""
    leave(tmp_path, owner="held")
    root = next(tmp_path.iterdir())
    (held,) = root.iterdir()
    code = (
        f"import fcntl; lock = open({str(held / 'LOCK')!r}, 'a'); "
        "fcntl.lockf(lock, fcntl.LOCK_EX); print('held', flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert "held" == process.stdout.readline().strip()
        long_ago = time.time() - 2 * 24 * 60 * 60
        os.utime(held, (long_ago, long_ago))
        leave(tmp_path, owner="new")
        assert held.exists()
    finally:
        process.communicate("", timeout=60)


def test_a_directory_that_is_gone_can_be_given_up(tmp_path):
    """As one can that is there."""
    database = LocalDatabase((str(tmp_path),), "query/0", PredefinedOptions.DEFAULT.to_options)
    shutil.rmtree(database.path)
    database.discard()

    assert (False, False) == (database.is_open, database.path.exists())


@pytest.mark.parametrize("value", [b"\x00", b"\xff"])
def test_rows_end_where_there_are_no_more_whatever_their_values_are(tmp_path, value):
    """An end is believed once RocksDB has no row behind the last key."""
    database = LocalDatabase((str(tmp_path),), "query/0", PredefinedOptions.DEFAULT.to_options)
    stored = {f"k{at}".encode(): value for at in range(3)}
    database.write(stored)
    found = list(database.items(b"a", b"z")), list(database.items_backwards(b"a", b"z"))
    database.close()

    assert (list(stored.items()), list(stored.items())[::-1]) == found
