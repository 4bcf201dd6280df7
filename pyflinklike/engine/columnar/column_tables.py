# SPDX-License-Identifier: Apache-2.0
"""The entries of one state as columns: values, stamps, and which rows have an entry.

A `ColumnTable` is the view that a state has of the columns of a key group.  It is pointed at one
key group at a time, as the tables of any backend are.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike.columns.key_group import Columns, KeyGroupColumns
from pyflinklike.columns.vectors import vector_of
from pyflinklike.state.column_changes import DELETE, PUT, ColumnChanges
from pyflinklike.state.table import TableSpec

__all__ = ["BatchRows", "ColumnTable"]


@attrs.define
class BatchRows:
    """The rows of the keys of the batch that a function is called for.

    Args:
        rows: One for each group; None between calls.
        latest: The greatest timestamp of each group's records in ms.
        records: How many records the batch has.
        codes: The group of each record.
        timestamps: The time of each record in ms, or None.
        parts: The rows of map entries of the same batch; they end with it.
    """

    rows: Any = None
    latest: Any = None
    records: int = 0
    codes: Any = None
    timestamps: Any = None
    parts: list[BatchRows] = attrs.field(factory=list)

    def end(self) -> None:
        """End the call: there are no rows any more."""
        for part in self.parts:
            part.end()
        self.rows = self.latest = self.codes = self.timestamps = None
        self.parts = []


class ColumnTable:
    """The entries of one state in the current key group, by row.

    Args:
        spec: The declaration of the state, which has one entry per key.
    """

    portion_bytes = 1 << 29
    """About how many bytes of a key group become columns at once."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self._columns = Columns(spec, vector_of(pa.int64()))

    def point_at(self, group: KeyGroupColumns) -> None:
        """Look into the columns of a key group from now on."""
        self._group = group
        self._columns = group.of(self.spec)

    # By row

    def present(self, rows: Any) -> Any:
        """Return which of the rows have an entry."""
        return self._columns.present[rows]

    def stamps(self, rows: Any) -> Any:
        """Return the stamps of rows in ms; any number for a row without an entry."""
        return self._columns.stamps[rows]

    def values(self, rows: Any) -> Any:
        """Return the values of rows; any value for a row without an entry."""
        return self._columns.values.take(rows)

    def arrow(self, rows: Any, present: Any) -> Any:
        """Return the values of rows as an Arrow array, null where not present."""
        return self._columns.values.to_arrow(rows, present)

    def put(self, rows: Any, values: Any, stamps: Any = None) -> None:
        """Store entries.  No row may stand twice."""
        columns = self._columns
        columns.values.put(rows, values)
        columns.count += len(rows) - int(columns.present[rows].sum())
        columns.present[rows] = True
        columns.dirty[rows] = True
        if stamps is not None:
            columns.stamps[rows] = stamps

    def restamp(self, rows: Any, stamps: Any) -> None:
        """Give entries other stamps."""
        self._columns.stamps[rows] = stamps
        self._columns.dirty[rows] = True

    def remove(self, rows: Any) -> None:
        """Remove entries.  Rows without one stay as they are."""
        columns = self._columns
        rows = rows[columns.present[rows]]
        columns.count -= len(rows)
        columns.present[rows] = False
        columns.dirty[rows] = True

    def next_rows(self, count: int) -> Any:
        """Return the next rows with an entry for a sweep, which begins anew at the end."""
        columns, end = self._columns, self._size()
        first = columns.cursor if columns.cursor < end else 0
        columns.cursor = min(first + count, end)
        return first + np.flatnonzero(columns.present[first : columns.cursor])

    def all_rows(self) -> Any:
        """Return every row with an entry."""
        return np.flatnonzero(self._columns.present[: self._size()])

    def count(self) -> int:
        """Return how many entries the key group holds."""
        return self._columns.count

    def has_nulls(self, rows: Any) -> bool:
        """Return whether a value of these rows has a null, which NumPy cannot show."""
        return self._columns.values.has_nulls(rows)

    # By row of keys; a state of many entries per key overrides these

    def _size(self) -> int:
        """Return the number of rows."""
        return self._group.index.count

    def _restored_rows(self, changes: ColumnChanges) -> Any:
        return self._group.rows_of(changes.keys)

    def _keys(self, rows: Any) -> Any:
        return self._group.index.keys(rows)

    def _user_keys(self, rows: Any) -> Any:  # noqa: ARG002 - there are none
        return None

    # For the log

    def discard(self) -> None:
        """Forget that anything changed."""
        self._columns.dirty[:] = False

    def drain(self) -> list[ColumnChanges]:
        """Return what changed since the last drain.  The changes count as drained."""
        dirty = self._columns.dirty
        rows = np.flatnonzero(dirty)
        if not len(rows):
            return []
        dirty[rows] = False
        return self._portions(rows)

    def contents(self) -> list[ColumnChanges]:
        """Return every entry, as changes to an empty key group."""
        return self._portions(self.all_rows())

    def apply(self, changes: ColumnChanges) -> None:
        """Apply entries that are restored.  They do not count as changed."""
        if not len(changes):
            return
        columns = self._columns
        rows = self._restored_rows(changes)
        columns.values.put(rows, changes.values)
        columns.present[rows] = True if changes.operations is None else changes.operations == PUT
        if self.spec.paired:
            columns.stamps[rows] = changes.stamps
        columns.count = int(columns.present[: self._size()].sum())

    def _portions(self, rows: Any) -> list[ColumnChanges]:
        """Split entries into portions that Arrow can hold: its columns of strings end at 2 GiB."""
        each = (self._columns.nbytes + self._group.index.nbytes) // max(self._size(), 1)
        count = 1 + len(rows) * each // self.portion_bytes
        parts = [rows] if count == 1 else np.array_split(rows, count)
        return [self._changes(some) for some in parts]

    def _changes(self, rows: Any) -> ColumnChanges:
        columns = self._columns
        present = columns.present[rows]
        whole = bool(present.all())
        shown = None if whole else present
        return ColumnChanges(
            self.spec,
            keys=self._keys(rows),
            user_keys=self._user_keys(rows),
            values=columns.values.to_arrow(rows, shown),
            stamps=columns.stamps[rows] if self.spec.paired else None,
            operations=None if whole else np.where(present, PUT, DELETE).astype(np.int8),
        )
