# SPDX-License-Identifier: Apache-2.0
"""The edits of one operator in a savepoint, which change its record and its DataFrames together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st
from pyspark.sql.window import Window

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replay.described import described, state_of
from pyflinklike.replay.group import TimersReader
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.replay.rows import STREAM_TIME, StateRows
from pyflinklike.runtime.declared_states import declared_state
from pyflinklike.shown import shown
from pyflinklike.spark.reading.jobs import spark_schema
from pyflinklike.spark.wire.key_hash import key_group
from pyflinklike.spark.wire.names import quoted
from pyflinklike.spark.writing.folding import adding, folded
from pyflinklike.spark.writing.saving import Frames
from pyflinklike.state.descriptors import StateDescriptor
from pyflinklike.stores.descriptors import StoreDescriptor
from pyflinklike.stores.registry import declared_store

__all__ = [
    "each_state",
    "entry_of",
    "fitted",
    "fitted_timers",
    "folded_elements",
    "of_descriptor",
    "rows_of",
    "with_said",
]

_OPTIONAL = frozenset(("stamp", STREAM_TIME, "key_group", "valid_to", "window_end", "last_use"))
"""Columns of a savepoint that a caller may leave out."""


def rows_of(record: OperatorRecord, name: str) -> StateRows:
    """Return the form that the rows of a state have in a savepoint.

    Raises:
        UnknownStateError: There is no such state.
    """
    info = state_of(described(record, 0), name, f"operator {record.identity.name!r}")
    return StateRows.of(record, info, saved=True)


def with_said(record: OperatorRecord, states: Mapping[str, Mapping[str, Any]]) -> OperatorRecord:
    """Return the record of an operator with other declarations of states."""
    return attrs.evolve(record, states=dict(states))


def of_descriptor(descriptor: Any) -> dict[str, Any]:
    """Return what a record says of a state or store with this descriptor.

    Raises:
        DeclarationTypeError: `descriptor` is no descriptor.
    """
    if isinstance(descriptor, StoreDescriptor):
        return declared_store(descriptor)
    if isinstance(descriptor, StateDescriptor):
        return declared_state(descriptor.spec(), descriptor.ttl_config)
    msg = f"with_state takes a descriptor of a state or store, got {shown(descriptor)}"
    raise DeclarationTypeError(f"{msg}; for example ValueStateDescriptor(name, Types.LONG())")


def fitted(
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
        frame = _numbered(rows, frame, order_by)
    if "key_group" in entry_of(rows) and "key_group" not in frame.columns:
        msg = f'{rows.info.name!r} is a store of scope "partition", whose entries have a key_group'
        raise DeclarationValueError(f"{msg}, got columns {frame.columns}; add it")
    if rows.info.kind == "lru":
        frame = _ranked(rows, frame)
    what = f"state {name!r}"
    placed = _with_group(record, frame, what, by_key=not rows.declaration.per_group)
    return _in_columns(rows.schema, placed, what)


def folded_elements(
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
    folding = adding(descriptor, record.time_zone)
    needed = [*rows.keys.names, "value"]
    if not {*needed} <= {*frame.columns}:
        msg = f"{what}: elements have the columns {needed}, got {frame.columns}"
        raise DeclarationValueError(f"{msg}; select() them")
    if folding.time_zone is None:
        field = spark_schema(rows.schema)["value"]
        frame = frame.withColumn("value", _fitted_column(frame, field, what))
    by, order = rows.keys.names, _names_of(order_by)
    if "stamp" in frame.columns:
        one = Window.partitionBy(*map(quoted, by))
        frame = frame.withColumn("stamp", F.max("stamp").over(one))
    # Spark numbers rows only in some order; a constant leaves the order open.
    chosen = [F.col(quoted(each)) for each in order] or [F.lit(0)]
    return folded(frame, by, chosen, folding)


def _names_of(order_by: Sequence[str] | str | None) -> list[str]:
    return [order_by] if isinstance(order_by, str) else list(order_by or ())


def fitted_timers(record: OperatorRecord, frame: DataFrame) -> DataFrame:
    """Bring a DataFrame into the columns that timers have in a savepoint.

    Raises:
        DeclarationValueError: A column is missing.
        DeclarationTypeError: A column has another type.
    """
    placed = _with_group(record, frame, "timers", by_key=True)
    return _in_columns(TimersReader(record, None).schema, placed, "timers")


def _numbered(rows: StateRows, frame: DataFrame, order_by: Sequence[str] | str | None) -> DataFrame:
    if not order_by:
        msg = f"state {rows.info.name!r}: elements of a list have an order, got no column position"
        raise DeclarationValueError(f"{msg}; give order_by=<column>")
    by = Window.partitionBy(*map(quoted, rows.keys.names))
    by = by.orderBy(*map(quoted, _names_of(order_by)))
    return frame.withColumn("position", F.row_number().over(by).cast("long"))


def _ranked(rows: StateRows, frame: DataFrame) -> DataFrame:
    """Number the uses of an LRU store's entries in their order, each number once."""
    order = [quoted("last_use")] if "last_use" in frame.columns else []
    owner = rows.keys.names if rows.key_fields else ["key_group"]
    by = Window.partitionBy(*map(quoted, owner)).orderBy(*order, "store_key")
    return frame.withColumn("last_use", F.row_number().over(by).cast("long"))


def _with_group(record: OperatorRecord, frame: DataFrame, what: str, *, by_key: bool) -> DataFrame:
    """Add the key group of each key; the key group of a shared store's entries stays."""
    columns = KeyColumns.of(record)
    missing = [name for name in columns.names if name not in frame.columns]
    if not by_key or missing:
        return frame
    fields = spark_schema(pa.schema(columns.fields)).fields
    frame = frame.withColumns({each.name: _fitted_column(frame, each, what) for each in fields})
    group = key_group(columns.names, record.identity.max_parallelism)
    return frame.withColumn("key_group", group)


def _in_columns(schema: pa.Schema, frame: DataFrame, what: str) -> DataFrame:
    chosen = []
    for field in spark_schema(schema).fields:
        if field.name not in frame.columns:
            if field.name not in _OPTIONAL:
                msg = f"{what}: it has the columns {schema.names}, got {frame.columns}"
                raise DeclarationValueError(f"{msg}; add {field.name!r}")
            chosen.append(F.lit(None).cast(field.dataType).alias(field.name))
            continue
        chosen.append(_fitted_column(frame, field, what))
    return frame.select(*chosen)


def _fitted_column(frame: DataFrame, field: st.StructField, what: str) -> Column:
    given = frame.schema[field.name].dataType
    column = F.col(quoted(field.name))
    if given == field.dataType:
        return column.alias(field.name)
    if not _may_become(given, field.dataType):
        msg = f"{what}: column {field.name!r} is {field.dataType.simpleString()}"
        raise DeclarationTypeError(f"{msg}, got {given.simpleString()}; cast it")
    return column.cast(field.dataType).alias(field.name)


_WIDER: tuple[tuple[type[st.DataType], ...], ...] = (
    (st.ByteType, st.ShortType, st.IntegerType, st.LongType),
    (st.FloatType, st.DoubleType),
)


def _may_become(given: st.DataType, wanted: st.DataType) -> bool:
    """Return whether a cast keeps every value: to a wider number, also within nested types.

    Spark casts the fields of a struct by position, whatever their names; so the names must agree.
    """
    match given, wanted:
        case st.NullType(), _:
            return True
        case st.ArrayType(), st.ArrayType():
            return _may_become(given.elementType, wanted.elementType)
        case st.MapType(), st.MapType():
            keys = _may_become(given.keyType, wanted.keyType)
            return keys and _may_become(given.valueType, wanted.valueType)
        case st.StructType(), st.StructType():
            pairs = zip(given.fields, wanted.fields)
            return given.names == wanted.names and all(
                _may_become(one.dataType, other.dataType) for one, other in pairs
            )
        case st.DecimalType(), st.DecimalType():
            whole = wanted.precision - wanted.scale >= given.precision - given.scale
            return whole and wanted.scale >= given.scale
    kinds = type(given), type(wanted)
    chain = next((each for each in _WIDER if set(kinds) <= {*each}), ())
    is_wider = bool(chain) and chain.index(kinds[0]) <= chain.index(kinds[1])
    return is_wider or given == wanted


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
