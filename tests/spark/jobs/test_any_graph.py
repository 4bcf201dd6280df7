# SPDX-License-Identifier: Apache-2.0
"""A law: any graph gives as one line of stages what it gives element by element."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from job_stream_support import results_of_stream

from pyflinklike.pyflink._spark.job_plan import SessionFacts
from pyflinklike.pyflink.common import Configuration, Types
from pyflinklike.pyflink.datastream import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
)
from pyflinklike.pyflink.datastream.state import ValueStateDescriptor

ASIDE = OutputTag("aside")
FACTS = SessionFacts(partitions=1, max_parallelism=3, time_zone="UTC")
KINDS = ["map", "filter", "union", "split", "count", "aside", "both"]
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9
)


class Count(KeyedProcessFunction):
    """How many elements a key had; every second one goes aside, too.

    What comes of it does not depend on the order in which elements come.
    """

    def open(self, runtime_context):
        """Declares the number."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        """Counts."""
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count
        if count % 2 == 0:
            yield ASIDE, (ctx.get_current_key(), -count)


class CountBoth(KeyedCoProcessFunction):
    """The same of two inputs, which share the number."""

    def open(self, runtime_context):
        """Declares the number, under the name that it has elsewhere."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value, ctx):
        """Counts."""
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count

    process_element2 = process_element1


def parity(value):
    """A key of few values."""
    return value[1] % 2


def grown(streams, kind, one, other):
    """One more stream, of those that are there."""
    first, second = streams[one % len(streams)], streams[other % len(streams)]
    if kind == "map":
        return first.map(lambda value: (value[0], value[1] + 1))
    if kind == "filter":
        return first.filter(lambda value: value[1] % 3)
    if kind == "union":
        return first.union(second)
    if kind == "split":
        return first.broadcast().map(lambda value: value).set_parallelism(2)
    if kind == "both":
        return first.key_by(parity).connect(second.key_by(parity)).process(CountBoth())
    counted = first.key_by(parity).process(Count())
    return counted.get_side_output(ASIDE) if kind == "aside" else counted


class Line:
    """A host: what Spark would run in tasks."""

    def __init__(self, job):
        self.job = job

    def collect(self, _):
        """What came to the sink."""
        return iter(results_of_stream(self.job, FACTS))

    def cancel(self):
        """It has ended."""


def results(steps, cut, host=None):
    """What a graph of these steps gives, all of its streams together."""
    values = {"execution.target": "local", "pyflinklike.source.records-per-batch": str(cut)}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))
    streams = [env.from_collection([(at, n) for n in range(3 + at)]) for at in range(2)]
    for step in steps:
        streams.append(grown(streams, *step))
    marked = [stream.map(lambda value, at=at: (at, value)) for at, stream in enumerate(streams)]
    every = marked[0].union(*marked[1:])
    if host is not None:
        every._program._host = lambda: host
    return Counter(every.execute_and_collect())


@settings(max_examples=settings().max_examples // 2)
@given(steps=STEPS, cut=st.integers(0, 4))
def test_any_graph_gives_in_a_line_what_it_gives_element_by_element(steps, cut):
    """Diamonds, arms of all lengths, side outputs, copies, unions, functions of two inputs."""
    assert results(steps, cut) == results(steps, cut, Line)
