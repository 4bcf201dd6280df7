# SPDX-License-Identifier: Apache-2.0
"""Columns of entries written as payloads of sections, and read back.

The bytes are the same as those of single entries, so a reader need not know which of the two was
written.  The checks are the same, too, a column at a time.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.errors import StateValueError
from pyflinklike.log.decoding import decoding
from pyflinklike.log.entries import (
    HAS_OPERATIONS,
    HAS_STAMPS,
    MAX_ENTRY,
    divided_batch,
    encode_batch,
    schema_of,
)
from pyflinklike.log.segments import SEGMENT_BYTES, Section
from pyflinklike.log.stored_entries import has_stamps, read_batch
from pyflinklike.shown import shown_state
from pyflinklike.state.column_changes import CLEAR, PUT, ColumnChanges
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.types import TypeInformation, Types

__all__ = ["decode_columns", "encode_columns"]

_WHOLE = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}


def encode_columns(
    changes: ColumnChanges,
    key_type: TypeInformation,
    limit: int = SEGMENT_BYTES,
    largest: int = MAX_ENTRY,
) -> list[bytes]:
    """Write columns as payloads of one or more sections, in their order.

    Args:
        changes: Changes of one table.
        key_type: Type of the keys.
        limit: Most bytes of a payload with more than one entry.
        largest: Most bytes of a single entry.

    Raises:
        StateValueError: A single entry is larger than a segment can be.
    """
    flags = HAS_STAMPS if changes.spec.paired else 0
    columns = [changes.keys]
    if changes.user_keys is not None:
        columns.append(changes.user_keys)
    if changes.spec.value_type is not None:
        columns.append(changes.values)
    if changes.stamps is not None:
        columns.append(pa.array(changes.stamps, pa.int64()))
    if changes.operations is not None:
        flags |= HAS_OPERATIONS
        columns.append(pa.array(changes.operations, pa.int8()))
    schema = schema_of(changes.spec, key_type, flags)
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    payloads = []
    for part in divided_batch(batch, limit):
        if part.nbytes > largest:
            msg = (
                f"{shown_state(changes.spec.name)}: one entry may take {largest:,} bytes at most, got "
                f"{part.nbytes:,}; divide it into several"
            )
            raise StateValueError(msg)
        payloads.append(encode_batch(part))
    return payloads


def decode_columns(
    section: Section, spec: TableSpec, key_type: TypeInformation, stamp: int, where: str
) -> ColumnChanges:
    """Read the changes of a section as columns, in the form that the program declares.

    Args:
        section: A section as read from a segment.
        spec: The program's, without namespaces; its declaration must have been checked.
        key_type: Type of the operator's keys.
        stamp: Stamp for entries written before TTL was switched on, in ms.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: The payload is not a record batch of the declared types, or holds
            what no program writes.
    """
    batch = read_batch(section, spec, key_type, where)
    place = f"{section.place or where}, state {spec.name!r}"
    with decoding(place, "must hold what a program writes"):
        return _decoded(batch, section, spec, key_type, stamp)


def _decoded(
    batch: pa.RecordBatch,
    section: Section,
    spec: TableSpec,
    key_type: TypeInformation,
    stamp: int,
) -> ColumnChanges:
    columns = dict(zip(batch.schema.names, batch.columns))
    keys = columns["key"]
    _refuse_nulls(keys, None)
    if pa.types.is_binary(key_type.arrow_type):
        key_type.from_arrow(keys)  # encoded keys are bytes to Arrow: only decoding checks them
    operations = None
    if "operation" in columns:
        operations = _operations(columns["operation"])
    stamps = None
    if spec.paired:
        stamps = _stamps(columns, operations, stamp) if has_stamps(section) else None
        if stamps is None:
            stamps = pa.array([stamp]).take(pa.nulls(len(keys), pa.int64()).fill_null(0)).to_numpy()
    user_keys = None
    if spec.shape is not Shape.SINGLE:
        user_keys = _user_keys(columns["user_key"], spec, operations)
    values = _values(columns.get("value"), spec, operations, len(keys))
    return ColumnChanges(spec, keys, values, stamps, operations, user_keys=user_keys)


def _stamps(columns: dict[str, Any], operations: Any, stamp: int) -> Any:
    column = columns["stamp"]
    _refuse_nulls(column, operations)
    return column.fill_null(stamp).to_numpy()


def _values(column: Any, spec: TableSpec, operations: Any, rows: int) -> Any:
    if spec.value_type is None:
        return pa.nulls(rows)
    if not (spec.nullable or spec.value_type.accepts_none):
        _refuse_nulls(column, operations)
    _check_range(column, spec.value_type)
    return column


def _user_keys(column: Any, spec: TableSpec, operations: Any) -> Any:
    """Return the user keys of rows; only rows that clear a key have none.

    Raises:
        ValueError: Another row has none, or a user key is out of its type's range.
    """
    rest = column
    if operations is not None:
        rest = column.slice(int((operations == CLEAR).sum()))
    _refuse_nulls(rest, None)
    if spec.user_key_type is not None:
        _check_range(rest, spec.user_key_type)
    return column


def _check_range(column: Any, type_info: TypeInformation) -> None:
    """Refuse values that the Arrow type can hold and the declared one cannot.

    Raises:
        ValueError: A string is not one character, or a time is not in the years 1 to 9999.
    """
    if type_info == Types.CHAR():
        type_info.from_arrow(column)
    kind = column.type
    if pa.types.is_struct(kind):
        for part, field_type in zip(column.flatten(), type_info.field_types):  # type: ignore[attr-defined]
            _check_range(part, field_type)
    if kind not in _WHOLE:
        return
    time = dt.date if pa.types.is_date(kind) else dt.datetime
    ends = [pa.scalar(end, kind).cast(_WHOLE[kind]).as_py() for end in (time.min, time.max)]
    found = pc.min_max(column.cast(_WHOLE[kind])).as_py()
    if found["min"] is not None and not ends[0] <= found["min"] <= found["max"] <= ends[1]:
        msg = f"a time that is not in the years 1 to 9999: {kind}"
        raise ValueError(msg)


def _operations(column: Any) -> Any:
    """Return the operation of each row.

    Raises:
        ValueError: An operation is of an unknown kind, or clears a key after others.
    """
    _refuse_nulls(column, None)
    operations = column.to_numpy()
    if len(operations) and not PUT <= operations.min() <= operations.max() <= CLEAR:
        msg = "operations of an unknown kind"
        raise ValueError(msg)
    if (operations[int((operations == CLEAR).sum()) :] == CLEAR).any():
        msg = "operations that clear a key after others"
        raise ValueError(msg)
    return operations


def _refuse_nulls(column: Any, operations: Any) -> None:
    """Refuse nulls in rows that put a value.

    Raises:
        ValueError: Such a row has a null.
    """
    if not column.null_count:
        return
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    if operations is None or (nulls & (operations == PUT)).any():
        msg = "a null where there must be a value"
        raise ValueError(msg)
