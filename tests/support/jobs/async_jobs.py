# SPDX-License-Identifier: Apache-2.0
"""Jobs whose functions wait for a service."""

from __future__ import annotations

import asyncio

from jobs.collection import job
from jobs.keyed_jobs import first
from jobs.timed import timed

from pyflinklike.pyflink.common import Time, Types
from pyflinklike.pyflink.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy
from pyflinklike.pyflink.datastream.async_retry_predicates import (
    empty_result_predicate,
    has_exception_predicate,
)
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows

MINUTE = Time.seconds(60)


class Doubled(AsyncFunction):
    async def async_invoke(self, value):
        return [value, value * 2]


@job(1, 2, 2, 4, ordered=True)
def ordered_wait(env):
    """Any number of outputs, in the order of the elements."""
    return AsyncDataStream.ordered_wait(env.from_collection([1, 2]), Doubled(), MINUTE)


@job(1, 2, 2, 4)
def unordered_wait(env):
    """The same outputs, in no order."""
    stream = env.from_collection([1, 2])
    return AsyncDataStream.unordered_wait(stream, Doubled(), MINUTE, 1, Types.INT())


class Unreliable(AsyncFunction):
    """Fails for each element once, and then gives how often it was tried."""

    def open(self, runtime_context):
        self.tried = {}

    async def async_invoke(self, value):
        self.tried[value] = self.tried.get(value, 0) + 1
        await asyncio.sleep(0)
        if self.tried[value] == 1:
            raise ConnectionError(value)
        return [(value, self.tried[value])]


@job(("a", 2), ("b", 2), ordered=True)
def a_wait_that_is_tried_again(env):
    """Where the predicate says so."""
    again = AsyncRetryStrategy.fixed_delay(2, 1, None, has_exception_predicate)
    stream = env.from_collection(["a", "b"])
    return AsyncDataStream.ordered_wait_with_retry(stream, Unreliable(), MINUTE, again)


class Never(AsyncFunction):
    async def async_invoke(self, value):
        if value == "a":
            return ["there"]
        if value == "b":
            return []
        return await asyncio.get_running_loop().create_future()

    def timeout(self, value):
        return [("gave up", value)]


@job("there", ("gave up", "b"), ("gave up", "c"))
def a_wait_that_takes_too_long(env):
    """All attempts count, and the function says what comes instead."""
    again = AsyncRetryStrategy.fixed_delay(1_000_000, 1, empty_result_predicate, None)
    stream = env.from_collection(["a", "b", "c"])
    timeout = Time.milliseconds(30)
    return AsyncDataStream.unordered_wait_with_retry(stream, Never(), timeout, again)


class Later(AsyncFunction):
    """Gives an element the later, the earlier it is."""

    async def async_invoke(self, value):
        await asyncio.sleep(0.002 * (5 - value[1] % 5))
        return [value]


@job(("a", 4), ("a", 5), ("b", 2), batch=[("a", 4), ("a", 5), ("b", 2)])
def windows_behind_a_wait(env):
    """No result is overtaken by a watermark, so none is late."""
    stream = timed(env, ("a", 1), ("b", 2), ("a", 3), ("a", 5))
    waited = AsyncDataStream.unordered_wait(stream, Later(), MINUTE)
    counted = waited.key_by(first).window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    return counted.reduce(lambda one, other: (one[0], one[1] + other[1]))


@job(("a", 4), ("a", 5), ("b", 2), batch=[("a", 4), ("a", 5), ("b", 2)])
def waits_behind_and_before_keyed_operators(env):
    """What a window gives waits with the others of its micro-batch, in its time."""
    stream = timed(env, ("a", 1), ("b", 2), ("a", 3), ("a", 5))
    small = stream.key_by(first).window(TumblingEventTimeWindows.of(Time.milliseconds(1)))
    waited = AsyncDataStream.ordered_wait(small.reduce(lambda one, _: one), Later(), MINUTE)
    twice = AsyncDataStream.unordered_wait(waited, Later(), MINUTE, 1)
    again = twice.key_by(first).window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    return again.reduce(lambda one, other: (one[0], one[1] + other[1]))
