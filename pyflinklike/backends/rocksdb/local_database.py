# SPDX-License-Identifier: Apache-2.0
"""One RocksDB on the worker's local disk: where it lies, who may open it, and how it fails.

The log can rebuild everything in it at any time, and it is used only if its nonce is the head's.  So:

* If another attempt has a directory open, the directory stays with that attempt, and this one works in
  a private directory, which it deletes afterwards.  A directory that cannot be read is deleted and begun
  anew.  If the damage shows only while the directory is in use, a `LocalStateError` is raised, and the
  key group is rebuilt from its log.
* Entries are pickled.  That is safe for one reason only: no other user can write to the directory
  (this is checked when it is opened), this user's own workers wrote the files, and the files are never
  part of a checkpoint.

Directories are `<storage path>/pyflinklike-<uid>/<owner>`.  Opening one deletes the directories of
owners that are gone: no process has them open, and they are a day older than the one just opened.
Spark deletes its own local directories, and ours in them, when an executor ends.

The package rocksdict is optional, and imported when it is first needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any

import attrs

from pyflinklike._checks import install
from pyflinklike._private_directory import private_directory
from pyflinklike.errors import LocalStateError, SparkSetupError

_LOGGER = logging.getLogger("pyflinklike.backends")


class LocalDatabase:
    """An open RocksDB.

    Args:
        paths: The storage paths; it takes one of them.  If empty, it takes Spark's local directories,
            or the one for temporary files.
        owner: The name of the owner, from which the name of the directory is made.
        options: Makes RocksDB's options from the module rocksdict.

    Raises:
        SparkSetupError: The directory cannot be used.
    """

    most_in_batch = 8192
    """The number of rows from which on `replace` makes a file, which is synchronized with the disk."""

    def __init__(self, paths: tuple[str, ...], owner: str, options: Callable[[Any], Any]) -> None:
        self._rocksdict = require_rocksdict("EmbeddedRocksDBStateBackend")
        self._options = options
        self._is_private = False
        self.path = directory_of(paths, owner)
        root = self.path.parent
        self._db: Any = self._open_or_move(root)
        OPEN_HERE.add(self.path)
        self._write_options = self._rocksdict.WriteOptions()
        # No write-ahead log: one write batch takes a key group from a committed state to the next,
        # and RocksDB keeps or loses batches as a whole and in order.  So a crash leaves an older
        # committed state, which its nonce shows.
        self._write_options.disable_wal = True
        remove_stale(root, self.path)

    def _open_or_move(self, root: Path) -> Any:
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
        """Whether the database can be used: it was not closed, and has not failed."""
        return self._db is not None

    @property
    def is_in_place(self) -> bool:
        """Whether its directory is still there: others may delete it while it is open."""
        return self.path.exists()

    # Reading: if a row cannot be read, everything is deleted, because the log can rebuild it.

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None.

        Raises:
            LocalStateError: The value cannot be read; the whole directory is deleted.
        """
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._lost(error) from error
        return value

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value or None of each key, in one call; the errors are those that `get` raises."""
        try:
            values: list[bytes | None] = self._db.get(keys)
        except Exception as error:
            raise self._lost(error) from error
        return values

    def items(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows from `begin` to before `end`, as they were at the first call."""
        try:
            yield from rows(self._rocksdict, self._db, begin, end)
        except Exception as error:
            raise self._lost(error) from error

    def items_backwards(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows that `items` yields, from the last to the first."""
        try:
            yield from rows_backwards(self._db, begin, end)
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
            puts: The value by key; None deletes the key.
            dropped: A range of keys that is emptied before the puts; None for no range.
        """
        try:
            batch = self._rocksdict.WriteBatch(raw_mode=True)
            if dropped is not None:
                batch.delete_range(*dropped)
            put, delete = batch.put, batch.delete
            # RocksDB takes rows several times faster if they come in the order of their keys.
            for key in sorted(puts):
                value = puts[key]
                if value is None:
                    delete(key)
                else:
                    put(key, value)
            self._db.write(batch, self._write_options)
        except Exception as error:
            raise self._make_error(error) from error

    def replace(
        self,
        former: tuple[bytes, bytes],
        puts: Mapping[bytes, bytes | None],
        at: bytes,
        row: bytes,
    ) -> None:
        """Put rows in the place of all rows of a range, and then the row that vouches for them.

        Many rows become a sorted file, which RocksDB takes in whole: that costs a third of a write,
        and nothing later, since no compaction touches rows that lie below all others.

        After a crash in the middle there is no row `at`, whatever there is in the range.

        Args:
            former: The range that is emptied before.
            puts: The value by key; None for no row.
            at: The key of the row that says that the others are there.
            row: The value of that row.

        Raises:
            LocalStateError: The disk cannot be read.
            SparkSetupError: The disk cannot be written to.
        """
        rows = {key: value for key, value in puts.items() if value is not None}
        if len(rows) < self.most_in_batch:
            self.write({**rows, at: row}, former)
            return
        self._empty(former, at)
        try:
            self._ingest(rows)
        except Exception as error:
            raise self._make_error(error) from error
        self.write({at: row})

    def _empty(self, former: tuple[bytes, bytes], at: bytes) -> None:
        """Delete the rows of a range and the row that vouches for them, if there are any."""
        if self.get(at) is None and next(self.items(*former), None) is None:
            return
        self.write({at: None}, former)
        try:
            # The file goes to the disk at once.  A crash must not leave it beside the former row,
            # which would vouch for it.  RocksDB would flush by itself, since the ranges overlap.
            self._db.flush(True)
        except Exception as error:
            raise self._make_error(error) from error

    def _ingest(self, rows: Mapping[bytes, bytes]) -> None:
        """Put rows into an empty range; they are on the disk then."""
        rocksdict, file = self._rocksdict, self.path / "rows-to-take-in"
        writer = rocksdict.SstFileWriter(self._options(rocksdict))
        writer.open(str(file))
        put = writer.__setitem__
        for key in sorted(rows):
            put(key, rows[key])
        writer.finish()
        options = rocksdict.IngestExternalFileOptions()
        options.set_move_files(True)
        self._db.ingest_external_file([str(file)], options)

    def close(self) -> None:
        """Write everything in memory to the disk, and release the directory.

        Raises:
            SparkSetupError: The disk is full, or writing to it is not allowed any more.
        """
        try:
            self._release()
        except Exception as error:
            if is_corruption(error):
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
            return error  # a mistake in this package, not in the disk
        return self._discard_damaged(error)

    def _make_error(self, error: Exception) -> SparkSetupError:
        """Release a database that could not be written to; its files stay if they are whole."""
        if is_corruption(error):
            return self._discard_damaged(error)
        with contextlib.suppress(Exception):
            self._release()
        return unusable(self.path, error)

    def _discard_damaged(self, error: Exception) -> LocalStateError:
        if self.is_open:
            _LOGGER.warning("%s", message(self.path, error))
        self.discard()
        return LocalStateError(message(self.path, error))


def _is_locked(error: Exception) -> bool:
    # RocksDB's status comes as a plain exception, so its text is the only sign.
    text = str(error).lower()
    return "lock" in text and ("hold by" in text or "unavailable" in text or "no locks" in text)


def _is_denied(error: Exception) -> bool:
    text = str(error).lower()
    reasons = ("permission denied", "read-only file system", "no space left", "quota")
    return any(reason in text for reason in reasons)


# Settings for kinds of disks, after Flink's `PredefinedOptions`.  They hold for one task: the block cache
# and the write buffers are most of its memory.
# https://github.com/apache/flink/blob/master/flink-state-backends/flink-statebackend-rocksdb/src/main/java/org/apache/flink/state/rocksdb/PredefinedOptions.java


_KIB, _MIB = 1024, 1024 * 1024


@attrs.frozen
class _Settings:
    """The settings that differ between kinds of disks.

    Args:
        block_cache: The bytes of uncompressed blocks kept in memory.
        block_size: The bytes read from the disk at once.
        write_buffer: The bytes collected before they are written to a file.
        write_buffers: The most write buffers at a time.
        merged_buffers: The number of write buffers that become one file.
        file_size: The bytes of a file in the first level that is sorted.
        level_size: The bytes of that level.
        is_level_dynamic: Whether the sizes of levels are derived from the last level, which wastes
            less space.
        background_jobs: The number of threads that flush and compact.
    """

    block_cache: int = 32 * _MIB
    block_size: int = 4 * _KIB
    write_buffer: int = 16 * _MIB
    write_buffers: int = 2
    merged_buffers: int = 1
    file_size: int = 64 * _MIB
    level_size: int = 256 * _MIB
    is_level_dynamic: bool = False
    background_jobs: int = 2


class PredefinedOptions(Enum):
    """The kinds of disks that RocksDB can be tuned for, as PyFlink's."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3

    def to_options(self, rocksdict: Any) -> Any:
        """Make RocksDB's own options with the module rocksdict."""
        settings = _SETTINGS[self]
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        options.set_keep_log_file_num(1)
        # RocksDB's own log and statistics only fill the disk here.
        options.set_stats_dump_period_sec(0)
        options.set_use_fsync(False)
        # Every file stays open: looking one up again costs more than its descriptor.
        options.set_max_open_files(-1)
        options.set_write_buffer_size(settings.write_buffer)
        options.set_max_write_buffer_number(settings.write_buffers)
        options.set_min_write_buffer_number_to_merge(settings.merged_buffers)
        options.set_target_file_size_base(settings.file_size)
        options.set_max_bytes_for_level_base(settings.level_size)
        options.set_level_compaction_dynamic_level_bytes(settings.is_level_dynamic)
        options.set_max_background_jobs(settings.background_jobs)
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_block_cache(rocksdict.Cache(settings.block_cache))
        blocks.set_block_size(settings.block_size)
        # Most lookups of new keys find nothing, and a Bloom filter saves the read.
        blocks.set_bloom_filter(10.0, False)
        options.set_block_based_table_factory(blocks)
        return options


_SETTINGS = {
    PredefinedOptions.DEFAULT: _Settings(),
    PredefinedOptions.SPINNING_DISK_OPTIMIZED: _Settings(
        block_size=32 * _KIB, is_level_dynamic=True, background_jobs=4
    ),
    PredefinedOptions.SPINNING_DISK_OPTIMIZED_HIGH_MEM: _Settings(
        block_cache=256 * _MIB,
        block_size=128 * _KIB,
        write_buffer=64 * _MIB,
        write_buffers=4,
        merged_buffers=3,
        file_size=256 * _MIB,
        level_size=1024 * _MIB,
        is_level_dynamic=True,
        background_jobs=4,
    ),
    PredefinedOptions.FLASH_SSD_OPTIMIZED: _Settings(block_cache=64 * _MIB, background_jobs=4),
}

# Directories


_STALE_SECONDS = 24 * 60 * 60  # a query that is restarted within a day finds its files
OPEN_HERE: set[Path] = set()
"""The directories that this process has open; a POSIX lock does not stop the process that holds it."""


def directory_of(paths: tuple[str, ...], owner: str) -> Path:
    """Return the directory of an owner, always the same one, and create its parent.

    Raises:
        SparkSetupError: The parent cannot be created, or other users could write to it.
    """
    return _private_root(Path(_chosen(paths or _default_paths(), owner))) / _file_name(owner)


def unusable(path: Path, error: Exception) -> SparkSetupError:
    """Make the error for a directory that cannot be used."""
    return SparkSetupError(message(path, error))


def message(path: Path, error: Exception) -> str:
    """Return a text that says what went wrong in a directory, and what to do."""
    return (
        "EmbeddedRocksDBStateBackend keeps working state on the worker's local disk, got "
        f"{error!s} in {str(path)!r}; make sure that it is writable and has room, or choose another "
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
    try:
        return private_directory(path)
    except OSError as error:
        raise unusable(path, error) from error


def remove_stale(root: Path, mine: Path) -> None:
    """Delete the directories of queries that are gone.

    Args:
        root: The directory with the directories of all owners.
        mine: The directory just opened, which stays.
    """
    try:
        import fcntl
    except ImportError:  # no POSIX, so no locks to check: the system cleans up
        return
    # RocksDB has just made files in `mine`, so the time of `mine` is now.  Both times come from the
    # clock of the file system, because code below a host never reads the system's clock.
    try:
        now, others = mine.stat().st_mtime, list(root.iterdir())
    except OSError:  # another process is deleting all of it
        return
    for path in others:
        try:
            if path == mine or path in OPEN_HERE:
                continue
            if now - path.stat().st_mtime < _STALE_SECONDS:
                continue
            # A process that has the database open holds RocksDB's own lock.
            with (path / "LOCK").open("a") as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # another process has it open, or was faster
            continue


# Iterations that end only if there are no more rows
#
# At a damaged block, rocksdict's `items()` and `keys()` end without an error, as they do after the last
# row.  A reader that believes such an end loses all rows behind the block: of 40 flipped bits, 28 lost
# 335 to 2,795 of 3,000 keys.  So when an iteration has ended, RocksDB's own iterator is asked once more,
# from the last row on, and its `status()` raises if a block is damaged.  That costs less than asking
# after every row.
#
# Both iterators see the rows of the moment when the first one was made, whatever is written meanwhile.
# Rows that came before the damage are right, because RocksDB checks each block as it reads it.


_MOST_AT_ONCE = 1024


class EndedEarlyError(Exception):
    """An iteration ended although there are more rows."""


def is_corruption(error: Exception) -> bool:
    """Return whether an error of rocksdict's says that the disk has lost what was written."""
    return isinstance(error, EndedEarlyError) or "corruption" in str(error).lower()


def rows(rocksdict: Any, db: Any, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows from `begin` to before `end`, as they are now.

    Raises:
        Exception: The error that rocksdict raises, if not all rows can be read.
    """
    bounds = rocksdict.ReadOptions()
    bounds.set_iterate_upper_bound(end)
    last = None
    # Made before the first row is read, so that both iterators see the same rows.
    more = db.iter(bounds)
    for chunk in _chunks(db.items(from_key=begin, read_opt=bounds)):
        yield from chunk
        last = chunk[-1][0]
    more.seek(begin if last is None else last)
    if more.valid() and more.key() == last:
        more.next()
    _must_be_over(more)


def rows_backwards(db: Any, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows that `rows` yields, from the last to the first."""
    last, more = end, db.iter()
    for chunk in _chunks(db.items(backwards=True, from_key=end)):
        for key, value in chunk:
            # rocksdict 0.3.29 does not heed a lower bound in its options.
            if key < begin:
                return
            if key < end:
                yield key, value
        last = chunk[-1][0]
    more.seek_for_prev(last)
    if more.valid() and more.key() == last:
        more.prev()
    _must_be_over(more)


def _chunks(read: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield lists that grow, so that few rows are read in vain if the caller wants only one."""
    size = 1
    while chunk := list(islice(read, size)):
        yield chunk
        size = min(2 * size, _MOST_AT_ONCE)


def _must_be_over(more: Any) -> None:
    if more.valid():
        msg = "corruption: an iteration ended although there are more rows"
        raise EndedEarlyError(msg)
    more.status()


def require_rocksdict(who: str) -> Any:
    """Import rocksdict.

    Args:
        who: The name of the feature that needs it, for the message.

    Raises:
        SparkSetupError: The package is not installed.
    """
    try:
        import rocksdict
    except ImportError as error:
        msg = (
            f"{who} needs the package rocksdict, got {error}; {install('rocksdb')} wherever it runs"
        )
        raise SparkSetupError(msg) from error
    return rocksdict
