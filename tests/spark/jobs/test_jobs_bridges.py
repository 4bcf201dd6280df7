# SPDX-License-Identifier: Apache-2.0
"""DataFrames as sources of jobs, and streams as DataFrames: one query with Spark SQL."""

from __future__ import annotations

import datetime as dt

import pytest

from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    SparkSetupError,
)
from pyflinklike.pyflink.common import (
    Configuration,
    Duration,
    Row,
    RowKind,
    Time,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)
from pyflinklike.pyflink.datastream import ProcessFunction, StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
from pyspark.errors import PythonException

pytestmark = pytest.mark.usefixtures("shipped_module")

MODES = ["BATCH", "STREAMING"]
CLICKS = "user string, n long, at timestamp"


def environment(mode, target="spark", **settings):
    """One whose jobs run on Spark."""
    values = {"execution.target": target, "execution.runtime-mode": mode, **settings}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))


def clicks(spark, numbers):
    """Rows of two users, one each second."""
    instant = dt.datetime(2024, 1, 1)
    rows = [(f"u{n % 2}", n, instant + dt.timedelta(seconds=n)) for n in numbers]
    return spark.createDataFrame(rows, CLICKS)


def sums(stream):
    """The sum of each user in windows of five seconds."""
    pairs = stream.map(lambda row: Row(user=row.user, n=row.n))
    windows = pairs.key_by(lambda row: row.user).window(
        TumblingEventTimeWindows.of(Time.seconds(5))
    )
    return windows.reduce(lambda one, other: Row(user=one.user, n=one.n + other.n))


def run(frame, checkpoint):
    """All that a stream gives for what is there."""
    rows = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect())))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(180)
    return rows


@pytest.mark.parametrize(("mode", "target"), [(m, t) for m in MODES for t in ("spark", "local")])
def test_the_rows_of_a_batch_are_the_elements_of_a_job(spark, mode, target):
    """With the names of their columns, and types that Python has no literals for."""
    kinds = "decimal(5,2), at timestamp, l array<int>, m map<string,int>, s struct<a:int>, b binary"
    row = (None, dt.datetime(1969, 12, 31, 23, 59, 59, 999_500), [1], {"k": 2}, (3,), b"\x00")
    df = spark.createDataFrame([row], f"d {kinds}")

    (found,) = environment(mode, target).from_data_frame(df).execute_and_collect()

    expected = dict(zip(df.columns, row))
    assert expected == found.as_dict() | {"s": tuple(found.s)}


class Times(ProcessFunction):
    """Gives the times of elements."""

    def process_element(self, value, ctx):
        """The time."""
        yield ctx.timestamp()


@pytest.mark.parametrize("mode", MODES)
def test_a_column_has_the_times_of_elements(spark, mode):
    """In whole milliseconds, rounded down also before 1970; null is no time."""
    df = spark.sql(
        "select timestamp_micros(n) as at from values (-500), (1999), (2000), (null) as t(n)"
    )

    times = environment(mode).from_data_frame(df, event_time="at").process(Times())

    assert sorted(times.execute_and_collect(), key=str) == [-1, 1, 2, None]


class Doubled(TimestampAssigner):
    """Twice the time that an element has."""

    def extract_timestamp(self, value, record_timestamp):
        """Twice it."""
        return 2 * record_timestamp


def test_a_timestamp_assigner_comes_after_the_column(spark):
    """It is given the time of the column."""
    df = spark.sql("select timestamp_millis(21) as at")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Doubled())

    times = environment("BATCH").from_data_frame(df, strategy, "at").process(Times())

    assert list(times.execute_and_collect()) == [42]


@pytest.mark.parametrize("cut", ["0", "7"])
def test_a_batch_in_streaming_mode_ends(spark, cut):
    """Its last windows fire, wherever it is cut into micro-batches."""
    env = environment("STREAMING", **{"pyflinklike.source.records-per-batch": cut})
    df = clicks(spark, range(23)).coalesce(1)

    rows = sums(env.from_data_frame(df, event_time="at")).execute_and_collect()

    assert sum(row.n for row in rows) == sum(range(23))


def test_a_job_is_in_the_middle_of_a_query_of_sql(spark):
    """A batch of columns goes in, and one comes out."""
    df = clicks(spark, range(20)).where("n >= 10")

    frame = sums(environment("BATCH").from_data_frame(df, event_time="at"))
    totals = frame.to_data_frame("user string, n long").groupBy("user").sum("n")

    assert sorted(map(tuple, totals.collect())) == [("u0", 70), ("u1", 75)]


def test_a_stream_goes_in_and_comes_out_in_one_query_that_begins_again(spark, tmp_path):
    """It goes on with its state where the checkpoint says: no row is read or given twice."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))

    def given():
        stream = spark.readStream.schema(CLICKS).option("maxFilesPerTrigger", 1)
        df = stream.parquet(str(tmp_path / "in")).where("n > 0")
        stream = environment("STREAMING").from_data_frame(df, strategy, "at")
        frame = sums(stream).to_data_frame("user string, n long").selectExpr("user", "n * 10")
        return sorted(run(frame, tmp_path / "checkpoint"))

    found = []
    for numbers in (range(8), range(8, 12), range(12, 30)):
        clicks(spark, numbers).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        found.append(given())

    assert found == [
        [("u0", 60), ("u1", 40)],
        [("u0", 140), ("u1", 210)],
        [("u0", 340), ("u0", 360), ("u0", 660), ("u1", 240), ("u1", 440), ("u1", 510)],
    ]


def test_rows_keep_their_types(spark):
    """Those of columns that Flink's types do not have, too."""
    df = spark.sql("select timestamp_millis(5) as at, 1.25bd as d, array(struct(1 as a)) as l")

    rows = environment("BATCH").from_data_frame(df).filter(lambda row: row.d > 1)
    frame = rows.to_data_frame()

    assert (df.dtypes, df.collect()) == (frame.dtypes, frame.collect())


def test_rows_in_rows_become_structs(spark):
    """Named ones by their names, others by position; a value by itself is a column."""
    env = environment("BATCH")
    rows = env.from_collection([1]).map(lambda n: Row(b=Row(n, "x"), a=[Row(c=n)]))

    frame = rows.to_data_frame("a array<struct<c: int>>, b struct<c: int, d: string>")
    values = env.from_collection([[1, 2]], Types.LIST(Types.INT())).to_data_frame()

    assert [({"a": [{"c": 1}], "b": {"c": 1, "d": "x"}})] == [
        row.asDict(recursive=True) for row in frame.collect()
    ]
    assert [([1, 2],)] == list(map(tuple, values.collect()))


def test_changes_are_no_rows_of_a_data_frame(spark):
    """A deletion would become a row that is there."""
    gone = environment("BATCH").from_collection([1]).map(lambda n: Row.of_kind(RowKind.DELETE, n))

    with pytest.raises(PythonException, match=r"OutputError: .* takes rows of kind \+I, got -D"):
        gone.to_data_frame("n int").collect()


@pytest.mark.parametrize(
    ("frame", "error", "words"),
    [
        (lambda _: [1], DeclarationTypeError, r"takes a Spark DataFrame, got \[1\]"),
        (lambda s: s.range(1).drop("id"), DeclarationValueError, "without"),
        (
            lambda s: s.readStream.format("rate").load().withWatermark("timestamp", "1 second"),
            DeclarationValueError,
            "leave out withWatermark",
        ),
    ],
    ids=["no frame", "no columns", "watermark"],
)
def test_what_cannot_be_a_source_is_refused(spark, frame, error, words):
    """When it is declared."""
    with pytest.raises(error, match=words):
        environment("STREAMING").from_data_frame(frame(spark))


def test_a_stream_is_not_read_in_this_process(spark):
    """The local runner has no queries."""
    stream = environment("STREAMING", "local").from_data_frame(
        spark.readStream.format("rate").load()
    )

    with pytest.raises(SparkSetupError, match=r"set execution\.target to spark"):
        list(stream.execute_and_collect())
