# SPDX-License-Identifier: Apache-2.0
"""Tumbling and sliding windows of time.

A window begins at a multiple of its length (or slide) since 1970 in UTC, moved by the offset:
days in UTC+8 are `TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))`.

Assigners hand out one object for one window again and again: neighbouring elements are mostly in
the same windows, and a window is never changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pyflinklike.clock import DurationLike, to_milliseconds
from pyflinklike.errors import DeclarationValueError
from pyflinklike.type_vars import T
from pyflinklike.windows.assigner import WindowAssigner, timed
from pyflinklike.windows.checks import noting_plain
from pyflinklike.windows.kinds import TimeWindow, TimeWindowSerializer, WindowSerializer
from pyflinklike.windows.trigger import Trigger
from pyflinklike.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger

__all__ = [
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
]

_REMEMBERED = 4096


class _AlignedWindows(WindowAssigner[T, TimeWindow]):
    """Windows of one length that begin at the same times for all keys.

    Args:
        size: The length in ms.
        slide: The time in ms from the beginning of one to that of the next.
        offset: Moves the beginnings, in ms.
    """

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self._size, self._slide, self._offset = size, slide, offset
        # Where windows end is the same for all times between two beginnings only if they fit.
        self._fit = size % slide == 0
        self._remembered: dict[int, Sequence[TimeWindow]] = {}

    def _at(self, time: int) -> Sequence[TimeWindow]:
        """The windows that hold a time, newest first."""
        last = time - (time - self._offset) % self._slide
        windows = self._remembered.get(last) if self._fit else None
        if windows is None:
            size = self._size
            windows = tuple(
                TimeWindow(start, start + size) for start in range(last, time - size, -self._slide)
            )
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            if self._fit:
                self._remembered[last] = windows
        return windows

    def get_window_serializer(self) -> WindowSerializer[TimeWindow]:
        """That of time windows."""
        return TimeWindowSerializer()

    def _settings(self) -> tuple[int, ...]:
        return self._size, self._slide, self._offset

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_remembered": {}}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _AlignedWindows)
            and type(self) is type(other)
            and self._settings() == other._settings()
        )

    def __hash__(self) -> int:
        return hash((type(self), self._settings()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self._settings()))})"


class _TumblingWindows(_AlignedWindows[T]):
    """Windows that do not overlap."""

    def __init__(self, size: int, offset: int) -> None:
        name = type(self).__name__
        if size < 1 or abs(offset) >= size:
            msg = (
                f"{name} parameters must satisfy abs(offset) < size, got size {size} ms and "
                f"offset {offset} ms; give a positive size and a smaller offset"
            )
            raise DeclarationValueError(msg)
        super().__init__(size, size, offset)

    def _settings(self) -> tuple[int, ...]:
        return self._size, self._offset


class _SlidingWindows(_AlignedWindows[T]):
    """Windows that overlap, or, where the slide is longer than the size, have gaps between them."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        name = type(self).__name__
        if size < 1 or slide < 1 or abs(offset) >= slide:
            msg = (
                f"{name} parameters must satisfy abs(offset) < slide and size > 0, got size "
                f"{size} ms, slide {slide} ms and offset {offset} ms; give a positive size and "
                "slide and a smaller offset"
            )
            raise DeclarationValueError(msg)
        super().__init__(size, slide, offset)


class _OfEventTime(_AlignedWindows[T]):
    """Windows by the timestamps of elements."""

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """The windows that hold the timestamp, newest first; where there are gaps, maybe none.

        Raises:
            DeclarationValueError: The element has no timestamp.
        """
        return self._at(timed(timestamp, self) if timestamp is None else timestamp)

    def get_default_trigger(self, env: Any = None) -> Trigger[T, TimeWindow]:
        """An `EventTimeTrigger`."""
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        """True."""
        return True


class _OfProcessingTime(_AlignedWindows[T]):
    """Windows by the time at which elements are processed."""

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """The windows that hold the processing time, newest first; where there are gaps, maybe none."""
        return self._at(context.get_current_processing_time())

    def get_default_trigger(self, env: Any = None) -> Trigger[T, TimeWindow]:
        """A `ProcessingTimeTrigger`."""
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        """False."""
        return False


class TumblingEventTimeWindows(_OfEventTime[T], _TumblingWindows[T]):
    """Windows of event time, one after another, of one length.

    Args:
        size: The length in ms.
        offset: Moves the beginnings, in ms.

    Raises:
        DeclarationValueError: The size is not positive, or the offset not smaller.
    """

    @staticmethod
    def of(size: DurationLike, offset: DurationLike | None = None) -> TumblingEventTimeWindows[Any]:
        """Windows of a size, moved by an offset: `Time`, `Duration`, `timedelta` or ints of ms."""
        return noting_plain(TumblingEventTimeWindows(*_lengths(size, offset)), size)


class TumblingProcessingTimeWindows(_OfProcessingTime[T], _TumblingWindows[T]):
    """Windows of processing time, one after another; as `TumblingEventTimeWindows`."""

    @staticmethod
    def of(
        size: DurationLike, offset: DurationLike | None = None
    ) -> TumblingProcessingTimeWindows[Any]:
        """Windows of a size, moved by an offset: `Time`, `Duration`, `timedelta` or ints of ms."""
        return noting_plain(TumblingProcessingTimeWindows(*_lengths(size, offset)), size)


class SlidingEventTimeWindows(_OfEventTime[T], _SlidingWindows[T]):
    """Windows of event time, of one length, one of which begins at every slide.

    Args:
        size: The length in ms.
        slide: From the beginning of one to that of the next, in ms.
        offset: Moves the beginnings, in ms.

    Raises:
        DeclarationValueError: Size or slide are not positive, or the offset is not smaller
            than the slide.
    """

    @staticmethod
    def of(
        size: DurationLike, slide: DurationLike, offset: DurationLike | None = None
    ) -> SlidingEventTimeWindows[Any]:
        """Windows of a size at every slide: `Time`, `Duration`, `timedelta` or ints of ms."""
        return noting_plain(SlidingEventTimeWindows(*_lengths(size, slide, offset)), size, slide)


class SlidingProcessingTimeWindows(_OfProcessingTime[T], _SlidingWindows[T]):
    """Windows of processing time at every slide; as `SlidingEventTimeWindows`."""

    @staticmethod
    def of(
        size: DurationLike, slide: DurationLike, offset: DurationLike | None = None
    ) -> SlidingProcessingTimeWindows[Any]:
        """Windows of a size at every slide: `Time`, `Duration`, `timedelta` or ints of ms."""
        return noting_plain(
            SlidingProcessingTimeWindows(*_lengths(size, slide, offset)), size, slide
        )


def _lengths(*lengths: DurationLike | None) -> list[int]:
    """In ms; what is not given is 0."""
    return [0 if each is None else to_milliseconds(each, "a window's length") for each in lengths]
