# SPDX-License-Identifier: Apache-2.0
"""What functions without keys count: through all operators to where Spark observes it."""

from __future__ import annotations

from collections import Counter

from job_stream_support import job_collected, results_of_stream

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.pyflink._graph.job_run import find_counting_nodes
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink.common import Configuration
from pyflinklike.pyflink.datastream import (
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)

FACTS = SessionFacts(partitions=1, max_parallelism=4, time_zone="UTC")


class Mapping(MapFunction):
    """Adds up what it sees."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.seen = group.counter("seen")
        group.gauge("limit", lambda: 9)

    def map(self, value):
        self.seen.inc(value)
        return value


class Twice(ProcessFunction):
    """Gives each element twice, and counts what it gives."""

    def open(self, runtime_context):
        self.given = runtime_context.get_metrics_group().counter("given")

    def process_element(self, value, ctx):
        self.given.inc(2)
        yield from (value, value)


class Passing(KeyedProcessFunction):
    """Has metrics of its own, which its state operator reports."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def process_element(self, value, ctx):
        self.seen.inc()
        yield value


class Silent(MapFunction):
    """Without `open`, so that it cannot count."""

    def map(self, value):
        return value


def job_of(program):
    """The job of a stream that is collected."""
    settings = {"pyflinklike.source.records-per-batch": "2"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    return job_collected(program(env.from_collection([1, 2, 3, 4, 5])))


def test_counts_come_through_two_operators():
    """Of the stages before, between and behind them; each element counts once."""
    job = job_of(
        lambda numbers: (
            numbers.map(Mapping())
            .name("first")
            .key_by(lambda n: n % 2)
            .process(Passing())
            .process(Twice())
            .name("between")
            .map(Silent())
            .key_by(lambda n: n)
            .process(Passing())
            .map(Mapping())
            .uid("last")
        )
    )
    counts = []

    elements = results_of_stream(job, FACTS, counts=counts)

    sums = Counter()
    for each in counts:
        if each["how"] == "sum":
            sums[each["function"], each["name"]] += each["value"]
    assert sorted(elements) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert {("first", "seen"): 15, ("between", "given"): 10, ("last", "seen"): 30} == dict(sums)
    assert {9} == {each["value"] for each in counts if each["how"] != "sum"}


def test_a_function_with_the_name_of_a_keyed_one_has_another():
    """Spark refuses two observations of one name; those of functions without keys are added up."""
    job = job_of(
        lambda numbers: (
            numbers.map(Mapping())
            .name("count")
            .map(Mapping())
            .name("twin")
            .map(Mapping())
            .name("twin")
            .map(Silent())
            .key_by(lambda n: n)
            .process(Passing())
            .uid("count")
        )
    )

    names = list(find_counting_nodes(job.graph).values())

    assert ["count-2", "twin", "twin"] == names


def test_names_of_metrics_that_are_taken_get_a_number():
    """None that another function of the job has."""
    job = job_of(
        lambda numbers: (
            numbers.map(Mapping())
            .name("count")
            .map(Mapping())
            .name("count-2")
            .key_by(lambda n: n)
            .process(Passing())
            .uid("sums")
        )
    )
    steps, taken = JobSteps(job, FACTS, HashMapStateBackend()), {"count", "sums", "others"}

    steps.tell_apart(taken)

    assert ["count-3", "count-2"] == list(steps.counting.values())
    assert {"count": "count-3", "count-2": "count-2", "sums": "sums-2"} == steps.shown_names
    assert {"count", "count-2", "count-3", "sums", "sums-2", "others"} == taken
