# SPDX-License-Identifier: Apache-2.0
"""An index from keys to rows in a key group, and from user keys to the places of entries.

All states of a key group share a `KeyIndex`.  It is a hash table with open addressing over 64-bit
hashes, and works on all keys of a batch at a time: each key looks into its slot, and keys that find
another hash there look into the next slot.  Then each key is compared with the key of the row that it
found.  If they differ, two keys have one hash; such a key is searched for by itself, and gets a row
of its own.  A key keeps its row until `keep` is called.

If a state has many entries per key, each entry has a place, the number by which columns hold it.  An
`EntryIndex` finds places by a `KeyIndex` of the pairs of row and user key.  To find the entries of
one key, it keeps a list of the places sorted by row.  The first search makes that list; later ones
sort new places and merge them into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.columns.vectors import (
    StructVector,
    Vector,
    grown,
    hashes_of,
    large_binary,
    vector_of,
)

_LEAST = 64
_ABSENT = -1
_SPARSE = 4
"""The least number of slots for each row.  A pass over the remaining keys costs the same for one key
as for many, and half as many slots make more than twice as many passes."""


class KeyIndex:
    """Rows by key.

    Args:
        kind: Arrow's type of the keys: bools, ints, strings, bytes, or structs of these.
        hashes_of: Returns the hash of each key of a column; tests give one that collides.
    """

    def __init__(self, kind: pa.DataType, hashes_of: Callable[[Any], Any] = hashes_of) -> None:
        self._hashes_of = hashes_of
        self._keys = vector_of(kind)
        # There is at least one: for a free slot a probe reads the hash of row -1, and drops it.
        self._hashes = np.zeros(1, np.uint64)
        self._slots = np.full(_LEAST, _ABSENT, np.int32)
        self.count = 0
        """The number of rows."""

    def find(self, keys: Any) -> Any:
        """Return the row of each key of an Arrow column, or -1 if the key is not known."""
        return self._rows(keys, adds=False)

    def add(self, keys: Any) -> Any:
        """Return the row of each key of an Arrow column; a key that is new gets a new row."""
        return self._rows(keys, adds=True)

    def keys(self, rows: Any) -> Any:
        """Return the keys of rows as an Arrow column."""
        return self._keys.to_arrow(rows)

    @property
    def parts(self) -> Sequence[Vector]:
        """The fields of keys that are structs."""
        assert isinstance(self._keys, StructVector)
        return self._keys.fields

    def keep(self, rows: Any) -> None:
        """Forget the keys of all other rows; these rows become the first ones, in this order."""
        self._keys.keep(rows)
        self._hashes = grown(self._hashes[rows], 1)
        self.count = len(rows)
        # A power of two, so that a mask of the hash gives the slot.
        slots = max(_LEAST, 1 << (_SPARSE * self.count).bit_length())
        self._slots = np.full(slots, _ABSENT, np.int32)
        self._place()

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._keys.nbytes + self._hashes.nbytes + self._slots.nbytes)

    def _rows(self, keys: Any, *, adds: bool) -> Any:
        """Find rows by hash alone, then look once more for keys that differ from their row's."""
        if pa.types.is_string(keys.type) or pa.types.is_binary(keys.type):
            keys = large_binary(keys)  # converted once, for all that follows
        hashes = self._hashes_of(keys)
        rows, is_new = self._probe(hashes, adds=adds)
        if is_new.any():
            self._append(keys, hashes, is_new)
        met = np.flatnonzero((rows >= 0) & ~is_new)
        other = met[~self._keys.equal(rows[met], _take(keys, met))]
        for at in other.tolist():
            rows[at] = self._exact(keys.slice(at, 1), hashes[at : at + 1], adds=adds)
        return rows

    def _probe(self, hashes: Any, *, adds: bool) -> tuple[Any, Any]:
        """Find the first row of each hash, and which rows are new, in the order of the keys."""
        count, size = self.count, len(hashes)
        self._hashes = grown(self._hashes, count + size)
        self._hashes[count : count + size] = hashes
        rows, is_new = np.full(size, _ABSENT, np.int64), np.zeros(size, bool)
        pending, at, own = np.arange(size), self._home(hashes), np.zeros(size, np.int64)
        added = 0
        while len(pending):
            found = self._slots[at]
            free = np.flatnonzero(found == _ABSENT)
            if adds and self._is_short(count + added + len(free)):
                # Rows that this call added have no number yet, so the probe begins again.
                self._resize(count + size)
                return self._probe(hashes, adds=adds)
            if adds:
                # If several keys want a slot, the last one gets it, and the others meet it there.
                self._slots[at[free]] = count + pending[free]
                found = self._slots[at]
                got = free[found[free] == count + pending[free]]
                is_new[pending[got]], own[pending[got]] = True, at[got]
                added += len(got)
            is_met = (found != _ABSENT) & (self._hashes[found] == self._hashes[count + pending])
            rows[pending[is_met]] = found[is_met]
            is_left = ~is_met & (found != _ABSENT)
            pending, at = pending[is_left], (at[is_left] + 1) & (len(self._slots) - 1)
        return self._number(rows, is_new, own), is_new

    def _number(self, rows: Any, is_new: Any, own: Any) -> Any:
        """Give new keys the next rows, in their order."""
        numbers = self.count - 1 + np.cumsum(is_new)
        new = np.flatnonzero(is_new)
        self._slots[own[new]] = numbers[new]
        provisional = rows >= self.count
        rows[provisional] = numbers[rows[provisional] - self.count]
        return rows

    def _append(self, keys: Any, hashes: Any, is_new: Any) -> None:
        which = np.flatnonzero(is_new)
        new = np.arange(self.count, self.count + len(which))
        self._hashes[new] = hashes[which]
        self.count += len(which)
        self._keys.reserve(self.count)
        self._keys.put(new, _take(keys, which))

    def _exact(self, key: Any, one: Any, *, adds: bool) -> int:
        """Find the row of a single key whose hash another key has."""
        at = int(self._home(one)[0])
        while (row := int(self._slots[at])) != _ABSENT:
            if self._hashes[row] == one[0] and self._keys.equal(np.array([row]), key)[0]:
                return row
            at = (at + 1) & (len(self._slots) - 1)
        if not adds:
            return _ABSENT
        self._slots[at] = self.count
        self._hashes = grown(self._hashes, self.count + 1)
        self._append(key, one, np.ones(1, bool))
        self._resize(self.count)
        return self.count - 1

    def _home(self, hashes: Any) -> Any:
        return (hashes & np.uint64(len(self._slots) - 1)).astype(np.int64)

    def _is_short(self, count: int) -> bool:
        return _SPARSE * count > len(self._slots)

    def _resize(self, count: int) -> None:
        """Make the slots at least `_SPARSE` times as many as `count` rows, if they are fewer."""
        if self._is_short(count):
            self._slots = np.full(1 << (_SPARSE * count - 1).bit_length(), _ABSENT, np.int32)
            self._place()

    def _place(self) -> None:
        """Put every row into a free slot, without comparing keys: no two rows have the same one."""
        rows = np.arange(self.count)
        at = self._home(self._hashes[: self.count])
        while len(rows):
            wanted = np.flatnonzero(self._slots[at] == _ABSENT)
            self._slots[at[wanted]] = rows[wanted]
            is_left = self._slots[at] != rows
            rows, at = rows[is_left], (at[is_left] + 1) & (len(self._slots) - 1)


def _take(keys: Any, which: Any) -> Any:
    return keys if len(which) == len(keys) else keys.take(pa.array(which))


# Entries under user keys

_ROW, _USER_KEY = 0, 1


class EntryIndex:
    """The places of entries, by row and user key.

    Args:
        kind: Arrow's type of the user keys.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._fields = [pa.field("row", pa.int64()), pa.field("user_key", kind)]
        self._index = KeyIndex(pa.struct(self._fields))
        self._order = np.zeros(0, np.int64)

    @property
    def count(self) -> int:
        """The number of places."""
        return self._index.count

    def add(self, rows: Any, user_keys: Any) -> Any:
        """Return the place of each pair; a pair that is new gets a new place.

        Args:
            rows: A NumPy array of int64.
            user_keys: An Arrow column of the index's type.
        """
        pairs = [pa.array(rows, pa.int64()), user_keys]
        return self._index.add(pa.StructArray.from_arrays(pairs, fields=self._fields))

    def rows(self, places: Any) -> Any:
        """Return the rows of places as a NumPy array."""
        return self._index.parts[_ROW].take(places)

    def user_keys(self, places: Any) -> Any:
        """Return the user keys of places in the fast form of a vector."""
        return self._index.parts[_USER_KEY].take(places)

    def arrow_user_keys(self, places: Any) -> Any:
        """Return the user keys of places as an Arrow column."""
        return self._index.parts[_USER_KEY].to_arrow(places)

    def of(self, rows: Any) -> tuple[Any, Any]:
        """Find the places of rows.

        Args:
            rows: The rows of keys, none twice.

        Returns:
            For each place the number of its row in `rows`, ascending; and the places.
        """
        order = self._sort()
        owners = self.rows(order)
        starts, ends = np.searchsorted(owners, rows), np.searchsorted(owners, rows, "right")
        counts = ends - starts
        which = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        return which, order[np.repeat(starts, counts) + within]

    def _sort(self) -> Any:
        """Return all places, sorted by row."""
        known = len(self._order)
        if known < self.count:
            both = np.concatenate([self._order, np.arange(known, self.count)])
            # NumPy's stable sort finds the sorted part and merges the new places into it.
            self._order = both[np.argsort(self.rows(both), kind="stable")]
        return self._order

    def keep(self, places: Any, new_rows: Any = None) -> None:
        """Forget all other places; these become the first ones, in this order.

        Args:
            places: The places that stay, in their new order.
            new_rows: The new number of each row, if rows were renumbered.
        """
        rows, user_keys = self.rows(places), self.arrow_user_keys(places)
        self._index = KeyIndex(pa.struct(self._fields))
        self._order = np.zeros(0, np.int64)
        self.add(rows if new_rows is None else new_rows[rows], user_keys)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._index.nbytes + self._order.nbytes)
