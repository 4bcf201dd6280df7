# SPDX-License-Identifier: Apache-2.0
"""One RocksDB on the worker's local disk: where it lies, who may open it, how it fails.

What is in it can be rebuilt from the changelog at any time, and is looked at
only through the nonce of each key group.  Hence:

* There is no write-ahead log.  One write batch is one change from a committed
  state of a key group to the next; RocksDB keeps or loses batches as a whole
  and in order, so a crash leaves an older committed state.
* A directory that another attempt has open is left to it, and this one works
  in a directory of its own that it deletes.  A directory that cannot be read
  is deleted and begun anew.
* Entries are pickled, which is safe for one reason only: the files lie in a
  directory that nobody but this user can write to (checked when it is opened),
  were written by this user's own workers, and are never part of a checkpoint.

The layout is `<storage path>/pyflinklike-<uid>/<owner>`.  Directories of owners
that are gone are deleted when another one is opened: those that nobody has open
and that have not changed for a day.  Spark deletes its own local directories,
and with them ours, when an executor ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyflinklike.errors import HostError

__all__ = ["LocalStore", "require_rocksdict"]

_STALE_SECONDS = 24 * 60 * 60
_open_here: set[Path] = set()
"""Directories that this process has open: a POSIX lock would not tell."""


def require_rocksdict() -> Any:
    """The module.

    Raises:
        HostError: It is not installed.
    """
    try:
        import rocksdict
    except ImportError as error:
        msg = (
            "EmbeddedRocksDBStateBackend needs the package rocksdict on every worker, got "
            f"{error}; pip install 'pyflinklike[rocksdb]'"
        )
        raise HostError(msg) from error
    return rocksdict


class LocalStore:
    """An open RocksDB.

    Args:
        paths: Where it may lie; by default Spark's local directories, or the
            directory for temporary files.
        owner: Whose it is.
        options: Makes RocksDB's options.

    Raises:
        HostError: The directory cannot be used.
    """

    def __init__(self, paths: tuple[str, ...], owner: str, options: Callable[[Any], Any]) -> None:
        self._rocksdict = require_rocksdict()
        self._options = options
        self._is_private = False
        root = _private_root(Path(_chosen(paths or _default_paths(), owner)))
        self.path = root / _file_name(owner)
        self._db: Any = self._opened(root)
        _open_here.add(self.path)
        self._write_options = self._rocksdict.WriteOptions()
        self._write_options.disable_wal = True
        _remove_stale(root, self.path)

    def _opened(self, root: Path) -> Any:
        try:
            return self._open()
        except Exception as error:
            if _is_locked(error):
                self.path = Path(tempfile.mkdtemp(prefix="private-", dir=root))
                self._is_private = True
            elif _is_denied(error):
                raise _unusable(self.path, error) from error
            else:
                shutil.rmtree(self.path, ignore_errors=True)
        try:
            return self._open()
        except Exception as error:
            raise _unusable(self.path, error) from error

    def _open(self) -> Any:
        if not self.path.exists():
            self.path.mkdir(mode=0o700)
        return self._rocksdict.Rdict(str(self.path), self._options(self._rocksdict))

    # Reading

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._failed(error) from error
        return value

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The value or None for each key, in one call."""
        try:
            values: list[bytes | None] = self._db.get(keys)
        except Exception as error:
            raise self._failed(error) from error
        return values

    def items(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """What lies from `begin` to before `end`, as it is now; read it to its end, or drop it."""
        try:
            bounds = self._rocksdict.ReadOptions()
            bounds.set_iterate_upper_bound(end)
            yield from self._db.items(from_key=begin, read_opt=bounds)
        except Exception as error:
            raise self._failed(error) from error

    def items_backwards(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """What `items` gives, from its end to its beginning."""
        try:
            for key, value in self._db.items(backwards=True, from_key=end):
                if key < begin:
                    break
                if key < end:
                    yield key, value
        except Exception as error:
            raise self._failed(error) from error

    def keys_backwards(self, begin: bytes, end: bytes) -> Iterator[bytes]:
        """The keys from `end` down to `begin`."""
        try:
            # Not bounded by ReadOptions: rocksdict 0.3.29 does not heed a lower bound.
            for key in self._db.keys(backwards=True, from_key=end):
                if key < begin:
                    break
                yield key
        except Exception as error:
            raise self._failed(error) from error

    # Writing

    def write(
        self,
        puts: Mapping[bytes, bytes | None],
        dropped: tuple[bytes, bytes] | None = None,
    ) -> None:
        """Change many entries at once, all or none.

        Args:
            puts: Keys and values; None deletes.
            dropped: A range that is emptied before.
        """
        try:
            batch = self._rocksdict.WriteBatch(raw_mode=True)
            if dropped is not None:
                batch.delete_range(*dropped)
            put, delete = batch.put, batch.delete
            # In the order of their keys RocksDB takes them in several times faster.
            for key in sorted(puts):
                value = puts[key]
                if value is None:
                    delete(key)
                else:
                    put(key, value)
            self._db.write(batch, self._write_options)
        except Exception as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Write what is in memory to the disk and release the directory.

        Raises:
            HostError: The disk is full, or may not be written to any more.
        """
        db, self._db = self._db, None
        if db is None:
            return
        try:
            db.close()
        except Exception as error:
            if self.path.exists():
                raise _unusable(self.path, error) from error
        finally:
            del db
            _open_here.discard(self.path)
            if self._is_private:
                shutil.rmtree(self.path, ignore_errors=True)

    def _failed(self, error: Exception) -> HostError:
        """Let go of a store that failed, so that the next attempt begins with a new one."""
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(Exception):
                db.close()
            _open_here.discard(self.path)
            if "corruption" in str(error).lower():
                shutil.rmtree(self.path, ignore_errors=True)
        return _unusable(self.path, error)


def _unusable(path: Path, error: Exception) -> HostError:
    return HostError(
        "EmbeddedRocksDBStateBackend keeps working state on the worker's local disk, got "
        f"{error!s} in {str(path)!r}; see that it is writable and has room, or choose another "
        "one with set_db_storage_paths(); the state itself is safe in the checkpoint, "
        "and the next attempt rebuilds what is missing here"
    )


def _is_locked(error: Exception) -> bool:
    text = str(error).lower()
    return "lock" in text and ("hold by" in text or "unavailable" in text or "no locks" in text)


def _is_denied(error: Exception) -> bool:
    text = str(error).lower()
    reasons = ("permission denied", "read-only file system", "no space left", "quota")
    return any(reason in text for reason in reasons)


# Directories


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
        raise _unusable(root, error) from error
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


def _remove_stale(root: Path, mine: Path) -> None:
    """Delete what queries that are gone have left."""
    try:
        import fcntl
    except ImportError:  # no POSIX: leave them to the system
        return
    for path in root.iterdir():
        try:
            if path == mine or path in _open_here:
                continue
            if time.time() - path.stat().st_mtime < _STALE_SECONDS:
                continue
            with (path / "LOCK").open("a") as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # somebody has it open, or was faster
            continue
