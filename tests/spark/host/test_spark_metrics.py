# SPDX-License-Identifier: Apache-2.0
"""Metrics of a stream, where Spark's users look for them."""

from __future__ import annotations

import queue

import pytest
from pyspark.sql.streaming import StreamingQueryListener
from spark_support import Feed, at, pickle_by_value, start

from pyflinklike import KeyedProcessFunction, StateTtlConfig, Types, ValueStateDescriptor
from pyflinklike.spark import key_by, metrics_of

pickle_by_value(__name__)

SCHEMA = "key string, ts timestamp, n int"
PATIENCE = 120


class Measured(KeyedProcessFunction):
    """A total that dies after 100 ms of event time, a timer for 5s, and metrics of each kind."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("total", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(100).use_event_time().build())
        self.total = runtime_context.get_state(descriptor)
        metrics = runtime_context.get_metrics_group()
        self.fives = metrics.counter("fives")
        self.sizes = metrics.add_group("of").distribution("sizes")
        metrics.gauge("seven", lambda: 7)

    def process_element(self, value, ctx):
        self.sizes.update(value.n)
        self.total.update((self.total.value() or 0) + value.n)
        if value.n == 5:
            self.fives.inc()
            ctx.timer_service().register_event_time_timer(value.n)
        yield value.key, self.total.value()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), -1


class Listener(StreamingQueryListener):
    """Keeps what it is told of progress."""

    def __init__(self):
        self.observed = queue.Queue()

    def onQueryStarted(self, event):
        """Nothing to do."""

    def onQueryProgress(self, event):
        self.observed.put(metrics_of(event, "measured"))

    def onQueryIdle(self, event):
        """Nothing to do."""

    def onQueryTerminated(self, event):
        self.observed.put(None)


@pytest.fixture
def listener(spark):
    """A listener that is taken off again."""
    made = Listener()
    spark.streams.addListener(made)
    yield made
    spark.streams.removeListener(made)


@pytest.mark.telling
def test_metrics_are_in_the_progress_of_each_batch_and_reach_listeners(spark, tmp_path, listener):
    """Sums over tasks and key groups, the operator's and the user's, by the operator's name; also of a batch that only cleans up, and of one that does nothing."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add(
        [("a", at(10), 1), ("b", at(20), 5), ("c", at(20), 5), ("a", at(20), 3)],
        [("a", at(500), 3)],
        [("a", at(100), 4)],
    )
    result = key_by(feed.stream(), "key").process(
        Measured(),
        "key string, total long",
        event_time="ts",
        max_parallelism=64,
        uid="measured",
    )
    query, batches = start(result, tmp_path / "checkpoint", availableNow=True)
    assert query.awaitTermination(PATIENCE)

    first, second, third, *_ = [metrics_of(each, "measured") for each in query.recentProgress]
    assert (4, 4, 3, 3, 2, 0) == (
        *(first.records, first.outputs, first.keys, first.live_entries),
        *(first.timers, first.late_records),
    )
    assert first.segment_bytes == first.state_bytes > 0
    assert {
        "fives": 2,
        "of.sizes.count": 4,
        "of.sizes.sum": 14,
        "of.sizes.min": 1,
        "of.sizes.max": 5,
        "seven.min": 7,
        "seven.max": 7,
    } == first.user
    # The watermark of the first batch fires both timers in the second.
    assert (1, 2, 3) == (second.records, second.timers_fired, second.outputs)
    # That of the second has made everything but what it wrote itself expire.
    assert (1, 1, 2, 1) == (
        *(third.records, third.late_records),
        *(third.expired_entries, third.live_entries),
    )
    told = list(iter(lambda: listener.observed.get(timeout=PATIENCE), None))
    assert [first, second, third] == told[:3]
    assert [4, 3, 1] == [len(batches[number]) for number in range(3)]


class Counted(KeyedProcessFunction):
    """A number of records for each key, for ever."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value.key, self.count.value()


@pytest.mark.thorough
def test_a_batch_without_data_says_nothing_of_what_key_groups_hold(spark, tmp_path):
    """The last batch only moves the watermark: 0 entries would be wrong, and those of before are not known."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add([("a", at(10), 1), ("b", at(20), 5)])
    result = key_by(feed.stream(), "key").process(
        Counted(), "key string, total long", event_time="ts", uid="counted"
    )

    query, _ = start(result, tmp_path / "checkpoint", availableNow=True)
    assert query.awaitTermination(PATIENCE)

    last = metrics_of(query.lastProgress, "counted")
    assert (0, 0, None, None, None) == (
        *(last.records, last.key_groups, last.live_entries, last.timers, last.state_bytes),
    )
