# SPDX-License-Identifier: Apache-2.0
"""What drawn programs give where nothing fails: what their oracle says."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any

import attrs
import pyarrow as pa
import pytest
from checkpoint_support import Checkpoint, Times
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from pyflinklike.engine.log.checkpoint_logs import check_log, record_and_roll
from pyflinklike.engine.log.log_storage import Head
from pyflinklike.spark.host.blob_map import HEAD_AT
from pyflinklike.spark.plan.operator_plan import Plan
from pyflinklike.spark.wire.key_groups import ROLL_CALL, index_of
from pyflinklike.spark.wire.own_columns import BATCH_TIME, KEY_GROUP
from pyflinklike.spark.wire.payloads import is_home
from pyflinklike.testing.simulation.choices import Choices
from pyflinklike.testing.simulation.program import (
    START_MS,
    Expected,
    MicroBatch,
    Rows,
    SimulatedOperator,
    State,
    read_state,
    rows_of,
)
from pyflinklike.testing.simulation.programs import KINDS, DrawnProgram, draw_program
from pyflinklike.testing.simulation.tasks import in_task


@attrs.define
class _Served:
    """What the double of Spark's operator asks of a program."""

    operator: SimulatedOperator
    pandas: bool = False

    def plan(self) -> Plan:
        return cloudpickle.loads(cloudpickle.dumps(self.operator.plan))

    @property
    def time_mode(self) -> Any:
        return self.operator.plan.time_mode


class Faultless:
    """A query in which nothing fails."""

    def __init__(self, program: DrawnProgram) -> None:
        self.partitions = program.partitions
        self.checkpoints = [
            [Checkpoint() for _ in range(self.partitions)] for _ in program.operators
        ]
        self.program = self.operators = None
        self.is_new = True
        self.times = Times(0)

    def run(self, batch: MicroBatch) -> Rows:
        """A micro-batch; what the last operator gave."""
        if batch.program is not self.program:
            self.program = batch.program
            self.operators = [each.start_as(str(uuid.uuid4())) for each in self.program.operators]
        self.times = Times(batch.now, batch.watermark)
        results: list[list[pa.RecordBatch]] = []
        properties = {"spark.sql.streaming.internal.stateStore.partitions": str(self.partitions)}
        for operator, checkpoints in zip(self.operators, self.checkpoints):
            keyed = []
            for at, each in enumerate(operator.inputs):
                found = batch.records[each.number] if each.is_source else results[each.number]
                found = found if isinstance(found, list) else [found] if found else []
                keyed += [operator.add_key_groups(at, one) for one in found if one.num_rows]
            data, initial = [
                [defaultdict[int, list[Any]](list) for _ in checkpoints] for _ in range(2)
            ]
            with in_task(0, 0, properties):
                packed = list(operator.make_packing()(keyed))
            for row in chain.from_iterable(each.to_pylist() for each in packed):
                key = row[KEY_GROUP]
                row[BATCH_TIME] = batch.now
                data[index_of(key, self.partitions)][key].append(row)
            for key, payload in (operator.initial() if self.is_new else None) or []:
                row = {"payload": payload, BATCH_TIME: batch.now}
                initial[index_of(key, self.partitions)][key].append(row)
            rows = []
            for partition, checkpoint in enumerate(checkpoints):
                with in_task(partition, 0, properties):
                    rows += checkpoint.transaction(
                        _Served(operator), data[partition], initial[partition], self.times
                    )
            rows = [row for row in rows if row["payload"]]
            cells = pa.RecordBatch.from_arrays(
                [
                    pa.array([int(row["output"]) for row in rows], pa.int32()),
                    pa.array([row["payload"] for row in rows], pa.binary()),
                ],
                names=["output", "payload"],
            )
            results.append(list(operator.unpacker()([cells])))
        self.is_new = False
        return rows_of(results[-1])

    def states(self) -> tuple[State, ...]:
        """As the real readers show them."""
        return tuple(self._state(*each) for each in zip(self.operators, self.checkpoints))

    def _state(self, operator: SimulatedOperator, checkpoints: Sequence[Checkpoint]) -> State:
        blobs = {key: dict(mine) for each in checkpoints for key, mine in each.blobs.items()}
        record, roll = record_and_roll(blobs.pop(ROLL_CALL), "tested")
        logs = {}
        for key, mine in blobs.items():
            if is_home(key):
                continue
            index = index_of(key, record.identity.max_parallelism)
            head = Head.from_bytes(mine[HEAD_AT], "tested")
            logs[index] = check_log(record.identity, roll.served_at[index], head, mine, "tested")
        return read_state(record, logs, self.times.now, self.times.watermark, operator)


def history_of(choices: Choices, program: DrawnProgram, batches: int) -> list[MicroBatch]:
    """Micro-batches as Spark would plan them, with restarts."""
    now, watermark, history = START_MS, 0, []
    latest: list[int | None] = [None] * len(program.sources)
    for number in range(batches):
        within = choices.within(f"batch {number}")
        if number and within.happens("restart", 0.2):
            program = program.change(within)
        if within.happens("no data", 0.15) and number:
            records: tuple[pa.RecordBatch | None, ...] = tuple(None for _ in program.sources)
        else:
            records = tuple(
                program.draw_records(within, source, number)
                for source in range(len(program.sources))
            )
        history.append(MicroBatch(number, records, watermark, now, program))
        for at, (source, grown) in enumerate(zip(program.sources, records)):
            found = source.watermark([grown]) if grown is not None else None
            if found is not None:
                latest[at] = max(found, latest[at] or 0)
        timed = [mine for mine, source in zip(latest, program.sources) if source.event_time]
        if timed and None not in timed:
            watermark = max(watermark, min(timed))
        now += within.integer("passes", 1, 2_500)
    return history


def ran(program: DrawnProgram, history: Sequence[MicroBatch]) -> Expected:
    """What comes of micro-batches in which nothing fails."""
    query = Faultless(program)
    rows = {batch.number: query.run(batch) for batch in history}
    return Expected(rows, query.states())


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=max(settings().max_examples // 25, 2), deadline=None)
def test_without_a_fault_a_program_gives_what_its_oracle_says(kind, seed):
    """Of the real packing, host, log and readers in one partition."""
    choices = Choices(seed)
    program = draw_program(choices, [kind])
    history = history_of(choices, program, 8)
    assert program.expect(history) == ran(program, history)
