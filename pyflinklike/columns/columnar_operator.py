# SPDX-License-Identifier: Apache-2.0
"""The operator of a `KeyedBatchFunction`, which processes whole columns.

Each call gets a batch of records, or of timers, with the rows of their keys in a key index.  State
is in columns instead of tables, and there are no stores.  Everything else is the same code that runs
other keyed functions: loading, commits, compaction, cleanup, the nonce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike._changelog.entry_codec import encode_columns
from pyflinklike._changelog.key_group_state import KeyedStateBackend
from pyflinklike._clock import MIN_WATERMARK, Clock, TimeDomain
from pyflinklike._messages import short_repr, shown_error, whole_message
from pyflinklike._runtime.assembly import FunctionKind, OperatorAssembly, OperatorDeclaration
from pyflinklike._runtime.call_contexts import ClockReadings, OperatorRuntimeContext
from pyflinklike._runtime.failure_isolation import DeadLetterWriter, is_of_a_record
from pyflinklike._runtime.failure_snapshot import (
    ELEMENT,
    TIMER,
    Called,
    FailureSnapshotWriter,
    write_record,
)
from pyflinklike._runtime.invokers import FunctionInvoker
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike._runtime.user_errors import hint, where_raised
from pyflinklike.columns.column_state import ColumnMapState, ColumnState, user_key_column
from pyflinklike.columns.column_tables import (
    BatchRows,
    ColumnarStateBackend,
    TtlColumns,
    check_columnar,
)
from pyflinklike.columns.columnar_records import BatchKeyColumns, ColumnOutputs, DistinctKeys
from pyflinklike.columns.columnar_timers import ColumnTimerQueue, KeyedColumnTimerService
from pyflinklike.columns.keyed_batch import Groups, KeyedBatch
from pyflinklike.columns.keyed_batch_function import ColumnTimerService, KeyedBatchFunction
from pyflinklike.columns.value_columns import value_column
from pyflinklike.columns.vectors import has_hashes
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    PyflinklikeError,
    StateAccessError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.functions.dead_letters import LETTER_FIELDS
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.state.current_key import NO_NAMESPACE
from pyflinklike.state.descriptors import MapStateDescriptor, StateDescriptor
from pyflinklike.state.state_assembly import Assembled
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.types.pickled_type import check_pickled


class ColumnarAssembly(OperatorAssembly):
    """The assembly of a `KeyedBatchFunction`, whose state lies in columns.

    Raises:
        DeclarationValueError: The backend has no columns, keys would have to be unpickled, or keys
            of that type cannot be a column.
    """

    def __init__(self, declared: OperatorDeclaration, kind: FunctionKind) -> None:
        self.batch, self.rows = BatchRows(), ColumnOutputs()
        super().__init__(declared, kind)

    def _make_metrics(self) -> ColumnMetrics:
        return ColumnMetrics()

    def _make_backend(self) -> KeyedStateBackend:
        task, key_type, backend = self.task, self.key_type, self.declared.state_backend
        if not self.declared.allow_pickle:
            check_pickled(f"operator {task.name!r}, keys", key_type)
        if not has_hashes(key_type.arrow_type):
            msg = (
                f"operator {task.name!r}: keys of a KeyedBatchFunction are declared as ints, bools, "
                f"dates, strings or tuples of these, got {key_type}; leave the type of the keys out "
                "to take keys of any type"
            )
            raise DeclarationValueError(msg)
        most, owner = check_columnar(backend).max_warm_bytes, self.declared.owner
        return ColumnarStateBackend(self.current, owner, most, key_type.arrow_type)

    def _make_buffered(self) -> None:
        return None  # the backend undoes calls by itself

    def _make_timers(self) -> KeyedColumnTimerService:
        event_timers, processing_timers = (
            ColumnTimerQueue(domain, self.backend) for domain in TimeDomain
        )
        refused = _domain_refusals(self.function, self.declared.refused_timers or {})
        return KeyedColumnTimerService(
            self.clock, event_timers, processing_timers, self.batch, refused
        )

    def _make_context(self) -> ColumnarContext:
        return ColumnarContext(self.clock, self.rows.emit_side_columns, self.timers)

    def _make_outputs(self) -> ColumnOutputs:
        return self.rows

    def _make_runtime(self) -> ColumnarRuntimeContext:
        runtime = self._open_with(ColumnarRuntimeContext)
        runtime.batch = self.batch
        return runtime

    def _make_guard(self) -> DeadLetterWriter | None:
        on_error = self.declared.on_error
        if on_error is None:
            return None
        most, names = on_error.snapshot_bytes, tuple(name for name, _ in self.task.key_columns)
        guard = BatchFailureIsolation(
            on_error,
            self.clock,
            self.metrics,
            self.task.name,
            names,
            backend=self.backend,
            outputs=self.rows,
            assembled=self.assembled,
            queues=self.timers.queues,
            writer=self._make_failure_snapshot_writer(most) if most else None,
        )
        self._begin_guard(guard)
        return guard

    def _make_calls(self) -> ColumnarInvoker:
        key_columns = BatchKeyColumns(self.key_type, [name for name, _ in self.task.key_columns])
        return ColumnarInvoker(self.function, self.parts, self.backend, self.batch, key_columns)


def _domain_refusals(
    function: Any, refused: Mapping[TimeDomain, PyflinklikeError]
) -> Mapping[TimeDomain, PyflinklikeError]:
    """Return the domains whose timers cannot fire: all, if the function has no `on_timers`."""
    if has_on_timers(function):
        return refused
    name = type(function).__qualname__
    msg = f"timers fire in on_timers, got {name} without it; add on_timers(self, batch, ctx)"
    return {domain: DeclarationError(msg) for domain in TimeDomain}


# Calls


@attrs.frozen
class ColumnarInvoker(FunctionInvoker):
    """Calls a function of batches.

    Args:
        backend: Holds the columns of the current key group.
        batch: Shared with states and timers, which read from it the rows of the batch's keys.
        key_columns: Makes the key columns that a batch of timers shows.
    """

    _backend: Any
    _batch: BatchRows
    _key_columns: BatchKeyColumns

    def open(self, runtime_context: Any) -> None:
        """Open the function, which declares its states.

        Raises:
            DeclarationError: The function has a method for single elements, never to be called.
            UserFunctionError: The function raised.
        """
        for method, instead in (("on_timer", "on_timers"), ("process_element", "process_batch")):
            if hasattr(self.function, method):
                msg = (
                    f"a KeyedBatchFunction has {instead}, got {self.name()} with a method "
                    f"{method}, which is never called; rename it, or use a KeyedProcessFunction"
                )
                raise DeclarationError(msg)
        super().open(runtime_context)

    def process(self, keys: Any, values: Any, timestamps: Any) -> None:
        """Process the records of a batch of the current group.

        Args:
            keys: The `DistinctKeys` of the batch.
            values: The records as a `KeyedBatch`.
            timestamps: The event times of the records in ms, or None.

        Raises:
            UserFunctionError: The function raised.
        """
        assert isinstance(keys, DistinctKeys)
        rows = self._backend.columns.rows_of(keys.column)
        self._call(self.function.process_batch, rows, values, timestamps)

    def _call(self, method: Callable[..., Any], rows: Any, values: Any, timestamps: Any) -> None:
        """Call a method for a batch and gather its outputs; a guard makes dead letters of failures."""
        guard = self._parts.guard
        if guard is None:
            self._call_once(method, rows, values, timestamps)
            return
        guard.add_calls(len(values))
        self._call_in_halves(method, rows, values, timestamps)

    def _call_in_halves(
        self, method: Callable[..., Any], rows: Any, values: KeyedBatch, timestamps: Any
    ) -> None:
        """Call a method for a batch; if it raises, for each half, down to the record that raises.

        The function must not depend on the cuts of batches, and the records of a key stay in their
        order.  If one of n records raises, that costs about 2 log n calls.
        """
        guard = self._parts.guard
        assert guard is not None
        guard.begin()
        try:
            self._call_once(method, rows, values, timestamps)
        except Exception as raised:
            guard.undo()
            failure = raised
        else:
            guard.end()
            return
        # This is not within the `except`, or each half would have all earlier errors as its context.
        cause = failure.__cause__ if isinstance(failure, UserFunctionError) else failure
        error = cause if isinstance(cause, Exception) else failure
        if not is_of_a_record(error):
            raise failure
        if len(values) > 1:
            middle = len(values) // 2
            for start, end in ((0, middle), (middle, len(values))):
                part, groups = values._part(start, end)
                times = None if timestamps is None else timestamps[start:end]
                self._call_in_halves(method, rows[groups], part, times)
            return
        self._make_letter(failure, error, method.__name__, rows, values)

    def _make_letter(
        self, failure: Exception, error: Exception, method: str, rows: Any, values: KeyedBatch
    ) -> None:
        """Make a dead letter of the only record or timer of a batch, whose call was undone."""
        guard, domain = self._parts.guard, self._parts.context.domain
        assert guard is not None
        time = None if values.timestamps is None else int(values.timestamps[0])
        key = self._backend.columns.index.keys(rows)
        called = Called(
            kind=ELEMENT if domain is None else TIMER,
            given=values._first() if domain is None else time,
            key=self._key_columns.key_type.from_arrow(key)[0],
            namespace=NO_NAMESPACE,
            timestamp=time,
            domain=domain,
        )
        subject = values._show_first() if domain is None else str(time)
        shown = self._key_columns.of(key)
        guard.fail(error, whole_message(failure), called, rows, shown, method, subject)

    def _call_once(
        self, method: Callable[..., Any], rows: Any, values: Any, timestamps: Any
    ) -> None:
        metrics = self._parts.metrics
        assert isinstance(metrics, ColumnMetrics)
        metrics.touch_rows(self._backend.columns, rows)
        self._begin_batch(rows, values, timestamps)
        try:
            for each in self._parts.before_every_call:
                each()
            self._emit(method, values)
        except PyflinklikeError as error:
            error.add_note(f"{self._describe_failed_call(method, values)}{where_raised(error)}")
            raise
        except Exception as error:
            call = self._describe_failed_call(method, values)
            where = f"{where_raised(error)}{hint(error, has_timestamp=True)}"
            msg = f"{call}: {shown_error(error)}{where}"
            raise UserFunctionError(msg) from error
        finally:
            self._batch.end()

    def _begin_batch(self, rows: Any, values: KeyedBatch, timestamps: Any) -> None:
        batch = self._batch
        batch.rows, batch.records = rows, len(values)
        batch.codes, batch.timestamps = values.groups.codes, timestamps
        batch.latest = values.groups.latest(timestamps)

    def _emit(self, method: Callable[..., Any], values: KeyedBatch) -> None:
        outputs = self._parts.outputs
        assert isinstance(outputs, ColumnOutputs)
        outputs.emit_columns(method(values, self._parts.context), method.__name__)

    def repeat(self, called: Called) -> None:
        """Repeat a call for one record or timer that failed elsewhere.

        An error of the function is raised as it is.  No entry expires before the call, so the
        function finds the state that it found when it failed.
        """
        context = self._parts.context
        keys = self._key_columns.key_type.to_arrow([called.key])
        rows = self._backend.columns.rows_of(keys)
        times = None if called.timestamp is None else np.array([called.timestamp], np.int64)
        is_timer = called.kind == TIMER
        records = self._key_columns.of(keys) if is_timer else called.given
        # One record in one group, whose first record is number 0.
        one = np.zeros(1, np.int64)
        values = KeyedBatch(records, Groups(one, one), times)
        self._begin_batch(rows, values, None if is_timer else times)
        context.domain = called.domain
        try:
            self._emit(self.function.on_timers if is_timer else self.function.process_batch, values)
        finally:
            context.domain = None
            self._batch.end()

    def one_by_one(self) -> Callable[[Any, Any, int | None], None]:
        """Return a function that raises, because no host hands over single records."""

        def refuse(*record: Any) -> None:
            raise NotImplementedError(record)

        return refuse

    def fire(self, queue: Any, now: int) -> int:
        """Fire the due timers of a queue, and return their number.

        Args:
            queue: A `ColumnTimerQueue` of the current group.
            now: The time of its domain in ms.

        Raises:
            IncompatibleStateError: There are timers, but the function has no `on_timers`.
            UserFunctionError: The function raised.
        """
        if queue.count() and not has_on_timers(self.function):
            msg = (
                f"{self.name()}: a KeyedBatchFunction without on_timers cannot fire timers, got "
                f"{queue.count()} in the state that it continues from; give it on_timers, or go on "
                "with the function that registered them until they have fired"
            )
            raise IncompatibleStateError(msg)
        context = self._parts.context
        context.domain = queue.domain
        fired = 0
        due = queue.due(now)
        try:
            for rows, times in due:
                fired += len(rows)
                self._fire(rows, times)
        finally:
            due.close()  # if a call has raised, the timers that were not yielded stay due
            context.domain = None
        self._parts.metrics.timers_fired += fired
        return fired

    def _fire(self, rows: Any, times: Any) -> None:
        """Call the function for timers, at most one for each key."""
        each = np.arange(len(rows))
        keys = self._key_columns.of(self._backend.columns.index.keys(rows))
        values = KeyedBatch(keys, Groups(each, each), times)
        # The times of timers do not stamp TTL, because a processing time must not stamp event-time TTL.
        self._call(self.function.on_timers, rows, values, None)

    def _describe_failed_call(self, method: Callable[..., Any], batch: Any) -> str:
        what = "timers" if self._parts.context.domain is not None else "records"
        return (
            f"{self.name()}.{method.__name__} failed for a batch of {len(batch)} {what}, "
            f"{len(batch.groups)} keys, columns {batch.column_names}"
        )


_ARROW_TYPES = {name: kind.arrow_type for name, kind in LETTER_FIELDS}


class BatchFailureIsolation(DeadLetterWriter):
    """Makes dead letters of records and timers of a function of batches.

    The failure snapshot of a letter has the contents of all states and timers of its key.

    Args:
        *common: The arguments of a `DeadLetterWriter`.
        backend: Undoes the changes of a call in states and timers.
        outputs: Gathers the outputs of the function.
        assembled: The states by name; functions may declare more of them later.
        queues: The timers of both domains.
        writer: Writes the failure snapshots of letters; None for letters without one.
    """

    def __init__(
        self,
        *common: Any,
        backend: Any,
        outputs: ColumnOutputs,
        assembled: Mapping[str, Assembled[Any]],
        queues: Sequence[ColumnTimerQueue],
        writer: FailureSnapshotWriter | None,
    ) -> None:
        super().__init__(*common)
        self._backend = backend
        self._outputs = outputs
        self._assembled = assembled
        self._queues = queues
        self._writer = writer
        self._marks: tuple[int, Mapping[str, int]] = (0, {})
        self._expired: list[tuple[Any, int]] = []

    def add_calls(self, count: int) -> None:
        """Count records or timers, whose number bounds the number of letters."""
        self._calls += count

    def begin(self) -> None:
        """Begin a call that may be undone."""
        self._backend.begin_call()
        outputs, ttls = self._outputs, (each.ttl for each in self._assembled.values())
        self._marks = len(outputs.main), outputs.count_sides()
        # An undone call must not count expired entries that its repetition finds again.
        self._expired = [(ttl, ttl.expired) for ttl in ttls if ttl is not None]
        if self._registered and self._user_metrics is not None:
            self._counted = self._user_metrics.mark()

    def end(self) -> None:
        """End a call that has succeeded."""
        self._backend.end_call()

    def undo(self) -> None:
        """Undo the call, and end it."""
        self._backend.undo_call()
        self._outputs.go_back(*self._marks)
        for ttl, expired in self._expired:
            ttl.expired = expired
        if self._user_metrics is not None:
            self._user_metrics.go_back(self._counted)

    def fail(
        self,
        error: Exception,
        message: str,
        called: Called,
        rows: Any,
        keys: pa.RecordBatch,
        method: str,
        subject: str,
    ) -> None:
        """Emit the dead letter of a record or timer, whose call was undone.

        Args:
            error: The error that the function raised.
            message: The text of the error that would have failed the query.
            called: The call of one record or timer.
            rows: The row of its key.
            keys: The columns of its key.
            method: The name of the method.
            subject: The record, or the time of the timer, as messages show it.

        Raises:
            UserFunctionError: There are more letters than the user allows.
        """
        self._count(message)
        time = None if called.timestamp == MIN_WATERMARK else called.timestamp
        values = (*self._facts(error, method, subject, time), self._snapshot(called, rows))
        columns = dict(zip(self._key_names, keys.columns))
        for (name, kind), value in zip(_ARROW_TYPES.items(), values):
            columns[name] = pa.array([value], kind)
        self._outputs.emit_side_columns(self.letters.tag, pa.RecordBatch.from_pydict(columns))

    def _snapshot(self, called: Called, rows: Any) -> bytes | None:
        """Return the failure snapshot of a call that was undone.

        Args:
            called: The call, of one record or timer.
            rows: The row of its key.

        Returns:
            The bytes; None if dead letters are declared without failure snapshots, if the bytes would
            be too large, or if a column of the record cannot be written.
        """
        writer = self._writer
        if writer is None:
            return None
        form, element = "", b""
        if called.kind == ELEMENT:
            record = write_record(called.given)
            if record is None:
                return None
            form, element = "arrow", record
        holders: list[Any] = [*self._assembled.values(), *self._queues]
        contents = [(each.table.spec, each.table.contents_of(rows)) for each in holders]
        try:
            tables = [
                (spec, [part for each in some for part in encode_columns(each, writer.key_type)])
                for spec, some in contents
            ]
        except StateValueError:  # an entry is larger than a segment can be
            return None
        return writer.write(called, form, element, tables)


def has_on_timers(function: Any) -> bool:
    """Return whether a function of batches has a method for timers."""
    return type(function).on_timers is not KeyedBatchFunction.on_timers


# Contexts


class ColumnarRuntimeContext(OperatorRuntimeContext, KeyedBatchFunction.OpenContext):
    """An `OperatorRuntimeContext` whose states are columns; its backend has column tables."""

    batch: BatchRows
    """The keys of the batch; assigned before `open`."""

    def get_column_state(self, state_descriptor: StateDescriptor[Any]) -> ColumnState:
        """Return the declared state as columns: the same object for the same declaration."""
        if not isinstance(state_descriptor, StateDescriptor):
            msg = (
                f"get_column_state takes a state descriptor, got {short_repr(state_descriptor)}; for "
                "example ValueStateDescriptor(name, Types.LONG())"
            )
            raise DeclarationTypeError(msg)
        if state_descriptor.shape is not Shape.SINGLE:
            msg = (
                f"state {state_descriptor.name!r}: a column state is a value, reducing or "
                f"aggregating state, got a {state_descriptor.kind} state; keep one value per key, "
                "use get_column_map_state for a map, or a KeyedProcessFunction"
            )
            raise DeclarationTypeError(msg)
        state: ColumnState = super()._get(state_descriptor, StateDescriptor)
        return state

    def get_column_map_state(self, state_descriptor: MapStateDescriptor[Any, Any]) -> Any:
        """Return the declared map state as columns: the same object for the same declaration."""
        if not isinstance(state_descriptor, MapStateDescriptor):
            msg = (
                "get_column_map_state takes a MapStateDescriptor, got "
                f"{short_repr(state_descriptor)}; get_column_state takes descriptors of one value"
            )
            raise DeclarationTypeError(msg)
        return super()._get(state_descriptor, MapStateDescriptor)

    def get_store(self, store_descriptor: Any) -> Any:
        """Refuse, because stores have no columns."""
        self._refuse("a store", store_descriptor)

    def _get(self, descriptor: Any, wanted: type[StateDescriptor]) -> Any:  # noqa: ARG002
        """Refuse, because the other getters are of states that are read and written key by key."""
        self._refuse("a state that is read and written key by key", descriptor)

    def _refuse(self, what: str, descriptor: Any) -> NoReturn:
        msg = (
            f"a KeyedBatchFunction has its state in columns, got {short_repr(descriptor)} for {what}; "
            "use get_column_state, or a KeyedProcessFunction"
        )
        raise DeclarationTypeError(msg)

    def _make(self, descriptor: StateDescriptor[Any], spec: TableSpec) -> Any:
        assert spec.value_type is not None
        column = value_column(descriptor.name, spec.value_type)
        backend: Any = self._backend
        config, ttl = descriptor.ttl_config, None
        user_keys = None
        if spec.shape is Shape.MAP:
            assert spec.user_key_type is not None
            user_keys = user_key_column(descriptor.name, spec.user_key_type)
        table = backend.column_table(spec)
        if config is not None:
            ttl = TtlColumns(table, config, self._clock, self.batch)
            if ttl.sweeps_every_record:
                self.before_every_call.append(ttl.sweep_some)
        parts = (descriptor.name, table, column, self.batch, ttl)
        state: Any = ColumnState(*parts) if user_keys is None else ColumnMapState(user_keys, *parts)
        made = Assembled(type(descriptor), descriptor._declaration(), state, ttl, table)
        self.assembled[spec.name] = made
        self._on_table(spec)
        return state


class ColumnarContext(ClockReadings, KeyedBatchFunction.OnTimersContext):
    """The context of `process_batch` and `on_timers`; one object serves all calls.

    Args:
        emit: Takes a tag and the rows of its side output.
        timers: The service for the batch's keys.
    """

    def __init__(
        self, clock: Clock, emit: Callable[[OutputTag, Any], None], timers: ColumnTimerService
    ) -> None:
        self._clock = clock
        self._emit = emit
        self._timers = timers
        self.domain: TimeDomain | None = None
        """The domain of the timers that fire; None while records are processed."""

    def timer_service(self) -> ColumnTimerService:
        """Return the service with the clock and the timers of the batch's keys."""
        return self._timers

    def time_domain(self) -> TimeDomain:
        """Return the domain of the timers that fire.

        Raises:
            StateAccessError: No timers are firing.
        """
        if self.domain is None:
            msg = "a time domain belongs to timers, got a call outside on_timers"
            raise StateAccessError(msg)
        return self.domain

    def output(self, tag: OutputTag, columns: Any) -> None:
        """Emit rows to a side output.

        Raises:
            OutputError: The rows are not columns, or the tag is no `OutputTag`.
        """
        self._emit(tag, columns)


# Metrics


_MOST = 64
"""The number of arrays of rows to keep before they are merged into one."""


@attrs.define
class ColumnMetrics(OperatorMetrics):
    """Counts a key once for each key group, even if many calls touch it."""

    _group: Any = attrs.field(default=None, init=False)
    _touched: list[Any] = attrs.field(factory=list, init=False)

    def touch_rows(self, group: Any, rows: Any) -> None:
        """Count keys, unless an earlier call of the same group did.

        Args:
            group: The columns of their key group.
            rows: The rows of the keys, none twice.
        """
        if group is not self._group:
            self._end_group()
            self._group = group
        self._touched.append(rows)
        if len(self._touched) == _MOST:
            self._touched = [np.unique(np.concatenate(self._touched))]

    def take(self) -> list[int]:
        """Return the numbers, and set them to zero."""
        self._end_group()
        return super().take()

    def _end_group(self) -> None:
        touched, self._touched, self._group = self._touched, [], None
        if len(touched) == 1:
            self.keys += len(touched[0])
        elif touched:
            self.keys += len(np.unique(np.concatenate(touched)))
