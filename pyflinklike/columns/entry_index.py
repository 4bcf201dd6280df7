# SPDX-License-Identifier: Apache-2.0
"""The place of an entry, found by the row of its key and by its user key.

Where a state has many entries per key, an entry has a place as a key has a row: the number by
which columns hold it.  A `KeyIndex` of the pairs of row and user key finds places.

The entries of one key are found in a list of the places sorted by row.  It is made when it is
first asked for; places that are new since then are sorted and merged into it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.columns.key_index import KeyIndex

__all__ = ["EntryIndex"]

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
        order = self._sorted()
        owners = self.rows(order)
        starts, ends = np.searchsorted(owners, rows), np.searchsorted(owners, rows, "right")
        counts = ends - starts
        which = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        return which, order[np.repeat(starts, counts) + within]

    def _sorted(self) -> Any:
        """Return all places, sorted by row."""
        known = len(self._order)
        if known < self.count:
            both = np.concatenate([self._order, np.arange(known, self.count)])
            # A stable sort merges what is sorted already.
            self._order = both[np.argsort(self.rows(both), kind="stable")]
        return self._order

    def keep(self, places: Any, new_rows: Any = None) -> None:
        """Forget all places but these, which become the first ones in this order.

        Args:
            places: The places that stay, in their new order.
            new_rows: The new number of each row, where rows were renumbered.
        """
        rows, user_keys = self.rows(places), self.arrow_user_keys(places)
        self._index = KeyIndex(pa.struct(self._fields))
        self._order = np.zeros(0, np.int64)
        self.add(rows if new_rows is None else new_rows[rows], user_keys)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._index.nbytes + self._order.nbytes)
