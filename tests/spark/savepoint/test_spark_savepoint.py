# SPDX-License-Identifier: Apache-2.0
"""State leaves a checkpoint as a savepoint, and a new checkpoint begins with one."""

from __future__ import annotations

import time

import pytest
from host_models import model_stream
from pyspark.errors import StreamingQueryException
from spark_savepoints import Sum, rocksdb
from spark_support import (
    RICH_OUTPUT,
    RICH_SCHEMA,
    RICH_SIDE,
    Feed,
    Rich,
    at,
    drain,
    milliseconds,
    pickle_by_value,
    reads_state,
    rich_batches,
    rich_outputs,
    rich_rows,
    rows_of,
)

from pyflinklike import KeyedProcessFunction, Row
from pyflinklike.spark import key_by
from pyflinklike.state_processor import read_savepoint
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)


SEED = 20240310


def rich(feed, **options):
    """The rich function on a stream."""
    return key_by(feed.stream(), "key").process(
        Rich(), RICH_OUTPUT, event_time="ts", side_outputs=[RICH_SIDE], **options
    )


def harness(**options):
    """The rich function in a harness."""
    return KeyedProcessHarness(Rich(), key_selector=lambda value: value.key, **options)


def present(driven):
    """A harness whose clock is the stream's, by which entries of a day's TTL are alive."""
    driven.set_processing_time(time.time_ns() // 1_000_000)
    return driven


def rows(*runs):
    """The main and side outputs of runs of the rich function."""
    return rich_rows(row for run in runs for batch in run.values() for row in batch)


@pytest.mark.thorough
@reads_state
@pytest.mark.telling
def test_a_harness_goes_on_from_the_savepoint_of_a_stream(spark, tmp_path):
    """All states and timers of all key groups, also after an earlier batch, under the harness's own kind of keys."""
    feed = Feed(spark, tmp_path / "input", RICH_SCHEMA)
    *batches, last = rich_batches(SEED, batches=4, size=120)
    feed.add(*batches[:3])
    drain(rich(feed, max_parallelism=4), tmp_path / "checkpoint")
    feed.add(batches[3])
    drain(rich(feed, max_parallelism=4), tmp_path / "checkpoint")
    model = model_stream(harness(), feed.elements(), "ts")

    restored = harness(restore=read_savepoint(spark, tmp_path / "checkpoint"))
    for name in ("seq", "log", "items", "marks", "text", "mean"):
        assert model.num_keyed_state_entries(name) == restored.num_keyed_state_entries(name), name
    assert 0 < model.num_event_time_timers() == restored.num_event_time_timers()

    seen, watermark = len(model.output), model.watermark
    later = Feed(spark, tmp_path / "later", RICH_SCHEMA)
    later.add(*rich_batches(SEED + 1, batches=1, size=60), [last[0]])
    for each in (model, restored):
        each.process_watermark(watermark)
        model_stream(each, later.elements(), "ts")
    assert sorted(model.output[seen:]) == sorted(restored.output)

    early = harness(restore=read_savepoint(spark, tmp_path / "checkpoint", batch_id=0))
    first = KeyedProcessHarness(Rich(), key_selector=lambda value: value.key)
    first.process_elements((row, milliseconds(row.ts)) for row in feed.elements()[0])
    assert 0 < first.num_event_time_timers() == early.num_event_time_timers()


@pytest.mark.thorough
@pytest.mark.telling
def test_a_stream_goes_on_from_the_snapshot_of_a_harness(spark, tmp_path):
    """Over another backend and max_parallelism, with timers in groups without data; once, whatever restarts."""
    before = Feed(spark, tmp_path / "before", RICH_SCHEMA)
    before.add(*rich_batches(SEED + 2, batches=3, size=120)[:-1])
    snapshot = model_stream(present(harness()), before.elements(), "ts").snapshot()
    feed = Feed(spark, tmp_path / "input", RICH_SCHEMA)
    later = rich_batches(SEED + 3, batches=3, size=5)
    options = {"max_parallelism": 16, "state_backend": rocksdb(tmp_path / "local")}

    feed.add(later[0])
    runs = [drain(rich(feed, from_savepoint=snapshot, **options), tmp_path / "checkpoint")]
    feed.add(later[1])
    runs.append(drain(rich(feed, from_savepoint=snapshot, **options), tmp_path / "checkpoint"))
    feed.add(later[2], later[3])
    runs.append(drain(rich(feed, **options), tmp_path / "checkpoint"))

    model = present(harness(restore=snapshot))
    assert 5 < model.num_event_time_timers()
    assert rich_outputs(model_stream(model, feed.elements(), "ts")) == rows(*runs)


class Reminder(KeyedProcessFunction):
    """Calls back after `n` ms."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value.n)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


@pytest.mark.thorough
def test_the_timers_of_a_savepoint_wake_groups_without_data(spark, tmp_path):
    """When the watermark reaches them."""
    reminding = KeyedProcessHarness(Reminder(), key_selector=lambda value: value.key)
    for number in range(6):
        reminding.process_element(Row(key=f"k{number}", n=1_000 + number))
    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp, n int")
    feed.add([("other", at(1_005), 9_000)])
    result = key_by(feed.stream(), "key").process(
        Reminder(),
        "key string, at long",
        event_time="ts",
        max_parallelism=8,
        from_savepoint=reminding.snapshot(),
    )
    fired = rows_of(drain(result, tmp_path / "checkpoint"))
    assert [(f"k{number}", 1_000 + number) for number in range(5)] == fired


@pytest.mark.thorough
@reads_state
def test_a_savepoint_changes_max_parallelism(spark, tmp_path):
    """As the error says that refuses to change it in a checkpoint; the keys are ints of 32 bits."""
    feed = Feed(spark, tmp_path / "input", "key int, n int")

    def run(checkpoint, max_parallelism, **options):
        stream = key_by(feed.stream(), "key")
        result = stream.process(
            Sum(), "key int, total long", max_parallelism=max_parallelism, **options
        )
        return rows_of(drain(result, tmp_path / checkpoint))

    feed.add([(key, 1) for key in range(20)])
    run("old", 4)
    feed.add([(key, 1) for key in range(20)])
    with pytest.raises(StreamingQueryException, match="from_savepoint=read_savepoint"):
        run("old", 16)

    feed = Feed(spark, tmp_path / "new input", "key int, n int")
    feed.add([(key, 1) for key in range(20)])
    blob = read_savepoint(spark, tmp_path / "old")
    assert rows_of((key, 2) for key in range(20)) == run("new", 16, from_savepoint=blob)


@reads_state
def test_a_savepoint_is_of_the_last_batch_that_was_committed(spark, tmp_path):
    """Not of the one that its sink has failed in, whose state is written already; also while the query runs."""
    feed = Feed(spark, tmp_path / "input", "key string, n int")
    feed.add([("a", 1)], [("a", 10)])
    checkpoint = str(tmp_path / "checkpoint")

    def total():
        restored = KeyedProcessHarness(
            Sum(), key_selector=lambda value: value.key, restore=read_savepoint(spark, checkpoint)
        )
        return restored.process_element(Row(key="a", n=0))

    def sink(batch, batch_id):
        batch.collect()
        if batch_id == 1:
            seen.append(total())
            raise OSError

    seen = []
    result = key_by(feed.stream(), "key").process(Sum(), "key string, n long", max_parallelism=2)
    writer = result.writeStream.foreachBatch(sink).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException):
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()
    assert [("a", 1)] == total()
    assert [[("a", 1)]] == seen
