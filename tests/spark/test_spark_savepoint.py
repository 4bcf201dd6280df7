# SPDX-License-Identifier: Apache-2.0
"""State leaves a checkpoint as a savepoint, and a new checkpoint begins with one."""

from __future__ import annotations

import datetime as dt
import re
import time
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from spark_support import (
    RICH_OUTPUT,
    RICH_SCHEMA,
    RICH_SIDE,
    Feed,
    Rich,
    at,
    bounded,
    drain,
    milliseconds,
    model_stream,
    pickle_by_value,
    rich_batches,
    rich_outputs,
    rich_rows,
    rows_of,
)

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    HostError,
    IncompatibleStateError,
)
from pyflinklike.spark import key_by, read_savepoint
from pyflinklike.spark.wire.key_hash import KeyGroupFinder
from pyflinklike.spark.wire.schema import key_type_of
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)

SEED = 20240310


def rich(feed, **options):
    """The rich function on a stream."""
    return key_by(feed.stream(), "key").process(
        Rich(), RICH_OUTPUT, event_time="ts", side_outputs=[RICH_SIDE], **options
    )


def harness(**options):
    """The rich function in a harness."""
    return KeyedProcessHarness(Rich(), key_selector=lambda value: value.key, **options)


def present(driven):
    """A harness whose clock is the stream's, by which entries of a day's TTL are alive."""
    driven.set_processing_time(time.time_ns() // 1_000_000)
    return driven


def rocksdb(directory, cls=EmbeddedRocksDBStateBackend):
    """A backend with its files there."""
    pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")
    backend = cls()
    backend.set_db_storage_paths(str(directory))
    return backend


def rows(*runs):
    """The main and side outputs of runs of the rich function."""
    return rich_rows(row for run in runs for batch in run.values() for row in batch)


def test_a_harness_goes_on_from_the_savepoint_of_a_stream(spark, tmp_path):
    """All states and timers of all key groups, also after an earlier batch, under the harness's own kind of keys."""
    feed = Feed(spark, tmp_path / "input", RICH_SCHEMA)
    *batches, last = rich_batches(SEED, batches=4, size=120)
    feed.add(*batches[:3])
    drain(rich(feed, max_parallelism=4), tmp_path / "checkpoint")
    feed.add(batches[3])
    drain(rich(feed, max_parallelism=4), tmp_path / "checkpoint")
    model = model_stream(harness(), feed.elements(), "ts")

    restored = harness(restore=read_savepoint(spark, tmp_path / "checkpoint"))
    for name in ("seq", "log", "items", "marks", "text", "mean"):
        assert model.num_keyed_state_entries(name) == restored.num_keyed_state_entries(name), name
    assert 0 < model.num_event_time_timers() == restored.num_event_time_timers()

    seen, watermark = len(model.output), model.watermark
    later = Feed(spark, tmp_path / "later", RICH_SCHEMA)
    later.add(*rich_batches(SEED + 1, batches=1, size=60), [last[0]])
    for each in (model, restored):
        each.process_watermark(watermark)
        model_stream(each, later.elements(), "ts")
    assert sorted(model.output[seen:]) == sorted(restored.output)

    early = harness(restore=read_savepoint(spark, tmp_path / "checkpoint", batch_id=0))
    first = KeyedProcessHarness(Rich(), key_selector=lambda value: value.key)
    first.process_elements((row, milliseconds(row.ts)) for row in feed.elements()[0])
    assert 0 < first.num_event_time_timers() == early.num_event_time_timers()


def test_a_stream_goes_on_from_the_snapshot_of_a_harness(spark, tmp_path):
    """Over another backend and max_parallelism, with timers in groups without data; once, whatever restarts."""
    before = Feed(spark, tmp_path / "before", RICH_SCHEMA)
    before.add(*rich_batches(SEED + 2, batches=3, size=120)[:-1])
    snapshot = model_stream(present(harness()), before.elements(), "ts").snapshot()
    feed = Feed(spark, tmp_path / "input", RICH_SCHEMA)
    later = rich_batches(SEED + 3, batches=3, size=5)
    options = {"max_parallelism": 16, "state_backend": rocksdb(tmp_path / "local")}

    feed.add(later[0])
    runs = [drain(rich(feed, from_savepoint=snapshot, **options), tmp_path / "checkpoint")]
    feed.add(later[1])
    runs.append(drain(rich(feed, from_savepoint=snapshot, **options), tmp_path / "checkpoint"))
    feed.add(later[2], later[3])
    runs.append(drain(rich(feed, **options), tmp_path / "checkpoint"))

    model = present(harness(restore=snapshot))
    assert 5 < model.num_event_time_timers()
    assert rich_outputs(model_stream(model, feed.elements(), "ts")) == rows(*runs)


class Reminder(KeyedProcessFunction):
    """Calls back after `n` ms."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value.n)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def test_the_timers_of_a_savepoint_wake_groups_without_data(spark, tmp_path):
    """When the watermark reaches them."""
    reminding = KeyedProcessHarness(Reminder(), key_selector=lambda value: value.key)
    for number in range(6):
        reminding.process_element(Row(key=f"k{number}", n=1_000 + number))
    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp, n int")
    feed.add([("other", at(1_004), 9_000)])
    result = key_by(feed.stream(), "key").process(
        Reminder(),
        "key string, at long",
        event_time="ts",
        max_parallelism=8,
        from_savepoint=reminding.snapshot(),
    )
    fired = rows_of(drain(result, tmp_path / "checkpoint"))
    assert [(f"k{number}", 1_000 + number) for number in range(5)] == fired


# Keys


class Sum(KeyedProcessFunction):
    """The sum of `n` per key."""

    def __init__(self, kind=None):
        self.kind = kind or Types.LONG()

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", self.kind))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value.n)
        yield ctx.get_current_key(), self.sum.value()


def sums(*keys):
    """A harness whose sum for each of these keys is 100."""
    summing = KeyedProcessHarness(Sum(), key_selector=lambda value: value.key)
    for key in keys:
        summing.process_element(Row(key=key, n=100))
    return summing


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


def test_a_savepoint_changes_max_parallelism(spark, tmp_path):
    """As the error says that refuses to change it in a checkpoint; the keys are ints of 32 bits."""
    feed = Feed(spark, tmp_path / "input", "key int, n int")

    def run(checkpoint, max_parallelism, **options):
        stream = key_by(feed.stream(), "key")
        result = stream.process(
            Sum(), "key int, total long", max_parallelism=max_parallelism, **options
        )
        return rows_of(drain(result, tmp_path / checkpoint))

    feed.add([(key, 1) for key in range(20)])
    run("old", 4)
    feed.add([(key, 1) for key in range(20)])
    with pytest.raises(StreamingQueryException, match="from_savepoint=read_savepoint"):
        run("old", 16)

    feed = Feed(spark, tmp_path / "new input", "key int, n int")
    feed.add([(key, 1) for key in range(20)])
    blob = read_savepoint(spark, tmp_path / "old")
    assert rows_of((key, 2) for key in range(20)) == run("new", 16, from_savepoint=blob)


def test_a_savepoint_is_of_the_last_batch_that_was_committed(spark, tmp_path):
    """Not of the one that its sink has failed in, whose state is written already; also while the query runs."""
    feed = Feed(spark, tmp_path / "input", "key string, n int")
    feed.add([("a", 1)], [("a", 10)])
    checkpoint = str(tmp_path / "checkpoint")

    def total():
        restored = KeyedProcessHarness(
            Sum(), key_selector=lambda value: value.key, restore=read_savepoint(spark, checkpoint)
        )
        return restored.process_element(Row(key="a", n=0))

    def sink(batch, batch_id):
        batch.collect()
        if batch_id == 1:
            seen.append(total())
            raise OSError

    seen = []
    result = key_by(feed.stream(), "key").process(Sum(), "key string, n long", max_parallelism=2)
    writer = result.writeStream.foreachBatch(sink).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException):
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()
    assert [("a", 1)] == total()
    assert [[("a", 1)]] == seen


# What is refused


def test_what_is_no_savepoint_is_refused(spark, tmp_path):
    """When the query is made."""
    stream = Feed(spark, tmp_path, "key string, n int").stream()
    batch = bounded(spark, [("a", 1)], "key string, n int")
    blob = sums("a").snapshot()

    def begin(df, savepoint):
        key_by(df, "key").process(Sum(), "key string, n long", from_savepoint=savepoint)

    with pytest.raises(DeclarationTypeError, match="bytes of a savepoint"):
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
    with pytest.raises(HostError, match=remedy):
        key_by(stream, "key").process(Sum(), "key string, n long", from_savepoint=timed.snapshot())


def test_what_cannot_be_read_is_a_clear_error(spark, tmp_path):
    """No checkpoint, another operator, another batch, an operator that is not ours."""
    with pytest.raises(HostError, match="query that has run"):
        read_savepoint(spark, tmp_path / "nothing")

    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp, n int")
    feed.add([("a", at(1), 1)])
    drain(
        feed.stream().withWatermark("ts", "0 seconds").dropDuplicates(["key"]), tmp_path / "other"
    )
    with pytest.raises(HostError, match=r"one that process\(\) made"):
        read_savepoint(spark, tmp_path / "other")
    drain(
        key_by(feed.stream(), "key").process(Sum(), "key string, n long", max_parallelism=2),
        tmp_path / "ours",
    )
    with pytest.raises(HostError, match="operator 1: "):
        read_savepoint(spark, tmp_path / "ours", operator_id=1)
    with pytest.raises(HostError, match="batch 7: "):
        read_savepoint(spark, tmp_path / "ours", batch_id=7)


# Changes of TTL and type over RocksDB


class Remembered(KeyedProcessFunction):
    """Puts what is not negative, and says what it finds; its TTL is in event time."""

    def __init__(self, ttl, kind=None):
        self.ttl = ttl
        self.kind = kind or Types.LONG()

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("value", self.kind)
        if self.ttl is not None:
            builder = StateTtlConfig.new_builder(self.ttl).disable_cleanup_in_background()
            characteristic = StateTtlConfig.TtlTimeCharacteristic.EventTime
            descriptor.enable_time_to_live(
                builder.set_ttl_time_characteristic(characteristic).build()
            )
        self.value = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        if value.n >= 0:
            self.value.update(value.n)
        else:
            yield ctx.get_current_key(), self.value.value()


class OneOwner(EmbeddedRocksDBStateBackend):
    """Has the files of every query under one name, so that a restart finds them."""

    def create_keyed_state_backend(self, scope, owner):
        return super().create_keyed_state_backend(scope, "one/" + owner.rpartition("/")[2])


def test_a_ttl_may_change_at_a_restart_over_rocksdb(spark, tmp_path):
    """On, longer and off, as the rules have it; what is on the disk under the former TTL never shows. A changed type is refused."""
    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp, n long")
    backend = rocksdb(tmp_path / "local", OneOwner)

    def run(ttl, *batches, kind=None):
        feed.add(*[[(key, at(time), n) for key, time, n in batch] for batch in batches])
        result = key_by(feed.stream(), "key").process(
            Remembered(ttl, kind),
            "key string, value long",
            event_time="ts",
            state_backend=backend,
            max_parallelism=1,
        )
        found = drain(result, tmp_path / "checkpoint")
        assert any(Path(tmp_path / "local").rglob("CURRENT"))
        return [tuple(row) for number in sorted(found) for row in found[number]]

    assert [] == run(None, [("a", 1_000, 1), ("b", 1_000, 2), ("c", 1_000, 3)])
    # Stamped with the time of the restore, which is the watermark.
    found = run(100, [("d", 1_099, 4), ("a", 1_100, -1)], [("a", 1_101, -1)])
    assert [("a", 1), ("a", None)] == found
    # Judged by the new TTL: b, stamped 1000, is expired at the watermark 1150.
    found = run(150, [("b", 1_150, -1)], [("b", 1_151, -1)])
    assert [("b", 2), ("b", None)] == found
    # Permanent, what had expired as well.
    found = run(None, [("c", 9_000, -1), ("d", 9_000, -1), ("b", 9_000, -1)])
    assert [("c", 3), ("d", 4), ("b", None)] == found
    with pytest.raises(StreamingQueryException, match=r"IncompatibleStateError: .*'value'"):
        run(None, [("c", 9_003, -1)], kind=Types.STRING())
