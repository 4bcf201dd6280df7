# SPDX-License-Identifier: Apache-2.0
"""A chain of operators on a stream without Spark: everything that travels between them is real.

Records are packed, served, unpacked and packed again as on Spark, in one partition; only Spark's
state operator is a double (`checkpoint_double`).  Each micro-batch makes the processors anew, as
after a restart.
"""

from __future__ import annotations

import copy
import uuid
import zlib
from collections.abc import Iterable
from typing import Any

import attrs
import pyarrow as pa
from checkpoint_double import Checkpoint, Times
from pyspark import cloudpickle
from relay import SCHEMA

from pyflinklike import HashMapStateBackend, KeyedProcessFunction, Types
from pyflinklike.engine.clock import MIN_WATERMARK
from pyflinklike.engine.inspection.snapshot_division import regroup_snapshot
from pyflinklike.engine.log.segments import read_segment
from pyflinklike.engine.runtime.call_contexts import TaskInfo
from pyflinklike.spark.plan.operator_plan import Plan, TimeMode
from pyflinklike.spark.wire.key_groups import ROLL_CALL, group_ids, roll_payload
from pyflinklike.spark.wire.output_layout import OutputLayout
from pyflinklike.spark.wire.own_columns import (
    BATCH_TIME,
    BEFORE_WATERMARK,
    INPUT,
    INPUTS,
    KEY_GROUP,
)
from pyflinklike.spark.wire.payloads import call_homes, pack
from pyflinklike.spark.wire.record_readers import BroadcastReader, ConnectedReader, RecordReader
from pyflinklike.spark.wire.schema import arrow_schema

__all__ = ["Behind", "ChainOnSpark", "Stage"]


@attrs.frozen
class Stage:
    """One operator of the chain.

    Args:
        function: Of records of `SCHEMA`.
        max_parallelism: The number of key groups.
        is_first: Whether no operator is before it.
        pandas: Whether Spark hands rows over as Spark 4.0 does.
        time_mode: Of the operator: without event time it is NONE.
    """

    function: KeyedProcessFunction
    max_parallelism: int
    is_first: bool = True
    pandas: bool = False
    time_mode: TimeMode = TimeMode.EVENT_TIME

    def plan(self) -> Plan:
        """What the workers are told."""
        before = None if self.is_first else BEFORE_WATERMARK
        event_time = None if self.time_mode is TimeMode.NONE else "ts"
        string = Types.STRING()
        return Plan(
            self.function,
            HashMapStateBackend(),
            string,
            TaskInfo("stage", max_parallelism=self.max_parallelism),
            self.time_mode,
            RecordReader(("key",), event_time, string, "UTC", before_watermark=before),
            OutputLayout(SCHEMA, {}, "UTC", "stage", BEFORE_WATERMARK),
            f"chain-{uuid.uuid4()}",
        )

    def packed(self, batches: list[pa.RecordBatch], time: int) -> dict[int, list[dict[str, Any]]]:
        """Records as Spark hands them over, by grouping key; after the last timeless row too."""
        packing = self._packing(group_ids(self.max_parallelism))
        if self.plan().keeps_former_watermark():
            packing = call_homes(packing, 1)
        shipped = cloudpickle.loads(cloudpickle.dumps(packing))  # type: ignore[no-untyped-call]
        rows: dict[int, list[dict[str, Any]]] = {}
        for packed in shipped(map(self._grouped, batches)):
            for row in packed.to_pylist():
                rows.setdefault(row[KEY_GROUP], []).append({**row, BATCH_TIME: time})
        return rows

    def _packing(self, ids: Any) -> Any:
        return pack(("key",), ids)

    def initial(self, savepoint: bytes, time: int) -> dict[int, list[dict[str, Any]]]:
        """What a stream that begins with a savepoint is given of it, by grouping key."""
        snapshot = read_segment(savepoint, "savepoint")
        count = self.max_parallelism
        groups = regroup_snapshot(snapshot, Types.STRING(), self._groups_of, count, "savepoint")
        ids = group_ids(count)
        payloads = {ids[group]: [each.to_bytes() for each in groups[group]] for group in groups}
        payloads[ROLL_CALL] = [roll_payload(groups)]
        return {
            key: [{"payload": payload, BATCH_TIME: time} for payload in mine]
            for key, mine in payloads.items()
        }

    def _groups_of(self, keys: Iterable[str]) -> list[int]:
        return [zlib.crc32(key.encode()) % self.max_parallelism for key in keys]

    def _grouped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        groups = self._groups_of(batch.column("key").to_pylist())
        return batch.add_column(0, KEY_GROUP, pa.array(groups, pa.int32()))


@attrs.frozen
class Behind(Stage):
    """An operator of two inputs, of which one is what the operator before it gives.

    Args:
        number: Of that input, 1 or 2; the other one is behind no operator.
        states: The broadcast states, where the second input is broadcast.
    """

    is_first: bool = False
    number: int = 1
    states: tuple[Any, ...] = ()

    def plan(self) -> Plan:
        """What the workers are told."""
        whole = super().plan()
        reader: Any = whole.reader
        main, second = (
            attrs.evolve(reader, before_watermark=BEFORE_WATERMARK if each == self.number else None)
            for each in (1, 2)
        )
        if not self.states:
            return attrs.evolve(whole, reader=ConnectedReader((main, second)))
        rules = attrs.evolve(second, key_columns=(), arrival_order=True)
        read_both = BroadcastReader(main, rules)
        return attrs.evolve(whole, reader=read_both, broadcast_states=self.states)

    def with_other(
        self, batches: list[pa.RecordBatch], records: list[tuple[Any, ...]]
    ) -> list[pa.RecordBatch]:
        """What the operator before gave, and the records of the other input, as one DataFrame."""
        given = [(self.number, batch) for batch in batches]
        other = [(3 - self.number, _batch(records))] if records else []
        return [self._tagged(*each) for each in sorted(given + other, key=lambda pair: pair[0])]

    def _tagged(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        kinds = [_STRUCT, _STRUCT]
        kinds[self.number - 1] = _STRUCT_BEHIND
        columns = [pa.nulls(batch.num_rows, kind) for kind in kinds]
        columns[number - 1] = pa.StructArray.from_arrays(
            [batch.column(field.name).cast(field.type) for field in kinds[number - 1]],
            fields=list(kinds[number - 1]),
        )
        groups = self._groups_of(batch.column("key").to_pylist())
        is_rule = number == 2 and bool(self.states)
        return pa.RecordBatch.from_pydict(
            {
                KEY_GROUP: pa.array([None] * len(groups) if is_rule else groups, pa.int32()),
                INPUT: pa.array([number] * len(groups), pa.int8()),
                INPUTS[0]: columns[0],
                INPUTS[1]: columns[1],
            }
        )

    def _packing(self, ids: Any) -> Any:
        return self.plan().reader.make_packing(ids)

    def _grouped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


_STRUCT = pa.struct(list(arrow_schema(SCHEMA)))
_STRUCT_BEHIND = pa.struct([*arrow_schema(SCHEMA), (BEFORE_WATERMARK, pa.bool_())])


class ChainOnSpark:
    """Runs stages behind each other, micro-batch by micro-batch.

    Args:
        stages: The operators.
        savepoints: What each begins with; nothing by default.
    """

    def __init__(self, stages: list[Stage], savepoints: list[bytes] | None = None) -> None:
        self.stages = stages
        self._savepoints = savepoints
        self.checkpoints = [Checkpoint() for _ in stages]
        self._time = 0

    def batch(
        self,
        records: list[tuple[Any, ...]],
        watermark: int,
        others: list[tuple[Any, ...]] | None = None,
    ) -> list[tuple[Any, ...]]:
        """A micro-batch; the outputs of the last operator.

        Args:
            records: Rows of `SCHEMA`; without any, Spark reads nothing and packs nothing.
            watermark: Spark's, in ms; 0 before the first event.
            others: Rows of the other input of operators that are `Behind` another one.
        """
        self._time += 1
        savepoints = [] if self._savepoints is None else self._savepoints
        self._savepoints = None
        batches = [_batch(records)] if records else []
        for number, (stage, checkpoint) in enumerate(zip(self.stages, self.checkpoints)):
            if isinstance(stage, Behind):
                batches = stage.with_other(batches, others or [])
            data = stage.packed(batches, self._time) if batches or not stage.is_first else {}
            initial = stage.initial(savepoints[number], self._time) if savepoints else {}
            times = Times(self._time, 0 if watermark == MIN_WATERMARK else watermark)
            rows = checkpoint.transaction(stage, data, initial, times)
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
