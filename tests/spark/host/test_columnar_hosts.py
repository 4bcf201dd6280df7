# SPDX-License-Identifier: Apache-2.0
"""Columnar functions on the streaming hosts of each PySpark, without Spark."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa
import pytest
from group_state_support import GroupStates
from program_support import Program

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._runtime.micro_batch import PreWatermarkRecords, call
from pyflinklike.columns import KeyedBatchFunction
from pyflinklike.spark._host.task import open_operator
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark._wire.system_columns import BEFORE_WATERMARK


class SumsInColumns(KeyedBatchFunction):
    """The running sum of a key."""

    def open(self, ctx):
        self.sum = ctx.get_column_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_batch(self, batch, ctx):
        sums = batch.groups.running(np.add, batch.numpy("n"), self.sum.get(0))
        self.sum.put(batch.groups.last(sums))
        return {"n": sums, "k": batch["key"]}


class Sums(KeyedProcessFunction):
    """The same."""

    def open(self, ctx):
        self.sum = ctx.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value.n)
        yield value.key, self.sum.value()


BATCHES = [
    [(f"k{(at * at + number) % 29}", at - 20) for at in range(60)] + [("é", number)]
    for number in range(9)
]


def expected() -> list[list[tuple[str, int]]]:
    """What a loop gives for each batch."""
    sums: dict[str, int] = {}
    results = []
    for batch in BATCHES:
        rows = []
        for key, n in batch:
            sums[key] = sums.get(key, 0) + n
            rows.append((key, sums[key]))
        results.append(sorted(rows))
    return results


TURNS = [SumsInColumns, Sums, SumsInColumns, SumsInColumns, Sums, Sums]


@pytest.mark.skipif(not HAS_TRANSFORM_WITH_STATE, reason="PySpark 3.5 has no transformWithState")
@pytest.mark.parametrize("pandas", [False, True], ids=["rows", "pandas"])
def test_both_kinds_run_in_turns_through_transform_with_state(pandas):
    """Each in a processor of its own, on one checkpoint; logs are compacted on the way."""
    from checkpoint_support import Checkpoint

    checkpoint = Checkpoint()
    results = [
        checkpoint.run(Program(TURNS[number % len(TURNS)](), pandas=pandas), batch, time=number)
        for number, batch in enumerate(BATCHES)
    ]

    assert expected() == results


def test_both_kinds_run_in_turns_through_group_state():
    """As on PySpark 3.5."""
    query = GroupStates(Program(Sums()))
    results = []
    for number, batch in enumerate(BATCHES):
        query.program = Program(TURNS[number % len(TURNS)]())
        results.append(query.run(batch, now=number))

    assert expected() == [sorted(rows) for rows in results]


def test_what_comes_before_the_watermark_is_processed_and_emitted_before_it():
    """Behind another operator: in two batches, whose rows the next operator can tell apart."""
    columns = {
        "key": ["a", "b", "a"],
        "n": [1, 2, 3],
        BEFORE_WATERMARK: [False, True, True],
    }
    plan = Program(SumsInColumns()).plan()
    reader = attrs.evolve(plan.reader, before_watermark=BEFORE_WATERMARK)
    operator = open_operator(plan, plan.task, "tested")
    operator.group.enter(KeyGroupState(0))

    early, others = reader.read_apart([pa.RecordBatch.from_pydict(columns)])
    call(operator, others, PreWatermarkRecords(early, 7))
    before, after = operator.outputs.take_apart()

    encode = plan.layout.encoder(str)
    rows = [[batch.to_pylist() for _, batch in encode(each)] for each in (before, after)]
    assert [[[{"k": "b", "n": 2}, {"k": "a", "n": 3}]], [[{"k": "a", "n": 4}]]] == rows
    assert (2, 1) == (len(before), len(after))
    assert 3 == operator.metrics.records
