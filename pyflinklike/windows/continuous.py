# SPDX-License-Identifier: Apache-2.0
"""The triggers that fire again and again while a window is open, by Flink's rules.

Timers that they register while the watermark passes fire in order of time, also those of the last
watermark (PyFlink delivers these in waves, and so leaves some out: its quirk Q14).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs

from pyflinklike.clock import DurationLike, to_milliseconds
from pyflinklike.state.descriptors import ReducingStateDescriptor, StateDescriptor
from pyflinklike.state.table import Setting, TableSpec
from pyflinklike.type_vars import T
from pyflinklike.types import Types
from pyflinklike.windows.checks import counted
from pyflinklike.windows.kinds import TimeWindow
from pyflinklike.windows.trigger import Trigger, TriggerResult
from pyflinklike.windows.triggers import CalmTrigger

__all__ = ["ContinuousEventTimeTrigger", "ContinuousProcessingTimeTrigger"]

CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE


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
