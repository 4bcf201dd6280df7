# SPDX-License-Identifier: Apache-2.0
"""A stream that is stopped, killed or cold goes on as if nothing had happened."""

from __future__ import annotations

import pytest
from host_models import model_stream
from pyspark.errors import StreamingQueryException
from spark_support import (
    RICH_OUTPUT,
    RICH_SCHEMA,
    RICH_SIDE,
    Feed,
    Rich,
    at,
    drain,
    pickle_by_value,
    reads_state,
    rich_batches,
    rich_harness,
    rich_outputs,
    rich_rows,
    rows_of,
    start,
)

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.log_storage import HEAD_AT, Head
from pyflinklike.spark import key_by, metrics_of
from pyflinklike.spark._host.blob_map import LOG_VARIABLE
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE
from pyflinklike.state_processor import list_states, read_state
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)

SEED = 20240310


def _rich(feed, **options):
    return key_by(feed.stream(), "key").process(
        Rich(), RICH_OUTPUT, event_time="ts", side_outputs=[RICH_SIDE], max_parallelism=2, **options
    )


def _all(*runs):
    return rich_rows(row for batches in runs for rows in batches.values() for row in rows)


def _log(spark, checkpoint):
    """The heads of the key groups: (first, next) sequence of each."""
    reader = spark.read.format("statestore").option("stateVarName", LOG_VARIABLE)
    log = reader.load(str(checkpoint)).where(f"user_map_key.sequence = {HEAD_AT}")
    heads = [
        Head.from_bytes(row.blob, "test") for row in log.select("user_map_value.blob").collect()
    ]
    return [(head.first_sequence, head.next_sequence) for head in heads]


@pytest.mark.telling
def test_a_stream_stopped_after_every_batch_ends_as_one_that_ran_through(spark, tmp_path):
    """Each batch in a query of its own, state rebuilt from a log that is compacted on the way, gives what the harness gives."""
    feed = Feed(spark, tmp_path / "input", RICH_SCHEMA)
    runs = []
    for batch in rich_batches(SEED, batches=5, size=120):
        feed.add(batch)
        runs.append(drain(_rich(feed), tmp_path / "checkpoint"))

    assert rich_outputs(model_stream(rich_harness(), feed.elements(), "ts")) == _all(*runs)
    if HAS_TRANSFORM_WITH_STATE:  # PySpark 3.5 cannot read state
        # Both groups were compacted: what their logs began with is gone.
        heads = _log(spark, tmp_path / "checkpoint")
        assert [True, True] == [0 < first < end for first, end in heads]


class Sums(KeyedProcessFunction):
    """A sum per key, a list and a map that are wiped whenever the sum is a multiple of 5."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.parts = runtime_context.get_list_state(ListStateDescriptor("parts", Types.LONG()))
        self.marks = runtime_context.get_map_state(
            MapStateDescriptor("marks", Types.LONG(), Types.LONG())
        )

    def process_element(self, value, ctx):
        total = (self.sum.value() or 0) + value.n
        self.sum.update(total)
        if total % 5 == 0:
            for state in (self.sum, self.parts, self.marks):
                state.clear()
        else:
            self.parts.add(value.n)
            self.marks.put(value.n, total)
        yield ctx.get_current_key(), total, list(self.parts.get()), dict(self.marks.items())


SUMS = "key string, total long, parts array<long>, marks map<long, long>"


def _sums(feed, **options):
    return key_by(feed.stream(), "key").process(Sums(), SUMS, max_parallelism=2, **options)


def _expected_sums(batches):
    with KeyedProcessHarness(Sums(), key_selector=lambda row: row.key) as harness:
        return [
            rows_of(harness.process_elements((row, None) for row in batch)) for batch in batches
        ]


def _sums_kept(batches):
    """What `Sums` has in state at the end."""
    sums = {}
    for row in (row for batch in batches for row in batch):
        total = sums.pop(row.key, 0) + row.n
        if total % 5:
            sums[row.key] = total
    return sums


def _number_batches(count):
    return [[(f"k{i % 7}", i * j % 4 + 1) for i in range(20)] for j in range(1, count + 1)]


@pytest.mark.thorough
@pytest.mark.skipif(not HAS_TRANSFORM_WITH_STATE, reason="PySpark 3.5 cannot read state")
def test_the_state_of_a_batch_that_is_done_again_replaces_that_of_its_first_attempt(
    spark, tmp_path
):
    """Also in the files, where the next batch adds to it: a crash before Spark's commit, say."""
    feed, checkpoint = Feed(spark, tmp_path / "input", "key string, n int"), tmp_path / "checkpoint"
    feed.add(*_number_batches(2))
    drain(_sums(feed), checkpoint)
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    feed.add(*_number_batches(1))
    again = drain(_sums(feed), checkpoint)
    expected = _expected_sums(feed.elements())

    assert expected[1:] == [rows_of(rows) for rows in again.values()]
    totals = {row.key: row.value for row in read_state(spark, str(checkpoint), "sum").collect()}
    assert _sums_kept(feed.elements()) == totals


@pytest.mark.thorough
def test_a_batch_whose_sink_failed_is_repeated_from_the_state_before_it(spark, tmp_path):
    """State committed by a batch that never became durable is not used when the batch is run again by the same plan."""
    feed = Feed(spark, tmp_path / "input", "key string, n int")
    feed.add(*_number_batches(4))
    result = _sums(feed)
    seen: dict[int, list[object]] = {}
    broken = [True]

    def sink(df, batch_id):
        rows = df.collect()
        if batch_id == 2 and broken.pop(0):
            msg = "the sink is full"
            raise OSError(msg)
        seen[batch_id] = rows_of(rows)

    def run():
        writer = result.writeStream.foreachBatch(sink).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        run()
    assert [0, 1] == sorted(seen)
    broken.append(False)
    run()

    assert dict(enumerate(_expected_sums(feed.elements()))) == seen


class Retyped(KeyedProcessFunction):
    """A value state of whatever type it is told."""

    def __init__(self, kind):
        self.kind = kind

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", self.kind))

    def process_element(self, value, ctx):
        self.total.update(value.n)
        yield ctx.get_current_key(), value.n


@pytest.mark.thorough
def test_state_that_does_not_fit_what_the_program_declares_is_refused_by_name(spark, tmp_path):
    """A changed type is an IncompatibleStateError; the old program goes on."""
    feed = Feed(spark, tmp_path / "input", "key string, n int")

    def run(kind):
        feed.add([(f"k{i}", i) for i in range(8)])
        result = key_by(feed.stream(), "key").process(
            Retyped(kind), "key string, n int", max_parallelism=2, uid="retyped"
        )
        return drain(result, tmp_path / "checkpoint")

    run(Types.LONG())
    with pytest.raises(StreamingQueryException, match=r"IncompatibleStateError: .*'total'"):
        run(Types.STRING())
    assert 16 == len(rows_of(run(Types.LONG())))


class Shrinking(KeyedProcessFunction):
    """A count, and a long text of each record while there is the state for it."""

    def __init__(self, *, keeps_texts):
        self.keeps_texts = keeps_texts

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        if self.keeps_texts:
            texts = MapStateDescriptor("texts", Types.LONG(), Types.STRING())
            self.texts = runtime_context.get_map_state(texts)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        if self.keeps_texts:
            self.texts.put(value.n, str(value.n) * 300)
        yield value.key, self.count.value()


@pytest.mark.thorough
@pytest.mark.telling
@reads_state
def test_a_dropped_state_leaves_the_checkpoint_and_the_progress_tells_of_it(spark, tmp_path):
    """A misspelt name stops the query first; then the bytes go, and the other state stays."""
    feed = Feed(spark, tmp_path / "input", "key string, n long")
    checkpoint = tmp_path / "checkpoint"
    records = [(f"k{n}", n) for n in range(20)]

    def run(drop=(), *, keeps_texts=False):
        feed.add(records)
        result = key_by(feed.stream(), "key").process(
            Shrinking(keeps_texts=keeps_texts),
            "key string, count long",
            max_parallelism=2,
            uid="shrinking",
            drop_states=drop,
        )
        query, batches = start(result, checkpoint, availableNow=True)
        query.awaitTermination()
        dropped = sum(
            told["dropped_entries"]
            for each in query.recentProgress
            if (told := metrics_of(each, "shrinking"))
        )
        return {row["count"] for rows in batches.values() for row in rows}, dropped

    def stored():
        """The states, and the bytes of what Spark's state has now."""
        reader = spark.read.format("statestore").option("stateVarName", LOG_VARIABLE)
        blobs = reader.load(str(checkpoint)).select("user_map_value.blob").collect()
        names = sorted(each.name for each in list_states(spark, checkpoint))
        return names, sum(len(row.blob) for row in blobs)

    assert ({1}, 0) == run(keeps_texts=True)
    names, before = stored()
    with pytest.raises(StreamingQueryException, match=r"UnknownStateError: .*mean 'texts'"):
        run(["text"])
    assert (names, before) == stored()
    assert ({2, 3}, 20) == run(["texts"])
    after = stored()
    assert (["count", "texts"], ["count"], True) == (names, after[0], after[1] < before / 4)
    assert ({4}, 0) == run()


@pytest.mark.telling
def test_pending_timers_survive_a_restart(spark, tmp_path):
    """Timers that are pending when a query stops fire once in the next, in the batch or without data."""

    class Reminder(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + value.n)
            return []

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), timestamp

    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp, n int")

    def run(*rows):
        feed.add(list(rows))
        result = key_by(feed.stream(), "key").process(
            Reminder(), "key string, at long", event_time="ts", max_parallelism=8
        )
        return rows_of(drain(result, tmp_path / "checkpoint"))

    assert [] == run(("a", at(1_000), 5_000), ("b", at(1_000), 7_000), ("c", at(1_500), 7_000))
    assert [("a", 6_000)] == run(("a", at(6_500), 100_000))
    assert [("b", 8_000), ("c", 8_500)] == run(("d", at(9_000), 100_000))
