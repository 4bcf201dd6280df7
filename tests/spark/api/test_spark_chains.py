# SPDX-License-Identifier: Apache-2.0
"""Operators with event time before and behind ours, in one query."""

from __future__ import annotations

import datetime as dt

import pytest
from spark_support import Feed, at, drain, passes_watermarks, pickle_by_value, rows_of

from pyflinklike import KeyedProcessFunction, OutputTag
from pyflinklike.errors import DeclarationError
from pyflinklike.spark import get_side_output, key_by, main_output

pickle_by_value(__name__)

SCHEMA = "key string, ts timestamp, n int"
SIDE = OutputTag("side")
MARK = "spark.watermarkDelayMs"


class HalfASecondLater(KeyedProcessFunction):
    """Yields nothing but from timers, each 500 ms after a record."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 500)
        return []

    def on_timer(self, timestamp, ctx):
        time = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=timestamp)
        yield ctx.get_current_key(), time, 1


class ToBoth(KeyedProcessFunction):
    """Yields each record to the main output, and one second later to the side output."""

    def process_element(self, value, ctx):
        yield value
        yield SIDE, (value.key, value.ts + dt.timedelta(seconds=1), value.n)


class Watching(KeyedProcessFunction):
    """Tells of records and of timers 100 ms after them, with the watermark."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)
        yield "record", ctx.timestamp(), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp, ctx):
        yield "timer", timestamp, ctx.timer_service().current_watermark()


def _feed(spark, tmp_path):
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add(
        [("a", at(1_000), 1), ("b", at(1_300), 1), ("a", at(1_000), 1)],
        [("a", at(2_900), 2), ("c", at(2_100), 2)],
    )
    return feed


def _process(df, function, **options):
    return key_by(df, "key").process(
        function, SCHEMA, event_time="ts", max_parallelism=4, **options
    )


def _unchanged(frames):
    yield from frames


@pytest.mark.thorough
@passes_watermarks
def test_a_watermark_passes_through_operators_of_all_kinds(spark, tmp_path):
    """Spark's deduplication, ours that emits from timers alone, the user's own Python stage, and ours again: all have the watermark of the source, which has not passed on when the timers fire."""
    source = _feed(spark, tmp_path).stream().withWatermark("ts", "0 seconds")
    once = source.dropDuplicatesWithinWatermark(["key", "n"])
    delayed = _process(once, HalfASecondLater(), output_before_watermark="early")
    delayed = delayed.mapInPandas(_unchanged, delayed.schema)
    watched = key_by(delayed, "key").process(
        Watching(),
        "what string, time long, watermark long",
        event_time="ts",
        before_watermark="early",
        max_parallelism=4,
    )

    batches = drain(watched, tmp_path / "checkpoint")

    assert [
        [],
        [],
        [
            ("record", 1_500, 1_300),
            ("record", 1_800, 1_300),
            ("record", 2_600, 1_300),
            ("timer", 1_600, 2_900),
            ("timer", 1_900, 2_900),
            ("timer", 2_700, 2_900),
        ],
    ] == [rows_of(rows) for rows in batches.values()]


def _marked(schema):
    return [field.name for field in schema.fields if MARK in field.metadata]


@passes_watermarks
def test_the_event_time_of_a_result_is_the_column_of_that_name(spark, tmp_path):
    """In the main output and in side outputs: that called as the input's, or the one named; on a stream alone, and there once."""
    feed = _feed(spark, tmp_path)
    two = "ts timestamp, later timestamp"

    def result(df=None, output_type=two, **options):
        return key_by(feed.stream() if df is None else df, "key").process(
            ToBoth(), output_type, side_outputs={SIDE: two}, event_time="ts", **options
        )

    tagged = result(output_event_time="later")
    again = main_output(result(output_type=main_output(tagged).schema))
    outputs = {
        "by name": result().schema,
        "main": main_output(tagged).schema,
        "side": get_side_output(tagged, SIDE).schema,
        "again": again.schema,
        "batch": result(feed.bounded()).schema,
        "no timestamp": result(output_type="ts string").schema,
    }

    assert {
        "by name": ["ts"],
        "main": ["later"],
        "side": ["later"],
        "again": ["ts"],
        "batch": [],
        "no timestamp": [],
    } == {what: _marked(schema) for what, schema in outputs.items()}


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"output_event_time": "at"}, "takes a column of an output, got 'at'"),
        ({"output_event_time": "key"}, "must name a column of type timestamp, got 'key'"),
        ({"output_event_time": 1}, "takes the name of a column of an output, got 1"),
        ({"output_event_time": "ts", "event_time": None}, "needs a watermark, got 'ts'"),
    ],
    ids=["unknown", "no timestamp", "no name", "no watermark"],
)
def test_an_event_time_that_a_result_cannot_have_is_refused(spark, tmp_path, options, rule):
    """When the query is made, with the remedy."""
    stream = _feed(spark, tmp_path).stream()
    with pytest.raises(DeclarationError, match=rule):
        key_by(stream, "key").process(ToBoth(), SCHEMA, **{"event_time": "ts", **options})


def test_a_watermark_behind_another_is_refused(spark, tmp_path):
    """Spark would fail at the first record behind it, or the watermark would never move; two inputs may have one each."""
    stream = _feed(spark, tmp_path).stream().withWatermark("ts", "1 minute")

    both = stream.union(stream)
    _process(both, ToBoth())

    again = stream.mapInPandas(_unchanged, SCHEMA).withWatermark("ts", "0 seconds")
    with pytest.raises(DeclarationError, match="got a withWatermark behind another one"):
        _process(again, ToBoth())


def test_event_time_behind_processing_time_timers_is_refused(spark, tmp_path):
    """Spark passes no watermark through such an operator: nothing behind it would ever fire, and no result of it is marked."""
    feed = _feed(spark, tmp_path)
    first = _process(feed.stream(), ToBoth(), processing_time_timers=True)

    assert [] == _marked(first.schema)
    with pytest.raises(DeclarationError, match="cannot follow an operator through which"):
        _process(first, Watching())
    with pytest.raises(DeclarationError, match="cannot follow an operator through which"):
        _process(feed.stream(), ToBoth(), processing_time_timers=True, output_event_time="ts")


@pytest.mark.parametrize("bounded", [False, True], ids=["stream", "batch"])
def test_an_event_time_that_is_no_instant_is_refused(spark, tmp_path, bounded):
    """A timestamp without a time zone is another instant in every zone, in a stream as in a batch."""
    feed = Feed(spark, tmp_path / "local", "key string, ts timestamp_ntz")
    feed.add([("a", at(1))])
    df = feed.bounded() if bounded else feed.stream()

    with pytest.raises(
        DeclarationError, match="column of instants, got 'ts' of type timestamp_ntz"
    ):
        _process(df, ToBoth())


class InOrder(KeyedProcessFunction):
    """Yields the numbers of the records as they come, with the watermark's ms."""

    def process_element(self, value, ctx):
        yield value.n, ctx.timestamp()


def test_records_of_one_millisecond_come_in_the_order_of_arrival(spark, tmp_path):
    """In a stream and in a batch, whatever their microseconds say; before 1970, too."""
    micros = dt.timedelta(microseconds=1)
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add(
        [
            ("a", at(5) + 900 * micros, 1),
            ("a", at(5) + 100 * micros, 2),
            ("a", at(4) + 999 * micros, 3),
            ("a", at(-1) + 900 * micros, 4),
            ("a", at(-1) + 100 * micros, 5),
            ("a", None, 6),
        ]
    )
    results = [
        key_by(df, "key").process(InOrder(), "n int, ms long", event_time="ts", max_parallelism=2)
        for df in (feed.stream(), feed.bounded())
    ]

    streamed = [row.n for row in drain(results[0], tmp_path / "checkpoint")[0]]

    assert [6, 4, 5, 3, 1, 2] == streamed == [row.n for row in results[1].collect()]
