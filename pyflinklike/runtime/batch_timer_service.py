# SPDX-License-Identifier: Apache-2.0
"""The timer service of a `KeyedBatchFunction`: many timers by one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from pyflinklike.api.column_timers import ColumnTimerService
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.columns.given import checked_codes, plain_array
from pyflinklike.columns.table import BatchRows
from pyflinklike.errors import PyflinklikeError, StateAccessError, StateValueError
from pyflinklike.runtime.batch_timers import ColumnTimerQueue

__all__ = ["KeyedColumnTimerService"]

_WHAT = "the time of a timer"
_MOST = 2**63 - 1


@attrs.frozen
class KeyedColumnTimerService(ColumnTimerService):
    """Registers and deletes the timers of a batch's keys.

    Args:
        batch: Holds the rows of the batch's keys while a call runs.
        refused: The error that a registration raises, for each domain whose timers cannot fire.
    """

    _clock: Clock
    _event_timers: ColumnTimerQueue
    _processing_timers: ColumnTimerQueue
    _batch: BatchRows
    _refused: Mapping[TimeDomain, PyflinklikeError]

    @property
    def queues(self) -> tuple[ColumnTimerQueue, ColumnTimerQueue]:
        """The queue of event time, then that of processing time."""
        return self._event_timers, self._processing_timers

    def current_processing_time(self) -> int:
        """Return the processing time in ms."""
        return self._clock.processing_time

    def current_watermark(self) -> int:
        """Return the watermark in ms."""
        return self._clock.watermark

    def register_event_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Register timers that call `on_timers` when the watermark reaches these times."""
        self._register(self._event_timers, timestamps, where, codes)

    def register_processing_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Register timers that call `on_timers` when the processing time reaches these times."""
        self._register(self._processing_timers, timestamps, where, codes)

    def delete_event_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Delete event-time timers; do nothing where there is none."""
        self._change(self._event_timers.delete, timestamps, where, codes)

    def delete_processing_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Delete processing-time timers; do nothing where there is none."""
        self._change(self._processing_timers.delete, timestamps, where, codes)

    def _register(self, queue: ColumnTimerQueue, timestamps: Any, where: Any, codes: Any) -> None:
        if queue.domain in self._refused:
            raise self._refused[queue.domain]
        self._change(queue.register, timestamps, where, codes)

    def _change(
        self, change: Callable[[Any, Any], None], timestamps: Any, where: Any, codes: Any
    ) -> None:
        rows = self._batch.rows
        if rows is None:
            msg = (
                "timers can be used while process_batch or on_timers runs, got a call outside; "
                "use ctx.timer_service() of the call"
            )
            raise StateAccessError(msg)
        if codes is not None:
            rows = rows[checked_codes(codes, len(rows), "timers")]
        times = _checked(timestamps, len(rows))
        if where is not None:
            is_chosen = _mask(where, len(rows))
            rows, times = rows[is_chosen], times[is_chosen]
        change(rows, times)


def _checked(timestamps: Any, count: int) -> Any:
    times = plain_array(timestamps, _WHAT)
    if times.dtype.kind not in "iu" and times.size:
        msg = f"{_WHAT} must be an int of ms, got {times.dtype}; batch.timestamps has such"
        raise StateValueError(msg)
    if times.dtype.kind == "u" and times.size and int(times.max()) > _MOST:
        msg = f"{_WHAT} must fit in 64 bits, got {int(times.max())}; it is in ms"
        raise StateValueError(msg)
    if times.ndim and len(times) != count:
        msg = (
            f"timers take one time for each of {count} groups or codes, or one for all, got "
            f"{len(times)}; codes=batch.groups.codes takes one for each record"
        )
        raise StateValueError(msg)
    return np.broadcast_to(times.astype(np.int64), (count,))


def _mask(where: Any, count: int) -> Any:
    mask = plain_array(where, "timers: where")
    if mask.dtype != bool or mask.shape != (count,):
        msg = f"timers: where takes a bool for each of {count} times, got {mask.dtype}"
        raise StateValueError(f"{msg} of shape {mask.shape}; compare with NumPy to get one")
    return mask
