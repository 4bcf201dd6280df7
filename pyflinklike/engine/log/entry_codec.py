# SPDX-License-Identifier: Apache-2.0
"""Entries of one table written as payloads of sections.

A payload is a byte of flags, seven reserved bytes that keep the rest aligned, and one Arrow
record-batch message with the columns

    key, [namespace], [user_key], [value], [stamp], [operation]

The schema follows from the table's declaration, so a payload does not repeat it: one entry of six
columns takes 488 bytes, against 872 as a stream of Arrow's IPC format.  Columns that would say
nothing are left out: user keys of single entries, keys where entries belong to the group,
namespaces where there are none, stamps where entries are not `paired`, operations where all are
puts.  A stamp is the number of a pair: a time in ms, or an LRU store's count of uses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from itertools import repeat
from operator import is_
from typing import Any

import pyarrow as pa

from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.log.arrow_message import Layout
from pyflinklike.log.declaration import Declaration
from pyflinklike.log.segments import MAX_BYTES, SEGMENT_BYTES
from pyflinklike.shown import shown_message, shown_state
from pyflinklike.state.column_changes import CLEAR, DELETE, PUT
from pyflinklike.state.table import MISSING, Shape, TableChanges, TableSpec
from pyflinklike.types import TypeInformation, Types

__all__ = [
    "CLEAR",
    "DELETE",
    "HAS_OPERATIONS",
    "HAS_STAMPS",
    "LONG",
    "MAX_ENTRY",
    "PREFIX",
    "PUT",
    "divided_batch",
    "encode_batch",
    "encode_entries",
    "layout_of",
    "schema_of",
]

PREFIX = struct.Struct("<B7x")
HAS_STAMPS, HAS_OPERATIONS = 1, 2
LONG = Types.LONG()
MAX_ENTRY = MAX_BYTES - 1024 * 1024
"""Largest entry, in bytes: what is left is more than all else in a segment."""
_FEW = 1024
_PROBED = 16
_UNWRITABLE = (pa.ArrowException, UnicodeError, OverflowError, TypeError, ValueError)


def encode_entries(
    changes: TableChanges,
    key_type: TypeInformation,
    limit: int = SEGMENT_BYTES,
    largest: int = MAX_ENTRY,
) -> list[bytes]:
    """Write changes as payloads of one or more sections, in their order.

    Args:
        changes: Changes of one table.
        key_type: Type of the keys.
        limit: Most bytes of a payload with more than one entry.
        largest: Most bytes of a single entry.

    Raises:
        IncompatibleStateError: An entry cannot be written as the state's type.
        StateValueError: A single entry is larger than a segment can be.
    """
    payloads: list[bytes] = []
    count, start = len(changes), 0
    step = _first_step(changes, key_type, limit)
    while start < count or not payloads:
        payload = _encoded(_rows(changes, start, start + step), key_type, limit, largest)
        if payload is None:
            step = min(step, count - start) // 2
            continue
        payloads.append(payload)
        start += step
        if 2 * len(payload) <= limit:
            step *= 2
    return payloads


def _first_step(changes: TableChanges, key_type: TypeInformation, limit: int) -> int:
    """Estimate from a few rows how many fit into one payload.

    The estimate saves the memory of trying; what is written is measured.
    """
    count = len(changes)
    if count <= _FEW:
        return max(count, 1)
    places = range(0, len(changes.keys), count // _PROBED)
    some = TableChanges(
        changes.spec,
        keys=[changes.keys[at] for at in places],
        user_keys=[changes.user_keys[at] for at in places],
        entries=[changes.entries[at] for at in places],
    )
    columns, _ = _columns(some, key_type)
    each = 1 + sum(column.nbytes for column in columns) / max(len(places), 1)
    return max(1, min(count, int(limit / each)))


def _rows(changes: TableChanges, start: int, end: int) -> TableChanges:
    """Return the rows from `start` to `end`; cleared keys come before all other rows."""
    if start == 0 and end >= len(changes):
        return changes
    cleared = len(changes.cleared)
    rows = slice(max(start - cleared, 0), max(end - cleared, 0))
    return TableChanges(
        changes.spec,
        cleared=changes.cleared[start:end],
        keys=changes.keys[rows],
        user_keys=changes.user_keys[rows],
        entries=changes.entries[rows],
    )


def _encoded(
    changes: TableChanges, key_type: TypeInformation, limit: int, largest: int
) -> bytes | None:
    """Return the payload of a section; None where several changes are too large for one."""
    several = len(changes) > 1
    most = limit if several else largest
    try:
        payload, size = _payload(changes, key_type, most)
    except _UNWRITABLE as error:
        # Arrow also raises where rows are too large for one column together: try fewer.
        if several:
            return None
        raise _unwritable(changes.spec, key_type, error) from error
    if size <= most:
        return payload
    if several:
        return None
    msg = (
        f"{shown_state(changes.spec.name)}: one entry may take {largest:,} bytes at most, got {size:,}; "
        "divide it into several, for example the elements of a list or the entries of a map"
    )
    raise StateValueError(msg)


def _payload(changes: TableChanges, key_type: TypeInformation, most: int) -> tuple[bytes, int]:
    """Return payload and size; only the size where the columns have more than `most` bytes."""
    columns, flags = _columns(changes, key_type)
    if len(changes) > _FEW or any(isinstance(column, pa.ChunkedArray) for column in columns):
        size = sum(column.nbytes for column in columns)  # a few us each: too slow for few rows
        if size > most:
            return b"", size
    schema = schema_of(changes.spec, key_type, flags)
    payload = encode_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return payload, len(payload)


def _unwritable(
    spec: TableSpec, key_type: TypeInformation, error: Exception
) -> IncompatibleStateError:
    return IncompatibleStateError(
        f"{shown_state(spec.name)}: its keys and values must be writable as {key_type.signature} and "
        f"{Declaration.of(spec, key_type).value}, got {shown_message(error)}"
    )


def _columns(changes: TableChanges, key_type: TypeInformation) -> tuple[list[Any], int]:
    """Build the columns of changes, and the flags that say which columns there are."""
    spec = changes.spec
    flags = HAS_STAMPS if spec.paired else 0
    operations = None
    if changes.cleared or MISSING in changes.entries:
        changes, operations = _with_operations(changes)
        flags |= HAS_OPERATIONS
    entries = changes.entries
    columns = _key_columns(spec, key_type, changes.keys)
    if spec.shape is not Shape.SINGLE:
        columns.append((spec.user_key_type or LONG).to_arrow(changes.user_keys))
    if spec.value_type is not None:
        values = [entry[1] for entry in entries] if spec.paired else entries
        columns.append(spec.value_type.to_arrow(values))
    if spec.paired:
        columns.append(pa.array([entry[0] for entry in entries], pa.int64()))
    if operations is not None:
        # The bytes are the column's buffer as they are: no list of numbers is made.
        buffers = [None, pa.py_buffer(operations)]
        columns.append(pa.Array.from_buffers(pa.int8(), len(operations), buffers))
    return columns, flags


def _key_columns(spec: TableSpec, key_type: TypeInformation, keys: list[Any]) -> list[Any]:
    """Build the columns that identify the owner of each entry: key and namespace."""
    if spec.per_group:
        return []
    if spec.namespace_type is None:
        return [key_type.to_arrow(keys)]
    own, namespaces = zip(*keys) if keys else ((), ())
    return [key_type.to_arrow(own), spec.namespace_type.to_arrow(namespaces)]


def _with_operations(changes: TableChanges) -> tuple[TableChanges, bytes]:
    """Give each cleared key a row, and return the rows with the operation of each.

    A row that was not put has an entry without a value.
    """
    spec, cleared, entries = changes.spec, len(changes.cleared), changes.entries
    operations = bytes((CLEAR,)) * cleared + bytes(map(is_, entries, repeat(MISSING)))
    if spec.value_type is not None or spec.paired:
        blank = (None, None) if spec.paired else None
        entries = [blank] * cleared + [blank if each is MISSING else each for each in entries]
    rows = TableChanges(
        spec,
        keys=changes.cleared + changes.keys,
        user_keys=[None] * cleared + changes.user_keys,
        entries=entries,
    )
    return rows, operations


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """Write a batch as the payload of a section."""
    names = batch.schema.names
    flags = HAS_STAMPS if "stamp" in names else 0
    flags |= HAS_OPERATIONS if "operation" in names else 0
    return b"".join((PREFIX.pack(flags), batch.serialize()))


def divided_batch(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Divide a batch into parts of about `limit` bytes; a single row may have more."""
    rows = batch.num_rows
    if rows > 1 and batch.nbytes > limit:
        yield from divided_batch(batch.slice(0, rows // 2), limit)
        yield from divided_batch(batch.slice(rows // 2), limit)
    else:
        yield batch


def schema_of(spec: TableSpec, key_type: TypeInformation, flags: int) -> pa.Schema:
    """Return the schema of a batch by the flags of its payload."""
    return pa.schema(list(_fields(spec, key_type, flags)))


@lru_cache(maxsize=256)
def layout_of(spec: TableSpec, key_type: TypeInformation, flags: int) -> Layout:
    """Return the layout of a batch by the flags of its payload."""
    return Layout.of(schema_of(spec, key_type, flags))


def _fields(spec: TableSpec, key_type: TypeInformation, flags: int) -> Iterator[pa.Field]:
    if not spec.per_group:
        yield pa.field("key", key_type.arrow_type)
    if spec.namespace_type is not None:
        yield pa.field("namespace", spec.namespace_type.arrow_type)
    if spec.shape is not Shape.SINGLE:
        yield pa.field("user_key", (spec.user_key_type or LONG).arrow_type)
    if spec.value_type is not None:
        yield pa.field("value", spec.value_type.arrow_type)
    if flags & HAS_STAMPS:
        yield pa.field("stamp", pa.int64())
    if flags & HAS_OPERATIONS:
        yield pa.field("operation", pa.int8())
