# SPDX-License-Identifier: Apache-2.0
"""Entries of one table as payloads of sections, and back.

A payload is a byte of flags, seven reserved bytes that keep the rest aligned, and one Arrow
record-batch message with the columns

    key, [namespace], [user_key], [value], [stamp], [operation]

The schema follows from the table's declaration, so a payload does not repeat it: one entry of six
columns takes 488 bytes, against 872 as a stream of Arrow's IPC format.  A column that would say
nothing is left out:

* key, if the entries belong to the key group and not to a key;
* namespace, if the state has no namespaces;
* user_key, if there is one entry per key;
* value, if the state has only keys, as timers have;
* stamp, if entries are not `paired`.  A stamp is a time in ms, or an LRU store's count of uses;
* operation, if all rows are puts.  The others are DELETE (one entry) and CLEAR (all of a key).

**Replay.**  Payloads are replayed in order, and the last row of an entry counts.  The entry is gone
if that row is a DELETE, or if its key was cleared after it.  The order of entries is kept, too, as
in a dict: an overwritten entry stays at its position, and one that was deleted and put again goes
to the end.  Backends apply rows one by one, and `stored_table` replays whole columns; both follow
this rule.

**Untrusted bytes.**  Reading an entry runs no code of the writer's choosing.  A payload is checked
before Arrow opens it (`pyflinklike._changelog.arrow_message`).  The decoded rows must be rows that
`encode_entries` writes: keys are never null, and a value is null only if its type takes None.

Entries are written and read one by one or as columns.  Both ways have the same bytes and the same
checks, so a reader need not know which way the writer took.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import repeat
from operator import is_
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.arrow_message import MessageLayout, read_checked, rows_of
from pyflinklike._changelog.damage import decoding
from pyflinklike._changelog.segments import MAX_BYTES, SEGMENT_BYTES, Declaration, Section, grown
from pyflinklike._messages import shown_message, shown_state
from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state.table import (
    CLEAR,
    DELETE,
    MISSING,
    PUT,
    Changes,
    ColumnChanges,
    Shape,
    TableChanges,
    TableSpec,
)
from pyflinklike.types import TypeInformation, Types

PREFIX = struct.Struct("<B7x")
HAS_STAMPS, HAS_OPERATIONS = 1, 2
LONG = Types.LONG()
MAX_ENTRY = MAX_BYTES - 1024 * 1024
"""Largest entry, in bytes: the rest of a segment needs less than the 1 MiB that this leaves."""
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
        payload = _encode(_rows(changes, start, start + step), key_type, limit, largest)
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

    Without it, a large state would be encoded whole only to find that it does not fit.  The
    estimate may be wrong: `_encode` measures each payload, and the caller corrects the step.
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


def _encode(
    changes: TableChanges, key_type: TypeInformation, limit: int, largest: int
) -> bytes | None:
    """Return the payload of a section; None if several changes are too large for one."""
    several = len(changes) > 1
    most = limit if several else largest
    try:
        payload, size = _payload(changes, key_type, most)
    except _UNWRITABLE as error:
        # Arrow also raises if all rows together are too large for one column: try fewer.
        if several:
            return None
        raise _unwritable(changes.spec, key_type, error) from error
    if size <= most:
        return payload
    if several:
        return None
    raise _too_large(changes.spec, size, largest)


def _too_large(spec: TableSpec, size: int, largest: int) -> StateValueError:
    return StateValueError(
        f"{shown_state(spec.name)}: one entry may take {largest:,} bytes at most, got {size:,}; "
        "divide it into several, for example the elements of a list or the entries of a map"
    )


def _payload(changes: TableChanges, key_type: TypeInformation, most: int) -> tuple[bytes, int]:
    """Return payload and size; the payload is empty if the columns exceed `most` bytes."""
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
    """Build the columns of changes, and the flags that say which columns are present."""
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

    The entry of a row that is not a put is blank.
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


def divide_batch(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Divide a batch into parts of about `limit` bytes; a single row may have more."""
    rows = batch.num_rows
    if rows > 1 and batch.nbytes > limit:
        yield from divide_batch(batch.slice(0, rows // 2), limit)
        yield from divide_batch(batch.slice(rows // 2), limit)
    else:
        yield batch


def schema_of(spec: TableSpec, key_type: TypeInformation, flags: int) -> pa.Schema:
    """Return the schema of a batch by the flags of its payload."""
    return pa.schema(list(_fields(spec, key_type, flags)))


@lru_cache(maxsize=256)
def layout_of(spec: TableSpec, key_type: TypeInformation, flags: int) -> MessageLayout:
    """Return the layout of a batch by the flags of its payload."""
    return MessageLayout.of(schema_of(spec, key_type, flags))


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


# Entries read, one by one


MAX_POSITION = 2**48
"""A limit above the position of any element of a list, which damaged positions exceed.

A position counts all elements that were ever appended, even those that were removed since: a queue
of ten elements may be at four billion.  So the limit cannot follow from the length of a list.
"""
_NOTHING_RESERVED = bytes(7)


def read_batch(
    section: Section, spec: TableSpec, key_type: TypeInformation, where: str
) -> pa.RecordBatch:
    """Read the columns of a section, in the types of the spec.

    Args:
        section: A section as read from a segment; the type of its values may be a former one.
        spec: Declaration of its table; `paired` does not matter.
        key_type: Type of the keys.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: The payload is not a record batch of these types.
    """
    with _guard_decoding(section, where):
        return _batch(section, spec, key_type)


def _guard_decoding(section: Section, where: str) -> decoding:
    return decoding(
        f"{section.where or where}, {shown_state(section.declaration.name)}",
        "must be an Arrow batch",
    )


def _batch(section: Section, spec: TableSpec, key_type: TypeInformation) -> pa.RecordBatch:
    batch = _read_typed_batch(section, spec, key_type)
    if spec.shape is Shape.LIST and not are_positions(batch.column("user_key")):
        msg = f"positions of a list outside 0 to {MAX_POSITION:,}"
        raise ValueError(msg)
    return batch


def are_positions(column: Any) -> bool:
    """Return whether the numbers that are not null can be positions in lists."""
    ends = pc.min_max(column)
    first, last = ends["min"].as_py(), ends["max"].as_py()
    return first is None or 0 <= first <= last <= MAX_POSITION


def _read_typed_batch(
    section: Section, spec: TableSpec, key_type: TypeInformation
) -> pa.RecordBatch:
    flags, payload = _flags_of(section), pa.py_buffer(section.payload)[PREFIX.size :]
    written = section.declaration.value
    if spec.value_type is None or written == spec.value_type.signature:
        return read_checked(payload, layout_of(spec, key_type, flags))
    # The bytes have the former type, so read them under it and cast the values afterwards.
    stored, migrate = grown(written, spec.value_type.signature)
    former = attrs.evolve(spec, value_type=stored)
    batch = read_checked(payload, layout_of(former, key_type, flags))
    columns = [
        migrate(column) if name == "value" else column
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
    with _guard_decoding(section, where):
        return rows_of(pa.py_buffer(section.payload)[PREFIX.size :])


def entries_in(changes: Iterable[Changes | Section]) -> int:
    """Count the entries of changes, and of sections without decoding them.

    Raises:
        CorruptStateError: The payload of a section is no record batch.
    """
    return sum(
        rows_in(each, each.where) if isinstance(each, Section) else len(each) for each in changes
    )


def decode_entries(
    section: Section, spec: TableSpec, key_type: TypeInformation, stamp: int, where: str
) -> TableChanges:
    """Read the changes of a section, in the form that the program declares.

    Args:
        section: A section as read from a segment.
        spec: The program's table; the caller has checked its declaration against the section's.
        key_type: Type of the operator's keys.
        stamp: Stamp for entries written before TTL was switched on, in ms.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: The payload is not a record batch of the declared types, or has rows
            that no program writes.
    """
    with _guard_decoding(section, where):
        return _decode(_batch(section, spec, key_type), section, spec, key_type, stamp)


def _decode(
    batch: pa.RecordBatch,
    section: Section,
    spec: TableSpec,
    key_type: TypeInformation,
    stamp: int,
) -> TableChanges:
    columns = dict(zip(batch.schema.names, batch.columns))
    rows = batch.num_rows
    written = columns.get("operation")
    operations = _operations(written)
    cleared = operations.count(CLEAR)
    keys = [GROUP_KEY] * rows if spec.per_group else _keys_of(columns, spec, key_type)
    user_keys: list[Any] = [None] * rows
    if spec.shape is not Shape.SINGLE:
        _refuse_nulls(columns["user_key"].slice(cleared))
        user_keys = (spec.user_key_type or LONG).from_arrow(columns["user_key"])
    entries = _values(columns.get("value"), spec, written, rows)
    stamps = [stamp] * rows
    if has_stamps(section):
        _refuse_nulls(columns["stamp"], written)
        stamps = columns["stamp"].to_pylist()
    # If TTL was switched off since, the stamps that were read are dropped here.
    if spec.paired:
        entries = list(zip(stamps, entries))
    if not operations:
        return TableChanges(spec, keys=keys, user_keys=user_keys, entries=entries)
    entries = [
        MISSING if operation == DELETE else entry
        for operation, entry in zip(operations[cleared:], entries[cleared:])
    ]
    return TableChanges(spec, keys[:cleared], keys[cleared:], user_keys[cleared:], entries)


def _keys_of(columns: Mapping[str, Any], spec: TableSpec, key_type: TypeInformation) -> list[Any]:
    """Return the owner of each entry: its key, or the pair of key and namespace.

    Args:
        columns: Columns of the batch, by name.
        spec: Declaration of the table.
        key_type: Type of the keys.

    Raises:
        ValueError: A key or namespace is null.
    """
    _refuse_nulls(columns["key"])
    keys = key_type.from_arrow(columns["key"])
    if spec.namespace_type is None:
        return keys
    _refuse_nulls(columns["namespace"])
    return list(zip(keys, spec.namespace_type.from_arrow(columns["namespace"])))


def _values(column: Any, spec: TableSpec, operations: Any, rows: int) -> list[Any]:
    if spec.value_type is None:
        return [None] * rows
    if not (spec.nullable or spec.value_type.accepts_none):
        _refuse_nulls(column, operations)
    return spec.value_type.from_arrow(column)


def _operations(column: Any) -> bytes:
    """Return the operation of each row; empty if all are puts.

    Raises:
        ValueError: An operation is of an unknown kind, or clears a key after others.
    """
    if column is None or not len(column):
        return b""
    _refuse_nulls(column)
    # An int8 column is one byte per row, so the buffer itself is the operations.  Cleared keys
    # must come first (`lstrip`), because backends clear before they put.
    operations = bytes(column.buffers()[1])[: len(column)]
    if operations.lstrip(bytes((CLEAR,))).translate(None, bytes((PUT, DELETE))):
        msg = "operations of an unknown kind, or that clear a key after others"
        raise ValueError(msg)
    return operations


def _refuse_nulls(column: Any, operations: Any = None) -> None:
    """Refuse nulls in rows that put a value; in all rows without a column of operations.

    Raises:
        ValueError: There is such a null.
    """
    if not column.null_count:
        return
    nulls = column.is_null()
    if operations is None or pc.any(pc.and_(nulls, pc.equal(operations, PUT))).as_py():
        msg = "a null in place of a key or value"
        raise ValueError(msg)


# Columns of entries, written and read


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
    for part in divide_batch(batch, limit):
        if part.nbytes > largest:
            raise _too_large(changes.spec, part.nbytes, largest)
        payloads.append(encode_batch(part))
    return payloads


def decode_columns(
    section: Section, spec: TableSpec, key_type: TypeInformation, stamp: int, where: str
) -> ColumnChanges:
    """Read the changes of a section as columns, in the form that the program declares.

    Args:
        section: A section as read from a segment.
        spec: The program's table, without namespaces; the caller has checked its declaration.
        key_type: Type of the operator's keys.
        stamp: Stamp for entries written before TTL was switched on, in ms.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: The payload is not a record batch of the declared types, or has rows
            that no program writes.
    """
    batch = read_batch(section, spec, key_type, where)
    with decoding(
        f"{section.where or where}, {shown_state(spec.name)}", "must hold what a program writes"
    ):
        return _decode_columns(batch, section, spec, key_type, stamp)


def _decode_columns(
    batch: pa.RecordBatch,
    section: Section,
    spec: TableSpec,
    key_type: TypeInformation,
    stamp: int,
) -> ColumnChanges:
    columns = dict(zip(batch.schema.names, batch.columns))
    keys = columns["key"]
    _refuse_nulls(keys)
    if pa.types.is_binary(key_type.arrow_type):
        # Arrow sees encoded keys as any bytes, so only decoding checks them.
        key_type.from_arrow(keys)
    written = columns.get("operation")
    cleared = _operations(written).count(CLEAR)
    stamps = None
    if spec.paired:
        column = pa.nulls(len(keys), pa.int64())
        if has_stamps(section):
            column = columns["stamp"]
            _refuse_nulls(column, written)
        stamps = column.fill_null(stamp).to_numpy()
    user_keys = columns.get("user_key")
    if user_keys is not None:
        rest = user_keys.slice(cleared)  # only a row that clears a key may have a null
        _refuse_nulls(rest)
        if spec.user_key_type is not None:
            _check_range(rest, spec.user_key_type)
    values = _value_columns(columns.get("value"), spec, written, len(keys))
    operations = None if written is None else written.to_numpy()
    return ColumnChanges(spec, keys, values, stamps, operations, user_keys=user_keys)


def _value_columns(column: Any, spec: TableSpec, operations: Any, rows: int) -> Any:
    if spec.value_type is None:
        return pa.nulls(rows)
    if not (spec.nullable or spec.value_type.accepts_none):
        _refuse_nulls(column, operations)
    _check_range(column, spec.value_type)
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
