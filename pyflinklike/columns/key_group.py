# SPDX-License-Identifier: Apache-2.0
"""The state of a key group in memory between batches: its key index, and columns for each state.

A state of one entry per key has its columns by row, one for each key.  A state of many entries
per key has them by place, one for each pair of a row and a user key.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike.columns.entry_index import EntryIndex
from pyflinklike.columns.key_index import KeyIndex
from pyflinklike.columns.no_values import NoVector
from pyflinklike.columns.vectors import Vector, grown, vector_of
from pyflinklike.state.table import Shape, TableSpec

__all__ = ["Columns", "KeyGroupColumns", "MapColumns"]

_WORTH_FREEING = 1024


@attrs.define(eq=False)
class Columns:
    """The columns of one state in one key group.

    Args:
        spec: The declaration of the state.
        values: The values by row.
        present: By row: whether it has an entry.
        stamps: By row, in ms; empty unless entries are `paired`.
        dirty: By row: whether it changed since the last commit.
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
        """Make room for at least `count` rows."""
        if count <= len(self.present):
            return  # the others are as long, or longer
        self.present = grown(self.present, count)
        self.dirty = grown(self.dirty, count)
        self.values.reserve(len(self.present))
        if self.spec.paired:
            self.stamps = grown(self.stamps, len(self.present))

    def keep(self, rows: Any) -> None:
        """Forget all rows but these.  No row may be dirty."""
        self.values.keep(rows)
        self.present = self.present[rows]
        self.dirty = self.dirty[rows]
        self.stamps = self.stamps[rows] if self.spec.paired else self.stamps
        self.cursor = 0

    def used_rows(self, count: int) -> Any:
        """Return which of the first `count` rows of keys have an entry, as bools."""
        return self.present[:count]

    def renumber(self, rows: Any, count: int) -> None:  # noqa: ARG002
        """Follow the key index, which has kept these of its `count` rows."""
        self.keep(rows)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        own = self.present.nbytes + self.stamps.nbytes + self.dirty.nbytes
        return int(self.values.nbytes + own)


@attrs.define(eq=False)
class MapColumns(Columns):
    """The columns of a state of many entries per key: by place, where `Columns` has them by row.

    Args:
        entries: Finds the place of a row and a user key.
        cleared: Rows whose entries were all removed since the last commit, before the dirty ones
            were put; in several arrays.
        least: A lower bound of the user keys, None where it is not known; for timers.
    """

    entries: EntryIndex = attrs.field(kw_only=True)
    cleared: list[Any] = attrs.field(factory=list)
    least: int | None = None

    def used_rows(self, count: int) -> Any:
        """Return which of the first `count` rows of keys have an entry, as bools."""
        used = np.zeros(count, bool)
        used[self.entries.rows(np.flatnonzero(self.present[: self.entries.count]))] = True
        return used

    def renumber(self, rows: Any, count: int) -> None:
        """Follow the key index, which has kept these of its `count` rows."""
        new_rows = np.full(count, -1, np.int64)
        new_rows[rows] = np.arange(len(rows))
        self._keep_present(new_rows)

    def free(self) -> None:
        """Forget the places without an entry once they are most.  No place may be dirty."""
        if self.entries.count >= max(_WORTH_FREEING, 2 * self.count):
            self._keep_present(None)

    def _keep_present(self, new_rows: Any) -> None:
        places = np.flatnonzero(self.present[: self.entries.count])
        self.entries.keep(places, new_rows)
        self.keep(places)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return super().nbytes + self.entries.nbytes


class KeyGroupColumns:
    """The key index of a key group, and the columns of its states.

    Args:
        key_kind: Arrow's type of the keys.
    """

    def __init__(self, key_kind: pa.DataType) -> None:
        self.index = KeyIndex(key_kind)
        self.tables: dict[str, Columns] = {}

    def of(self, spec: TableSpec) -> Columns:
        """Return the columns of a state, with room for every row of the index."""
        columns = self.tables.get(spec.name)
        # By identity first: this is asked for each state whenever a key group is entered.
        if columns is None or (columns.spec is not spec and columns.spec != spec):
            columns = self.tables[spec.name] = _new_columns(spec)
        columns.reserve(self._size(columns))
        return columns

    def rows_of(self, keys: Any) -> Any:
        """Return the rows of an Arrow column of keys; keys that are new get new rows."""
        rows = self.index.add(keys)
        for columns in self.tables.values():
            columns.reserve(self._size(columns))
        return rows

    def _size(self, columns: Columns) -> int:
        return columns.entries.count if isinstance(columns, MapColumns) else self.index.count

    def free(self) -> None:
        """Forget keys and places without an entry once they are most.  Nothing may be dirty."""
        count = self.index.count
        for columns in self.tables.values():
            if isinstance(columns, MapColumns):
                columns.free()
            elif 2 * columns.count > count:
                return  # most keys are used
        if count < _WORTH_FREEING:
            return
        used = np.zeros(count, bool)
        for columns in self.tables.values():
            used |= columns.used_rows(count)
        rows = np.flatnonzero(used)
        if 2 * len(rows) > count:
            return
        self.index.keep(rows)
        for columns in self.tables.values():
            columns.renumber(rows, count)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.index.nbytes + sum(each.nbytes for each in self.tables.values())


def _new_columns(spec: TableSpec) -> Columns:
    values = NoVector() if spec.value_type is None else vector_of(spec.value_type.arrow_type)
    if spec.shape is not Shape.MAP:
        return Columns(spec, values)
    assert spec.user_key_type is not None
    return MapColumns(spec, values, entries=EntryIndex(spec.user_key_type.arrow_type))
