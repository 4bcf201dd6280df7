# SPDX-License-Identifier: Apache-2.0
"""The service that `ctx.timer_service()` returns: the clock to read and both queues to fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pyflinklike.api.namespaces import NamespacedTimerService
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.errors import PyflinklikeError
from pyflinklike.runtime.timer_queue import TimerQueue, Timers

__all__ = ["KeyedTimerService", "TimerQueues"]


class TimerQueues(Protocol):
    """An object with the timers of both domains."""

    @property
    def queues(self) -> tuple[Timers, Timers]:
        """The queue of event time, then that of processing time."""


class KeyedTimerService(NamespacedTimerService):
    """The timer service of the current key.

    Args:
        clock: The operator's clock, which stands still during a call.
        event_timers: The queue of event time.
        processing_timers: The queue of processing time.
        refused: The error that a registration raises, for each domain whose timers cannot fire.
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
        """The queue of event time, then that of processing time."""
        self._event_timers = event_timers
        self._processing_timers = processing_timers
        self._register_event = _registering(event_timers, refused)
        # This saves a call for each timer: functions register one per record, windows one per pane.
        self.register_event_time_timer = self._register_event  # type: ignore[assignment, method-assign]
        self._register_processing = _registering(processing_timers, refused)

    def current_processing_time(self) -> int:
        """Return the processing time in ms; it stands still during a call."""
        return self._clock.processing_time

    def current_watermark(self) -> int:
        """Return the watermark in ms; `MIN_WATERMARK` before the first one."""
        return self._clock.watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Register a timer that calls `on_timer` when the watermark reaches `timestamp` ms."""
        self._register_event(timestamp)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a timer that calls `on_timer` when the processing time reaches `timestamp` ms."""
        self._register_processing(timestamp)

    def has_event_time_timer(self, timestamp: int) -> bool:
        """Return whether this key, in its namespace if any, has a timer at `timestamp` ms."""
        return self._event_timers.has(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete an event-time timer of this key; do nothing where there is none."""
        self._event_timers.delete(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a processing-time timer of this key; do nothing where there is none."""
        self._processing_timers.delete(timestamp)


def _registering(
    queue: TimerQueue, refused: Mapping[TimeDomain, PyflinklikeError]
) -> Callable[[int], None]:
    """Return the function that registers a timer in a queue, or refuses it."""
    refusal = refused.get(queue.domain)
    if refusal is None:
        return queue.register

    def refuse(_: int) -> None:
        raise refusal

    return refuse
