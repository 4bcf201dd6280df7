# SPDX-License-Identifier: Apache-2.0
"""The directories of local RocksDBs: where they lie, who owns them, and when they are deleted.

The layout is `<storage path>/pyflinklike-<uid>/<owner>`.  When a directory is opened, those of
owners that are gone are deleted: nobody has them open, and they are a day older than the one just
opened.  Spark deletes its own local directories, and ours in them, when an executor ends.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from pyflinklike.errors import HostError

__all__ = ["OPEN_HERE", "directory_of", "message", "remove_stale", "unusable"]

_STALE_SECONDS = 24 * 60 * 60
OPEN_HERE: set[Path] = set()
"""Directories that this process has open: a POSIX lock does not stop the process that holds it."""


def directory_of(paths: tuple[str, ...], owner: str) -> Path:
    """Return the directory of an owner, always the same one; its parent is created.

    Raises:
        HostError: The parent cannot be created, or others could write there.
    """
    return _private_root(Path(_chosen(paths or _default_paths(), owner))) / _file_name(owner)


def unusable(path: Path, error: Exception) -> HostError:
    """Build the error for a directory that cannot be worked in."""
    return HostError(message(path, error))


def message(path: Path, error: Exception) -> str:
    """Say what went wrong in a directory, and what to do."""
    return (
        "EmbeddedRocksDBStateBackend keeps working state on the worker's local disk, got "
        f"{error!s} in {str(path)!r}; see that it is writable and has room, or choose another "
        "one with set_db_storage_paths(); the state itself is safe in the checkpoint, "
        "and the next attempt rebuilds what is missing here"
    )


def _default_paths() -> tuple[str, ...]:
    spark = os.environ.get("SPARK_LOCAL_DIRS", "")
    return tuple(filter(None, spark.split(","))) or (tempfile.gettempdir(),)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _chosen(paths: tuple[str, ...], owner: str) -> str:
    """Choose one of the paths, always the same one for an owner."""
    return paths[int(_digest(owner), 16) % len(paths)]


def _file_name(owner: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '_', owner)[-80:]}-{_digest(owner)}"


def _private_root(path: Path) -> Path:
    """Return the directory below a storage path that is this user's alone, created if need be."""
    user = os.getuid() if hasattr(os, "getuid") else os.getlogin()
    root = path / f"pyflinklike-{user}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not root.is_symlink() and not root.exists():
            root.mkdir(mode=0o700, exist_ok=True)
        found = root.lstat()
    except OSError as error:
        raise unusable(root, error) from error
    # Rows are pickled: whoever can write here could run code in this worker.
    if hasattr(os, "getuid") and (
        not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o077
    ):
        msg = (
            f"{str(root)!r} must be a directory that only this user can read and write, got mode "
            f"{stat.filemode(found.st_mode)} and owner {found.st_uid}; remove it, or choose "
            "another place with set_db_storage_paths()"
        )
        raise HostError(msg)
    return root


def remove_stale(root: Path, mine: Path) -> None:
    """Delete the directories of queries that are gone.

    Args:
        root: Parent of the directories of all owners.
        mine: The directory just opened, which is spared.
    """
    try:
        import fcntl
    except ImportError:  # no POSIX: leave them to the system
        return
    # RocksDB has just made files in `mine`, so its time is now.  Ages are told by one clock, the
    # file system's: nothing below a host reads the system's clock.
    try:
        now, others = mine.stat().st_mtime, list(root.iterdir())
    except OSError:  # somebody is deleting all of it
        return
    for path in others:
        try:
            if path == mine or path in OPEN_HERE:
                continue
            if now - path.stat().st_mtime < _STALE_SECONDS:
                continue
            # RocksDB's own lock: a process that has the database open holds it.
            with (path / "LOCK").open("a") as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # somebody has it open, or was faster
            continue
