# SPDX-License-Identifier: Apache-2.0
"""Metrics of a job's functions: in the progress that Spark tells its listeners, or with the result of a batch."""

from __future__ import annotations

import queue
from collections import Counter

import pytest
from spark_jobs import on_spark

from pyflinklike.pyflink.datastream import (
    FilterFunction,
    KeyedProcessFunction,
    MapFunction,
)

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
pytestmark = pytest.mark.usefixtures("shipped_module")

PATIENCE = 60


@pytest.fixture
def reported(spark):
    """What all micro-batches of jobs have reported, once they have ended: by function and metric."""
    from pyspark.sql.streaming import StreamingQueryListener

    events = queue.Queue()

    class Noting(StreamingQueryListener):
        def onQueryStarted(self, event):
            """Nothing is to be noted."""

        def onQueryProgress(self, event):
            events.put(event.progress.observedMetrics)

        def onQueryIdle(self, event):
            """Nothing is to be noted."""

        def onQueryTerminated(self, event):
            events.put(None)

    def sums():
        found = Counter()
        for observed in iter(lambda: events.get(timeout=PATIENCE), None):
            for function, metrics in observed.items():
                for name, value in metrics["user"].items():
                    found[function, name] += value
        return dict(found)

    listener = Noting()
    spark.streams.addListener(listener)
    yield sums
    spark.streams.removeListener(listener)


class Mapping(MapFunction):
    """Adds up what it sees, and how large that is."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.seen = group.counter("seen")
        self.sizes = group.add_group("of").distribution("size")

    def map(self, value):
        self.seen.inc(value)
        self.sizes.update(value)
        return value


class Dropping(FilterFunction):
    """Drops what is odd, and counts that."""

    def open(self, runtime_context):
        self.dropped = runtime_context.get_metrics_group().counter("dropped")

    def filter(self, value):
        self.dropped.inc(value % 2)
        return value % 2 == 0


class Counting(KeyedProcessFunction):
    """Counts elements."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def process_element(self, value, ctx):
        self.seen.inc()
        yield value


def test_functions_before_and_behind_a_keyed_one_report(reported):
    """Each under its uid or its name, over all micro-batches; those without any report nothing."""
    env = on_spark(**{"pyflinklike.source.records-per-batch": "3"})
    numbers = env.from_collection([1, 2, 3, 4, 5, 6, 7]).map(Mapping()).uid("mapping")
    keyed = numbers.map(lambda n: n).key_by(lambda n: n % 3).process(Counting()).uid("counting")

    found = sorted(keyed.filter(Dropping()).name("dropping").execute_and_collect())

    totals = reported()
    assert found == [2, 4, 6]
    assert {
        ("mapping", "seen"): 28,
        ("mapping", "of.size.count"): 7,
        ("mapping", "of.size.sum"): 28,
        ("counting", "seen"): 7,
        ("dropping", "dropped"): 4,
    } == {
        key: value for key, value in totals.items() if key[1] not in ("of.size.min", "of.size.max")
    }


def test_a_batch_gives_its_metrics_with_its_result(spark):
    """Spark shows no progress of one; both kinds of functions count, and operators count themselves."""
    env = on_spark(**{"execution.runtime-mode": "BATCH", "parallelism.default": "2"})
    numbers = env.from_collection([1, 2, 3, 4, 5, 6, 7]).map(Mapping()).uid("mapping")
    keyed = numbers.key_by(lambda n: n % 3).process(Counting()).uid("counting")
    keyed.filter(Dropping()).name("dropping").key_by(lambda n: 0).max().uid("most").print()

    metrics = env.execute().metrics

    assert metrics["mapping"]["user"] == {
        "seen": 28,
        "of.size.count": 7,
        "of.size.sum": 28,
        "of.size.min": 1,
        "of.size.max": 7,
    }
    assert metrics["dropping"] == {"user": {"dropped": 4}}
    counting, most = metrics["counting"], metrics["most"]
    assert (counting["user"], most["user"]) == ({"seen": 7}, {})
    assert [(each["records"], each["outputs"], each["keys"]) for each in (counting, most)] == [
        (7, 7, 3),
        (3, 1, 1),
    ]
