# SPDX-License-Identifier: Apache-2.0
"""Folds, windows and joins of DataFrames: on streams over restarts, and of every kind."""

from __future__ import annotations

from decimal import Decimal

import pytest
from example_support import example
from frame_support import (
    PAIRS,
    SECOND,
    TIMES,
    Amounts,
    Cheap,
    Counts,
    Everyone,
    Largest,
    Pairs,
    Total,
    click_feed,
    in_ms,
    order_feed,
    payment_feed,
)
from pyspark.sql import functions as F
from spark_support import Feed, at, drain, passes_watermarks, pickle_by_value, rows_of

from pyflinklike import OutputTag, Row, Time
from pyflinklike.aggregations import Sum
from pyflinklike.spark import (
    end_input,
    key_by,
    main_output,
    window_all,
    with_ending_watermark,
)
from pyflinklike.windows import (
    CountEvictor,
    CountTrigger,
    GlobalWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

pickle_by_value(__name__)

LATE = OutputTag("late"), OutputTag("late_orders")


@pytest.fixture
def feed(spark, tmp_path):
    """Three micro-batches of payments."""
    return payment_feed(spark, tmp_path)


@pytest.fixture
def clicks(spark, tmp_path):
    """Two micro-batches."""
    return click_feed(spark, tmp_path)


@pytest.fixture
def orders(spark, tmp_path):
    """Two micro-batches."""
    return order_feed(spark, tmp_path)


TAGGED = "user string, n int, price decimal(10,2), ts timestamp, tags array<string>"


def test_a_fold_of_a_stream_goes_on_after_a_restart(spark, tmp_path):
    """Every record gives out the fold so far; the second run begins with what the first one kept, arrays, decimals and instants included."""
    feed = Feed(spark, tmp_path / "input", TAGGED)

    def add(*rows):
        feed.add([(user, n, Decimal(price), at(ms), tags) for user, n, price, ms, tags in rows])

    def run():
        sums = key_by(feed.stream(), "user").sum("price", max_parallelism=4)
        return rows_of(drain(sums, tmp_path / "checkpoint"))

    add(("ann", 5, "1.10", 2_000, ["x"]), ("bob", 1, "9.99", 1_000, None))
    add(("ann", 3, "0.05", 1_500, []), ("ann", 3, "2.00", 3_000, ["y", None]))
    before = run()
    add(("bob", 7, "0.01", 9_000, ["z"]), ("ann", 7, "0.01", 9_000, []))

    ann = [
        ("ann", 5, Decimal(price), at(2_000), ["x"]) for price in ("1.10", "1.15", "3.15", "3.16")
    ]
    bob = [("bob", 1, Decimal(price), at(1_000), None) for price in ("9.99", "10.00")]
    assert ([*ann[:3], bob[0]], [ann[3], bob[1]]) == (before, run())


def _add(first, second):
    return Row(**{**first.as_dict(), "n": first.n + second.n})


@passes_watermarks
def test_a_stream_gives_out_its_last_folds_when_it_is_ended(feed, tmp_path, spark):
    """Nothing before, and nothing afterwards."""
    ending = with_ending_watermark(feed.stream(), "ts", "1 second", end_marker=tmp_path / "end")

    def run():
        sums = key_by(ending, "user").sum("n", running=False, event_time="ts", max_parallelism=4)
        return [row[:2] for row in rows_of(drain(sums, tmp_path / "checkpoint"))]

    before = run()
    end_input(spark, tmp_path / "end")

    assert ([], [("ann", 25), ("bob", 3)], []) == (before, run(), run())


def test_a_batch_gives_out_every_fold_if_asked(feed):
    """As on a stream."""
    folds = key_by(feed.bounded(), "user").reduce(_add, running=True)

    assert [
        ("ann", 1),
        ("ann", 4),
        ("ann", 8),
        ("ann", 16),
        ("ann", 25),
        ("bob", 2),
        ("bob", 3),
    ] == sorted((row.user, row.n) for row in folds.collect())


@passes_watermarks
def test_a_window_of_windows_on_a_stream(feed, tmp_path):
    """What the smaller windows give while the watermark moves is not late for the larger ones, which fire in the same micro-batch."""
    totals = (
        key_by(feed.stream(), "user")
        .window(SECOND)
        .aggregate(
            Total(),
            output_type="n long, count long",
            event_time="ts",
            max_parallelism=4,
            uid="small",
        )
    )
    large = TumblingEventTimeWindows.of(Time.seconds(3))
    largest = (
        key_by(totals, "user")
        .window(large)
        .side_output_late_data(LATE[0])
        .aggregate(
            Largest(),
            output_type="largest long",
            event_time="window_time",
            max_parallelism=4,
            uid="large",
        )
    )
    rows = rows_of(drain(largest, tmp_path / "checkpoint"))

    assert [("ann", 0, 3_000, 2_999, 4), ("bob", 0, 3_000, 2_999, 2)] == in_ms(
        row[:5] for row in rows
    )


def test_reduce_gives_the_other_columns_once(feed):
    """The key is not repeated; the other columns have their own types."""
    sums = key_by(feed.bounded(), "user").window(SECOND).reduce(Sum("price"), event_time="ts")

    assert ["n", "price", "ts"] == sums.columns[4:]
    assert "decimal(10,2)" == dict(sums.dtypes)["price"]
    assert ("ann", 0, 1_000, 999, 1, Decimal("13.00"), 0) == in_ms(sums.collect())[0]


def test_a_window_of_windows_takes_the_results_by_their_event_time(feed, tmp_path):
    """In a batch; `window_time` lies in the larger window that the smaller one is part of."""
    totals = (
        key_by(feed.bounded(), "user")
        .window(SECOND)
        .aggregate(Total(), output_type="n long, count long", event_time="ts")
    )
    largest = (
        key_by(totals, "user")
        .window(TumblingEventTimeWindows.of(Time.seconds(3)))
        .aggregate(Largest(), output_type="largest long", event_time="window_time")
    )

    assert [("ann", 0, 3_000, 13), ("bob", 0, 3_000, 2), ("bob", 9_000, 12_000, 1)] == [
        (*row[:3], row[4]) for row in in_ms(largest.collect())
    ]


@passes_watermarks
def test_the_result_of_windows_has_event_time_for_spark(feed, tmp_path):
    """Spark's own windows take `window_time`, with the watermark that has passed."""
    totals = (
        key_by(feed.stream(), "user")
        .window(SECOND)
        .aggregate(Total(), output_type="n long, count long", event_time="ts", max_parallelism=4)
    )
    hours = totals.groupBy(F.window("window_time", "3 seconds")).agg(F.sum("n").alias("n"))
    rows = rows_of(drain(hours.select("window.start", "n"), tmp_path / "checkpoint"))

    assert [(0, 10)] == in_ms(rows)[:1]


def test_count_windows_and_global_windows_have_their_own_columns(feed):
    """A number, and nothing."""
    counted = key_by(feed.bounded(), "user").count_window(2).reduce(Sum("n"))
    last = key_by(feed.bounded(), "user").window(GlobalWindows.create())
    last = (
        last.trigger(PurgingTrigger.of(CountTrigger.of(2)))
        .evictor(CountEvictor.of(1))
        .apply(Amounts(), "listed array<int>")
    )

    assert ["user", "window_id", "n", "price", "ts"] == counted.columns
    assert [("ann", 0, 4), ("ann", 1, 12), ("bob", 0, 3)] == [
        row[:3] for row in in_ms(counted.collect())
    ]
    assert [("ann", [3]), ("ann", [8]), ("bob", [1])] == in_ms(last.collect())


def test_window_all_takes_all_records_together(feed, tmp_path):
    """On a stream, under one key that no column shows."""
    everyone = window_all(feed.stream(), SECOND).apply(
        Everyone(), "users array<string>", event_time="ts", max_parallelism=4
    )
    rows = rows_of(drain(everyone, tmp_path / "checkpoint"))

    assert (0, 1_000, 999, ["ann", "bob"]) == in_ms(rows)[0]


def test_windows_fold_by_a_field(feed):
    """As Flink's: a sum has the other columns of the window's first record, `max_by` the whole record."""
    sums = key_by(feed.bounded(), "user").window(SECOND).sum("n", event_time="ts")
    most = key_by(feed.bounded(), "user").window(SECOND).max_by("n", event_time="ts")

    assert ("ann", 0, 1_000, 999, 13, Decimal("1.00"), 0) == in_ms(sums.collect())[0]
    assert ("ann", 0, 1_000, 999, 9, Decimal("9.00"), 100) == in_ms(most.collect())[0]
    assert sums.columns == most.columns


def test_windows_of_processing_time_end_with_a_batch(feed):
    """A batch has one time of processing, so each key has one window, as in Flink's batch mode."""
    counts = key_by(feed.bounded(), "user").window(
        TumblingProcessingTimeWindows.of(Time.minutes(1))
    )

    rows = counts.reduce(Sum("n")).collect()
    assert [("ann", 25), ("bob", 3)] == sorted((row.user, row.n) for row in rows)


def _between(clicks, orders, how="inner"):
    joined = key_by(clicks, "user").interval_join(key_by(orders, "who"), how)
    return joined.between(-500, 1_000)


@passes_watermarks
def test_an_interval_join_of_streams_gives_every_pair_once_over_a_restart(clicks, orders, tmp_path):
    """A pair may consist of records of two runs; late records go to the side; who had no partner comes when none can come any more."""
    joined = _between(clicks.stream(), orders.stream(), "full_outer")
    joined = joined.side_output_left_late_data(LATE[0]).side_output_right_late_data(LATE[1])
    pairs = joined.process(Pairs(), PAIRS, event_time=TIMES, max_parallelism=4)
    first = rows_of(drain(pairs, tmp_path / "checkpoint"))
    clicks.add([("ann", "late", at(0)), ("cat", "d", at(2_600))], [("cat", "e", at(90_000))])
    orders.add([("ann", 1, at(4_900))], [("cat", 2, at(90_000))])
    rows = [*first, *rows_of(drain(pairs, tmp_path / "checkpoint"))]

    assert sorted(
        [
            ("ann", "a", 5, 1_500),
            ("ann", "a", 50, 2_000),
            ("ann", "c", 1, 4_900),
            ("bob", "b", None, 2_100),
            ("cat", "d", 7, 2_600),
            ("cat", "e", 2, 90_000),
        ],
        key=repr,
    ) == sorted((row[:4] for row in rows if row[4] is None), key=repr)
    assert [("ann", "late", at(0))] == [tuple(row[5]) for row in rows if row[4] == "late"]


@passes_watermarks
def test_a_join_within_windows_of_streams(clicks, orders, tmp_path):
    """Rows of key, window and what the function makes of a pair; what is late for its windows is in the side output of its input."""
    for feed in (clicks, orders):
        feed.add([("end", None, at(60_000))])
    clicks.add([("ann", "late", at(0))])
    orders.add([])
    joined = key_by(clicks.stream(), "user").join(key_by(orders.stream(), "who"))
    windows = joined.window(SECOND).side_output_left_late_data(LATE[0])
    pairs = windows.side_output_right_late_data(LATE[1]).apply(
        lambda click, order: (click.page, order.price),
        "page string, price long",
        event_time=TIMES,
        max_parallelism=4,
    )

    rows = rows_of(drain(pairs, tmp_path / "checkpoint"))

    assert [("ann", at(1_000), at(2_000), at(1_999), "a", 5)] == [
        row[:6] for row in rows if row[6] is None
    ]
    assert [("late", ("ann", "late", at(0)), None)] == [
        (row[6], tuple(row[7]), row[8]) for row in rows if row[6] is not None
    ]


def test_joins_within_windows_of_batches(clicks, orders):
    """Inner, outer, any number of outputs, and both groups at once."""
    users, whos = key_by(clicks.bounded(), "user"), key_by(orders.bounded(), "who")
    outer = (
        users.join(whos, "full_outer")
        .window(SECOND)
        .apply(
            lambda click, order: (click and click.page, order and order.price),
            "page string, price long",
            event_time=TIMES,
        )
    )
    cheap = (
        users.join(whos)
        .window(TumblingEventTimeWindows.of(10_000))
        .apply(Cheap(), "page string, price long", event_time=TIMES)
    )
    groups = users.co_group(whos).window(SECOND).apply(Counts(), "c long, o long", event_time=TIMES)

    assert ["user", "window_start", "window_end", "window_time", "page", "price"] == outer.columns
    assert sorted(
        [
            ("ann", at(1_000), "a", 5),
            ("ann", at(2_000), None, 50),
            ("ann", at(4_000), "c", None),
            ("bob", at(1_000), "b", None),
            ("cat", at(2_000), None, 7),
        ],
        key=repr,
    ) == sorted(((row[0], row[1], *row[4:]) for row in outer.collect()), key=repr)
    assert [("a", 5), ("c", 5)] == sorted(row[4:] for row in map(tuple, cheap.collect()))
    assert [(0, 1), (0, 1), (1, 0), (1, 0), (1, 1)] == sorted(
        row[4:] for row in map(tuple, groups.collect())
    )


# Sessions out of order


def test_sessions_and_late_clicks_are_those_of_the_loop(spark, tmp_path):
    """Over a stop in the middle, no click is lost, counted twice, or late without being told."""
    sessions = example("click_sessions")
    batches = sessions.batches_of(sessions.clicks(60))
    half = len(batches) // 2
    for numbers in (range(half), range(half, len(batches))):
        for number in numbers:
            sessions.write_input(spark, tmp_path, number, batches[number])
        sessions.run(spark, tmp_path)
    over, late = sessions.expected(batches)
    found = sessions.final_sessions(spark, tmp_path)
    dismissed = spark.read.parquet(str(tmp_path / "late")).drop("batch").collect()

    assert over == found
    assert sorted(click[:3] for click in late) == sorted(map(tuple, dismissed))
    assert sum(map(len, batches)) - 1 == sum(row[3] for row in found) + len(dismissed)


def test_a_batch_of_all_clicks_has_no_late_ones(spark, tmp_path):
    """Its sessions are those of the loop over one micro-batch; the last click ends them there."""
    sessions = example("click_sessions")
    made = sessions.clicks(30)
    sessions.write_input(spark, tmp_path, 0, made)
    bounded = spark.read.schema(sessions.SCHEMA).parquet(str(tmp_path / "clicks" / "00"))
    rows = main_output(sessions.sessions_of(bounded)).drop("window_time").collect()
    over, late = sessions.expected([made])

    assert ([], over) == (late, {tuple(row) for row in rows if row.user != "nobody"})
