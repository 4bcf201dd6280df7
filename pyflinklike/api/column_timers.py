# SPDX-License-Identifier: Apache-2.0
"""The timers of a `KeyedBatchFunction`, registered and deleted as columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["ColumnTimerService"]


class ColumnTimerService(ABC):
    """The clock, and the timers of the batch's keys.

    Every method that takes `timestamps` takes one for each group of the batch, or one for all: ints
    of ms, as a NumPy or Arrow array.  `where`, a NumPy array of bools, chooses among them.  With
    `codes`, the group of each timestamp, there may be any number of timestamps:
    `codes=batch.groups.codes` takes one for each record.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time in ms; it stands still during a call."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the watermark in ms; `MIN_WATERMARK` before the first one."""

    @abstractmethod
    def register_event_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Have `on_timers` called for these keys when the watermark reaches their `timestamps`.

        Raises:
            DeclarationError: The function has no `on_timers`.
            HostError: The host cannot fire such timers; the message has the remedy.
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: The timestamps are no ints of 64 bits, or not as many as groups or
                codes.
        """

    @abstractmethod
    def register_processing_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Have `on_timers` called when the processing time reaches `timestamps`."""

    @abstractmethod
    def delete_event_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Delete event-time timers of these keys; where there is none, nothing happens.

        Raises:
            StateAccessError: It was called outside `process_batch` and `on_timers`.
            StateValueError: The timestamps are no ints of 64 bits, or not as many as groups or
                codes.
        """

    @abstractmethod
    def delete_processing_time_timer(
        self, timestamps: Any, where: Any = None, codes: Any = None
    ) -> None:
        """Delete processing-time timers of these keys, as `delete_event_time_timer` does."""
