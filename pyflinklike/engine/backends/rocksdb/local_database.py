# SPDX-License-Identifier: Apache-2.0
"""One RocksDB on the worker's local disk: who may open it, and how it fails.

Everything in it can be rebuilt from the log at any time, and is used only if its nonce is the
head's.  So:

* A directory that another attempt has open is left to that attempt, and this one works in a
  directory of its own that it deletes.  A directory that cannot be read is deleted and begun anew.
  If the damage shows only while it is in use, a `LocalStateError` is raised, and the key group is
  rebuilt from its log.
* Entries are pickled, which is safe for one reason only: the files lie in a directory that nobody
  but this user can write to (checked when it is opened), were written by this user's own workers,
  and are never part of a checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyflinklike.backends.rocksdb import reading
from pyflinklike.backends.rocksdb.directory import (
    OPEN_HERE,
    directory_of,
    message,
    remove_stale,
    unusable,
)
from pyflinklike.backends.rocksdb.package import require_rocksdict
from pyflinklike.errors import HostError, LocalStateError

__all__ = ["LocalDatabase"]

_LOGGER = logging.getLogger("pyflinklike.backends")


class LocalDatabase:
    """An open RocksDB.

    Args:
        paths: Storage paths, one of which it takes; if none, Spark's local directories, or the
            directory for temporary files.
        owner: Name of the owner, which decides about the directory.
        options: Makes RocksDB's options from the module rocksdict.

    Raises:
        HostError: The directory cannot be used.
    """

    def __init__(self, paths: tuple[str, ...], owner: str, options: Callable[[Any], Any]) -> None:
        self._rocksdict = require_rocksdict("EmbeddedRocksDBStateBackend")
        self._options = options
        self._is_private = False
        self.path = directory_of(paths, owner)
        root = self.path.parent
        self._db: Any = self._opened(root)
        OPEN_HERE.add(self.path)
        self._write_options = self._rocksdict.WriteOptions()
        # No write-ahead log: one write batch is one change from a committed state of a key group to
        # the next, and RocksDB keeps or loses batches as a whole and in order.  So a crash leaves
        # an older committed state, which its nonce tells.
        self._write_options.disable_wal = True
        remove_stale(root, self.path)

    def _opened(self, root: Path) -> Any:
        try:
            return self._open()
        except Exception as error:
            if _is_locked(error):
                self.path = Path(tempfile.mkdtemp(prefix="private-", dir=root))
                self._is_private = True
            elif _is_denied(error):
                raise unusable(self.path, error) from error
            else:
                _LOGGER.warning("%s", message(self.path, error))
                shutil.rmtree(self.path, ignore_errors=True)
        try:
            return self._open()
        except Exception as error:
            raise unusable(self.path, error) from error

    def _open(self) -> Any:
        if not self.path.exists():
            self.path.mkdir(mode=0o700)
        return self._rocksdict.Rdict(str(self.path), self._options(self._rocksdict))

    @property
    def is_open(self) -> bool:
        """Whether the database can be used: it was not closed, and did not fail."""
        return self._db is not None

    # Reading: where a row cannot be read, everything is deleted, since it can be rebuilt.

    def get(self, key: bytes) -> bytes | None:
        """Return the value, or None.

        Raises:
            LocalStateError: It cannot be read; the whole directory is deleted.
        """
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._lost(error) from error
        return value

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value or None of each key, in one call; it raises as `get` does."""
        try:
            values: list[bytes | None] = self._db.get(keys)
        except Exception as error:
            raise self._lost(error) from error
        return values

    def items(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows from `begin` to before `end`, as they are now."""
        try:
            yield from reading.rows(self._rocksdict, self._db, begin, end)
        except Exception as error:
            raise self._lost(error) from error

    def items_backwards(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows that `items` yields, from the last to the first."""
        try:
            yield from reading.rows_backwards(self._db, begin, end)
        except Exception as error:
            raise self._lost(error) from error

    def keys_backwards(self, begin: bytes, end: bytes) -> Iterator[bytes]:
        """Yield the keys from before `end` down to `begin`."""
        try:
            yield from reading.keys_backwards(self._db, begin, end)
        except Exception as error:
            raise self._lost(error) from error

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
            # RocksDB takes rows in several times faster in the order of their keys.
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
        """Write to the disk what is in memory, and release the directory.

        Raises:
            HostError: The disk is full, or may no longer be written to.
        """
        try:
            self._release()
        except Exception as error:
            if reading.is_corruption(error):
                shutil.rmtree(self.path, ignore_errors=True)
            elif self.path.exists():
                raise unusable(self.path, error) from error
        finally:
            if self._is_private:
                shutil.rmtree(self.path, ignore_errors=True)

    def discard(self) -> None:
        """Release the directory and delete it."""
        if self.is_open:
            with contextlib.suppress(Exception):
                self._release()
            shutil.rmtree(self.path, ignore_errors=True)

    def delete(self) -> None:
        """Delete the directory of a database that is closed."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _release(self) -> None:
        db, self._db = self._db, None
        if db is None:
            return
        try:
            db.close()
        finally:
            del db
            OPEN_HERE.discard(self.path)

    def _lost(self, error: Exception) -> Exception:
        """Release a database that cannot be read, and return the error to raise."""
        if isinstance(error, (KeyError, TypeError, ValueError)):
            return error  # a mistake of ours, not the disk's
        return self._damaged(error)

    def _failed(self, error: Exception) -> HostError:
        """Release a database that could not be written to; its files stay if they are whole."""
        if reading.is_corruption(error):
            return self._damaged(error)
        with contextlib.suppress(Exception):
            self._release()
        return unusable(self.path, error)

    def _damaged(self, error: Exception) -> LocalStateError:
        if self.is_open:
            _LOGGER.warning("%s", message(self.path, error))
        self.discard()
        return LocalStateError(message(self.path, error))


def _is_locked(error: Exception) -> bool:
    # RocksDB's status comes as a plain exception: only its text tells.
    text = str(error).lower()
    return "lock" in text and ("hold by" in text or "unavailable" in text or "no locks" in text)


def _is_denied(error: Exception) -> bool:
    text = str(error).lower()
    reasons = ("permission denied", "read-only file system", "no space left", "quota")
    return any(reason in text for reason in reasons)
