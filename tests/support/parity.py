# SPDX-License-Identifier: Apache-2.0
"""One function in both kinds, with a map and timers: what is even and odd of each key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pyflinklike import KeyedProcessFunction, MapStateDescriptor, Types, ValueStateDescriptor
from pyflinklike.columns import KeyedBatchFunction

__all__ = ["OUTPUT", "InColumns", "ParityByElement"]

OUTPUT = "key string, at long, n long, total long"
_TOTALS = MapStateDescriptor("totals", Types.BOOLEAN(), Types.LONG())
_RECORDS = ValueStateDescriptor("records", Types.LONG())
_LATER_MS = 30


class ParityByElement(KeyedProcessFunction):
    """A timer for each record tells how many there were, and the totals; every third one clears."""

    def open(self, ctx: Any) -> None:
        """Obtain the states."""
        self.totals, self.records = ctx.get_map_state(_TOTALS), ctx.get_state(_RECORDS)

    def process_element(self, value: Any, ctx: Any) -> None:
        """Add, and register a timer."""
        even = value.n % 2 == 0
        self.records.update((self.records.value() or 0) + 1)
        self.totals.put(even, (self.totals.get(even) or 0) + value.n)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + _LATER_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        """Tell."""
        total = sum(self.totals.values())
        if timestamp % 3 == 0:
            self.totals.clear()
        yield ctx.get_current_key(), timestamp, self.records.value(), total


class InColumns(KeyedBatchFunction):
    """The same."""

    def open(self, ctx: Any) -> None:
        """Obtain the states."""
        self.totals = ctx.get_column_map_state(_TOTALS)
        self.records = ctx.get_column_state(_RECORDS)

    def process_batch(self, batch: Any, ctx: Any) -> None:
        """Add, and register a timer for each record."""
        n, groups = batch.numpy("n"), batch.groups
        self.records.put(self.records.get(0) + groups.counts)
        parities = self.totals.at(n % 2 == 0)
        parities.put(parities.get(0) + parities.groups.sum(n))
        times = batch.timestamps + _LATER_MS
        ctx.timer_service().register_event_time_timer(times, codes=groups.codes)

    def on_timers(self, batch: Any, ctx: Any) -> dict[str, Any]:
        """Tell."""
        items, totals = self.totals.items(), np.zeros(len(batch), np.int64)
        np.add.at(totals, items.codes, items.values)
        self.totals.clear(batch.timestamps % 3 == 0)
        records = self.records.get()
        return {"key": batch["key"], "at": batch.timestamps, "n": records, "total": totals}
