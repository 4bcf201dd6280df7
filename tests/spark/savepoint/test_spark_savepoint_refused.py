# SPDX-License-Identifier: Apache-2.0
"""Savepoints that are refused, and checkpoints that cannot be read."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import pytest
from pyspark.sql import functions as F
from spark_savepoints import Sum, sums
from spark_support import Feed, at, bounded, drain, pickle_by_value, reads_state

from pyflinklike import Row
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    SparkSetupError,
    UnknownBatchError,
    UnknownStateError,
)
from pyflinklike.spark import key_by
from pyflinklike.spark._wire.schema import key_type_of
from pyflinklike.state_processor import read_savepoint
from pyflinklike.state_processor._checkpoints.state_frames import KeyGroupFinder
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)


def test_what_is_no_savepoint_is_refused(spark, tmp_path):
    """When the query is made."""
    stream = Feed(spark, tmp_path, "key string, n int").stream()
    batch = bounded(spark, [("a", 1)], "key string, n int")
    blob = sums("a").snapshot()

    def begin(df, savepoint):
        key_by(df, "key").process(Sum(), "key string, n long", from_savepoint=savepoint)

    with pytest.raises(DeclarationTypeError, match="savepoint"):
        begin(stream, 3)
    with pytest.raises(CorruptStateError, match=r"_manifest\.json"):
        begin(stream, str(tmp_path))
    with pytest.raises(CorruptStateError, match="savepoint: "):
        begin(stream, blob[:-1])
    with pytest.raises(DeclarationValueError, match="batch DataFrame"):
        begin(batch, blob)


class Timed(Sum):
    """Registers a timer of either domain."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        if value.n:
            timers.register_event_time_timer(value.n)
        else:
            timers.register_processing_time_timer(1)


@pytest.mark.parametrize(("n", "remedy"), [(1, "event_time="), (0, "processing_time_timers=True")])
def test_timers_that_would_never_fire_are_refused(spark, tmp_path, n, remedy):
    """When the query is made, with what makes them fire."""
    timed = KeyedProcessHarness(Timed(), key_selector=lambda value: value.key)
    timed.process_element(Row(key="a", n=n))
    stream = Feed(spark, tmp_path, "key string, n int").stream()
    with pytest.raises(SparkSetupError, match=remedy):
        key_by(stream, "key").process(Sum(), "key string, n long", from_savepoint=timed.snapshot())


@pytest.mark.thorough
@reads_state
def test_what_cannot_be_read_is_a_clear_error(spark, tmp_path):
    """No checkpoint, another operator, another batch, an operator that is not ours."""
    with pytest.raises(SparkSetupError, match="query that has run"):
        read_savepoint(spark, tmp_path / "nothing")

    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp, n int")
    feed.add([("a", at(1), 1)])
    drain(
        feed.stream().withWatermark("ts", "0 seconds").dropDuplicates(["key"]), tmp_path / "other"
    )
    with pytest.raises(UnknownStateError, match=r"one that process\(\) made"):
        read_savepoint(spark, tmp_path / "other")
    drain(
        key_by(feed.stream(), "key").process(Sum(), "key string, n long", max_parallelism=2),
        tmp_path / "ours",
    )
    with pytest.raises(UnknownStateError, match=r"got 1; there are \['0'\]"):
        read_savepoint(spark, tmp_path / "ours", operator_id=1)
    with pytest.raises(UnknownBatchError, match="its batches are 0 to 0, got 7"):
        read_savepoint(spark, tmp_path / "ours", batch_id=7)


# Keys

KEYS = {
    "boolean": [True, False],
    "tinyint": [1, -1, 0],
    "smallint": [1, -1, 300],
    "int": [0, 1, -1, 2**31 - 1],
    "bigint": [0, 1, -1, 2**40],
    "string": ["", "a", "å\x00b"],
    "double": [0.0, 1.0, -1.5],
    "float": [0.5, 2.0],
    "decimal(10,2)": [Decimal("1.50"), Decimal("-2.00")],
    "date": [dt.date(2024, 2, 29), dt.date(1, 1, 1)],
    "timestamp": [dt.datetime(2024, 2, 29, 12, 30, 0, 7)],
    "timestamp_ntz": [dt.datetime(2024, 3, 31, 2, 30)],
    "binary": [b"", b"\x00a"],
}


def _as_a_key(value):
    """What a function sees; Spark 4.0 collects bytes as a bytearray."""
    return bytes(value) if isinstance(value, bytearray) else value


def test_the_keys_of_a_savepoint_get_the_key_groups_of_records(spark):
    """For every type of key column, and for keys of several columns, nulls among them."""
    groups = 32_768
    for kind, keys in KEYS.items():
        records = bounded(
            spark,
            [(key, number, None) for number, key in enumerate(keys)],
            f"a {kind}, b int, c string",
        )
        for columns in (["a"], ["b", "a"], ["a", "c"]):
            expected = records.select(
                *columns, F.pmod(F.xxhash64(*columns), F.lit(groups)).alias("group")
            ).collect()
            rows = [map(_as_a_key, tuple(row)[:-1]) for row in expected]
            values = [next(row) if len(columns) == 1 else tuple(row) for row in rows]
            types = {column: records.schema[column].dataType for column in columns}
            known = KeyGroupFinder(types, key_type_of(list(types.values()), "UTC"), groups, "UTC")
            found = known.of(spark, values)
            assert [row["group"] for row in expected] == found, (kind, columns)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("int", 2**31),
        ("int", "1"),
        ("int", True),
        ("string", 1),
        ("double", 1),
        ("date", "x"),
        ("decimal(3,1)", Decimal("1.25")),
    ],
)
def test_a_key_that_no_record_can_have_is_refused(spark, tmp_path, kind, key):
    """When the query is made, with the key in the message."""
    stream = Feed(spark, tmp_path, f"key {kind}, n int").stream()
    blob = sums(key).snapshot()
    with pytest.raises(IncompatibleStateError, match="savepoint: .*" + re.escape(repr(key))):
        key_by(stream, "key").process(Sum(), "key string, n long", from_savepoint=blob)
