# SPDX-License-Identifier: Apache-2.0
"""The streaming host: one key group per call of Spark's `transformWithState`.

Spark calls `handleInputRows` once per key group that has data in a micro-batch,
and `handleExpiredTimer` for one that has none but a Spark timer that is due.
Both have `runtime.serving` serve the group, hand its outputs to Spark as Arrow
payloads, and say when to be called again (`hosts.waking`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.log.operator_record import call_roll
from pyflinklike.log.segments import read_segment
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.runtime.serving import NO_RECORDS, begin, serve
from pyflinklike.spark.hosts.cycle_collector import freeze_imports, without_collection
from pyflinklike.spark.hosts.log_storage import SparkLogStorage
from pyflinklike.spark.hosts.observation import COUNTED_TYPE, counted
from pyflinklike.spark.hosts.open_functions import OPEN_FUNCTIONS, QueryRun, query_run
from pyflinklike.spark.hosts.roll_call import record_of
from pyflinklike.spark.hosts.task import opened_operator, task_of
from pyflinklike.spark.hosts.telling import telling
from pyflinklike.spark.hosts.waking import replace_timer, waking_of
from pyflinklike.spark.setup.plan import Plan, TimeMode
from pyflinklike.spark.wire.balanced_ids import index_of
from pyflinklike.spark.wire.names import BATCH_TIME
from pyflinklike.spark.wire.packing import payload_to_batch, to_payload
from pyflinklike.spark.wire.roll_call import ROLL_CALL, groups_in

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

    @telling
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
        return self._results(self._serve(self._index_of(key), records, batch_time))

    @telling
    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Serve a key group that has no data but timers that may be due."""
        self._set_time(timerValues, None)
        fired = int(expiredTimerInfo.getExpiryTimeInMs())
        return self._results(self._serve(self._index_of(key), fired=fired))

    @telling
    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Begin a key group with its part of a savepoint: in a checkpoint's first batch only."""
        for batch_time, payload in self._initial(initialState):
            if key[0] == ROLL_CALL:
                self._call_roll([payload], batch_time)
                continue
            self._set_time(timerValues, batch_time)
            self._begin(self._index_of(key), payload, batch_time)

    @telling
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
        with self._guarded() as operator:
            record = record_of(self._plan, operator)
            call_roll(self._store, record, groups_in(payloads), batch_time)

    def _opened(self) -> KeyedProcessOperator:
        if self._operator is None:
            freeze_imports()
            plan, context = self._plan, TaskContext.get()
            task = task_of(plan, context)
            owner = f"{plan.plan_id}/{task.index}"
            self._run = query_run(context, plan.plan_id) if plan.keeps_open else None
            waiting = OPEN_FUNCTIONS.take(self._run, task.index) if self._run else None
            if waiting is not None:
                waiting.resume(task, owner)
            refused = plan.time_mode.refused_timers()
            self._operator = waiting or opened_operator(plan, task, owner, refused)
            self._encode = plan.layout.encoder(plan.key_type.thaw_key)
            self._waking = waking_of(plan.time_mode)
        return self._operator

    def _set_time(self, timer_values: Any, batch_time: int | None) -> None:
        clock = self._opened().clock
        if self._plan.time_mode is TimeMode.NONE:
            clock.processing_time = batch_time or 0
            return
        clock.processing_time = int(timer_values.getCurrentProcessingTimeInMs())
        # Spark says 0 before the first event.
        clock.watermark = int(timer_values.getCurrentWatermarkInMs()) or MIN_WATERMARK

    @contextmanager
    def _guarded(self) -> Iterator[KeyedProcessOperator]:
        """The operator for one call, given up if the call fails."""
        operator = self._opened()
        try:
            yield operator
        except BaseException:
            # Spark will not call close() of a task that failed.
            self._operator = None
            operator.abandon()
            raise

    @without_collection
    def _serve(
        self,
        index: int,
        records: pa.RecordBatch | None = None,
        served_at: int | None = None,
        fired: int | None = None,
    ) -> list[_Result]:
        with self._guarded() as operator:
            served = serve(
                operator,
                self._store,
                index,
                NO_RECORDS if records is None else self._plan.reader.read(records),
                waking=self._waking,
                served_at=served_at,
            )
            replace_timer(self._handle, served, fired)
            results = self._encoded(operator)
            operator.keep_warm()
        return results

    @without_collection
    def _begin(self, index: int, payload: bytes, served_at: int) -> None:
        with self._guarded() as operator:
            snapshot = read_segment(payload, f"savepoint, key group {index}")
            served = begin(
                operator,
                self._store,
                index,
                snapshot,
                waking=self._waking,
                served_at=served_at,
            )
            if served is not None:
                replace_timer(self._handle, served, None)
                operator.metrics.take()  # the first batch tells of its own work
                operator.keep_warm()

    def _encoded(self, operator: KeyedProcessOperator) -> list[_Result]:
        outputs = operator.outputs.take()
        operator.metrics.outputs += len(outputs)
        results: list[_Result] = [
            (number, to_payload(batch), None, None) for number, batch in self._encode(outputs)
        ]
        head, *tail = results or [(0, None, None, None)]
        return [(*head[:2], *counted(*operator.take_metrics())), *tail]


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
