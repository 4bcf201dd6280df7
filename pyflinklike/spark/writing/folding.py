# SPDX-License-Identifier: Apache-2.0
"""The fold of values by a user's function: of a state's elements, or of the values of several keys.

Spark brings the rows of an entry together, sorted and numbered, so a task holds one value of one
entry at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st
from pyspark.sql.window import Window

from pyflinklike.errors import DeclarationTypeError, StateValueError, UserFunctionError
from pyflinklike.functions import AggregateFunction, as_reduce_function
from pyflinklike.replay.stored_values import stored
from pyflinklike.replay.values import shown as shown_column
from pyflinklike.replay.values import shown_type
from pyflinklike.runtime.raised import where_raised
from pyflinklike.shown import shown, shown_error
from pyflinklike.spark.reading.jobs import mapped, spark_schema
from pyflinklike.spark.wire.names import quoted
from pyflinklike.state.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import to_python

__all__ = ["Folding", "adding", "folded", "merging"]

_NUMBER, _COUNT = "__number", "__count"
Batches = Iterable[pa.RecordBatch]


@attrs.frozen
class Folding:
    """The rules by which several values become one.

    Args:
        what: Names the state in messages.
        kind: The type of the result.
        begin: Makes the result from the first value.
        go_on: Makes the next result from the result so far and one more value.
        time_zone: The zone in which a function sees instants; None if the values are of `kind`.
    """

    what: str
    kind: TypeInformation
    begin: Callable[[Any], Any]
    go_on: Callable[[Any, Any], Any]
    time_zone: str | None = None


def adding(descriptor: Any, time_zone: str) -> Folding:
    """Return how elements become a reducing state's value or an aggregating state's accumulator.

    Args:
        descriptor: The descriptor of the state.
        time_zone: The zone in which an aggregating function sees instants.

    Raises:
        DeclarationTypeError: The state is neither.
    """
    what = f"state {descriptor.name!r}"
    if isinstance(descriptor, ReducingStateDescriptor):
        reduce = descriptor.get_reduce_function().reduce
        return Folding(what, descriptor.type_info, _same, reduce)
    if isinstance(descriptor, AggregatingStateDescriptor):
        function = descriptor.get_agg_function()

        def first(element: Any) -> Any:
            return function.add(element, function.create_accumulator())

        def further(accumulator: Any, element: Any) -> Any:
            return function.add(element, accumulator)

        return Folding(what, descriptor.type_info, first, further, time_zone)
    msg = f"{what}: only reducing and aggregating state is folded from elements, got {descriptor!r}"
    raise DeclarationTypeError(f"{msg}; leave from_elements out")


def merging(name: str, kind: TypeInformation, function: Any) -> Folding:
    """Return how the values of several keys become one.

    Args:
        name: The name of the state.
        kind: The type of the state's values.
        function: An `AggregateFunction`, whose `merge` is called, a `ReduceFunction`, or a callable
            of two values.

    Raises:
        DeclarationTypeError: `function` is none of these.
    """
    if isinstance(function, AggregateFunction):
        return Folding(f"state {name!r}", kind, _same, function.merge)
    return Folding(f"state {name!r}", kind, _same, as_reduce_function(function).reduce)


def _same(value: Any) -> Any:
    return value


def folded(
    frame: DataFrame, by: Sequence[str], order: Sequence[Column], folding: Folding
) -> DataFrame:
    """Fold rows that are equal in some columns to one row, which takes other columns from the last.

    Args:
        frame: The rows, with a column `value`.
        by: The columns in which rows are equal.
        order: The order in which values are folded.
        folding: How values become one.
    """
    same = Window.partitionBy(*map(quoted, by))
    numbered = frame.withColumns(
        {_NUMBER: F.row_number().over(same.orderBy(*order)), _COUNT: F.count(F.lit(1)).over(same)}
    )
    fields = [field for field in frame.schema.fields if field.name != "value"]
    value = pa.field("value", shown_type(folding.kind, saved=True))
    (kind,) = spark_schema(pa.schema([value])).fields
    columns = [*(quoted(field.name) for field in fields), "value", _NUMBER, _COUNT]
    job = _FoldJob(folding, tuple(by))
    return mapped(numbered.select(*columns), job, st.StructType([*fields, kind]))


@attrs.frozen
class _FoldJob:
    """Folds the rows of one partition; the last columns are the value, its number and the count."""

    folding: Folding
    by: tuple[str, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        # Lives across record batches, which may cut an entry in two.
        value = None
        for batch in batches:
            elements = self._elements(batch.column(batch.num_columns - 3))
            numbers, counts = (batch.column(batch.num_columns - at).to_pylist() for at in (2, 1))
            ends, values = [], []
            for at, (element, number, count) in enumerate(zip(elements, numbers, counts)):
                value = self._folded(value, element, batch, at, is_first=number == 1)
                if number == count:
                    ends.append(at)
                    values.append(self._frozen(value, batch, at))
            yield self._rows(batch.take(pa.array(ends, pa.int64())), values)

    def _elements(self, column: Any) -> list[Any]:
        if self.folding.time_zone is not None:
            return to_python(column, self.folding.time_zone)
        kind = self.folding.kind
        found = kind.from_arrow(stored(column, kind, self.folding.what))
        return [None if each is None else kind.thaw(each) for each in found]

    def _folded(self, value: Any, element: Any, batch: Any, at: int, *, is_first: bool) -> Any:
        try:
            return self.folding.begin(element) if is_first else self.folding.go_on(value, element)
        except Exception as error:
            msg = f"{self.folding.what}: its function failed for {self._whose(batch, at)}, element "
            raised = f"{shown(element)}: {shown_error(error)}{where_raised(error)}"
            raise UserFunctionError(f"{msg}{raised}") from error

    def _frozen(self, value: Any, batch: Any, at: int) -> Any:
        try:
            return self.folding.kind.freeze(value)
        except StateValueError as error:
            msg = f"{self.folding.what}: {error}, which its function gave for "
            raise StateValueError(f"{msg}{self._whose(batch, at)}") from error

    def _whose(self, batch: Any, at: int) -> str:
        return shown({name: batch.column(name)[at].as_py() for name in self.by})

    def _rows(self, batch: pa.RecordBatch, values: list[Any]) -> pa.RecordBatch:
        kind = self.folding.kind
        names = batch.schema.names[:-2]
        value = shown_column(kind.to_arrow(values), kind, saved=True)
        return pa.RecordBatch.from_arrays([*batch.columns[:-3], value], names)
