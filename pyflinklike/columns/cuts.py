# SPDX-License-Identifier: Apache-2.0
"""Two laws of a `KeyedBatchFunction`, for your own tests with Hypothesis or with cuts you choose.

A host cuts a stream into batches as it likes.  So the results of a function must not depend on the
cuts (`check_cuts`).  A function that replaces a `KeyedProcessFunction` must be able to continue from
its state, and the other way round (`check_alternating`).

    @given(cuts=cuts_of(len(RECORDS)))
    def test_cuts_do_not_matter(cuts):
        check_cuts(RunningTotal, RECORDS, "user", cuts)

Both compare every emitted row, in order, and the final state, bit by bit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._checks import lacking
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import NO_RECORDS, Records, serve
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.columns.batch_harness import batch_of
from pyflinklike.columns.columnar_records import ColumnReader
from pyflinklike.columns.keyed_batch import KeyReader, frozen_keys
from pyflinklike.columns.keyed_batch_function import KeyedBatchFunction
from pyflinklike.functions.process_functions import KeyedProcessFunction
from pyflinklike.state.table import ColumnChanges, Shape
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import to_python, to_rows
from pyflinklike.types.key_codec import AnyKeyTypeInfo

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ImportError as error:
    raise lacking(__name__, "testing", error) from error

_CUTS = 5
_MS = 1_000
_LONG = 1_000_000
"""More batches than any test has, for the clock at the end."""


def cuts_of(count: int) -> SearchStrategy[list[int]]:
    """Draw ascending positions at which to cut `count` records into batches."""
    places = st.lists(st.integers(0, count), max_size=_CUTS)
    return places.map(sorted)


def check_cuts(
    function: Callable[[], KeyedBatchFunction],
    records: Any,
    key_columns: str | Sequence[str],
    cuts: Sequence[int],
    *,
    event_time: str | None = None,
    key_type: TypeInformation | None = None,
) -> None:
    """Check that a function gives the same for these batches as for one batch of all records.

    Args:
        function: Makes the function; each run makes a new one.
        records: An Arrow table, or a mapping of columns, in the order of event time if there is one.
        key_columns: Name of the key column, or names of several.
        cuts: Ascending positions between records.
        event_time: Name of the column of event times, which are timestamps or ints in ms.
        key_type: Type of the keys; by default any type.

    Raises:
        AssertionError: The results differ; the message has the first difference.
    """
    log = _Log.of(records, key_columns, event_time, key_type)
    whole = log.run([function], [])
    cut = log.run([function], cuts)
    _compare(whole, cut, "in one batch", f"cut at {list(cuts)}")


def check_alternating(
    batch_function: Callable[[], KeyedBatchFunction],
    process_function: Callable[[], KeyedProcessFunction],
    records: Any,
    key_columns: str | Sequence[str],
    cuts: Sequence[int],
    *,
    event_time: str | None = None,
    key_type: TypeInformation | None = None,
    ms_between_batches: int = _MS,
) -> None:
    """Check that a function of batches and one of elements give the same, alone and in turns.

    Both run on one durable log, so each reads the state and the timers that the other has written.
    Timers that are left at the end of the records fire then.  The rows of the function of batches
    are compared with the tuples, or `Row`s, of the other by the position of a column.

    Args:
        batch_function: Makes the function of batches.
        process_function: Makes the function of elements, which are `Row`s of the columns.
        records: An Arrow table, or a mapping of columns, in the order of event time if there is one.
        key_columns: Name of the key column, or names of several.
        cuts: Ascending positions between records.
        event_time: Name of the column of event times, which are timestamps or ints in ms.
        key_type: Type of the keys; by default any type.
        ms_between_batches: How far the processing time moves with each batch, for state with TTL.

    Raises:
        AssertionError: The results differ; the message has the first difference.
    """
    log = _Log.of(records, key_columns, event_time, key_type, ms_between_batches)
    expected = log.run([process_function], cuts)
    _compare(expected, log.run([batch_function], cuts), "element by element", "in columns")
    in_turns = log.run([process_function, batch_function], cuts)
    _compare(expected, in_turns, "element by element", "in turns")
    in_turns = log.run([batch_function, process_function], cuts)
    _compare(expected, in_turns, "element by element", "in turns, columns first")


@attrs.frozen
class _CutResult:
    rows: list[str]
    state: dict[str, dict[str, str]]


@attrs.frozen
class _Log:
    """Records, and one log of a key group for all functions that run over them."""

    records: pa.RecordBatch
    reader: ColumnReader
    key_type: TypeInformation
    ms_between: int

    @classmethod
    def of(
        cls,
        records: Any,
        key_columns: str | Sequence[str],
        event_time: str | None,
        key_type: TypeInformation | None,
        ms_between: int = 0,
    ) -> _Log:
        names = (key_columns,) if isinstance(key_columns, str) else tuple(key_columns)
        kept = key_type or AnyKeyTypeInfo()
        reader = ColumnReader(KeyReader(names, kept), event_time)
        return cls(batch_of(records), reader, kept, ms_between)

    def run(self, functions: Sequence[Callable[[], Any]], cuts: Sequence[int]) -> _CutResult:
        """Process the records in turns; the watermark follows the batches."""
        operators = [self._operator(make()) for make in functions]
        storage = InMemoryLogStorage()
        rows: list[str] = []
        watermark = MIN_WATERMARK
        ends = [0, *cuts, self.records.num_rows]
        batches = [(start, end) for start, end in pairwise(ends) if end > start]
        for number, (start, end) in enumerate(batches):
            operator = operators[number % len(operators)]
            operator.clock.processing_time = number * self.ms_between
            operator.clock.watermark = watermark
            columns: Any = self.reader.read(self.records.slice(start, end - start))
            rows += self._serve(operator, storage, columns)
            if columns.timestamps is not None:
                watermark = max(watermark, int(columns.timestamps.max()))
        rows += self._end(operators[len(batches) % len(operators)], storage)
        state = self._state(operators[0], storage)
        for operator in operators:
            operator.close()
        return _CutResult(rows, state)

    def _operator(self, function: Any) -> KeyedProcessOperator:
        key_columns = tuple((name, "any") for name in self.reader.key_columns)
        task = TaskInfo("law", max_parallelism=1, key_columns=key_columns)
        owner = f"law-{uuid.uuid4()}"
        made = make_keyed_operator(
            OperatorDeclaration(function, HashMapStateBackend(), self.key_type, task, owner)
        )
        made.open()
        return made

    def _end(self, operator: KeyedProcessOperator, storage: InMemoryLogStorage) -> list[str]:
        """Return the outputs of timers that are left at the end of the input."""
        head = storage.read_head("law")
        if head is None or not self._has_timers(operator, storage):
            return []
        operator.clock.watermark = MAX_WATERMARK
        operator.clock.processing_time = _LONG * self.ms_between
        return self._serve(operator, storage, NO_RECORDS)

    def _has_timers(self, operator: KeyedProcessOperator, storage: InMemoryLogStorage) -> bool:
        operator.load(storage, storage.read_head("law"), 0)
        return bool(operator.event_timers.count() + operator.processing_timers.count())

    def _serve(
        self, operator: KeyedProcessOperator, storage: InMemoryLogStorage, columns: Any
    ) -> list[str]:
        is_columnar = isinstance(operator.function, KeyedBatchFunction)
        is_read = is_columnar or columns is NO_RECORDS
        serve(operator, storage, 0, columns if is_read else self._records(columns))
        operator.group.cache()
        main, fired = operator.outputs.take().main, operator.metrics.timers_fired
        operator.metrics.take()
        rows = [repr(tuple(each)) for each in main] if not is_columnar else _rows(main)
        return sorted(rows) if fired else rows  # timers of different keys have no promised order

    def _records(self, columns: Any) -> Records:
        batch = columns.values.to_arrow()
        names = self.reader.key_columns
        keys = frozen_keys(self.key_type, [batch.column(name) for name in names])
        values = [to_python(column, "UTC") for column in batch.columns]
        elements = to_rows(tuple(batch.schema.names), values, batch.num_rows)
        times: list[int | None] = [None] * len(keys)
        if columns.timestamps is not None:
            known = columns.timestamps.tolist()
            times = [None if time == MIN_WATERMARK else time for time in known]
        return Records(keys, elements, times)

    def _state(self, operator: KeyedProcessOperator, storage: InMemoryLogStorage) -> Any:
        """Return the contents of the log, as a worker without working state finds them."""
        head = storage.read_head("law")
        if head is None:
            return {}
        # Without cached working state, a mistake in the log cannot hide.
        operator.group.leave()
        operator.backend.pop_cached(0)  # so that loading reads the log, not the cache
        operator.load(storage, head, 0)
        found: dict[str, dict[str, str]] = {}
        for changes in operator.backend.contents():
            entries = _entries(changes, self.key_type)
            if entries:
                found.setdefault(changes.spec.name, {}).update(entries)
        return found


def _rows(batches: Sequence[pa.RecordBatch]) -> list[str]:
    return [repr(row) for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns))]


def _entries(changes: Any, key_type: TypeInformation) -> dict[str, str]:
    """Return the entries of a table by key and user key, whichever form the changes have."""
    if not isinstance(changes, ColumnChanges):
        keys, entries = zip(changes.keys, changes.user_keys), changes.entries
        return {repr(key): repr(entry) for key, entry in zip(keys, entries)}
    spec, rows = changes.spec, len(changes)
    user_keys = values = [None] * rows
    if spec.shape is Shape.MAP:
        assert spec.user_key_type is not None
        user_keys = spec.user_key_type.from_arrow(changes.user_keys)
    if spec.value_type is not None:
        values = spec.value_type.from_arrow(changes.values)
    entries = list(zip(changes.stamps.tolist(), values)) if spec.paired else values
    keys = zip(key_type.from_arrow(changes.keys), user_keys)
    return {repr(key): repr(entry) for key, entry in zip(keys, entries)}


def _compare(expected: _CutResult, got: _CutResult, one: str, other: str) -> None:
    for at, (row, instead) in enumerate(zip(expected.rows, got.rows)):
        assert row == instead, f"row {at}: {one} {row}, {other} {instead}"
    assert len(expected.rows) == len(got.rows), (
        f"{one} {len(expected.rows)} rows, {other} {len(got.rows)}"
    )
    assert expected.state == got.state, f"state: {one} {expected.state}, {other} {got.state}"
