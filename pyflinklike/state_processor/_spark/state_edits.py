# SPDX-License-Identifier: Apache-2.0
"""Edits states of a savepoint; an edit changes an operator's record and DataFrames together.

An edit runs no Spark job.  An edit that may fail for some rows keeps a query for these rows.  When the
savepoint is used, these queries run, and the rows of edited states are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st
from pyspark.sql.window import Window

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._messages import short_repr, shown_error
from pyflinklike._runtime.keyed_operator import describe_state
from pyflinklike._runtime.user_errors import where_raised
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.spark._wire.key_groups import key_group
from pyflinklike.spark._wire.system_columns import quote
from pyflinklike.state.descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from pyflinklike.state.fold_functions import AggregateFunction, as_reduce_function, not_returned
from pyflinklike.state_processor._checkpoints.group_job import (
    Batches,
    key_fields,
    map_frame,
    spark_schema,
)
from pyflinklike.state_processor._checkpoints.savepoint_frames import Frames
from pyflinklike.state_processor._checkpoints.spark_types import as_type, differs_as, is_wider
from pyflinklike.state_processor._logs.column_values import show_column, store_column, type_to_show
from pyflinklike.state_processor._logs.group_reader import TimersReader
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_rows import STREAM_TIME, StateRows
from pyflinklike.state_processor._savepoints.stored_sections import entries_of_rows
from pyflinklike.stores.state_store import describe_store
from pyflinklike.stores.store_descriptors import StoreDescriptor
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.catalog import type_of
from pyflinklike.types.nested_types import require_type

_OPTIONAL = frozenset(("stamp", STREAM_TIME, "key_group", "valid_to", "window_end", "last_use"))
"""Columns of a savepoint that a caller may leave out."""


def rows_of(record: OperatorRecord, name: str) -> StateRows:
    """Return the description of a state's rows in a savepoint.

    Raises:
        UnknownStateError: There is no such state.
    """
    return StateRows.saved_of(record, name, f"operator {record.identity.name!r}")


def of_descriptor(descriptor: Any) -> dict[str, Any]:
    """Return the declaration that a record has for a state or store with this descriptor.

    Raises:
        DeclarationTypeError: `descriptor` is not a descriptor.
    """
    if isinstance(descriptor, StoreDescriptor):
        return describe_store(descriptor)
    if isinstance(descriptor, StateDescriptor):
        return describe_state(descriptor.spec(), descriptor.ttl_config)
    msg = f"with_state takes a descriptor of a state or store, got {short_repr(descriptor)}"
    raise DeclarationTypeError(f"{msg}; for example ValueStateDescriptor(name, Types.LONG())")


def fit_rows(
    record: OperatorRecord, name: str, frame: DataFrame, order_by: Sequence[str] | str | None = None
) -> DataFrame:
    """Bring a DataFrame into the columns that a state has in a savepoint.

    Args:
        record: The record of the operator.
        name: The name of the state.
        frame: The key columns and the columns that `read_state` shows; others are dropped.
        order_by: The columns that order the elements of a list without a `position`.

    Raises:
        DeclarationValueError: A column is missing.
        DeclarationTypeError: The type of a column does not fit the state.
    """
    rows = rows_of(record, name)
    if rows.info.kind == "list" and "position" not in frame.columns:
        frame = _number_elements(rows, frame, order_by)
    if "key_group" in entry_of(rows) and "key_group" not in frame.columns:
        msg = f'{rows.info.name!r} is a store of scope "partition", whose entries need a key_group'
        raise DeclarationValueError(f"{msg}, got columns {frame.columns}; add it")
    if rows.info.kind == "lru":
        frame = _rank_uses(rows, frame)
    what = f"state {name!r}"
    placed = _with_group(record, frame, what, by_key=not rows.declaration.per_group)
    return _in_columns(rows.schema, placed, what)


def fold_elements(
    record: OperatorRecord,
    descriptor: Any,
    frame: DataFrame,
    order_by: Sequence[str] | str | None,
) -> DataFrame:
    """Fold elements by the function of a reducing or aggregating state, to a row for each key.

    Args:
        record: The record of the operator, which has the state.
        descriptor: The descriptor of the state.
        frame: The key columns and `value`, an element; if there is a `stamp`, the latest of a key
            counts.
        order_by: The columns that order the elements.

    Raises:
        DeclarationTypeError: The state does not fold, or elements have another type.
        DeclarationValueError: A column is missing.
    """
    rows, what = rows_of(record, descriptor.name), f"state {descriptor.name!r}"
    folding = _make_adding(descriptor, record.time_zone)
    needed = [*rows.keys.names, "value"]
    if not {*needed} <= {*frame.columns}:
        msg = f"{what}: elements must have the columns {needed}, got {frame.columns}"
        raise DeclarationValueError(f"{msg}; select() them")
    if folding.time_zone is None:
        field = spark_schema(rows.schema)["value"]
        frame = frame.withColumn("value", _fit_column(frame, field, what))
    by, order = rows.keys.names, _names_of(order_by)
    if "stamp" in frame.columns:
        one = Window.partitionBy(*map(quote, by))
        frame = frame.withColumn("stamp", F.max("stamp").over(one))
    # Spark numbers rows only in some order; a constant leaves the order open.
    chosen = [F.col(quote(each)) for each in order] or [F.lit(0)]
    return fold_rows(frame, by, chosen, folding)


def _names_of(order_by: Sequence[str] | str | None) -> list[str]:
    return [order_by] if isinstance(order_by, str) else list(order_by or ())


def fit_timers(record: OperatorRecord, frame: DataFrame) -> DataFrame:
    """Bring a DataFrame into the columns that timers have in a savepoint.

    Raises:
        DeclarationValueError: A column is missing.
        DeclarationTypeError: A column has another type.
    """
    placed = _with_group(record, frame, "timers", by_key=True)
    return _in_columns(TimersReader(record, None).schema, placed, "timers")


def _number_elements(
    rows: StateRows, frame: DataFrame, order_by: Sequence[str] | str | None
) -> DataFrame:
    if not order_by:
        msg = f"state {rows.info.name!r}: elements of a list need an order, got no column position"
        raise DeclarationValueError(f"{msg}; give order_by=<column>")
    by = Window.partitionBy(*map(quote, rows.keys.names))
    by = by.orderBy(*map(quote, _names_of(order_by)))
    return frame.withColumn("position", F.row_number().over(by).cast("long"))


def _rank_uses(rows: StateRows, frame: DataFrame) -> DataFrame:
    """Number the uses of an LRU store's entries in their order, each number once."""
    order = [quote("last_use")] if "last_use" in frame.columns else []
    owner = rows.keys.names if rows.key_fields else ["key_group"]
    by = Window.partitionBy(*map(quote, owner)).orderBy(*order, "store_key")
    return frame.withColumn("last_use", F.row_number().over(by).cast("long"))


def _with_group(record: OperatorRecord, frame: DataFrame, what: str, *, by_key: bool) -> DataFrame:
    """Add the key group of each key; the key group of a shared store's entries stays."""
    columns = KeyColumns.of(record)
    missing = [name for name in columns.names if name not in frame.columns]
    if not by_key or missing:
        return frame
    fitting = {each.name: _fit_column(frame, each, what) for each in key_fields(record)}
    frame = frame.withColumns(fitting)
    group = key_group(columns.names, record.identity.max_parallelism)
    return frame.withColumn("key_group", group)


def _in_columns(schema: pa.Schema, frame: DataFrame, what: str) -> DataFrame:
    chosen = []
    for field in spark_schema(schema).fields:
        if field.name not in frame.columns:
            if field.name not in _OPTIONAL:
                msg = f"{what}: rows must have the columns {schema.names}, got {frame.columns}"
                raise DeclarationValueError(f"{msg}; add {field.name!r}")
            chosen.append(F.lit(None).cast(field.dataType).alias(field.name))
            continue
        chosen.append(_fit_column(frame, field, what))
    return frame.select(*chosen)


def _fit_column(frame: DataFrame, field: st.StructField, what: str) -> Column:
    given = frame.schema[field.name].dataType
    column = F.col(quote(field.name))
    if given == field.dataType:
        return column.alias(field.name)
    if not is_wider(field.dataType, given):
        msg = f"{what}: column {field.name!r} is {field.dataType.simpleString()}"
        raise DeclarationTypeError(f"{msg}, got {given.simpleString()}; cast it")
    return column.cast(field.dataType).alias(field.name)


def entry_of(rows: StateRows) -> list[str]:
    """Return the columns that identify an entry in a savepoint.

    For state of scope "partition" they include the key group, since several key groups may hold
    an entry under one key.  Broadcast state is the same in every key group.
    """
    is_placed = rows.declaration.per_group and not rows.declaration.is_replicated
    return [*rows.entry_names, *(["key_group"] if is_placed else [])]


def each_state(
    frames: Frames, change: Callable[[str, DataFrame], DataFrame]
) -> dict[str, DataFrame]:
    """Change the DataFrames of all states."""
    return {name: change(name, frame) for name, frame in frames.states.items()}


# Casts of values to another type


def cast_values(
    frames: Frames, name: str, type_info: TypeInformation, *, lossy: bool
) -> tuple[Frames, Misfits]:
    """Cast the values of a state of an operator to another type.

    Args:
        frames: The operator that has the state.
        name: The name of the state.
        type_info: The new type of the values, of a list's elements, or of a map's values.
        lossy: Whether values may lose digits, and rows may lose fields.

    Returns:
        The changed operator, and the values that cannot be cast.

    Raises:
        UnknownStateError: There is no such state.
        DeclarationTypeError: The state has no values, one of the types is pickled, or Spark cannot
            cast between the types.
    """
    require_type(type_info, "type_info")
    rows, what = rows_of(frames.record, name), f"state {name!r}"
    stored = type_of(rows.declaration.value) if rows.declaration.value else None
    if stored is None or stored.is_pickled or type_info.is_pickled:
        msg = f"{what}: cast_state takes values of types that are not pickled, got {stored!r}"
        raise DeclarationTypeError(f"{msg} to {type_info!r}; convert them in the function")
    said = {**frames.record.states[name], "value": type_info.signature}
    frame, kind = frames.states[name], frames.states[name].schema["value"].dataType
    record = frames.with_state(name, said, frame).record
    wanted = spark_schema(rows_of(record, name).schema)["value"].dataType
    value = F.col("value")
    try:
        cast = frame.withColumn("value", as_type(value, kind, wanted))
        unfit = frame.where(differs_as(value, kind, wanted, lossy=lossy))
    except AnalysisException as error:
        msg = f"{what}: Spark cannot cast the values, got {stored!r} to {type_info!r}"
        raise DeclarationTypeError(f"{msg}; use transform_state() and with_state()") from error
    rule = f"{what}: values must be {'in the range' if lossy else 'values'} of {type_info!r}"
    remedy = (
        "use transform_state() first" if lossy else "use transform_state() first, or lossy=True"
    )
    keys = [F.col(quote(each)) for each in rows.entry_names]
    misfits = Misfits(unfit.select(*keys, "value"), rule, remedy)
    return frames.with_state(name, said, cast.select(*map(quote, frame.columns))), misfits


# Folding values with a user's function
#
# Spark brings the rows of an entry together, sorted and numbered, so a task holds one value at a time.

_NUMBER, _COUNT = "__number", "__count"


@attrs.frozen
class Folding:
    """The functions by which several values become one.

    Args:
        what: The name of the state in messages.
        kind: The type of the result.
        begin: Makes the result from the first value.
        go_on: Makes the next result from the result so far and one more value.
        time_zone: The zone in which a function sees instants; None if the values have the type
            `kind`.
    """

    what: str
    kind: TypeInformation
    begin: Callable[[Any], Any]
    go_on: Callable[[Any, Any], Any]
    time_zone: str | None = None


def _make_adding(descriptor: Any, time_zone: str) -> Folding:
    """Return the folding of elements to a reducing state's value or aggregating state's accumulator.

    Args:
        descriptor: The descriptor of the state.
        time_zone: The zone in which an aggregating function sees instants.

    Raises:
        DeclarationTypeError: The state is neither reducing nor aggregating.
    """
    what = f"state {descriptor.name!r}"
    if isinstance(descriptor, ReducingStateDescriptor):
        reduce = _returning("reduce", descriptor.get_reduce_function())
        return Folding(what, descriptor.type_info, _same, reduce)
    if isinstance(descriptor, AggregatingStateDescriptor):
        function = descriptor.get_agg_function()
        add = _returning("add", function)

        def first(element: Any) -> Any:
            return add(element, function.create_accumulator())

        def further(accumulator: Any, element: Any) -> Any:
            return add(element, accumulator)

        return Folding(what, descriptor.type_info, first, further, time_zone)
    msg = f"{what}: only reducing and aggregating state is folded from elements, got {descriptor!r}"
    raise DeclarationTypeError(f"{msg}; leave from_elements out")


def make_merging(name: str, kind: TypeInformation, function: Any) -> Folding:
    """Return the folding of the values of several keys to one value.

    Args:
        name: The name of the state.
        kind: The type of the state's values.
        function: An `AggregateFunction`, whose `merge` is called, a `ReduceFunction`, or a callable
            of two values.

    Raises:
        DeclarationTypeError: `function` is another object.
    """
    if isinstance(function, AggregateFunction):
        return Folding(f"state {name!r}", kind, _same, _returning("merge", function))
    reduce = _returning("reduce", as_reduce_function(function))
    return Folding(f"state {name!r}", kind, _same, reduce)


def _same(value: Any) -> Any:
    return value


def _returning(method: str, function: Any) -> Callable[[Any, Any], Any]:
    """Return a method of a user's function that raises if the method returns None."""
    call = getattr(function, method)

    def fold(first: Any, second: Any) -> Any:
        made = call(first, second)
        if made is None:
            raise not_returned(method, function)
        return made

    return fold


def fold_rows(
    frame: DataFrame, by: Sequence[str], order: Sequence[Column], folding: Folding
) -> DataFrame:
    """Fold rows that are equal in some columns to one row, which takes other columns from the last.

    Args:
        frame: The rows, with a column `value`.
        by: The columns that are equal in the rows to fold.
        order: The order in which values are folded.
        folding: The functions by which several values become one.
    """
    same = Window.partitionBy(*map(quote, by))
    numbered = frame.withColumns(
        {_NUMBER: F.row_number().over(same.orderBy(*order)), _COUNT: F.count(F.lit(1)).over(same)}
    )
    fields = [field for field in frame.schema.fields if field.name != "value"]
    value = pa.field("value", type_to_show(folding.kind, saved=True))
    (kind,) = spark_schema(pa.schema([value])).fields
    columns = [*(quote(field.name) for field in fields), "value", _NUMBER, _COUNT]
    job = _FoldJob(folding, tuple(by))
    return map_frame(numbered.select(*columns), job, st.StructType([*fields, kind]))


@attrs.frozen
class _FoldJob:
    """Folds the rows of one partition; the last columns are the value, its number and the count."""

    folding: Folding
    by: tuple[str, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        # Kept from one record batch to the next, since the rows of an entry may be in both.
        value = None
        for batch in batches:
            elements = self._elements(batch.column(batch.num_columns - 3))
            numbers, counts = (batch.column(batch.num_columns - at).to_pylist() for at in (2, 1))
            ends, values = [], []
            for at, (element, number, count) in enumerate(zip(elements, numbers, counts)):
                value = self._fold(value, element, batch, at, is_first=number == 1)
                if number == count:
                    ends.append(at)
                    values.append(self._frozen(value, batch, at))
            yield self._rows(batch.take(pa.array(ends, pa.int64())), values)

    def _elements(self, column: Any) -> list[Any]:
        if self.folding.time_zone is not None:
            return to_python(column, self.folding.time_zone)
        kind = self.folding.kind
        found = kind.from_arrow(store_column(column, kind, self.folding.what))
        return [None if each is None else kind.thaw(each) for each in found]

    def _fold(self, value: Any, element: Any, batch: Any, at: int, *, is_first: bool) -> Any:
        try:
            return self.folding.begin(element) if is_first else self.folding.go_on(value, element)
        except Exception as error:
            msg = f"{self.folding.what}: its function failed for {self._whose(batch, at)}, element "
            raised = f"{short_repr(element)}: {shown_error(error)}{where_raised(error)}"
            raise UserFunctionError(f"{msg}{raised}") from error

    def _frozen(self, value: Any, batch: Any, at: int) -> Any:
        try:
            return self.folding.kind.freeze(value)
        except StateValueError as error:
            msg = f"{self.folding.what}: {error}, which its function returned for "
            raise StateValueError(f"{msg}{self._whose(batch, at)}") from error

    def _whose(self, batch: Any, at: int) -> str:
        return short_repr({name: batch.column(name)[at].as_py() for name in self.by})

    def _rows(self, batch: pa.RecordBatch, values: list[Any]) -> pa.RecordBatch:
        kind = self.folding.kind
        names = batch.schema.names[:-2]
        value = show_column(kind.to_arrow(values), kind, saved=True)
        return pa.RecordBatch.from_arrays([*batch.columns[:-3], value], names)


# Checks, which run when the savepoint is used


@attrs.frozen(eq=False)
class Misfits:
    """Rows for which an edit has no result.

    Args:
        rows: A query for the rows, whose result should be empty.
        rule: The rule that the rows break, for the message.
        remedy: The advice at the end of the message.
    """

    rows: DataFrame
    rule: str
    remedy: str

    def refuse(self) -> None:
        """Check that there are no such rows; this runs a Spark job.

        Raises:
            StateValueError: There is a row; the message shows the first.
        """
        row = self.rows.first()
        if row is not None:
            msg = f"{self.rule}, got {short_repr(row.asDict(recursive=True))}; {self.remedy}"
            raise StateValueError(msg)


def refuse_several(frame: DataFrame, rows: StateRows) -> None:
    """Check that each entry has one row.

    Raises:
        StateValueError: An entry has several rows.
    """
    names = entry_of(rows)
    several = (
        frame.groupBy(*map(quote, names)).agg(F.count("*").alias("rows")).where(F.col("rows") > 1)
    )
    rule = f"state {rows.info.name!r}: an entry must have one row"
    Misfits(several, rule, "aggregate them first").refuse()


def refuse_misfits(frame: DataFrame, rows: StateRows) -> None:
    """Check that each key and value can be stored.

    Raises:
        StateValueError: A key or value cannot be stored; the message names it.
    """
    found = map_frame(frame, _MisfitsJob(rows), "message string").first()
    if found is not None:
        raise StateValueError(found["message"])


@attrs.frozen
class _MisfitsJob:
    """Yields a message for the first bad row of each record batch."""

    rows: StateRows

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            try:
                entries_of_rows(self.rows, pa.Table.from_batches([batch]))
            except (StateValueError, IncompatibleStateError) as error:
                yield pa.RecordBatch.from_pydict({"message": [str(error)]})
