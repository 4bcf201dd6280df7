# SPDX-License-Identifier: Apache-2.0
"""The summary of an operator in the `repr` of its harness."""

from __future__ import annotations

from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.state.current_key import GROUP_KEY

__all__ = ["summary"]

_NAMED = {MIN_WATERMARK: "MIN_WATERMARK", MAX_WATERMARK: "MAX_WATERMARK"}


def summary(operator: KeyedProcessOperator) -> str:
    """Return the clock and the numbers of keys and timers, but no text of a user's class.

    A key counts while it has state or a timer, or an entry that expired and is not yet cleaned up.
    """
    clock = operator.clock
    keys = {key for each in operator.backend.contents() for key in each.keys}
    return (
        f"processing_time={clock.processing_time}, "
        f"watermark={_NAMED.get(clock.watermark, clock.watermark)}, "
        f"keys={len(keys - {GROUP_KEY})}, "
        f"event_time_timers={operator.event_timers.count()}, "
        f"processing_time_timers={operator.processing_timers.count()}"
    )
