# SPDX-License-Identifier: Apache-2.0
"""Savepoints as directories on Spark: taken by the executors, and begun with by them."""

import os
import shutil
from pathlib import Path

import attrs
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F
from spark_support import Feed, at, drain, pickle_by_value, reads_state

from pyflinklike import (
    Instant,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import DeclarationValueError, IncompatibleStateError, SparkSetupError
from pyflinklike.spark import key_by
from pyflinklike.state_processor import (
    Savepoint,
    open_savepoint,
    read_state,
    read_timers,
    take_savepoint,
)
from pyflinklike.state_processor._checkpoints.savepoint_frames import save
from pyflinklike.state_processor._savepoints.savepoint_location import savepoint_location_of
from pyflinklike.stores import KeyValueStoreDescriptor, WindowStoreDescriptor

pytestmark = reads_state
pickle_by_value(__name__)

SCHEMA = "user string, ts timestamp, n int"
RECORDS = [("a", at(1000), 1), ("b", at(2000), 2), ("a", at(3000), 3), ("c", at(4000), 4)]


class Keeping(KeyedProcessFunction):
    """State of many kinds."""

    def __init__(self, *, shared=False):
        self._is_shared = shared

    def open(self, runtime_context):
        seen = ValueStateDescriptor("seen", Types.INSTANT())
        seen.enable_time_to_live(StateTtlConfig.new_builder(3_600_000).build())
        self.seen = runtime_context.get_state(seen)
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        counts = MapStateDescriptor("counts", Types.TUPLE([Types.BOOLEAN()]), Types.LONG())
        self.counts = runtime_context.get_map_state(counts)
        number, text = Types.LONG(), Types.STRING()
        self.windows = runtime_context.get_store(
            WindowStoreDescriptor("windows", text, number, window_size=1000, retention=60_000)
        )
        scope = "partition" if self._is_shared else "key"
        shared = KeyValueStoreDescriptor("shared", text, number, scope=scope)
        self.shared = runtime_context.get_store(shared)

    def process_element(self, value, ctx):
        n = value.n
        self.seen.update(Instant(n, 123_456_789))
        self.all.add(n)
        even = (n % 2 == 0,)
        self.counts.put(even, (self.counts.get(even) or 0) + 1)
        self.windows.put("w", n, ctx.timestamp())
        self.shared.put(value.user, n)
        ctx.timer_service().register_event_time_timer(100_000 + n)
        yield value.user, sum(self.all.get())

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


STATES = ["seen", "all", "counts", "windows", "shared"]


def stream(feed, *, shared=False, key="user", **options):
    """The stream, keyed and processed."""
    given = {"event_time": "ts", "uid": "keeping", "max_parallelism": 4, **options}
    return key_by(feed.stream(), key).process(
        Keeping(shared=shared), "user string, n long", **given
    )


def run(spark, directory, batches, **options):
    """The outputs and the checkpoint of a query over these batches."""
    feed = Feed(spark, directory / "feed", SCHEMA)
    feed.add(*batches)
    outputs = drain(stream(feed, **options), directory / "checkpoint")
    rows = sorted(tuple(row) for batch in outputs.values() for row in batch)
    return rows, directory / "checkpoint"


@pytest.fixture(scope="module")
def taken(spark, tmp_path_factory):
    """A checkpoint, and a savepoint of it."""
    directory = tmp_path_factory.mktemp("take_savepoint")
    checkpoint = run(spark, directory, [RECORDS])[1]
    take_savepoint(spark, checkpoint, directory / "savepoint")
    return checkpoint, directory / "savepoint"


def contents(spark, checkpoint):
    """All that a checkpoint holds, without where it lies."""
    found = {"timers": read_timers(spark, checkpoint).drop("key_group", "due")}
    for name in STATES:
        frame = read_state(spark, checkpoint, name)
        found[name] = frame.drop("key_group", "alive")
    return {name: sorted(map(repr, frame.collect())) for name, frame in found.items()}


@pytest.mark.thorough
def test_a_stream_begins_with_a_savepoint(spark, taken, tmp_path):
    """In another number of key groups, and with its timers."""
    _, savepoint = taken
    late = [[("a", at(200_000), 10)], [("d", at(300_000), 1)]]
    rows, _ = run(spark, tmp_path, late, from_savepoint=savepoint, max_parallelism=7)
    timers = [("a", 100_001), ("a", 100_003), ("a", 100_010), ("b", 100_002), ("c", 100_004)]
    assert sorted([("a", 14), ("d", 1), *timers]) == [row for row in rows if row != ("d", 100_001)]


@pytest.mark.thorough
def test_nothing_is_lost_between_checkpoint_and_checkpoint(spark, taken, tmp_path):
    """Stamps, nanoseconds, positions, windows and timers; only the key group may differ."""
    checkpoint, savepoint = taken
    unknown = [[("zzz", at(1), 1)]]
    _, other = run(spark, tmp_path, unknown, from_savepoint=savepoint, max_parallelism=7)
    after = contents(spark, other)
    before = contents(spark, checkpoint)
    for name in before:
        mine = [row for row in after[name] if "zzz" not in row]
        assert before[name] == mine, name
    again = tmp_path / "again"
    take_savepoint(spark, other, again)
    nanos = pc.field("value", "nanos")
    found = open_savepoint(again).dataset("seen").to_table(filter=nanos == 123_456_789)
    assert 4 == found.num_rows


@pytest.mark.thorough
def test_a_savepoint_is_what_any_tool_reads(taken):
    """Such as pyarrow; every file has the checksum of the manifest."""
    savepoint = open_savepoint(taken[1])
    savepoint.verify()
    table = savepoint.dataset("all").to_table(columns=["user", "value"])
    assert [("a", 1), ("a", 3), ("b", 2), ("c", 4)] == sorted(
        zip(*(column.to_pylist() for column in table.columns))
    )
    assert {"event_time": 4} == savepoint.manifest.operators[0].domains
    assert '"batchTimestampMs"' in savepoint.manifest.offsets


@pytest.mark.thorough
def test_shared_stores_stay_in_their_key_group(spark, tmp_path):
    """With the same number of key groups they come along; with another one that is refused."""
    _, checkpoint = run(spark, tmp_path, [RECORDS], shared=True)
    savepoint = tmp_path / "savepoint"
    take_savepoint(spark, checkpoint, savepoint)
    _, other = run(
        spark, tmp_path / "b", [[("zzz", at(1), 1)]], shared=True, from_savepoint=savepoint
    )
    rows = read_state(spark, other, "shared").where("store_key != 'zzz'").drop("key_group")
    expected = read_state(spark, checkpoint, "shared").drop("key_group")
    assert sorted(expected.collect()) == sorted(rows.collect())
    with pytest.raises(IncompatibleStateError, match="of 4 key groups for 8"):
        run(
            spark,
            tmp_path / "c",
            [RECORDS],
            shared=True,
            from_savepoint=savepoint,
            max_parallelism=8,
        )


@pytest.mark.thorough
def test_keys_that_would_not_be_the_same_are_refused(spark, taken, tmp_path):
    """Before the query starts."""
    feed = Feed(spark, tmp_path / "feed", SCHEMA)
    feed.add(RECORDS)
    with pytest.raises(IncompatibleStateError, match="got \\['user'\\]"):
        stream(feed, key="n", from_savepoint=taken[1])
    numbered = feed.stream().withColumn("user", F.col("n").cast("long"))
    with pytest.raises(IncompatibleStateError, match="key column 'user' of type bigint, got 'a'"):
        key_by(numbered, "user").process(
            Keeping(), "user long, n long", event_time="ts", from_savepoint=taken[1]
        )


@pytest.mark.thorough
def test_timers_that_could_not_fire_are_refused(spark, taken, tmp_path):
    """As with the bytes of a savepoint."""
    feed = Feed(spark, tmp_path / "feed", SCHEMA)
    with pytest.raises(SparkSetupError, match="would never fire"):
        stream(feed, event_time=None, from_savepoint=taken[1])


@pytest.mark.thorough
def test_a_savepoint_is_replaced_when_asked(spark, taken):
    """Once the new one is whole."""
    checkpoint, savepoint = taken
    with pytest.raises(DeclarationValueError, match="overwrite"):
        take_savepoint(spark, checkpoint, savepoint)
    take_savepoint(spark, checkpoint, savepoint, mode="overwrite")
    open_savepoint(savepoint).verify()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["plain/", "./a/../plain", "[1]{a,b} *?%41\\d"])
def test_a_savepoint_is_where_its_path_says(spark, taken, tmp_path, monkeypatch, name):
    """Whatever Java's working directory is, and whatever is a pattern to Spark."""
    monkeypatch.chdir(tmp_path)
    Savepoint.read(spark, taken[1]).filter_keys(F.col("user") != "a").write(name)
    Savepoint.read(spark, name).filter_keys(F.col("user") == "b").write(name, mode="overwrite")
    rows = open_savepoint(name).dataset("all").to_table().to_pylist()
    assert ([("b", 2)], [Path(os.path.abspath(name))]) == (
        [(row["user"], row["value"]) for row in rows],
        [each.parent for each in tmp_path.rglob("_manifest.json")],
    )


@pytest.mark.thorough
def test_rows_that_the_driver_does_not_find_are_an_error(spark, taken, tmp_path):
    """Executors with disks of their own, or another default file system than Arrow's."""
    place, frames = savepoint_location_of(tmp_path / "here"), Savepoint.read(spark, taken[1]).only()
    elsewhere = attrs.evolve(place, uri=str(tmp_path / "there"))
    with pytest.raises(SparkSetupError, match=r"must reach the same files, got 0 of 4 rows"):
        save(elsewhere, [frames], open_savepoint(taken[1]).manifest, "error")
    assert not (tmp_path / "here" / "_manifest.json").exists()


def test_a_checkpoint_that_spark_cannot_address_is_told(spark, taken, tmp_path):
    """Through a link it can be read."""
    odd, link = tmp_path / "a b", tmp_path / "link"
    shutil.copytree(taken[0], odd)
    link.symlink_to(odd)
    assert 4 == read_state(spark, link, "all").count()
    with pytest.raises(SparkSetupError, match="give a path without spaces and the like, or a link"):
        read_state(spark, odd, "all")
