# SPDX-License-Identifier: Apache-2.0
"""The triggers that come along, by Flink's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.shown import instance_of, shown
from pyflinklike.state.descriptors import ReducingStateDescriptor, StateDescriptor
from pyflinklike.type_vars import T, W
from pyflinklike.types import Types
from pyflinklike.windows.checks import counted
from pyflinklike.windows.kinds import TimeWindow
from pyflinklike.windows.trigger import Trigger, TriggerResult

__all__ = [
    "CalmTrigger",
    "CountTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
]

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
