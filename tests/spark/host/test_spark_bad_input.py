# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on Spark: one clear error, and nothing lost."""

from __future__ import annotations

import re

import pytest
from host_models import model_stream
from pyspark.errors import PythonException, StreamingQueryException
from spark_support import Feed, at, bounded, drain, pickle_by_value, rows_of

from pyflinklike import KeyedProcessFunction, ListStateDescriptor, Types, ValueStateDescriptor
from pyflinklike.errors import SparkSetupError
from pyflinklike.spark import error_of, key_by
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)

SCHEMA = "key string, ts timestamp, n int"
TOTALS = "key string, total long, parts array<int>"


class Fragile(KeyedProcessFunction):
    """Totals; fails at n = 13 as long as a file exists, after having changed its state."""

    def __init__(self, flag=None):
        self.flag = flag
        self.failed = False

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.parts = runtime_context.get_list_state(ListStateDescriptor("parts", Types.LONG()))

    def process_element(self, value, ctx):
        self.parts.add(value.n)
        total = (self.total.value() or 0) + value.n
        self.total.update(total)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1_000)
        if value.n == 13 and self.flag is not None and self.flag.exists():
            self.failed = True
            raise LookupError("no such customer")
        yield ctx.get_current_key(), total, list(self.parts)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), -timestamp, list(self.parts)

    def close(self):
        if self.failed:
            self.flag.with_name("closed").touch()


@pytest.mark.telling
@pytest.mark.thorough
def test_after_a_failure_the_stream_goes_on_as_if_nothing_had_happened(spark, tmp_path):
    """A user's exception names function, key, element, time and cause; mended, the query gives what it would have given."""
    flag = tmp_path / "broken"
    flag.touch()
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add(
        [("a", at(1_000), 1), ("b", at(1_100), 2)],
        [("a", at(1_500), 3), ("b", at(2_050), 13), ("b", at(2_060), 5), ("a", at(2_100), 6)],
        [("a", at(3_000), 7), ("b", at(9_000), 8)],
    )
    result = key_by(feed.stream(), "key").process(
        Fragile(flag), TOTALS, event_time="ts", max_parallelism=2
    )
    # The same plan again, so that workers still hold what the failed batch left.
    with pytest.raises(StreamingQueryException) as failure:
        drain(result, tmp_path / "checkpoint")
    flag.unlink()
    batches = drain(result, tmp_path / "checkpoint")

    message = str(failure.value)
    for part in (
        "UserFunctionError: Fragile.process_element failed for key 'b', element Row(key='b', ",
        "n=13), at time 2050: LookupError: no such customer",
        'raise LookupError("no such customer")',
    ):
        assert part in message
    with KeyedProcessHarness(Fragile(), key_selector=lambda row: row.key) as harness:
        first = [("a", 1, [1]), ("b", 2, [2])]
        expected = rows_of(model_stream(harness, feed.elements(), "ts").output)
    assert expected == rows_of([*first, *rows_of(batches)])
    assert flag.with_name("closed").exists()  # as Flink closes a function that failed


def test_a_function_that_fails_on_a_batch_is_closed(spark, tmp_path):
    """As Flink does, so that it can let go of what it holds."""
    flag = tmp_path / "broken"
    flag.touch()
    df = bounded(spark, [("a", at(1_000), 13)], SCHEMA)
    with pytest.raises(PythonException, match="no such customer"):
        key_by(df, "key").process(Fragile(flag), TOTALS, event_time="ts").collect()

    assert flag.with_name("closed").exists()


class Yields(KeyedProcessFunction):
    """Yields what it was made with."""

    def __init__(self, *outputs):
        self.outputs = outputs

    def process_element(self, value, ctx):
        yield from self.outputs


def test_a_null_key_is_refused_with_its_record(spark, tmp_path):
    """In a batch and in a stream a null in the key's only column names the column and the record."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add([("a", at(1), 1), (None, at(2), 77)])
    expected = r"StateValueError: every record needs a key, got null in column 'key' of .*77"

    with pytest.raises(PythonException, match=expected):
        key_by(feed.bounded(), "key").process(Yields(), "n int").collect()
    with pytest.raises(StreamingQueryException, match=expected):
        drain(key_by(feed.stream(), "key").process(Yields(), "n int"), tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        (lambda writer: writer.outputMode("complete"), r'got outputMode\("complete"\)'),
        (lambda writer: writer.trigger(continuous="1 second"), r"got trigger\(continuous"),
        (
            lambda writer: writer.option("asyncProgressTrackingEnabled", "true"),
            "got the option asyncProgressTrackingEnabled",
        ),
    ],
    ids=["complete", "continuous", "async"],
)
def test_a_way_to_write_a_stream_that_keyed_state_has_not_is_told(spark, tmp_path, written, ours):
    """Spark refuses it before a task runs, and `error_of` says what to do."""
    records = spark.readStream.format("rate").load().selectExpr("value as n", "'a' as key")
    writer = key_by(records, "key").process(Fragile(), TOTALS).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception) as failed:  # noqa: PT011 - of several classes of Spark's
        written(writer).start().awaitTermination()
    told = error_of(failed.value)
    assert isinstance(told, SparkSetupError)
    assert re.search(ours, str(told))
