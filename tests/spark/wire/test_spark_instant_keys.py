# SPDX-License-Identifier: Apache-2.0
"""Timestamp keys on Spark are instants, whatever the session's time zone."""

from __future__ import annotations

import datetime as dt

import pytest
from spark_support import Feed, drain, pickle_by_value, reads_state, rows_of

from pyflinklike import KeyedProcessFunction, Row, Types, ValueStateDescriptor
from pyflinklike.spark import key_by
from pyflinklike.state_processor import read_savepoint
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)

UTC = dt.timezone.utc
# In New York an hour is missing on 10 March 2024, and 01:30 comes twice on 3 November.
INSTANTS = [
    dt.datetime(2024, 3, 10, 6, 59),
    dt.datetime(2024, 3, 10, 7, 0),
    dt.datetime(2024, 11, 3, 5, 30),
    dt.datetime(2024, 11, 3, 6, 30),
]
SCHEMA = "at timestamp, `in` struct<x: int, at: timestamp>"


class Count(KeyedProcessFunction):
    """Counts per key; yields the key, the record's time, and whether it is seen as the second of its hour."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        at, (_, inner) = ctx.get_current_key()
        assert (at, at.fold) == (inner, inner.fold) == (value.at, value.at.fold)
        yield at, {"x": 1, "at": inner}, at.fold, self.count.value()


@pytest.fixture
def zone(spark):
    """Sets the session's time zone for a test."""
    name = "spark.sql.session.timeZone"
    former = spark.conf.get(name)
    yield lambda zone: spark.conf.set(name, zone)
    spark.conf.set(name, former)


def _counts(feed, checkpoint, **options):
    result = key_by(feed.stream(), "at", "in").process(
        Count(), f"{SCHEMA}, fold int, n long", max_parallelism=1, **options
    )
    as_numbers = ("unix_millis(at)", "unix_millis(`in`.at)", "fold", "n")
    return rows_of(drain(result.selectExpr(*as_numbers), checkpoint))


def _expected(n, *, fold_of_last):
    times = [int(each.replace(tzinfo=UTC).timestamp() * 1000) for each in INSTANTS]
    folds = [0, 0, 0, fold_of_last]
    return sorted(((at, at, fold, n) for at, fold in zip(times, folds)), key=repr)


@pytest.mark.thorough
@reads_state
def test_state_of_an_instant_is_found_in_every_time_zone(spark, tmp_path, zone):
    """The two hours of autumn are two keys, at any depth, and a restart and a savepoint in other zones go on with them."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    records = [(each, {"x": 1, "at": each}) for each in INSTANTS]

    zone("America/New_York")
    feed.add(records)
    assert _expected(1, fold_of_last=1) == _counts(feed, tmp_path / "checkpoint")

    zone("Asia/Tokyo")
    feed.add(records)
    assert _expected(2, fold_of_last=0) == _counts(feed, tmp_path / "checkpoint")

    savepoint = read_savepoint(spark, tmp_path / "checkpoint")
    zone("America/New_York")
    again = Feed(spark, tmp_path / "again", SCHEMA)
    again.add(records)
    assert _expected(3, fold_of_last=1) == _counts(
        again, tmp_path / "again checkpoint", from_savepoint=savepoint
    )

    aware = INSTANTS[3].replace(tzinfo=UTC)
    with KeyedProcessHarness(Count(), lambda row: (row.at, (1, row.at)), restore=savepoint) as h:
        assert 3 == h.process_element(Row(at=aware))[0][-1]
