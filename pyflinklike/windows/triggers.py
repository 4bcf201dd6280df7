# SPDX-License-Identifier: Apache-2.0
"""Triggers: they say when a window fires and when its contents are dropped, by Flink's rules.

Timers that a trigger registers while the watermark passes fire in order of time, also at the last
watermark (PyFlink delivers them in waves there, and so leaves some out: its quirk Q14).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

import attrs

from pyflinklike._checks import check_count
from pyflinklike._clock import MAX_WATERMARK, DurationLike, to_milliseconds
from pyflinklike._deprecation import INSIDE, WithoutJava
from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import T, W
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.functions.metric_group import MetricGroup
from pyflinklike.state.descriptors import ReducingStateDescriptor, StateDescriptor
from pyflinklike.state.fold_functions import adopt
from pyflinklike.state.table import Setting, TableSpec
from pyflinklike.types import Types
from pyflinklike.windows.window_kinds import TimeWindow

S = TypeVar("S")


class TriggerResult(Enum):
    """The decision of a trigger about its window."""

    CONTINUE = (False, False)
    """The window stays as it is."""
    FIRE_AND_PURGE = (True, True)
    """The function is applied to the contents, and they are dropped."""
    FIRE = (True, False)
    """The function is applied to the contents, which stay."""
    PURGE = (False, True)
    """The contents are dropped; the trigger's state and the window stay."""

    def is_fire(self) -> bool:
        """Return whether the function is applied; it is never applied to empty contents."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the contents are dropped."""
        return self.value[1]


class Trigger(WithoutJava, ABC, Generic[T, W]):
    """The rule by which windows fire, as `pyflink.datastream.Trigger`.

    One object serves all windows of all keys.  It keeps what it must remember of a window in
    `ctx.get_partitioned_state`, and not in its attributes.
    """

    _refused = {"register_next_fire_timestamp": INSIDE}

    class TriggerContext(ABC):
        """The time, timers and state of the window that a trigger is called with."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in ms."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Return the group in which the operator registers metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the watermark in ms."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Register a call of `on_processing_time` for this window at a time in ms."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Register a call of `on_event_time` for this window at a watermark in ms."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Delete a timer of this window; do nothing if it does not exist."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Delete a timer of this window; do nothing if it does not exist."""

        # PyFlink's context lacks the two methods that list timers.

        @abstractmethod
        def list_processing_time_timers(self) -> list[int]:
            """Return the times in ms of this window's processing-time timers, ascending.

            They include the timer that ends a window of processing time, once it has an element;
            they do not include a timer that is firing.
            """

        @abstractmethod
        def list_event_time_timers(self) -> list[int]:
            """Return the times in ms of this window's event-time timers, ascending.

            They include the timer that ends a window of event time after its allowed lateness, once
            it has an element; they do not include a timer that is firing.
            """

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor[S]) -> S:
            """Return the trigger's state of this key and window.

            Raises:
                DeclarationError: The name is already declared in another way.
            """

    class OnMergeContext(TriggerContext):
        """A context that can also merge the trigger's state, for `on_merge`."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the state of the old windows into the state of the new one.

            Raises:
                DeclarationTypeError: It is not a list, reducing or aggregating state.
            """

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int | None, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Decide what happens to a window after an element was added.

        Args:
            element: The element that was added.
            timestamp: Its event time in ms; None for an element without event time.
            window: The window that has the element now.
            ctx: The state and timers of the window.
        """

    @abstractmethod
    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Decide what happens when a processing-time timer of the window fires.

        Windows of processing time also have such a timer at their end.
        """

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide what happens when an event-time timer of the window fires.

        Windows of event time also have such a timer at their end.
        """

    def can_merge(self) -> bool:
        """Return whether the trigger has `on_merge`, which merging windows need."""
        return False

    # The arguments are unused here, but subclasses and callers go by their names.
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Merge the trigger's state and timers of windows that became one.

        Afterwards `clear` is called for each of the old windows.

        Args:
            window: The new window, which covers the old ones.
            ctx: The state and timers of the new window.
        """

    def descriptors(self) -> Sequence[StateDescriptor[Any]]:
        """Return the states to compare with a checkpoint when the operator opens.

        Other states of a trigger are compared when it first asks for them.
        """
        return ()

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Delete the trigger's timers and state of a window that ends."""


CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE
FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE


class CalmTrigger(Trigger[T, W]):
    """A base for our own triggers, which compare by their settings and override only some methods."""

    def on_element(
        self, element: T, timestamp: int | None, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Leave the window as it is."""
        return CONTINUE

    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Leave the window as it is."""
        return CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Leave the window as it is."""
        return CONTINUE

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Clear nothing: this trigger has no timers and no state."""

    def can_merge(self) -> bool:
        """Return whether the class has an `on_merge` of its own."""
        return type(self).on_merge is not Trigger.on_merge

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, vars(self).values()))})"


class EventTimeTrigger(CalmTrigger[T, TimeWindow]):
    """A trigger that fires at the end of the window by event time.

    It fires when the watermark passes the end, and after that at every late element.
    """

    def on_element(
        self, element: T, timestamp: int | None, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire if the watermark has passed the end already, else wait for it."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(end)
        return CONTINUE

    def on_event_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire at the end of the window, not at the end of the lateness."""
        return FIRE if time == window.max_timestamp() else CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the end of the new window, unless it has passed."""
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Delete the timer at the end of the window."""
        ctx.delete_event_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> EventTimeTrigger:
        """Make such a trigger."""
        return EventTimeTrigger()


class ProcessingTimeTrigger(CalmTrigger[T, TimeWindow]):
    """A trigger that fires when the clock passes the end of the window."""

    def on_element(
        self, element: T, timestamp: int | None, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Wait for the end of the window."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire."""
        return FIRE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the end of the new window, unless it has passed."""
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Delete the timer at the end of the window."""
        ctx.delete_processing_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Make such a trigger."""
        return ProcessingTimeTrigger()


class NeverTrigger(CalmTrigger[T, W]):
    """A trigger that never fires: the default of global windows."""


class CountTrigger(CalmTrigger[T, W]):
    """A trigger that fires at every n-th element of the window; the contents stay.

    Args:
        window_size: The number of elements between two firings.

    Raises:
        DeclarationValueError: The number is less than 1.
    """

    _COUNT = ReducingStateDescriptor("count", int.__add__, Types.LONG())

    def __init__(self, window_size: int) -> None:
        self._window_size = check_count(window_size, "CountTrigger: the count")

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Make a trigger that fires at every n-th element of the window."""
        return CountTrigger(window_size)

    def on_element(
        self, element: T, timestamp: int | None, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Count the element; fire and count from 0 again if it is the n-th."""
        count = ctx.get_partitioned_state(self._COUNT)
        count.add(1)
        if (count.get() or 0) < self._window_size:
            return CONTINUE
        count.clear()
        return FIRE

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Add the counts of the old windows."""
        ctx.merge_partitioned_state(self._COUNT)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Clear the count."""
        ctx.get_partitioned_state(self._COUNT).clear()


class PurgingTrigger(CalmTrigger[T, W]):
    """A trigger that fires as another one does, and then drops the contents.

    Args:
        nested_trigger: The trigger that decides when to fire.

    Raises:
        DeclarationTypeError: The argument is not a trigger.
    """

    def __init__(self, nested_trigger: Trigger[T, W]) -> None:
        given: Any = adopt(nested_trigger, Trigger)
        if not isinstance(given, Trigger):
            remedy = instance_of(Trigger, given, "give for example CountTrigger.of(2)")
            msg = f"PurgingTrigger takes a Trigger, got {short_repr(given)}; {remedy}"
            raise DeclarationTypeError(msg)
        self.nested_trigger = given

    @staticmethod
    def of(nested_trigger: Trigger[T, W]) -> PurgingTrigger[T, W]:
        """Make a trigger that fires as another one does, and then drops the contents."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: T, timestamp: int | None, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Decide as the nested trigger; a firing also purges."""
        return _add_purge(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide as the nested trigger; a firing also purges."""
        return _add_purge(self.nested_trigger.on_event_time(time, window, ctx))

    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Decide as the nested trigger; a firing also purges."""
        return _add_purge(self.nested_trigger.on_processing_time(time, window, ctx))

    def can_merge(self) -> bool:
        """Return whether the nested trigger can merge."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Let the nested trigger merge its state and timers."""
        self.nested_trigger.on_merge(window, ctx)

    def descriptors(self) -> Sequence[StateDescriptor[Any]]:
        """Return the states of the nested trigger."""
        return self.nested_trigger.descriptors()

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Let the nested trigger clear its timers and state."""
        self.nested_trigger.clear(window, ctx)


def _add_purge(result: TriggerResult) -> TriggerResult:
    return FIRE_AND_PURGE if result.is_fire() else result


# Triggers that fire again and again while a window is open


class _FireTime(ReducingStateDescriptor[int]):
    """The next time at which a trigger fires, in ms of one clock.

    The setting stops a restart from reading it as a time of the other clock.

    Args:
        clock: The name of the clock, for messages.
    """

    def __init__(self, clock: str) -> None:
        super().__init__("fire-time", min, Types.LONG())
        remedy = (
            "it would not fire in windows that are open: keep the former, or begin a new checkpoint"
        )
        self._clock = Setting("the clock of a continuous trigger", clock, remedy=remedy)

    def spec(self) -> TableSpec:
        """Return the spec of the table, with the clock among its settings."""
        own = super().spec()
        return attrs.evolve(own, settings=(*own.settings, self._clock))


class _ContinuousTrigger(CalmTrigger[T, TimeWindow]):
    """A trigger that fires at every multiple of an interval by one of the clocks.

    Args:
        interval: The interval in ms.

    Raises:
        DeclarationValueError: The interval is not positive.
    """

    _FIRE_TIME: ClassVar[_FireTime]

    def __init__(self, interval: int) -> None:
        self.interval = check_count(interval, f"{type(self).__name__}: the interval")

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        raise NotImplementedError

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        raise NotImplementedError

    def _begin(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Register the first multiple after a time, if no timer is pending."""
        if ctx.get_partitioned_state(self._FIRE_TIME).get() is None:
            self._next(time - time % self.interval, window, ctx)

    def _next(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        following = min(time + self.interval, window.max_timestamp())
        # The state reduces by `min`, so that windows which merge keep the earliest time.
        ctx.get_partitioned_state(self._FIRE_TIME).add(following)
        self._register(following, ctx)

    def _on_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire if the time is this trigger's, and register the next one."""
        pending = ctx.get_partitioned_state(self._FIRE_TIME)
        known = pending.get()
        if known is None and time == window.max_timestamp():
            # Another trigger registered it before a restart, and no element has come since.
            return FIRE
        if known != time:
            return CONTINUE
        pending.clear()
        # A window of event time may still be open at its end by the clock.
        if time < window.max_timestamp():
            self._next(time, window, ctx)
        return FIRE

    def descriptors(self) -> Sequence[StateDescriptor[Any]]:
        """Return the state that holds the next time."""
        return (self._FIRE_TIME,)

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the earliest of the pending times."""
        ctx.merge_partitioned_state(self._FIRE_TIME)
        pending = ctx.get_partitioned_state(self._FIRE_TIME).get()
        if pending is not None:
            self._register(pending, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Delete the pending timer and forget its time."""
        pending = ctx.get_partitioned_state(self._FIRE_TIME)
        time = pending.get()
        if time is not None:
            self._delete(time, ctx)
            pending.clear()


class ContinuousEventTimeTrigger(_ContinuousTrigger[T]):
    """A trigger that fires at multiples of an interval of event time.

    It fires when the watermark passes a multiple, and when it passes the end of the window.
    """

    _FIRE_TIME = _FireTime("event time")

    @staticmethod
    def of(interval: DurationLike) -> ContinuousEventTimeTrigger:
        """Make one from an interval: `Time`, `Duration`, `timedelta` or an int of ms."""
        what = "ContinuousEventTimeTrigger: the interval"
        return ContinuousEventTimeTrigger(to_milliseconds(interval, what))

    def on_element(
        self, element: T, timestamp: int | None, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire if the watermark has passed the end already, else register timers."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(end)
        self._begin(window.start if timestamp is None else timestamp, window, ctx)
        return CONTINUE

    def on_event_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire at the end of the window and at multiples of the interval."""
        return FIRE if time == window.max_timestamp() else self._on_time(time, window, ctx)

    def _next(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        # When time ends, a window without an end would get one multiple after another for ever.
        if min(window.max_timestamp(), ctx.get_current_watermark()) < MAX_WATERMARK:
            super()._next(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger[T]):
    """A trigger that fires when the clock passes a multiple of an interval, or the window's end.

    If a window of event time is still open after its end by the clock, an element makes it fire
    once more.
    """

    _FIRE_TIME = _FireTime("processing time")

    @staticmethod
    def of(interval: DurationLike) -> ContinuousProcessingTimeTrigger:
        """Make one from an interval: `Time`, `Duration`, `timedelta` or an int of ms."""
        what = "ContinuousProcessingTimeTrigger: the interval"
        return ContinuousProcessingTimeTrigger(to_milliseconds(interval, what))

    def on_element(
        self, element: T, timestamp: int | None, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Register the next multiple, if no timer is pending."""
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return CONTINUE

    def on_processing_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire at multiples of the interval."""
        return self._on_time(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)
