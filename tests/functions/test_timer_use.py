# SPDX-License-Identifier: Apache-2.0
"""Whether a function uses processing-time timers is read off its code."""

from __future__ import annotations

from types import ModuleType

import pytest

from pyflinklike import KeyedProcessFunction
from pyflinklike.functions.code_search import uses_processing_timers
from pyflinklike.windows import (
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    window,
)


class Base(KeyedProcessFunction):
    def process_element(self, value, ctx):
        return None


class Direct(Base):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(1)


class Inherited(Direct):
    def open(self, runtime_context):
        pass


class InOnTimer(Base):
    def on_timer(self, timestamp, ctx):
        def again():
            ctx.timer_service().register_processing_time_timer(timestamp)

        again()


class ByName(Base):
    def on_timer(self, timestamp, ctx):
        getattr(ctx.timer_service(), "register_processing_time_timer")(timestamp)  # noqa: B009


def _helper(ctx):
    _deeper(ctx)


def _deeper(ctx):
    ctx.timer_service().register_processing_time_timer(1)


class ThroughModuleFunctions(Base):
    def process_element(self, value, ctx):
        _helper(ctx)


helpers = ModuleType("helpers")
exec("def schedule(ctx): ctx.timer_service().register_processing_time_timer(1)", vars(helpers))


class ThroughAModule(Base):
    def process_element(self, value, ctx):
        helpers.schedule(ctx)


class Clerk:
    def note(self, ctx):
        ctx.timer_service().register_processing_time_timer(1)


class ThroughAnAttribute(Base):
    def __init__(self):
        self.clerk = Clerk()


class ThroughAStaticMethod(Base):
    @staticmethod
    def arm(ctx):
        ctx.timer_service().register_processing_time_timer(1)


class ThroughALambda(Base):
    def __init__(self):
        self.arm = lambda timers: timers.register_processing_time_timer(1)


def _closing_over(helper):
    class Closure(Base):
        def process_element(self, value, ctx):
            helper(ctx)

    return Closure


class EventTimersOnly(Base):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(timers.current_processing_time())
        timers.delete_processing_time_timer(1)


class Recursive(Base):
    def __init__(self):
        self.me = self

    def process_element(self, value, ctx):
        return self.me.process_element(value, ctx)


class Hidden(Base):
    def process_element(self, value, ctx):
        getattr(ctx.timer_service(), f"register_{value}_time_timer")(1)


@pytest.mark.parametrize(
    "function",
    [Direct, Inherited, InOnTimer, ByName, ThroughModuleFunctions,
        ThroughAModule, ThroughAnAttribute,
     ThroughAStaticMethod, ThroughALambda, _closing_over(_deeper)],
)  # fmt: skip
def test_code_that_names_the_registration_is_found(function):
    """In the class, a base, a helper of the module, an attribute, a lambda, a closure or a string."""
    assert uses_processing_timers(function()) is True


@pytest.mark.parametrize("function", [Base, EventTimersOnly, Recursive, Hidden, _closing_over(len)])
def test_code_that_does_not_name_it_is_not(function):
    """Event timers do not count; a name made up at run time is not foreseen, and such a timer is refused when registered."""
    assert uses_processing_timers(function()) is False


class Ticking(EventTimeTrigger):
    """An own trigger that also fires by the clock."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_processing_time_timer(7)
        return super().on_element(element, timestamp, window, ctx)


class Counting(CountTrigger):
    """An own trigger that does not."""

    def on_merge(self, window, ctx):
        super().on_merge(window, ctx)


@pytest.mark.parametrize(
    ("assigner", "trigger", "expected"),
    [
        (TumblingEventTimeWindows.of(5), None, False),
        (TumblingEventTimeWindows.of(5), PurgingTrigger(CountTrigger(2)), False),
        (TumblingEventTimeWindows.of(5), Counting(2), False),
        (TumblingEventTimeWindows.of(5), Ticking(), True),
        (TumblingEventTimeWindows.of(5), PurgingTrigger(Ticking()), True),
        (TumblingEventTimeWindows.of(5), ContinuousProcessingTimeTrigger.of(5), True),
        (TumblingProcessingTimeWindows.of(5), None, True),
        (TumblingProcessingTimeWindows.of(5), CountTrigger(2), True),
        (GlobalWindows.create(), CountTrigger(2), False),
        (GlobalWindows.create(), ProcessingTimeTrigger(), True),
    ],
)
def test_windows_tell_by_their_assigner_and_trigger(assigner, trigger, expected):
    """The operator's own code can register both kinds of timers."""
    windowed = window(assigner)
    if trigger is not None:
        windowed.trigger(trigger)
    assert expected == uses_processing_timers(windowed.reduce(max))
