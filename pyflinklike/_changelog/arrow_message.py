# SPDX-License-Identifier: Apache-2.0
"""Record-batch messages of Arrow's IPC format, checked before Arrow opens them.

Arrow trusts a message's description of its own body: the number of rows, the offsets of the
buffers, their sizes after decompression.  A crafted message can make Arrow allocate any amount of
memory, or read memory that does not belong to the message.  So this module reads the header first.
The header is a FlatBuffers table as in Arrow's
[Message.fbs](https://github.com/apache/arrow/blob/main/format/Message.fbs), and Arrow verifies the
form of the table before we read it.  The header must say that:

* the message is a record batch, uncompressed, and fills its payload to the end;
* it has as many columns' nodes and buffers as its schema;
* each buffer lies within the body, behind the one before it;
* no column has more values than the body has bits, so that the memory for values is in proportion
  to the payload.

After that, Arrow's own full validation checks the contents of the buffers: offsets, UTF-8 and null
counts.
"""

from __future__ import annotations

from struct import Struct, unpack_from

import attrs
import pyarrow as pa

_U32, _I32, _U16, _I64 = Struct("<I"), Struct("<i"), Struct("<H"), Struct("<q")
_PREFIX = 8
"""Bytes before the metadata: a continuation marker and the metadata's size."""
_ALIGNMENT = 8

# The numbers of fields in FlatBuffers tables, as in Arrow's Message.fbs.
_HEADER = 2
_LENGTH, _NODES, _BUFFERS = range(3)
_FIELDS = 3
"""Number of fields of a record batch that is neither compressed nor has variadic buffers."""


@attrs.frozen
class MessageLayout:
    """The parts that a record batch of a schema consists of.

    Args:
        schema: Schema of the batch.
        nodes: Number of its arrays, nested ones included.
        buffers: Number of buffers of all these arrays.
    """

    schema: pa.Schema
    nodes: int
    buffers: int

    @classmethod
    def of(cls, schema: pa.Schema) -> MessageLayout:
        """Count the arrays and buffers of a schema."""
        nodes = buffers = 0
        waiting: list[pa.DataType] = list(schema.types)
        while waiting:
            kind = waiting.pop()
            nodes += 1
            buffers += kind.num_buffers
            waiting.extend(kind.field(number).type for number in range(kind.num_fields))
        return cls(schema, nodes, buffers)


def read_checked(payload: pa.Buffer, layout: MessageLayout) -> pa.RecordBatch:
    """Read a record batch and check it, so that every value in it is safe to use.

    Args:
        payload: The message, with nothing behind it.
        layout: Layout that the batch must have.

    Raises:
        ValueError: The message contradicts itself or the layout (`pa.ArrowInvalid` is one).
        struct.error, IndexError: Its header is cut short.
    """
    message = pa.ipc.read_message(payload)
    if message.type != "record batch":
        msg = f"a message of type {message.type!r}"
        raise ValueError(msg)
    metadata, body = message.metadata.to_pybytes(), message.body.size
    if _PREFIX + len(metadata) + body != payload.size:
        msg = f"a message of {_PREFIX + len(metadata) + body} bytes in a payload of {payload.size}"
        raise ValueError(msg)
    rows, nodes, buffers = _header(metadata)
    if (len(nodes), len(buffers)) != (2 * layout.nodes, 2 * layout.buffers):
        msg = (
            f"{len(nodes) // 2} nodes and {len(buffers) // 2} buffers, "
            f"not {layout.nodes} and {layout.buffers}"
        )
        raise ValueError(msg)
    _check_buffers(buffers, body)
    _check_lengths((rows, 0, *nodes), body)
    # Only now is it safe to let Arrow read the body.
    batch = pa.ipc.read_record_batch(message, layout.schema)
    batch.validate(full=True)
    return batch


def rows_of(payload: pa.Buffer) -> int:
    """Return the number of rows that the header of a record-batch message names.

    Raises:
        ValueError, struct.error, IndexError: The payload is no record batch.
    """
    message = pa.ipc.read_message(payload)
    if message.type != "record batch":
        msg = f"a message of type {message.type!r}"
        raise ValueError(msg)
    return _header(message.metadata.to_pybytes())[0]


def _header(metadata: bytes) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return rows, nodes (length and nulls of each) and buffers (offset and size of each)."""
    at = _U32.unpack_from(metadata)[0]
    places = _places(metadata, at)
    at += places[_HEADER]
    at += _U32.unpack_from(metadata, at)[0]
    places = _places(metadata, at)
    if any(places[_FIELDS:]):
        msg = "a message with compressed or variadic buffers"
        raise ValueError(msg)
    rows = _I64.unpack_from(metadata, at + places[_LENGTH])[0] if places[_LENGTH] else 0
    return rows, _pairs(metadata, at, places[_NODES]), _pairs(metadata, at, places[_BUFFERS])


def _places(data: bytes, at: int) -> tuple[int, ...]:
    """Return the offsets of the fields of a table from its beginning; 0 for a field left out."""
    fields = at - _I32.unpack_from(data, at)[0]
    if fields < 0:  # Python would count a negative offset from the end
        msg = f"a table whose fields lie {-fields} bytes before the beginning"
        raise ValueError(msg)
    return unpack_from(f"<{_U16.unpack_from(data, fields)[0] // 2 - 2}H", data, fields + 4)


def _pairs(data: bytes, at: int, place: int) -> tuple[int, ...]:
    """Return the numbers of a vector of 64-bit pairs, one by one; none if it is left out."""
    if not place:
        return ()
    at += place
    at += _U32.unpack_from(data, at)[0]
    return unpack_from(f"<{2 * _U32.unpack_from(data, at)[0]}q", data, at + 4)


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
