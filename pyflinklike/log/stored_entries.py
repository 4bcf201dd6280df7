# SPDX-License-Identifier: Apache-2.0
"""Entries read from the payload of a section, whoever wrote it.

Every entry is data: reading runs no code of its choosing.  A payload is checked before Arrow opens
it (`pyflinklike.log.arrow_message`).  What is decoded is checked against what `encode_entries`
writes: keys are never null, and values only where their type takes None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.log.arrow_message import read_checked, rows_of
from pyflinklike.log.declaration import grown
from pyflinklike.log.decoding import decoding
from pyflinklike.log.entries import (
    CLEAR,
    DELETE,
    HAS_OPERATIONS,
    HAS_STAMPS,
    LONG,
    PREFIX,
    PUT,
    layout_of,
    schema_of,
)
from pyflinklike.log.segments import Section
from pyflinklike.state.column_changes import Changes
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state.table import MISSING, Shape, TableChanges, TableSpec
from pyflinklike.types import TypeInformation

__all__ = [
    "MAX_POSITION",
    "are_positions",
    "decode_entries",
    "has_stamps",
    "keys_of",
    "read_batch",
    "rows_in",
]

MAX_POSITION = 2**48
"""Above the position of any element of a list: nobody has appended so many to one key.

Positions count what was appended, also what is gone since: a queue of ten elements may be at four
billion.  So a limit cannot follow from the length of a list.
"""
_NOTHING_RESERVED = bytes(7)


def read_batch(
    section: Section, spec: TableSpec, key_type: TypeInformation, where: str
) -> pa.RecordBatch:
    """Read the columns of a section, in the types of the spec.

    Args:
        section: A section as read from a segment; the type of its values may have grown since.
        spec: Declaration of its table; `paired` does not matter.
        key_type: Type of the keys.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: The payload is not a record batch of these types.
    """
    with _decoding(section, where):
        return _batch(section, spec, key_type)


def _decoding(section: Section, where: str) -> decoding:
    place = section.place or where
    return decoding(f"{place}, state {section.declaration.name!r}", "must be an Arrow batch")


def _batch(section: Section, spec: TableSpec, key_type: TypeInformation) -> pa.RecordBatch:
    batch = _typed(section, spec, key_type)
    if spec.shape is Shape.LIST and not are_positions(batch.column("user_key")):
        msg = f"positions of a list outside 0 to {MAX_POSITION:,}"
        raise ValueError(msg)
    return batch


def are_positions(column: Any) -> bool:
    """Return whether the numbers that are not null can be positions in lists."""
    ends = pc.min_max(column)
    first, last = ends["min"].as_py(), ends["max"].as_py()
    return first is None or 0 <= first <= last <= MAX_POSITION


def _typed(section: Section, spec: TableSpec, key_type: TypeInformation) -> pa.RecordBatch:
    flags, payload = _flags_of(section), pa.py_buffer(section.payload)[PREFIX.size :]
    written = section.declaration.value
    if spec.value_type is None or written == spec.value_type.signature:
        return read_checked(payload, layout_of(spec, key_type, flags))
    stored, grow = grown(written, spec.value_type.signature)
    former = attrs.evolve(spec, value_type=stored)
    batch = read_checked(payload, layout_of(former, key_type, flags))
    columns = [
        grow(column) if name == "value" else column
        for name, column in zip(batch.schema.names, batch.columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema_of(spec, key_type, flags))


def _flags_of(section: Section) -> int:
    prefix = section.payload[: PREFIX.size]
    if prefix[1:] != _NOTHING_RESERVED or prefix[0] & ~(HAS_STAMPS | HAS_OPERATIONS):
        msg = f"a payload that begins with {prefix!r}"
        raise ValueError(msg)
    return prefix[0]


def has_stamps(section: Section) -> bool:
    """Return whether the entries of a section were written as pairs, such as under a TTL."""
    return bool(section.payload[0] & HAS_STAMPS)


def rows_in(section: Section, where: str) -> int:
    """Count the rows of a section by its header alone.

    Raises:
        CorruptStateError: The payload is no record batch.
    """
    with _decoding(section, where):
        return rows_of(pa.py_buffer(section.payload)[PREFIX.size :])


def entries_in(changes: Iterable[Changes | Section]) -> int:
    """Count the entries of changes, and of sections without decoding them.

    Raises:
        CorruptStateError: The payload of a section is no record batch.
    """
    return sum(
        rows_in(each, each.place) if isinstance(each, Section) else len(each) for each in changes
    )


def decode_entries(
    section: Section, spec: TableSpec, key_type: TypeInformation, stamp: int, where: str
) -> TableChanges:
    """Read the changes of a section, in the form that the program declares.

    Args:
        section: A section as read from a segment.
        spec: The program's; its declaration must have been checked.
        key_type: Type of the operator's keys.
        stamp: Stamp for entries written before TTL was switched on, in ms.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: The payload is not a record batch of the declared types, or holds
            what no program writes.
    """
    with _decoding(section, where):
        return _decoded(_batch(section, spec, key_type), section, spec, key_type, stamp)


def _decoded(
    batch: pa.RecordBatch,
    section: Section,
    spec: TableSpec,
    key_type: TypeInformation,
    stamp: int,
) -> TableChanges:
    columns = dict(zip(batch.schema.names, batch.columns))
    rows = batch.num_rows
    operations = _operations(columns.get("operation"))
    cleared = operations.count(CLEAR)
    keys = [GROUP_KEY] * rows if spec.per_group else keys_of(columns, spec, key_type)
    user_keys: list[Any] = [None] * rows
    if spec.shape is not Shape.SINGLE:
        column = _whole(columns["user_key"], cleared)
        user_keys = (spec.user_key_type or LONG).from_arrow(column)
    entries = _values(columns.get("value"), spec, operations, rows)
    stamps = [stamp] * rows
    if has_stamps(section):
        stamps = _put(columns["stamp"], operations, optional=False).to_pylist()
    if spec.paired:
        entries = list(zip(stamps, entries))
    if not operations:
        return TableChanges(spec, keys=keys, user_keys=user_keys, entries=entries)
    entries = [
        MISSING if operation == DELETE else entry
        for operation, entry in zip(operations[cleared:], entries[cleared:])
    ]
    return TableChanges(spec, keys[:cleared], keys[cleared:], user_keys[cleared:], entries)


def keys_of(columns: Mapping[str, Any], spec: TableSpec, key_type: TypeInformation) -> list[Any]:
    """Return the owner of each entry: its key, or the pair of key and namespace.

    Args:
        columns: Columns of the batch, by name.
        spec: Declaration of the table.
        key_type: Type of the keys.

    Raises:
        ValueError: A key or namespace is null.
    """
    keys = key_type.from_arrow(_whole(columns["key"], 0))
    if spec.namespace_type is None:
        return keys
    return list(zip(keys, spec.namespace_type.from_arrow(_whole(columns["namespace"], 0))))


def _values(column: Any, spec: TableSpec, operations: bytes, rows: int) -> list[Any]:
    if spec.value_type is None:
        return [None] * rows
    optional = spec.nullable or spec.value_type.accepts_none
    values: list[Any] = spec.value_type.from_arrow(_put(column, operations, optional=optional))
    return values


def _operations(column: Any) -> bytes:
    """Return the operation of each row; nothing if all were put."""
    if column is None or not len(column):
        return b""
    _whole(column, 0)
    operations = bytes(column.buffers()[1])[: len(column)]
    if operations.lstrip(bytes((CLEAR,))).translate(None, bytes((PUT, DELETE))):
        msg = "operations of an unknown kind, or that clear a key after others"
        raise ValueError(msg)
    return operations


def _whole(column: Any, start: int) -> Any:
    """Return the column; raise if a row from `start` on is null."""
    if column.null_count and column.slice(start).null_count:
        msg = "a key that is null"
        raise ValueError(msg)
    return column


def _put(column: Any, operations: bytes, *, optional: bool) -> Any:
    """Return the column; raise if a value that was put is null although null is no value."""
    if column.null_count and not optional:
        nulls = column.is_null().to_pylist()
        if any(map(nulls.__getitem__, _puts(operations, len(column)))):
            msg = "a value that is null"
            raise ValueError(msg)
    return column


def _puts(operations: bytes, rows: int) -> Iterator[int]:
    if not operations:
        return iter(range(rows))
    return (row for row, operation in enumerate(operations) if operation == PUT)
