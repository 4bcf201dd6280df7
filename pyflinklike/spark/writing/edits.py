# SPDX-License-Identifier: Apache-2.0
"""What verbs of `Savepoint` do to one operator: its record and its DataFrames together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql.window import Window

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
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
from pyflinklike.spark.writing.saving import Frames
from pyflinklike.state.descriptors import StateDescriptor
from pyflinklike.stores.descriptors import StoreDescriptor
from pyflinklike.stores.registry import declared_store

__all__ = [
    "each_state",
    "fitted",
    "fitted_timers",
    "of_descriptor",
    "refuse_several",
    "rows_of",
    "with_said",
]

_OPTIONAL = frozenset(("stamp", STREAM_TIME, "key_group", "valid_to", "window_end", "last_use"))
"""Columns of a savepoint that need not be given."""


def rows_of(record: OperatorRecord, name: str) -> StateRows:
    """What the rows of a state are in a savepoint.

    Raises:
        UnknownStateError: There is no such state.
    """
    info = state_of(described(record, 0), name, f"operator {record.identity.name!r}")
    return StateRows.of(record, info, saved=True)


def with_said(record: OperatorRecord, states: Mapping[str, Mapping[str, Any]]) -> OperatorRecord:
    """The record of an operator that has these states."""
    return attrs.evolve(record, states=dict(states))


def of_descriptor(descriptor: Any) -> dict[str, Any]:
    """What a record says of a state or store that is declared so.

    Raises:
        DeclarationTypeError: It is no descriptor.
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
    """A DataFrame in the columns of a state in a savepoint.

    Args:
        record: Of the operator.
        name: Of the state.
        frame: Has the key columns and what `read_state` shows; more columns are left out.
        order_by: Of the elements of a list that has no `position`.

    Raises:
        DeclarationValueError: A column is missing.
        DeclarationTypeError: A column is of a type that is none of the state's.
    """
    rows = rows_of(record, name)
    if rows.info.kind == "list" and "position" not in frame.columns:
        frame = _numbered(rows, frame, order_by)
    if rows.info.kind == "lru" and "last_use" not in frame.columns:
        frame = frame.withColumn("last_use", F.monotonically_increasing_id())
    placed = _with_group(record, frame, by_key=not rows.declaration.per_group)
    return _in_columns(rows.schema, placed, f"state {name!r}")


def fitted_timers(record: OperatorRecord, frame: DataFrame) -> DataFrame:
    """A DataFrame in the columns of timers in a savepoint.

    Raises:
        DeclarationValueError: A column is missing.
        DeclarationTypeError: One is of another type.
    """
    placed = _with_group(record, frame, by_key=True)
    return _in_columns(TimersReader(record, None).schema, placed, "timers")


def _numbered(rows: StateRows, frame: DataFrame, order_by: Sequence[str] | str | None) -> DataFrame:
    if not order_by:
        msg = f"state {rows.info.name!r}: elements of a list have an order, got no column position"
        raise DeclarationValueError(f"{msg}; give order_by=<column>")
    names = [order_by] if isinstance(order_by, str) else list(order_by)
    by = Window.partitionBy(*map(quoted, rows.keys.names)).orderBy(*map(quoted, names))
    return frame.withColumn("position", F.row_number().over(by).cast("long"))


def _with_group(record: OperatorRecord, frame: DataFrame, *, by_key: bool) -> DataFrame:
    """The rows with the key groups that their keys are in; a place of a shared store stays."""
    columns = KeyColumns.of(record)
    missing = [name for name in columns.names if name not in frame.columns]
    if not by_key or missing:
        return frame
    types = [field.dataType for field in spark_schema(pa.schema(columns.fields)).fields]
    cast = [F.col(quoted(name)).cast(kind) for name, kind in zip(columns.names, types)]
    frame = frame.withColumns(dict(zip(columns.names, cast)))
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
        given = frame.schema[field.name].dataType
        column: Column = F.col(quoted(field.name))
        if given != field.dataType:
            if not _may_become(given.typeName(), field.dataType.typeName()):
                msg = f"{what}: column {field.name!r} is {field.dataType.simpleString()}"
                raise DeclarationTypeError(f"{msg}, got {given.simpleString()}; cast it")
            column = column.cast(field.dataType)
        chosen.append(column.alias(field.name))
    return frame.select(*chosen)


_WIDER = (
    ("void",),
    ("byte", "short", "integer", "long"),
    ("float", "double"),
    ("array",),
    ("map",),
    ("struct",),
    ("timestamp", "timestamp_ntz"),
)


def _may_become(given: str, wanted: str) -> bool:
    """Whether a cast changes no value: to a wider number, or of what is nested in the same way."""
    names = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
    given, wanted = names.get(given, given), names.get(wanted, wanted)
    if given in ("void", wanted):
        return True
    chain = next((each for each in _WIDER if given in each and wanted in each), ())
    return bool(chain) and "timestamp" not in chain and chain.index(given) <= chain.index(wanted)


def refuse_several(frame: DataFrame, rows: StateRows) -> None:
    """See that each entry has one row.

    Raises:
        StateValueError: One has several.
    """
    names = rows.entry_names
    if rows.declaration.per_group:
        names = [*names, "key_group"]
    several = frame.groupBy(*map(quoted, names)).count().where("count > 1").first()
    if several is not None:
        found = {name: several[name] for name in names}
        msg = f"state {rows.info.name!r}: an entry has one row, got {several['count']} of {found}"
        raise StateValueError(f"{msg}; aggregate them first")


def each_state(
    frames: Frames, change: Callable[[str, DataFrame], DataFrame]
) -> dict[str, DataFrame]:
    """The DataFrames of all states, changed."""
    return {name: change(name, frame) for name, frame in frames.states.items()}
