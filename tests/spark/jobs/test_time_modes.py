# SPDX-License-Identifier: Apache-2.0
"""By which time the keyed operators of a job are woken."""

from __future__ import annotations

import pytest

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.sources import Source
from pyflinklike.pyflink._graph.watermarks import WatermarkKind
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.job_session import refuse_what_is_missing
from pyflinklike.pyflink._spark.stages import time_mode_of
from pyflinklike.pyflink._spark.watermark_feed import needs_feed
from pyflinklike.pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.window import (
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from pyflinklike.spark._plan.operator_plan import TimeMode

FACTS = SessionFacts(partitions=2, max_parallelism=8, time_zone="UTC")


class Endless(Source):
    """A source without an end, which Spark looks for."""

    is_bounded = False
    discovery_milliseconds = 1


def stream_of(strategy=None):
    """A keyed stream of an endless source."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    strategy = strategy or WatermarkStrategy.no_watermarks()
    return env.from_source(Endless(), strategy, "endless").key_by(lambda n: n, Types.INT())


def windowed(stream, windows):
    """The last element of each window."""
    return stream.window(windows.of(Time.seconds(1))).reduce(lambda _, other: other)


def job_of(stream):
    """The job of a stream."""
    stream.print()
    program = stream._program
    graph = program.graph()
    return Job(graph, program._settings(graph, None))


class Counting(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


@pytest.mark.parametrize(
    ("stream", "mode"),
    [
        (lambda: stream_of().process(Counting()), TimeMode.EVENT_TIME),
        (lambda: windowed(stream_of(), TumblingEventTimeWindows), TimeMode.EVENT_TIME),
        (lambda: windowed(stream_of(), TumblingProcessingTimeWindows), TimeMode.PROCESSING_TIME),
    ],
    ids=["no timers", "event time", "processing time"],
)
def test_processing_time_is_for_its_timers_only(stream, mode):
    """A query in processing time has a micro-batch after the other, also without data."""
    job = job_of(stream())

    refuse_what_is_missing(job)

    assert mode is time_mode_of(job.graph)


@pytest.mark.parametrize(
    "strategy",
    [
        WatermarkStrategy.for_monotonous_timestamps(),
        WatermarkStrategy.no_watermarks().with_idleness(Time.seconds(1)),
    ],
    ids=["watermarks", "none"],
)
def test_processing_time_beside_event_time_is_ticked(strategy):
    """Spark passes a watermark on in event time only; so the driver has all key groups called."""
    job = job_of(windowed(stream_of(strategy), TumblingProcessingTimeWindows))
    steps = JobSteps(job, FACTS, HashMapStateBackend())
    is_timed = strategy.kind is not WatermarkKind.NONE

    refuse_what_is_missing(job)

    assert is_timed is needs_feed(job.graph, steps.stages[0])
    assert ([(0, 8)] if is_timed else []) == steps.tick_calls()
    assert (TimeMode.EVENT_TIME if is_timed else TimeMode.PROCESSING_TIME) is steps.time_mode
