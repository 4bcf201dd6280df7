# SPDX-License-Identifier: Apache-2.0
"""Windows over a keyed DataFrame: rows of key, window and result."""

from __future__ import annotations

import pytest
from frame_support import SECOND, Everyone, Listed, Total, in_ms, payment_feed, payments
from pyspark.sql import functions as F
from spark_support import drain

from pyflinklike import OutputTag
from pyflinklike.aggregations import Sum
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark import key_by, window_all
from pyflinklike.windows import EventTimeSessionWindows, NeverTrigger

LATE = OutputTag("late")


@pytest.fixture
def feed(spark, tmp_path):
    """Three micro-batches."""
    return payment_feed(spark, tmp_path)


FIRST = [("ann", 0, 1_000, 999, 4, 2), ("bob", 0, 1_000, 999, 2, 1)]


@pytest.mark.thorough
@pytest.mark.telling
def test_windows_fire_over_restarts_and_late_records_go_to_the_side(feed, tmp_path):
    """Each run does one micro-batch's worth of input; no window is lost, none is there twice."""
    windowed = key_by(feed.stream(), "user").window(SECOND).allowed_lateness(500)
    totals = windowed.side_output_late_data(LATE).aggregate(
        Total(),
        accumulator_type="n long, count long",
        output_type="n long, count long",
        event_time="ts",
        max_parallelism=4,
    )
    first = drain(totals, tmp_path / "checkpoint")
    feed.add(payments(("ann", 1, 20_000)))
    second = drain(totals, tmp_path / "checkpoint")
    rows = [row for batches in (first, second) for rows in batches.values() for row in rows]
    main = [tuple(row)[:6] for row in rows if row.output_tag is None]
    late = [tuple(row.late) for row in rows if row.output_tag == "late"]

    assert [
        *FIRST,
        ("ann", 1_000, 2_000, 1_999, 8, 1),
        ("ann", 2_000, 3_000, 2_999, 4, 1),
        ("bob", 9_000, 10_000, 9_999, 1, 1),
    ] == sorted(in_ms(main), key=lambda row: (row[1], row[0]))
    assert payments(("ann", 9, 100)) == late


def test_a_batch_fires_every_window_at_its_end(feed):
    """And has no late records."""
    totals = (
        key_by(feed.bounded(), "user")
        .window(SECOND)
        .aggregate(Total(), output_type="n long, count long", event_time="ts")
    )

    assert ["user", "window_start", "window_end", "window_time", "n", "count"] == totals.columns
    assert [
        ("ann", 0, 1_000, 999, 13, 3),
        ("ann", 1_000, 2_000, 1_999, 8, 1),
        ("ann", 2_000, 3_000, 2_999, 4, 1),
        ("bob", 0, 1_000, 999, 2, 1),
        ("bob", 9_000, 10_000, 9_999, 1, 1),
    ] == in_ms(totals.collect())


@pytest.mark.thorough
def test_a_hot_key_that_is_divided_gives_the_same_windows(feed, tmp_path):
    """Folded by key and part, and these results by key: of decimals, on a stream."""
    decimals = feed.stream().selectExpr("user", "cast(n as decimal(6, 2)) as n", "ts")
    divided = decimals.withColumn("part", F.expr("pmod(hash(ts), 3)"))
    parts = key_by(divided, "user", "part").window(SECOND).sum("n", event_time="ts", uid="parts")
    whole = key_by(parts, "user").window(SECOND).sum("n", event_time="window_time", uid="whole")
    direct = key_by(decimals, "user").window(SECOND).sum("n", event_time="ts")
    seen = []
    for name, windows in (("direct", direct), ("divided", whole)):
        batches = drain(windows.select("user", "window_start", "n"), tmp_path / name)
        seen.append(sorted(row for rows in batches.values() for row in rows))

    assert seen[0]
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("declare", "error", "words"),
    [
        (lambda keyed: keyed.window(1000), DeclarationTypeError, "window takes a WindowAssigner"),
        (
            lambda keyed: keyed.window(SECOND).reduce("n"),
            DeclarationTypeError,
            "must be a ReduceFunction",
        ),
        (
            lambda keyed: keyed.window(SECOND).reduce(Sum("n"), Total(), event_time="ts"),
            DeclarationTypeError,
            "window_function should be a WindowFunction or ProcessWindowFunction",
        ),
        (
            lambda keyed: keyed.window(SECOND).apply(Everyone(), "n int"),
            DeclarationTypeError,
            "takes a WindowFunction",
        ),
        (
            lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(1_000)).trigger(
                NeverTrigger()
            ),
            DeclarationTypeError,
            "does not support merging",
        ),
        (
            lambda keyed: keyed.window(SECOND).aggregate(Total(), output_type="n long, c long"),
            DeclarationValueError,
            "needs the time of the records, got no event_time",
        ),
        (
            lambda keyed: keyed.window(SECOND).aggregate(Total(), event_time="ts"),
            DeclarationTypeError,
            "windows need the type of their outputs",
        ),
        (
            lambda keyed: keyed.window(SECOND).apply(Listed(), "user string", event_time="ts"),
            DeclarationValueError,
            r"got \['user'\] in output_type, too",
        ),
        (
            lambda keyed: keyed.window(SECOND).aggregate(Total(), None, "n lung", "n long"),
            DeclarationValueError,
            "accumulator_type must be DDL",
        ),
        (
            lambda keyed: keyed.window(SECOND).sum("user", event_time="ts"),
            DeclarationTypeError,
            "sum takes a column of numbers, got 'user'",
        ),
        (lambda keyed: keyed.count_window(0), DeclarationValueError, "at least 1"),
        (
            lambda keyed: keyed.window(SECOND).allowed_lateness(-1),
            DeclarationValueError,
            "negative",
        ),
        (
            lambda keyed: keyed.window(SECOND).side_output_late_data("late"),
            DeclarationTypeError,
            "OutputTag",
        ),
        (
            lambda keyed: window_all(1, SECOND),
            DeclarationTypeError,
            "window_all takes a Spark DataFrame",
        ),
    ],
)
def test_what_is_declared_wrongly_is_refused_at_once(feed, declare, error, words):
    """Before a query starts, with the words that users of PyFlink know."""
    with pytest.raises(error, match=words):
        declare(key_by(feed.bounded(), "user"))
