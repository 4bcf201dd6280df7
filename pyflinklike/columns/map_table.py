# SPDX-License-Identifier: Apache-2.0
"""The entries of a state of many entries per key, by place: those of maps, and timers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.columns.entry_index import EntryIndex
from pyflinklike.columns.key_group import KeyGroupColumns, MapColumns
from pyflinklike.columns.table import ColumnTable
from pyflinklike.state.column_changes import CLEAR, ColumnChanges

__all__ = ["MapTable"]


class MapTable(ColumnTable):
    """A `ColumnTable` whose rows are places: one for each pair of a key's row and a user key.

    Args:
        spec: The declaration of the state, whose entries have user keys.
    """

    _columns: MapColumns

    @property
    def entries(self) -> EntryIndex:
        """The places of the current key group."""
        return self._columns.entries

    @property
    def columns(self) -> MapColumns:
        """The columns of the current key group."""
        return self._columns

    def places(self, rows: Any, user_keys: Any) -> Any:
        """Return the place of each pair; a pair that is new gets a new place.

        Args:
            rows: The row of each pair's key.
            user_keys: The user key of each pair, as an Arrow column.
        """
        places = self._columns.entries.add(rows, user_keys)
        self._columns.reserve(self._columns.entries.count)
        return places

    def places_of(self, rows: Any) -> tuple[Any, Any]:
        """Return the places with an entry that rows of keys have.

        Returns:
            For each place the number of its row in `rows`, ascending; and the places.
        """
        which, places = self._columns.entries.of(rows)
        present = self._columns.present[places]
        return which[present], places[present]

    def clear(self, rows: Any) -> None:
        """Remove all entries of rows of keys."""
        columns = self._columns
        which, places = self.places_of(rows)
        if not len(places):
            return
        columns.count -= len(places)
        columns.present[places] = False
        cleared = rows[np.unique(which)]
        columns.cleared.append(cleared)
        # The log clears these keys first, so their removed entries need no rows of their own.
        _, touched = columns.entries.of(cleared)
        columns.dirty[touched] = False

    # By place instead of by row

    def _size(self) -> int:
        return self._columns.entries.count

    def _restored_rows(self, changes: ColumnChanges) -> Any:
        return self.places(self._group.rows_of(changes.keys), changes.user_keys)

    def _keys(self, rows: Any) -> Any:
        return self._group.index.keys(self._columns.entries.rows(rows))

    def _user_keys(self, rows: Any) -> Any:
        return self._columns.entries.arrow_user_keys(rows)

    # For the log

    def point_at(self, group: KeyGroupColumns) -> None:
        """Look into the columns of a key group from now on."""
        super().point_at(group)
        assert isinstance(self._columns, MapColumns)

    def discard(self) -> None:
        """Forget that anything changed."""
        super().discard()
        self._columns.cleared.clear()

    def drain(self) -> list[ColumnChanges]:
        """Return what changed since the last drain, cleared keys first."""
        cleared = self._columns.cleared
        if not cleared:
            return super().drain()
        rows = np.unique(np.concatenate(cleared))
        cleared.clear()
        return [self._clearing(rows), *super().drain()]

    def _clearing(self, rows: Any) -> ColumnChanges:
        spec, count = self.spec, len(rows)
        assert spec.user_key_type is not None
        values = pa.nulls(count) if spec.value_type is None else _nulls(spec.value_type, count)
        return ColumnChanges(
            spec,
            keys=self._group.index.keys(rows),
            user_keys=_nulls(spec.user_key_type, count),
            values=values,
            stamps=np.zeros(count, np.int64) if spec.paired else None,
            operations=np.full(count, CLEAR, np.int8),
        )

    def apply(self, changes: ColumnChanges) -> None:
        """Apply entries that are restored.  They do not count as changed."""
        # A restored timer may be earlier than the bound that was known.
        self._columns.least = None
        operations = changes.operations
        # Of one message, the rows that clear keys come first.
        if operations is not None and (cleared := int((operations == CLEAR).sum())):
            self._clear_restored(changes.keys.slice(0, cleared))
            changes = changes.where(operations != CLEAR)
        super().apply(changes)

    def _clear_restored(self, keys: Any) -> None:
        rows = np.unique(self._group.rows_of(keys))
        _, places = self._columns.entries.of(rows)
        self._columns.present[places] = False
        self._columns.count = int(self._columns.present[: self._size()].sum())


def _nulls(type_info: Any, count: int) -> Any:
    return pa.nulls(count, type_info.arrow_type)
