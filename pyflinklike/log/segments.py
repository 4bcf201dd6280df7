# SPDX-License-Identifier: Apache-2.0
"""Segments: what changed in a key group, as bytes.

The durable form of a key group is a sequence of segments.  Each holds the final state of the
entries that one commit changed; a snapshot holds every entry.  Replaying them in order gives the
working state.  A commit or a snapshot that is too large for one segment becomes several, each made
from the one before.

A segment is a fixed header and a body of sections:

    header   magic "PFL", format version, flags, nonce (16 bytes), parent's
             nonce (16 bytes), length of the plain body, CRC-32 of all the rest
    section  kind, table id, number of bytes, then
             DECLARE  what the table is, as JSON: once per table and lineage
             ENTRIES  an Arrow record batch behind eight bytes of flags

Anybody may have written what is read: every length is compared with the bytes that are there
before it is used.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import attrs
import pyarrow as pa

from pyflinklike.errors import CorruptStateError, HostError
from pyflinklike.log.declaration import Declaration
from pyflinklike.log.decoding import RESTORE_ADVICE, decoding

__all__ = [
    "FORMAT_VERSION",
    "MAX_BYTES",
    "SEGMENT_BYTES",
    "Section",
    "Segment",
    "check_version",
    "read_segment",
]

FORMAT_VERSION = 3
"""The format that is written; format 3 has settings in the declarations of tables."""
_READ_VERSIONS = (2, 3)

SEGMENT_BYTES = 16 * 1024 * 1024
"""Largest plain body of a segment with more than one entry, in bytes.

Spark's state store holds a segment as one value, and the JVM has several copies of it in memory
while it is carried: with segments of 64 MiB, a JVM of 1 GiB with two tasks ran out of memory.
"""
MAX_BYTES = 0x7E000000
"""Largest plain body at all: LZ4 takes no more, and near 2 GiB the JVM, Arrow and protobuf end."""

_MAGIC = b"PFL"
_HEADER = struct.Struct("<3sBB16s16sI")
_CHECKSUM = struct.Struct("<I")
_BODY_AT = _HEADER.size + _CHECKSUM.size
_SECTION = struct.Struct("<BII")
_DECLARE, _ENTRIES = 0, 1
_COMPRESSED = 1
_COMPRESS_FROM = 16 * 1024  # below it, compression takes longer than it saves
_MAX_RATIO = 255
"""Largest factor by which LZ4 can shrink anything."""


@attrs.frozen
class Section:
    """Entries of one table in one segment, not decoded yet.

    Args:
        declaration: What the table is.
        payload: Flags, then an Arrow record-batch message.
        place: Name of the segment and its group, for messages.
    """

    declaration: Declaration
    payload: bytes
    place: str = attrs.field(default="", eq=False)


@attrs.define
class Segment:
    """A segment, taken apart.

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

    def to_bytes(self, limit: int = MAX_BYTES) -> bytes:
        """Return the segment as it is stored.

        Args:
            limit: Largest plain body, in bytes.

        Raises:
            HostError: The body is larger.
        """
        parts = list(self._parts())
        size = sum(map(len, parts))
        if size > limit:
            msg = (
                f"a savepoint or segment is one value in memory and may have {limit:,} bytes at "
                f"most, got {size:,}; go on from the checkpoint itself"
            )
            raise HostError(msg)
        body = b"".join(parts)
        flags, stored = 0, body
        # LZ4, since zstd takes three times as long for small segments (170 us against 50).
        if len(body) >= _COMPRESS_FROM:
            packed: bytes = pa.compress(body, codec="lz4_raw", asbytes=True)
            # The plain body has a checksum of its own, for LZ4 does not notice that it gave fewer
            # bytes than the header says.
            if len(packed) + _CHECKSUM.size < len(body):
                flags, stored = _COMPRESSED, _CHECKSUM.pack(zlib.crc32(body)) + packed
        parent = self.parent or bytes(16)
        head = _HEADER.pack(_MAGIC, FORMAT_VERSION, flags, self.nonce, parent, len(body))
        return b"".join((head, _CHECKSUM.pack(zlib.crc32(stored, zlib.crc32(head))), stored))

    def _parts(self) -> Iterator[bytes]:
        for table_id, declaration in self.declarations.items():
            payload = declaration.to_json()
            yield _SECTION.pack(_DECLARE, table_id, len(payload))
            yield payload
        for table_id, payload in self.sections:
            yield _SECTION.pack(_ENTRIES, table_id, len(payload))
            yield payload


def read_segment(blob: bytes, where: str) -> Segment:
    """Take a stored segment apart.

    Args:
        blob: What `Segment.to_bytes` returned, or anything else.
        where: Name of the segment and its group, for messages.

    Raises:
        CorruptStateError: The segment is damaged, cut short, or of another format version.
    """
    if len(blob) < _BODY_AT or blob[:3] != _MAGIC:
        msg = f"{where}: a segment must begin with {_MAGIC!r}, got {len(blob)} bytes, {blob[:8]!r}"
        raise CorruptStateError(f"{msg}; {RESTORE_ADVICE}")
    _, version, flags, nonce, parent, size = _HEADER.unpack_from(blob)
    # Before the checksum: a segment of another version is refused as such, not as damaged.
    check_version(version, where)
    stored = blob[_BODY_AT:]
    (checksum,) = _CHECKSUM.unpack_from(blob, _HEADER.size)
    found = zlib.crc32(stored, zlib.crc32(blob[: _HEADER.size]))
    if found != checksum:
        msg = f"{where}: the checksum of a segment must be {checksum:#x}, got {found:#x}"
        raise CorruptStateError(f"{msg}; {RESTORE_ADVICE}")
    segment = Segment(nonce, b"" if parent == bytes(16) else parent)
    with decoding(where, "a segment must consist of a header and whole sections"):
        _read_sections(_plain(stored, flags, size), segment)
    return segment


def check_version(version: int, where: str) -> None:
    """Refuse a format version that this version of the library does not read.

    Raises:
        CorruptStateError: The version is not read.
    """
    if version not in _READ_VERSIONS:
        msg = (
            f"{where}: this version of pyflinklike reads state formats "
            f"{' and '.join(map(str, _READ_VERSIONS))}, got format {version}; run the version that wrote it"
        )
        raise CorruptStateError(msg)


def _plain(stored: bytes, flags: int, size: int) -> bytes:
    """Return the plain body of exactly `size` bytes."""
    if flags & ~_COMPRESSED:
        msg = f"flags {flags:#x}"
        raise ValueError(msg)
    body, checksum = stored, None
    if flags:
        (checksum,) = _CHECKSUM.unpack_from(stored)
        packed = memoryview(stored)[_CHECKSUM.size :]
        # Before anything is allocated: a crafted size would take all memory.
        if size > _MAX_RATIO * len(packed):
            msg = f"{len(packed)} bytes that would be {size} decompressed"
            raise ValueError(msg)
        body = pa.decompress(packed, decompressed_size=size, codec="lz4_raw", asbytes=True)
    if len(body) != size or (flags and zlib.crc32(body) != checksum):
        msg = f"a body that is not the {size} bytes that were written"
        raise ValueError(msg)
    return body


def _read_sections(body: bytes, segment: Segment) -> None:
    at = 0
    while at < len(body):
        kind, table_id, length = _SECTION.unpack_from(body, at)
        at += _SECTION.size
        payload = body[at : at + length]
        if len(payload) != length or kind not in (_DECLARE, _ENTRIES):
            msg = f"a section of kind {kind} with {len(payload)} of {length} bytes"
            raise ValueError(msg)
        at += length
        if kind == _DECLARE:
            segment.declarations[table_id] = Declaration.from_json(payload)
        else:
            segment.sections.append((table_id, payload))
