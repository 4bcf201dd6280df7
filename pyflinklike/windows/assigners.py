# SPDX-License-Identifier: Apache-2.0
"""What says in which windows an element is.

Tumbling and sliding windows of time.

A window begins at a multiple of its length (or slide) since 1970 in UTC, moved by the offset:
days in UTC+8 are `TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))`.

Assigners hand out one object for one window again and again: neighbouring elements are mostly in
the same windows, and a window is never changed.

Session windows: elements of a key that are not further apart than a gap.

An element's own window is from its time to that and the gap; windows that intersect become one.
Two that touch do as well: [0, 5) and [5, 10) are one session.

Windows by the number of elements, and the one window of all of them.

Count windows are PyFlink's, not Java's: each is a window of its own of exactly `n` elements, so a
sliding one gives nothing before `n` have come, and what is left at the end never fires.  Unlike
PyFlink's they drop their contents when they have fired, which nobody sees but the disk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic

import attrs

from pyflinklike.engine.api.contexts import RuntimeContext
from pyflinklike.engine.checks import counted, is_int, noting_plain
from pyflinklike.engine.clock import DurationLike, to_milliseconds
from pyflinklike.engine.shown import instance_of, shown
from pyflinklike.engine.state.descriptors import ValueStateDescriptor
from pyflinklike.engine.state.table import Setting, TableSpec
from pyflinklike.engine.type_vars import T, V, W
from pyflinklike.engine.types import Types
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
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

__all__ = [
    "CountSlidingWindowAssigner",
    "CountTumblingWindowAssigner",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "GlobalWindows",
    "MergingWindowAssigner",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "SessionWindows",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
    "fixed_windows",
    "kind_of",
    "timed",
]


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each element to no, one or several windows."""

    class WindowAssignerContext(ABC):
        """What an assigner may ask."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The processing time in ms."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Where the operator runs; its states belong to the key of the element."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """The windows of an element.

        Args:
            element: The element.
            timestamp: Its event time in ms; None if it has none.
            context: For an assigner that needs more.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any = None) -> Trigger[T, W]:
        """The trigger where none is given.

        Args:
            env: The environment of a job, None elsewhere; ours do not use it.  An assigner that
                takes none, or takes it without a default as in PyFlink, is asked accordingly.
        """

    @abstractmethod
    def get_window_serializer(self) -> WindowSerializer[W]:
        """How its windows are namespaces of state."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows follow event time, so that an element can be late for one."""

    def fixed(self) -> str | None:
        """What a restart may not change of its windows, in words: "count windows of 5".

        None where others can go on with what it leaves, as with windows of time of another size:
        each ends when it was to end.
        """
        return None

    def descriptors(self) -> Sequence[ValueStateDescriptor[Any]]:
        """Of the states that it keeps of a key, whose names are no others' then."""
        return ()


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can become one, such as sessions."""

    class MergeCallback(MergeCallback[V]):
        """What `merge_windows` tells its findings to, by PyFlink's name."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergeCallback[W]) -> None:
        """Tell which windows are to be merged.

        Args:
            windows: All of a key; at most one of them is new.
            callback: Is called for each group that becomes one window.
        """


def timed(timestamp: int | None, assigner: WindowAssigner[Any, Any]) -> int:
    """A timestamp that is there.

    Raises:
        DeclarationValueError: The element has none.
    """
    if timestamp is None:
        msg = (
            f"{type(assigner).__name__} needs elements with a timestamp, got {shown(timestamp)} "
            "(what PyFlink calls a record with Java's Long.MIN_VALUE timestamp); in a job call "
            "assign_timestamps_and_watermarks before it, over DataFrames give event_time, or use "
            "windows of processing time"
        )
        raise DeclarationValueError(msg)
    return timestamp


def fixed_windows(words: str) -> Setting:
    """What a restart may not change of windows, as a setting of the states that depend on it.

    Args:
        words: What `fixed` of their assigner says.
    """
    remedy = "keep the former, or begin a new checkpoint"
    return Setting("the windows", words, remedy=remedy)


def kind_of(assigner: WindowAssigner[Any, Any]) -> str:
    """What windows are called where their contents are kept: those of one kind end in one way."""
    time = "event time" if assigner.is_event_time() else "processing time"
    kind = "merging windows" if isinstance(assigner, MergingWindowAssigner) else "windows"
    return f"{kind} of {time}"


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


class _SessionsOfEventTime(SessionWindows[T]):
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


class _SessionsOfProcessingTime(SessionWindows[T]):
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


class DynamicEventTimeSessionWindows(_SessionsOfEventTime[T]):
    """Sessions of event time whose gap each element tells."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[Any],
    ) -> DynamicEventTimeSessionWindows[Any]:
        """Sessions with the gap that the extractor gives."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_SessionsOfProcessingTime[T]):
    """Sessions of processing time whose gap each element tells."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[Any],
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Sessions with the gap that the extractor gives."""
        return DynamicProcessingTimeSessionWindows(extractor)


class EventTimeSessionWindows(_SessionsOfEventTime[T]):
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


class ProcessingTimeSessionWindows(_SessionsOfProcessingTime[T]):
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


class _CountDescriptor(ValueStateDescriptor[int]):
    """The number of elements of a key, which says in which windows the next one is.

    Args:
        name: Of the state.
        windows: Size and slide.
    """

    def __init__(self, name: str, windows: Setting) -> None:
        super().__init__(name, Types.LONG())
        self._windows = windows

    def spec(self) -> TableSpec:
        """What the backend and the log need to know."""
        return attrs.evolve(super().spec(), settings=(self._windows,))


class _CountWindows(WindowAssigner[T, CountWindow]):
    """Windows of a number of elements of a key.

    Args:
        name: Of the state that numbers the elements.
        size: How many elements a window has.
        slide: How many lie between the first of one window and that of the next.
    """

    def __init__(self, name: str, size: int, slide: int) -> None:
        self._size, self._slide = size, slide
        self._count = _CountDescriptor(name, fixed_windows(self.fixed()))

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        """The windows of the number that the element has under its key, from 0; newest first."""
        state = context.get_runtime_context().get_state(self._count)
        number = state.value() or 0
        state.update(number + 1)
        newest = number // self._slide
        oldest = max(0, (number - self._size) // self._slide + 1)
        return [CountWindow(each) for each in range(newest, oldest - 1, -1)]

    def get_default_trigger(self, env: Any = None) -> Trigger[T, CountWindow]:
        """Fires when the window is full, and drops what is in it."""
        return PurgingTrigger(CountTrigger(self._size))

    def get_window_serializer(self) -> WindowSerializer[CountWindow]:
        """That of count windows."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """False."""
        return False

    def fixed(self) -> str:
        """Its size and slide: the number of an element says in which windows it is."""
        words = f"count windows of {self._size}"
        return words if self._size == self._slide else f"{words}, one at every {self._slide}"

    def descriptors(self) -> Sequence[ValueStateDescriptor[Any]]:
        """Of the count."""
        return (self._count,)


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Windows of so many elements of a key, one after another.

    Args:
        window_size: How many.

    Raises:
        DeclarationValueError: It is less than 1.
    """

    def __init__(self, window_size: int) -> None:
        size = counted(window_size, "CountTumblingWindowAssigner: the size")
        super().__init__("tumble-count-assigner", size, size)

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Any]:
        """Windows of so many elements."""
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._size})"


class CountSlidingWindowAssigner(_CountWindows[T]):
    """Windows of so many elements of a key, one of which begins at every so-many-th element.

    Args:
        window_size: How many elements one has.
        window_slide: At every which element one begins.

    Raises:
        DeclarationValueError: One of them is less than 1.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        size = counted(window_size, "CountSlidingWindowAssigner: the size")
        slide = counted(window_slide, "CountSlidingWindowAssigner: the slide")
        super().__init__("slide-count-assigner", size, slide)

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Any]:
        """Windows of so many elements at every so-many-th."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._size}, {self._slide})"


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """All elements of a key in one window, which never ends; a trigger makes it useful."""

    @staticmethod
    def create() -> GlobalWindows[Any]:
        """The assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: T, timestamp: int | None, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        """The one window."""
        return (_THE_WINDOW,)

    def get_default_trigger(self, env: Any = None) -> Trigger[T, GlobalWindow]:
        """A `NeverTrigger`."""
        return NeverTrigger()

    def get_window_serializer(self) -> WindowSerializer[GlobalWindow]:
        """That of the global window."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """False."""
        return False

    def fixed(self) -> str:
        """That there is one."""
        return "the global window"

    def __repr__(self) -> str:
        return "GlobalWindows()"


_THE_WINDOW = GlobalWindow.get()
