# SPDX-License-Identifier: Apache-2.0
"""The end of a batch: every timer fires, of event time and then of processing time, as in Flink."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import tasks
from hypothesis import given
from hypothesis import strategies as st
from window_support import processed

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import end_bounded, enter_bounded
from pyflinklike.errors import UserFunctionError
from pyflinklike.windows import (
    ContinuousProcessingTimeTrigger,
    ProcessingTimeSessionWindows,
    ProcessWindowFunction,
    TumblingProcessingTimeWindows,
)

NOW = 50
SIDE = OutputTag("side", Types.LONG())
IGNORED = "a processing-time timer that is registered while timers fire at the end of a batch"


def opened(function: Any) -> KeyedProcessOperator:
    """An operator within its first key group."""
    operator = tasks.opened(function)
    enter_bounded(operator, 0, processing_time=NOW)
    return operator


def given_by(operator: KeyedProcessOperator, *elements: Any, key: str = "k") -> list[Any]:
    """What comes of elements of one key and of the end behind them."""
    operator.process([key] * len(elements), elements, [None] * len(elements))
    end_bounded(operator)
    return operator.outputs.take().main


class Does(KeyedProcessFunction):
    """Has its timer service do what each element says; timers as well, if they are told to.

    Args:
        reacts: Verbs with times, for the domain and time of a timer.
    """

    def __init__(self, reacts: dict[tuple[str, int], list[tuple[str, int]]] | None = None) -> None:
        self.reacts = reacts or {}

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.act([value], ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        domain = "event" if ctx.time_domain().name == "EVENT_TIME" else "processing"
        self.act(self.reacts.get((domain, timestamp), []), ctx)
        yield domain, timestamp

    def act(self, verbs: list[tuple[str, int]], ctx: Any) -> None:
        for verb, time in verbs:
            getattr(ctx.timer_service(), f"{verb}_time_timer")(time)


EVENT, PROCESSING = "register_event", "register_processing"


def test_every_processing_timer_fires_behind_the_event_timers():
    """Whatever its time, though the clock is not there: the end of a batch is the end of time."""
    times = (MAX_WATERMARK, NOW + 10, NOW - 10, MIN_WATERMARK)
    elements = [(verb, time) for verb in (PROCESSING, EVENT) for time in times]

    assert [
        (domain, time) for domain in ("event", "processing") for time in sorted(times)
    ] == given_by(opened(Does()), *elements)


class Buffer(KeyedProcessFunction):
    """Gives what has gathered when ten ms have passed."""

    def open(self, runtime_context: Any) -> None:
        ttl = StateTtlConfig.new_builder(Time.milliseconds(5)).build()
        descriptor = ListStateDescriptor("buffer", Types.LONG())
        descriptor.enable_time_to_live(ttl)
        self.buffer = runtime_context.get_list_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.buffer.add(value)
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 10)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield [*self.buffer.get()]
        yield SIDE, len([*self.buffer.get()])
        timers = ctx.timer_service()
        yield timestamp, timers.current_processing_time(), timers.current_watermark()


def test_a_buffer_that_a_processing_timer_flushes_loses_nothing():
    """The clock stands still meanwhile, so nothing of it has expired."""
    operator = opened(Buffer())
    operator.process(["k"] * 3, [1, 2, 3], [None] * 3)
    end_bounded(operator)
    taken = operator.outputs.take()

    assert [[1, 2, 3], (NOW + 10, NOW, MAX_WATERMARK)] == taken.main
    assert [3] == taken.side[SIDE.tag_id][1]
    assert 1 == operator.metrics.timers_fired


@pytest.mark.parametrize("domain", ["event", "processing"])
def test_a_processing_timer_that_a_timer_registers_at_the_end_is_ignored_with_a_warning(domain):
    """There is no time left for it, and one that registers the next would never end."""
    operator = opened(Does({(domain, 60): [(PROCESSING, 70), (PROCESSING, 60)]}))

    with pytest.warns(UserWarning, match=f"Does: {IGNORED} is ignored, as in Flink, got such"):
        fired = given_by(operator, (f"register_{domain}", 60))

    assert [(domain, 60)] == fired
    assert 0 == operator.processing_timers.count()


def test_a_timer_that_is_there_may_be_registered_again_at_the_end():
    """That changes nothing, so nobody is warned."""
    operator = opened(
        Does({("event", 1): [(PROCESSING, 70)], ("processing", 60): [(PROCESSING, 70)]})
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fired = given_by(operator, (EVENT, 1), (PROCESSING, 60), (PROCESSING, 70))

    assert [("event", 1), ("processing", 60), ("processing", 70)] == fired


def test_the_next_key_group_registers_timers_again():
    """What ignored them is over, also where the function has raised."""
    operator = opened(Does({("processing", 60): [("no_such", 1)]}))
    with pytest.raises(UserFunctionError, match="no_such_time_timer"):
        given_by(operator, (PROCESSING, 60))
    enter_bounded(operator, 1, processing_time=NOW)

    assert [("processing", 61)] == given_by(operator, (PROCESSING, 61))


class All(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield [*elements]


@pytest.mark.parametrize(
    "assigner",
    [TumblingProcessingTimeWindows.of(1_000), ProcessingTimeSessionWindows.with_gap(1_000)],
    ids=["tumbling", "sessions"],
)
def test_windows_of_processing_time_give_what_they_have(assigner):
    """Their ends are processing-time timers."""
    operator = opened(processed(assigner, All()))

    assert [[1, 2, 3]] == given_by(operator, 1, 2, 3)
    assert 0 == operator.backend.count()


def test_a_continuous_trigger_gives_what_its_window_has_once():
    """At the interval; the end of the window frees it."""
    trigger = ContinuousProcessingTimeTrigger.of(100)
    assigner = TumblingProcessingTimeWindows.of(1_000)
    operator = opened(processed(assigner, All(), trigger=trigger))

    with pytest.warns(UserWarning, match=IGNORED):
        given = given_by(operator, 1, 2, 3)

    assert ([[1, 2, 3]], 0) == (given, operator.backend.count())


# Against a model

TIMES = st.integers(0, 5)
VERBS = st.sampled_from([EVENT, PROCESSING, "delete_event", "delete_processing"])
ACTS = st.lists(st.tuples(st.sampled_from("ab"), VERBS, TIMES), max_size=8)
REACTS = st.dictionaries(
    st.tuples(st.sampled_from(["event", "processing"]), TIMES),
    st.lists(st.tuples(VERBS, st.integers(-2, 6)), max_size=2),
    max_size=6,
)
MOST = 6


class Ruled(Does):
    """Reacts to a key's first timers only, so that it comes to an end."""

    def open(self, runtime_context: Any) -> None:
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        fired = (self.fired.value() or 0) + 1
        self.fired.update(fired)
        domain = "event" if ctx.time_domain().name == "EVENT_TIME" else "processing"
        if fired < MOST:
            self.act(self.reacts.get((domain, timestamp), []), ctx)
        yield ctx.get_current_key(), domain, timestamp


def modelled(key: str, acts: Any, reacts: Any) -> list[tuple[str, str, int]]:
    """The timers of a key that fire at the end, in their order: the rules over sets."""
    timers: dict[str, set[int]] = {"event": set(), "processing": set()}

    def act(verb: str, time: int, *, is_end: bool) -> None:
        what, domain = verb.split("_")
        if what == "delete":
            timers[domain].discard(time)
        elif domain == "event" or not is_end:
            timers[domain].add(time)

    for whose, verb, time in acts:
        if whose == key:
            act(verb, time, is_end=False)
    fired: list[tuple[str, str, int]] = []
    for domain in ("event", "processing", "event"):
        while timers[domain]:
            time = min(timers[domain])
            timers[domain].remove(time)
            fired.append((key, domain, time))
            if len(fired) < MOST:
                for each in reacts.get((domain, time), []):
                    act(*each, is_end=True)
    return fired


@given(ACTS, REACTS)
def test_the_timers_of_each_key_fire_by_the_rules(acts, reacts):
    """Whatever on_timer registers and deletes meanwhile."""
    operator = opened(Ruled(reacts))
    keys, verbs = [key for key, _, _ in acts], [(verb, time) for _, verb, time in acts]
    operator.process(keys, verbs, [None] * len(acts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        end_bounded(operator)
    main = operator.outputs.take().main

    assert {key: modelled(key, acts, reacts) for key in "ab"} == {
        key: [each for each in main if each[0] == key] for key in "ab"
    }
    assert (0, 0) == (operator.event_timers.count(), operator.processing_timers.count())
