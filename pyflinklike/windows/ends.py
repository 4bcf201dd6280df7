# SPDX-License-Identifier: Apache-2.0
"""When windows end for good, and the timers that tell."""

from __future__ import annotations

from typing import Any

from pyflinklike.api.namespaces import NamespacedTimerService
from pyflinklike.clock import MAX_WATERMARK
from pyflinklike.errors import DeclarationError
from pyflinklike.windows.assigner import WindowAssigner
from pyflinklike.windows.kinds import Window

__all__ = ["WindowEnds"]


class WindowEnds:
    """The ends of windows, by event time with a lateness, or by the clock.

    Args:
        assigner: Of the windows.
        allowed_lateness: How long windows of event time are open beyond their end, in ms.
        timers: Of the current key and namespace.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        allowed_lateness: int,
        timers: NamespacedTimerService,
    ) -> None:
        self.by_event_time = assigner.is_event_time()
        """Whether they end by event time."""
        self.lateness = allowed_lateness if self.by_event_time else 0
        """How long they are open beyond their end, in ms."""
        self._timers = timers
        self._now = timers.current_processing_time
        self._register = timers.register_processing_time_timer
        self._delete = timers.delete_processing_time_timer
        if self.by_event_time:
            self._now = timers.current_watermark
            self._register = timers.register_event_time_timer
            self._delete = timers.delete_event_time_timer

    def time(self, window: Window) -> int:
        """When a window ends, in ms: its contents are freed then."""
        if not self.lateness:
            return window.max_timestamp()
        return min(window.max_timestamp() + self.lateness, MAX_WATERMARK)

    def is_late(self, window: Window, watermark: int) -> bool:
        """Whether a window is over for elements to come; by the clock it never is."""
        return self.by_event_time and self.time(window) <= watermark

    def register(self, window: Window) -> None:
        """Have a timer tell when a window, the current one, ends; none tells of the end of time."""
        time = self.time(window)
        if time < MAX_WATERMARK:
            self._register(time)

    def is_registered(self, window: Window) -> bool:
        """Whether a timer of event time tells when a window, the current one, ends."""
        return self._timers.has_event_time_timer(self.time(window))

    def delete(self, window: Window) -> None:
        """Forget that timer."""
        self._delete(self.time(window))

    def refuse_passed(self, window: Window) -> None:
        """Refuse what no assigner of ours does: a merged window that is over.

        Raises:
            DeclarationError: It is.
        """
        now = self._now()
        if self.time(window) <= now:
            time = "event" if self.by_event_time else "processing"
            msg = (
                f"the end of a window of {time} time must not become earlier than now by merging, "
                f"got {window!r} at {now}; merge into a window that covers all of them"
            )
            raise DeclarationError(msg)
