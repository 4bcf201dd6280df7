# SPDX-License-Identifier: Apache-2.0
"""Record-batch messages of Arrow's IPC format, checked before Arrow opens them.

Arrow trusts what a message says of its own body: how many rows there are, where the
buffers lie, how large they are once decompressed.  A message that was crafted makes it
allocate what a header says, or read memory that is not the message's.  So the header is
read first (it is a table of FlatBuffers, whose form Arrow itself has verified), and:

* the message is a record batch, uncompressed, and fills its payload to the end;
* it has as many columns' nodes and buffers as its schema;
* each buffer lies within the body, behind the one before it;
* no column has more values than the body has bits, so that what is allocated for
  values is in proportion to the payload.

What the buffers hold (offsets, UTF-8, null counts) is then Arrow's own full validation.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import pyarrow as pa

__all__ = ["read_checked"]

_I64 = struct.Struct("<q")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_U16 = struct.Struct("<H")
_PREFIX = 8
"""Bytes before the metadata: a continuation marker and the metadata's size."""
_ALIGNMENT = 8

# The places of fields in FlatBuffers tables, as in Arrow's Message.fbs.
_HEADER = 2
_LENGTH, _NODES, _BUFFERS, _COMPRESSION, _VARIADIC = range(5)


def read_checked(payload: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """The record batch of a message, every value of which can be read.

    Args:
        payload: The message, and nothing behind it.
        schema: Of the batch.

    Raises:
        ValueError: The message contradicts itself or the schema (`pa.ArrowInvalid` is one).
    """
    message = pa.ipc.read_message(payload)
    if message.type != "record batch":
        msg = f"a message of type {message.type!r}"
        raise ValueError(msg)
    size = _PREFIX + message.metadata.size + message.body.size
    if size != payload.size:
        msg = f"a message of {size} bytes in a payload of {payload.size}"
        raise ValueError(msg)
    header = _Table.header_of(message.metadata.to_pybytes())
    if header.has(_COMPRESSION) or header.has(_VARIADIC):
        msg = "a message with compressed or variadic buffers"
        raise ValueError(msg)
    nodes, buffers = header.numbers(_NODES), header.numbers(_BUFFERS)
    found, expected = (len(nodes) // 2, len(buffers) // 2), _counts(schema)
    if found != expected:
        msg = f"{found} nodes and buffers, not {expected}"
        raise ValueError(msg)
    _check_buffers(buffers, message.body.size)
    _check_lengths((header.number(_LENGTH), 0, *nodes), message.body.size)
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    return batch


def _check_buffers(buffers: tuple[int, ...], body: int) -> None:
    end = 0
    for offset, size in zip(buffers[::2], buffers[1::2]):
        if offset < end or size < 0 or offset + size > body or offset % _ALIGNMENT:
            msg = f"a buffer at {offset} of {size} bytes in a body of {body}, behind {end}"
            raise ValueError(msg)
        end = offset + size


def _check_lengths(nodes: tuple[int, ...], body: int) -> None:
    for length, nulls in zip(nodes[::2], nodes[1::2]):
        if not 0 <= nulls <= length <= 8 * body:
            msg = f"{length} values, {nulls} of them null, in a body of {body} bytes"
            raise ValueError(msg)


@lru_cache(maxsize=256)
def _counts(schema: pa.Schema) -> tuple[int, int]:
    """How many nodes and buffers a batch of a schema has."""
    nodes = buffers = 0
    waiting: list[pa.DataType] = list(schema.types)
    while waiting:
        kind = waiting.pop()
        nodes += 1
        buffers += kind.num_buffers
        waiting.extend(kind.field(number).type for number in range(kind.num_fields))
    return nodes, buffers


class _Table:
    """A table of FlatBuffers.

    Args:
        data: The buffer it is in.
        at: Where it begins.
    """

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - _read(_I32, data, at)

    @classmethod
    def header_of(cls, metadata: bytes) -> _Table:
        """What the message is about."""
        message = cls(metadata, _read(_U32, metadata, 0))
        return cls(metadata, message._target(_HEADER))

    def _place(self, field: int) -> int:
        """Where a field is, or 0 where it is left out."""
        entry = 4 + 2 * field
        if entry >= _read(_U16, self._data, self._fields):
            return 0
        offset = _read(_U16, self._data, self._fields + entry)
        return self._at + offset if offset else 0

    def _target(self, field: int) -> int:
        place = self._place(field)
        if not place:
            msg = f"a header without field {field}"
            raise ValueError(msg)
        return place + _read(_U32, self._data, place)

    def has(self, field: int) -> bool:
        """Whether the field is there."""
        return bool(self._place(field))

    def number(self, field: int) -> int:
        """A field of 64 bits, 0 where it is left out."""
        place = self._place(field)
        return _read(_I64, self._data, place) if place else 0

    def numbers(self, field: int) -> tuple[int, ...]:
        """A vector of pairs of 64 bits, one behind another; empty where it is left out."""
        if not self.has(field):
            return ()
        at = self._target(field)
        count = 2 * _read(_U32, self._data, at)
        return struct.unpack_from(f"<{count}q", self._data, at + 4)


def _read(form: struct.Struct, data: bytes, at: int) -> int:
    if at < 0:  # which Python would count from the end
        msg = f"a place before the beginning, {at}"
        raise ValueError(msg)
    value: int = form.unpack_from(data, at)[0]
    return value
