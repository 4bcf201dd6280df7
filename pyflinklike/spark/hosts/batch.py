# SPDX-License-Identifier: Apache-2.0
"""The batch host: a bounded DataFrame, sorted by key group and event time.

As Flink's batch mode: each key sees its records in the order of event time
under the watermark `MIN_WATERMARK`; then the watermark goes to `MAX_WATERMARK`
and every event timer fires.  Processing timers are dropped, as at the end of
any bounded stream.  Spark sorts, and spills to disk where it must; a worker
holds the state of one key group at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.log.working_state import WorkingState
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.spark.hosts.gc_pause import without_collection
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.names import BATCH_TIME, KEY_GROUP
from pyflinklike.spark.wire.packing import refuse_null_keys
from pyflinklike.types.pickle_switch import pickle_allowed

__all__ = ["run_batch"]


def run_batch(plan: Plan) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that processes one task's sorted records, for `mapInArrow`.

    Args:
        plan: Of the run; its time mode plays no part.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = plan.task
        context = TaskContext.get()
        if context is not None:
            task = attrs.evolve(task, index=context.partitionId(), attempt=context.attemptNumber())
        runner = _BatchRunner(
            plan,
            KeyedProcessOperator(
                plan.function,
                plan.state_backend,
                plan.key_type,
                task,
                plan.plan_id,
                allow_pickle=pickle_allowed(plan.allow_pickle),
            ),
        )
        runner.operator.side_outputs_read = plan.layout.sides
        runner.operator.open()
        try:
            for batch in batches:
                for index, part in _by_key_group(batch):
                    yield from runner.process(index, part)
            yield from runner.end_group()
        except BaseException:
            runner.operator.abandon()
            raise
        runner.operator.close()

    return run


class _BatchRunner:
    def __init__(self, plan: Plan, operator: KeyedProcessOperator) -> None:
        self._plan = plan
        self.operator = operator
        self._encode = plan.layout.encoder(plan.key_type.thaw_key)
        self._arrange = plan.layout.arranger()
        self._index: int | None = None

    @without_collection
    def process(self, index: int, records: pa.RecordBatch) -> list[pa.RecordBatch]:
        results = []
        if index != self._index:
            results += self.end_group()
            self._index = index
            clock = self.operator.clock
            clock.watermark = MIN_WATERMARK
            clock.processing_time = records.column(BATCH_TIME)[0].as_py()
            self.operator.enter(WorkingState(index))
        refuse_null_keys(records, self._plan.reader.key_columns)
        elements = records.drop_columns([KEY_GROUP, BATCH_TIME])
        self.operator.process(*self._plan.reader.read(elements, in_order=True))
        return results + self._outputs()

    def end_group(self) -> list[pa.RecordBatch]:
        if self._index is None:
            return []
        self.operator.advance_watermark(MAX_WATERMARK)
        self.operator.stores.flush()
        return self._outputs()

    def _outputs(self) -> list[pa.RecordBatch]:
        outputs = self.operator.outputs.take()
        return [self._arrange(number, batch) for number, batch in self._encode(outputs)]


def _by_key_group(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    runs: Any = pc.run_end_encode(batch.column(KEY_GROUP))
    start = 0
    for index, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist()):
        yield index, batch.slice(start, end - start)
        start = end
