# SPDX-License-Identifier: Apache-2.0
"""Timers: one for each key and time, which fire in order when time comes to them."""

from probe import drive
from timer_support import EVENT, PROCESSING, both_domains, firing

from pyflinklike import MIN_WATERMARK

# Identity


@both_domains
def test_a_timer_registered_twice_fires_once(domain):
    """Its identity is key, time and domain."""
    driver = drive()
    domain.register(driver, 10, 10)
    domain.register(driver, 10)
    assert 1 == domain.count(driver)
    assert [("k", 10)] == domain.advance(driver, 10)


def test_the_domains_are_apart():
    """The same time in both fires twice, once per domain."""
    driver = drive()
    EVENT.register(driver, 10)
    PROCESSING.register(driver, 10)
    assert (1, 1) == (EVENT.count(driver), PROCESSING.count(driver))
    assert [("k", 10, "EVENT_TIME")] == driver.harness.process_watermark(10)
    assert [("k", 10, "PROCESSING_TIME")] == driver.harness.set_processing_time(10)


@both_domains
def test_the_same_time_for_two_keys_is_two_timers(domain):
    """Each key has its own."""
    driver = drive()
    domain.register(driver, 10)
    domain.register(driver.of("b"), 10)
    assert {("k", 10), ("b", 10)} == set(domain.advance(driver, 10))


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


def test_a_list_of_timers_is_of_one_domain():
    """The other one has a list of its own, empty here."""
    driver = drive()
    EVENT.register(driver, 10)
    assert [] == driver.run(lambda _, ctx: PROCESSING.method(ctx, "list")())


# The clock


def test_the_watermark_begins_at_its_minimum():
    """Flink's Long.MIN_VALUE, and never None."""
    assert MIN_WATERMARK == -9223372036854775808
    assert MIN_WATERMARK == drive().run(lambda _, ctx: ctx.timer_service().current_watermark())


def test_the_timer_service_tells_both_times():
    """They are those the harness was given."""
    driver = drive().at(7).at_watermark(5)

    def times(_, ctx):
        service = ctx.timer_service()
        return service.current_processing_time(), service.current_watermark()

    assert (7, 5) == driver.run(times)


# What fires, in which order


@both_domains
def test_a_timer_fires_at_its_time_and_not_before(domain):
    """The boundary is inclusive, without Flink's extra millisecond."""
    driver = drive()
    domain.register(driver, 10)
    assert ([], [("k", 10)]) == (domain.advance(driver, 9), domain.advance(driver, 10))
    assert 0 == domain.count(driver)


@both_domains
def test_due_timers_fire_in_ascending_time_across_keys(domain):
    """In whatever order they were registered."""
    driver = drive()
    domain.register(driver, 30, 10)
    domain.register(driver.of("b"), 40, 20)
    assert [("k", 10), ("b", 20), ("k", 30)] == domain.advance(driver, 30)
    assert 1 == domain.count(driver)


@both_domains
def test_a_timer_of_a_negative_time_fires(domain):
    """Before the epoch is a time as any other."""
    driver = drive()
    domain.register(driver, -5)
    assert [("k", -5)] == domain.advance(driver, 0)


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


# Registering in on_timer


@both_domains
def test_a_timer_is_gone_before_it_runs(domain):
    """It may register its own time again, and fires again in the same advance."""
    runs = []

    def again(timestamp, ctx):
        runs.append(timestamp)
        if len(runs) < 3:
            domain.method(ctx, "register")(timestamp)

    driver = firing(again)
    domain.register(driver, 10)
    assert [10, 10, 10] == domain.advance(driver, 11)


@both_domains
def test_a_due_timer_registered_in_a_timer_fires_in_the_same_advance(domain):
    """In its order, before later ones."""
    driver = firing(lambda at, ctx: at == 10 and domain.method(ctx, "register")(20))
    domain.register(driver, 10)
    domain.register(driver.of("b"), 30)
    assert [10, 20, 30] == domain.advance(driver, 100)


@both_domains
def test_a_later_timer_registered_in_a_timer_waits(domain):
    """Until its time has come."""
    driver = firing(lambda at, ctx: at == 10 and domain.method(ctx, "register")(101))
    domain.register(driver, 10)
    assert ([10], [101]) == (domain.advance(driver, 100), domain.advance(driver, 101))


@both_domains
def test_an_earlier_timer_registered_in_a_timer_fires_in_the_same_advance(domain):
    """It is due, however old."""
    driver = firing(lambda at, ctx: at == 10 and domain.method(ctx, "register")(3))
    domain.register(driver, 10, 20)
    assert [10, 3, 20] == domain.advance(driver, 100)


# Past timers


@both_domains
def test_a_past_timer_does_not_fire_in_its_registration(domain):
    """It waits for the next advance, even one of equal value."""
    driver = drive()
    domain.advance(driver, 100)
    domain.register(driver, 50, 100)
    assert ([], 2) == (driver.harness.output[1:], domain.count(driver))
    assert [("k", 50), ("k", 100)] == domain.advance(driver, 100)


@both_domains
def test_a_past_timer_does_not_fire_with_the_next_element(domain):
    """Elements move no time."""
    driver = drive()
    domain.advance(driver, 100)
    domain.register(driver, 50)
    driver.stamped(200).run(lambda _state, _ctx: None)
    assert 1 == domain.count(driver)


def test_an_event_timer_may_leave_a_processing_timer_due():
    """That one waits for the next processing time."""
    driver = firing(lambda _, ctx: ctx.timer_service().register_processing_time_timer(0))
    EVENT.register(driver, 10)
    assert [10] == driver.harness.process_watermark(10)
    assert 1 == PROCESSING.count(driver)


# Regressing time


@both_domains
def test_a_time_that_goes_back_is_taken(domain):
    """What is registered then is due by the smaller time."""
    driver = drive()
    domain.advance(driver, 100)
    domain.register(driver, 50)
    assert ([], [("k", 50)]) == (domain.advance(driver, 40), domain.advance(driver, 60))
