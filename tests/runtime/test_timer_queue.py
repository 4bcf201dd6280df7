# SPDX-License-Identifier: Apache-2.0
"""Deleting timers, and the queue that is kept beside the table of timers."""

import pytest
from probe import drive
from timer_support import EVENT, PROCESSING, both_domains, firing

from pyflinklike import TimeDomain
from pyflinklike._clock import Clock
from pyflinklike._runtime.timer_queue import KeyedTimerService, TimerQueue
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import SparkSetupError
from pyflinklike.state.current_key import CurrentKey

# Deleting


@both_domains
def test_a_deleted_timer_does_not_fire(domain):
    """Only that one is deleted."""
    driver = drive()
    domain.register(driver, 10, 20)
    domain.delete(driver, 10)
    assert 1 == domain.count(driver)
    assert [("k", 20)] == domain.advance(driver, 100)


@both_domains
def test_deleting_no_timer_does_nothing(domain):
    """Neither a missing one, nor that of another key or domain."""
    other = PROCESSING if domain is EVENT else EVENT
    driver = drive()
    domain.register(driver, 10)
    domain.delete(driver, 11)
    domain.delete(driver.of("b"), 10)
    other.delete(driver, 10)
    assert [("k", 10)] == domain.advance(driver, 10)


@both_domains
def test_a_timer_can_delete_a_later_one_of_the_same_advance(domain):
    """It was due already, and does not fire."""
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


# What is kept beside the table


@pytest.fixture
def queue():
    """The event timers of a backend, in a key group, under the key "k"."""
    current = CurrentKey("k")
    queue = TimerQueue(
        TimeDomain.EVENT_TIME, HashMapStateBackend().create_keyed_state_backend(current, "tested")
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
    """A host would be woken without need."""
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
        HashMapStateBackend().create_keyed_state_backend(CurrentKey("k"), "tested"),
    )
    refused = {TimeDomain.PROCESSING_TIME: SparkSetupError("use event time")}
    service = KeyedTimerService(Clock(), queue, other, refused)
    service.register_event_time_timer(1)
    with pytest.raises(SparkSetupError, match="use event time"):
        service.register_processing_time_timer(1)
    assert (1, 0) == (queue.count(), other.count())
