# SPDX-License-Identifier: Apache-2.0
"""Streams out of lists: one list of records is one micro-batch.

    feed = Feed(spark, tmp_path, "user string, ts timestamp, n int")
    feed.add([("a", at(1), 3)], [("a", at(2), 4)])         # two micro-batches
    drain(key_by(feed.stream(), "user").process(...), tmp_path / "checkpoint")

Workers do not have `tests/support/` on their path, so what tests define is pickled by value:
each test module calls `pickle_by_value(__name__)`.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filed_batches import Batches, FiledBatches
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.utils import is_remote

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark._wire.schema import arrow_schema
from pyflinklike.spark._wire.system_columns import frame_of
from pyflinklike.testing import KeyedProcessHarness

reads_state = pytest.mark.skipif(
    not HAS_TRANSFORM_WITH_STATE, reason="PySpark 3.5 cannot read the state of a checkpoint"
)
passes_watermarks = pytest.mark.skipif(
    not HAS_TRANSFORM_WITH_STATE, reason="Spark 3.5 passes no watermark through its state operator"
)

EPOCH = dt.datetime(1970, 1, 1)
_MILLISECOND = dt.timedelta(milliseconds=1)
_PATIENCE = 240
_POLL_SECONDS = 0.25


def pickle_by_value(module: str) -> None:
    """Have the classes of a test module pickled whole."""
    cloudpickle.register_pickle_by_value(sys.modules[module])  # type: ignore[no-untyped-call]


pickle_by_value(__name__)
pickle_by_value(FiledBatches.__module__)


def at(milliseconds: int) -> dt.datetime:
    """The instant so many ms after the epoch, in UTC and without a zone."""
    return EPOCH + milliseconds * _MILLISECOND


def milliseconds(instant: dt.datetime | None) -> int | None:
    """The opposite of `at`."""
    return None if instant is None else (instant - EPOCH) // _MILLISECOND


class Feed:
    """A directory that a stream reads a file of at a time.

    Args:
        spark: The session.
        directory: For the files; made if need be.
        schema: DDL.
    """

    def __init__(self, spark: SparkSession, directory: Path, schema: str) -> None:
        self._spark = spark
        self._directory = directory
        self.schema: Any = schema_of(spark, schema)
        self.batches: list[list[tuple[Any, ...]]] = []
        directory.mkdir(parents=True, exist_ok=True)

    def add(self, *batches: Sequence[tuple[Any, ...]]) -> None:
        """Append micro-batches; a naive datetime is in UTC."""
        for rows in batches:
            number = len(self.batches)
            # Spark reads the oldest file first, and must not see one half-written.
            written = self._directory / f"_{number:04}"
            pq.write_table(table_of(rows, self.schema), written)
            seconds = 1_700_000_000 + number
            os.utime(written, (seconds, seconds))
            written.rename(self._directory / f"{number:04}.parquet")
            self.batches.append(list(rows))

    def stream(self) -> DataFrame:
        """The files as a stream."""
        reader = self._spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self._directory))

    def bounded(self) -> DataFrame:
        """All records as a batch, in the order they were added."""
        rows = [row for batch in self.batches for row in batch]
        return bounded(self._spark, rows, self.schema)

    def elements(self) -> list[list[Row]]:
        """The records as a function sees them, by micro-batch."""
        names = self.schema.names
        return [[Row(**dict(zip(names, row))) for row in batch] for batch in self.batches]


def table_of(rows: Sequence[tuple[Any, ...]], schema: st.StructType) -> pa.Table:
    """Records as an Arrow table."""
    columns = list(zip(*rows)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, arrow_schema(schema))]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def bounded(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: Any) -> DataFrame:
    """Records as a batch; a naive datetime is in UTC."""
    if isinstance(schema, str):
        schema = schema_of(spark, schema)
    return frame_of(spark, table_of(rows, schema), schema)


def schema_of(spark: SparkSession, ddl: str) -> st.StructType:
    """DDL as a schema; PySpark 3.5 has no `StructType.fromDDL`."""
    return spark.createDataFrame([], ddl).schema


def start(df: DataFrame, checkpoint: Path, **trigger: Any) -> tuple[StreamingQuery, Batches]:
    """Start a query that collects its rows by batch id."""
    kept: Any = {}
    if is_remote():
        kept = FiledBatches(Path(tempfile.mkdtemp(prefix="batches ", dir=checkpoint.parent)))

    def collect(batch: DataFrame, batch_id: int) -> None:
        kept[batch_id] = batch.collect()

    batches: Batches = kept

    writer = df.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start(), batches


def drain(df: DataFrame, checkpoint: Path) -> Batches:
    """Run a query until it has read all there is; its rows by batch id."""
    query, batches = start(df, checkpoint, availableNow=True)
    try:
        assert query.awaitTermination(_PATIENCE), "the query does not end"
    finally:
        query.stop()
    return batches


def until(query: StreamingQuery, condition: Callable[[], Any]) -> None:
    """Let a query run until something is so; it fails where the query does."""
    for _ in range(int(_PATIENCE / _POLL_SECONDS)):
        if condition():
            return
        query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type]  # takes fractions, too
    msg = f"never happened; {query.lastProgress}"
    raise AssertionError(msg)


def rows_of(batches: Batches | Iterable[Any]) -> list[Any]:
    """The rows of all batches, sorted as plain tuples."""
    every: Iterable[Any] = (
        [row for rows in batches.values() for row in rows]
        if isinstance(batches, Mapping)
        else batches
    )
    return sorted((tuple(row) for row in every), key=repr)


# A function that uses everything


RICH_SCHEMA = "key string, ts timestamp, op int, n int, timer long"
RICH_OUTPUT = "key string, seq long, dump string"
RICH_SIDE = OutputTag(
    "rich", Types.ROW_NAMED(["key", "seq", "n"], [Types.STRING(), Types.LONG(), Types.INT()])
)
RICH_OPERATIONS = 9


class SumAndCount(AggregateFunction):
    """Sum and count, in a list that `add` changes in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class Rich(KeyedProcessFunction):
    """Uses the five states, mutable types, TTL, event timers and a side output.

    What a record does is its `op`.  Every output dumps the whole state of its key, so
    equal outputs mean equal state.  Keys that begin with "late" show the watermark, too.
    """

    def open(self, runtime_context: Any) -> None:
        ttl = StateTtlConfig.new_builder(Time.days(1)).update_ttl_on_read_and_write().build()
        seq = ValueStateDescriptor("seq", Types.LONG())
        log = ValueStateDescriptor("log", Types.PICKLED_BYTE_ARRAY())
        row = Types.ROW_NAMED(["n", "tags"], [Types.INT(), Types.LIST(Types.STRING())])
        items = ListStateDescriptor("items", row)
        marks = MapStateDescriptor("marks", Types.STRING(), Types.LIST(Types.INT()))
        for each in (log, items, marks):
            each.enable_time_to_live(ttl)
        self.seq = runtime_context.get_state(seq)
        self.log = runtime_context.get_state(log)
        self.items = runtime_context.get_list_state(items)
        self.marks = runtime_context.get_map_state(marks)
        self.text = runtime_context.get_reducing_state(
            ReducingStateDescriptor("text", lambda a, b: (a + b)[-40:], Types.STRING())
        )
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", SumAndCount(), Types.LIST(Types.LONG()))
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        timers, n = ctx.timer_service(), value.n
        if value.op in (0, 1):
            self.log.update((self.log.value() or []) + [{"n": n, "at": ctx.timestamp()}])
            self.items.add(Row(n=n, tags=["x"] * (n % 3)))
            self.marks.put(f"m{n % 3}", [*(self.marks.get(f"m{n % 3}") or []), n])
            self.text.add(f"{n};")
            self.mean.add(n)
        elif value.op == 2:
            for state in (self.log, self.items, self.marks, self.text, self.mean):
                state.clear()
        elif value.op == 3:
            self.marks.remove(f"m{n % 3}")
            self.items.update([row for row in self.items if row.n % 2])
        elif value.op == 4:
            self._mutate_what_was_read()
        elif value.op == 5:
            timers.register_event_time_timer(value.timer)
        elif value.op == 6:
            timers.delete_event_time_timer(value.timer)
        elif value.op == 7:
            self.items.add_all([Row(n=-n, tags=[]), Row(n=n, tags=["y"])])
            self.text.add("all;")
            timers.register_event_time_timer(value.timer)
        else:
            yield RICH_SIDE, Row(key=value.key, seq=(self.seq.value() or 0) + 1, n=n)
        yield self._dump(f"{tuple(value)[1:]} {ctx.timestamp()}", ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.text.add(f"@{timestamp % 1000};")
        if timestamp % 3 == 1:
            ctx.timer_service().register_event_time_timer(timestamp + 1)
        yield RICH_SIDE, Row(key=ctx.get_current_key(), seq=(self.seq.value() or 0) + 1, n=-1)
        yield self._dump(f"timer {timestamp} {ctx.timestamp()} {ctx.time_domain()}", ctx)

    def _mutate_what_was_read(self) -> None:
        if self.log.value():
            self.log.value()[0]["n"] = "spoilt"
            self.log.value().append("spoilt")
        for row in self.items.get():
            row.tags.append("spoilt")
        for marks in self.marks.values():
            marks.append(-1)
        for key in self.marks:
            self.marks.get(key).clear()

    def _dump(self, what: str, ctx: Any) -> tuple[Any, int, str]:
        key = ctx.get_current_key()
        seq = (self.seq.value() or 0) + 1
        self.seq.update(seq)
        marks = sorted(self.marks.items())
        state = (
            self.log.value(),
            [tuple(r) for r in self.items],
            marks,
            self.text.get(),
            self.mean.get(),
        )
        seen = ctx.timer_service().current_watermark() if key.startswith("late") else ""
        return key, seq, f"{what} {seen} {state}"


def rich_harness() -> KeyedProcessHarness:
    """A harness for `Rich`."""
    return KeyedProcessHarness(Rich(), key_selector=lambda value: value.key)


def rich_rows(results: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The main and the side outputs of a result of `Rich`, sorted; without the sentinel's."""
    main, side = [], []
    for row in results:
        if row.output_tag is None:
            main.append((row.key, row.seq, row.dump))
        else:
            side.append(tuple(row[RICH_SIDE.tag_id]))
    return _without_sentinel(main), _without_sentinel(side)


def rich_outputs(harness: KeyedProcessHarness) -> tuple[list[Any], list[Any]]:
    """The same of a harness."""
    side = [tuple(row) for row in harness.side_output(RICH_SIDE)]
    return _without_sentinel(harness.output), _without_sentinel(side)


SENTINEL = "sentinel"


def sentinel(instant: dt.datetime) -> tuple[Any, ...]:
    """A record of `RICH_SCHEMA` that only moves the watermark."""
    return (SENTINEL, instant, 0, 0, 0)


def _without_sentinel(rows: Iterable[Any]) -> list[Any]:
    return sorted(row for row in rows if row[0] != SENTINEL)


START = milliseconds(dt.datetime(2024, 3, 10)) or 0
END_OF_TIME = milliseconds(dt.datetime(2150, 1, 1)) or 0
AFTER_ALL = dt.datetime(2200, 1, 1)
_WINDOW = 60


def rich_batches(seed: int, batches: int, size: int) -> list[list[tuple[Any, ...]]]:
    """Random records of `RICH_SCHEMA`; the last batch is the sentinel's.

    Those of keys "even ..." come in order of time and set timers at the end of time;
    those of keys "late ..." are anywhere between the first time and the last, or
    nowhere, and so are their timers.
    """
    random = Random(seed)
    end = batches * _WINDOW

    def record(batch: int) -> tuple[Any, ...]:
        op, n = random.randrange(RICH_OPERATIONS), random.randrange(10)
        key = random.randrange(5)
        if random.random() < 0.5:
            # In a batch all records without a time come first.
            time = None if batch == 0 and n == 0 else random.randrange(_WINDOW) + batch * _WINDOW
            name, timer = f"even {key}", END_OF_TIME + random.randrange(5)
        else:
            time = None if n == 0 else random.randrange(end)
            name, timer = f"late {key}", START + random.randrange(-5, end + 5)
        return name, None if time is None else at(START + time), op, n, timer

    made = [[record(batch) for _ in range(size)] for batch in range(batches)]
    return [*made, [sentinel(AFTER_ALL)]]
