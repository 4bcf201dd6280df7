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
from enum import Enum
from typing import Any

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from pyflinklike.backends.base import StateBackend
from pyflinklike.clock import MIN_WATERMARK, TimeDomain
from pyflinklike.errors import HostError, PyflinklikeError
from pyflinklike.functions import KeyedProcessFunction
from pyflinklike.group_log import Head
from pyflinklike.operator import KeyedProcessOperator
from pyflinklike.runtime_context import TaskInfo
from pyflinklike.spark.collection import without_collection
from pyflinklike.spark.output_layout import OutputLayout
from pyflinklike.spark.packing import payload_to_batch, to_payload
from pyflinklike.spark.records import RecordReader
from pyflinklike.types import TypeInformation

__all__ = ["KeyGroupProcessor", "PandasKeyGroupProcessor", "Plan", "TimeMode"]

TRANSFORMED_TYPE = "output int, payload binary"
_HEAD_TYPE = (
    "nonce binary, next_sequence long, first_sequence long, log_bytes long, "
    "log_entries long, max_parallelism int, wake_at long"
)


class TimeMode(Enum):
    """Spark's time mode of a query."""

    NONE = "None"
    EVENT_TIME = "EventTime"
    PROCESSING_TIME = "ProcessingTime"

    def refused_timers(self) -> dict[TimeDomain, PyflinklikeError]:
        """The timers that would never fire in this mode, with what to do about it."""
        event = HostError(
            "event-time timers on a stream need an event time, got process() without one; "
            'pass event_time="<timestamp column>"'
        )
        processing = HostError(
            "processing-time timers need Spark's processing-time mode, and the function's code "
            "did not show that it uses them; pass processing_time_timers=True to process()"
        )
        refused: dict[TimeMode, dict[TimeDomain, PyflinklikeError]] = {
            TimeMode.NONE: {TimeDomain.EVENT_TIME: event, TimeDomain.PROCESSING_TIME: processing},
            TimeMode.EVENT_TIME: {TimeDomain.PROCESSING_TIME: processing},
            TimeMode.PROCESSING_TIME: {},
        }
        return refused[self]


@attrs.frozen
class Plan:
    """What the workers must know, pickled once per query.

    Args:
        function: The user's.
        state_backend: Where working state is kept.
        key_type: Of the keys.
        task: Without the parts only a worker knows.
        time_mode: Of the query.
        reader: Takes records out of payloads.
        layout: Of the outputs.
        plan_id: Tells this query's working state from another's in the same worker.
    """

    function: KeyedProcessFunction
    state_backend: StateBackend
    key_type: TypeInformation
    task: TaskInfo
    time_mode: TimeMode
    reader: RecordReader
    layout: OutputLayout
    plan_id: str


class _SparkGroupStore:
    """A key group's durable form in the state variables of Spark's current grouping key."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", _HEAD_TYPE)
        self._segments = handle.getMapState("segments", "sequence long", "segment binary")

    def read_head(self) -> Head | None:
        row = self._head.get()
        return None if row is None else Head(bytes(row[0]), *row[1:])

    def write_head(self, head: Head) -> None:
        self._head.update(attrs.astuple(head))

    def read_segment(self, sequence: int) -> bytes | None:
        row = self._segments.getValue((sequence,))
        return None if row is None else bytes(row[0])

    def write_segment(self, sequence: int, blob: bytes) -> None:
        self._segments.updateValue((sequence,), (blob,))

    def clear_segments(self) -> None:
        self._segments.clear()


class KeyGroupProcessor(StatefulProcessor):
    """Serves the key groups of one task through Spark's row interface.

    Args:
        plan: Of the query.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._operator: KeyedProcessOperator | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables; Spark's driver calls this too, to learn them."""
        self._handle = handle
        self._store = _SparkGroupStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Serve a key group that has data."""
        packed = sorted(self._packed(rows), key=lambda row: row[0])
        if not packed[0][2]:
            self._opened().check_store(self._store)
            packed = packed[1:]
        if not packed:
            return self._results([])
        batches = [payload_to_batch(payload) for _, _, payload in packed]
        self._set_time(timerValues, packed[0][1])
        return self._results(self._serve(int(key[0]), pa.concat_batches(batches)))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Serve a key group that has no data but timers that may be due."""
        self._set_time(timerValues, None)
        return self._results(
            self._serve(int(key[0]), None, int(expiredTimerInfo.getExpiryTimeInMs()))
        )

    def close(self) -> None:
        """Close the function, if it was opened."""
        if self._operator is not None:
            self._operator.close()
            self._operator = None

    def _packed(self, rows: Iterable[Any]) -> list[tuple[int, int | None, bytes]]:
        return [(row["origin"], row["__batch_time"], row["payload"]) for row in rows]

    def _results(self, payloads: list[tuple[int, bytes]]) -> Iterator[Any]:
        return iter([SparkRow(output=output, payload=payload) for output, payload in payloads])

    def _opened(self) -> KeyedProcessOperator:
        if self._operator is None:
            plan = self._plan
            context = TaskContext.get()
            task = plan.task
            if context is not None:
                task = attrs.evolve(
                    task, index=context.partitionId(), attempt=context.attemptNumber()
                )
            operator = KeyedProcessOperator(
                plan.function,
                plan.state_backend,
                plan.key_type,
                task,
                f"{plan.plan_id}/{task.index}",
                plan.time_mode.refused_timers(),
            )
            operator.side_outputs_read = plan.layout.sides
            operator.open()
            self._encode = plan.layout.encoder(plan.key_type.thaw_key)
            self._operator = operator
        return self._operator

    def _set_time(self, timer_values: Any, batch_time: int | None) -> None:
        clock = self._opened().clock
        if self._plan.time_mode is TimeMode.NONE:
            clock.processing_time = batch_time or 0
            return
        clock.processing_time = int(timer_values.getCurrentProcessingTimeInMs())
        # Spark says 0 before the first event.
        clock.watermark = int(timer_values.getCurrentWatermarkInMs()) or MIN_WATERMARK

    def _serve(
        self, index: int, records: pa.RecordBatch | None, expired_timer: int | None = None
    ) -> list[tuple[int, bytes]]:
        operator = self._opened()
        try:
            return self._served(operator, index, records, expired_timer)
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
    ) -> list[tuple[int, bytes]]:
        plan = self._plan
        head = self._store.read_head()
        operator.load(self._store, head, index)
        operator.fire_due_timers()
        if records is not None:
            operator.process(*plan.reader.read(records))
            operator.fire_due_timers()
        wake_at = self._wake_at(operator)
        operator.commit(self._store, head, wake_at)
        self._wake(head.wake_at if head else None, wake_at, expired_timer)
        payloads = [
            (number, to_payload(batch)) for number, batch in self._encode(operator.take_outputs())
        ]
        operator.keep_warm()
        return payloads

    def _wake_at(self, operator: KeyedProcessOperator) -> int | None:
        mode = self._plan.time_mode
        if mode is TimeMode.NONE:
            return None
        event = operator.earliest_timer(operator.event_timers)
        if mode is TimeMode.EVENT_TIME:
            # Before the first event Spark's watermark is 0, and Spark would spend there
            # the wake-up for a timer at 0 or before, which is not due until the next.
            return event if event is None else max(event, 1)
        # Spark wakes by the processing time alone here: ask for the next batch
        # wherever the watermark may have to fire something.
        now = operator.clock.processing_time
        processing = operator.earliest_timer(operator.processing_timers)
        return processing if event is None else now + 1

    def _wake(self, former: int | None, wake_at: int | None, expired: int | None) -> None:
        if wake_at == former:
            return
        # Spark itself deletes the timer whose expiry it is handling.
        if former is not None and former != expired:
            self._handle.deleteTimer(former)
        if wake_at is not None:
            self._handle.registerTimer(wake_at)


class PandasKeyGroupProcessor(KeyGroupProcessor):
    """The same through `transformWithStateInPandas`, all that Spark 4.0 has."""

    def _packed(self, rows: Iterable[Any]) -> list[tuple[int, int | None, bytes]]:
        return [
            row
            for frame in rows
            for row in zip(frame["origin"], frame["__batch_time"], frame["payload"])
        ]

    def _results(self, payloads: list[tuple[int, bytes]]) -> Iterator[Any]:
        import pandas as pd

        columns = list(zip(*payloads)) or [(), ()]
        yield pd.DataFrame({"output": columns[0], "payload": columns[1]})
