# SPDX-License-Identifier: Apache-2.0
"""The backend that holds states in a RocksDB on local disk.

    v  key              a state
    m  key, sequence    a state to add to it: a merge operand

No encoded key is the beginning of another one, so the operands of a key lie together.

rocksdict has no merge operators, so operands are merged here, as an LSM store does it:
`multi_merge` only writes, in whatever order the differences come, and the first method that reads
folds all operands, key by key in RocksDB's order, with `consolidating_merge_function`.  So a large
snapshot costs sequential writes and one sorted pass, instead of one random read per record.  The
fold is cut into write batches: after a crash an operand is either pending or folded.

A put or merge is one write batch, all of it or nothing, so the numbers of `UpsertState` stay right
when the disk is full.  Writes go through RocksDB's log, so the writes of a killed process are there
when the directory is opened again.
"""

from __future__ import annotations

import itertools
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyflinklike._messages import shown
from pyflinklike.backends.rocksdb.local_database import (
    PredefinedOptions,
    is_corruption,
    require_rocksdict,
    rows,
)
from pyflinklike.errors import CorruptStateError, HostError, StateValueError
from pyflinklike.upsert.index.difference_sketch import Consolidating, consolidating_merge_function
from pyflinklike.upsert.index.upsert_backend import (
    Write,
    check_open,
    decode_state,
    distinct_keys,
    encode_state,
    make_result,
    prepare_puts,
    size_of,
    total_of,
)
from pyflinklike.upsert.index.upsert_values import (
    MergeStats,
    MergeValue,
    PutStats,
    PutValue,
    UpsertValueAndSize,
)
from pyflinklike.upsert.index.value_codec import encode_upsert_key

__all__ = ["RocksDBUpsertBackend"]


_CHUNK: Final = 1024
_STATE, _STATE_END = b"v", b"w"
_OPERAND, _OPERAND_END = b"m", b"n"
_SEQUENCE = struct.Struct(">Q")


class RocksDBUpsertBackend:
    """A RocksDB in a directory of its own.

    Args:
        path: The directory; created if it is missing, else reopened.
        write_ahead_log: True makes writes survive a killed process; False is faster.

    Raises:
        HostError: rocksdict is not installed, or the directory cannot be used, for example because
            another process has it open.
        CorruptStateError: The directory is damaged, or lacks something that was written.
    """

    def __init__(self, path: str | os.PathLike[str], *, write_ahead_log: bool = True) -> None:
        self.path = Path(path)
        self._rocksdict = require_rocksdict("RocksDBUpsertBackend")
        self._is_logged = write_ahead_log
        self._mark = WrittenMark(self.path)
        self._db: Any = self._open_database()
        self._write_options = self._rocksdict.WriteOptions()
        self._write_options.disable_wal = not write_ahead_log
        # Greater than the number of any operand that is still pending, so that none is replaced.
        self._sequence = self._db.latest_sequence_number()
        self._has_operands = any(True for _ in self._scan(_OPERAND, _OPERAND_END))

    def _open_database(self) -> Any:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._mark.check_files()
            options = PredefinedOptions.DEFAULT.to_options(self._rocksdict)
            db = self._rocksdict.Rdict(str(self.path), options)
        except CorruptStateError:
            raise
        except Exception as error:
            raise self._unusable(error) from error
        try:
            self._mark.check(db.latest_sequence_number())
        except CorruptStateError:
            db.close()
            raise
        return db

    @property
    def supports_merge(self) -> bool:
        """True."""
        return True

    def multi_get(self, keys: Sequence[Any]) -> list[UpsertValueAndSize]:
        """Return the state of each key."""
        encoded = distinct_keys(keys)
        self._fold()
        return [make_result(data) for data in self._get_many(encoded)]

    def multi_put(self, puts: Iterable[tuple[Any, PutValue]]) -> PutStats:
        """Put or remove states, and return what that changed."""
        self._fold()
        writes, stats = prepare_puts(puts)
        self.apply(writes)
        return stats

    def multi_merge(self, merges: Iterable[tuple[Any, MergeValue]]) -> MergeStats:
        """Add states to the stored ones, without reading these."""
        self._open()
        stats = MergeStats()
        operands = []
        for key, merge in merges:
            if not isinstance(merge, MergeValue):
                msg = f"multi_merge takes (key, MergeValue(value, diff)), got {shown(merge)}"
                raise StateValueError(f"{msg}; give a Consolidating and the sum of its diffs")
            data = encode_state(merge.value)
            operands.append((encode_upsert_key(key), data))
            stats.written_merge_operands += 1
            stats.size_written += len(data)
            stats.size_diff += size_of(data)
        self._write((self._operand_key(key), data) for key, data in operands)
        self._has_operands = self._has_operands or bool(operands)
        return stats

    def totals(self) -> PutStats:
        """Return the totals of all states."""
        self._fold()
        return total_of(data for _, data in self._scan(_STATE, _STATE_END))

    def close(self) -> None:
        """Release the directory; its content stays.

        Raises:
            HostError: The disk is full.
        """
        db, self._db = self._db, None
        if db is not None:
            try:
                last = db.latest_sequence_number()
                db.close()
                self._mark.note(last)
            except Exception as error:
                raise self._unusable(error) from error
            finally:
                self._mark.close()

    # For the backend that spills

    def apply(self, writes: Iterable[Write]) -> None:
        """Write encoded states, all of them or none."""
        self._write((_STATE + key, data) for key, data in writes)

    def load(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write encoded states in slices, since they may be too many for one batch."""
        for slice_ in _slices(items):
            self.apply(slice_)

    # Merging

    def _operand_key(self, key: bytes) -> bytes:
        self._sequence += 1
        return _OPERAND + key + _SEQUENCE.pack(self._sequence)

    def _fold(self) -> None:
        """Add every operand to the state of its key."""
        self._open()
        if not self._has_operands:
            return
        operands = self._scan(_OPERAND, _OPERAND_END)
        by_key = itertools.groupby(operands, key=lambda item: item[0][: -_SEQUENCE.size])
        # groupby forgets a group when it goes on to the next, so each is read at once.
        pending = ((prefix, [data for _, data in group]) for prefix, group in by_key)
        for slice_ in _slices(pending):
            self._fold_slice(slice_)
        self._has_operands = False

    def _fold_slice(self, slice_: list[tuple[bytes, list[bytes]]]) -> None:
        keys = [prefix[len(_OPERAND) :] for prefix, _ in slice_]
        writes: list[Write] = []
        for key, stored, (_, operands) in zip(keys, self._get_many(keys), slice_):
            states = [] if stored is None else [stored]
            merged = consolidating_merge_function(key, map(decode_state, states + operands))
            is_gone = isinstance(merged, Consolidating) and merged.is_cancelled
            writes.append((_STATE + key, None if is_gone else encode_state(merged)))
        first, last = slice_[0][0], slice_[-1][0]
        # The end lies behind every operand of the last key: a sequence number has fewer bytes.
        self._write(writes, folded=(first, last + b"\xff" * (_SEQUENCE.size + 1)))

    # RocksDB

    def _get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        db = self._open()
        results: list[bytes | None] = []
        try:
            for slice_ in _slices(keys):
                results += db.get([_STATE + key for key in slice_])
        except Exception as error:
            raise self._unusable(error) from error
        return results

    def _scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        db = self._open()
        try:
            yield from rows(self._rocksdict, db, begin, end)
        except Exception as error:
            raise self._unusable(error) from error

    def _write(self, writes: Iterable[Write], folded: tuple[bytes, bytes] | None = None) -> None:
        db = self._open()
        batch = self._rocksdict.WriteBatch(raw_mode=True)
        for key, data in writes:
            if data is None:
                batch.delete(key)
            else:
                batch.put(key, data)
        try:
            if folded is not None:
                batch.delete_range(*folded)
            db.write(batch, self._write_options)
            if self._is_logged:
                self._mark.note(db.latest_sequence_number())
        except Exception as error:
            raise self._unusable(error) from error

    def _open(self) -> Any:
        return check_open(self._db, "RocksDBUpsertBackend")

    def _unusable(self, error: Exception) -> HostError | CorruptStateError:
        rule = f"RocksDBUpsertBackend keeps its states in {str(self.path)!r}, got {error!s}"
        if is_corruption(error) or _lacks_a_file(error):
            return CorruptStateError(f"{rule}; go back to a copy, or read the source again")
        return HostError(f"{rule}; see that it is writable, has room and is open only once")

    def __repr__(self) -> str:
        return f"RocksDBUpsertBackend({str(self.path)!r})"


def _lacks_a_file(error: Exception) -> bool:
    """Return whether the error is that a file of RocksDB's own is missing."""
    text = str(error)
    return "No such file or directory" in text and (".sst" in text or "MANIFEST" in text)


def _slices(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while slice_ := list(itertools.islice(iterator, _CHUNK)):
        yield slice_


# The number of the last change, in a file beside the database
#
# RocksDB cannot distinguish a log that a crash cut short from a damaged log: it silently continues
# from before the first record that it cannot read.  The number of its last change, recorded after the
# change is in the log, distinguishes them: a change that a crash cuts off was never recorded.


_NAME = "WRITTEN"
_MARK = struct.Struct(">8sQ")
_CHECKSUM = struct.Struct(">I")
_MAGIC = b"pflwrit1"


class WrittenMark:
    """The number of the last change that a RocksDB must have.

    Args:
        directory: The directory of the RocksDB.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: int | None = None

    def check_files(self) -> None:
        """Check that an existing RocksDB has the file without which it would begin empty.

        Raises:
            CorruptStateError: The file is missing.
        """
        directory = self._directory
        if (directory / "CURRENT").exists():
            return
        if self._read_number() or any(directory.glob("*.sst")):
            raise self._short("no file CURRENT")

    def check(self, last: int) -> None:
        """Check that an opened RocksDB has all changes that were written to it.

        Args:
            last: The number of its last change.

        Raises:
            CorruptStateError: It lacks changes, or this file is damaged.
        """
        noted = self._read_number()
        if last < noted:
            raise self._short(f"{last} changes of {noted}")

    def note(self, last: int) -> None:
        """Record the number of the last change."""
        if self._file is None:
            self._file = os.open(self._directory / _NAME, os.O_RDWR | os.O_CREAT, 0o600)
        data = _MARK.pack(_MAGIC, last)
        # In place, within one page: a killed process leaves the old number or the new one.
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, data + _CHECKSUM.pack(zlib.crc32(data)))

    def close(self) -> None:
        """Release the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _read_number(self) -> int:
        """Read the number; 0 if there is none, in a new directory."""
        try:
            data = (self._directory / _NAME).read_bytes()
        except FileNotFoundError:
            return 0
        body, checksum = data[: _MARK.size], data[_MARK.size :]
        if not data:  # killed between its creation and its first number
            return 0
        if len(body) < _MARK.size or checksum != _CHECKSUM.pack(zlib.crc32(body)):
            raise self._short(f"{data[:40]!r} in its file {_NAME}")
        number: int = _MARK.unpack(body)[1]
        return number

    def _short(self, got: str) -> CorruptStateError:
        return CorruptStateError(
            f"the RocksDB in {str(self._directory)!r} must hold all that was written to it, got "
            f"{got}; go back to a copy or read the source again, or delete the file {_NAME} there "
            "to go on with what is left"
        )
