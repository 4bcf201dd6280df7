# SPDX-License-Identifier: Apache-2.0
"""The batch host, which runs a bounded DataFrame sorted by key group and event time.

As in Flink's batch mode, each key sees its records in the order of event time under the watermark
`MIN_WATERMARK`.  Then the watermark goes to `MAX_WATERMARK`: every event timer fires, and then every
processing timer.  Spark sorts the records, on disk if memory is short.  A worker holds the state of
one key group at a time.

A batch that writes a savepoint has no end: it is a stream that was read so far.  Each instant is one
micro-batch of that stream, so the watermark follows the records, timers fire between them, and
event-time TTL expires.  A last row in each key group has the watermark of the whole batch.  Timers
that are due by then fire, and the savepoint keeps the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from pyflinklike._changelog.segments import read_segment
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import (
    NO_RECORDS,
    Records,
    RecordsAfterBroadcast,
    UnsortedRecords,
    call,
    end_bounded,
    enter_bounded,
)
from pyflinklike.functions.metric_group import Increment
from pyflinklike.spark._host.collector_freeze import without_collection
from pyflinklike.spark._host.task import open_operator, record_of, task_of
from pyflinklike.spark._plan.operator_plan import BatchState, Plan, StatePart
from pyflinklike.spark._wire.system_columns import (
    BATCH_TIME,
    KEY_GROUP,
    LAST_WATERMARK,
    watermark_of,
)

MakeReport = Callable[[list[int], list[Increment]], pa.RecordBatch]


def run_batch(
    plan: Plan, make_report: MakeReport | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that processes one task's sorted records, for `mapInArrow`.

    Args:
        plan: The plan, whose time mode is ignored.
        make_report: Makes a last record batch from the counts of the operator and of the function; None
            if the counts are not wanted.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        history = plan.history
        # A stream goes on with the savepoint, so a timer that it cannot fire is refused already here.
        refused = None if history is None else plan.timer_refusals()
        operator = open_operator(plan, task_of(plan, context), plan.plan_id, refused)
        part: StatePart | None = None
        if history is None:
            runner = _BatchRunner(plan, operator, counts=make_report is not None)
        else:
            part = history.open_part(_execution_of(context))
            runner = _HistoryRunner(plan, operator, history, part)
        try:
            yield from runner.results(batches)
            operator.check_letters()
            if make_report is not None:
                yield make_report(*operator.take_metrics())
            if part is not None:
                part.finish()
        except BaseException:
            if part is not None:
                part.abandon()
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
        results = self._enter(index, records)
        elements = records.drop_columns([KEY_GROUP, BATCH_TIME])
        read = self._plan.reader.read_sorted(elements)
        if isinstance(read, RecordsAfterBroadcast):
            self._operator.process_broadcast(read.broadcast)
        if self._counts:
            self._operator.metrics.add_records(read.keys, (), MIN_WATERMARK)
        self._operator.process(*read)
        return results + self._outputs()

    def _enter(self, index: int, records: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Enter the key group of records, and return the outputs of the one that ends with them."""
        if index == self._index:
            return []
        results = self._end_group()
        self._index = index
        enter_bounded(self._operator, index, records.column(BATCH_TIME)[0].as_py())
        self._operator.metrics.key_groups += 1
        return results

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


def _execution_of(context: TaskContext | None) -> str:
    # The same DataFrame may be read twice: each action of Spark has an id of its own.
    found = None if context is None else context.getLocalProperty("spark.sql.execution.id")
    return found or ""


class _HistoryRunner(_BatchRunner):
    """Runs a batch that writes a savepoint.

    Args:
        plan: The plan of the operator.
        operator: The operator, which must be open.
        history: The savepoint that all tasks of the batch write together.
        part: Writes the state of this task.
    """

    def __init__(
        self, plan: Plan, operator: KeyedProcessOperator, history: BatchState, part: StatePart
    ) -> None:
        super().__init__(plan, operator, counts=False)
        self._delay, self._part = history.delay, part

    @without_collection
    def _process(self, index: int, records: pa.RecordBatch) -> list[pa.RecordBatch]:
        self._enter(index, records)
        marks = records.column(LAST_WATERMARK)
        is_last = marks.null_count < len(marks)
        elements = records.drop_columns([KEY_GROUP, BATCH_TIME, LAST_WATERMARK])
        elements = elements.slice(0, len(marks) - is_last)
        if elements.num_rows:
            self._run(self._plan.reader.read_sorted(elements))
        if is_last:
            self._write_state(index, marks[-1].as_py())
        return self._outputs()

    def _run(self, read: Records) -> None:
        records = read
        if isinstance(read, RecordsAfterBroadcast):
            # Broadcast elements come before all records, as in any batch.
            call(self._operator, RecordsAfterBroadcast(NO_RECORDS, read.broadcast))
            records = read.records
        times: Any = records.timestamps
        if self._delay is None or isinstance(records, UnsortedRecords) or times is None:
            call(self._operator, records)
        elif isinstance(times, (list, tuple)):
            self._run_in_order(records)
        else:
            self._advance(self._watermark_before(int(times[0])))
            call(self._operator, records)  # columns stay whole

    def _run_in_order(self, records: Records) -> None:
        """Process records with each instant as a micro-batch: due timers fire before and after it."""
        # `call` does the same for a whole micro-batch.  Calling it for each instant would cost
        # several times as much as the records do.
        operator, clock = self._operator, self._operator.clock
        process_one, former = operator.process_one, None
        due_event, due_processing = (
            operator.event_timers.earliest,
            operator.processing_timers.earliest,
        )
        for key, value, time in zip(records.keys, records.values, records.timestamps):
            if time is not None and time != former:
                watermark = self._watermark_before(time)
                # Mostly nothing is due, and this check is all that an instant then costs.
                event, processing = due_event(), due_processing()
                if (event is not None and (event <= watermark or event <= clock.watermark)) or (
                    processing is not None and processing <= clock.processing_time
                ):
                    self._fire_registered()
                    self._advance(watermark)
                elif watermark > clock.watermark:
                    clock.watermark = watermark
                former = time
            process_one(key, value, time)
        self._fire_registered()

    def _fire_registered(self) -> None:
        """Fire timers that records registered for a time that the clock has reached already."""
        operator = self._operator
        clock = operator.clock
        for queue, now in (
            (operator.event_timers, clock.watermark),
            (operator.processing_timers, clock.processing_time),
        ):
            due = operator.earliest_timer(queue)
            if due is not None and due <= now:
                operator.fire_due_timers()
                return

    def _watermark_before(self, time: int) -> int:
        """Return the watermark of a stream whose last record was 1 ms earlier."""
        assert self._delay is not None
        return watermark_of(time - 1 - self._delay) if time > MIN_WATERMARK else MIN_WATERMARK

    def _advance(self, watermark: int) -> None:
        """Move the watermark on, to the time of each due timer first.

        So a key group does the same whichever other keys there are, as on a stream whose watermark
        moves by 1 ms at a time.
        """
        operator = self._operator
        clock, timers = operator.clock, operator.event_timers
        while (due := operator.earliest_timer(timers)) is not None:
            # on_timer may register a timer that is due already; it waits for the next watermark.
            step = max(due, clock.watermark + 1, 1)
            if step > watermark:
                break
            clock.watermark = step
            operator.fire_due_timers()
        clock.watermark = max(clock.watermark, watermark)

    def _write_state(self, index: int, watermark: int) -> None:
        operator = self._operator
        self._advance(watermark_of(watermark))
        operator.fire_due_timers()
        operator.flush()
        operator.cleanup.drop_expired()  # a stream does so when it writes a whole key group
        state = read_segment(operator.snapshot(), operator.group.where(index))
        self._part.add(index, record_of(self._plan, operator), state, operator.clock)
        operator.metrics.end_group()

    def _end_group(self) -> list[pa.RecordBatch]:
        """Do nothing: the last row of a key group has ended it."""
        return []


def _by_key_group(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    runs: Any = pc.run_end_encode(batch.column(KEY_GROUP))
    start = 0
    for index, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist()):
        yield index, batch.slice(start, end - start)
        start = end
