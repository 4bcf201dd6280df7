# SPDX-License-Identifier: Apache-2.0
"""Time-to-live of a column of entries: the rules of TTL, for many keys at a time."""

from __future__ import annotations

from typing import Any

from pyflinklike.clock import Clock
from pyflinklike.columns.table import BatchRows, ColumnTable
from pyflinklike.state.column_changes import ColumnChanges
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.state.ttl_rules import TtlRules

__all__ = ["TtlColumns"]


class TtlColumns(TtlRules):
    """A column table whose entries expire, as `TtlTable` is for other tables.

    Args:
        table: Holds the entries.
        config: A TTL that is enabled.
        clock: Tells the time in ms.
        batch: Says how many records the batch has.
    """

    def __init__(
        self, table: ColumnTable, config: StateTtlConfig, clock: Clock, batch: BatchRows
    ) -> None:
        self.spec = table.spec
        self._table = table
        self._batch = batch
        super().__init__(config, clock)

    def read(self, rows: Any, latest: Any) -> Any:
        """Judge entries as a read of each does, and return which have a value to show.

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
            # A restamp makes a row dirty, so equal stamps are left alone.
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

    def entered(self) -> None:
        """Do nothing: the key group itself remembers where a sweep stands."""

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
        """Return those contents of the table that a full snapshot takes."""
        return contents.where(~self.are_expired(contents.stamps))

    def count(self) -> int:
        """Return how many entries the key group holds, expired or not."""
        return self._table.count()
