# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of a job's keyed operators, for the hosts of keyed operators.

A host gets a reader for inputs and a layout for outputs.  For DataFrames both know Spark's columns; here
inputs and outputs are pickles.  In a batch the operators that share a shuffle run one after the other in each
task: Spark has sorted the rows by key group, and the ranges of the operators follow one another.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as st

from pyflinklike._runtime.micro_batch import (
    NO_RECORDS,
    Records,
    RecordsAfterBroadcast,
    UnsortedRecords,
)
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike._runtime.outputs import Outputs
from pyflinklike.functions.metric_group import Increment
from pyflinklike.pyflink._graph.job_run import counts_of_operator
from pyflinklike.pyflink._spark.stage_outputs import BROADCAST, RESULT_SCHEMA, Record
from pyflinklike.pyflink._spark.stage_task import StageTask
from pyflinklike.pyflink._spark.stages import COUNTS
from pyflinklike.spark._host.batch_host import run_batch
from pyflinklike.spark._plan.operator_plan import Plan
from pyflinklike.spark._wire.key_groups import first_of, operator_index_of
from pyflinklike.spark._wire.payloads import Packing
from pyflinklike.spark._wire.stage_records import (
    PASSED_ON,
    Address,
    StageRecord,
    cell_of,
    dump,
    in_cell,
    wrap,
    wrap_to_pass,
)
from pyflinklike.spark._wire.system_columns import KEY_GROUP
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.types import TypeInformation
from pyflinklike.types.frozen_keys import with_the_one_nan
from pyflinklike.types.pickled_type import Pickled

_WITHOUT_FLOATS = frozenset({Pickled, str, int, bytes, type(None)})
"""The classes of most keys.  Their values contain no NaN, so they need no further look."""


@attrs.frozen
class ObjectReader:
    """Reads records of Python objects: a reader as of `spark._wire.record_readers`.

    Args:
        key_type: The type of the keys.
        time_zone: The time zone of the Spark session.
        before: The stage that packs the records.
        has_two_inputs: True if the operator gets pairs of input number and element.
    """

    key_type: TypeInformation
    time_zone: str
    before: StageTask
    has_two_inputs: bool = attrs.field(default=False, kw_only=True)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Empty: keys are no columns."""
        return ()

    @property
    def event_time(self) -> str | None:
        """The name of the time of elements in the operator record."""
        return "timestamp"

    @property
    def before_watermark(self) -> str | None:
        """Set after another keyed operator, whose stage records say whether they precede the watermark."""
        return "is_early" if self.before.stage.number > 0 else None

    def make_packing(self, group_ids: Sequence[int]) -> Packing:  # noqa: ARG002
        """Return the function that packs the records of a task, which the stage before does."""
        return self.before.run

    def read_payloads(self, payloads: Sequence[pa.RecordBatch]) -> Records:
        """Return the records of payloads, in the order of arrival."""
        return self._records(_opened(map(_stage_record, payloads)))

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """Return the records before the watermark of their micro-batch, and the others."""
        parcels = list(map(_stage_record, payloads))
        early, others = (
            self._records(_opened(each for each in parcels if each.address.is_early is is_early))
            for is_early in (True, False)
        )
        return early, others

    def read_sorted(self, records: pa.RecordBatch) -> Records:
        """Return the records of rows that Spark has sorted."""
        cells, times = (records.column(name).to_pylist() for name in ("parcel", "time"))
        return self._records(
            (*pickle.loads(cell), time)  # noqa: S301  # of the job's own stage
            for cell, time in zip(cells, times)
        )

    def _records(self, found: Iterable[_Found]) -> Records:
        if self.has_two_inputs:
            found = ((at, key, (at + 1, value), time) for at, key, value, time in found)
        return _records_of([(_restore_key(key), value, time) for _, key, value, time in found])


@attrs.frozen
class BroadcastObjectReader(ObjectReader):
    """Reads records for an operator whose second input is broadcast.

    Args:
        has_keys: Whether the elements of the first input have keys.
    """

    has_keys: bool = attrs.field(kw_only=True)

    def _records(self, found: Iterable[_Found]) -> Records:
        broadcast: list[tuple[Any, int | None]] = []
        main: list[Record] = []
        for position, key, value, time in found:
            # A broadcast element has no key.  In a batch its time is there: the column `time` sorts it first.
            if position == BROADCAST:
                broadcast.append((value, key if time is None else time))
            else:
                main.append((_restore_key(key), value, time))
        records = _records_of(main)
        if not self.has_keys:
            records = records._replace(keys=[GROUP_KEY] * len(records.values))
        return RecordsAfterBroadcast(records, broadcast) if broadcast else records


_Found = tuple[int, Any, Any, "int | None"]
"""The number of an input, with a key, an element and its time."""


def _stage_record(payload: pa.RecordBatch) -> StageRecord:
    return StageRecord.from_bytes(cell_of(payload))


def _opened(parcels: Iterable[StageRecord]) -> Iterator[_Found]:
    for parcel in parcels:
        position = parcel.address.position
        for key, value, time in parcel.records():
            yield position, key, value, time


def _restore_key(key: Any) -> Any:
    """Return a key that was pickled, with its NaNs replaced by one object: else it would not equal itself."""
    return key if key.__class__ in _WITHOUT_FLOATS else with_the_one_nan(key)


def _records_of(found: list[Record]) -> Records:
    return UnsortedRecords(*map(list, zip(*found))) if found else NO_RECORDS


@attrs.frozen
class ObjectLayout:
    """Lays out the outputs of a keyed operator: for each output a pickle of elements with their times.

    It stands in for `spark._wire.output_layout.OutputLayout`.

    Args:
        sides: The ids of the side outputs that are read.
    """

    sides: tuple[str, ...]
    before_watermark: str | None = None

    def encoder(
        self,
        show_key: Callable[[Any], Any],  # noqa: ARG002  # an element's error names the element
    ) -> Callable[[Outputs], list[tuple[int, pa.RecordBatch]]]:
        """Return the function that makes numbered record batches from outputs."""

        def encode(outputs: Outputs) -> list[tuple[int, pa.RecordBatch]]:
            found = [(0, outputs.main)] if outputs.main else []
            for number, tag_id in enumerate(self.sides, 1):
                if tag_id in outputs.side:
                    found.append((number, outputs.side[tag_id][1]))
            return [(number, in_cell(dump(list(map(tuple, values))))) for number, values in found]

        return encode

    def arranger(self) -> Callable[[int, pa.RecordBatch], pa.RecordBatch]:
        """Return the function that makes a row from a numbered record batch, as a stream needs it."""

        def arrange(number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
            return RESULT_SCHEMA.batch([(number, wrap(cell_of(batch)))])

        return arrange

    def result_type(self) -> st.StructType:
        """Return the schema of the result."""
        return st.StructType(
            [st.StructField("output", st.IntegerType()), st.StructField("payload", st.BinaryType())]
        )


Batches = Iterable[pa.RecordBatch]


def run_in_batch(
    plans: Sequence[Plan], *, tells_counts: bool = False
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return the function that processes the sorted rows of a task, for `mapInArrow`.

    Rows without a key group are stage records for later stages, and pass unopened.

    Args:
        plans: The plans of the operators, in the order of their indexes.
        tells_counts: Whether each task sends the metrics of its operators to the last stage.
    """
    hosts = [run_batch(plan, _send_counts(plan) if tells_counts else None) for plan in plans]

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        passed: list[pa.RecordBatch] = []
        for place, mine in groupby(_by_place(_separate(batches, passed)), lambda each: each[0]):
            for results in hosts[place](batch for _, batch in mine):
                # Early, so that passing records do not pile up until the task ends.
                while passed:
                    yield passed.pop()
                yield results
        yield from passed

    return run


def _send_counts(plan: Plan) -> Callable[..., pa.RecordBatch]:
    """Return the function that makes a stage record from an operator's metrics, for the last stage."""

    def send(numbers: list[int], increments: list[Increment]) -> pa.RecordBatch:
        own = dict(zip(OperatorMetrics.names(), numbers))
        counts = counts_of_operator(plan.task.name, own, increments)
        return _pass([StageRecord(Address(COUNTS, 0), dump(list(map(tuple, counts)))).to_bytes()])

    return send


def _pass(parcels: list[bytes]) -> pa.RecordBatch:
    """Make outputs from stage records that only pass."""
    return RESULT_SCHEMA.batch((PASSED_ON, wrap_to_pass(each)) for each in parcels)


def _separate(batches: Batches, passed: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        passes = pc.less(batch.column(KEY_GROUP), 0)
        through = batch.filter(passes).column("parcel").to_pylist()
        if through:
            passed.append(_pass(through))
        yield batch.filter(pc.invert(passes))


def _by_place(batches: Batches) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each operator by its index, with key groups counted from 0."""
    for batch in batches:
        start = 0
        groups = batch.column(KEY_GROUP)
        while start < batch.num_rows:
            place = operator_index_of(groups[start].as_py())
            # Rows are sorted, so the rows of an operator end at the first one of a later range.
            end = start + pc.sum(pc.less(groups.slice(start), first_of(place + 1))).as_py()
            own = pc.subtract(
                groups.slice(start, end - start), pa.scalar(first_of(place), pa.int32())
            )
            rows = batch.slice(start, end - start)
            yield place, rows.set_column(batch.schema.get_field_index(KEY_GROUP), KEY_GROUP, own)
            start = end
