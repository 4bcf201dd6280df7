# SPDX-License-Identifier: Apache-2.0
"""Queries over history and then over what comes later, in the world of the simulator.

The plans are those of the real builders.  A batch is read as Spark hands it to the tasks, a stream
micro-batch by micro-batch (`ChainOnSpark`), under watermarks that Spark would have.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from chain_support import ChainOnSpark, _batches
from relay import SCHEMA, instant
from simulated.frames import SimulatedQuery
from simulated.program import OperatorInput, SimulatedOperator

from pyflinklike._changelog.segments import read_segment
from pyflinklike.spark._host.batch_host import run_batch
from pyflinklike.spark._plan.operator_plan import Plan, TimeMode
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY
from pyflinklike.spark._wire.system_columns import BATCH_TIME, KEY_GROUP, LAST_WATERMARK
from pyflinklike.state_processor import open_savepoint
from pyflinklike.state_processor._logs.checkpoint_logs import record_and_registry
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.group_reader import GroupStateReader, TimersReader
from pyflinklike.state_processor._logs.state_infos import describe_states
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.state_processor._savepoints.history_parts import HistoryPlan, begin_history
from pyflinklike.state_processor._savepoints.manifest import SavedHistory
from pyflinklike.state_processor._savepoints.savepoint_location import savepoint_location_of
from pyflinklike.state_processor._spark.initial_state import savepoint_of
from pyflinklike.types.arrow_rows import milliseconds

__all__ = ["Event", "HistoryQuery", "first_watermark"]

_WARP = 5
"""Rows of a record batch, few, so that key groups lie across them."""


@attrs.frozen
class Event:
    """A record.

    Args:
        key: Of the record.
        time: Its event time in ms.
        n: Its value.
    """

    key: str
    time: int
    n: int

    def row(self) -> tuple[Any, ...]:
        """A row of `SCHEMA`."""
        return self.key, instant(self.time), self.n, ""


@attrs.frozen
class _Planned:
    """An operator of a query as a stage of a chain."""

    operator: SimulatedOperator
    least_watermark: int
    is_first: bool
    pandas: bool = False

    @property
    def time_mode(self) -> TimeMode:
        """As its plan has it."""
        return self.operator.plan.time_mode

    def plan(self) -> Plan:
        """The plan as after a restart."""
        plan_id = f"history-{uuid.uuid4()}"
        plan = self.operator.plan
        return attrs.evolve(plan, plan_id=plan_id, least_watermark=self.least_watermark)

    def inputs(self) -> tuple[OperatorInput, ...]:
        """What it reads."""
        return self.operator.inputs


Builder = Callable[[Any], Any]
Rows = list[tuple[Any, ...]]


@attrs.define
class HistoryQuery:
    """A query.

    Args:
        build: Applies its operators to the frame of a source of `SCHEMA`.
        delay: How late records may be, in ms.
    """

    build: Builder
    delay: int

    def operators(self) -> tuple[SimulatedOperator, ...]:
        """Its operators, as the real builders plan them."""
        query = SimulatedQuery(partitions=1)
        self.build(query.source(SCHEMA))
        return query.operators

    def read(
        self, events: Sequence[Event], now: int, path: Path, *, tasks: int = 1, execution: int = 0
    ) -> Rows:
        """Read a batch that writes a savepoint; the rows of the last operator.

        Args:
            events: In the order of arrival.
            now: The time of the batch, in ms.
            path: Where it writes.
            tasks: Of each operator.
            execution: How often it was read before.
        """
        location = savepoint_location_of(path)
        run = "0" * 32
        history = SavedHistory(run, (), self.delay)
        given = [event.row() for event in events]
        batches = _batches(given)
        last = first_watermark(events, self.delay)
        for operator in self.operators():
            if not execution:
                task = operator.plan.task
                begin_history(location, history, task.name, task.max_parallelism)
            batches = self._run(
                operator, batches, last, now, HistoryPlan(location.uri, run, self.delay), tasks
            )
        return _rows(batches)

    def _run(
        self,
        operator: SimulatedOperator,
        batches: list[pa.RecordBatch],
        last: int,
        now: int,
        history: HistoryPlan,
        tasks: int,
    ) -> list[pa.RecordBatch]:
        reader: Any = operator.plan.reader
        reader = attrs.evolve(reader, before_watermark=None)
        plan = attrs.evolve(operator.plan, reader=reader, history=history)
        keyed = [operator.add_key_groups(0, each) for each in batches]
        table = pa.Table.from_batches(keyed) if keyed else None
        outputs: list[pa.RecordBatch] = []
        for task in range(tasks):
            mine = [each for each in range(plan.task.max_parallelism) if each % tasks == task]
            whole = _task_rows(table, mine, reader.event_time, last, now)
            outputs += run_batch(plan)(iter(whole.to_batches(max_chunksize=_WARP)))
        return outputs

    def stream(
        self, savepoint: Path | None = None, least_watermark: int | None = None
    ) -> ChainOnSpark:
        """A stream, which begins with a savepoint.

        Args:
            savepoint: The directory, or None.
            least_watermark: To plant a bug: another watermark than that of the savepoint.
        """
        operators, savepoints = self.operators(), None
        least = -(2**63)
        if savepoint is not None:
            saved = open_savepoint(savepoint)
            known = saved.manifest.watermark
            least = least if known is None else known
            savepoints = [saved.segment(each.plan.task.name).to_bytes() for each in operators]
        if least_watermark is not None:
            least = least_watermark
        stages: Any = [_Planned(each, least, at == 0) for at, each in enumerate(operators)]
        return ChainOnSpark(stages, savepoints)

    def states(self, chain: ChainOnSpark, now: int, watermark: int) -> list[Any]:
        """What the operators of a stream have stored and would show at a time: entries, and timers."""
        clock = BatchClock(now, watermark)
        return [_contents(each.blobs, clock) for each in chain.checkpoints]


def first_watermark(events: Sequence[Event], delay: int) -> int:
    """The watermark of Spark after records, in ms."""
    return max(max((event.time for event in events), default=0) - delay, 0)


def _task_rows(
    table: pa.Table | None, groups: list[int], event_time: str | None, last: int, now: int
) -> pa.Table:
    """The records of some key groups as a task gets them: sorted, each group with its last row."""
    ends = pa.table(
        {
            KEY_GROUP: pa.array(groups, pa.int32()),
            LAST_WATERMARK: pa.array([last] * len(groups), pa.int64()),
        }
    )
    if table is not None:
        mine = table.filter(pc.is_in(table.column(KEY_GROUP), pa.array(groups, pa.int32())))
        ends = pa.concat_tables([mine, ends], promote_options="permissive").select(
            [*mine.column_names, LAST_WATERMARK]
        )
    arrival = pa.array(range(ends.num_rows), pa.int64())
    order = [
        (KEY_GROUP, "ascending"),
        ("last", "ascending"),
        ("at", "ascending"),
        ("arrival", "ascending"),
    ]
    times = arrival
    if event_time is not None and event_time in ends.column_names:
        times = pc.fill_null(milliseconds(ends.column(event_time).combine_chunks()), 0)
    keys = pa.table(
        {
            KEY_GROUP: ends.column(KEY_GROUP),
            "last": pc.is_valid(ends.column(LAST_WATERMARK)).cast(pa.int8()),
            "at": times,
            "arrival": arrival,
        }
    )
    ordered = ends.take(pc.sort_indices(keys, sort_keys=order))
    return ordered.append_column(BATCH_TIME, pa.array([now] * ends.num_rows, pa.int64()))


def _rows(batches: list[pa.RecordBatch]) -> Rows:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def _contents(blobs: Any, clock: BatchClock) -> Any:
    if REGISTRY_KEY not in blobs:
        return None
    record, _ = record_and_registry(blobs[REGISTRY_KEY], "test")
    segment = read_segment(savepoint_of(blobs, "test"), "test")
    found = {}
    for info in describe_states(record, 0):
        reader: Any = GroupStateReader(StateRows.of(record, info, saved=True), clock, expired=False)
        found[info.name] = _sorted(reader.read(0, [segment], "test"))
    found["timers"] = _sorted(TimersReader(record, None).read(0, [segment], "test"))
    return {name: rows for name, rows in found.items() if rows}


def _sorted(tables: Any) -> list[str]:
    return sorted(repr(row) for table in tables for row in table.to_pylist())
