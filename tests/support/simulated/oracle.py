# SPDX-License-Identifier: Apache-2.0
"""What must come of a query: each operator in one piece, which sees every micro-batch once.

An operator of the model has all keys in one key group, in plain dicts, without a log, tasks, or
payloads.  It takes the steps of a micro-batch as the documentation has them: the records of the
operator before that come before the watermark, the timers that the watermark makes due, the other
records by event time, the timers that these made due.  A restart with the same program is none for
the model; one with a changed program goes by a snapshot, as `restore` of a harness.

Neither the code that packs and reads records nor that of the hosts is used, nor the one that
serves a key group in a micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from pyflinklike import __version__
from pyflinklike._changelog.key_group_log import SegmentWriter
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import SEGMENT_BYTES, Segment, read_segment
from pyflinklike._changelog.snapshot_division import with_keys_of
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.columns import KeyedBatchFunction
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._wire.record_readers import BroadcastReader, ConnectedReader, RecordReader
from pyflinklike.spark._wire.system_columns import BEFORE_WATERMARK, watermark_of
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.types.arrow_rows import milliseconds, to_python, to_rows
from simulated.program import (
    Expected,
    MicroBatch,
    Rows,
    SimulatedOperator,
    State,
    read_state,
    rows_of,
    with_place,
)

__all__ = ["Model", "expect_of"]

_Element = tuple[Any, Any, int | None]
"""The key, the value and the event time in ms of a record."""
_Parts = tuple[list[Any], list[Any]]
"""The elements of a broadcast input, and the others; of columns, `ColumnRecords`."""


def expect_of(
    history: Sequence[MicroBatch],
    models: Sequence[Sequence[SimulatedOperator]],
    *,
    tells_changes: bool = False,
) -> Expected:
    """Return what must come of micro-batches.

    Args:
        history: From the first one of the checkpoint on.
        models: The operators that the model has in each of them: often those of the program itself.
        tells_changes: Whether it tells what the last one may have changed.
    """
    model = Model()
    rows = {}
    for batch, operators in zip(history, models):
        if tells_changes and batch is history[-1]:
            # Nothing is left of the batches before.
            model.start(operators, anew=True)
        rows[batch.number] = model.run(batch, operators)
    return Expected(rows, model.states(), model.changes() if tells_changes else ())


class Model:
    """Operators of a query that see every micro-batch once."""

    def __init__(self) -> None:
        self._operators: tuple[SimulatedOperator, ...] = ()
        self._pieces: list[_Piece] = []
        self._watermark, self._now = 0, 0

    def run(self, batch: MicroBatch, operators: Sequence[SimulatedOperator]) -> Rows:
        """Run a micro-batch, and return the rows of the operators that no other one reads.

        Args:
            batch: The micro-batch.
            operators: Other ones than in the batch before are another program's.
        """
        self.start(operators)
        former, self._watermark, self._now = self._watermark, batch.watermark, batch.now
        results: list[list[pa.RecordBatch]] = []
        for operator, piece in zip(self._operators, self._pieces):
            inputs = [
                _source(batch, each.number) if each.is_source else results[each.number]
                for each in operator.inputs
            ]
            results.append(piece.run(inputs, former, batch))
        read = {each.number for one in operators for each in one.inputs if not each.is_source}
        last = [at for at in range(len(results)) if at not in read]
        if len(last) == 1:
            return rows_of(results[last[0]])
        return rows_of(with_place(each, at) for at in last for each in results[at])

    def states(self) -> tuple[State, ...]:
        """Return the state of each operator, as `read_state` shows it."""
        return tuple(piece.state(self._now, self._watermark) for piece in self._pieces)

    def changes(self) -> tuple[Sequence[Segment], ...]:
        """Return what each operator has changed since it was started, once."""
        return tuple(piece.changes() for piece in self._pieces)

    def end(self) -> tuple[bytes, ...]:
        """Close all functions, and return the state of each operator as a snapshot."""
        return tuple(piece.end() for piece in self._pieces)

    def start(self, operators: Sequence[SimulatedOperator], *, anew: bool = False) -> None:
        """Open the functions of a program, if another one ran before.

        Args:
            operators: Of the program.
            anew: Whether functions that are open are closed and opened again.
        """
        operators = tuple(operators)
        if not anew and (operators is self._operators or operators == self._operators):
            return
        snapshots: list[bytes | None] = [piece.end() for piece in self._pieces]
        if not self._pieces:
            snapshots = [each.savepoint for each in operators]
        self._operators = operators
        self._pieces = [_Piece(*each) for each in zip(operators, snapshots)]


def _source(batch: MicroBatch, number: int) -> list[pa.RecordBatch]:
    records = batch.records[number]
    return [] if records is None else [records]


class _Piece:
    """One operator with all of its keys.

    Args:
        declared: What Spark would have been told of it.
        snapshot: What it begins with.
    """

    def __init__(self, declared: SimulatedOperator, snapshot: bytes | None) -> None:
        self._declared, self._plan = declared, declared.plan
        plan = declared.plan
        # A copy: the function of the world may keep something in itself.
        function = cloudpickle.loads(cloudpickle.dumps(plan.function))  # type: ignore[no-untyped-call]
        self._operator = make_keyed_operator(
            OperatorDeclaration(
                function,
                HashMapStateBackend(),
                plan.key_type,
                plan.task,
                f"model-{id(self)}",
                refused_timers=plan.timer_refusals(),
                side_outputs_read=plan.layout.sides,
                broadcast_states=plan.broadcast_states,
                on_error=plan.on_error,
            )
        )
        state = KeyGroupState(0)
        if snapshot is not None:
            segment = read_segment(snapshot, "snapshot")
            state.read(with_keys_of(segment, plan.key_type, "snapshot"), "snapshot")
        self._operator.group.enter(state)
        self._operator.open()
        self._encode = plan.layout.encoder(plan.show_key)
        self._arrange = declared.layout.arranger()
        reader: Any = plan.reader
        self._readers: tuple[RecordReader, ...] = (
            reader.inputs if isinstance(reader, (ConnectedReader, BroadcastReader)) else (reader,)
        )
        self._has_rules = isinstance(reader, BroadcastReader)
        self._has_columns = isinstance(function, KeyedBatchFunction)

    def run(
        self, inputs: Sequence[Sequence[pa.RecordBatch]], former: int, batch: MicroBatch
    ) -> list[pa.RecordBatch]:
        """Run a micro-batch, and return the rows of the result.

        Args:
            inputs: The records of each input, in the order of arrival.
            former: Spark's watermark of the micro-batch before in ms.
            batch: The micro-batch.
        """
        operator, clock = self._operator, self._operator.clock
        early, others = self._divide(inputs)
        if operator.guard is not None:
            operator.guard.begin_task(batch.number)
        clock.processing_time = batch.now
        is_timed = self._plan.time_mode is not TimeMode.NONE
        clock.watermark = watermark_of(former) if is_timed else MIN_WATERMARK
        self._process(early)
        if is_timed:
            clock.watermark = watermark_of(batch.watermark)
        operator.fire_due_timers()
        before = operator.outputs.take()
        self._process(others)
        operator.fire_due_timers()
        operator.flush()
        operator.end_task()
        after = operator.outputs.take()
        return [
            self._arrange(~number if is_early else number, encoded)
            for is_early, outputs in ((True, before), (False, after))
            for number, encoded in self._encode(outputs)
        ]

    def _process(self, parts: _Parts) -> None:
        rules, elements = parts
        if self._has_columns:
            for columns in elements:
                self._operator.process(*columns)
            return
        if rules:
            self._operator.process_broadcast([(value, time) for _, value, time in rules])
        if elements:
            keys, values, times = zip(*elements)
            self._operator.process(keys, values, times)

    def _divide(self, inputs: Sequence[Sequence[pa.RecordBatch]]) -> list[_Parts]:
        """Return broadcast elements and others before the watermark, and both after it."""
        if self._has_columns:
            return [([], self._read_columns(inputs[0], is_early=each)) for each in (True, False)]
        divided = []
        for is_early in (True, False):
            rules: list[_Element] = []
            elements: list[_Element] = []
            is_sorted = True
            for number, (batches, reader) in enumerate(zip(inputs, self._readers), 1):
                found = list(_elements(batches, reader, is_early=is_early))
                if number == 2 and self._has_rules:
                    rules = found
                    continue
                if len(self._readers) == 2 and not self._has_rules:
                    found = [(key, (number, value), time) for key, value, time in found]
                elements += found
                is_sorted &= reader.event_time is not None and not reader.arrival_order
            if is_sorted:
                elements.sort(key=lambda each: MIN_WATERMARK if each[2] is None else each[2])
            divided.append((rules, elements))
        return divided

    def _read_columns(self, batches: Sequence[pa.RecordBatch], *, is_early: bool) -> list[Any]:
        reader: Any = self._readers[0]
        kept = [_side_of(each, reader.before_watermark, is_early=is_early) for each in batches]
        found = [each for each in kept if each is not None and each.num_rows]
        return [reader.read(pa.concat_batches(found))] if found else []

    def state(self, now: int, watermark: int) -> State:
        """Return its state as the readers of state show it."""
        plan, function = self._plan, type(self._plan.function)
        record = OperatorRecord(
            plan.task.identity(plan.key_type),
            f"{function.__module__}.{function.__qualname__}",
            __version__,
            plan.reader.time_zone,
            plan.reader.event_time,
            plan.time_mode.value,
            self._operator.describe_states(),
        )
        log = [read_segment(self._operator.snapshot(), "model")]
        return read_state(record, {0: log}, now, watermark, self._declared)

    def changes(self) -> Sequence[Segment]:
        """Return what it has changed since it was started, once."""
        changed = [each for each in self._operator.backend.drain() if len(each)]
        writer = SegmentWriter(self._plan.key_type, SEGMENT_BYTES)
        return list(writer.write_changes(changed, KeyGroupState(0)))

    def end(self) -> bytes:
        """Close the function, and return the state."""
        snapshot = self._operator.snapshot()
        self._operator.close()
        return snapshot


def _elements(
    batches: Iterable[pa.RecordBatch], reader: RecordReader, *, is_early: bool
) -> Iterable[_Element]:
    """Yield the elements of one side of the watermark, in the order of arrival."""
    for batch in batches:
        kept = _side_of(batch, reader.before_watermark, is_early=is_early)
        if kept is None:
            continue
        names = tuple(kept.schema.names)
        columns = [to_python(each, reader.time_zone) for each in kept.columns]
        times: list[int | None] = [None] * kept.num_rows
        if reader.event_time is not None:
            times = milliseconds(kept.column(reader.event_time)).to_pylist()
        for at, value in enumerate(to_rows(names, columns, kept.num_rows)):
            yield _key_of(value, reader), value, times[at]


def _side_of(batch: pa.RecordBatch, phase: str | None, *, is_early: bool) -> Any:
    """Return the records of one side of the watermark; None where nothing can be there."""
    if phase is None:
        return None if is_early else batch
    mask = [bool(each) is is_early for each in batch.column(phase).to_pylist()]
    kept = batch.filter(pa.array(mask, pa.bool_()))
    return kept.drop_columns([phase]) if phase == BEFORE_WATERMARK else kept


def _key_of(value: Any, reader: RecordReader) -> Any:
    if not reader.key_columns:
        return GROUP_KEY
    parts = tuple(value[name] for name in reader.key_columns)
    return reader.key_type.freeze_key(parts[0] if len(parts) == 1 else parts)
