# SPDX-License-Identifier: Apache-2.0
"""The directories of local RocksDBs: where they lie, whose they are, and when they go.

The layout is `<storage path>/pyflinklike-<uid>/<owner>`.  Directories of owners
that are gone are deleted when another one is opened: those that nobody has open
and that are a day older than the one just opened, by the file system's own times.  Spark deletes its own local directories,
and with them ours, when an executor ends.
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
"""Directories that this process has open: a POSIX lock would not tell."""


def directory_of(paths: tuple[str, ...], owner: str) -> Path:
    """Where an owner's RocksDB lies, the same place at all times; its parent is made.

    Raises:
        HostError: It cannot be made, or others could write there.
    """
    return _private_root(Path(_chosen(paths or _default_paths(), owner))) / _file_name(owner)


def unusable(path: Path, error: Exception) -> HostError:
    """The error for a directory that cannot be worked in."""
    return HostError(message(path, error))


def message(path: Path, error: Exception) -> str:
    """What went wrong there, and what to do."""
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
    """One of the paths, the same one for an owner at all times."""
    return paths[int(_digest(owner), 16) % len(paths)]


def _file_name(owner: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '_', owner)[-80:]}-{_digest(owner)}"


def _private_root(path: Path) -> Path:
    """The directory below a storage path that is this user's alone."""
    user = os.getuid() if hasattr(os, "getuid") else os.getlogin()
    root = path / f"pyflinklike-{user}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not root.is_symlink() and not root.exists():
            root.mkdir(mode=0o700, exist_ok=True)
        found = root.lstat()
    except OSError as error:
        raise unusable(root, error) from error
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
    """Delete what queries that are gone have left.

    Args:
        root: Where the directories of all owners lie.
        mine: The one just opened, in which RocksDB has just made files, so that its time is
            now: nothing below a host reads a clock, and ages are told by one clock, the
            file system's.
    """
    try:
        import fcntl
    except ImportError:  # no POSIX: leave them to the system
        return
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
            with (path / "LOCK").open("a") as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # somebody has it open, or was faster
            continue
