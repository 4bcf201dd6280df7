# SPDX-License-Identifier: Apache-2.0
"""The backend that begins in memory and moves to RocksDB when it has grown too big.

It moves once, before the put that would cross the threshold, and never back (as Materialize's
autospill).  If the move fails, everything stays in memory, and nothing is put.  Spilled files are
working state and not durable, so they are deleted when the backend is closed; the next backend
deletes files that a killed process left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pyflinklike._checks import is_int
from pyflinklike._messages import shown
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.upsert.index.memory_backend import InMemoryUpsertBackend
from pyflinklike.upsert.index.rocksdb_upserts import RocksDBUpsertBackend
from pyflinklike.upsert.index.upsert_backend import UpsertBackend, check_open, prepare_puts
from pyflinklike.upsert.index.upsert_values import (
    MergeStats,
    MergeValue,
    PutStats,
    PutValue,
    UpsertValueAndSize,
)

__all__ = ["AutoSpillBackend"]

_MARK: Final = "pyflinklike-upsert-spill"
"""A file that marks a directory as made by a spill: the next spill may delete the directory."""


class AutoSpillBackend:
    """A dict until it holds more than `threshold` bytes, then a RocksDB.

    Args:
        threshold: How many bytes of keys and states may be held in memory.
        path: The directory for the RocksDB: missing, empty, or left by an earlier spill.  It is
            created when it is needed.

    Raises:
        DeclarationTypeError, DeclarationValueError: The threshold is not an int, or is negative, or
            the directory holds something else.
    """

    def __init__(self, *, threshold: int, path: str | os.PathLike[str]) -> None:
        if not is_int(threshold):
            msg = f"threshold must be an int of bytes, got {shown(threshold)}; for example 64 << 20"
            raise DeclarationTypeError(msg)
        if threshold < 0:
            msg = f"threshold must not be negative, got {shown(threshold)}; 0 spills with the first put"
            raise DeclarationValueError(msg)
        self._threshold = threshold
        self.path = Path(path)
        _check_path(self.path)
        self._heap: InMemoryUpsertBackend | None = InMemoryUpsertBackend()
        self._rocks: RocksDBUpsertBackend | None = None

    @property
    def is_spilled(self) -> bool:
        """True once it has moved to RocksDB."""
        return self._rocks is not None

    @property
    def supports_merge(self) -> bool:
        """True once it has moved to RocksDB."""
        return self.is_spilled

    def multi_get(self, keys: Sequence[Any]) -> list[UpsertValueAndSize]:
        """Return the state of each key."""
        return self._current().multi_get(keys)

    def multi_put(self, puts: Iterable[tuple[Any, PutValue]]) -> PutStats:
        """Put or remove states, and return what that changed.

        Raises:
            HostError: The move to RocksDB failed; nothing was put.
        """
        current = self._current()
        if self._heap is None:
            return current.multi_put(puts)
        writes, stats = prepare_puts(puts)
        if self._heap.held_bytes + self._heap.growth(writes) > self._threshold:
            self._spill(self._heap).apply(writes)
        else:
            self._heap.apply(writes)
        return stats

    def multi_merge(self, merges: Iterable[tuple[Any, MergeValue]]) -> MergeStats:
        """Add states to the stored ones, without reading these.

        Raises:
            NotImplementedError: The backend is still in memory.
        """
        return self._current().multi_merge(merges)

    def totals(self) -> PutStats:
        """Return the totals of all states."""
        return self._current().totals()

    def close(self) -> None:
        """Drop all states, and delete the files."""
        heap, self._heap = self._heap, None
        rocks, self._rocks = self._rocks, None
        if heap is not None:
            heap.close()
        if rocks is not None:
            rocks.close()
            shutil.rmtree(self.path, ignore_errors=True)

    def _current(self) -> UpsertBackend:
        current: UpsertBackend | None = self._rocks or self._heap
        return check_open(current, "AutoSpillBackend")

    def _spill(self, heap: InMemoryUpsertBackend) -> RocksDBUpsertBackend:
        """Move all states to RocksDB."""
        _check_path(self.path)
        shutil.rmtree(self.path, ignore_errors=True)
        # Without a log: nobody opens these files again after the process has ended.
        rocks = RocksDBUpsertBackend(self.path, write_ahead_log=False)
        try:
            (self.path / _MARK).touch()
            rocks.load(heap.items())
        except BaseException:
            rocks.close()
            raise
        self._rocks, self._heap = rocks, None
        heap.close()
        return rocks

    def __repr__(self) -> str:
        return f"AutoSpillBackend(threshold={self._threshold}, path={str(self.path)!r})"


def _check_path(path: Path) -> None:
    if not path.exists() or (path / _MARK).exists():
        return
    if not path.is_dir() or any(path.iterdir()):
        msg = (
            "AutoSpillBackend spills into a directory of its own, which is new or empty, "
            f"got {str(path)!r}, which is not; choose another path"
        )
        raise DeclarationValueError(msg)
