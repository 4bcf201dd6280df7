# SPDX-License-Identifier: Apache-2.0
"""Window assigners: they say in which windows an element is.

* Tumbling and sliding windows begin at a multiple of their length (or slide) since 1970 in UTC,
  moved by the offset: days in UTC+8 are
  `TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))`.
* In session windows each element has a window that begins at its time and is as long as the gap,
  and windows that intersect become one.  Windows that touch do as well: [0, 5) and [5, 10) are one
  session.
* Count windows are PyFlink's, not Java's: each window has exactly `n` elements, so a sliding one
  yields nothing before `n` elements have come, and an incomplete window never fires.  Unlike
  PyFlink's, they drop their contents after firing, which saves space and changes no result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic

import attrs

from pyflinklike._checks import check_count, is_int, note_plain
from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import T, V, W
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.contexts import RuntimeContext
from pyflinklike.state.descriptors import ValueStateDescriptor
from pyflinklike.state.fold_functions import adopt
from pyflinklike.state.table import Setting, TableSpec
from pyflinklike.types import Types
from pyflinklike.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from pyflinklike.windows.window_kinds import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    MergeCallback,
    TimeWindow,
    TimeWindowSerializer,
    WindowSerializer,
)


class WindowAssigner(ABC, Generic[T, W]):
    """The rule that assigns each element to no, one or several windows."""

    class WindowAssignerContext(ABC):
        """The time and the runtime of the operator, for an assigner."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in ms."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return the operator's context, whose states belong to the key of the element."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """Return the windows of an element.

        Args:
            element: The element that is put into windows.
            timestamp: Its event time in ms; None for an element without event time.
            context: The processing time and the states of the element's key.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any = None) -> Trigger[T, W]:
        """Return the trigger of windows if the user does not give one.

        Args:
            env: The environment of a job, None elsewhere; the assigners here do not use it.
                An assigner may also have no such parameter, or have it without a default as in
                PyFlink.
        """

    @abstractmethod
    def get_window_serializer(self) -> WindowSerializer[W]:
        """Return the serializer that makes windows namespaces of state."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether windows follow event time, so that an element can be late."""

    def fixed(self) -> str | None:
        """Return in words the settings that a restart must not change, such as "count windows of 5".

        None means that other windows can go on with the stored state.  Windows of time of another
        size can: each stored window keeps the end that it had.
        """
        return None

    def descriptors(self) -> Sequence[ValueStateDescriptor[Any]]:
        """Return the states that the assigner keeps of a key; their names are reserved."""
        return ()


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can become one, such as sessions."""

    class MergeCallback(MergeCallback[V]):
        """The receiver of the groups that `merge_windows` finds, by PyFlink's name."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergeCallback[W]) -> None:
        """Find the windows to merge.

        Args:
            windows: All windows of a key; at most one of them is new.
            callback: Gets one call for each group that becomes one window.
        """


def check_timed(timestamp: int | None, assigner: WindowAssigner[Any, Any]) -> int:
    """Return a timestamp, and refuse an element without one.

    Raises:
        DeclarationValueError: The timestamp is None.
    """
    if timestamp is None:
        # PyFlink's words are in the message, since users search for them.
        msg = (
            f"{type(assigner).__name__} needs elements with a timestamp, got {short_repr(timestamp)} "
            "(what PyFlink calls a record with Java's Long.MIN_VALUE timestamp); in a job call "
            "assign_timestamps_and_watermarks before it, over DataFrames give event_time, or use "
            "windows of processing time"
        )
        raise DeclarationValueError(msg)
    return timestamp


def make_windows_setting(words: str) -> Setting:
    """Make the setting by which a restart refuses other windows.

    Args:
        words: The result of the assigner's `fixed`.
    """
    remedy = "keep the former, or begin a new checkpoint"
    return Setting("the windows", words, remedy=remedy)


def kind_of(assigner: WindowAssigner[Any, Any]) -> str:
    """Name the kind of windows for stored contents: windows of one kind end in the same way."""
    time = "event time" if assigner.is_event_time() else "processing time"
    kind = "merging windows" if isinstance(assigner, MergingWindowAssigner) else "windows"
    return f"{kind} of {time}"


# Windows of time


class _TimeWindows(WindowAssigner[T, TimeWindow]):
    """Windows of time; `_ByEventTime` and `_ByProcessingTime` say by which clock."""

    @abstractmethod
    def _windows(self, element: T, time: int) -> Collection[TimeWindow]:
        """Return the windows of an element that comes at a time in ms."""

    @abstractmethod
    def _settings(self) -> tuple[Any, ...]:
        """Return the values that distinguish assigners of one class."""

    def get_window_serializer(self) -> WindowSerializer[TimeWindow]:
        """Return the serializer of time windows."""
        return TimeWindowSerializer()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _TimeWindows)
            and type(self) is type(other)
            and self._settings() == other._settings()
        )

    def __hash__(self) -> int:
        return hash((type(self), self._settings()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._settings()))})"


class _ByEventTime(_TimeWindows[T]):
    """Windows by the timestamps of elements."""

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Return the windows of the element: those that hold its timestamp, or its session.

        Raises:
            DeclarationValueError: The element has no timestamp, or a gap is not positive.
        """
        time = check_timed(timestamp, self) if timestamp is None else timestamp
        return self._windows(element, time)

    def get_default_trigger(self, env: Any = None) -> Trigger[T, TimeWindow]:
        """Return an `EventTimeTrigger`."""
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class _ByProcessingTime(_TimeWindows[T]):
    """Windows by the time at which elements are processed."""

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Return the windows of the element: those that hold the processing time, or its session.

        Raises:
            DeclarationValueError: A gap is not positive.
        """
        return self._windows(element, context.get_current_processing_time())

    def get_default_trigger(self, env: Any = None) -> Trigger[T, TimeWindow]:
        """Return a `ProcessingTimeTrigger`."""
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


# Windows of one length

# Neighbouring elements are mostly in the same windows, and a window never changes, so one object
# for each window serves many elements.
_REMEMBERED = 4096


class _AlignedWindows(_TimeWindows[T]):
    """Windows of one length that begin at the same times for all keys.

    Args:
        size: The length in ms.
        slide: The time in ms between the beginnings of two windows.
        offset: The time in ms by which the beginnings are moved.
    """

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self._size, self._slide, self._offset = size, slide, offset
        # All times between two beginnings are in the same windows only if no window ends between
        # them, that is if the size is a multiple of the slide.
        self._fit = size % slide == 0
        self._edges = offset, offset + size
        self._remembered: dict[int, Sequence[TimeWindow]] = {}

    def _windows(
        self,
        element: T | None,
        time: int,
    ) -> Sequence[TimeWindow]:
        """Return the windows that hold a time, newest first; in a gap, none."""
        last = time - (time - self._offset) % self._slide
        windows = self._remembered.get(last) if self._fit else None
        if windows is None:
            size = self._size
            windows = tuple(
                TimeWindow(start, start + size) for start in range(last, time - size, -self._slide)
            )
            # Cleared as a whole: times move on, so most of it is out of use by then.
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            if self._fit:
                self._remembered[last] = windows
        return windows

    @property
    def overlap(self) -> bool:
        """Whether a time can be in several windows."""
        return self._size > self._slide

    def find_spell(self, time: int) -> tuple[int, int, Sequence[TimeWindow]]:
        """Return the span of times around one that are in the same windows, and these windows.

        Returns:
            The first such time, the time after the last one, and the windows, newest first.
        """
        slide = self._slide
        since_start, since_end = ((time - at) % slide for at in self._edges)
        low = time - min(since_start, since_end)
        high = time + slide - max(since_start, since_end)
        return low, high, self._windows(None, time)

    def _settings(self) -> tuple[Any, ...]:
        return self._size, self._slide, self._offset

    # Without the remembered windows: a worker makes its own.
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_remembered": {}}


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

    def _settings(self) -> tuple[Any, ...]:
        return self._size, self._offset


class _SlidingWindows(_AlignedWindows[T]):
    """Windows that overlap, or that leave gaps if the slide is longer than the size."""

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


class TumblingEventTimeWindows(_ByEventTime[T], _TumblingWindows[T]):
    """Windows of event time, one after another, of one length.

    Args:
        size: The length in ms.
        offset: The time in ms by which the beginnings are moved.

    Raises:
        DeclarationValueError: The size is not positive, or the offset is not smaller than it.
    """

    @staticmethod
    def of(size: DurationLike, offset: DurationLike | None = None) -> TumblingEventTimeWindows[Any]:
        """Make windows of a size, moved by an offset.

        Args:
            size: The length: a `Time`, `Duration`, `timedelta` or an int of ms.
            offset: The time by which the beginnings are moved, of the same types; None for 0.
        """
        return note_plain(TumblingEventTimeWindows(*_lengths(size, offset)), size)


class TumblingProcessingTimeWindows(_ByProcessingTime[T], _TumblingWindows[T]):
    """Windows of processing time, one after another, of one length.

    It takes the arguments of `TumblingEventTimeWindows`.
    """

    @staticmethod
    def of(
        size: DurationLike, offset: DurationLike | None = None
    ) -> TumblingProcessingTimeWindows[Any]:
        """Make windows of a size, moved by an offset.

        Args:
            size: The length: a `Time`, `Duration`, `timedelta` or an int of ms.
            offset: The time by which the beginnings are moved, of the same types; None for 0.
        """
        return note_plain(TumblingProcessingTimeWindows(*_lengths(size, offset)), size)


class SlidingEventTimeWindows(_ByEventTime[T], _SlidingWindows[T]):
    """Windows of event time, of one length; a window begins at every slide.

    Args:
        size: The length in ms.
        slide: The time in ms between the beginnings of two windows.
        offset: The time in ms by which the beginnings are moved.

    Raises:
        DeclarationValueError: Size or slide are not positive, or the offset is not smaller
            than the slide.
    """

    @staticmethod
    def of(
        size: DurationLike, slide: DurationLike, offset: DurationLike | None = None
    ) -> SlidingEventTimeWindows[Any]:
        """Make windows of a size; a window begins at every slide.

        Args:
            size: The length: a `Time`, `Duration`, `timedelta` or an int of ms.
            slide: The time between the beginnings of two windows, of the same types.
            offset: The time by which the beginnings are moved, of the same types; None for 0.
        """
        return note_plain(SlidingEventTimeWindows(*_lengths(size, slide, offset)), size, slide)


class SlidingProcessingTimeWindows(_ByProcessingTime[T], _SlidingWindows[T]):
    """Windows of processing time; a window begins at every slide.

    It takes the arguments of `SlidingEventTimeWindows`.
    """

    @staticmethod
    def of(
        size: DurationLike, slide: DurationLike, offset: DurationLike | None = None
    ) -> SlidingProcessingTimeWindows[Any]:
        """Make windows of a size; a window begins at every slide.

        Args:
            size: The length: a `Time`, `Duration`, `timedelta` or an int of ms.
            slide: The time between the beginnings of two windows, of the same types.
            offset: The time by which the beginnings are moved, of the same types; None for 0.
        """
        return note_plain(SlidingProcessingTimeWindows(*_lengths(size, slide, offset)), size, slide)


def _lengths(*lengths: DurationLike | None) -> list[int]:
    """Convert lengths to ms; None is 0."""
    return [0 if each is None else to_milliseconds(each, "a window's length") for each in lengths]


# Sessions


class SessionWindowTimeGapExtractor(ABC, Generic[T]):
    """A function that determines the gap of a session from its elements."""

    @abstractmethod
    def extract(self, element: T) -> int:
        """Return how long the session goes on after this element, in ms; positive."""


class SessionWindows(MergingWindowAssigner[T, TimeWindow], _TimeWindows[T]):
    """Windows of elements of a key that are not further apart than a gap.

    Args:
        gap: The gap in ms, or the extractor that determines it for each element.
    """

    def __init__(self, gap: int | SessionWindowTimeGapExtractor[T]) -> None:
        self._gap = gap
        self._extract = None if isinstance(gap, int) else _make_extractor(gap, type(self).__name__)
        if isinstance(gap, int) and gap <= 0:
            msg = (
                f"{type(self).__name__} parameters must satisfy 0 < size, got a gap of {gap} ms; "
                "give a positive one"
            )
            raise DeclarationValueError(msg)

    @property
    def fixed_gap(self) -> int | None:
        """The gap in ms; None if it depends on the element."""
        return self._gap if isinstance(self._gap, int) else None

    def _windows(self, element: T, time: int) -> Collection[TimeWindow]:
        # An extractor is the user's code, so its result is checked for every element.
        gap: Any = self._gap if self._extract is None else self._extract(element)
        if not is_int(gap) or gap <= 0:
            msg = (
                f"Dynamic session time gap must satisfy 0 < gap, got {short_repr(gap)} for element "
                f"{short_repr(element)}; give a positive int of ms"
            )
            raise DeclarationValueError(msg)
        return (TimeWindow(time, time + gap),)

    def merge_windows(
        self,
        windows: Iterable[TimeWindow],
        callback: MergeCallback[TimeWindow],
    ) -> None:
        """Merge the windows that intersect."""
        TimeWindow.merge_windows(windows, callback)

    def _settings(self) -> tuple[Any, ...]:
        return (self._gap,)


def _make_extractor(extractor: Any, name: str) -> Callable[[Any], int]:
    extractor = adopt(extractor, SessionWindowTimeGapExtractor)
    if not isinstance(extractor, SessionWindowTimeGapExtractor):
        otherwise = "give an object that has extract"
        remedy = instance_of(SessionWindowTimeGapExtractor, extractor, otherwise)
        msg = f"{name} takes a SessionWindowTimeGapExtractor, got {short_repr(extractor)}; {remedy}"
        raise DeclarationTypeError(msg)
    return extractor.extract


class DynamicEventTimeSessionWindows(_ByEventTime[T], SessionWindows[T]):
    """Sessions of event time whose gap depends on the element.

    Args:
        session_window_time_gap_extractor: Determines the gap of an element.
    """

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor[T]) -> None:
        super().__init__(session_window_time_gap_extractor)

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[Any],
    ) -> DynamicEventTimeSessionWindows[Any]:
        """Make sessions with the gaps that an extractor returns."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_ByProcessingTime[T], SessionWindows[T]):
    """Sessions of processing time whose gap depends on the element.

    Args:
        session_window_time_gap_extractor: Determines the gap of an element.
    """

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor[T]) -> None:
        super().__init__(session_window_time_gap_extractor)

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[Any],
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Make sessions with the gaps that an extractor returns."""
        return DynamicProcessingTimeSessionWindows(extractor)


class EventTimeSessionWindows(_ByEventTime[T], SessionWindows[T]):
    """Sessions of event time.

    Args:
        session_gap: The gap in ms.

    Raises:
        DeclarationValueError: The gap is not positive.
    """

    def __init__(self, session_gap: int) -> None:
        super().__init__(to_milliseconds(session_gap, "EventTimeSessionWindows: the gap"))

    @staticmethod
    def with_gap(size: DurationLike) -> EventTimeSessionWindows[Any]:
        """Make sessions with one gap: `Time`, `Duration`, `timedelta` or an int of ms."""
        return note_plain(
            EventTimeSessionWindows(to_milliseconds(size, "the gap of sessions")), size
        )

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[Any],
    ) -> DynamicEventTimeSessionWindows[Any]:
        """Make sessions with the gaps that an extractor returns."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_ByProcessingTime[T], SessionWindows[T]):
    """Sessions of processing time.

    Args:
        session_gap: The gap in ms.

    Raises:
        DeclarationValueError: The gap is not positive.
    """

    def __init__(self, session_gap: int) -> None:
        super().__init__(to_milliseconds(session_gap, "ProcessingTimeSessionWindows: the gap"))

    @staticmethod
    def with_gap(size: DurationLike) -> ProcessingTimeSessionWindows[Any]:
        """Make sessions with one gap: `Time`, `Duration`, `timedelta` or an int of ms."""
        return note_plain(
            ProcessingTimeSessionWindows(to_milliseconds(size, "the gap of sessions")), size
        )

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[Any],
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Make sessions with the gaps that an extractor returns."""
        return DynamicProcessingTimeSessionWindows(extractor)


# Windows by the number of elements, and the one window of all elements


class _CountDescriptor(ValueStateDescriptor[int]):
    """The number of elements of a key so far, which determines the next one's windows.

    Args:
        name: The name of the state.
        windows: Size and slide, which a restart must not change.
    """

    def __init__(self, name: str, windows: Setting) -> None:
        super().__init__(name, Types.LONG())
        self._windows = windows

    def spec(self) -> TableSpec:
        """Return the spec of the table, with the windows among its settings."""
        return attrs.evolve(super().spec(), settings=(self._windows,))


class _CountWindows(WindowAssigner[T, CountWindow]):
    """Windows of a number of elements of a key.

    Args:
        name: The name of the state that numbers the elements.
        size: The number of elements in a window.
        slide: The number of elements from the first of one window to the first of the next.
    """

    def __init__(self, name: str, size: int, slide: int) -> None:
        self._size, self._slide = size, slide
        self._count = _CountDescriptor(name, make_windows_setting(self.fixed()))

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        """Number the element under its key, from 0, and return its windows, newest first."""
        state = context.get_runtime_context().get_state(self._count)
        number = state.value() or 0
        state.update(number + 1)
        # Window w holds the elements from w * slide to w * slide + size - 1.
        newest = number // self._slide
        oldest = max(0, (number - self._size) // self._slide + 1)
        return [CountWindow(each) for each in range(newest, oldest - 1, -1)]

    def get_default_trigger(self, env: Any = None) -> Trigger[T, CountWindow]:
        """Return a trigger that fires when the window is full, and drops its contents."""
        return PurgingTrigger(CountTrigger(self._size))

    def get_window_serializer(self) -> WindowSerializer[CountWindow]:
        """Return the serializer of count windows."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False

    def fixed(self) -> str:
        """Return size and slide in words: with others the count of elements gives other windows."""
        words = f"count windows of {self._size}"
        return words if self._size == self._slide else f"{words}, one at every {self._slide}"

    def descriptors(self) -> Sequence[ValueStateDescriptor[Any]]:
        """Return the state that numbers the elements."""
        return (self._count,)


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Windows of a number of elements of a key, one after another.

    Args:
        window_size: The number of elements in a window.

    Raises:
        DeclarationValueError: The number is less than 1.
    """

    def __init__(self, window_size: int) -> None:
        size = check_count(window_size, "CountTumblingWindowAssigner: the size")
        super().__init__("tumble-count-assigner", size, size)

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Any]:
        """Make windows of a number of elements."""
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._size})"


class CountSlidingWindowAssigner(_CountWindows[T]):
    """Windows of a number of elements of a key that may overlap.

    Args:
        window_size: The number of elements in a window.
        window_slide: The number of elements from the first of one window to the first of the next.

    Raises:
        DeclarationValueError: A number is less than 1.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        size = check_count(window_size, "CountSlidingWindowAssigner: the size")
        slide = check_count(window_slide, "CountSlidingWindowAssigner: the slide")
        super().__init__("slide-count-assigner", size, slide)

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Any]:
        """Make windows of a number of elements; a window begins at every slide."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._size}, {self._slide})"


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """All elements of a key in one window, which never ends; a trigger makes it useful."""

    @staticmethod
    def create() -> GlobalWindows[Any]:
        """Make the assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        """Return the one window."""
        return (_THE_WINDOW,)

    def get_default_trigger(self, env: Any = None) -> Trigger[T, GlobalWindow]:
        """Return a `NeverTrigger`."""
        return NeverTrigger()

    def get_window_serializer(self) -> WindowSerializer[GlobalWindow]:
        """Return the serializer of the global window."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False

    def fixed(self) -> str:
        """Return that there is one window, in words."""
        return "the global window"

    def __repr__(self) -> str:
        return "GlobalWindows()"


_THE_WINDOW = GlobalWindow.get()
