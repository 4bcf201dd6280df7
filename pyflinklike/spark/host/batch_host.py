# SPDX-License-Identifier: Apache-2.0
"""The batch host: a bounded DataFrame, sorted by key group and event time.

As in Flink's batch mode, each key sees its records in the order of event time under the watermark
`MIN_WATERMARK`.  Then the watermark goes to `MAX_WATERMARK`: every event timer fires, and then every
processing timer.  Spark sorts, and spills to disk where it must; a worker holds the state of one key
group at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from pyflinklike.engine.api.metric_group import Increment
from pyflinklike.engine.clock import MIN_WATERMARK
from pyflinklike.engine.runtime.keyed_operator import KeyedProcessOperator
from pyflinklike.engine.runtime.micro_batch import RecordsAfterBroadcast, end_bounded, enter_bounded
from pyflinklike.spark.host.python_stage import tell_errors_of_each, without_collection
from pyflinklike.spark.host.task import open_operator, task_of
from pyflinklike.spark.plan.operator_plan import Plan
from pyflinklike.spark.wire.own_columns import BATCH_TIME, KEY_GROUP

__all__ = ["run_batch"]


Telling = Callable[[list[int], list[Increment]], pa.RecordBatch]


def run_batch(
    plan: Plan, tell: Telling | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that processes one task's sorted records, for `mapInArrow`.

    Args:
        plan: The plan, whose time mode is ignored.
        tell: Makes a last record batch of what the task has counted, by the operator's own numbers
            and by those of the function; None if nobody asks.
    """

    @tell_errors_of_each
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = task_of(plan, TaskContext.get())
        operator = open_operator(plan, task, plan.plan_id)
        try:
            yield from _BatchRunner(plan, operator, counts=tell is not None).results(batches)
            if tell is not None:
                yield tell(*operator.take_metrics())
        except BaseException:
            operator.abandon()
            raise
        operator.close()

    return run


class _BatchRunner:
    def __init__(self, plan: Plan, operator: KeyedProcessOperator, *, counts: bool) -> None:
        self._plan, self._counts = plan, counts
        self._operator = operator
        self._encode = plan.layout.encoder(plan.show_key)
        self._arrange = plan.layout.arranger()
        self._index: int | None = None

    def results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index, records in _by_key_group(batch):
                yield from self._process(index, records)
        yield from self._end_group()

    @without_collection
    def _process(self, index: int, records: pa.RecordBatch) -> list[pa.RecordBatch]:
        results = []
        if index != self._index:
            results += self._end_group()
            self._index = index
            enter_bounded(self._operator, index, records.column(BATCH_TIME)[0].as_py())
            self._operator.metrics.key_groups += 1
        elements = records.drop_columns([KEY_GROUP, BATCH_TIME])
        read = self._plan.reader.read_sorted(elements)
        if isinstance(read, RecordsAfterBroadcast):
            self._operator.process_broadcast(read.broadcast)
        if self._counts:
            self._operator.metrics.add_records(read.keys, (), MIN_WATERMARK)
        self._operator.process(*read)
        return results + self._outputs()

    def _end_group(self) -> list[pa.RecordBatch]:
        if self._index is None:
            return []
        end_bounded(self._operator)
        self._operator.metrics.end_group()
        return self._outputs()

    def _outputs(self) -> list[pa.RecordBatch]:
        outputs = self._operator.outputs.take()
        self._operator.metrics.outputs += len(outputs)
        first = self._plan.first_output
        return [self._arrange(first + number, batch) for number, batch in self._encode(outputs)]


def _by_key_group(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    runs: Any = pc.run_end_encode(batch.column(KEY_GROUP))
    start = 0
    for index, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist()):
        yield index, batch.slice(start, end - start)
        start = end
