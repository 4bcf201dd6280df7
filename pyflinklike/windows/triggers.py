# SPDX-License-Identifier: Apache-2.0
"""What says when a window fires, and when its contents are dropped.

The triggers that come along, by Flink's rules.

The triggers that fire again and again while a window is open, by Flink's rules.

Timers that they register while the watermark passes fire in order of time, also those of the last
watermark (PyFlink delivers these in waves, and so leaves some out: its quirk Q14).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

import attrs

from pyflinklike.engine.api.metric_group import MetricGroup
from pyflinklike.engine.checks import counted
from pyflinklike.engine.clock import DurationLike, to_milliseconds
from pyflinklike.engine.shown import instance_of, shown
from pyflinklike.engine.state.descriptors import ReducingStateDescriptor, StateDescriptor
from pyflinklike.engine.state.table import Setting, TableSpec
from pyflinklike.engine.type_vars import T, W
from pyflinklike.engine.types import Types
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.windows.window_kinds import TimeWindow

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerResult",
]


S = TypeVar("S")


class TriggerResult(Enum):
    """What happens to a window."""

    CONTINUE = (False, False)
    """Nothing."""
    FIRE_AND_PURGE = (True, True)
    """The function is applied to the contents, and they are dropped."""
    FIRE = (True, False)
    """The function is applied to the contents, which stay."""
    PURGE = (False, True)
    """The contents are dropped; the trigger's state and the window stay."""

    def is_fire(self) -> bool:
        """Whether the function is applied; to nothing it never is."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the contents are dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides for each key and window when it fires, as `pyflink.datastream.Trigger`.

    One object serves all windows of all keys: what it has to remember of one goes into
    `ctx.get_partitioned_state`.
    """

    class TriggerContext(ABC):
        """What a trigger may ask and do, for the window that it is called with."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The processing time in ms."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Where the operator registers its metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The watermark in ms."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `on_processing_time` called for this window when the clock reaches it, in ms."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `on_event_time` called for this window when the watermark reaches it, in ms."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Forget a timer of this window; nothing happens where there is none."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Forget a timer of this window; nothing happens where there is none."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor[S]) -> S:
            """The trigger's state of this key and window.

            Raises:
                DeclarationError: The name is declared otherwise already.
            """

    class OnMergeContext(TriggerContext):
        """What `on_merge` may do besides."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Make the state of the merged windows that of the new one.

            Raises:
                DeclarationTypeError: It is not a list, reducing or aggregating state.
            """

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int | None, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """An element came into the window.

        Args:
            element: The element.
            timestamp: Its event time in ms; None if it has none.
            window: Which window.
            ctx: Its state and timers.
        """

    @abstractmethod
    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """A processing-time timer of the window fires; also the one that ends the window."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """An event-time timer of the window fires; also the one that ends the window."""

    def can_merge(self) -> bool:
        """Whether `on_merge` is there, as windows that merge need it."""
        return False

    # The names of what is not used are those that a subclass overrides.
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Windows have become one; afterwards `clear` is called for each of them.

        Args:
            window: The new window.
            ctx: Its state and timers.
        """

    def descriptors(self) -> Sequence[StateDescriptor[Any]]:
        """Of states of a window that are compared with a checkpoint when the operator opens.

        What a trigger asks for besides is compared when it asks.
        """
        return ()

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """The window ends: delete the timers and clear the state that the trigger has of it."""


CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE
FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE


class CalmTrigger(Trigger[T, W]):
    """A trigger that does nothing but what is overridden."""

    def on_element(
        self, element: T, timestamp: int | None, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Nothing."""
        return CONTINUE

    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Nothing."""
        return CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Nothing."""
        return CONTINUE

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Nothing."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, vars(self).values()))})"


class EventTimeTrigger(CalmTrigger[T, TimeWindow]):
    """Fires when the watermark passes the end of the window, and at every late element."""

    def on_element(
        self, element: T, timestamp: int | None, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fires where the watermark has passed the end already."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(end)
        return CONTINUE

    def on_event_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fires at the end, not at the end of the lateness."""
        return FIRE if time == window.max_timestamp() else CONTINUE

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """The end of the new window counts, unless it has passed."""
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Its timer."""
        ctx.delete_event_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> EventTimeTrigger:
        """One."""
        return EventTimeTrigger()


class ProcessingTimeTrigger(CalmTrigger[T, TimeWindow]):
    """Fires when the clock passes the end of the window."""

    def on_element(
        self, element: T, timestamp: int | None, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Its end counts."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fires."""
        return FIRE

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """The end of the new window counts, unless it has passed."""
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Its timer."""
        ctx.delete_processing_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """One."""
        return ProcessingTimeTrigger()


class NeverTrigger(CalmTrigger[T, W]):
    """Never fires: the default of global windows."""


class CountTrigger(CalmTrigger[T, W]):
    """Fires at every so-many-th element of the window; the contents stay.

    Args:
        window_size: How many.

    Raises:
        DeclarationValueError: It is less than 1.
    """

    _COUNT = ReducingStateDescriptor("count", int.__add__, Types.LONG())

    def __init__(self, window_size: int) -> None:
        self._window_size = counted(window_size, "CountTrigger: the count")

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """One that fires at every so-many-th element."""
        return CountTrigger(window_size)

    def on_element(
        self, element: T, timestamp: int | None, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fires and begins to count anew, or counts."""
        count = ctx.get_partitioned_state(self._COUNT)
        count.add(1)
        if (count.get() or 0) < self._window_size:
            return CONTINUE
        count.clear()
        return FIRE

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """The counts are added."""
        ctx.merge_partitioned_state(self._COUNT)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """The count."""
        ctx.get_partitioned_state(self._COUNT).clear()


class PurgingTrigger(Trigger[T, W]):
    """Does what another trigger does, and drops the contents whenever that fires.

    Args:
        nested_trigger: The other one.

    Raises:
        DeclarationTypeError: It is no trigger.
    """

    def __init__(self, nested_trigger: Trigger[T, W]) -> None:
        given: Any = nested_trigger
        if not isinstance(given, Trigger):
            remedy = instance_of(Trigger, given, "give for example CountTrigger.of(2)")
            msg = f"PurgingTrigger takes a Trigger, got {shown(given)}; {remedy}"
            raise DeclarationTypeError(msg)
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, W]) -> PurgingTrigger[T, W]:
        """One that does what another does."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: T, timestamp: int | None, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """As the other one."""
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """As the other one."""
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """As the other one."""
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def can_merge(self) -> bool:
        """As the other one."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """As the other one."""
        self.nested_trigger.on_merge(window, ctx)

    def descriptors(self) -> Sequence[StateDescriptor[Any]]:
        """As the other one."""
        return self.nested_trigger.descriptors()

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """As the other one."""
        self.nested_trigger.clear(window, ctx)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PurgingTrigger) and self.nested_trigger == other.nested_trigger

    def __hash__(self) -> int:
        return hash((PurgingTrigger, self.nested_trigger))

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _purging(result: TriggerResult) -> TriggerResult:
    return FIRE_AND_PURGE if result.is_fire() else result


class _FireTime(ReducingStateDescriptor[int]):
    """When a trigger fires next, which says nothing by another clock.

    Args:
        clock: Whose time it is.
    """

    def __init__(self, clock: str) -> None:
        super().__init__("fire-time", min, Types.LONG())
        remedy = (
            "it would not fire in windows that are open: keep the former, or begin a new checkpoint"
        )
        self._clock = Setting("the clock of a continuous trigger", clock, remedy=remedy)

    def spec(self) -> TableSpec:
        """What the backend and the log need to know."""
        own = super().spec()
        return attrs.evolve(own, settings=(*own.settings, self._clock))


class _ContinuousTrigger(CalmTrigger[T, TimeWindow]):
    """Fires at every multiple of an interval in one of the time domains.

    Args:
        interval: In ms.

    Raises:
        DeclarationValueError: It is not positive.
    """

    _FIRE_TIME: ClassVar[_FireTime]

    def __init__(self, interval: int) -> None:
        self.interval = counted(interval, f"{type(self).__name__}: the interval")

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        raise NotImplementedError

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        raise NotImplementedError

    def _begin(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Have the first multiple after a time fire, where none is pending."""
        if ctx.get_partitioned_state(self._FIRE_TIME).get() is None:
            self._next(time - time % self.interval, window, ctx)

    def _next(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        following = min(time + self.interval, window.max_timestamp())
        ctx.get_partitioned_state(self._FIRE_TIME).add(following)
        self._register(following, ctx)

    def _on_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire where it is this trigger's time, and wait for the next one."""
        pending = ctx.get_partitioned_state(self._FIRE_TIME)
        known = pending.get()
        if known is None and time == window.max_timestamp():
            return FIRE  # no element has come since another trigger, before a restart
        if known != time:
            return CONTINUE
        pending.clear()
        self._next(time, window, ctx)
        return FIRE

    def descriptors(self) -> Sequence[StateDescriptor[Any]]:
        """Of the next time."""
        return (self._FIRE_TIME,)

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """The earliest of the pending times counts."""
        ctx.merge_partitioned_state(self._FIRE_TIME)
        pending = ctx.get_partitioned_state(self._FIRE_TIME).get()
        if pending is not None:
            self._register(pending, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Its timer and what it remembers."""
        pending = ctx.get_partitioned_state(self._FIRE_TIME)
        time = pending.get()
        if time is not None:
            self._delete(time, ctx)
            pending.clear()


class ContinuousEventTimeTrigger(_ContinuousTrigger[T]):
    """Fires when the watermark passes a multiple of an interval, and at the end of the window."""

    _FIRE_TIME = _FireTime("event time")

    @staticmethod
    def of(interval: DurationLike) -> ContinuousEventTimeTrigger:
        """One that fires so often: `Time`, `Duration`, `timedelta` or an int of ms."""
        what = "ContinuousEventTimeTrigger: the interval"
        return ContinuousEventTimeTrigger(to_milliseconds(interval, what))

    def on_element(
        self, element: T, timestamp: int | None, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fires where the watermark has passed the end already."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(end)
        self._begin(window.start if timestamp is None else timestamp, window, ctx)
        return CONTINUE

    def on_event_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fires at the end and at its times."""
        return FIRE if time == window.max_timestamp() else self._on_time(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger[T]):
    """Fires when the clock passes a multiple of an interval."""

    _FIRE_TIME = _FireTime("processing time")

    @staticmethod
    def of(interval: DurationLike) -> ContinuousProcessingTimeTrigger:
        """One that fires so often: `Time`, `Duration`, `timedelta` or an int of ms."""
        what = "ContinuousProcessingTimeTrigger: the interval"
        return ContinuousProcessingTimeTrigger(to_milliseconds(interval, what))

    def on_element(
        self, element: T, timestamp: int | None, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Its next time counts."""
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return CONTINUE

    def on_processing_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fires at its times."""
        return self._on_time(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)
