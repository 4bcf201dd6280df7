# SPDX-License-Identifier: Apache-2.0
"""Jobs of streams that do not end, as parts of queries that begin again: broadcast rules, processing time."""

from __future__ import annotations

import time

import pytest
from spark_jobs import on_spark

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink.common import (
    Configuration,
    Row,
    Time,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)
from pyflinklike.pyflink.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
)
from pyflinklike.pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from pyflinklike.pyflink.datastream.window import (
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
pytestmark = pytest.mark.usefixtures("shipped_module")

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
PATIENCE = 600


def append(spark, folder, rows):
    """A file of users and numbers."""
    frame = spark.createDataFrame(rows, "user string, n long")
    frame.coalesce(1).write.mode("append").parquet(str(folder))


def stream_of(spark, folder):
    """The files as the stream of a job, one in a micro-batch."""
    reading = spark.readStream.schema("user string, n long").option("maxFilesPerTrigger", 1)
    return on_spark().from_data_frame(reading.parquet(str(folder)))


class Rated(KeyedBroadcastProcessFunction):
    """Counts the elements of a key, times its rate; a new rule is told once in each task."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        rate = ctx.get_broadcast_state(RULES).get(value.user)
        yield Row(user=value.user, n=self.count.value() * (rate or 0))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value.user, value.n)
        yield Row(user=f"rule {value.user}", n=value.n)


def test_broadcast_rules_stay_when_a_query_begins_again(spark, tmp_path):
    """In every key group, also in those that had no element; each rule is processed once in each task."""

    def given():
        environment_ = on_spark()
        reading = spark.readStream.schema("user string, n long").option("maxFilesPerTrigger", 1)
        main, rules = (
            environment_.from_data_frame(reading.parquet(str(tmp_path / name)))
            for name in ("main", "rules")
        )
        rated = main.key_by(lambda row: row.user).connect(rules.broadcast(RULES)).process(Rated())
        rows = []
        query = (
            rated.to_data_frame("user string, n long")
            .writeStream.foreachBatch(lambda df, _: rows.extend(map(tuple, df.collect())))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(PATIENCE)
        return sorted(rows)

    append(spark, tmp_path / "rules", [("a", 10), ("b", 100)])
    append(spark, tmp_path / "main", [("a", 0)])
    first = given()
    append(spark, tmp_path / "main", [("a", 0), ("b", 0), ("c", 0)])
    append(spark, tmp_path / "rules", [("b", 7)])
    second = given()

    rules = [("rule a", 10), ("rule b", 100)]
    assert sorted([("a", 10), *rules, *rules]) == first
    assert sorted([("a", 20), ("b", 7), ("c", 0), ("rule b", 7), ("rule b", 7)]) == second


def rows_until(query, rows, enough):
    """The rows once there are enough of them; the query goes on."""
    deadline = time.monotonic() + PATIENCE
    while not enough(rows):
        assert query.exception() is None
        assert time.monotonic() < deadline, rows
        query.awaitTermination(0.1)
    return rows


def test_windows_in_processing_time_fire_without_further_elements(spark, tmp_path):
    """Also after the query begins again; no element is lost, and none counts twice."""
    append(spark, tmp_path / "in", [("a", 1), ("b", 2), ("a", 3)])
    windows = TumblingProcessingTimeWindows.of(Time.seconds(4))

    def started(rows):
        counts = (
            stream_of(spark, tmp_path / "in")
            .key_by(lambda row: row.user)
            .window(windows)
            .reduce(lambda one, other: Row(user=one.user, n=one.n + other.n))
            .key_by(lambda row: row.user)
            .reduce(lambda one, other: Row(user=one.user, n=one.n + other.n))
        )
        return (
            counts.to_data_frame("user string, n long")
            .writeStream.foreachBatch(lambda df, _: rows.extend(map(tuple, df.collect())))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )

    rows = []
    query = started(rows)
    rows_until(query, rows, lambda _: any(each.numInputRows for each in query.recentProgress))
    query.stop()
    query = started(rows)
    rows_until(query, rows, lambda rows: len(rows) >= 2)
    append(spark, tmp_path / "in", [("a", 10)])
    rows_until(query, rows, lambda rows: len(rows) >= 3)
    query.stop()

    assert rows[2:] == [("a", 14)]
    assert sorted(rows[:2]) == [("a", 4), ("b", 2)]


class Alarm(KeyedProcessFunction):
    """Registers a timer, so much later.

    Args:
        delay: In ms.
    """

    def __init__(self, delay):
        self.delay = delay

    def process_element(self, value, ctx):
        """Registers it."""
        times = ctx.timer_service()
        times.register_processing_time_timer(times.current_processing_time() + self.delay)

    def on_timer(self, timestamp, ctx):
        """The key."""
        yield ctx.get_current_key()


def test_processing_timers_fire_beside_event_time(spark, tmp_path):
    """No further element comes, and no watermark moves: the driver has all key groups called."""
    append(spark, tmp_path / "in", [("a", 1), ("b", 2)])
    reading = spark.readStream.schema("user string, n long, at timestamp")
    frame = reading.parquet(str(tmp_path / "in")).selectExpr("user", "timestamp_millis(n) as at")
    timed = on_spark().from_data_frame(frame, event_time="at")
    alarmed = timed.key_by(lambda row: row.user).process(Alarm(700), Types.STRING())
    behind = alarmed.key_by(lambda user: user).process(Alarm(100), Types.STRING())

    found = behind.execute_and_collect(limit=2)

    with pytest.raises(SparkSetupError, match="one of the two times"):
        alarmed.to_data_frame("user string")
    assert ["a", "b"] == sorted(found)


class ByNumber(TimestampAssigner):
    """The time is the number."""

    def extract_timestamp(self, value, record_timestamp):
        """It."""
        return value[1]


def test_times_assigned_between_operators_make_a_watermark_of_their_own(spark):
    """Windows behind close by it within the job, and those behind these; the source has none."""
    env = on_spark()
    env.configure(Configuration().set_string("pyflinklike.source.records-per-batch", "1"))
    elements = [("a", 1), ("b", 3), ("a", 4), ("b", 12), ("a", 2), ("c", 31)]
    first = env.from_collection(elements).key_by(lambda pair: pair[0], Types.STRING())
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByNumber())
    timed = first.filter(lambda pair: True).assign_timestamps_and_watermarks(strategy)
    sums = timed.key_by(lambda pair: pair[0], Types.STRING())
    windows = sums.window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    wider = windows.reduce(lambda one, other: (one[0], one[1] + other[1])).window_all(
        TumblingEventTimeWindows.of(Time.milliseconds(10))
    )

    found = wider.reduce(lambda one, other: (min(one, other)[0], one[1] + other[1]))

    # Of the first window of a the element of time 2 is late: the watermark was 11.
    assert [("a", 8), ("b", 12), ("c", 31)] == list(found.execute_and_collect())
