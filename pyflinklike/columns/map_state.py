# SPDX-License-Identifier: Apache-2.0
"""The maps of all keys of a batch at once."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike.columns.given import checked_codes
from pyflinklike.columns.grouping import numbered
from pyflinklike.columns.groups import Groups
from pyflinklike.columns.map_table import MapTable
from pyflinklike.columns.state import EntryColumns, chosen
from pyflinklike.columns.table import BatchRows
from pyflinklike.columns.ttl import TtlColumns
from pyflinklike.columns.values import ValueColumn
from pyflinklike.errors import StateValueError

__all__ = ["ColumnMapEntries", "ColumnMapItems", "ColumnMapState"]


class ColumnMapEntries(EntryColumns):
    """The entries of a map under some user keys, one for each distinct pair of key and user key.

    What is put and got has one value for each group of `groups`, in their order.  All else is as
    with a `ColumnState`; `where` chooses pairs.

    Args:
        groups: The user keys that were asked for, by pair.
        parts: The arguments of a `ColumnState`, in its order.
    """

    def __init__(self, groups: Groups, *parts: Any) -> None:
        super().__init__(*parts)
        self.groups = groups
        """The user keys that were asked for, by pair of key and user key, as `KeyedBatch.groups`
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
        values: The value of each entry, in the form that `ColumnState.get` has.
    """

    codes: Any
    user_keys: Any
    values: Any

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.codes)


class ColumnMapState:
    """A map for each key of the batch, read and written as columns.

    It is the state that `get_map_state` of the same descriptor gives a `KeyedProcessFunction` on
    the same checkpoint.  A TTL judges and stamps each entry by itself, as Flink's does.

    Args:
        name: The name of the state, for messages.
        table: The entries of the maps.
        user_keys: Checks user keys.
        column: Checks values.
        batch: The rows of the batch's keys.
        ttl: Judges and stamps entries; None without a TTL.
    """

    def __init__(
        self,
        name: str,
        table: MapTable,
        user_keys: ValueColumn,
        column: ValueColumn,
        batch: BatchRows,
        ttl: TtlColumns | None = None,
    ) -> None:
        self.name = name
        self._table = table
        self._user_keys = user_keys
        self._column = column
        self._batch = batch
        self._ttl = ttl

    def at(self, user_keys: Any, codes: Any = None) -> ColumnMapEntries:
        """Return the entries under user keys.

        Args:
            user_keys: One for each record of the batch, or one for all of them.  With `codes`, one
                for each code.
            codes: The group in `batch.groups` of each user key, as a NumPy array of ints; None
                takes the group of each record.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: A user key does not fit the type, there are too few or too many of
                them, or a code is no group of the batch.
        """
        chosen(self.name, self._batch.rows, None)
        owners = self._batch.codes
        if codes is not None:
            owners = checked_codes(codes, len(self._batch.rows), f"state {self.name!r}")
        keys = self._user_keys.checked(user_keys, len(owners))
        if not isinstance(keys, pa.Array):
            keys = pa.array(keys, self._user_keys.type_info.arrow_type)
        pairs, first = numbered([pa.array(owners), keys])
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
        which = chosen(self.name, self._batch.rows, where)
        codes, places = self._table.places_of(self._batch.rows[which])
        codes = which[codes]
        if self._ttl is not None:
            self._ttl.sweep_some()
            # The sweep may have removed some of these entries.
            alive = self._table.present(places)
            codes, places = codes[alive], places[alive]
            is_shown = self._ttl.read(places, self._batch.latest[codes])
            codes, places = codes[is_shown], places[is_shown]
        self._refuse_nulls(places)
        return ColumnMapItems(
            codes, self._table.entries.user_keys(places), self._table.values(places)
        )

    def is_empty(self) -> np.ndarray[Any, Any]:
        """Return which keys have no entry, as bools in NumPy; expired but stored entries count.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        which = chosen(self.name, self._batch.rows, None)
        empty = np.ones(len(which), bool)
        empty[self._table.places_of(self._batch.rows)[0]] = False
        return empty

    def clear(self, where: Any = None) -> None:
        """Remove all entries of each key.

        Args:
            where: The keys to clear, as a bool for each group; None for all.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        self._table.clear(self._batch.rows[chosen(self.name, self._batch.rows, where)])

    def _refuse_nulls(self, places: Any) -> None:
        if self._table.has_nulls(places):
            msg = (
                f"state {self.name!r}: items() gives NumPy columns, which have no nulls, got a "
                "value that has one; read the entries with at(...).arrow()"
            )
            raise StateValueError(msg)
