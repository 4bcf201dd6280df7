# SPDX-License-Identifier: Apache-2.0
"""History as a batch of Spark, and a stream of Spark that goes on."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from pyspark.sql import functions as F
from spark_support import at, drain, passes_watermarks, pickle_by_value, rows_of

from pyflinklike import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import CorruptStateError, DeclarationValueError, IncompatibleStateError
from pyflinklike.spark import broadcast, connect, history_at, history_of, key_by
from pyflinklike.state_processor import is_savepoint, open_savepoint
from pyflinklike.windows import EventTimeSessionWindows, ProcessWindowFunction

pickle_by_value(__name__)

SCHEMA = "user string, at timestamp, n int"
COUNTED = "user string, at timestamp, total int"
DELAY = "2 seconds"
RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Counted(KeyedProcessFunction):
    """Counts by user."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value.n
        self.total.update(total)
        yield value.user, value.at, total


class Both(KeyedCoProcessFunction):
    """Counts by user over both inputs."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element1(self, value, ctx):
        self.total.update((self.total.value() or 0) + value.n)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10_000)

    process_element2 = process_element1


class Ruled(KeyedBroadcastProcessFunction):
    """Counts by user, times a broadcast factor."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value, ctx):
        factor = ctx.get_broadcast_state(RULES).get("factor")
        self.total.update((self.total.value() or 0) + value.n * factor)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("factor", value.factor)


class Totals(ProcessWindowFunction):
    """The totals in a session."""

    def process(self, key, context, elements):
        totals = sorted(each.total for each in elements)
        yield str(totals)


def sessions(df, **options):
    """Sessions of counts: a chain of two operators."""
    delay = options.pop("delay", DELAY)
    counted = key_by(df, "user").process(
        Counted(), COUNTED, event_time="at", watermark_delay=delay, max_parallelism=4, **options
    )
    windows = key_by(counted, "user").window(EventTimeSessionWindows.with_gap(Time.seconds(5)))
    options.pop("output_before_watermark", None)
    return windows.process(Totals(), "totals string", event_time="at", max_parallelism=2, **options)


class Log:
    """A folder of files of events."""

    def __init__(self, spark: Any, path: Any) -> None:
        self.spark, self.path, self._number = spark, path, 0
        path.mkdir()

    def add(self, *events: tuple[str, int, int]) -> None:
        """Write a file of users, seconds and numbers."""
        lines = [
            json.dumps({"user": user, "at": f"2024-01-01T00:00:{second:02}Z", "n": n})
            for user, second, n in events
        ]
        self._number += 1
        file = self.path / f"part {self._number}+%20.json"  # names that are encoded in addresses
        file.write_text("\n".join(lines))
        os.utime(file, (1_700_000_000 + self._number,) * 2)

    def history(self) -> Any:
        """What is there now."""
        options = {"maxFilesPerTrigger": "1"}
        return history_of(
            self.spark, format="json", schema=SCHEMA, path=str(self.path), options=options
        )

    def stream(self) -> Any:
        """All of it as a stream."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.path))


def texts(rows) -> list[str]:
    """Rows in any order."""
    return sorted(f"{row[0]} {row[-1]}" for row in rows)


@pytest.mark.thorough
@passes_watermarks
def test_history_and_then_a_stream_are_one_pass_through_the_stream(spark, tmp_path):
    """A chain with a session that the cut goes through; a file that comes while the batch is read is the stream's, and so is one between two starts."""
    log, path = Log(spark, tmp_path / "log"), tmp_path / "savepoint"
    log.add(("ann", 1, 1), ("bob", 2, 2), ("ann", 3, 3))
    log.add(("ann", 20, 4), ("bob", 4, 5), ("cyd", 19, 6))
    history = log.history()
    log.add(("ann", 22, 7), ("cyd", 26, 8))
    first = sessions(history.batch(), savepoint_to=path)
    before = is_savepoint(path)
    with pytest.raises(CorruptStateError, match="got 0 of 4 key groups of operator 'Counted'"):
        open_savepoint(path)
    rows = first.collect()

    def go_on():
        # As a program that is started again: it asks for the history anew.
        later = sessions(log.history().stream(path), from_savepoint=path)
        return rows_of(drain(later, tmp_path / "checkpoint"))

    rows += go_on()
    log.add(("bob", 40, 9))
    rows += go_on()
    expected = rows_of(drain(sessions(log.stream()), tmp_path / "other"))

    assert not before
    assert ["ann [1, 4]", "bob [2, 7]"] == texts(rows[:2])
    assert texts(expected) == texts(rows)
    assert ["Counted", "EventTimeSessionWindows"] == sorted(open_savepoint(path).operators())


@passes_watermarks
@pytest.mark.restarts(
    "event_time: how late records may be, behind a batch with savepoint_to", "refused"
)
def test_a_stream_that_would_not_go_on_with_its_history_is_refused(spark, tmp_path):
    """Another beginning, lateness or key; and sources of which nobody says how far they are read."""
    log, path = Log(spark, tmp_path / "log"), tmp_path / "savepoint"
    log.add(("ann", 1, 1))
    history = log.history()
    batch = history.batch()

    with pytest.raises(DeclarationValueError, match=r"got Relation .*history_of\(...\).batch\(\)"):
        sessions(spark.read.schema(SCHEMA).json(str(log.path)), savepoint_to=path)
    other = spark.createDataFrame([("ann", None, 1)], SCHEMA)
    with pytest.raises(DeclarationValueError, match=r"got (Logical|Local)"):
        sessions(batch.union(other), savepoint_to=path)
    with pytest.raises(DeclarationValueError, match=r"takes one of the formats .* got .delta."):
        history_of(spark, format="delta", path=str(log.path))
    with pytest.raises(DeclarationValueError, match="savepoint_to is for a batch"):
        sessions(log.stream(), savepoint_to=path)
    with pytest.raises(DeclarationValueError, match='"10 minutes", got'):
        sessions(batch, delay="soon")
    read = key_by(batch.union(history_at(other, "one row")), "user").process(
        Counted(), COUNTED, event_time="at", max_parallelism=4, savepoint_to=path
    )
    with pytest.raises(CorruptStateError, match="0 of 4 key groups"):
        history.stream(path)
    assert 2 == len(read.collect())

    with pytest.raises(DeclarationValueError, match="got a savepoint"):
        sessions(batch, savepoint_to=path)
    later = history.stream(path)
    assert ["one row"] == [
        each.what
        for each in open_savepoint(path).manifest.history.sources
        if each.kind == "DataFrame"
    ]

    def process(df, key="user", **options):
        return key_by(df, key).process(
            Counted(), COUNTED, event_time="at", from_savepoint=path, **options
        )

    with pytest.raises(DeclarationValueError, match=r"got 1 ms for the batch and 2000 ms"):
        process(later, watermark_delay=DELAY)
    with pytest.raises(IncompatibleStateError, match="key columns"):
        process(later, "n")
    assert process(later, max_parallelism=16).isStreaming


def test_a_stream_without_the_savepoint_of_its_history_is_refused(spark, tmp_path):
    """Whatever is done to it before; an operator that the batch did not have begins behind the others."""
    log, path = Log(spark, tmp_path / "log"), tmp_path / "savepoint"
    log.add(("ann", 1, 1))

    def counts(df, uid="Counted", **options):
        keyed = key_by(df, "user")
        return keyed.process(Counted(), COUNTED, max_parallelism=2, uid=uid, **options)

    assert 1 == len(counts(log.history().batch(), savepoint_to=path).collect())
    later = log.history().stream(path)
    changed = later.where("n > 0").withColumn("n", F.col("n") + 1).select("user", "at", "n")
    for df in (later, changed, log.stream().union(changed)):
        for uid in ("Counted", "another"):
            with pytest.raises(
                DeclarationValueError, match=f"got operator '{uid}' without from_sav"
            ):
                counts(df, uid)
    counted = counts(changed, from_savepoint=path).withColumnRenamed("total", "n")
    with pytest.raises(DeclarationValueError, match="got operator 'Counted' without"):
        counts(counted)
    assert counts(counted, "another").isStreaming
    assert counts(log.stream()).isStreaming


def test_a_file_that_is_removed_before_the_batch_reads_it_is_an_error(spark, tmp_path):
    """Before the batch is made and after it, also where Spark is told to ignore missing files."""
    log, path = Log(spark, tmp_path / "log"), tmp_path / "savepoint"
    log.add(("ann", 1, 1))
    log.add(("bob", 2, 2))
    history = log.history()
    batch = history.batch()
    (file,) = log.path.glob("part 2*")
    file.unlink()
    saved = key_by(batch, "user").process(Counted(), COUNTED, max_parallelism=2, savepoint_to=path)

    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(
            DeclarationValueError, match=r"got 1 removed files, such as '.*part%202"
        ):
            history.batch()
        with pytest.raises(Exception, match=r"(?i)file_?\.?not_?\.?exist|does not exist"):
            saved.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert not is_savepoint(path)


def test_operators_of_two_inputs_write_a_savepoint(spark, tmp_path):
    """The watermark is that of the slower input; broadcast state is there once."""
    log, rules = Log(spark, tmp_path / "log"), spark.createDataFrame([(2,)], "factor int")
    log.add(("ann", 1, 1), ("bob", 30, 2))
    slower = history_at(spark.createDataFrame([("ann", at(1_704_067_204_000), 4)], SCHEMA), "one")
    both = connect(log.history().batch(), slower).key_by("user")
    records, read = key_by(log.history().batch(), "user"), history_at(rules, "static")
    options = {"max_parallelism": 3}

    first = both.process(
        Both(), COUNTED, event_time="at", savepoint_to=tmp_path / "both", **options
    )
    second = records.connect(broadcast(read, RULES)).process(
        Ruled(), COUNTED, event_time="at", savepoint_to=tmp_path / "ruled", **options
    )
    assert [] == first.collect() == second.collect()
    saved, ruled = open_savepoint(tmp_path / "both"), open_savepoint(tmp_path / "ruled")

    def rows(state, *columns):
        found = state.to_table().to_pylist()
        return sorted(tuple(row[column] for column in columns) for row in found)

    assert 1_704_067_203_999 == saved.manifest.watermark
    assert [("ann", 5), ("bob", 2)] == rows(saved.dataset("total"), "user", "value")
    timers = [1_704_067_211_000, 1_704_067_214_000, 1_704_067_240_000]
    assert timers == [time for (time,) in rows(saved.timers(), "timestamp")]
    assert [("ann", 2), ("bob", 4)] == rows(ruled.dataset("total"), "user", "value")
    assert [("factor", 2)] == rows(ruled.dataset("rules"), "user_key", "value")
