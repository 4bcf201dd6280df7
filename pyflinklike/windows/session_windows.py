# SPDX-License-Identifier: Apache-2.0
"""Session windows: elements of a key that are not further apart than a gap.

An element's own window is from its time to that and the gap; windows that intersect become one.
Two that touch do as well: [0, 5) and [5, 10) are one session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, Generic

from pyflinklike.checks import is_int
from pyflinklike.clock import DurationLike, to_milliseconds
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.shown import instance_of, shown
from pyflinklike.type_vars import T
from pyflinklike.windows.assigner import MergingWindowAssigner, WindowAssigner, timed
from pyflinklike.windows.checks import noting_plain
from pyflinklike.windows.kinds import (
    MergeCallback,
    TimeWindow,
    TimeWindowSerializer,
    WindowSerializer,
)
from pyflinklike.windows.trigger import Trigger
from pyflinklike.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger

__all__ = [
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "SessionWindows",
]


class SessionWindowTimeGapExtractor(ABC, Generic[T]):
    """Tells the gap of sessions by the element."""

    @abstractmethod
    def extract(self, element: T) -> int:
        """How long after this element a session goes on, in ms; positive."""


class SessionWindows(MergingWindowAssigner[T, TimeWindow]):
    """Sessions.

    Args:
        gap: In ms; or what tells it by the element.
    """

    def __init__(self, gap: int | SessionWindowTimeGapExtractor[T]) -> None:
        self._gap = gap
        self._extract = None if isinstance(gap, int) else _extracting(gap, type(self).__name__)
        if isinstance(gap, int) and gap <= 0:
            msg = (
                f"{type(self).__name__} parameters must satisfy 0 < size, got a gap of {gap} ms; "
                "give a positive one"
            )
            raise DeclarationValueError(msg)

    def _windows(self, element: T, time: int) -> Collection[TimeWindow]:
        gap: Any = self._gap if self._extract is None else self._extract(element)
        if not is_int(gap) or gap <= 0:
            msg = (
                f"Dynamic session time gap must satisfy 0 < gap, got {shown(gap)} for element "
                f"{shown(element)}; give a positive int of ms"
            )
            raise DeclarationValueError(msg)
        return (TimeWindow(time, time + gap),)

    def merge_windows(
        self,
        windows: Iterable[TimeWindow],
        callback: MergeCallback[TimeWindow],
    ) -> None:
        """Those that intersect."""
        TimeWindow.merge_windows(windows, callback)

    def get_window_serializer(self) -> WindowSerializer[TimeWindow]:
        """That of time windows."""
        return TimeWindowSerializer()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SessionWindows)
            and type(self) is type(other)
            and self._gap == other._gap
        )

    def __hash__(self) -> int:
        return hash((type(self), self._gap))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._gap!r})"


def _extracting(extractor: Any, name: str) -> Callable[[Any], int]:
    if not isinstance(extractor, SessionWindowTimeGapExtractor):
        remedy = instance_of(SessionWindowTimeGapExtractor, extractor, "subclass it")
        msg = f"{name} takes a SessionWindowTimeGapExtractor, got {shown(extractor)}; {remedy}"
        raise DeclarationTypeError(msg)
    return extractor.extract


class _OfEventTime(SessionWindows[T]):
    """Sessions by the timestamps of elements."""

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """From the timestamp to that and the gap.

        Raises:
            DeclarationValueError: The element has no timestamp, or a gap is not positive.
        """
        return self._windows(element, timed(timestamp, self))

    def get_default_trigger(self, env: Any = None) -> Trigger[T, TimeWindow]:
        """An `EventTimeTrigger`."""
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        """True."""
        return True


class _OfProcessingTime(SessionWindows[T]):
    """Sessions by the time at which elements are processed."""

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """From the processing time to that and the gap.

        Raises:
            DeclarationValueError: A gap is not positive.
        """
        return self._windows(element, context.get_current_processing_time())

    def get_default_trigger(self, env: Any = None) -> Trigger[T, TimeWindow]:
        """A `ProcessingTimeTrigger`."""
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        """False."""
        return False


class DynamicEventTimeSessionWindows(_OfEventTime[T]):
    """Sessions of event time whose gap each element tells."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[Any],
    ) -> DynamicEventTimeSessionWindows[Any]:
        """Sessions with the gap that the extractor gives."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_OfProcessingTime[T]):
    """Sessions of processing time whose gap each element tells."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[Any],
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Sessions with the gap that the extractor gives."""
        return DynamicProcessingTimeSessionWindows(extractor)


class EventTimeSessionWindows(_OfEventTime[T]):
    """Sessions of event time.

    Args:
        session_gap: In ms.

    Raises:
        DeclarationValueError: It is not positive.
    """

    def __init__(self, session_gap: int) -> None:
        super().__init__(to_milliseconds(session_gap, "EventTimeSessionWindows: the gap"))

    @staticmethod
    def with_gap(size: DurationLike) -> EventTimeSessionWindows[Any]:
        """Sessions with one gap: `Time`, `Duration`, `timedelta` or an int of ms."""
        return noting_plain(
            EventTimeSessionWindows(to_milliseconds(size, "the gap of sessions")), size
        )

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[Any],
    ) -> DynamicEventTimeSessionWindows[Any]:
        """Sessions with the gap that the extractor gives."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_OfProcessingTime[T]):
    """Sessions of processing time; as `EventTimeSessionWindows`."""

    def __init__(self, session_gap: int) -> None:
        super().__init__(to_milliseconds(session_gap, "ProcessingTimeSessionWindows: the gap"))

    @staticmethod
    def with_gap(size: DurationLike) -> ProcessingTimeSessionWindows[Any]:
        """Sessions with one gap: `Time`, `Duration`, `timedelta` or an int of ms."""
        return noting_plain(
            ProcessingTimeSessionWindows(to_milliseconds(size, "the gap of sessions")), size
        )

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[Any],
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Sessions with the gap that the extractor gives."""
        return DynamicProcessingTimeSessionWindows(extractor)
