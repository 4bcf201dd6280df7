# SPDX-License-Identifier: Apache-2.0
"""Segments: what changed in a key group, as bytes, and back.

The durable form of a key group is a sequence of segments.  Each holds the final
state of the entries that one commit changed; a snapshot segment holds every
entry.  Replaying them in order gives the working state.

A segment is a fixed header and a body of sections:

    header   magic "PFL", format version, flags, nonce (16 bytes), parent's
             nonce (16 bytes), length of the plain body, CRC-32 of all the rest
    section  kind, table id, number of bytes, then
             DECLARE  what the table is, as JSON: once per table and lineage
             ENTRIES  one Arrow record-batch message with the columns
                      key, [user_key], [value], [stamp], [operation]

The schema of the batches follows from the declaration, so the common small
segment repeats no schema.  A column that would say nothing is left out: user
keys of single entries, keys where entries belong to the group, stamps without TTL,
operations where all are puts.  A body large enough to gain is compressed with LZ4.

Every entry is data: reading a segment runs no code of its choosing.  Only a
state declared with `Types.PICKLED_BYTE_ARRAY()` unpickles its own values.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import is_
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.shown import shown_message
from pyflinklike.table import GROUP_KEY, MISSING, RESERVED_PREFIX, Shape, TableChanges, TableSpec
from pyflinklike.types import TypeInformation, Types

__all__ = [
    "CLEAR",
    "DELETE",
    "Declaration",
    "Section",
    "Segment",
    "decode_entries",
    "encode_batch",
    "encode_entries",
    "read_batch",
    "read_segment",
]

FORMAT_VERSION = 1

_MAGIC = b"PFL"
_HEADER = struct.Struct("<3sBB16s16sI")
_CHECKSUM = struct.Struct("<I")
_BODY_AT = _HEADER.size + _CHECKSUM.size
_SECTION = struct.Struct("<BHI")
_DECLARE, _ENTRIES = 0, 1
_COMPRESSED = 1
_COMPRESS_FROM = 16 * 1024

_HAS_STAMPS, _HAS_OPERATIONS = 1, 2
_PUT, DELETE, CLEAR = 0, 1, 2
"""What the column `operation` says of a row; of an entry, whether it is deleted."""

_LONG = Types.LONG()


@attrs.frozen
class Declaration:
    """What a table was when its entries were written.

    Args:
        name: Of the state.
        kind: Of the state, as its descriptor's `kind`.
        shape: Value of the table's `Shape`.
        key: Signature of the key type, or empty where entries belong to the key group.
        user_key: Signature of the user key type, or empty.
        value: Signature of the value type, or empty.
    """

    name: str
    kind: str
    shape: str
    key: str
    user_key: str
    value: str

    @classmethod
    def of(cls, spec: TableSpec, key_type: TypeInformation) -> Declaration:
        """The declaration a program makes with a spec."""
        return cls(
            name=spec.name,
            kind=spec.kind,
            shape=spec.shape.value,
            key="" if spec.per_group else key_type.signature,
            user_key=spec.user_key_type.signature if spec.user_key_type else "",
            value=spec.value_type.signature if spec.value_type else "",
        )

    @property
    def per_group(self) -> bool:
        """Whether the entries belong to the key group and not to a key."""
        return not self.key

    def check(self, declared: Declaration) -> None:
        """Refuse a program that declares the table otherwise.

        Raises:
            IncompatibleStateError: The declarations differ.
        """
        for field in ("kind", "shape", "key", "user_key", "value"):
            stored, now = getattr(self, field), getattr(declared, field)
            if stored != now:
                what = "timers" if self.name.startswith(RESERVED_PREFIX) else f"state {self.name!r}"
                noun = field.replace("_", " ") + ("" if field in ("kind", "shape") else " type")
                msg = (
                    f"{what}: restored state keeps the {noun} it was written with, {stored!r}, "
                    f"got {now!r}; declare it as before, or use another name"
                )
                raise IncompatibleStateError(msg)


@attrs.frozen
class Section:
    """Entries of one table in one segment, not decoded yet.

    Args:
        declaration: Of the table.
        payload: Flags, then an Arrow record-batch message.
    """

    declaration: Declaration
    payload: bytes


@attrs.define
class Segment:
    """A segment in parts.

    Args:
        nonce: Names the state of the group after this segment.
        parent: Names the state it must be applied to; empty for a snapshot.
        declarations: Tables declared here, by id.
        sections: Entries, by table id, in order.
    """

    nonce: bytes
    parent: bytes
    declarations: dict[int, Declaration] = attrs.field(factory=dict)
    sections: list[tuple[int, bytes]] = attrs.field(factory=list)

    def to_bytes(self) -> bytes:
        """The segment as it is stored."""
        body = bytearray()
        for table_id, declaration in self.declarations.items():
            payload = json.dumps(attrs.asdict(declaration), separators=(",", ":")).encode()
            body += _SECTION.pack(_DECLARE, table_id, len(payload)) + payload
        for table_id, payload in self.sections:
            body += _SECTION.pack(_ENTRIES, table_id, len(payload)) + payload
        plain_size, flags, stored = len(body), 0, bytes(body)
        if plain_size >= _COMPRESS_FROM:
            flags = _COMPRESSED
            stored = pa.compress(stored, codec="lz4_raw", asbytes=True)
        parent = self.parent or bytes(16)
        head = _HEADER.pack(_MAGIC, FORMAT_VERSION, flags, self.nonce, parent, plain_size)
        return head + _CHECKSUM.pack(zlib.crc32(stored, zlib.crc32(head))) + stored


def read_segment(blob: bytes, where: str) -> Segment:
    """Take a stored segment apart.

    Args:
        blob: As `Segment.to_bytes` gave it.
        where: Which segment of which group, for messages.

    Raises:
        CorruptStateError: It is damaged, cut short, or of another format version.
    """
    if len(blob) < _BODY_AT or blob[:3] != _MAGIC:
        msg = f"{where}: a segment must begin with {_MAGIC!r}, got {len(blob)} bytes, {blob[:8]!r}"
        raise CorruptStateError(f"{msg}; {_RESTORE_ADVICE}")
    _, version, flags, nonce, parent, size = _HEADER.unpack_from(blob)
    if version != FORMAT_VERSION:
        msg = (
            f"{where}: this version of pyflinklike reads state format {FORMAT_VERSION}, "
            f"got format {version}; run the version that wrote it"
        )
        raise CorruptStateError(msg)
    body = blob[_BODY_AT:]
    (checksum,) = _CHECKSUM.unpack_from(blob, _HEADER.size)
    found = zlib.crc32(body, zlib.crc32(blob[: _HEADER.size]))
    if found != checksum:
        msg = f"{where}: the checksum of a segment must be {checksum:#x}, got {found:#x}"
        raise CorruptStateError(f"{msg}; {_RESTORE_ADVICE}")
    if flags & _COMPRESSED:
        body = pa.decompress(body, decompressed_size=size, codec="lz4_raw", asbytes=True)
    segment = Segment(nonce, b"" if parent == bytes(16) else parent)
    at = 0
    while at < size:
        kind, table_id, length = _SECTION.unpack_from(body, at)
        at += _SECTION.size
        payload = body[at : at + length]
        at += length
        if kind == _DECLARE:
            segment.declarations[table_id] = Declaration(**json.loads(payload))
        else:
            segment.sections.append((table_id, payload))
    return segment


_RESTORE_ADVICE = "the bytes are damaged, go back to an earlier checkpoint"


def encode_entries(changes: TableChanges, key_type: TypeInformation) -> bytes:
    """The payload of a section.

    Raises:
        IncompatibleStateError: An entry cannot be written as the state's type.
    """
    spec = changes.spec
    keys, user_keys, entries = changes.keys, changes.user_keys, changes.entries
    operations = None
    if changes.cleared or MISSING in entries:
        cleared = len(changes.cleared)
        operations = bytes((CLEAR,)) * cleared + bytes(map(is_, entries, repeat(MISSING)))
        keys = changes.cleared + keys
        user_keys = [None] * cleared + user_keys
        if spec.value_type is not None or spec.stamped:
            blank = (None, None) if spec.stamped else None
            entries = [blank] * cleared
            entries += [blank if entry is MISSING else entry for entry in changes.entries]
    flags = _HAS_STAMPS if spec.stamped else 0
    flags |= _HAS_OPERATIONS if operations is not None else 0
    schema = _schema(spec, key_type, flags)
    try:
        columns = [] if spec.per_group else [key_type.to_arrow(keys)]
        if spec.shape is not Shape.SINGLE:
            columns.append((spec.user_key_type or _LONG).to_arrow(user_keys))
        if spec.value_type is not None:
            values = [entry[1] for entry in entries] if spec.stamped else entries
            columns.append(spec.value_type.to_arrow(values))
        if spec.stamped:
            columns.append(pa.array([entry[0] for entry in entries], pa.int64()))
        if operations is not None:
            buffers = [None, pa.py_buffer(operations)]
            columns.append(pa.Array.from_buffers(pa.int8(), len(operations), buffers))
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    except (pa.ArrowException, UnicodeError, OverflowError, TypeError, ValueError) as error:
        msg = (
            f"state {spec.name!r}: its keys and values must be writable as "
            f"{key_type.signature} and {Declaration.of(spec, key_type).value}, got {shown_message(error)}"
        )
        raise IncompatibleStateError(msg) from error
    return encode_batch(batch)


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """The payload of a section with these columns."""
    names = batch.schema.names
    flags = _HAS_STAMPS if "stamp" in names else 0
    flags |= _HAS_OPERATIONS if "operation" in names else 0
    payload: bytes = batch.serialize().to_pybytes()
    return bytes((flags,)) + payload


def read_batch(
    section: Section, spec: TableSpec, key_type: TypeInformation, where: str
) -> pa.RecordBatch:
    """The columns of a section.

    Args:
        section: As read from a segment.
        spec: Of its table; whether it is stamped plays no part.
        key_type: Of the keys.
        where: Which group, for messages.

    Raises:
        CorruptStateError: The payload is not a record batch of these types.
    """
    flags = section.payload[0]
    try:
        message = pa.ipc.read_message(pa.py_buffer(section.payload)[1:])
        return pa.ipc.read_record_batch(message, _schema(spec, key_type, flags))
    except (pa.ArrowException, OSError) as error:
        msg = f"{where}: state {spec.name!r} must be an Arrow batch, got {error}; {_RESTORE_ADVICE}"
        raise CorruptStateError(msg) from error


def decode_entries(
    section: Section, spec: TableSpec, key_type: TypeInformation, stamp: int, where: str
) -> TableChanges:
    """The changes in a section, in the form the program now declares.

    Args:
        section: As read from a segment.
        spec: The program's; its declaration must have been checked.
        key_type: Of the operator's keys.
        stamp: For entries written before TTL was switched on, in ms.
        where: Which group, for messages.

    Raises:
        CorruptStateError: The payload is not a record batch of the declared types.
    """
    flags = section.payload[0]
    batch = read_batch(section, spec, key_type, where)
    columns = iter(batch.columns)
    rows = batch.num_rows
    keys = [GROUP_KEY] * rows if spec.per_group else key_type.from_arrow(next(columns))
    user_keys: list[Any] = [None] * rows
    if spec.shape is not Shape.SINGLE:
        user_keys = (spec.user_key_type or _LONG).from_arrow(next(columns))
    entries: list[Any] = [None] * rows
    if spec.value_type is not None:
        entries = spec.value_type.from_arrow(next(columns))
    stamps: Sequence[Any] = next(columns).to_pylist() if flags & _HAS_STAMPS else [stamp] * rows
    if spec.stamped:
        entries = list(zip(stamps, entries))
    if not flags & _HAS_OPERATIONS:
        return TableChanges(spec, keys=keys, user_keys=user_keys, entries=entries)
    operations = next(columns).to_pylist()
    cleared = operations.count(CLEAR)
    return TableChanges(
        spec,
        cleared=keys[:cleared],
        keys=keys[cleared:],
        user_keys=user_keys[cleared:],
        entries=[
            MISSING if operation == DELETE else entry
            for operation, entry in zip(operations[cleared:], entries[cleared:])
        ],
    )


def has_stamps(section: Section) -> bool:
    """Whether the entries of a section were written under a TTL."""
    return bool(section.payload[0] & _HAS_STAMPS)


def _schema(spec: TableSpec, key_type: TypeInformation, flags: int) -> pa.Schema:
    return pa.schema(list(_fields(spec, key_type, flags)))


def _fields(spec: TableSpec, key_type: TypeInformation, flags: int) -> Iterator[pa.Field]:
    if not spec.per_group:
        yield pa.field("key", key_type.arrow_type)
    if spec.shape is not Shape.SINGLE:
        yield pa.field("user_key", (spec.user_key_type or _LONG).arrow_type)
    if spec.value_type is not None:
        yield pa.field("value", spec.value_type.arrow_type)
    if flags & _HAS_STAMPS:
        yield pa.field("stamp", pa.int64())
    if flags & _HAS_OPERATIONS:
        yield pa.field("operation", pa.int8())


def total(changes: Iterable[TableChanges]) -> int:
    """The number of changes."""
    return sum(map(len, changes))
