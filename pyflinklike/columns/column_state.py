# SPDX-License-Identifier: Apache-2.0
"""The states of all keys of a batch at once: a value for each key, or a map for each key.

A state can be used while a call runs.  It reads and writes many rows at a time: the rows of the
batch's keys in the columns of the key group.  A TTL judges and stamps each entry by itself.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike.columns.column_tables import BatchRows, ColumnTable, MapTable, TtlColumns
from pyflinklike.columns.keyed_batch import Groups, number_values
from pyflinklike.columns.value_columns import (
    ValueColumn,
    check_codes,
    check_mask,
    value_column,
)
from pyflinklike.errors import DeclarationTypeError, StateValueError
from pyflinklike.types import TupleTypeInfo, TypeInformation, Types


class StateOfBatch:
    """A state of the keys of a batch, for the time of a call.

    Args:
        name: The name of the state, for messages.
        table: The entries of the state.
        column: Checks values, and shows them to the function.
        batch: The rows of the keys in the table.
        ttl: Judges and stamps entries; None without a TTL.
    """

    def __init__(
        self,
        name: str,
        table: ColumnTable,
        column: ValueColumn,
        batch: BatchRows,
        ttl: TtlColumns | None = None,
    ) -> None:
        self.name = name
        self._table = table
        self._column = column
        self._batch = batch
        self._ttl = ttl

    def _which(self, where: Any) -> Any:
        """Return the numbers of the chosen keys in the batch, or of the chosen pairs.

        Args:
            where: A bool for each, or None for all.

        Raises:
            StateAccessError: No call is running.
            StateValueError: `where` is not such a mask.
        """
        what = f"state {self.name!r}"
        rows = self._batch.of_call(
            what, "obtain it in open(), and read and write it in process_batch()"
        )
        if where is None:
            return np.arange(len(rows))
        return np.flatnonzero(check_mask(where, len(rows), what, "keys"))

    def _refuse_nulls(self, rows: Any, method: str, instead: str) -> None:
        if self._table.columns.values.has_nulls(rows):
            msg = (
                f"state {self.name!r}: {method} returns NumPy columns, which have no nulls, got a "
                f"value with a null; {instead}"
            )
            raise StateValueError(msg)


class EntryColumns(StateOfBatch):
    """One entry for each key of a batch, or for each pair of key and user key."""

    def get(self, default: Any = None, where: Any = None) -> Any:
        """Return the value of each key.

        Args:
            default: The result for keys without a value: one value, or one for each group.  TUPLE
                and ROW take a tuple of these.
            where: The keys to read, as a bool for each group; None for all.  The others get the
                default.

        Returns:
            A NumPy array of numbers, bools, dates or timestamps; an Arrow array of strings or
            bytes, with null if a key has neither a value nor a default; for TUPLE and ROW a tuple
            or `Row` of such arrays.  The caller may change the arrays.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: A key has no value and there is no default, a default does not fit
                the type, or a field of a tuple is null (`arrow` can return nulls).
        """
        is_there = self._read(where)
        rows = self._batch.rows
        self._refuse_nulls(rows[is_there], "get()", "read it with arrow()")
        return self._column.show(self._table.columns.values.take(rows), is_there, default)

    def arrow(self, where: Any = None) -> pa.Array:
        """Return the value of each key as an Arrow array of the state's type, or null.

        Args:
            where: The keys to read, as a bool for each group; None for all.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        is_there = self._read(where)
        return self._table.columns.values.to_arrow(self._batch.rows, is_there)

    def exists(self, where: Any = None) -> np.ndarray[Any, Any]:
        """Return which keys have a value, as `get` would find it: a NumPy array of bools.

        Args:
            where: The keys to look at, as a bool for each group; None for all.  The result is False
                for the others.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        found: np.ndarray[Any, Any] = self._read(where)
        return found

    def put(self, values: Any, where: Any = None) -> None:
        """Store the value of each key.

        Args:
            values: One value for each group, or one for all; a tuple of columns for TUPLE and
                ROW.  None is not a value; use `clear` to remove one.
            where: The keys to write, as a bool for each group; None for all.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: The values do not fit the type; nothing is stored.
        """
        which = self._which(where)
        checked = _take(self._column.check(values, len(self._batch.rows)), which)
        rows = self._batch.rows[which]
        if self._ttl is not None:
            self._ttl.sweep_some()
            self._ttl.put(rows, checked, self._batch.latest[which])
        else:
            self._table.put(rows, checked)

    def _remove(self, where: Any) -> None:
        self._table.remove(self._batch.rows[self._which(where)])

    def _read(self, where: Any) -> Any:
        """Judge and refresh entries as a read does, and return which keys have a value."""
        which = self._which(where)
        is_there = np.zeros(len(self._batch.rows), bool)
        if self._ttl is None:
            is_there[which] = self._table.columns.present[self._batch.rows[which]]
        else:
            self._ttl.sweep_some()
            is_there[which] = self._ttl.read(self._batch.rows[which], self._batch.latest[which])
        return is_there


class ColumnState(EntryColumns):
    """One value for each key of the batch, read and written as columns.

    Its methods take and return one value for each group of the batch, in the order of
    `batch.groups`.  A `KeyedProcessFunction` on the same checkpoint finds the same state with
    `get_state` and the same descriptor.  `where` chooses keys by a NumPy array with a bool for each
    group; the others are neither read nor written, and a TTL leaves them alone.

        total = self.total.get(0) + batch.groups.sum(batch["amount"])
        self.total.put(total)
    """

    def clear(self, where: Any = None) -> None:
        """Remove the value of each key.

        Args:
            where: The keys to clear, as a bool for each group; None for all.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        self._remove(where)


class ColumnMapState(StateOfBatch):
    """A map for each key of the batch, read and written as columns.

    A `KeyedProcessFunction` on the same checkpoint finds the same state with `get_map_state` and
    the same descriptor.  A TTL judges and stamps each entry by itself, as Flink's does.

        counts = self.counts.at(batch["product"])
        counts.put(counts.get(0) + counts.groups.counts)

    Args:
        user_keys: Checks the user keys of a call.
        parts: The arguments of a `ColumnState`, in its order.
    """

    _table: MapTable

    def __init__(self, user_keys: ValueColumn, *parts: Any) -> None:
        super().__init__(*parts)
        self._user_keys = user_keys

    def at(self, user_keys: Any, codes: Any = None) -> ColumnMapEntries:
        """Return the entries under user keys.

        Args:
            user_keys: One for each record of the batch, or one for all of them.  If `codes` are
                given, one for each code.
            codes: The group in `batch.groups` of each user key, as a NumPy array of ints; None
                takes the group of each record.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: A user key does not fit the type, there are too few or too many of
                them, or a code is no group of the batch.
        """
        self._which(None)  # refuses an access outside of a call
        owners = self._batch.codes
        if codes is not None:
            owners = check_codes(codes, len(self._batch.rows), f"state {self.name!r}")
        keys = self._user_keys.check(user_keys, len(owners))
        if not isinstance(keys, pa.Array):
            keys = pa.array(keys, self._user_keys.type_info.arrow_type)
        pairs, first = number_values([pa.array(owners), keys])
        groups, whose = Groups(pairs, first), owners[first]
        places = self._table.places(self._batch.rows[whose], keys.take(pa.array(first)))
        latest = self._batch.latest[whose]
        if codes is None and self._batch.timestamps is not None:
            latest = groups.latest(self._batch.timestamps)
        # The batch ends this part with itself, so that an access after the call is refused.
        part = BatchRows(places, latest, self._batch.records)
        self._batch.parts.append(part)
        return ColumnMapEntries(groups, self.name, self._table, self._column, part, self._ttl)

    def items(self, where: Any = None) -> ColumnMapItems:
        """Return the entries of each key.

        Args:
            where: The keys to read, as a bool for each group; None for all.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: A value is null, which NumPy cannot show.
        """
        which, columns = self._which(where), self._table.columns
        codes, places = self._table.places_of(self._batch.rows[which])
        codes = which[codes]
        if self._ttl is not None:
            self._ttl.sweep_some()
            # The sweep may have removed some of these entries.
            alive = columns.present[places]
            codes, places = codes[alive], places[alive]
            is_shown = self._ttl.read(places, self._batch.latest[codes])
            codes, places = codes[is_shown], places[is_shown]
        self._refuse_nulls(places, "items()", "read the entries with at(...).arrow()")
        return ColumnMapItems(codes, columns.entries.user_keys(places), columns.values.take(places))

    def is_empty(self) -> np.ndarray[Any, Any]:
        """Return which keys have no entry, as bools in NumPy; expired but stored entries count.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        empty = np.ones(len(self._which(None)), bool)
        empty[self._table.places_of(self._batch.rows)[0]] = False
        return empty

    def clear(self, where: Any = None) -> None:
        """Remove all entries of each key.

        Args:
            where: The keys to clear, as a bool for each group; None for all.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        self._table.clear(self._batch.rows[self._which(where)])


class ColumnMapEntries(EntryColumns):
    """The entries of a map under some user keys, one for each distinct pair of key and user key.

    Its methods take and return one value for each group of `groups`, in their order, and `where`
    chooses pairs.  Everything else is as in a `ColumnState`.

    Args:
        groups: The user keys of the call of `at`, by pair of key and user key.
        parts: The arguments of a `ColumnState`, in its order.
    """

    def __init__(self, groups: Groups, *parts: Any) -> None:
        super().__init__(*parts)
        self.groups = groups
        """The user keys of the call of `at`, by pair of key and user key, as `KeyedBatch.groups`
        has the records by key.  Its `spread`, `rank`, `sum`, `running` and `last` work on one value
        for each of these user keys."""

    def remove(self, where: Any = None) -> None:
        """Remove the entry of each pair.

        Args:
            where: The pairs to remove, as a bool for each; None for all.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        self._remove(where)


@attrs.frozen(eq=False)
class ColumnMapItems:
    """The entries of the maps of a batch's keys, as columns that run in parallel.

    Args:
        codes: The group of each entry in `batch.groups`, ascending: a NumPy array of int64.
        user_keys: The user key of each entry: a NumPy array, or an Arrow array of strings or bytes.
        values: The value of each entry, in the form that `ColumnState.get` returns.
    """

    codes: Any
    user_keys: Any
    values: Any

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.codes)


def _take(values: Any, which: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(_take(each, which) for each in values)
    return values.take(pa.array(which)) if isinstance(values, pa.Array) else values[which]


def user_key_column(name: str, type_info: TypeInformation) -> ValueColumn:
    """Choose the column of a map's user keys.

    Args:
        name: The name of the state, for messages.
        type_info: The declared type of the user keys.

    Raises:
        DeclarationTypeError: Columns cannot distinguish keys of this type.
    """
    # The index has no hashes for floats: 0.0 and -0.0 are equal, but have different bits.
    if type_info in (Types.FLOAT(), Types.DOUBLE()) or isinstance(type_info, TupleTypeInfo):
        msg = (
            f"state {name!r}: user keys of a column state are ints, bools, strings, bytes, dates or "
            f"timestamps, got {type_info!r}; use one of them, or a KeyedProcessFunction"
        )
        raise DeclarationTypeError(msg)
    return value_column(name, type_info)
