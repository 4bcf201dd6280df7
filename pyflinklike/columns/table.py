# SPDX-License-Identifier: Apache-2.0
"""The entries of one state as columns: values, stamps, and which rows have an entry.

`KeyGroupColumns` is what a worker keeps of a key group between batches: the key index, and the
columns of each state.  A `ColumnTable` is the view that a state has of them; it is pointed at one
key group at a time, as the tables of any backend are.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike.columns.key_index import KeyIndex
from pyflinklike.columns.vectors import Vector, grown, vector_of
from pyflinklike.state.column_changes import DELETE, PUT, ColumnChanges
from pyflinklike.state.table import TableSpec

__all__ = ["BatchRows", "ColumnTable", "Columns", "KeyGroupColumns"]

_WORTH_FREEING = 1024


@attrs.define(eq=False)
class Columns:
    """The columns of one state in one key group.

    Args:
        spec: What the state was declared as.
        values: By row; None where entries carry no value.
        present: Which rows have an entry.
        stamps: In ms, by row, where entries are `paired`.
        dirty: Which rows changed since the last commit.
        count: How many rows have an entry.
        cursor: The row that incremental cleanup looks at next.
    """

    spec: TableSpec
    values: Vector
    present: Any = attrs.field(factory=lambda: np.zeros(0, bool))
    stamps: Any = attrs.field(factory=lambda: np.zeros(0, np.int64))
    dirty: Any = attrs.field(factory=lambda: np.zeros(0, bool))
    count: int = 0
    cursor: int = 0

    def reserve(self, count: int) -> None:
        """Make room for so many rows."""
        self.values.reserve(count)
        self.present = grown(self.present, count)
        self.dirty = grown(self.dirty, count)
        if self.spec.paired:
            self.stamps = grown(self.stamps, count)

    def keep(self, rows: Any) -> None:
        """Forget all rows but these; nothing may be dirty."""
        self.values.keep(rows)
        self.present = self.present[rows]
        self.dirty = self.dirty[rows]
        self.stamps = self.stamps[rows] if self.spec.paired else self.stamps
        self.cursor = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        own = self.present.nbytes + self.stamps.nbytes + self.dirty.nbytes
        return int(self.values.nbytes + own)


class KeyGroupColumns:
    """The key index of a key group, and the columns of its states.

    Args:
        key_kind: Arrow's type of the keys.
    """

    def __init__(self, key_kind: pa.DataType) -> None:
        self.index = KeyIndex(key_kind)
        self.tables: dict[str, Columns] = {}

    def of(self, spec: TableSpec) -> Columns:
        """The columns of a state, with room for every row there is."""
        columns = self.tables.get(spec.name)
        if columns is None or columns.spec != spec:
            assert spec.value_type is not None
            columns = Columns(spec, vector_of(spec.value_type.arrow_type))
            self.tables[spec.name] = columns
        columns.reserve(self.index.count)
        return columns

    def rows_of(self, keys: Any) -> Any:
        """The rows of an Arrow column of keys, new ones where they are new."""
        rows = self.index.add(keys)
        for columns in self.tables.values():
            columns.reserve(self.index.count)
        return rows

    def free(self) -> None:
        """Forget the keys without any entry, once they are most; nothing may be dirty."""
        count = self.index.count
        used = np.zeros(count, bool)
        for columns in self.tables.values():
            used |= columns.present[:count]
        rows = np.flatnonzero(used)
        if count < _WORTH_FREEING or 2 * len(rows) > count:
            return
        self.index.keep(rows)
        for columns in self.tables.values():
            columns.keep(rows)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.index.nbytes + sum(each.nbytes for each in self.tables.values())


@attrs.define
class BatchRows:
    """The rows of the keys of the batch that a function is called for.

    Args:
        rows: One for each group; None between calls.
        latest: The greatest timestamp of each group's records in ms.
        records: How many records the batch has.
    """

    rows: Any = None
    latest: Any = None
    records: int = 0


class ColumnTable:
    """The entries of one state in the current key group, by row.

    Args:
        spec: Of the state; one entry per key.
    """

    portion_bytes = 1 << 29
    """How much of a key group is made columns of at once, about."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self._columns = Columns(spec, vector_of(pa.int64()))

    def point_at(self, group: KeyGroupColumns) -> None:
        """Look into the columns of a key group from now on."""
        self._group = group
        self._columns = group.of(self.spec)

    # By row

    def present(self, rows: Any) -> Any:
        """Which of the rows have an entry."""
        return self._columns.present[rows]

    def stamps(self, rows: Any) -> Any:
        """The stamps of rows in ms; of those without an entry any number."""
        return self._columns.stamps[rows]

    def values(self, rows: Any) -> Any:
        """The values of rows; of those without an entry any value."""
        return self._columns.values.take(rows)

    def arrow(self, rows: Any, present: Any) -> Any:
        """The values of rows as an Arrow array, null where not present."""
        return self._columns.values.to_arrow(rows, present)

    def put(self, rows: Any, values: Any, stamps: Any = None) -> None:
        """Store entries; no row twice."""
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
        """Remove entries; rows without one stay as they are."""
        columns = self._columns
        rows = rows[columns.present[rows]]
        columns.count -= len(rows)
        columns.present[rows] = False
        columns.dirty[rows] = True

    def next_rows(self, count: int) -> Any:
        """The next rows with an entry that a sweep shall look at; a pass begins anew at the end."""
        columns, end = self._columns, self._group.index.count
        first = columns.cursor if columns.cursor < end else 0
        columns.cursor = min(first + count, end)
        return first + np.flatnonzero(columns.present[first : columns.cursor])

    def all_rows(self) -> Any:
        """Every row with an entry."""
        return np.flatnonzero(self._columns.present[: self._group.index.count])

    def count(self) -> int:
        """How many entries the key group holds."""
        return self._columns.count

    def has_nulls(self, rows: Any) -> bool:
        """Whether a value of rows has a null that NumPy cannot show."""
        return self._columns.values.has_nulls(rows)

    # For the log

    def discard(self) -> None:
        """Forget what changed."""
        self._columns.dirty[:] = False

    def drain(self) -> list[ColumnChanges]:
        """What changed since the last drain; the changes count as taken."""
        dirty = self._columns.dirty
        rows = np.flatnonzero(dirty)
        dirty[rows] = False
        return self._portions(rows)

    def contents(self) -> list[ColumnChanges]:
        """Every entry, as changes to an empty key group."""
        return self._portions(self.all_rows())

    def apply(self, changes: ColumnChanges) -> None:
        """Take over entries that were restored; they do not count as changed."""
        if not len(changes):
            return
        columns = self._columns
        rows = self._group.rows_of(changes.keys)
        columns.values.put(rows, changes.values)
        columns.present[rows] = True if changes.operations is None else changes.operations == PUT
        if self.spec.paired:
            columns.stamps[rows] = changes.stamps
        columns.count = int(columns.present[: self._group.index.count].sum())

    def _portions(self, rows: Any) -> list[ColumnChanges]:
        """Entries in portions whose columns Arrow can hold: its strings end at 2 GiB."""
        each = (self._columns.nbytes + self._group.index.nbytes) // max(self._group.index.count, 1)
        count = 1 + len(rows) * each // self.portion_bytes
        return [self._changes(some) for some in np.array_split(rows, count)]

    def _changes(self, rows: Any) -> ColumnChanges:
        columns = self._columns
        present = columns.present[rows]
        whole = bool(present.all())
        shown = None if whole else present
        return ColumnChanges(
            self.spec,
            keys=self._group.index.keys(rows),
            values=columns.values.to_arrow(rows, shown),
            stamps=columns.stamps[rows] if self.spec.paired else None,
            operations=None if whole else np.where(present, PUT, DELETE).astype(np.int8),
        )
