# SPDX-License-Identifier: Apache-2.0
"""The state of all keys of a batch at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.columns.given import plain_array
from pyflinklike.columns.table import BatchRows, ColumnTable
from pyflinklike.columns.ttl import TtlColumns
from pyflinklike.columns.values import ValueColumn
from pyflinklike.errors import StateAccessError, StateValueError
from pyflinklike.shown import shown

__all__ = ["ColumnState", "EntryColumns", "chosen"]


class EntryColumns:
    """One entry for each key of a batch, or for each pair of key and user key.

    Args:
        name: The name of the state, for messages.
        table: The entries of the state.
        column: Checks values.
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

    def get(self, default: Any = None, where: Any = None) -> Any:
        """Return the value of each key.

        Args:
            default: For keys without a value: a value, or one for each group.  TUPLE and ROW take a
                tuple of these.
            where: The keys to read, as a bool for each group; None for all.  The others get the
                default.

        Returns:
            A NumPy array of numbers, bools, dates or timestamps; an Arrow array of strings or
            bytes, null where a key has neither a value nor a default; for TUPLE and ROW a tuple or
            `Row` of such arrays.  The arrays are the caller's own.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: A key has no value and there is no default, a default does not fit
                the type, or a field of a tuple is null (`arrow` gives nulls).
        """
        is_there = self._read(where)
        rows = self._batch.rows
        self._refuse_nulls(rows[is_there])
        return self._column.shown(self._table.values(rows), is_there, default)

    def arrow(self, where: Any = None) -> pa.Array:
        """Return the value of each key as an Arrow array of the state's type, null without a value.

        Args:
            where: The keys to read, as a bool for each group; None for all.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        is_there = self._read(where)
        return self._table.arrow(self._batch.rows, is_there)

    def exists(self, where: Any = None) -> np.ndarray[Any, Any]:
        """Return which keys have a value, as `get` would find it: a NumPy array of bools.

        Args:
            where: The keys to look at, as a bool for each group; None for all.  The others are
                False.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        found: np.ndarray[Any, Any] = self._read(where)
        return found

    def put(self, values: Any, where: Any = None) -> None:
        """Store the value of each key.

        Args:
            values: One value for each group, or one for all; a tuple of columns for TUPLE and
                ROW.  None is not a value: `clear` removes one.
            where: The keys to write, as a bool for each group; None for all.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: The values do not fit the type; nothing is stored.
        """
        which = self._which(where)
        checked = _taken(self._column.checked(values, len(self._batch.rows)), which)
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
            is_there[which] = self._table.present(self._batch.rows[which])
        else:
            self._ttl.sweep_some()
            is_there[which] = self._ttl.read(self._batch.rows[which], self._batch.latest[which])
        return is_there

    def _which(self, where: Any) -> Any:
        """Return the numbers of the chosen keys in the batch."""
        return chosen(self.name, self._batch.rows, where)

    def _refuse_nulls(self, rows: Any) -> None:
        if self._table.has_nulls(rows):
            msg = (
                f"state {self.name!r}: get() gives NumPy columns, which have no nulls, got a "
                "value that has one; read it with arrow()"
            )
            raise StateValueError(msg)


class ColumnState(EntryColumns):
    """One value for each key of the batch, read and written as columns.

    What is put and got has one value for each group of the batch, in the order of
    `batch.groups`.  It is the state that `get_state` of the same descriptor gives a
    `KeyedProcessFunction` on the same checkpoint.  `where` chooses keys by a NumPy array with a
    bool for each group; the others are neither read nor written, and a TTL leaves them alone.
    """

    def clear(self, where: Any = None) -> None:
        """Remove the value of each key.

        Args:
            where: The keys to clear, as a bool for each group; None for all.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
        """
        self._remove(where)


def chosen(name: str, rows: Any, where: Any) -> Any:
    """Return the numbers of the chosen rows of a batch.

    Args:
        name: The name of the state, for messages.
        rows: The rows of the batch's keys; None between calls.
        where: A bool for each row, or None for all.

    Raises:
        StateAccessError: No call is running.
        StateValueError: `where` is no such mask.
    """
    if rows is None:
        msg = (
            f"state {name!r} can be used while process_batch or on_timers runs, got an access "
            "outside; obtain it in open(), and read and write it in process_batch()"
        )
        raise StateAccessError(msg)
    if where is None:
        return np.arange(len(rows))
    mask = plain_array(where, f"state {name!r}: where")
    if mask.dtype != bool or mask.shape != rows.shape:
        msg = (
            f"state {name!r}: where takes a bool for each of the batch's {len(rows)} "
            f"keys, got {mask.dtype} of shape {mask.shape} {shown(mask[:3].tolist())}"
            if mask.ndim
            else f"state {name!r}: where takes a bool for each key, got {shown(where)}"
        )
        raise StateValueError(msg)
    return np.flatnonzero(mask)


def _taken(values: Any, which: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(_taken(each, which) for each in values)
    return values.take(pa.array(which)) if isinstance(values, pa.Array) else values[which]
