# SPDX-License-Identifier: Apache-2.0
"""What `ctx.timer_service()` gives; `runtime.timer_queue` says when a timer fires."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pyflinklike.api.namespaces import NamespacedTimerService
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.errors import PyflinklikeError
from pyflinklike.runtime.timer_queue import TimerQueue, Timers

__all__ = ["KeyedTimerService", "TimerQueues"]


class TimerQueues(Protocol):
    """What has the timers of both domains."""

    @property
    def queues(self) -> tuple[Timers, Timers]:
        """Those of event time, and those of processing time."""


class KeyedTimerService(NamespacedTimerService):
    """What `ctx.timer_service()` gives: the clock to read and both queues to fill.

    Args:
        clock: Of the operator.
        event_timers: Fired by the watermark.
        processing_timers: Fired by the processing time.
        refused: Domains whose timers the host cannot fire, with what a registration raises.
    """

    def __init__(
        self,
        clock: Clock,
        event_timers: TimerQueue,
        processing_timers: TimerQueue,
        refused: Mapping[TimeDomain, PyflinklikeError],
    ) -> None:
        self._clock = clock
        self.queues = event_timers, processing_timers
        """Those of event time, and those of processing time."""
        self._event_timers = event_timers
        self._processing_timers = processing_timers
        self._register_event = _registering(event_timers, refused)
        # A call less for each timer: functions register one per record, windows one per pane.
        self.register_event_time_timer = self._register_event  # type: ignore[assignment, method-assign]
        self._register_processing = _registering(processing_timers, refused)

    def current_processing_time(self) -> int:
        """The processing time in ms; it stands still during a call."""
        return self._clock.processing_time

    def current_watermark(self) -> int:
        """The watermark in ms; `MIN_WATERMARK` before the first one."""
        return self._clock.watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called for this key when the watermark reaches `timestamp` ms."""
        self._register_event(timestamp)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called for this key when the processing time reaches `timestamp` ms."""
        self._register_processing(timestamp)

    def has_event_time_timer(self, timestamp: int) -> bool:
        """Whether this key, in its namespace if there are any, has a timer at `timestamp` ms."""
        return self._event_timers.has(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget an event-time timer of this key; nothing happens where there is none."""
        self._event_timers.delete(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a processing-time timer of this key; nothing happens where there is none."""
        self._processing_timers.delete(timestamp)


def _registering(
    queue: TimerQueue, refused: Mapping[TimeDomain, PyflinklikeError]
) -> Callable[[int], None]:
    """What registers a timer in a queue, or refuses to."""
    refusal = refused.get(queue.domain)
    if refusal is None:
        return queue.register

    def refuse(_: int) -> None:
        raise refusal

    return refuse
