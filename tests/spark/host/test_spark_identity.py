# SPDX-License-Identifier: Apache-2.0
"""On Spark a checkpoint is gone on from by the operator that it was made by, or by none.

`test_key_group_registry.py` has every pair and kind of change, without a JVM.
"""

from __future__ import annotations

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from spark_support import (
    Feed,
    at,
    drain,
    passes_watermarks,
    pickle_by_value,
    reads_state,
    rows_of,
)

from pyflinklike import KeyedProcessFunction, Row, Time, Types, ValueStateDescriptor
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationValueError,
    IncompatibleStateError,
    SparkSetupError,
)
from pyflinklike.spark import error_of, key_by, window_all
from pyflinklike.state_processor import read_savepoint
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import AllWindowFunction, TumblingEventTimeWindows

pickle_by_value(__name__)

_PARTITIONS = "spark.sql.shuffle.partitions"
keeps_partitions = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 1),
    reason="Spark 4.0 and older do not tell tasks the partitions of a checkpoint",
)


class Count(KeyedProcessFunction):
    """Counts the records of a key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield str(value.key), self.count.value()


def counted(df, *columns, function=None, **options):
    """A count per key."""
    return key_by(df, *(columns or ["key"])).process(
        function or Count(), "key string, total long", **options
    )


class Subtasks(Count):
    """Counts, and tells how many tasks and key groups there are."""

    def open(self, runtime_context):
        super().open(runtime_context)
        self.tasks = runtime_context.get_number_of_parallel_subtasks()
        self.groups = runtime_context.get_max_number_of_parallel_subtasks()

    def process_element(self, value, ctx):
        for key, total in super().process_element(value, ctx):
            yield f"{key} {self.tasks} {self.groups}", total


class Size(AllWindowFunction):
    """Counts the records of a window."""

    def apply(self, window, inputs):
        yield (len(list(inputs)),)


@pytest.fixture
def partitions(spark):
    """Sets the number of shuffle partitions, until the test is over."""
    former = spark.conf.get(_PARTITIONS)
    yield lambda number: spark.conf.set(_PARTITIONS, str(number))
    spark.conf.set(_PARTITIONS, former)


@pytest.mark.thorough
def test_a_changed_max_parallelism_is_refused(spark, tmp_path):
    """Also where it is left out at the restart, and the key's group is none of the former; the former goes on."""
    feed = Feed(spark, tmp_path / "input", "key string")

    def run(**options):
        feed.add([("a",)])
        return rows_of(drain(counted(feed.stream(), **options), tmp_path / "checkpoint"))

    run(max_parallelism=4)
    with pytest.raises(
        StreamingQueryException, match=r"'Count': .* at 4, got 16; .*max_parallelism=4"
    ):
        run()
    assert [("a", 2), ("a", 3)] == run(max_parallelism=4)


@pytest.mark.thorough
@keeps_partitions
def test_a_default_number_of_key_groups_is_the_checkpoints_own(spark, tmp_path, partitions):
    """It follows the partitions of the checkpoint, which Spark keeps, and not those of the session of a restart."""
    feed = Feed(spark, tmp_path / "input", "key string")

    def run(number):
        feed.add([("a",), ("b",)])
        partitions(number)
        df = counted(feed.stream(), function=Subtasks())
        return rows_of(drain(df, tmp_path / "checkpoint"))

    totals = [[(f"{key} 3 18", total) for key in "ab"] for total in (1, 2, 3)]
    assert totals == [run(number) for number in (3, 5, 24)]


@pytest.mark.thorough
@keeps_partitions
def test_a_sink_may_set_the_partitions_of_its_own_joins(spark, tmp_path):
    """In the session of its micro-batches, whose tasks then hear of that number, too."""
    feed = Feed(spark, tmp_path / "input", "key string")
    seen = []

    def sink(batch, _):
        batch.sparkSession.conf.set(_PARTITIONS, "24")
        seen.extend(tuple(row) for row in batch.collect())

    for _ in range(2):
        feed.add([("a",)])
        writer = counted(feed.stream(), function=Subtasks()).writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    assert [("a 2 16", 1), ("a 2 16", 2)] == seen


@pytest.mark.thorough
@keeps_partitions
@passes_watermarks
def test_windows_over_everything_outlive_other_partitions(spark, tmp_path, partitions):
    """They have one key, which is in one key group."""
    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp")

    def run(number, *times):
        feed.add([("a", at(time)) for time in times])
        partitions(number)
        windows = window_all(feed.stream(), TumblingEventTimeWindows.of(Time.seconds(1)))
        counts = windows.apply(Size(), "n long", event_time="ts").select("n")
        return rows_of(drain(counts, tmp_path / "checkpoint"))

    assert [(2,)] == [*run(3, 100), *run(5, 200, 1_500)]


@pytest.mark.thorough
@passes_watermarks
def test_an_event_time_that_is_dropped_is_refused_in_our_words(spark, tmp_path):
    """Spark's error, which no task of ours could raise, speaks of a timeMode; so it does of an operator that is gone."""
    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp")

    def run(**options):
        feed.add([("a", at(1_000))])
        return drain(counted(feed.stream(), **options), tmp_path / "checkpoint")

    run(event_time="ts")
    with pytest.raises(StreamingQueryException, match="timeMode") as raised:
        run()
    with pytest.raises(StreamingQueryException) as gone:
        drain(feed.stream().dropDuplicates(["key"]), tmp_path / "checkpoint")
    assert [
        (IncompatibleStateError, "operator 'Count': its checkpoint was begun with event_time"),
        (IncompatibleStateError, "the stateful operators of a query are fixed by its checkpoint"),
    ] == [
        (type(error), str(error).partition(", got ")[0])
        for error in (error_of(raised.value), error_of(gone.value))
    ]


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
    with pytest.raises(SparkSetupError, match="wait for its first batch"):
        read_savepoint(spark, checkpoint)

    def sink(batch, _):
        batch.collect()
        with pytest.raises(SparkSetupError, match=r"no batch is committed yet.*; wait"):
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


@pytest.mark.thorough
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
        with pytest.raises((SparkSetupError, CorruptStateError), match="operator 0"):
            read_savepoint(spark, tmp_path / "checkpoint")
