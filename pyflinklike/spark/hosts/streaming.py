# SPDX-License-Identifier: Apache-2.0
"""The streaming host: one key group per call of Spark's `transformWithState`.

Spark calls `handleInputRows` once per key group that has data in a micro-batch,
and `handleExpiredTimer` for one that has none but a Spark timer that is due.
Both do the same: load the group, fire what is due, process the records, fire
what that made due, commit, and say when to be called again.

Spark holds one timer per key group, to wake it.  Which of the function's timers
fire is decided by the operator's own queues.  What a time mode can wake:

| mode           | chosen when                          | event timers       | processing timers  |
|----------------|--------------------------------------|--------------------|--------------------|
| None           | neither of the below                 | refused            | refused            |
| EventTime      | `event_time` is given                | as the watermark moves | refused        |
| ProcessingTime | the function has processing timers   | at every trigger   | at every trigger   |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.log.operator_record import call_roll
from pyflinklike.log.segments import Segment, read_segment
from pyflinklike.log.storage import Head
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.spark.hosts.gc_pause import without_collection
from pyflinklike.spark.hosts.log_storage import SparkLogStorage
from pyflinklike.spark.hosts.observation import COUNTED_TYPE, counted
from pyflinklike.spark.hosts.open_functions import OPEN_FUNCTIONS, QueryRun, query_run
from pyflinklike.spark.hosts.roll_call import record_of
from pyflinklike.spark.setup.plan import Plan, TimeMode
from pyflinklike.spark.wire.balanced_ids import index_of
from pyflinklike.spark.wire.names import BATCH_TIME
from pyflinklike.spark.wire.packing import payload_to_batch, to_payload
from pyflinklike.spark.wire.roll_call import ROLL_CALL, groups_in
from pyflinklike.types.pickle_switch import pickle_allowed

__all__ = ["KeyGroupProcessor", "PandasKeyGroupProcessor"]

TRANSFORMED_TYPE = f"output int, payload binary, {COUNTED_TYPE}"
_COLUMNS = ("output", "payload", "counts", "user_counts")
_RESULT = SparkRow(*_COLUMNS)
_Result = tuple[Any, ...]


class KeyGroupProcessor(StatefulProcessor):
    """Serves the key groups of one task through Spark's row interface.

    Args:
        plan: Of the query.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._operator: KeyedProcessOperator | None = None
        self._run: QueryRun | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables; Spark's driver calls this too, to learn them."""
        self._handle = handle
        self._store = SparkLogStorage(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Serve a key group that has data."""
        packed = sorted(self._packed(rows), key=lambda row: row[0])
        batch_time = packed[0][1]
        payloads = [payload for _, _, payload in packed]
        if key[0] == ROLL_CALL:
            self._call_roll(payloads, batch_time)
            return self._results([])
        records = pa.concat_batches([payload_to_batch(each) for each in payloads])
        self._set_time(timerValues, batch_time)
        return self._results(self._serve(self._index_of(key), records, served_at=batch_time))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Serve a key group that has no data but timers that may be due."""
        self._set_time(timerValues, None)
        return self._results(
            self._serve(self._index_of(key), None, int(expiredTimerInfo.getExpiryTimeInMs()))
        )

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Begin a key group with its part of a savepoint: in a checkpoint's first batch only."""
        for batch_time, payload in self._initial(initialState):
            if key[0] == ROLL_CALL:
                self._call_roll([payload], batch_time)
                continue
            self._set_time(timerValues, batch_time)
            index = self._index_of(key)
            snapshot = read_segment(payload, f"savepoint, key group {index}")
            self._serve(index, None, snapshot=snapshot, served_at=batch_time)

    def close(self) -> None:
        """The task is over: the function waits for the next one, or is closed where it cannot."""
        operator, self._operator = self._operator, None
        if operator is None:
            return
        if self._run is None:
            operator.close()
            return
        try:
            operator.rest()
        except BaseException:
            operator.abandon()
            raise
        OPEN_FUNCTIONS.keep(self._run, operator)

    def _index_of(self, key: Any) -> int:
        return index_of(int(key[0]), self._plan.task.max_parallelism)

    def _packed(self, rows: Iterable[Any]) -> list[tuple[int, int, bytes]]:
        return [(row["origin"], row[BATCH_TIME], row["payload"]) for row in rows]

    def _initial(self, row: Any) -> list[tuple[int, bytes]]:
        return [(row[BATCH_TIME], row["payload"])]

    def _results(self, results: list[_Result]) -> Iterator[Any]:
        return iter([_RESULT(*result) for result in results])

    def _call_roll(self, payloads: list[bytes], batch_time: int) -> None:
        operator = self._opened()
        try:
            record = record_of(self._plan, operator)
            call_roll(self._store, record, groups_in(payloads), batch_time)
        except BaseException:
            self._operator = None
            operator.abandon()
            raise

    def _opened(self) -> KeyedProcessOperator:
        if self._operator is None:
            plan = self._plan
            context = TaskContext.get()
            task = plan.task
            if context is not None:
                task = attrs.evolve(
                    task, index=context.partitionId(), attempt=context.attemptNumber()
                )
            self._run = query_run(context, plan.plan_id) if plan.keeps_open else None
            waiting = OPEN_FUNCTIONS.take(self._run, task.index) if self._run else None
            self._operator = self._made(task) if waiting is None else waiting
            if waiting is not None:
                waiting.resume(task, self._owner(task))
            self._encode = plan.layout.encoder(plan.key_type.thaw_key)
        return self._operator

    def _made(self, task: TaskInfo) -> KeyedProcessOperator:
        plan = self._plan
        operator = KeyedProcessOperator(
            plan.function,
            plan.state_backend,
            plan.key_type,
            task,
            self._owner(task),
            plan.time_mode.refused_timers(),
            # A worker's environment may refuse what the driver's did not.
            allow_pickle=pickle_allowed(plan.allow_pickle),
        )
        operator.side_outputs_read = plan.layout.sides
        operator.open()
        return operator

    def _owner(self, task: TaskInfo) -> str:
        return f"{self._plan.plan_id}/{task.index}"

    def _set_time(self, timer_values: Any, batch_time: int | None) -> None:
        clock = self._opened().clock
        if self._plan.time_mode is TimeMode.NONE:
            clock.processing_time = batch_time or 0
            return
        clock.processing_time = int(timer_values.getCurrentProcessingTimeInMs())
        # Spark says 0 before the first event.
        clock.watermark = int(timer_values.getCurrentWatermarkInMs()) or MIN_WATERMARK

    def _serve(
        self,
        index: int,
        records: pa.RecordBatch | None,
        expired_timer: int | None = None,
        snapshot: Segment | None = None,
        served_at: int | None = None,
    ) -> list[_Result]:
        operator = self._opened()
        try:
            if snapshot is not None:
                self._begin(operator, index, snapshot, served_at)
                return []
            return self._served(operator, index, records, expired_timer, served_at)
        except BaseException:
            # Spark will not call close() of a task that failed.
            self._operator = None
            operator.abandon()
            raise

    @without_collection
    def _served(
        self,
        operator: KeyedProcessOperator,
        index: int,
        records: pa.RecordBatch | None,
        expired_timer: int | None,
        served_at: int | None,
    ) -> list[_Result]:
        plan = self._plan
        head = self._store.read_head(operator.where(index))
        operator.load(self._store, head, index)
        operator.fire_due_timers()
        if records is not None:
            keys, elements, times = plan.reader.read(records)
            operator.metrics.add_records(keys, times, operator.clock.watermark)
            operator.process(keys, elements, times)
            operator.fire_due_timers()
        self._commit(operator, head, expired_timer, served_at)
        results = self._encoded(operator)
        operator.keep_warm()
        return results

    @without_collection
    def _begin(
        self,
        operator: KeyedProcessOperator,
        index: int,
        snapshot: Segment,
        served_at: int | None,
    ) -> None:
        head = self._store.read_head(operator.where(index))
        if head is not None and head.served_at != served_at:
            return  # what the checkpoint holds is newer than any savepoint
        operator.begin(self._store, head, snapshot, index)
        self._commit(operator, head, None, served_at)
        operator.metrics.take()  # the first batch tells of its own work
        operator.keep_warm()

    def _commit(
        self,
        operator: KeyedProcessOperator,
        head: Head | None,
        expired_timer: int | None,
        served_at: int | None,
    ) -> None:
        domain = self._plan.time_mode.domain()
        sweep_at = wake_at = None
        if domain is not None:
            sweep_at = operator.cleanup.sweep(domain, head.sweep_at if head else None)
            wake_at = self._wake_at(operator, sweep_at)
        committed = operator.commit(self._store, head, wake_at, sweep_at, served_at)
        self._wake(_wake_of(head), _wake_of(committed), expired_timer)

    def _encoded(self, operator: KeyedProcessOperator) -> list[_Result]:
        outputs = operator.outputs.take()
        operator.metrics.outputs += len(outputs)
        results: list[_Result] = [
            (number, to_payload(batch), None, None) for number, batch in self._encode(outputs)
        ]
        head, *tail = results or [(0, None, None, None)]
        return [(*head[:2], *counted(*operator.take_metrics())), *tail]

    def _wake_at(self, operator: KeyedProcessOperator, sweep_at: int | None) -> int | None:
        # What is still due was registered by on_timer, and waits until its clock moves on: Spark
        # would wake us for it in this very batch.
        event = operator.earliest_timer(operator.event_timers)
        if self._plan.time_mode is TimeMode.EVENT_TIME:
            # Before the first event Spark's watermark is 0, ours is far below it.
            return _earlier(event, sweep_at, at_least=max(operator.clock.watermark + 1, 1))
        # Spark wakes by the processing time alone here: ask for the next batch
        # wherever the watermark may have to fire something.
        next_batch = operator.clock.processing_time + 1
        processing = operator.earliest_timer(operator.processing_timers)
        return next_batch if event is not None else _earlier(processing, sweep_at, next_batch)

    def _wake(self, former: int | None, wake_at: int | None, expired: int | None) -> None:
        if wake_at == former:
            return
        # Spark itself deletes the timer whose expiry it is handling.
        if former is not None and former != expired:
            self._handle.deleteTimer(former)
        if wake_at is not None:
            self._handle.registerTimer(wake_at)


def _wake_of(head: Head | None) -> int | None:
    return None if head is None else head.wake_at


def _earlier(one: int | None, other: int | None, at_least: int) -> int | None:
    known = [each for each in (one, other) if each is not None]
    return max(min(known), at_least) if known else None


class PandasKeyGroupProcessor(KeyGroupProcessor):
    """The same through `transformWithStateInPandas`, all that Spark 4.0 has."""

    def _packed(self, rows: Iterable[Any]) -> list[tuple[int, int, bytes]]:
        return [
            (origin, int(time), payload)
            for frame in rows
            for origin, time, payload in zip(frame["origin"], frame[BATCH_TIME], frame["payload"])
        ]

    def _initial(self, row: Any) -> list[tuple[int, bytes]]:
        return [(int(time), payload) for time, payload in zip(row[BATCH_TIME], row["payload"])]

    def _results(self, results: list[_Result]) -> Iterator[Any]:
        import pandas as pd

        yield pd.DataFrame.from_records(results, columns=_COLUMNS)
