# SPDX-License-Identifier: Apache-2.0
"""A chain of operators on a stream without Spark: everything that travels between them is real.

Records are packed, served, unpacked and packed again as on Spark, in one partition; only Spark's
state operator is a double (`checkpoint_double`).  Each micro-batch makes the processors anew, as
after a restart.
"""

from __future__ import annotations

import copy
import datetime as dt
import uuid
import zlib
from typing import Any

import attrs
import pyarrow as pa
from checkpoint_double import Checkpoint, Times
from pyspark.sql import types as st

from pyflinklike import HashMapStateBackend, KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.spark.setup.plan import Plan, TimeMode
from pyflinklike.spark.wire.balanced_ids import group_ids
from pyflinklike.spark.wire.homes import calling_homes
from pyflinklike.spark.wire.names import BATCH_TIME, BEFORE_WATERMARK, KEY_GROUP
from pyflinklike.spark.wire.output_layout import OutputLayout
from pyflinklike.spark.wire.packing import pack
from pyflinklike.spark.wire.records import RecordReader
from pyflinklike.spark.wire.schema import arrow_schema

__all__ = ["ChainOnSpark", "Relay", "Stage", "instant", "milliseconds"]

SCHEMA = st.StructType(
    [
        st.StructField("key", st.StringType()),
        st.StructField("ts", st.TimestampType()),
        st.StructField("n", st.LongType()),
        st.StructField("trace", st.StringType()),
    ]
)
_EPOCH = dt.datetime(1970, 1, 1)


def instant(milliseconds: int | None) -> dt.datetime | None:
    """A point in time as a function yields it."""
    return None if milliseconds is None else _EPOCH + dt.timedelta(milliseconds=milliseconds)


def milliseconds(instant: dt.datetime | None) -> int | None:
    """The same in ms."""
    return None if instant is None else (instant - _EPOCH) // dt.timedelta(milliseconds=1)


class Relay(KeyedProcessFunction):
    """Passes records on, and from timers sums of them, each with all that could be seen on the way.

    What it does with one record does not depend on the order of those before.

    Args:
        keys: Records of how many keys it emits.
    """

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.sum.update((self.sum.value() or 0) + value.n)
        timers = ctx.timer_service()
        if value.n % 3:
            timers.register_event_time_timer(ctx.timestamp() + value.n % 7)
        if value.n % 2:
            yield self._traced(value.n, ctx.timestamp(), f"{value.trace}/element", ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        total = self.sum.value() or 0
        if timestamp % 4 == 1:
            ctx.timer_service().register_event_time_timer(timestamp + 3)
        if timestamp % 5 == 2:
            self.sum.clear()
        yield self._traced(total, timestamp, f"timer of {ctx.get_current_key()}", ctx)

    def _traced(self, n: int, time: int, what: str, ctx: Any) -> tuple[Any, ...]:
        watermark = ctx.timer_service().current_watermark()
        return f"k{n % self._keys}", instant(time), n + 1, f"{what} {time} under {watermark}"


@attrs.frozen
class Stage:
    """One operator of the chain.

    Args:
        function: Of records of `SCHEMA`.
        max_parallelism: The number of key groups.
        is_first: Whether no operator is before it.
        pandas: Whether Spark hands rows over as Spark 4.0 does.
    """

    function: KeyedProcessFunction
    max_parallelism: int
    is_first: bool = True
    pandas: bool = False
    time_mode = TimeMode.EVENT_TIME

    def plan(self) -> Plan:
        """What the workers are told."""
        before = None if self.is_first else BEFORE_WATERMARK
        string = Types.STRING()
        return Plan(
            self.function,
            HashMapStateBackend(),
            string,
            TaskInfo("stage", max_parallelism=self.max_parallelism),
            self.time_mode,
            RecordReader(("key",), "ts", string, "UTC", before_watermark=before),
            OutputLayout(SCHEMA, {}, "UTC", "stage", BEFORE_WATERMARK),
            f"chain-{uuid.uuid4()}",
        )

    def packed(self, batches: list[pa.RecordBatch], time: int) -> dict[int, list[dict[str, Any]]]:
        """Records as Spark hands them over, by grouping key; after the last timeless row too."""
        packing = pack(("key",), group_ids(self.max_parallelism))
        if not self.is_first:
            packing = calling_homes(packing, 1)
        rows: dict[int, list[dict[str, Any]]] = {}
        for packed in packing(map(self._grouped, batches)):
            for row in packed.to_pylist():
                rows.setdefault(row[KEY_GROUP], []).append({**row, BATCH_TIME: time})
        return rows

    def _grouped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = batch.column("key").to_pylist()
        groups = [zlib.crc32(key.encode()) % self.max_parallelism for key in keys]
        return batch.add_column(0, KEY_GROUP, pa.array(groups, pa.int32()))


class ChainOnSpark:
    """Runs stages behind each other, micro-batch by micro-batch.

    Args:
        stages: The operators.
    """

    def __init__(self, stages: list[Stage]) -> None:
        self.stages = stages
        self.checkpoints = [Checkpoint() for _ in stages]
        self._time = 0

    def batch(self, records: list[tuple[Any, ...]], watermark: int) -> list[tuple[Any, ...]]:
        """A micro-batch; the outputs of the last operator.

        Args:
            records: Rows of `SCHEMA`; without any, Spark reads nothing and packs nothing.
            watermark: Spark's, in ms; 0 before the first event.
        """
        self._time += 1
        batches = [_batch(records)] if records else []
        for stage, checkpoint in zip(self.stages, self.checkpoints):
            data = stage.packed(batches, self._time) if batches or not stage.is_first else {}
            times = Times(self._time, 0 if watermark == MIN_WATERMARK else watermark)
            rows = checkpoint.transaction(stage, data, {}, times)
            batches = _unpacked(stage, [row for row in rows if row["payload"]])
        return [tuple(row.values())[:-1] for batch in batches for row in batch.to_pylist()]

    def attempt(self, records: list[tuple[Any, ...]], watermark: int) -> None:
        """The same micro-batch, of which Spark commits nothing."""
        kept, time = copy.deepcopy(self.checkpoints), self._time
        self.batch(records, watermark)
        self.checkpoints, self._time = kept, time


def _batch(records: list[tuple[Any, ...]]) -> pa.RecordBatch:
    schema = arrow_schema(SCHEMA)
    columns = [pa.array(column, field.type) for column, field in zip(zip(*records), schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _unpacked(stage: Stage, rows: list[Any]) -> list[pa.RecordBatch]:
    cells = pa.RecordBatch.from_arrays(
        [
            pa.array([int(row["output"]) for row in rows], pa.int32()),
            pa.array([row["payload"] for row in rows], pa.binary()),
        ],
        names=["output", "payload"],
    )
    return list(stage.plan().layout.unpacker()([cells]))
