# SPDX-License-Identifier: Apache-2.0
"""Operators behind each other in the world of the simulator, under watermarks that a test assigns.

Each has one partition.  Records are packed, served, unpacked and packed again as on Spark; each
micro-batch begins with files alone (`operator_state`), as after a restart.
"""

from __future__ import annotations

import uuid
from typing import Any

import attrs
import pyarrow as pa
from checkpoint_support import Checkpoint, Times
from program_support import by_grouping_key
from pyspark import cloudpickle
from relay import SCHEMA
from simulated.program import OperatorInput, SimulatedOperator
from simulated.tasks import in_task

from pyflinklike import HashMapStateBackend, KeyedProcessFunction, Types
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike.spark._plan.operator_plan import Plan, TimeMode
from pyflinklike.spark._wire.output_layout import OutputLayout
from pyflinklike.spark._wire.record_readers import BroadcastReader, ConnectedReader, RecordReader
from pyflinklike.spark._wire.schema import arrow_schema
from pyflinklike.spark._wire.system_columns import BEFORE_WATERMARK

__all__ = ["Behind", "ChainOnSpark", "Stage"]

_RECORDS = arrow_schema(SCHEMA)
_RECORDS_BEHIND = pa.schema([*_RECORDS, (BEFORE_WATERMARK, pa.bool_())])


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
            OutputLayout(SCHEMA, {}, "UTC", "stage"),
            f"chain-{uuid.uuid4()}",
        )

    def inputs(self) -> tuple[OperatorInput, ...]:
        """What it reads."""
        schema = _RECORDS if self.is_first else _RECORDS_BEHIND
        return (OperatorInput(0, self.is_first, schema, ("key",)),)


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

    def inputs(self) -> tuple[OperatorInput, ...]:
        """What it reads."""
        behind, other = (
            OperatorInput(0, False, _RECORDS_BEHIND, ("key",)),
            OperatorInput(1, True, _RECORDS, ("key",)),
        )
        first, second = (behind, other) if self.number == 1 else (other, behind)
        return first, attrs.evolve(second, key_columns=()) if self.states else second


class ChainOnSpark:
    """Runs stages behind each other, micro-batch by micro-batch.

    Args:
        stages: The operators.
        savepoints: What each begins with; nothing by default.
    """

    def __init__(self, stages: list[Stage], savepoints: list[bytes] | None = None) -> None:
        self.stages = stages
        self._savepoints: list[bytes | None] = [None] * len(stages)
        self._savepoints[:] = savepoints or self._savepoints
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
        times = Times(self._time, 0 if watermark == MIN_WATERMARK else watermark)
        batches = _batches(records)
        for number, (stage, checkpoint) in enumerate(zip(self.stages, self.checkpoints)):
            is_read_on = stage is not self.stages[-1]
            savepoint, self._savepoints[number] = self._savepoints[number], None
            operator = SimulatedOperator(stage.plan(), stage.inputs(), is_read_on, savepoint)
            given = batches if not stage.is_first or batches else None
            packed = [] if given is None else _packed(operator, given, _batches(others or []))
            initial: dict[int, list[bytes]] = {}
            for key, payload in operator.initial() or []:
                initial.setdefault(key, []).append(payload)
            plan, rows = operator.plan, by_grouping_key(packed)
            outputs = checkpoint.serve(
                plan, stage.time_mode, times, rows, initial, pandas=stage.pandas
            )
            batches = list(operator.unpacker()(iter([_results(outputs)])))
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

    def attempt(self, records: list[tuple[Any, ...]], watermark: int) -> None:
        """The same micro-batch, of which Spark commits nothing."""
        savepoints = list(self._savepoints)
        self.batch(records, watermark)
        for each in self.checkpoints:
            each.lose_commit()
        self._savepoints, self._time = savepoints, self._time - 1


def _packed(
    operator: SimulatedOperator, given: list[pa.RecordBatch], others: list[pa.RecordBatch]
) -> list[pa.RecordBatch]:
    """What the operator before gave, and the records of the other input, by inputs."""
    keyed = [
        operator.add_key_groups(number, batch)
        for number, each in enumerate(operator.inputs)
        for batch in (given if each.number == 0 else others)
    ]
    packing = cloudpickle.loads(cloudpickle.dumps(operator.make_packing()))  # type: ignore[no-untyped-call]
    with in_task(0, 0, {}):
        return list(packing(iter(keyed)))


def _batches(records: list[tuple[Any, ...]]) -> list[pa.RecordBatch]:
    if not records:
        return []
    columns = [pa.array(column, field.type) for column, field in zip(zip(*records), _RECORDS)]
    return [pa.RecordBatch.from_arrays(columns, schema=_RECORDS)]


def _results(outputs: list[tuple[int, bytes]]) -> pa.RecordBatch:
    numbers = pa.array([number for number, _ in outputs], pa.int32())
    payloads = pa.array([payload for _, payload in outputs], pa.binary())
    return pa.RecordBatch.from_arrays([numbers, payloads], names=["output", "payload"])
