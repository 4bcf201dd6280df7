# SPDX-License-Identifier: Apache-2.0
"""The states of a key group as columns, in memory between batches.

A key group has an index, which gives each key a row.  For each state it has columns: values, stamps,
and which rows have an entry.  If a state has one entry per key, its columns are by row.  If a state
has many entries per key, such as a map or timers, its columns are by place: each pair of a row and a
user key has a place.

A state sees the columns of a key group through a `ColumnTable`.  The table points at one key group at
a time, as the tables of any backend do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike._clock import Clock
from pyflinklike.columns.key_index import EntryIndex, KeyIndex
from pyflinklike.columns.vectors import NoVector, Vector, grown, vector_of
from pyflinklike.state.table import CLEAR, DELETE, PUT, ColumnChanges, Shape, TableSpec
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.state.ttl_table import TtlRules

__all__ = ["BatchRows", "ColumnTable", "KeyGroupColumns", "MapTable", "TtlColumns"]


class ColumnTable:
    """The entries of one state in the current key group, by row.

    Args:
        spec: The declaration of the state, which has one entry per key.
    """

    portion_bytes = 1 << 29
    """About how many bytes of a key group become Arrow columns at once."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self._columns = Columns(spec, vector_of(pa.int64()))
        self.undo_log: list[Callable[[], None]] | None = None
        """Functions that undo the changes of a call, in order; None if no call may be undone."""

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
        """Store entries.  No row may come twice."""
        self._remember(rows)
        columns = self._columns
        columns.values.put(rows, values)
        columns.count += len(rows) - int(columns.present[rows].sum())
        columns.present[rows] = True
        columns.dirty[rows] = True
        if stamps is not None:
            columns.stamps[rows] = stamps

    def restamp(self, rows: Any, stamps: Any) -> None:
        """Give entries other stamps."""
        self._remember(rows)
        self._columns.stamps[rows] = stamps
        self._columns.dirty[rows] = True

    def remove(self, rows: Any) -> None:
        """Remove entries.  Rows without one stay as they are."""
        columns = self._columns
        rows = rows[columns.present[rows]]
        self._remember(rows)
        columns.count -= len(rows)
        columns.present[rows] = False
        columns.dirty[rows] = True

    def _remember(self, rows: Any) -> None:
        """Note how to undo a change of rows that is about to happen, if a call may fail."""
        if self.undo_log is None or not len(rows):
            return
        columns = self._columns
        # Indexing with an array copies, so these are the contents before the change.
        present, dirty, count = columns.present[rows], columns.dirty[rows], columns.count
        there = rows[present]
        values = columns.values.to_arrow(there)
        stamps = columns.stamps[rows] if self.spec.paired else None

        def undo() -> None:
            columns.values.put(there, values)
            columns.present[rows], columns.dirty[rows], columns.count = present, dirty, count
            if stamps is not None:
                columns.stamps[rows] = stamps

        self.undo_log.append(undo)

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

    # These work by row of keys; a state of many entries per key overrides them

    def _size(self) -> int:
        """Return the number of rows."""
        return self._group.index.count

    def _rows_to_restore(self, changes: ColumnChanges) -> Any:
        return self._group.rows_of(changes.keys)

    def _keys(self, rows: Any) -> Any:
        return self._group.index.keys(rows)

    def _user_keys(self, rows: Any) -> Any:  # noqa: ARG002 - there are none
        return None

    def _find_entries(self, rows: Any) -> Any:
        """Return the rows or places of the entries of keys."""
        return rows[self._columns.present[rows]]

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

    def contents_of(self, rows: Any) -> list[ColumnChanges]:
        """Return the entries of rows of keys, as changes to an empty key group."""
        found = self._find_entries(rows)
        return self._portions(found) if len(found) else []

    def apply(self, changes: ColumnChanges) -> None:
        """Apply entries that are restored.  They do not count as changed."""
        if not len(changes):
            return
        columns = self._columns
        rows = self._rows_to_restore(changes)
        columns.values.put(rows, changes.values)
        columns.present[rows] = True if changes.operations is None else changes.operations == PUT
        if self.spec.paired:
            columns.stamps[rows] = changes.stamps
        # Restored rows may replace one another, so the entries are counted afterwards.
        columns.count = int(columns.present[: self._size()].sum())

    def _portions(self, rows: Any) -> list[ColumnChanges]:
        """Split entries into portions that Arrow can hold: its columns of strings end at 2 GiB."""
        # An average, because the exact size of each row would cost a pass over all of them.
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


class MapTable(ColumnTable):
    """A `ColumnTable` whose rows are places: one for each pair of a key's row and a user key.

    Args:
        spec: The declaration of the state, whose entries have user keys.
    """

    _columns: MapColumns

    def point_at(self, group: KeyGroupColumns) -> None:
        """Look into the columns of a key group from now on."""
        super().point_at(group)
        assert isinstance(self._columns, MapColumns)

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
        cleared = rows[np.unique(which)]
        # The log clears these keys before it writes entries, so removed entries need no rows there.
        _, touched = columns.entries.of(cleared)
        self._remember(touched)
        if self.undo_log is not None:
            self.undo_log.append(columns.cleared.pop)
        columns.count -= len(places)
        columns.present[places] = False
        columns.cleared.append(cleared)
        columns.dirty[touched] = False

    # By place instead of by row

    def _size(self) -> int:
        return self._columns.entries.count

    def _rows_to_restore(self, changes: ColumnChanges) -> Any:
        return self.places(self._group.rows_of(changes.keys), changes.user_keys)

    def _keys(self, rows: Any) -> Any:
        return self._group.index.keys(self._columns.entries.rows(rows))

    def _user_keys(self, rows: Any) -> Any:
        return self._columns.entries.arrow_user_keys(rows)

    def _find_entries(self, rows: Any) -> Any:
        return self.places_of(rows)[1]

    # For the log

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
        return [self._make_clearing(rows), *super().drain()]

    def _make_clearing(self, rows: Any) -> ColumnChanges:
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
        # A restored timer may be earlier than the known bound.
        self._columns.least = None
        operations = changes.operations
        # In a message of the log, the rows that clear keys come first.
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
        # Identity first: the comparison runs for each state whenever a key group is entered.
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
        """Forget keys and places without an entry, if they are the majority; none may be dirty."""
        count = self.index.count
        for columns in self.tables.values():
            if isinstance(columns, MapColumns):
                columns.free()
            elif 2 * columns.count > count:
                return  # most keys have an entry here
        if count < _WORTH_FREEING:
            return
        used = np.zeros(count, bool)
        for columns in self.tables.values():
            used |= columns.find_used_rows(count)
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


@attrs.define(eq=False)
class Columns:
    """The columns of one state in one key group.

    Args:
        spec: The declaration of the state.
        values: The values by row.
        present: Whether each row has an entry.
        stamps: The stamp of each row in ms; empty unless entries are `paired`.
        dirty: Whether each row has changed since the last commit.
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
            return  # the other columns are at least as long
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

    def find_used_rows(self, count: int) -> Any:
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


# Renumbering costs more than the memory of fewer rows is worth.
_WORTH_FREEING = 1024


@attrs.define(eq=False)
class MapColumns(Columns):
    """The columns of a state of many entries per key, by place instead of by row.

    Args:
        entries: Finds the place of a row and a user key.
        cleared: Arrays of the rows that lost all their entries since the last commit, before the
            dirty entries were put.
        least: A lower bound of the user keys, for timers; None if it is not known.
    """

    entries: EntryIndex = attrs.field(kw_only=True)
    cleared: list[Any] = attrs.field(factory=list)
    least: int | None = None

    def find_used_rows(self, count: int) -> Any:
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
        """Forget the places without an entry, if they are the majority; none may be dirty."""
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


@attrs.define
class BatchRows:
    """The rows of the keys of the batch in a call.

    Args:
        rows: The row of each group; None between calls.
        latest: The greatest timestamp of each group's records in ms.
        records: How many records the batch has.
        codes: The group of each record.
        timestamps: The time of each record in ms, or None.
        parts: The rows of map entries of the same batch, which end with it.
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


class TtlColumns(TtlRules):
    """A column table whose entries expire; other tables have `TtlTable` for this.

    Args:
        table: Holds the entries and their stamps.
        config: A TTL that is enabled.
        clock: The clock of the operator, in ms.
        batch: The rows of the batch, for its number of records.
    """

    def __init__(
        self, table: ColumnTable, config: StateTtlConfig, clock: Clock, batch: BatchRows
    ) -> None:
        self.spec = table.spec
        self._table = table
        self._batch = batch
        super().__init__(config, clock)

    def read(self, rows: Any, latest: Any) -> Any:
        """Judge entries as a read of each would, and return which have a value to show.

        Args:
            rows: The rows of the entries, none twice.
            latest: The timestamps of their keys in ms.
        """
        table = self._table
        shown = table.present(rows)
        expired = shown & self.are_expired(table.stamps(rows))
        if expired.any():
            table.remove(rows[expired])
            self.expired += int(expired.sum())
            if not self._return_expired:
                shown = shown & ~expired
        if self._refresh:
            now = self.stamps(latest)
            # A new stamp makes a row dirty and is written to the log, so equal stamps stay.
            stale = table.present(rows) & (table.stamps(rows) != now)
            table.restamp(rows[stale], now[stale])
        return shown

    def put(self, rows: Any, values: Any, latest: Any) -> None:
        """Store values, stamped now.

        Args:
            rows: The rows of the entries, none twice.
            values: A value for each row.
            latest: The timestamps of their keys in ms.
        """
        self._table.put(rows, values, self.stamps(latest))

    def enter(self) -> None:
        """Do nothing: the columns of the key group have the cursor of the sweep."""

    def sweep_some(self) -> None:
        """Sweep as Flink's incremental cleanup does, for each record of the batch at once."""
        if self._sweep_size:
            self._drop(self._table.next_rows(self._sweep_size * self._batch.records))

    def drop_expired(self) -> int:
        """Delete every expired entry of the key group, and return how many."""
        return self._drop(self._table.all_rows())

    def _drop(self, rows: Any) -> int:
        dead = rows[self.are_expired(self._table.stamps(rows))]
        self._table.remove(dead)
        self.expired += len(dead)
        return len(dead)

    def without_expired(self, contents: ColumnChanges) -> ColumnChanges:
        """Return the contents of the table without expired entries, for a full snapshot."""
        return contents.where(~self.are_expired(contents.stamps))

    def count(self) -> int:
        """Return how many entries the key group holds, expired or not."""
        return self._table.count()
