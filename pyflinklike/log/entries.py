# SPDX-License-Identifier: Apache-2.0
"""Entries of one table as the payload of a section; `pyflinklike.log.stored_entries` is the way back.

A payload is a byte of flags, seven reserved ones that keep what follows aligned, and one Arrow
record-batch message with the columns

    key, [namespace], [user_key], [value], [stamp], [operation]

The schema of the batch follows from the table's declaration, so the common small section
repeats no schema.  A column that would say nothing is left out: user keys of single
entries, keys where entries belong to the group, namespaces where there are none, stamps where entries are not `paired`, operations
where all are puts.  A stamp is the number of a pair: a time in ms, or an LRU store's count of uses.
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
"""The difference is more than all else that is in a segment."""
_FEW = 1024
_PROBED = 16
_UNWRITABLE = (pa.ArrowException, UnicodeError, OverflowError, TypeError, ValueError)


def encode_entries(
    changes: TableChanges,
    key_type: TypeInformation,
    limit: int = SEGMENT_BYTES,
    largest: int = MAX_ENTRY,
) -> list[bytes]:
    """The payloads of one or more sections, which hold the changes in their order.

    Args:
        changes: Of one table.
        key_type: Of the keys.
        limit: How many bytes a payload may have; that of a single entry may have more.
        largest: How many bytes a single entry may have.

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
    """How many rows to write at once: all, unless a few of them tell that this is too much.

    It is a guess, which saves the memory of trying; what is written is measured.
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
    """Some of the changes, of which the cleared keys come first."""
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
    """The payload of a section; None where several changes are too much for one."""
    several = len(changes) > 1
    most = limit if several else largest
    try:
        payload, size = _payload(changes, key_type, most)
    except _UNWRITABLE as error:
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
    """The payload and its size; where the columns have more than `most` bytes, only their size."""
    columns, flags = _columns(changes, key_type)
    if len(changes) > _FEW or any(isinstance(column, pa.ChunkedArray) for column in columns):
        size = sum(column.nbytes for column in columns)  # some us each: not for few rows
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
    """The columns of changes, and the flags that say which ones they are."""
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
        buffers = [None, pa.py_buffer(operations)]
        columns.append(pa.Array.from_buffers(pa.int8(), len(operations), buffers))
    return columns, flags


def _key_columns(spec: TableSpec, key_type: TypeInformation, keys: list[Any]) -> list[Any]:
    """What tells whose the entries are."""
    if spec.per_group:
        return []
    if spec.namespace_type is None:
        return [key_type.to_arrow(keys)]
    own, namespaces = zip(*keys) if keys else ((), ())
    return [key_type.to_arrow(own), spec.namespace_type.to_arrow(namespaces)]


def _with_operations(changes: TableChanges) -> tuple[TableChanges, bytes]:
    """Changes in which each cleared key has a row too, and what was done with each row.

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
    """The payload of a section with these columns."""
    names = batch.schema.names
    flags = HAS_STAMPS if "stamp" in names else 0
    flags |= HAS_OPERATIONS if "operation" in names else 0
    return b"".join((PREFIX.pack(flags), batch.serialize()))


def divided_batch(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """A batch in parts of about so many bytes; a single row may have more."""
    rows = batch.num_rows
    if rows > 1 and batch.nbytes > limit:
        yield from divided_batch(batch.slice(0, rows // 2), limit)
        yield from divided_batch(batch.slice(rows // 2), limit)
    else:
        yield batch


def schema_of(spec: TableSpec, key_type: TypeInformation, flags: int) -> pa.Schema:
    """The schema of a batch, by the flags of its payload."""
    return pa.schema(list(_fields(spec, key_type, flags)))


@lru_cache(maxsize=256)
def layout_of(spec: TableSpec, key_type: TypeInformation, flags: int) -> Layout:
    """The same as a layout, for readers."""
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
