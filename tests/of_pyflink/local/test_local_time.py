# SPDX-License-Identifier: Apache-2.0
"""Time on the local runner: watermarks, timers and the end."""

from __future__ import annotations

import warnings

import pytest
from jobs.timed import ByField, timed
from local_support import Watermarks, local

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._graph.sinks import CollectSink
from pyflinklike.pyflink._local import start
from pyflinklike.pyflink.common import TimestampAssigner, WatermarkStrategy
from pyflinklike.pyflink.datastream import KeyedProcessFunction
from pyflinklike.pyflink.datastream.connectors import NumberSequenceSource

ONE_BY_ONE = {"pyflinklike__source__records_per_batch": "1"}
NONE = WatermarkStrategy.no_watermarks()


def first(value):
    """The key."""
    return value[0]


def test_a_watermark_follows_each_element_where_that_is_asked_for():
    """The greatest time so far, less 1; the element itself does not see it."""
    stream = timed(local(**ONE_BY_ONE), ("a", 5), ("a", 3), ("a", 9)).process(Watermarks())

    assert [MIN_WATERMARK, 4, 4] == [mark for _, mark in stream.execute_and_collect()]


def test_all_elements_come_before_the_watermark_where_nothing_is_said():
    """As on a host that reads a bounded source at once."""
    stream = timed(local(), ("a", 5), ("a", 9)).process(Watermarks())

    assert [MIN_WATERMARK] * 2 == [mark for _, mark in stream.execute_and_collect()]


def test_the_watermark_of_a_union_is_the_least_one():
    """An input that has none holds it back until that ends."""
    env = local(**ONE_BY_ONE)
    ahead = timed(env, ("x", 10), ("x", 20), ("x", 30), ("x", 40))
    behind = timed(env, ("y", 1), ("y", 2))
    untimed = env.from_collection([("z", 0)])

    seen = dict(ahead.union(behind, untimed).process(Watermarks()).execute_and_collect())

    assert {
        ("x", 10): MIN_WATERMARK,
        ("y", 1): MIN_WATERMARK,
        ("z", 0): MIN_WATERMARK,
        ("x", 20): MIN_WATERMARK,
        ("y", 2): MIN_WATERMARK,  # the third input ends behind it
        ("x", 30): 1,  # the second one ends behind it
        ("x", 40): 29,
    } == seen


def test_watermarks_that_are_assigned_again_take_the_place_of_those_before():
    """Only the end of the input passes through."""
    env = local(**ONE_BY_ONE)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByField(2))
    stream = timed(env, ("a", 100, 1), ("a", 200, 2), ("a", 300, 3))

    again = stream.assign_timestamps_and_watermarks(strategy).process(Watermarks())

    assert [MIN_WATERMARK, 0, 1] == [mark for _, mark in again.execute_and_collect()]


class AtTheEnd(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10**15)

    def on_timer(self, timestamp, ctx):
        yield ctx.timer_service().current_watermark()


def test_every_event_timer_fires_at_the_end():
    """Where the watermark is the last one there is."""
    stream = timed(local(), ("a", 1)).key_by(first).process(AtTheEnd())

    assert [MAX_WATERMARK] == list(stream.execute_and_collect())


class Ticking(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 10)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def test_processing_timers_fire_when_the_clock_is_there_and_not_at_the_end():
    """As in Flink's streaming mode, whose job ends without them; here it says so."""
    env = local()
    stream = env.from_collection(["a", "b", "c"]).key_by(lambda v: v).process(Ticking())
    sink = stream._sink(CollectSink(), "Collect")
    times = iter([0, 0, 8, 12, 15])
    run = start(Job(env._program.builder.graph([sink]), JobSettings()), lambda: next(times))

    with pytest.warns(
        UserWarning,
        match="Ticking: processing-time timers do not fire .* got 2 of them; set "
        "execution.runtime-mode to BATCH",
    ):
        assert [("a", 10)] == list(run.collect(sink))


def test_a_job_that_is_cancelled_says_nothing_of_its_processing_timers():
    """They go on with the job, if it does."""

    class Telling(Ticking):
        def process_element(self, value, ctx):
            super().process_element(value, ctx)
            yield value

    stream = local().from_collection(["a", "b"]).key_by(lambda v: v).process(Telling())
    results = stream.execute_and_collect()
    given = next(results)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results.close()

    assert "a" == given


def test_every_processing_timer_fires_at_the_end_of_a_batch():
    """Behind the elements of its key, whatever its time."""
    env = local(execution__runtime_mode="batch")
    stream = env.from_collection(["a", "b", "a"]).key_by(lambda v: v).process(Ticking())
    sink = stream._sink(CollectSink(), "Collect")
    graph = env._program.builder.graph([sink])

    assert [("a", 17), ("b", 17)] == list(
        start(Job(graph, JobSettings(is_batch=True)), lambda: 7).collect(sink)
    )


class Times(TimestampAssigner):
    """Times of numbers."""

    def __init__(self, step):
        self.step = step

    def extract_timestamp(self, value, record_timestamp):
        """The number of steps."""
        return value * self.step


def test_a_source_that_is_ahead_waits_for_the_others_of_its_group():
    """Until they are near enough, or have ended; one of another group waits for nobody."""
    env = local(**ONE_BY_ONE)

    def numbers(name, step, count, group):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(group, 5)
        strategy = strategy.with_timestamp_assigner(Times(step))
        source = NumberSequenceSource(0, count - 1)
        return env.from_source(source, strategy, name).map(lambda _: name)

    fast, slow = numbers("fast", 10, 5, "one"), numbers("slow", 1, 3, "one")
    other = numbers("other", 100, 2, "two")

    read = list(fast.union(slow, other).execute_and_collect())

    assert [
        "fast",
        "slow",
        "other",
        "fast",
        "slow",
        "other",
        "slow",
        "fast",
        "fast",
        "fast",
    ] == read
