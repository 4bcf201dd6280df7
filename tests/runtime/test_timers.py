# SPDX-License-Identifier: Apache-2.0
"""The contract of timers, by the items of the specification's 2.6."""

import pytest
from probe import Driver, Probe, drive, harness

from pyflinklike import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    KeyedProcessFunction,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.clock import Clock
from pyflinklike.errors import HostError, StateAccessError, StateValueError, UserFunctionError
from pyflinklike.runtime.timers import KeyedTimerService, TimerQueue
from pyflinklike.state.table import Scope

LONG = ValueStateDescriptor("s", Types.LONG())


class Domain:
    """One of the two domains, as a test drives it."""

    def __init__(self, name):
        self.name = name

    def register(self, driver, *timestamps):
        """Register timers of the driver's key, in one call."""
        self.call(driver, "register", timestamps)

    def delete(self, driver, *timestamps):
        """Delete timers of the driver's key, in one call."""
        self.call(driver, "delete", timestamps)

    def call(self, driver, verb, timestamps):
        """Call a method of the timer service for each of the timestamps."""
        driver.run(lambda _, ctx: [self.method(ctx, verb)(each) for each in timestamps] and None)

    def method(self, ctx, verb):
        """That method of the timer service for this domain."""
        return getattr(ctx.timer_service(), f"{verb}_{self.name}_time_timer")

    def advance(self, driver, time):
        """Let the time of this domain come to `time`; (key, timestamp) of what fires."""
        clock = driver.harness
        advance = clock.process_watermark if self.name == "event" else clock.set_processing_time
        return [each[:2] if isinstance(each, tuple) else each for each in advance(time)]

    def count(self, driver):
        """How many timers there are."""
        return getattr(driver.harness, f"num_{self.name}_time_timers")()


EVENT, PROCESSING = Domain("event"), Domain("processing")
both_domains = pytest.mark.parametrize("domain", [EVENT, PROCESSING], ids=["event", "processing"])


def firing(on_timer):
    """A driver whose timers do this with the context, and yield their timestamp."""

    def script(_, timestamp, ctx):
        on_timer(timestamp, ctx)
        return timestamp

    return drive(on_timer=script)


# 1. Identity


@both_domains
def test_a_timer_registered_twice_fires_once(domain):
    """Its identity is key, time and domain [2.6.1]."""
    driver = drive()
    domain.register(driver, 10, 10)
    domain.register(driver, 10)
    assert 1 == domain.count(driver)
    assert [("k", 10)] == domain.advance(driver, 10)


def test_the_domains_are_apart():
    """The same time in both fires twice, once per domain [2.6.1]."""
    driver = drive()
    EVENT.register(driver, 10)
    PROCESSING.register(driver, 10)
    assert (1, 1) == (EVENT.count(driver), PROCESSING.count(driver))
    assert [("k", 10, "EVENT_TIME")] == driver.harness.process_watermark(10)
    assert [("k", 10, "PROCESSING_TIME")] == driver.harness.set_processing_time(10)


@both_domains
def test_the_same_time_for_two_keys_is_two_timers(domain):
    """Each key has its own [2.6.1]."""
    driver = drive()
    domain.register(driver, 10)
    domain.register(driver.of("b"), 10)
    assert {("k", 10), ("b", 10)} == set(domain.advance(driver, 10))


# 2. The clock


def test_the_watermark_begins_at_its_minimum():
    """Flink's Long.MIN_VALUE, and never None [2.6.2]."""
    assert MIN_WATERMARK == -9223372036854775808
    assert MIN_WATERMARK == drive().run(lambda _, ctx: ctx.timer_service().current_watermark())


def test_the_timer_service_tells_both_times():
    """They are those the harness was given [1.5]."""
    driver = drive().at(7).at_watermark(5)

    def times(_, ctx):
        service = ctx.timer_service()
        return service.current_processing_time(), service.current_watermark()

    assert (7, 5) == driver.run(times)


# 3. What fires, in which order


@both_domains
def test_a_timer_fires_at_its_time_and_not_before(domain):
    """The boundary is inclusive, without Flink's extra millisecond [2.6.3, DESIGN 9]."""
    driver = drive()
    domain.register(driver, 10)
    assert ([], [("k", 10)]) == (domain.advance(driver, 9), domain.advance(driver, 10))
    assert 0 == domain.count(driver)


@both_domains
def test_due_timers_fire_in_ascending_time_across_keys(domain):
    """In whatever order they were registered [2.6.3]."""
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
    """Not its own [2.6.3]."""
    seen = []

    def look(_, ctx):
        service = ctx.timer_service()
        seen.append((service.current_watermark(), service.current_processing_time()))

    driver = firing(look)
    domain.register(driver, 10)
    domain.advance(driver, 99)
    assert [(99, 0) if domain is EVENT else (MIN_WATERMARK, 99)] == seen


# 4, 5. Registering in on_timer


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
    """In its order, before later ones [2.6.5, 2.6.17]."""
    driver = firing(lambda at, ctx: at == 10 and domain.method(ctx, "register")(20))
    domain.register(driver, 10)
    domain.register(driver.of("b"), 30)
    assert [10, 20, 30] == domain.advance(driver, 100)


@both_domains
def test_a_later_timer_registered_in_a_timer_waits(domain):
    """Until its time has come [2.6.5]."""
    driver = firing(lambda at, ctx: at == 10 and domain.method(ctx, "register")(101))
    domain.register(driver, 10)
    assert ([10], [101]) == (domain.advance(driver, 100), domain.advance(driver, 101))


@both_domains
def test_an_earlier_timer_registered_in_a_timer_fires_in_the_same_advance(domain):
    """It is due, however old [2.6.5]."""
    driver = firing(lambda at, ctx: at == 10 and domain.method(ctx, "register")(3))
    domain.register(driver, 10, 20)
    assert [10, 3, 20] == domain.advance(driver, 100)


# 6. Past timers


@both_domains
def test_a_past_timer_does_not_fire_in_its_registration(domain):
    """It waits for the next advance, even one of equal value [2.6.6, DESIGN 9]."""
    driver = drive()
    domain.advance(driver, 100)
    domain.register(driver, 50, 100)
    assert ([], 2) == (driver.harness.output[1:], domain.count(driver))
    assert [("k", 50), ("k", 100)] == domain.advance(driver, 100)


@both_domains
def test_a_past_timer_does_not_fire_with_the_next_element(domain):
    """Elements move no time [2.6.6]."""
    driver = drive()
    domain.advance(driver, 100)
    domain.register(driver, 50)
    driver.stamped(200).run(lambda _state, _ctx: None)
    assert 1 == domain.count(driver)


def test_an_event_timer_may_leave_a_processing_timer_due():
    """That one waits for the next processing time [DESIGN 9]."""
    driver = firing(lambda _, ctx: ctx.timer_service().register_processing_time_timer(0))
    EVENT.register(driver, 10)
    assert [10] == driver.harness.process_watermark(10)
    assert 1 == PROCESSING.count(driver)


# 7. Deleting


@both_domains
def test_a_deleted_timer_does_not_fire(domain):
    """Only that one is deleted [2.6.7]."""
    driver = drive()
    domain.register(driver, 10, 20)
    domain.delete(driver, 10)
    assert 1 == domain.count(driver)
    assert [("k", 20)] == domain.advance(driver, 100)


@both_domains
def test_deleting_no_timer_does_nothing(domain):
    """Neither a missing one, nor that of another key or domain [2.6.7]."""
    other = PROCESSING if domain is EVENT else EVENT
    driver = drive()
    domain.register(driver, 10)
    domain.delete(driver, 11)
    domain.delete(driver.of("b"), 10)
    other.delete(driver, 10)
    assert [("k", 10)] == domain.advance(driver, 10)


@both_domains
def test_a_timer_can_delete_a_later_one_of_the_same_advance(domain):
    """It was due already, and does not fire [2.6.7, 2.6.17]."""
    driver = firing(lambda at, ctx: at == 10 and domain.method(ctx, "delete")(20))
    domain.register(driver, 10, 20, 30)
    assert [10, 30] == domain.advance(driver, 100)


@both_domains
def test_a_deleted_timer_can_be_registered_again(domain):
    """It fires once."""
    driver = drive()
    domain.register(driver, 10)
    domain.delete(driver, 10)
    domain.register(driver, 10)
    assert [("k", 10)] == domain.advance(driver, 100)


@both_domains
def test_many_deleted_timers_leave_the_others_in_order(domain):
    """However many there were."""
    driver = drive()
    domain.register(driver, *range(2_000))
    domain.delete(driver, *(at for at in range(2_000) if at % 500))
    domain.register(driver, 250, *range(5_000, 6_000))
    fired = [timestamp for _, timestamp in domain.advance(driver, 3_000)]
    assert [0, 250, 500, 1_000, 1_500] == fired


# 8. Regressing time


@both_domains
def test_a_time_that_goes_back_is_taken(domain):
    """What is registered then is due by the smaller time [2.6.8]."""
    driver = drive()
    domain.advance(driver, 100)
    domain.register(driver, 50)
    assert ([], [("k", 50)]) == (domain.advance(driver, 40), domain.advance(driver, 60))


# 9. The context of a timer


@both_domains
def test_a_timer_has_its_own_key_time_and_domain(domain):
    """get_current_key(), timestamp() and time_domain() are the timer's [2.6.9]."""
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
    """Read and written [2.6.9]."""
    driver = drive(LONG, on_timer=lambda state, _, __: state.update(state.value() * 10))
    for key, number in (("k", 1), ("b", 2)):
        driver.of(key).update(number)
        domain.register(driver.of(key), 10 * number)
    domain.advance(driver, 100)
    assert (10, 20) == (driver.value(), driver.of("b").value())


def test_a_timer_registers_for_its_own_key():
    """And not for that of the last element [2.6.9]."""
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
    """Only a timer has [1.4]."""
    with pytest.raises(StateAccessError, match="a time domain belongs to a timer"):
        drive().run(lambda _, ctx: ctx.time_domain())


# 10. Outputs


@both_domains
def test_the_outputs_of_timers_are_those_of_the_advance(domain):
    """They are returned, and follow what was put out before [2.6.10]."""
    driver = drive()
    driver.run(lambda _state, _ctx: "element")
    domain.register(driver, 10)
    domain.advance(driver, 10)
    output = [each[:2] if isinstance(each, tuple) else each for each in driver.harness.output]
    assert ["element", None, ("k", 10)] == output


def test_a_timer_without_outputs_puts_nothing_out():
    """on_timer may return None, and does by default [1.4]."""

    class Registers(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(10)

    h = harness(Registers())
    h.process_element("k")
    assert ([], 0) == (h.process_watermark(10), h.num_event_time_timers())


# 11. The time of an element


@pytest.mark.parametrize("timestamp", [None, 0, -5, 1_000])
def test_an_element_has_the_time_it_was_given(timestamp):
    """None where it has none, and not Flink's Long.MIN_VALUE [2.6.11]."""
    assert timestamp == drive().stamped(timestamp).run(lambda _, ctx: ctx.timestamp())


# 13. Restore


@both_domains
def test_timers_are_restored(domain):
    """They fire as if nothing had happened [2.6.13]."""
    driver = drive()
    domain.register(driver, 10)
    domain.register(driver.of("b"), 20)
    again = driver.restored()
    assert 2 == domain.count(again)
    assert [("k", 10), ("b", 20)] == domain.advance(again, 20)


@both_domains
def test_a_restored_timer_keeps_its_identity(domain):
    """Registered again it fires once, deleted it does not fire [2.6.1, 2.6.13]."""
    driver = drive()
    domain.register(driver, 10, 20)
    again = driver.restored()
    domain.register(again, 10)
    domain.delete(again, 20)
    assert [("k", 10)] == domain.advance(again, 100)


@both_domains
def test_a_restored_timer_that_is_due_fires_at_the_first_advance(domain):
    """However long it was due [2.6.13, DESIGN 9]."""
    driver = drive()
    domain.register(driver, -100)
    again = driver.restored()
    assert [] == again.harness.output
    assert [("k", -100)] == domain.advance(again, 0)


def test_a_timer_that_fired_is_not_restored():
    """It is gone for good."""
    driver = drive()
    EVENT.register(driver, 10)
    EVENT.advance(driver, 10)
    assert 0 == EVENT.count(driver.restored())


# 14. End of input


def test_the_end_of_input_fires_every_event_timer():
    """One at the end of time, too [2.6.14 T8]."""
    driver = drive()
    EVENT.register(driver, 10, MAX_WATERMARK)
    fired = [timestamp for _, timestamp, _ in driver.harness.end_of_input()]
    assert ([10, MAX_WATERMARK], MAX_WATERMARK) == (fired, driver.harness.watermark)


def test_the_end_of_input_fires_no_processing_timer():
    """Pending ones are dropped [2.6.14]."""
    driver = drive()
    PROCESSING.register(driver, 0)
    assert [] == driver.harness.end_of_input()


# 16. Late elements


def test_a_late_element_is_processed():
    """Nothing is dropped for its time [2.6.16]."""
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
    """Between calls there is none [2.5]."""
    kept = []
    drive().run(lambda _, ctx: kept.append(ctx))
    with pytest.raises(StateAccessError, match="no current key"):
        domain.method(kept[0], verb)(10)


def test_the_timers_behind_one_that_failed_are_still_there():
    """The failed one is gone: it was removed before it ran [2.6.4]."""

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


# What is kept beside the table


@pytest.fixture
def queue():
    """The event timers of a backend, in a key group, under the key "k"."""
    scope = Scope("k")
    queue = TimerQueue(
        TimeDomain.EVENT_TIME, HashMapStateBackend().create_keyed_state_backend(scope, "tested")
    )
    queue.enter({})
    return queue


def test_deleted_timers_of_a_far_future_do_not_pile_up(queue):
    """Each element may move its timer."""
    agendas = {}
    queue.enter(agendas)
    for at in range(10_000):
        queue.register(at)
        queue.delete(at - 1)
    agenda = agendas[TimeDomain.EVENT_TIME]
    assert len(agenda.times) < 1_000
    assert ({9_999: {"k": None}}, 9_999) == (agenda.keys_at, queue.earliest())


def test_a_deleted_timer_is_not_the_earliest(queue):
    """A host would be woken for nothing."""
    queue.register(1)
    queue.register(2)
    queue.delete(1)
    assert 2 == queue.earliest()


def test_a_timer_registered_again_is_not_logged_again(queue):
    """Nothing has changed."""
    queue.register(1)
    queue.table.drain()
    queue.register(1)
    assert 0 == len(queue.table.drain())


def test_timers_that_were_read_fire_in_order(queue):
    """Whatever the order in which the table gives them."""
    for at in (5, 1, 4, 2, 3):
        queue.register(at)
    queue.enter({})
    assert [1, 2, 3, 4, 5] == list(queue.due(9))


def test_a_domain_whose_timers_the_host_cannot_fire_refuses_them(queue):
    """With the host's error; the other domain's are registered."""
    other = TimerQueue(
        TimeDomain.PROCESSING_TIME,
        HashMapStateBackend().create_keyed_state_backend(Scope("k"), "tested"),
    )
    refused = {TimeDomain.PROCESSING_TIME: HostError("use event time")}
    service = KeyedTimerService(Clock(), queue, other, refused)
    service.register_event_time_timer(1)
    with pytest.raises(HostError, match="use event time"):
        service.register_processing_time_timer(1)
    assert (1, 0) == (queue.count(), other.count())
