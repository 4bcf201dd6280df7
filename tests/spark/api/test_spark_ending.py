# SPDX-License-Identifier: Apache-2.0
"""A stream that is ended: the watermark goes to the maximum."""

from __future__ import annotations

import pytest
from spark_support import Feed, at, drain, pickle_by_value, rows_of

from pyflinklike import KeyedProcessFunction
from pyflinklike._clock import MAX_WATERMARK
from pyflinklike.errors import DeclarationError
from pyflinklike.spark import end_input, key_by, with_ending_watermark

pickle_by_value(__name__)

SCHEMA = "key string, ts timestamp"


class Reminders(KeyedProcessFunction):
    """Sets three timers a record: soon, in a year, and at the end of time."""

    def process_element(self, value, ctx):
        time = ctx.timestamp()
        for due in [] if time is None else [time + 10, time + 31_536_000_000, MAX_WATERMARK]:
            ctx.timer_service().register_event_time_timer(due)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()


def _stream(spark, tmp_path, df):
    return with_ending_watermark(df, "ts", "5 milliseconds", end_marker=tmp_path / "end")


@pytest.mark.telling
def test_all_timers_fire_when_a_stream_is_ended(spark, tmp_path):
    """Those beyond every record too, in the run after the end was noted, under the watermark of the end; before it none but those that records made due."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add([("a", at(1_000)), ("n", None)], [("a", at(1_020))])

    def run():
        stream = _stream(spark, tmp_path, feed.stream())
        output = "key string, due long, watermark long"
        result = key_by(stream, "key").process(
            Reminders(), output, event_time="ts", max_parallelism=2
        )
        return rows_of(drain(result, tmp_path / "checkpoint"))

    before = run()
    end_input(spark, tmp_path / "end")
    end_input(spark, tmp_path / "end")
    after, again = run(), run()

    assert [("a", 1_010, 1_015)] == before
    year = 31_536_000_000
    assert [
        ("a", due, MAX_WATERMARK) for due in (1_030, year + 1_000, year + 1_020, MAX_WATERMARK)
    ] == sorted(after, key=lambda row: row[1])
    assert [] == again


def test_a_batch_ends_by_itself(spark, tmp_path):
    """It is returned as it is, and nothing is written."""
    df = spark.createDataFrame([("a", at(1))], SCHEMA)

    assert df is _stream(spark, tmp_path, df)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"event_time": "key"}, "event_time must name a timestamp column, got 'key'"),
        ({"event_time": "at"}, "event_time takes a column of the DataFrame, got 'at'"),
        ({"end_marker": ""}, "end_marker must be the path of a folder, got ''"),
        ({"end_marker": None}, "end_marker must be the path of a folder, got None"),
    ],
    ids=["no timestamp", "unknown", "empty path", "no path"],
)
def test_an_ending_that_cannot_be_is_refused(spark, tmp_path, options, rule):
    """When the stream is made, with the remedy."""
    stream = Feed(spark, tmp_path / "input", SCHEMA).stream()
    given = {"event_time": "ts", "delay": "1 second", "end_marker": str(tmp_path / "end")}

    with pytest.raises(DeclarationError, match=rule):
        with_ending_watermark(stream, **given | options)


def test_a_second_watermark_is_refused(spark, tmp_path):
    """That of the stream is made with its end."""
    stream = Feed(spark, tmp_path / "input", SCHEMA).stream().withWatermark("ts", "1 second")

    with pytest.raises(
        DeclarationError, match="declares a watermark, got a stream that has one already"
    ):
        _stream(spark, tmp_path, stream)
