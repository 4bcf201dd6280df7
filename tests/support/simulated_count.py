# SPDX-License-Identifier: Apache-2.0
"""A running count as a program of the simulator, with a plain model as its oracle."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import types as st
from simulated.choices import Choices
from simulated.frames import SimulatedQuery
from simulated.program import (
    Draws,
    Expected,
    MicroBatch,
    Refused,
    SimulatedOperator,
    Source,
)

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.spark import key_by
from pyflinklike.spark._wire.schema import arrow_schema

__all__ = ["CountProgram", "draw_count"]

_SCHEMA = st.StructType(
    [
        st.StructField("key", st.StringType()),
        st.StructField("at", st.TimestampType()),
        st.StructField("n", st.LongType()),
    ]
)
_OUTPUT = st.StructType(
    [
        st.StructField("key", st.StringType()),
        st.StructField("total", st.LongType()),
        st.StructField("due", st.LongType()),
    ]
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MS = dt.timedelta(milliseconds=1)


class CountAndRemind(KeyedProcessFunction):
    """Sums by key, and yields the sum again by an event timer 10 ms after each record."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.LONG(), Types.LONG())
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        total = (self.total.value() or 0) + value.n
        self.total.update(total)
        self.seen.put(value.n, (self.seen.get(value.n) or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        yield ctx.get_current_key(), total, 0

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.total.value(), timestamp


@attrs.frozen(slots=False)
class CountProgram:
    """The count.

    Args:
        partitions: Of Spark's shuffles.
        groups: The number of key groups.
        rocksdb: Whether working state is in RocksDB.
        timed: Whether there is an event time.
    """

    partitions: int = 2
    groups: int = 4
    rocksdb: bool = False

    @property
    def name(self) -> str:
        return f"count of {self.groups} groups, {'rocksdb' if self.rocksdb else 'heap'}"

    @cached_property
    def _query(self) -> SimulatedQuery:
        query = SimulatedQuery(self.partitions)
        source = query.source(_SCHEMA).withWatermark("at", "5 milliseconds")
        backend = EmbeddedRocksDBStateBackend() if self.rocksdb else HashMapStateBackend()
        key_by(source, "key").process(
            CountAndRemind(),
            _OUTPUT,
            event_time="at",
            max_parallelism=self.groups,
            state_backend=backend,
        )
        return query

    @property
    def sources(self) -> tuple[Source, ...]:
        return self._query.sources

    @property
    def operators(self) -> tuple[SimulatedOperator, ...]:
        return self._query.operators

    @property
    def state_operators(self) -> tuple[SimulatedOperator, ...]:
        return self.operators

    @property
    def clock_may_go_back(self) -> bool:
        return True

    def draw_records(self, choices: Draws, source: int, at: int) -> pa.RecordBatch:
        at += choices.integer("at", 0, 4)
        rows = [
            (
                f"k{choices.integer('key', 0, 7)}",
                _EPOCH + (1_000 + 20 * at + choices.integer("later", 0, 15)) * _MS,
                choices.integer("n", 1, 9),
            )
            for _ in range(choices.integer("rows", 0, 8))
        ]
        schema = arrow_schema(_SCHEMA)
        columns = list(zip(*rows)) or [(), (), ()]
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema
        )

    def change(self, choices: Draws) -> CountProgram:
        return attrs.evolve(self, rocksdb=choices.happens("rocksdb", 0.5))

    def draw_refusal(self, choices: Draws) -> Refused | None:
        return None

    def expect(self, history: Sequence[MicroBatch]) -> Expected:
        totals: dict[str, int] = {}
        seen: dict[tuple[str, int], int] = {}
        timers: set[tuple[int, str]] = set()
        rows: dict[int, Counter[Any]] = {}
        for batch in history:
            mine: Counter[Any] = Counter()
            watermark = batch.watermark or -(1 << 60)
            _fire(timers, watermark, totals, mine)
            records = [] if batch.records[0] is None else batch.records[0].to_pylist()
            for each in sorted(records, key=lambda row: row["at"]):
                key = each["key"]
                totals[key] = totals.get(key, 0) + each["n"]
                seen[key, each["n"]] = seen.get((key, each["n"]), 0) + 1
                timers.add(((each["at"] - _EPOCH) // _MS + 10, key))
                mine[key, totals[key], 0] += 1
            _fire(timers, watermark, totals, mine)
            rows[batch.number] = mine
        state: dict[str, Counter[Any]] = {
            "total": Counter(totals.items()),
            "seen": Counter((key, n, count) for (key, n), count in seen.items()),
        }
        state["timers"] = Counter((key, "event_time", due) for due, key in timers)
        return Expected(rows, (state,))


def _fire(timers: Any, watermark: int, totals: Any, rows: Counter[Any]) -> None:
    for due, key in sorted(timers):
        if due <= watermark:
            timers.discard((due, key))
            rows[key, totals[key], due] += 1


def draw_count(choices: Choices) -> CountProgram:
    """Draw a count: partitions, key groups and backend."""
    return CountProgram(
        choices.one_of("partitions", (2, 1, 3)),
        choices.one_of("groups", (4, 2, 7)),
        choices.happens("rocksdb", 0.1),
    )
