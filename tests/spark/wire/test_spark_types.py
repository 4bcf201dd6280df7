# SPDX-License-Identifier: Apache-2.0
"""Values on their way from Spark's columns to a function and back."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pytest
from spark_support import Feed, bounded, drain, pickle_by_value, rows_of

from pyflinklike import KeyedProcessFunction, ReducingStateDescriptor, Types
from pyflinklike.spark import key_by

pickle_by_value(__name__)

FLAT = (
    "flag boolean, tiny tinyint, small smallint, mid int, big bigint, single float, double double, "
    "dec decimal(20,4), text string, raw binary, day date, wall timestamp_ntz, gap interval day to second"
)
NESTED = (
    "ints array<int>, words map<string, array<string>>, point struct<x: int, inner: struct<y: string, ts: timestamp>>, "
    "points array<struct<x: int, at: date>>, moments array<timestamp>, by_day map<date, decimal(10,2)>, "
    "visits map<string, timestamp>"
)
SCHEMA = f"id int, {FLAT}, ts timestamp, {NESTED}"
DAY, WALL = dt.date(1969, 7, 20), dt.datetime(1901, 2, 3, 4, 5, 6, 789)
# In New York an hour is missing on 10 March 2024, and 01:30 comes twice on 3 November.
SPRING = dt.datetime(2024, 3, 10, 7, 30)
EARLIER, LATER = dt.datetime(2024, 11, 3, 5, 30), dt.datetime(2024, 11, 3, 6, 30)
UTC = dt.timezone.utc

FULL = (
    1, True, -128, 32767, -(2**31), 2**63 - 1, 0.5, 0.1, Decimal("1234567890123456.7891"), "Ünïcode\0", b"\0\xff", DAY, WALL,
    dt.timedelta(days=-1, microseconds=5), SPRING,
    [1, None, 3], {"a": ["x", None], "b": []}, {"x": 1, "inner": {"y": "z", "ts": SPRING}},
    [{"x": 1, "at": DAY}, None], [SPRING, None, LATER], {DAY: Decimal("1.50")}, {"in": SPRING, "out": None},
)  # fmt: skip
EMPTY = (2, *[None] * 21)
SPARSE = (
    3, False, 0, 0, 0, 0, math.inf, -math.inf, Decimal(0), "", b"", dt.date(9999, 12, 31), dt.datetime(1, 1, 1),
    dt.timedelta(0), EARLIER,
    [], {}, {"x": None, "inner": None}, [], [], {}, {},
)  # fmt: skip


class Echo(KeyedProcessFunction):
    """Yields its elements unchanged, with what they look like."""

    def process_element(self, value, ctx):
        yield (repr(value), *value)


@pytest.mark.telling
def test_values_of_every_type_come_through_unchanged(spark):
    """Nulls, nested values and extremes of all types are in the output what they were in the input, as PySpark shows it."""
    df = bounded(spark, [FULL, EMPTY, SPARSE], SCHEMA)
    result = key_by(df, "id").process(Echo(), f"seen string, {SCHEMA}", max_parallelism=2)

    rows = {row.id: row for row in result.collect()}
    expected = {row.id: row for row in df.collect()}

    assert {key: tuple(row) for key, row in expected.items()} == {
        key: tuple(row)[1:] for key, row in rows.items()
    }
    for part in (
        "Row(id=1, flag=True, tiny=-128",
        "single=0.5, double=0.1, dec=Decimal('1234567890123456.7891'), text='Ünïcode\\x00', raw=b'\\x00\\xff'",
        "day=datetime.date(1969, 7, 20), wall=datetime.datetime(1901, 2, 3, 4, 5, 6, 789)",
        "ints=[1, None, 3], words={'a': ['x', None], 'b': []}, point=Row(x=1, inner=Row(y='z', ts=datetime.datetime(2024, 3, 10, 7, 30)))",
        "points=[Row(x=1, at=datetime.date(1969, 7, 20)), None]",
        "by_day={datetime.date(1969, 7, 20): Decimal('1.50')}",
    ):
        assert part in rows[1].seen


class Local(KeyedProcessFunction):
    """Yields its element, the time in UTC as text, and what the local time is."""

    def process_element(self, value, ctx):
        yield {
            "id": value.id,
            "ms": ctx.timestamp(),
            "ts": value.ts,
            "aware": dt.datetime.fromtimestamp(ctx.timestamp() / 1000, UTC),
            "inner": {"ts": value.inner.ts},
            "many": value.many,
            "seen": str(value.ts),
        }


LOCAL = "id int, ms long, ts timestamp, aware timestamp, inner struct<ts: timestamp>, many array<timestamp>, seen string"


@pytest.mark.thorough
def test_timestamps_are_local_in_the_session_time_zone(spark, tmp_path):
    """A function sees local datetimes of the session's zone, and a local or an aware one it yields is the same instant again."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        instants = [SPRING, EARLIER, dt.datetime(1900, 1, 1), dt.datetime(2038, 1, 19, 3, 14, 8)]
        feed = Feed(
            spark,
            tmp_path / "in",
            "id int, ts timestamp, inner struct<ts: timestamp>, many array<timestamp>",
        )
        feed.add([(i, t, {"ts": t}, [t, None]) for i, t in enumerate(instants)])
        results = [
            key_by(df, "id").process(Local(), LOCAL, event_time="ts", max_parallelism=2)
            for df in (feed.bounded(), feed.stream())
        ]
        # Compared as text: collect() shows timestamps in the driver's own zone.
        texts = [
            df.selectExpr(
                "id", "ms", "unix_millis(ts)", "unix_millis(aware)", "unix_millis(inner.ts)",
                "unix_millis(many[0])", "many[1]", "seen",
            )
            for df in results
        ]  # fmt: skip
        batch = rows_of(texts[0].collect())
        stream = rows_of(drain(texts[1], tmp_path / "checkpoint"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)

    local = [
        "2024-03-10 03:30:00",
        "2024-11-03 01:30:00",
        "1899-12-31 19:00:00",
        "2038-01-18 22:14:08",
    ]
    times = [(t - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1) for t in instants]
    expected = [
        (i, ms, ms, ms, ms, ms, None, text) for i, (ms, text) in enumerate(zip(times, local))
    ]
    assert expected == batch
    assert expected == stream


class Gather(KeyedProcessFunction):
    """Counts per key, in state; yields the key as it is and the count."""

    def open(self, runtime_context):
        self.count = runtime_context.get_reducing_state(
            ReducingStateDescriptor("count", lambda a, b: a + b, Types.LONG())
        )

    def process_element(self, value, ctx):
        self.count.add(1)
        yield repr(ctx.get_current_key()), self.count.get()


@pytest.mark.parametrize(
    ("schema", "columns", "keys", "shown"),
    [
        ("k int", ["k"], [(1,), (-2,)], ["1", "-2"]),
        ("k boolean", ["k"], [(True,), (False,)], ["True", "False"]),
        ("k double", ["k"], [(1.0,), (math.nan,), (math.inf,)], ["1.0", "nan", "inf"]),
        ("k binary", ["k"], [(b"a",)], ["b'a'"]),
        ("k decimal(9,3)", ["k"], [(Decimal("0.500"),)], ["Decimal('0.5')"]),
        ("k date", ["k"], [(DAY,)], [repr(DAY)]),
        ("k timestamp", ["k"], [(SPRING,)], [repr(SPRING)]),
        ("k struct<a: int, b: string>", ["k"], [({"a": 1, "b": None},)], ["(1, None)"]),
        ("a int, b string", ["b", "a"], [(1, "x"), (2, None)], ["('x', 1)", "(None, 2)"]),
        ("a double, b boolean", ["a", "b"], [(math.nan, True), (None, None)], ["(nan, True)", "(None, None)"]),
    ],
    ids=str,
)  # fmt: skip
def test_keys_of_many_types_gather_what_belongs_together(spark, schema, columns, keys, shown):
    """Equal keys are one key, NaN and the null of a composite key included; one column gives a plain value, several a tuple."""
    result = key_by(bounded(spark, keys * 3, schema), *columns).process(
        Gather(), "key string, n long", max_parallelism=3
    )

    assert sorted((key, n) for key in shown for n in (1, 2, 3)) == sorted(
        map(tuple, result.collect())
    )


def test_keys_that_need_encoding_keep_their_state_across_batches_and_restarts(spark, tmp_path):
    """NaN, a negative zero, a date and a null in a composite key find their state again, warm and cold."""
    feed = Feed(spark, tmp_path / "input", "a double, d date")

    def run(*batches):
        feed.add(*batches)
        result = key_by(feed.stream(), "a", "d").process(
            Gather(), "key string, n long", max_parallelism=2
        )
        return rows_of(drain(result, tmp_path / "checkpoint"))

    keys = [(math.nan, DAY), (0.0, DAY), (1.5, None)]
    run(keys, [(math.nan, DAY), (-0.0, DAY), (1.5, None)])

    assert [(f"(0.0, {DAY!r})", 3), ("(1.5, None)", 3), (f"(nan, {DAY!r})", 3)] == run(keys)
