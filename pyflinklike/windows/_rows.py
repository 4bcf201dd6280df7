# SPDX-License-Identifier: Apache-2.0
"""The rows that windows give: the key, the window, and the result of the user's function.

The columns of a time window have the names of Flink's SQL.  A count window has the column
`window_id`; a global window adds no column.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from pyspark.sql import types as st

from pyflinklike.spark._wire.output_layout import OutputEncoder
from pyflinklike.types.time_types import local_time
from pyflinklike.windows.window_kinds import (
    CountWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    WindowSerializer,
)

WINDOW_TIME: Final = "window_time"
"""The column that holds the event time of a result: the last millisecond of the window."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND = dt.timedelta(milliseconds=1)
# Enough for the open windows of most queries, and a small cache in each worker.
_RECENT = 1_024


def window_fields(serializer: WindowSerializer[Any]) -> list[st.StructField]:
    """Return the columns of a window; windows of a user's own class add no columns.

    Args:
        serializer: The serializer of the assigner.
    """
    if isinstance(serializer, TimeWindowSerializer):
        names = ("window_start", "window_end", WINDOW_TIME)
        return [st.StructField(name, st.TimestampType()) for name in names]
    if isinstance(serializer, CountWindowSerializer):
        return [st.StructField("window_id", st.LongType())]
    return []


class WindowRows:
    """Makes a row from a key, a window and a result.

    Args:
        key_width: The number of key columns.
        windows: The serializer of the assigner.
        encoder: Knows the columns of the result and names the operator in messages.
        taken: The positions of the result's columns to keep; None for all.
    """

    def __init__(
        self,
        key_width: int,
        windows: WindowSerializer[Any],
        encoder: OutputEncoder,
        taken: tuple[int, ...] | None = None,
    ) -> None:
        self._key_width = key_width
        self._windows = windows
        self._encoder = encoder
        self._taken = taken
        self._columns_of = _columns_of(windows, encoder.time_zone)

    def __call__(self, key: Any, window: Any, result: Any) -> tuple[Any, ...]:
        """Make the row.

        Raises:
            OutputError: The result does not fit its columns.
        """
        row = self._encoder.in_order(result, key)
        if self._taken is not None:
            row = tuple([row[at] for at in self._taken])
        keys = (key,) if self._key_width == 1 else tuple(key)
        return (*keys, *self._columns_of(window), *row)

    # The cached columns of windows cannot be pickled, so a worker makes its own cache.
    def __reduce__(self) -> tuple[type[WindowRows], tuple[Any, ...]]:
        return WindowRows, (self._key_width, self._windows, self._encoder, self._taken)


def _columns_of(windows: WindowSerializer[Any], time_zone: str) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that gives the values of a window's columns."""
    if isinstance(windows, CountWindowSerializer):
        return lambda window: (window.id,)
    if not isinstance(windows, TimeWindowSerializer):
        return lambda _: ()

    def instant(time: int) -> dt.datetime:
        return local_time(_EPOCH + time * _MILLISECOND, time_zone)

    # Many keys have the same few windows, and local times of a zone are slow to compute.
    @lru_cache(_RECENT)
    def columns(window: TimeWindow) -> tuple[Any, ...]:
        return instant(window.start), instant(window.end), instant(window.max_timestamp())

    return columns
