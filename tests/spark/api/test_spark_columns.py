# SPDX-License-Identifier: Apache-2.0
"""Columnar functions on Spark: on streams and batches, and in turns with functions of elements."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from host_models import model_stream
from spark_support import (
    Feed,
    at,
    bounded,
    drain,
    pickle_by_value,
    rows_of,
)

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.columns.columnar_layout import ColumnLayout
from pyflinklike.errors import DeclarationValueError, OutputError
from pyflinklike.spark import get_side_output, key_by, main_output
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark._wire.schema import output_schema
from pyflinklike.state_processor import read_savepoint
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)

SCHEMA = "user string, ts timestamp, amount double"
OUTPUT = "user string, n long, total double"


def descriptors():
    """A count, and a sum that lives 10 seconds of event time."""
    total = ValueStateDescriptor("total", Types.DOUBLE())
    builder = StateTtlConfig.new_builder(10_000).use_event_time()
    total.enable_time_to_live(builder.update_ttl_on_read_and_write().build())
    return ValueStateDescriptor("count", Types.LONG()), total


class ByElement(KeyedProcessFunction):
    """Running count and sum."""

    def open(self, ctx):
        self.count, self.total = map(ctx.get_state, descriptors())

    def process_element(self, value, ctx):
        count, total = (self.count.value() or 0) + 1, (self.total.value() or 0.0) + value.amount
        self.count.update(count)
        self.total.update(total)
        yield value.user, count, total


class InColumns(KeyedBatchFunction):
    """The same, whose columns come in another order."""

    def open(self, ctx):
        self.count, self.total = map(ctx.get_column_state, descriptors())

    def process_batch(self, batch, ctx):
        groups = batch.groups
        count = groups.spread(self.count.get(0)) + groups.rank() + 1
        total = groups.running(np.add, batch.numpy("amount"), self.total.get(0.0))
        self.count.put(groups.last(count))
        self.total.put(groups.last(total))
        return {"total": total, "user": batch["user"], "n": count}


def records(number: int, size: int = 400):
    """A micro-batch: keys that come back and keys that do not, out of order."""
    random = np.random.default_rng(number)
    users = [f"user-{key}" for key in random.integers(0, 150, size)] + [f"only-{number}", "é"]
    times = number * 9_000 + random.integers(0, 8_000, len(users))
    return [
        (user, at(int(time)), float(amount))
        for user, time, amount in zip(users, times, random.normal(size=len(users)))
    ]


BATCHES = [records(number) for number in range(4)]


def in_turns(spark, directory, functions):
    """The rows of a stream that these functions drive, each for as many micro-batches."""
    feed, waiting = Feed(spark, directory / "input", SCHEMA), iter(BATCHES)
    rows = []
    for function, batches in functions:
        feed.add(*(next(waiting) for _ in range(batches)))
        result = key_by(feed.stream(), "user").process(
            function(), OUTPUT, event_time="ts", uid="totals", max_parallelism=2
        )
        rows += rows_of(drain(result, directory / "checkpoint"))
    return feed, sorted(rows, key=repr)


@pytest.mark.telling
@pytest.mark.thorough
def test_both_kinds_of_functions_go_on_from_each_others_checkpoint(spark, tmp_path):
    """Rebuilt from the log and warm, with a TTL by event time that expires between batches."""
    feed, rows = in_turns(spark, tmp_path, [(InColumns, 1), (ByElement, 1), (InColumns, 2)])

    with KeyedProcessHarness(ByElement(), lambda row: row.user) as harness:
        assert rows_of(model_stream(harness, feed.elements(), "ts").output) == rows
    if HAS_TRANSFORM_WITH_STATE:  # PySpark 3.5 cannot read state
        savepoint = read_savepoint(spark, tmp_path / "checkpoint")
        with KeyedBatchHarness(InColumns(), "user", "ts", restore=savepoint) as restored:
            again = {"user": ["only-0"], "amount": [1.0], "ts": [dt.datetime(1970, 1, 1)]}
            assert [2] == restored.process_batch(again).column("n").to_pylist()


class Counts(KeyedBatchFunction):
    """How many records the key has had, and the time of each."""

    def open(self, ctx):
        self.count = ctx.get_column_state(ValueStateDescriptor("count", Types.LONG()))

    def process_batch(self, batch, ctx):
        count = batch.groups.spread(self.count.get(0)) + batch.groups.rank() + 1
        self.count.put(batch.groups.last(count))
        return {"bucket": count % 3, "n": count, "ts": batch["ts"]}


SIGNS = MapStateDescriptor("signs", Types.STRING(), Types.LONG())
LATER_MS = 5_000


class SignsByElement(KeyedProcessFunction):
    """Counts amounts by their sign; a timer of each record tells, and every other one clears."""

    def open(self, ctx):
        self.signs = ctx.get_map_state(SIGNS)

    def process_element(self, value, ctx):
        sign = "up" if value.amount > 0 else "down"
        self.signs.put(sign, (self.signs.get(sign) or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + LATER_MS)

    def on_timer(self, timestamp, ctx):
        counts = list(self.signs.values())
        if timestamp % 2:
            self.signs.clear()
        yield ctx.get_current_key(), len(counts), float(sum(counts))


class SignsInColumns(KeyedBatchFunction):
    """The same."""

    def open(self, ctx):
        self.signs = ctx.get_column_map_state(SIGNS)

    def process_batch(self, batch, ctx):
        signs = self.signs.at(np.where(batch.numpy("amount") > 0, "up", "down"))
        signs.put(signs.get(0) + signs.groups.counts)
        times = batch.timestamps + LATER_MS
        ctx.timer_service().register_event_time_timer(times, codes=batch.groups.codes)

    def on_timers(self, batch, ctx):
        items = self.signs.items()
        size, total = np.zeros(len(batch), int), np.zeros(len(batch))
        np.add.at(size, items.codes, 1)
        np.add.at(total, items.codes, items.values)
        self.signs.clear(batch.timestamps % 2 == 1)
        return {"user": batch["user"], "n": size, "total": total}


@pytest.mark.thorough
@pytest.mark.telling
def test_timers_and_maps_go_on_from_each_others_checkpoint(spark, tmp_path):
    """Those that one kind of function registers fire in the other, and see the maps of both."""
    turns = [(SignsByElement, 1), (SignsInColumns, 2), (SignsByElement, 1)]
    feed, rows = in_turns(spark, tmp_path, turns)

    with KeyedProcessHarness(SignsByElement(), lambda row: row.user) as harness:
        expected = rows_of(model_stream(harness, feed.elements(), "ts").output)
    assert (True, expected) == (len(rows) > 1_000, rows)
    if HAS_TRANSFORM_WITH_STATE:  # PySpark 3.5 cannot read state
        savepoint = read_savepoint(spark, tmp_path / "checkpoint")
        with KeyedBatchHarness(SignsInColumns(), "user", "ts", restore=savepoint) as restored:
            assert 0 < restored.num_event_time_timers()


def test_in_a_batch_every_event_time_timer_fires_at_the_end(spark):
    """One of each record, in both kinds of functions alike."""
    frame = bounded(spark, BATCHES[0], SCHEMA)

    def run(function):
        return key_by(frame, "user").process(function, OUTPUT, event_time="ts").collect()

    rows = run(SignsInColumns())
    assert 402 >= len(rows) > 300
    assert sorted(map(repr, run(SignsByElement()))) == sorted(map(repr, rows))


LATE = OutputTag("large")


class Large(KeyedBatchFunction):
    """The rank of each record by its key, and large ones aside."""

    def process_batch(self, batch, ctx):
        large = pa.array(batch.numpy("amount") > 1.0)
        ctx.output(LATE, {"amount": batch["amount"].filter(large)})
        local = np.array(["2020-01-02T03:04:05"] * len(batch), "datetime64[us]")
        return {"key": batch["key"], "rank": batch.groups.rank(), "ts": batch["ts"], "local": local}


@pytest.mark.parametrize("kind", ["timestamp", "double", "int"])
def test_a_batch_gives_what_a_loop_would(spark, kind):
    """In the order of event time, whatever the key is, with columns aside."""
    rows = [(number % 3, at(1000 - number), float(number % 4)) for number in range(40)]
    frame = bounded(spark, rows, "number int, ts timestamp, amount double").selectExpr(
        f"cast(number as {kind}) key",
        "number",
        "ts",
        "amount",
    )
    result = key_by(frame, "key").process(
        Large(),
        f"key {kind}, rank int, ts timestamp, local timestamp",
        event_time="ts",
        side_outputs={LATE: "amount double"},
        max_parallelism=3,
    )

    # Within the same ms in the order of arrival; times fall, so ranks do.
    ranks = sorted((row.ts, row.rank) for row in main_output(result).collect())
    assert [number // 3 for number in range(40)] == [rank for _, rank in ranks]
    assert 20 == get_side_output(result, LATE).count()
    assert {dt.datetime(2020, 1, 2, 3, 4, 5)} == {
        row.local for row in main_output(result).collect()
    }


def test_a_backend_without_columns_is_refused_before_the_query(spark):
    """On the driver."""
    frame = spark.range(1).selectExpr("string(id) user")

    with pytest.raises(DeclarationValueError, match=r"use HashMapStateBackend\(\)"):
        key_by(frame, "user").process(Large(), OUTPUT, state_backend=EmbeddedRocksDBStateBackend())


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"user": ["a"], "n": [1]}, r"the columns must be \['user', 'n', 'total'\], got"),
        (
            {"user": ["a"], "n": ["1"], "total": [1.0]},
            "column 'n' is bigint, got a column of string: ",
        ),
        (
            {"user": ["a"], "n": [1.5], "total": [1.0]},
            r"column 'n' is bigint, .* got 1.5 \(float\)",
        ),
        (
            {"user": [1], "n": [1], "total": [1.0]},
            r"column 'user' is string, .* takes a str, got 1 \(int\)",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused(spark, columns, why):
    """By the name of the column; nothing is converted that would mean something else."""
    schema = output_schema(spark.range(1), OUTPUT)
    layout = ColumnLayout(schema, {}, "UTC", "totals")

    with pytest.raises(OutputError, match=why):
        layout._fit(pa.RecordBatch.from_pydict(columns), schema, "output")
