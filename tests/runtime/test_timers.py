# SPDX-License-Identifier: Apache-2.0
"""Timers: what fires and when, what a timer sees and puts out, and what the timer service refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from probe import Driver, Probe, drive, harness

from pyflinklike import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    KeyedProcessFunction,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import StateAccessError, StateValueError, UserFunctionError

LONG = ValueStateDescriptor("s", Types.LONG())


class Domain:
    """One of the two domains, as a test drives it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def register(self, driver: Driver, *timestamps: int) -> None:
        """Register timers of the driver's key, in one call."""
        self.call(driver, "register", timestamps)

    def delete(self, driver: Driver, *timestamps: int) -> None:
        """Delete timers of the driver's key, in one call."""
        self.call(driver, "delete", timestamps)

    def call(self, driver: Driver, verb: str, timestamps: Iterable[int]) -> None:
        """Call a method of the timer service for each of the timestamps."""
        driver.run(lambda _, ctx: [self.method(ctx, verb)(each) for each in timestamps] and None)

    def method(self, ctx: Any, verb: str) -> Any:
        """That method of the timer service for this domain."""
        plural = "s" if verb == "list" else ""
        return getattr(ctx.timer_service(), f"{verb}_{self.name}_time_timer{plural}")

    def advance(self, driver: Driver, time: int) -> list[Any]:
        """Let the time of this domain come to `time`; (key, timestamp) of what fires."""
        clock = driver.harness
        advance = clock.process_watermark if self.name == "event" else clock.set_processing_time
        return [each[:2] if isinstance(each, tuple) else each for each in advance(time)]

    def count(self, driver: Driver) -> int:
        """How many timers there are."""
        counted: int = getattr(driver.harness, f"num_{self.name}_time_timers")()
        return counted


EVENT, PROCESSING = Domain("event"), Domain("processing")
both_domains = pytest.mark.parametrize("domain", [EVENT, PROCESSING], ids=["event", "processing"])


def firing(on_timer: Callable[[int, Any], Any]) -> Driver:
    """A driver whose timers do this with the context, and yield their timestamp."""

    def script(_: Any, timestamp: int, ctx: Any) -> int:
        on_timer(timestamp, ctx)
        return timestamp

    return drive(on_timer=script)


# What fires, and when

DOMAINS = {"EVENT_TIME": EVENT, "PROCESSING_TIME": PROCESSING}
times = st.integers(-2, 6)
timers = st.tuples(
    st.sampled_from(["register", "register", "delete"]), st.sampled_from("kb"), times
)
advances = st.tuples(st.just("advance"), st.none(), times)
restarts = st.just(("restore", None, 0))


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(DOMAINS)), st.one_of(timers, timers, advances, restarts)),
        max_size=20,
    )
)
def test_timers_fire_as_a_set_of_them_says(steps: Any) -> None:
    """One for each key, time and domain, in order, at an advance to its time or later, and once.

    Time may stand still, go back, or begin anew with a restore; elements never fire a timer.
    """
    driver, model = drive(), set()
    for domain, (verb, key, time) in steps:
        if verb == "restore":
            driver = driver.restored()
        elif verb == "advance":
            due = {each for each in model if each[0] == domain and each[2] <= time}
            model -= due
            clock = driver.harness
            fired = (
                clock.process_watermark if domain == "EVENT_TIME" else clock.set_processing_time
            )(time)
            assert sorted((each, key, at) for key, at, each in fired) == sorted(due)
            assert [at for _, at, _ in fired] == sorted(at for _, _, at in due)
        else:
            DOMAINS[domain].call(driver.of(key), verb, [time])
            (model.add if verb == "register" else model.discard)((domain, key, time))
        for name, each in DOMAINS.items():
            mine = [timer for timer in model if timer[0] == name]
            assert len(mine) == each.count(driver)
            listed = driver.run(lambda _, ctx, each=each: each.method(ctx, "list")())
            assert sorted(at for _, key, at in mine if key == "k") == listed


@both_domains
def test_a_key_lists_its_own_timers_in_order(domain):
    """What it deleted, what fires at the moment, and what other keys have is not among them."""
    seen = []
    driver = firing(lambda _, ctx: seen.append(domain.method(ctx, "list")()))
    domain.register(driver.of("b"), 15)
    domain.register(driver, 30, -5, 20, 10)
    domain.delete(driver, 20)
    assert [-5, 10, 30] == driver.run(lambda _, ctx: domain.method(ctx, "list")())
    domain.advance(driver, 10)
    assert [[10, 30], [30]] == seen


@both_domains
def test_a_timer_sees_the_time_that_fired_it(domain):
    """Not its own."""
    seen = []

    def look(_, ctx):
        service = ctx.timer_service()
        seen.append((service.current_watermark(), service.current_processing_time()))

    driver = firing(look)
    domain.register(driver, 10)
    domain.advance(driver, 99)
    assert [(99, 0) if domain is EVENT else (MIN_WATERMARK, 99)] == seen


def test_an_event_timer_may_leave_a_processing_timer_due():
    """That one waits for the next processing time."""
    driver = firing(lambda _, ctx: ctx.timer_service().register_processing_time_timer(0))
    EVENT.register(driver, 10)
    assert [10] == driver.harness.process_watermark(10)
    assert 1 == PROCESSING.count(driver)


def test_the_timer_service_tells_both_times():
    """They are those the harness was given."""
    driver = drive().at(7).at_watermark(5)

    def times(_, ctx):
        service = ctx.timer_service()
        return service.current_processing_time(), service.current_watermark()

    assert (7, 5) == driver.run(times)


def test_the_end_of_input_fires_every_event_timer():
    """One at the end of time, too."""
    driver = drive()
    EVENT.register(driver, 10, MAX_WATERMARK)
    fired = [timestamp for _, timestamp, _ in driver.harness.end_of_input()]
    assert ([10, MAX_WATERMARK], MAX_WATERMARK) == (fired, driver.harness.watermark)


def test_the_end_of_input_fires_no_processing_timer():
    """Pending ones are dropped."""
    driver = drive()
    PROCESSING.register(driver, 0)
    assert [] == driver.harness.end_of_input()


# The context of a timer


@both_domains
def test_a_timer_has_its_own_key_time_and_domain(domain):
    """get_current_key(), timestamp() and time_domain() are the timer's."""
    driver = drive(
        on_timer=lambda _, at, ctx: [
            (ctx.get_current_key(), at, ctx.timestamp(), ctx.time_domain())
        ]
    )
    domain.register(driver, 20)
    domain.register(driver.of("b"), 10)
    expected = TimeDomain.EVENT_TIME if domain is EVENT else TimeDomain.PROCESSING_TIME
    fired = [result[0] for result in domain.advance(driver, 100)]
    assert [("b", 10, 10, expected), ("k", 20, 20, expected)] == fired


@both_domains
def test_the_state_in_a_timer_is_that_of_its_key(domain):
    """Read and written."""
    driver = drive(LONG, on_timer=lambda state, _, __: state.update(state.value() * 10))
    for key, number in (("k", 1), ("b", 2)):
        driver.of(key).update(number)
        domain.register(driver.of(key), 10 * number)
    domain.advance(driver, 100)
    assert (10, 20) == (driver.value(), driver.of("b").value())


def test_a_timer_registers_for_its_own_key():
    """And not for that of the last element."""
    driver = drive(
        on_timer=lambda _, at, ctx: (
            at < 20 and ctx.timer_service().register_event_time_timer(20),
            ctx.get_current_key(),
        )
    )
    EVENT.register(driver, 10)
    EVENT.register(driver.of("b"), 1_000)
    EVENT.advance(driver, 10)
    assert "k" == driver.harness.process_watermark(20)[0][1]


def test_an_element_has_no_time_domain():
    """Only a timer has."""
    with pytest.raises(StateAccessError, match="a time domain belongs to a timer"):
        drive().run(lambda _, ctx: ctx.time_domain())


# Outputs


@both_domains
def test_the_outputs_of_timers_are_those_of_the_advance(domain):
    """They are returned, and follow what was put out before."""
    driver = drive()
    driver.run(lambda _state, _ctx: "element")
    domain.register(driver, 10)
    domain.advance(driver, 10)
    output = [each[:2] if isinstance(each, tuple) else each for each in driver.harness.output]
    assert ["element", None, ("k", 10)] == output


def test_a_timer_without_outputs_puts_nothing_out():
    """on_timer may return None, and does by default."""

    class Registers(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(10)

    h = harness(Registers())
    h.process_element("k")
    assert ([], 0) == (h.process_watermark(10), h.num_event_time_timers())


# The time of an element


@pytest.mark.parametrize("timestamp", [None, 0, -5, 1_000])
def test_an_element_has_the_time_it_was_given(timestamp):
    """None where it has none, and not Flink's Long.MIN_VALUE."""
    assert timestamp == drive().stamped(timestamp).run(lambda _, ctx: ctx.timestamp())


# Late elements


def test_a_late_element_is_processed():
    """Nothing is dropped for its time."""
    driver = drive(LONG).at_watermark(100).stamped(5)
    driver.update(1)
    assert 1 == driver.value()


# Bad input


@both_domains
@pytest.mark.parametrize("verb", ["register", "delete"])
@pytest.mark.parametrize("not_a_time", [None, "10", 1.5, True, 2**63, -(2**63) - 1], ids=str)
def test_the_time_of_a_timer_is_an_int_of_64_bits(domain, verb, not_a_time):
    """None, as ctx.timestamp() may be, is refused where it is given."""
    driver = drive()
    with pytest.raises(StateValueError, match="the time of a timer must"):
        driver.run(lambda _, ctx: domain.method(ctx, verb)(not_a_time))
    assert 0 == domain.count(driver)


@both_domains
@pytest.mark.parametrize("verb", ["register", "delete"])
def test_a_timer_needs_a_current_key(domain, verb):
    """Between calls there is none."""
    kept = []
    drive().run(lambda _, ctx: kept.append(ctx))
    with pytest.raises(StateAccessError, match="no current key"):
        domain.method(kept[0], verb)(10)


def test_the_timers_behind_one_that_failed_are_still_there():
    """The failed one is gone: it was removed before it ran."""

    class Fails(Probe):
        def on_timer(self, timestamp, ctx):
            if timestamp == 10:
                raise KeyError("x")
            yield timestamp

    driver = Driver(harness(Fails()))
    EVENT.register(driver, 10, 20)
    with pytest.raises(UserFunctionError, match="on_timer failed for key 'k', timer 10"):
        driver.harness.process_watermark(100)
    assert [20] == driver.harness.process_watermark(100)
