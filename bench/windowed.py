# SPDX-License-Identifier: Apache-2.0
"""The workloads of windows, W9 to W11, and our function for each.

A window's length follows the number of keys: a key has a record in as many ms, on average, as there
are keys.  So windows hold as many records for a side that is given fewer keys.

The output's total is the last ms of a window, from the first record on, and the count behind it:
`told`.  Windows that end after the last record are not checked.
"""

from __future__ import annotations

from typing import Any

from inputs import START_MS

from pyflinklike import AggregateFunction, KeyedProcessFunction, Types
from pyflinklike.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    window,
)

__all__ = ["COUNTS", "PANES", "TUMBLE", "session_count", "sliding_count", "told", "tumbling_count"]

PANES = 10
"""Windows that a record is in."""
TUMBLE = 20
"""Records of a key in a tumbling window, on average."""
COUNTS = 1_000
"""More than any count of a window."""


def told(last_ms: int, count: int) -> int:
    """The total of a window.

    Args:
        last_ms: The last ms of the window.
        count: Of its records.
    """
    return (last_ms - START_MS) * COUNTS + count


class Count(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def _row(key: Any, window: Any, count: int) -> tuple[Any, int]:
    return key, told(window.max_timestamp(), count)


def sliding_count(keys: int) -> KeyedProcessFunction:
    """W9: on average a window has ten records of a key, and one begins with every record."""
    windows = SlidingEventTimeWindows.of(PANES * keys, keys)
    return window(windows).aggregate(Count(), accumulator_type=Types.LONG()).collecting(_row)


def session_count(keys: int) -> KeyedProcessFunction:
    """W10: sessions that end if a key has no record for its average time."""
    windows = EventTimeSessionWindows.with_gap(keys)
    return window(windows).aggregate(Count(), accumulator_type=Types.LONG()).collecting(_row)


def tumbling_count(keys: int) -> KeyedProcessFunction:
    """W11: windows one after another, with 20 records of a key in each, on average."""
    windows = TumblingEventTimeWindows.of(TUMBLE * keys)
    return window(windows).aggregate(Count(), accumulator_type=Types.LONG()).collecting(_row)
