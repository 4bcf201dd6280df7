# SPDX-License-Identifier: Apache-2.0
"""`repartition_state`: the same state in another number of Spark's partitions, and all that reads it."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from spark_support import Feed, at, drain, pickle_by_value, reads_state, rows_of, start

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, SparkSetupError
from pyflinklike.queryable_state import QueryableState
from pyflinklike.report import checkpoint_report
from pyflinklike.spark import key_by
from pyflinklike.state_processor import (
    list_states,
    read_state,
    read_state_changes,
    read_timers,
    repartition_state,
    take_savepoint,
)
from pyflinklike.state_processor._checkpoints.checkpoint_check import check_checkpoint
from pyflinklike.state_processor._logs.checkpoint_logs import Finding

pytestmark = reads_state
pickle_by_value(__name__)

repartitions = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2),
    reason="Spark repartitions state from 4.2 on",
)
SCHEMA = "user string, ts timestamp, n long"
USERS = [f"u{number}" for number in range(40)]


class Sum(KeyedProcessFunction):
    """The sum per key, and a timer of each that tells it."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value.n)
        ctx.timer_service().register_event_time_timer(1_000_000)
        yield value.user, value.ts, self.sum.value()

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} fired", None, self.sum.value()


def summed(feed, **options):
    """The stream of one operator."""
    given = {"event_time": "ts", "uid": "sum", "max_parallelism": 6, **options}
    return key_by(feed.stream(), "user").process(Sum(), SCHEMA, **given)


def batch(time, n):
    """A record of each user."""
    return [(user, at(time), n) for user in USERS]


@pytest.fixture
def feed(spark, tmp_path):
    """Two micro-batches."""
    made = Feed(spark, tmp_path / "feed", SCHEMA)
    made.add(batch(1, 1), batch(2, 10))
    return made


def sums(frame):
    """The value of each user."""
    return {row.user: row.value for row in frame.collect()}


def partitions_of(spark, checkpoint, batch_id):
    """How many partitions Spark says that the state has."""
    reader = spark.read.format("state-metadata").option("batchId", batch_id)
    return {row.numPartitions for row in reader.load(str(checkpoint)).collect()}


def last_batch(checkpoint):
    """The number of the last committed batch; some have no records, and only move the watermark."""
    return max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())


def both(n):
    """That of all users."""
    return dict.fromkeys(USERS, n)


@repartitions
@pytest.mark.parametrize("partitions", [4, 1], ids=["more", "fewer"])
def test_a_query_goes_on_in_other_partitions(spark, feed, tmp_path, partitions):
    """Every sum and timer is where it is looked for; before and after it reads as one history."""
    checkpoint = tmp_path / "c"
    drain(summed(feed), checkpoint)
    with QueryableState.open(spark, checkpoint, refresh=None) as replica:
        assert 11 == replica["sum"].get("u7")
        before = last_batch(checkpoint)
        repartition_state(spark, checkpoint, partitions)
        assert before + 1 == last_batch(checkpoint)
        feed.add(batch(3, 100))
        assert dict.fromkeys(USERS, 111) == {
            row[0]: row[2] for rows in drain(summed(feed), checkpoint).values() for row in rows
        }
        replica.refresh()
        last = last_batch(checkpoint)
        assert [111, last] == [replica["sum"].get("u7"), replica.position.batch_id]
    found = [sums(read_state(spark, checkpoint, "sum", batch_id=before + at)) for at in (0, 1, 2)]
    assert [both(11), both(11), both(111)] == found
    assert both(111) == sums(read_state(spark, checkpoint, "sum"))
    assert 40 == read_timers(spark, checkpoint).count()
    assert {partitions} == partitions_of(spark, checkpoint, last)
    assert both(111) == sums(read_state_changes(spark, checkpoint, "sum", before + 2))
    with pytest.raises(Exception, match=r"(?i)state"):  # Spark's own, and so said in the how-to
        read_state_changes(spark, checkpoint, "sum", before, last).collect()
    grown = checkpoint_report(spark, checkpoint, tmp_path / "page.html").data["growth"]
    assert [*range(before + 2, last + 1)] == list(grown.batch)
    none: list[Finding] = []
    assert none == check_checkpoint(spark, str(checkpoint))[0]
    feed.add([("u0", at(1_000_002), 0)])  # the watermark is 1 ms behind it
    fired = [row for rows in drain(summed(feed), checkpoint).values() for row in rows]
    assert 40 == sum(row[0].endswith(" fired") and row[2] == 111 for row in fired)
    take_savepoint(spark, checkpoint, tmp_path / "savepoint")


@repartitions
def test_an_interrupted_repartition_is_finished_before_the_query_goes_on(spark, feed, tmp_path):
    """Spark tells it from a batch of the query; the same call finishes it."""
    checkpoint = tmp_path / "c"
    drain(summed(feed), checkpoint)
    repartition_state(spark, checkpoint, 3)
    last = last_batch(checkpoint)
    (checkpoint / "commits" / f"{last}").unlink()
    # The session of the tests writes no checksums (`SPARK_SETTINGS`); Spark's own would be stale.
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    feed.add(batch(3, 100))
    with pytest.raises(StreamingQueryException, match=r"(?i)repartition"):
        drain(summed(feed), checkpoint)
    with pytest.raises(SparkSetupError, match=r"(?i)repartition"):
        repartition_state(spark, checkpoint, 4)
    repartition_state(spark, checkpoint, 3)
    drain(summed(feed), checkpoint)
    assert both(111) == sums(read_state(spark, checkpoint, "sum"))


@repartitions
def test_operators_in_a_row_go_on_in_other_partitions(spark, feed, tmp_path):
    """The second one's homes are those of the new partitions."""

    def chained():
        first = summed(feed, output_before_watermark="early", output_event_time="ts")
        return key_by(first, "user").process(
            Sum(), SCHEMA, event_time="ts", uid="two", max_parallelism=6, before_watermark="early"
        )

    checkpoint = tmp_path / "c"
    drain(chained(), checkpoint)
    for partitions in (3, 2):
        repartition_state(spark, checkpoint, partitions)
        feed.add(batch(5 - partitions, 0))
        drain(chained(), checkpoint)
    expected = dict.fromkeys(USERS, 1 + 11 + 11 + 11)
    assert expected == sums(read_state(spark, checkpoint, "sum", operator="two"))


@repartitions
def test_what_cannot_be_repartitioned_is_refused(spark, feed, tmp_path):
    """Before Spark touches the checkpoint; a query that runs keeps it."""
    checkpoint = tmp_path / "c"
    query, batches = start(summed(feed), checkpoint)
    try:
        query.processAllAvailable()
        with pytest.raises(SparkSetupError, match=r"must not run, got query .*stop"):
            repartition_state(spark, checkpoint, 4)
    finally:
        query.stop()
    assert 80 == len(rows_of(batches))
    for number, error, says in (
        (7, DeclarationValueError, "1 to 6, the number of key groups, got 7"),
        (0, DeclarationValueError, "got 0"),
        (True, DeclarationTypeError, "takes a number of partitions, got True"),
        (2, SparkSetupError, r"(?i)repartition"),
    ):
        with pytest.raises(error, match=says):
            repartition_state(spark, checkpoint, number)
    assert ["sum"] == [info.name for info in list_states(spark, checkpoint)]


@pytest.mark.skipif(not repartitions.args[0], reason="Spark 4.2 repartitions state")
def test_where_spark_has_no_repartition_the_other_way_is_told(spark, feed, tmp_path):
    """On PySpark 4.0 and 4.1."""
    drain(summed(feed), tmp_path / "c")
    with pytest.raises(SparkSetupError, match=r"Spark 4\.2 or newer.*from_savepoint"):
        repartition_state(spark, tmp_path / "c", 4)
