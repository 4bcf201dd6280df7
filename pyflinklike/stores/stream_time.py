# SPDX-License-Identifier: Apache-2.0
"""Stream time: how far the events that a store saw have come.

It decides what is expired.  It is an entry of a table, so a restored store decides as the
original would; no wall clock is read.

| mode        | stream time is                                                          |
|-------------|-------------------------------------------------------------------------|
| `key`       | the largest time put under the current key                              |
| `partition` | the largest time put in the key group, by any key, as Kafka's per task  |
| `watermark` | the largest watermark seen; the end of a bounded input is ignored       |
"""

from __future__ import annotations

from typing import Any

import attrs

from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.state.table import MISSING, Shape, TableSpec
from pyflinklike.stores.context import StoreContext
from pyflinklike.types import Types

__all__ = ["StreamTime"]


class StreamTime:
    """The stream time of one store.

    Args:
        spec: Of the store's table.
        mode: One of the above.
        context: Of the store.
    """

    def __init__(self, spec: TableSpec, mode: str, context: StoreContext) -> None:
        self._clock = context.clock
        self._is_watermark = mode == "watermark"
        self._table = context.table(
            attrs.evolve(
                spec,
                name=f"{spec.name}/time",
                shape=Shape.SINGLE,
                kind=f"stream time by {mode}",
                value_type=Types.LONG(),
                user_key_type=None,
                paired=False,
                ordered=False,
                per_group=mode != "key",
            )
        )

    def observed(self) -> int | None:
        """The stream time in ms; None where nothing was seen yet."""
        stored: Any = self._table.get(None)
        now = None if stored is MISSING else stored
        watermark = self._clock.watermark
        if self._is_watermark and MIN_WATERMARK < watermark < MAX_WATERMARK:
            return self._moved(now, watermark)
        return now

    def advance(self, time: int) -> int | None:
        """The stream time after an event of this time was seen."""
        now = self.observed()
        return now if self._is_watermark else self._moved(now, time)

    def _moved(self, now: int | None, time: int) -> int:
        if now is None or time > now:
            self._table.put(None, time)
            return time
        return now
