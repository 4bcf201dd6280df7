# SPDX-License-Identifier: Apache-2.0
"""Functions that wait for a service, on the local runner."""

from __future__ import annotations

import asyncio
import functools
import importlib

import pytest
from example_support import EXAMPLES
from jobs.timed import timed
from local_support import Watermarks, local

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, UserFunctionError
from pyflinklike.pyflink.common import Time, Types
from pyflinklike.pyflink.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy
from pyflinklike.pyflink.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)

FOREVER = Time.milliseconds(0)
LONG = Time.seconds(60)


class Turns(AsyncFunction):
    """Gives elements back, the last one of a batch first; and how many waited with each."""

    def open(self, runtime_context):
        self.waiting = 0

    async def async_invoke(self, value):
        self.waiting += 1
        for _ in range(10 - value):
            await asyncio.sleep(0)
        return [(value, self.waiting)]


def test_outputs_come_when_they_are_there():
    """They overtake each other."""
    stream = local().from_collection([1, 2, 3])

    results = AsyncDataStream.unordered_wait(stream, Turns(), LONG).execute_and_collect()

    assert [(3, 3), (2, 3), (1, 3)] == list(results)


def test_outputs_come_in_order_where_that_is_asked_for():
    """Though they wait at a time."""
    stream = local().from_collection([1, 2, 3])

    results = AsyncDataStream.ordered_wait(stream, Turns(), FOREVER).execute_and_collect()

    assert [(1, 3), (2, 3), (3, 3)] == list(results)


def test_no_more_elements_wait_than_may():
    """With a capacity of two."""
    stream = local().from_collection([1, 2, 3, 4])

    results = AsyncDataStream.unordered_wait(stream, Turns(), LONG, 2).execute_and_collect()

    assert [(2, 2), (1, 2), (4, 4), (3, 4)] == list(results)


def test_they_are_waited_for_where_a_loop_is_running():
    """As in a notebook, whose kernel runs one in the thread of the cells."""
    stream = local().from_collection([1, 2, 3])

    async def cell():
        return list(AsyncDataStream.ordered_wait(stream, Turns(), LONG).execute_and_collect())

    assert [(1, 3), (2, 3), (3, 3)] == asyncio.run(cell())


def test_what_fails_where_a_loop_is_running_fails_the_job():
    """With its element, as anywhere else."""
    stream = local().from_collection(["a"])

    async def cell():
        list(AsyncDataStream.ordered_wait(stream, Failing(1), LONG).execute_and_collect())

    with pytest.raises(UserFunctionError, match=r"async_invoke failed for element 'a'.*away"):
        asyncio.run(cell())


class Same(AsyncFunction):
    async def async_invoke(self, value):
        return [value]


def test_no_output_is_overtaken_by_a_watermark():
    """Elements keep their times."""
    env = local(pyflinklike__source__records_per_batch="1")
    stream = timed(env, ("a", 1), ("a", 2), ("a", 3))

    seen = AsyncDataStream.unordered_wait(stream, Same(), LONG).process(Watermarks())

    marks = [(value[1], mark) for value, mark in seen.execute_and_collect()]
    assert [1, 2, 3] == [time for time, _ in marks]
    assert all(mark < time for time, mark in marks)


class Failing(AsyncFunction):
    """Fails so often for each element, then gives how often it was tried."""

    def __init__(self, times, error=ConnectionError):
        self.times, self.error, self.tried = times, error, {}

    async def async_invoke(self, value):
        self.tried[value] = self.tried.get(value, 0) + 1
        if self.tried[value] <= self.times:
            if self.error is None:
                return []
            raise self.error("away")
        return [(value, self.tried[value])]


@pytest.mark.parametrize(
    ("function", "strategy"),
    [
        (
            Failing(2),
            AsyncRetryStrategy.fixed_delay(3, 1, exception_predicate=has_exception_predicate),
        ),
        (Failing(2, None), AsyncRetryStrategy.fixed_delay(2, 1, empty_result_predicate)),
        (
            Failing(2),
            AsyncRetryStrategy.exponential_backoff(
                2,
                1,
                2,
                1.5,
                exception_predicate=functools.partial(
                    exception_type_predicate, expected_error_type=ConnectionError
                ),
            ),
        ),
    ],
)
def test_an_element_is_tried_again(function, strategy):
    """As long as the predicate and the strategy say so."""
    stream = local().from_collection(["a", "b"])

    waited = AsyncDataStream.ordered_wait_with_retry(stream, function, LONG, strategy)

    assert [("a", 3), ("b", 3)] == list(waited.execute_and_collect())


def test_what_is_tried_often_enough_fails_the_job():
    """With the element."""
    strategy = AsyncRetryStrategy.fixed_delay(1, 1, exception_predicate=has_exception_predicate)
    stream = local().from_collection(["a"])
    waited = AsyncDataStream.unordered_wait_with_retry(stream, Failing(2), LONG, strategy)

    with pytest.raises(UserFunctionError, match=r"async_invoke failed for element 'a'.*away"):
        list(waited.execute_and_collect())


def test_delays_grow_until_they_are_the_longest():
    """By the factor that is given."""
    strategy = AsyncRetryStrategy.exponential_backoff(5, 10, 50, 2.0)

    assert [10, 20, 40, 50, 50] == [strategy.get_backoff_time_millis(n) for n in range(1, 6)]
    assert [True, False] == [strategy.can_retry(n) for n in (5, 6)]


class Endless(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.Event().wait()


class Patient(Endless):
    def timeout(self, value):
        return [f"{value} is late"]


def test_an_element_that_takes_too_long_fails_the_job_or_gives_something_else():
    """As its function says."""
    stream = local().from_collection(["a"])
    short = Time.milliseconds(1)

    late = AsyncDataStream.ordered_wait(stream, Patient(), short, output_type=Types.STRING())
    assert ["a is late"] == list(late.execute_and_collect())
    with pytest.raises(UserFunctionError, match="Async function call has timed out"):
        list(AsyncDataStream.ordered_wait(stream, Endless(), short).execute_and_collect())


class NotAsync(AsyncFunction):
    def async_invoke(self, value):
        return [value]


def test_wrong_arguments_are_refused():
    """Where they are given."""
    stream = local().from_collection([1])
    strategy = AsyncRetryStrategy.fixed_delay(1, 1)

    with pytest.raises(DeclarationTypeError, match="should be declared as 'async def'"):
        AsyncDataStream.ordered_wait(stream, NotAsync(), LONG)
    with pytest.raises(DeclarationTypeError, match="it takes an AsyncFunction"):
        AsyncDataStream.ordered_wait(stream, Same, LONG)
    with pytest.raises(DeclarationValueError, match="Timeout should be configured"):
        AsyncDataStream.ordered_wait_with_retry(stream, Same(), FOREVER, strategy)
    with pytest.raises(DeclarationValueError, match="capacity"):
        AsyncDataStream.ordered_wait(stream, Same(), LONG, 0)
    with pytest.raises(DeclarationValueError, match="max_attempts should be greater"):
        AsyncRetryStrategy.fixed_delay(0, 1)


# The example


@pytest.fixture
def module(monkeypatch):
    """The example."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("enrich_orders")


def test_the_orders_are_priced_as_by_a_loop(module):
    """Each of them once, though the service is busy at times and is asked again."""
    orders = module.made(60)

    with module.service() as port:
        found = module.owed(orders, port, "local")

    assert module.owed_by_a_loop(orders) == found
