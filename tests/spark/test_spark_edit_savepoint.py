# SPDX-License-Identifier: Apache-2.0
"""`Savepoint`: state edited as DataFrames, and begun with."""

import pytest
from pyspark.sql import functions as F
from spark_support import Feed, at, bounded, drain, pickle_by_value, reads_state

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    StateValueError,
    UnknownStateError,
)
from pyflinklike.spark import Savepoint, key_by, read_state

pytestmark = [reads_state, pytest.mark.thorough]
pickle_by_value(__name__)

COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.STRING())
PAGES = MapStateDescriptor("pages", Types.STRING(), Types.LONG())


class Keeping(KeyedProcessFunction):
    """Yields the state it finds, and fires its timers."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)
        self.seen = runtime_context.get_list_state(SEEN)
        self.pages = runtime_context.get_map_state(PAGES)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.pages.put(value.page, 1)
        yield f"{value.user} {self.count.value()} {list(self.seen.get())} {sorted(self.pages.keys())}"

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp}"


def run(spark, directory, records, **options):
    """The outputs and the checkpoint of a query over one batch."""
    feed = Feed(spark, directory / "feed", "user string, ts timestamp, page string")
    feed.add(records)
    query = key_by(feed.stream(), "user").process(
        Keeping(), "text string", event_time="ts", uid="keeping", max_parallelism=4, **options
    )
    batches = drain(query, directory / "checkpoint")
    return sorted(row[0] for rows in batches.values() for row in rows), directory / "checkpoint"


def test_a_stream_begins_with_state_that_was_never_in_one(spark, tmp_path):
    """Bootstrapped from DataFrames, timers included."""
    totals = bounded(spark, [("a", 10), ("b", 20)], "user string, value int")
    visits = bounded(spark, [("a", "y", 2), ("a", "x", 1)], "user string, value string, nr int")
    due = bounded(spark, [("b", 5000)], "user string, timestamp long")
    made = (
        Savepoint.new(spark, "user string", "keeping")
        .with_state(COUNT, totals)
        .with_state(SEEN, visits, order_by="nr")
        .with_timers(due.withColumn("domain", F.lit("event_time")))
    )
    assert "Savepoint({'keeping': ['count', 'seen']})" == repr(made)
    made.write(tmp_path / "made")
    outputs, _ = run(
        spark,
        tmp_path,
        [("a", at(9000), "p"), ("c", at(9001), "p")],
        from_savepoint=tmp_path / "made",
    )
    assert ["a 11 ['x', 'y'] ['p']", "b 5000", "c 1 [] ['p']"] == outputs


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """Of a query that has seen two users."""
    records = [("a", at(1), "p"), ("b", at(2), "p"), ("b", at(3), "q")]
    return run(spark, tmp_path_factory.mktemp("edited"), records)[1]


def test_state_is_mended_and_goes_on(spark, checkpoint, tmp_path):
    """Transformed, filtered, removed: what was not touched is as it was."""
    edited = (
        Savepoint.read(spark, checkpoint)
        .filter_keys(F.col("user") != "a")
        .transform_state("count", lambda rows: rows.withColumn("value", F.col("value") * 100))
        .remove_state("seen")
    )
    edited.write(tmp_path / "edited")
    records = [("a", at(1), "z"), ("b", at(2), "z")]
    outputs, _ = run(spark, tmp_path, records, from_savepoint=tmp_path / "edited")
    assert ["a 1 [] ['z']", "b 201 [] ['p', 'q', 'z']"] == outputs
    assert 2 == read_state(spark, checkpoint, "count").where("value < 100").count()


def test_names_and_ttl_are_changed(spark, checkpoint, tmp_path):
    """The directory says what the states now are."""
    ttl = StateTtlConfig.new_builder(1000).build()
    changed = Savepoint.read(spark, checkpoint).rename_state("count", "hits")
    changed = changed.with_ttl("hits", ttl, stamp=77).rename_operator("keeping", "other")
    changed.write(tmp_path / "changed")
    again = Savepoint.read(spark, tmp_path / "changed")
    assert [77, 77] == [row.stamp for row in again["hits"].collect()]
    assert {("other", "hits"), ("other", "pages"), ("other", "seen")} == {
        (info.uid, info.name) for info in again.states()
    }


def test_two_savepoints_become_one(spark, checkpoint, tmp_path):
    """An entry of both is refused, or one side's."""
    more = bounded(spark, [("b", 7), ("c", 8)], "user string, value long")
    other = Savepoint.new(spark, "user string", "keeping").with_state(COUNT, more)
    mine = Savepoint.read(spark, checkpoint)
    with pytest.raises(StateValueError, match="an entry has one row"):
        mine.merge(other).write(tmp_path / "refused")
    for side, expected in (("left", {"a": 1, "b": 2, "c": 8}), ("right", {"a": 1, "b": 7, "c": 8})):
        merged = mine.merge(other, on_conflict=side)["count"]
        assert expected == {row.user: row.value for row in merged.collect()}


@pytest.mark.parametrize(
    ("verb", "error", "says"),
    [
        (lambda held: held["cuont"], UnknownStateError, "did you mean 'count'"),
        (lambda held: held.rename_state("count", "seen"), DeclarationValueError, "remove_state"),
        (lambda held: held.remove_timers("both"), DeclarationValueError, "event_time"),
        (
            lambda held: held.transform_state("count", lambda rows: rows.drop("value")),
            DeclarationValueError,
            "add 'value'",
        ),
        (
            lambda held: held.transform_state(
                "count", lambda rows: rows.withColumn("value", F.lit("text"))
            ),
            DeclarationTypeError,
            "is bigint, got string",
        ),
        (lambda held: held.with_state("count", held["count"]), DeclarationTypeError, "descriptor"),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_called(spark, checkpoint, verb, error, says):
    """Before anything is written."""
    with pytest.raises(error, match=says):
        verb(Savepoint.read(spark, checkpoint))
