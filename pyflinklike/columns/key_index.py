# SPDX-License-Identifier: Apache-2.0
"""Which row of a key group a key has: one index, which all states of the group share.

Open addressing over the 64-bit hashes of `pyflinklike.columns.hashing`, all keys at a time: each
looks into its slot, and those that find another key there look into the next one.  A key that
finds its hash is compared with the key of that row, so that keys whose hashes collide get rows of
their own.  A key keeps its row until `keep` is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.columns.hashing import hashes_of
from pyflinklike.columns.vectors import grown, vector_of

__all__ = ["KeyIndex"]

_LEAST = 64
_ABSENT = -1


class KeyIndex:
    """Rows by key.

    Args:
        kind: Arrow's type of the keys: bools, ints, strings, bytes, or structs of these.
        hashes_of: Gives the hash of each key of a column.
    """

    def __init__(self, kind: pa.DataType, hashes_of: Callable[[Any], Any] = hashes_of) -> None:
        self._hashes_of = hashes_of
        self._keys = vector_of(kind)
        self._hashes = np.zeros(1, np.uint64)
        self._slots = np.full(_LEAST, _ABSENT, np.int64)
        self.count = 0
        """How many rows there are."""

    def find(self, keys: Any) -> Any:
        """The row of each key of an Arrow column, -1 where there is none."""
        return self._rows(keys, adds=False)

    def add(self, keys: Any) -> Any:
        """The row of each key of an Arrow column, a new one where there was none."""
        return self._rows(keys, adds=True)

    def keys(self, rows: Any) -> Any:
        """The keys of rows, as an Arrow column."""
        return self._keys.to_arrow(rows)

    def keep(self, rows: Any) -> None:
        """Forget all keys but those of these rows, which become the first ones in this order."""
        self._keys.keep(rows)
        self._hashes = grown(self._hashes[rows], 1)
        self.count = len(rows)
        self._slots = np.full(_LEAST, _ABSENT, np.int64)
        if not self._resize(self.count):
            self._place()

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._keys.nbytes + self._hashes.nbytes + self._slots.nbytes)

    def _rows(self, keys: Any, *, adds: bool) -> Any:
        hashes = self._hashes_of(keys)
        rows = np.full(len(keys), _ABSENT, np.int64)
        pending = np.arange(len(keys))
        at = self._home(hashes)
        while len(pending):
            found = self._slots[at]
            is_free = found == _ABSENT
            free = np.flatnonzero(is_free)
            if adds and self._resize(self.count + len(free)):
                at = self._home(hashes[pending])
                continue
            met = np.flatnonzero(~is_free & (self._hashes[found] == hashes[pending]))
            same = met[self._keys.equal(found[met], _taken(keys, pending[met]))]
            rows[pending[same]] = found[same]
            is_left = ~is_free
            is_left[same] = False
            at[is_left] = (at[is_left] + 1) & (len(self._slots) - 1)
            if adds and len(free):
                # Of several that want a slot one gets it; the others look at it again, for they
                # may be the same key.
                taken = free[self._claim(at[free])]
                self._append(keys, hashes, pending[taken], at[taken], rows)
                is_left[free] = True
                is_left[taken] = False
            pending, at = pending[is_left], at[is_left]
        return rows

    def _home(self, hashes: Any) -> Any:
        return (hashes & np.uint64(len(self._slots) - 1)).astype(np.int64)

    def _claim(self, at: Any) -> Any:
        """Which of these free slots each candidate gets, for one of each slot."""
        candidates = np.arange(len(at))
        self._slots[at] = candidates
        return self._slots[at] == candidates

    def _append(self, keys: Any, hashes: Any, which: Any, at: Any, rows: Any) -> None:
        new = np.arange(self.count, self.count + len(which))
        self.count += len(which)
        self._hashes = grown(self._hashes, self.count)
        self._hashes[new] = hashes[which]
        self._keys.reserve(self.count)
        self._keys.put(new, _taken(keys, which))
        self._slots[at] = new
        rows[which] = new

    def _resize(self, count: int) -> bool:
        """Make the slots twice as many as the rows, at least; whether they were too few."""
        if 2 * count <= len(self._slots):
            return False
        self._slots = np.full(1 << (2 * count - 1).bit_length(), _ABSENT, np.int64)
        self._place()
        return True

    def _place(self) -> None:
        """Put every row into a free slot: no two have the same key."""
        rows = np.arange(self.count)
        at = self._home(self._hashes[: self.count])
        while len(rows):
            wanted = np.flatnonzero(self._slots[at] == _ABSENT)
            self._slots[at[wanted]] = rows[wanted]
            is_left = self._slots[at] != rows
            rows, at = rows[is_left], (at[is_left] + 1) & (len(self._slots) - 1)


def _taken(keys: Any, which: Any) -> Any:
    return keys if len(which) == len(keys) else keys.take(pa.array(which))
