# SPDX-License-Identifier: Apache-2.0
"""Processing-time timers of jobs that Spark wakes by event time: which fire, and when, without Spark."""

from __future__ import annotations

import pickle

import pytest
from job_stream_support import StateOperator, job_collected, results_of_stream
from test_time_modes import FACTS, Endless, job_of

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.pyflink._spark.job_plan import JobSteps
from pyflinklike.pyflink.common import Configuration, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflinklike.spark._wire.key_groups import group_ids, is_registry_key
from pyflinklike.spark._wire.stage_records import CALL, Address, unwrap

pytest.importorskip("pyspark.sql.datasource", reason="needs PySpark 4.0")


class Later(KeyedProcessFunction):
    """Registers a timer, so much later as the element says."""

    def process_element(self, value, ctx):
        times = ctx.timer_service()
        times.register_processing_time_timer(times.current_processing_time() + value[1])
        yield f"{value[0]} at {times.current_processing_time()}"

    def on_timer(self, timestamp, ctx):
        now = ctx.timer_service().current_processing_time()
        yield f"{ctx.get_current_key()} for {timestamp} at {now}"


def keyed_pairs(*elements):
    """A stream of which each micro-batch has one element."""
    settings = {"pyflinklike.source.records-per-batch": "1"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    return env.from_collection(list(elements)).key_by(lambda pair: pair[0]).process(Later())


def test_a_timer_of_a_job_that_ends_fires_when_its_key_group_is_called_and_at_the_end():
    """What the clock has not reached by then is dropped, as in Flink."""
    stream = keyed_pairs(("a", 1_500), ("b", 1_500), ("a", 99_000))

    found = results_of_stream(job_collected(stream), FACTS, pace=1_000)

    assert [
        "a at 2000",
        "b at 3000",
        "a for 3500 at 4000",
        "a at 4000",
        "b for 4500 at 6000",
    ] == found


def test_timers_behind_another_operator_fire_at_the_end_too():
    """With what the timers of the first one give."""
    stream = keyed_pairs(("a", 2_500))
    again = stream.map(lambda text: (text, 500)).key_by(lambda pair: pair[0]).process(Later())

    found = results_of_stream(job_collected(again), FACTS, pace=1_000)

    assert ["a at 2000 at 2000", "a at 2000 for 2500 at 4000"] == found


def test_a_job_without_an_end_calls_its_key_groups_at_every_trigger():
    """Timers that are due fire then; a call notes nothing where none is."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    stream = env.from_source(Endless(), strategy, "endless")
    keyed = stream.key_by(lambda pair: pair[0], Types.INT())
    again = keyed.process(Later()).map(lambda text: (text, 500)).key_by(lambda pair: pair[0])
    job = job_of(again.process(Later()))
    steps = JobSteps(job, FACTS, HashMapStateBackend())
    before, between, _ = steps.stages
    first = StateOperator(steps.operators(before, between))
    task = steps.task(before)
    sender = task._sender(0)
    sender.records(Address(between.entrances[0], 0), [(7, (7, 1_500), None)])
    rows = rows_of(sender.end(0))
    calls = [(each, -1, CALL) for place, count in steps.tick_calls() for each in group_ids(count)]

    told = [
        first.run(rows, 0, 1_000),
        *(first.run(calls, 0, time) for time in (2_499, 2_500, 9_000)),
    ]

    assert [["7 at 1000"], [], ["7 for 2500 at 2500"], []] == [
        [value for _, payload in each for value, _ in pickle.loads(unwrap(payload))]
        for each in told
    ]
    behind = rows_of(steps.task(between)._sender(0).end(0))
    assert {CALL} == {payload for key, _, payload in behind if not is_registry_key(key)}
    assert 8 == len([key for key, _, _ in behind if not is_registry_key(key)])


def rows_of(batches):
    """The grouping key, origin and payload of each row."""
    return [
        row for batch in batches for row in zip(*(batch.column(at).to_pylist() for at in range(3)))
    ]
