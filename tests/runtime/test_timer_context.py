# SPDX-License-Identifier: Apache-2.0
"""What a timer sees, what it puts out, and what the timer service refuses."""

import pytest
from probe import Driver, Probe, drive, harness
from timer_support import EVENT, both_domains

from pyflinklike import KeyedProcessFunction, TimeDomain, Types, ValueStateDescriptor
from pyflinklike.errors import StateAccessError, StateValueError, UserFunctionError

LONG = ValueStateDescriptor("s", Types.LONG())


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
