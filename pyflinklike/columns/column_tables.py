# SPDX-License-Identifier: Apache-2.0
"""The states of a key group as columns, in memory between batches.

A key group has an index, which gives each key a row.  For each state it has columns: values, stamps,
and which rows have an entry.  If a state has one entry per key, its columns are by row.  If a state
has many entries per key, such as a map or timers, its columns are by place: each pair of a row and a
user key has a place.

A state sees the columns of a key group through a `ColumnTable`.  The table points at one key group at
a time, as the tables of any backend do.  The backend is the heap backend with this kind of table;
timers are in such tables, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._clock import Clock
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend, HeapKeyedStateBackend
from pyflinklike.columns.key_index import EntryIndex, KeyIndex
from pyflinklike.columns.vectors import NoVector, Vector, grown, vector_of
from pyflinklike.errors import DeclarationValueError, StateAccessError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import (
    CLEAR,
    DELETE,
    PUT,
    RESERVED_PREFIX,
    Changes,
    ColumnChanges,
    Shape,
    TableSpec,
)
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.state.ttl_table import TtlRules


class ColumnTable:
    """The entries of one state in the current key group, by row.

    Args:
        spec: The declaration of the state, which has one entry per key.
    """

    portion_bytes = 1 << 29
    """About how many bytes of a key group become Arrow columns at once."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self.columns = Columns(spec, vector_of(pa.int64()))
        """The columns of the current key group."""
        self.undo_log: list[Callable[[], None]] | None = None
        """Functions that undo the changes of a call, in order; None if no call may be undone."""

    def point_at(self, group: KeyGroupColumns) -> None:
        """Look into the columns of a key group from now on."""
        self._group = group
        self.columns = group.of(self.spec)

    # By row

    def put(self, rows: Any, values: Any, stamps: Any = None) -> None:
        """Store entries.  No row may come twice."""
        self._remember(rows)
        columns = self.columns
        columns.values.put(rows, values)
        columns.count += len(rows) - int(columns.present[rows].sum())
        columns.present[rows] = True
        columns.dirty[rows] = True
        if stamps is not None:
            columns.stamps[rows] = stamps

    def restamp(self, rows: Any, stamps: Any) -> None:
        """Give entries other stamps."""
        self._remember(rows)
        self.columns.stamps[rows] = stamps
        self.columns.dirty[rows] = True

    def remove(self, rows: Any) -> None:
        """Remove entries.  Rows without one stay as they are."""
        columns = self.columns
        rows = rows[columns.present[rows]]
        self._remember(rows)
        columns.count -= len(rows)
        columns.present[rows] = False
        columns.dirty[rows] = True

    def _remember(self, rows: Any) -> None:
        """Note how to undo a change of rows that is about to happen, if a call may fail."""
        if self.undo_log is None or not len(rows):
            return
        columns = self.columns
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
        columns, end = self.columns, self._size()
        first = columns.cursor if columns.cursor < end else 0
        columns.cursor = min(first + count, end)
        return first + np.flatnonzero(columns.present[first : columns.cursor])

    def all_rows(self) -> Any:
        """Return every row with an entry."""
        return np.flatnonzero(self.columns.present[: self._size()])

    def count(self) -> int:
        """Return how many entries the key group holds."""
        return self.columns.count

    # These work by row of keys; a state of many entries per key overrides them

    def _size(self) -> int:
        """Return the number of rows."""
        return self.columns.size(self._group.index)

    def _rows_to_restore(self, changes: ColumnChanges) -> Any:
        return self._group.rows_of(changes.keys)

    def _keys(self, rows: Any) -> Any:
        return self._group.index.keys(rows)

    def _user_keys(self, rows: Any) -> Any:  # noqa: ARG002 - there are none
        return None

    def _find_entries(self, rows: Any) -> Any:
        """Return the rows or places of the entries of keys."""
        return rows[self.columns.present[rows]]

    # For the log

    def discard(self) -> None:
        """Forget that anything changed."""
        self.columns.dirty[:] = False

    def drain(self) -> list[ColumnChanges]:
        """Return what changed since the last drain.  The changes count as drained."""
        dirty = self.columns.dirty
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
        columns = self.columns
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
        each = (self.columns.nbytes + self._group.index.nbytes) // max(self._size(), 1)
        count = 1 + len(rows) * each // self.portion_bytes
        parts = [rows] if count == 1 else np.array_split(rows, count)
        return [self._changes(some) for some in parts]

    def _changes(self, rows: Any) -> ColumnChanges:
        columns = self.columns
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

    columns: MapColumns

    @property
    def entries(self) -> EntryIndex:
        """The places of the current key group."""
        return self.columns.entries

    def places(self, rows: Any, user_keys: Any) -> Any:
        """Return the place of each pair; a pair that is new gets a new place.

        Args:
            rows: The row of each pair's key.
            user_keys: The user key of each pair, as an Arrow column.
        """
        places = self.entries.add(rows, user_keys)
        self.columns.reserve(self.entries.count)
        return places

    def places_of(self, rows: Any) -> tuple[Any, Any]:
        """Return the places with an entry that rows of keys have.

        Returns:
            For each place the number of its row in `rows`, ascending; and the places.
        """
        which, places = self.entries.of(rows)
        present = self.columns.present[places]
        return which[present], places[present]

    def clear(self, rows: Any) -> None:
        """Remove all entries of rows of keys."""
        columns = self.columns
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

    def _rows_to_restore(self, changes: ColumnChanges) -> Any:
        return self.places(self._group.rows_of(changes.keys), changes.user_keys)

    def _keys(self, rows: Any) -> Any:
        return self._group.index.keys(self.entries.rows(rows))

    def _user_keys(self, rows: Any) -> Any:
        return self.entries.arrow_user_keys(rows)

    def _find_entries(self, rows: Any) -> Any:
        places = self.places_of(rows)[1]
        if self.spec.value_type is not None:
            return places
        # Only timers have no values.  They ascend, whatever came before.
        return places[np.argsort(self.entries.user_keys(places))]

    # For the log

    def discard(self) -> None:
        """Forget that anything changed."""
        super().discard()
        self.columns.cleared.clear()

    def drain(self) -> list[ColumnChanges]:
        """Return what changed since the last drain, cleared keys first."""
        cleared = self.columns.cleared
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
        self.columns.least = None
        operations = changes.operations
        # In a message of the log, the rows that clear keys come first.
        if operations is not None and (cleared := int((operations == CLEAR).sum())):
            self._clear_restored(changes.keys.slice(0, cleared))
            changes = changes.where(operations != CLEAR)
        super().apply(changes)

    def _clear_restored(self, keys: Any) -> None:
        rows = np.unique(self._group.rows_of(keys))
        _, places = self.entries.of(rows)
        self.columns.present[places] = False
        self.columns.count = int(self.columns.present[: self._size()].sum())


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
        columns.reserve(columns.size(self.index))
        return columns

    def rows_of(self, keys: Any) -> Any:
        """Return the rows of an Arrow column of keys; keys that are new get new rows."""
        rows = self.index.add(keys)
        for columns in self.tables.values():
            columns.reserve(columns.size(self.index))
        return rows

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

    def size(self, index: KeyIndex) -> int:
        """Return the number of rows, with an entry or without."""
        return index.count

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

    def size(self, index: KeyIndex) -> int:  # noqa: ARG002
        """Return the number of places."""
        return self.entries.count

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

    def of_call(self, what: str, remedy: str) -> Any:
        """Return the rows of the keys, while a call runs.

        Args:
            what: The subject of messages, such as "timers".
            remedy: The way to access them, for the message of an access outside.

        Raises:
            StateAccessError: No call is running.
        """
        if self.rows is None:
            msg = (
                f"{what} can be used while process_batch or on_timers runs, got an access outside; "
                f"{remedy}"
            )
            raise StateAccessError(msg)
        return self.rows

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
        table, columns = self._table, self._table.columns
        shown = columns.present[rows]
        expired = shown & self.are_expired(columns.stamps[rows])
        if expired.any():
            table.remove(rows[expired])
            self.expired += int(expired.sum())
            if not self._return_expired:
                shown = shown & ~expired
        if self._refresh:
            now = self.stamps(latest)
            # A new stamp makes a row dirty and is written to the log, so equal stamps stay.
            stale = columns.present[rows] & (columns.stamps[rows] != now)
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
        dead = rows[self.are_expired(self._table.columns.stamps[rows])]
        self._table.remove(dead)
        self.expired += len(dead)
        return len(dead)

    def without_expired(self, contents: ColumnChanges) -> ColumnChanges:
        """Return the contents of the table without expired entries, for a full snapshot."""
        return contents.where(~self.are_expired(contents.stamps))

    def count(self) -> int:
        """Return how many entries the key group holds, expired or not."""
        return self._table.count()


# The backend


_COLUMNS = f"{RESERVED_PREFIX}columns"


def check_columnar(state_backend: Any) -> HashMapStateBackend:
    """Return a backend whose working state can lie in columns.

    Raises:
        DeclarationValueError: It has no columns.
    """
    if not isinstance(state_backend, HashMapStateBackend):
        msg = (
            "a KeyedBatchFunction needs a backend with columns, got "
            f"{state_backend!r}; use HashMapStateBackend() (both read the same checkpoint), or a "
            "KeyedProcessFunction"
        )
        raise DeclarationValueError(msg)
    return state_backend


class ColumnarStateBackend(HeapKeyedStateBackend):
    """Column tables, pointed at the columns of one key group at a time.

    Args:
        current: The current key, for the tables over dicts.
        owner: The name of the operator in one query, under which working state is cached.
        max_warm_bytes: The bound of cached working state, as in `HashMapStateBackend`.
        key_kind: Arrow's type of the keys.
    """

    def __init__(self, current: CurrentKey, owner: str, max_warm_bytes: int, key_kind: Any) -> None:
        super().__init__(current, owner, max_warm_bytes)
        self._key_kind = key_kind
        self._column_tables: dict[str, ColumnTable] = {}
        self._undo_log: list[Callable[[], None]] = []
        self.columns = KeyGroupColumns(key_kind)
        """The columns of the current key group."""

    def column_table(self, spec: TableSpec) -> ColumnTable:
        """Return the table of a state; the first call makes it."""
        table = self._column_tables.get(spec.name)
        if table is None:
            kind = MapTable if spec.shape is Shape.MAP else ColumnTable
            table = self._column_tables[spec.name] = kind(spec)
            table.point_at(self.columns)
        return table

    def begin_call(self) -> None:
        """Begin a call whose changes can be undone."""
        log: list[Callable[[], None]] = []
        for table in self._column_tables.values():
            table.undo_log = log
        self._undo_log = log

    def undo_call(self) -> None:
        """Undo what the call has changed, the latest change first, and end it."""
        log = self._undo_log
        # The log ends first, or undoing would write to it.
        self.end_call()
        while log:
            log.pop()()

    def end_call(self) -> None:
        """End the call: changes from now on are not undone."""
        for table in self._column_tables.values():
            table.undo_log = None
        self._undo_log = []

    def takes_columns(self, spec: TableSpec) -> bool:
        """Return whether a state has its entries in columns."""
        return spec.name in self._column_tables

    def enter(self, index: int, tables: dict[str, Any]) -> None:
        """Point every table at the working state of a key group."""
        columns = tables.get(_COLUMNS)
        if columns is None:
            columns = tables[_COLUMNS] = KeyGroupColumns(self._key_kind)
        self.columns = columns
        for table in self._column_tables.values():
            table.point_at(columns)
        super().enter(index, tables)

    def drain(self) -> Sequence[Changes]:
        """Return what changed since the last drain."""
        drained = [changes for each in self._column_tables.values() for changes in each.drain()]
        return [*super().drain(), *drained]

    def discard_changes(self) -> None:
        """Forget what changed."""
        super().discard_changes()
        for table in self._column_tables.values():
            table.discard()

    def apply(self, changes: Any) -> None:
        """Take over restored entries."""
        if isinstance(changes, ColumnChanges):
            self._column_tables[changes.spec.name].apply(changes)
        else:
            super().apply(changes)

    def contents(self) -> Sequence[Changes]:
        """Return every entry of the key group."""
        every = [changes for each in self._column_tables.values() for changes in each.contents()]
        return [*super().contents(), *every]

    def count(self) -> int:
        """Count the entries of the key group in all tables."""
        return super().count() + sum(each.count() for each in self._column_tables.values())

    def _is_declared(self, name: str, data: Any) -> bool:
        if name != _COLUMNS:
            return super()._is_declared(name, data)
        tables = self._column_tables
        return all(
            not columns.count or (at in tables and tables[at].spec == columns.spec)
            for at, columns in data.tables.items()
        )

    def cache(self, state: KeyGroupState) -> None:
        """Cache a key group in this process, without keys that no longer have an entry."""
        self.columns.free()
        super().cache(state)

    def close(self) -> None:
        """Forget the tables."""
        super().close()
        self._column_tables.clear()
        self.columns = KeyGroupColumns(self._key_kind)
