# SPDX-License-Identifier: Apache-2.0
"""On Spark a checkpoint is gone on from by the operator that it was made by, or by none.

`test_roll_call.py` has every pair and kind of change, without a JVM.
"""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from spark_support import Feed, drain, pickle_by_value, reads_state, rows_of

from pyflinklike import KeyedProcessFunction, Row, Types, ValueStateDescriptor
from pyflinklike.errors import CorruptStateError, DeclarationValueError, HostError
from pyflinklike.spark import key_by, read_savepoint
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)

_PARTITIONS = "spark.sql.shuffle.partitions"


class Count(KeyedProcessFunction):
    """Counts the records of a key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield str(value.key), self.count.value()


class Again(Count):
    """Does so, too."""


def counted(df, *columns, function=None, **options):
    """A count per key."""
    return key_by(df, *(columns or ["key"])).process(
        function or Count(), "key string, total long", **options
    )


def test_a_changed_max_parallelism_is_refused(spark, tmp_path):
    """Also where it changes with the number of shuffle partitions, and the key's group is none of the former; the former goes on."""
    former = spark.conf.get(_PARTITIONS)
    feed = Feed(spark, tmp_path / "input", "key string")

    def run(**options):
        feed.add([("a",)])
        return rows_of(drain(counted(feed.stream(), **options), tmp_path / "checkpoint"))

    run(max_parallelism=4)
    spark.conf.set(_PARTITIONS, "24")
    try:
        with pytest.raises(
            StreamingQueryException, match=r"'Count': .* at 4, got 24; pass the former"
        ):
            run()
    finally:
        spark.conf.set(_PARTITIONS, former)
    assert [("a", 2), ("a", 3)] == run(max_parallelism=4)


@pytest.mark.parametrize(
    ("kind", "key", "columns", "cast"),
    [
        ("string", "a", ("other", "key"), "string"),
        ("date", dt.date(2024, 2, 29), ("key",), "timestamp"),
    ],
)
def test_changed_key_columns_are_refused(spark, tmp_path, kind, key, columns, cast):
    """Another order, or another type."""
    feed = Feed(spark, tmp_path / "input", f"key {kind}, other string")
    feed.add([(key, "b")])
    drain(counted(feed.stream(), *reversed(columns)), tmp_path / "checkpoint")
    feed.add([(key, "b")])
    changed = feed.stream().withColumn("key", F.col("key").cast(cast))
    with pytest.raises(
        StreamingQueryException, match="the key columns are fixed by its checkpoint"
    ):
        drain(counted(changed, *columns), tmp_path / "checkpoint")


@pytest.mark.thorough
def test_operators_of_a_chain_that_changed_places_are_refused(spark, tmp_path):
    """By name, without any uid."""
    feed = Feed(spark, tmp_path / "input", "key string")

    def run(*functions):
        feed.add([("a",)])
        df = feed.stream()
        for function in functions:
            df = counted(df, function=function, max_parallelism=2)
        return rows_of(drain(df, tmp_path / "checkpoint"))

    assert [("a", 1)] == run(Count(), Again())
    with pytest.raises(StreamingQueryException, match="its place in the query is fixed"):
        run(Again(), Count())


def test_one_class_twice_in_a_chain_needs_a_uid(spark, tmp_path):
    """Which is said when the query is made."""
    once = counted(Feed(spark, tmp_path, "key string").stream())
    with pytest.raises(DeclarationValueError, match=r"'Count' twice; pass .*uid="):
        counted(once)
    assert ["key", "total"] == counted(once, uid="second").columns


@reads_state
def test_a_savepoint_before_the_first_commit_is_refused(spark, tmp_path):
    """While no batch has run, and while the first one runs."""
    feed = Feed(spark, tmp_path / "input", "key string")
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(HostError, match="wait for its first batch"):
        read_savepoint(spark, checkpoint)

    def sink(batch, _):
        batch.collect()
        with pytest.raises(HostError, match="none is committed yet; wait"):
            read_savepoint(spark, checkpoint)
        seen.append(True)

    seen = []
    feed.add([("a",)])
    writer = counted(feed.stream()).writeStream.foreachBatch(sink).trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    assert [True] == seen
    restored = KeyedProcessHarness(
        Count(), key_selector=lambda row: row.key, restore=read_savepoint(spark, checkpoint)
    )
    assert [("a", 2)] == restored.process_element(Row(key="a"))


@reads_state
def test_a_damaged_file_of_spark_is_refused(spark, tmp_path):
    """Cut short, which Spark may take for its end, or find in Java's own words."""
    feed = Feed(spark, tmp_path / "input", "key string")
    feed.add([(str(number),) for number in range(20)])
    drain(counted(feed.stream(), max_parallelism=8), tmp_path / "checkpoint")
    # Without checksums, and without snapshots, which Spark would read in the place of changelogs.
    for pattern in ("*.crc", "*.zip"):
        for each in (tmp_path / "checkpoint").rglob(pattern):
            each.unlink()
    (damaged, *_) = sorted((tmp_path / "checkpoint" / "state" / "0" / "0").glob("*.changelog"))
    whole = damaged.read_bytes()
    for size in (0, 4, len(whole) // 2):
        damaged.write_bytes(whole[:size])
        with pytest.raises((HostError, CorruptStateError), match="operator 0"):
            read_savepoint(spark, tmp_path / "checkpoint")
