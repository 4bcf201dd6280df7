# SPDX-License-Identifier: Apache-2.0
"""Segments: the changes of one commit in a key group, as bytes.

The durable form of a key group is a sequence of segments.  Each holds the final state of the
entries that one commit changed; a snapshot holds every entry.  Replaying them in order gives the
working state.  If a commit or a snapshot is too large for one segment, it becomes several, each
made from the one before.

A segment is a fixed header and a body of sections:

    header   magic "PFL", format version, flags, nonce (16 bytes), parent's
             nonce (16 bytes), length of the plain body, CRC-32 of all the rest
    section  kind, table id, number of bytes, then
             DECLARE  the declaration of the table, as JSON: once per table and chain
             ENTRIES  an Arrow record batch behind eight bytes of flags (`entry_codec`)

The bytes are untrusted: every length is compared with the bytes that are there before it is used.

**Why tables are declared.**  A segment says of each table its kind, shape and types.  If the
program now declares the table otherwise, `Declaration.check` refuses it with a message that names
both; if the bytes were read under the wrong type, they would give wrong values instead.  One change
is allowed: the type of values may evolve (`pyflinklike.types.schema_evolution`).  Then sections of
the former type and of the new one lie side by side until a compaction writes them all anew.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike._changelog.damage import RESTORE_ADVICE, decoding
from pyflinklike._messages import is_own_state, shown_state
from pyflinklike.errors import CorruptStateError, IncompatibleStateError, SparkSetupError
from pyflinklike.state.table import (
    LAYOUT,
    REPLICATED,
    RESERVED_PREFIX,
    WATERMARK_TIME,
    Setting,
    Shape,
    TableSpec,
)
from pyflinklike.state.ttl_config import clock_of_ttl
from pyflinklike.types import TypeInformation
from pyflinklike.types.catalog import type_of
from pyflinklike.types.schema_evolution import Migration, NoMigrationError, growth

FORMAT_VERSION = 1
"""The format of a log: of its segments and heads, and of the record and the registry beside them."""

SEGMENT_BYTES = 16 * 1024 * 1024
"""Largest plain body of a segment with more than one entry, in bytes.

Spark's state store holds a segment as one value, and the JVM has several copies of it in memory
while it is carried: with segments of 64 MiB, a JVM of 1 GiB with two tasks ran out of memory.
"""
MAX_BYTES = 0x7E000000
"""Largest plain body at all: LZ4 takes no more, nor do JVM arrays, Arrow and protobuf near 2 GiB."""

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
        declaration: The table's declaration in the log.
        payload: Flags, then an Arrow record-batch message.
        where: Name of the segment and its group, for messages; empty if the section was not read.
    """

    declaration: Declaration
    payload: bytes
    where: str = attrs.field(default="", eq=False)


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
            SparkSetupError: The body is larger.
        """
        parts = list(self._parts())
        size = sum(map(len, parts))
        if size > limit:
            msg = (
                f"a savepoint or segment is one value in memory and may have {limit:,} bytes at "
                f"most, got {size:,}; go on from the checkpoint itself"
            )
            raise SparkSetupError(msg)
        body = b"".join(parts)
        flags, stored = 0, body
        # LZ4, because zstd takes three times as long for small segments (170 us against 50).
        if len(body) >= _COMPRESS_FROM:
            packed: bytes = pa.compress(body, codec="lz4_raw", asbytes=True)
            # The plain body has its own checksum, because LZ4 does not notice if it gives fewer
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
        blob: The bytes that `Segment.to_bytes` returned; untrusted.
        where: Name of the segment and its group, for messages.

    Raises:
        CorruptStateError: The segment is damaged, cut short, or of another format version.
    """
    if len(blob) < _BODY_AT or blob[:3] != _MAGIC:
        msg = f"{where}: a segment must begin with {_MAGIC!r}, got {len(blob)} bytes, {blob[:8]!r}"
        raise CorruptStateError(f"{msg}; {RESTORE_ADVICE}")
    _, version, flags, nonce, parent, size = _HEADER.unpack_from(blob)
    # The version comes before the checksum, or a segment of another version would look damaged.
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
    if version != FORMAT_VERSION:
        msg = f"{where}: this version of pyflinklike reads format {FORMAT_VERSION} of state"
        raise CorruptStateError(f"{msg}, got format {version}; run the version that wrote it")


def _plain(stored: bytes, flags: int, size: int) -> bytes:
    """Return the plain body of exactly `size` bytes."""
    if flags & ~_COMPRESSED:
        msg = f"flags {flags:#x}"
        raise ValueError(msg)
    body, checksum = stored, None
    if flags:
        (checksum,) = _CHECKSUM.unpack_from(stored)
        packed = memoryview(stored)[_CHECKSUM.size :]
        # Check before anything is allocated, because a crafted size would take all memory.
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


# Declarations


_AS_BEFORE = "declare it as before"


@attrs.frozen
class Declaration:
    """The form of a table at the time when its entries were written.

    Args:
        name: Name of the state.
        kind: The `kind` of the state's descriptor.
        shape: Value of the table's `Shape`.
        key: Signature of the key type, or empty if entries belong to the key group.
        user_key: Signature of the user key type, or empty.
        value: Signature of the value type, or empty.
        namespace: Signature of the namespace type, or empty.
        settings: Everything else that must stay the same, sorted by name.
    """

    name: str
    kind: str
    shape: str
    key: str
    user_key: str
    value: str
    namespace: str = ""
    settings: tuple[Setting, ...] = ()

    @classmethod
    def of(cls, spec: TableSpec, key_type: TypeInformation) -> Declaration:
        """Return the declaration that a program makes with a spec."""
        return cls(
            name=spec.name,
            kind=spec.kind,
            shape=spec.shape.value,
            key="" if spec.per_group else key_type.signature,
            user_key=spec.user_key_type.signature if spec.user_key_type else "",
            value=spec.value_type.signature if spec.value_type else "",
            namespace=spec.namespace_type.signature if spec.namespace_type else "",
            settings=spec.settings,
        )

    @classmethod
    def from_json(cls, text: bytes) -> Declaration:
        """Read a declaration from a segment.

        Raises:
            ValueError, TypeError: The text is no declaration.
        """
        return cls.of_fields(json.loads(text))

    def to_json(self) -> bytes:
        """Return the declaration as a segment holds it."""
        fields = self.fields()
        for each in ("namespace", "settings"):  # empty for most tables
            if not fields[each]:
                del fields[each]
        return json.dumps(fields, separators=(",", ":")).encode()

    def fields(self) -> dict[str, Any]:
        """Return the declaration as plain data."""
        settings = {each.name: each.value for each in self.settings}
        return {**attrs.asdict(self, recurse=False), "settings": settings}

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Declaration:
        """Return the declaration that `fields` described.

        Raises:
            ValueError, TypeError: The fields do not describe a declaration.
        """
        texts = {name: field for name, field in fields.items() if name != "settings"}
        settings = fields.get("settings", {})
        if not isinstance(settings, dict) or not all(
            isinstance(each, str) for each in (*texts.values(), *settings, *settings.values())
        ):
            msg = f"a declaration with a field that is not text, {fields}"
            raise ValueError(msg)
        Shape(texts["shape"])
        return cls(**texts, settings=_settings_of(settings))

    @property
    def per_group(self) -> bool:
        """Whether the entries belong to the key group and not to a key."""
        return not self.key

    @property
    def is_replicated(self) -> bool:
        """Whether the entries are the same in every key group."""
        return self.kind == REPLICATED

    @property
    def is_mark(self) -> bool:
        """Whether the table holds one number that a store notes in each key group.

        Another key group can take over such a number, unlike other entries that no key owns.
        """
        return self.per_group and self.kind in (LAYOUT, WATERMARK_TIME)

    def check(self, declared: Declaration) -> None:
        """Refuse a program that declares the table otherwise, unless its values can be migrated.

        Raises:
            IncompatibleStateError: The declarations differ in a field that must stay, in a setting
                that the program does not accept, or the stored type of the values cannot evolve
                into the declared one.
        """
        self.check_types(declared)
        self._check_settings(declared)

    def check_types(self, declared: Declaration) -> None:
        """Refuse to read the table under another declaration, settings aside.

        Raises:
            IncompatibleStateError: As in `check`, but not for settings.
        """
        if self == declared:
            return
        for field in ("kind", "shape", "key", "namespace", "user_key"):
            if getattr(self, field) != getattr(declared, field):
                noun = field.replace("_", " ") + ("" if field in ("kind", "shape") else " type")
                raise self._refusal(declared, field, noun, self._remedy)
        if self.value == declared.value:  # also if entries are without values, as timers are
            return
        try:
            grown(self.value, declared.value)
        except NoMigrationError as error:
            remedy = f"{_AS_BEFORE}, or change a savepoint of it with {error.remedy}"
            if is_own_state(self.name) and "with_state" in error.remedy:
                remedy = self._remedy  # the user cannot change a descriptor of ours
            raise self._refusal(declared, "value", "value type", remedy, error.why) from error

    def _check_settings(self, declared: Declaration) -> None:
        stored = {each.name: each.value for each in self.settings}
        for now in declared.settings:
            # A setting that is not stored is new, such as the clock of a TTL, and cannot conflict.
            before = stored.get(now.name, now.value)
            if before != now.value and before not in now.accepts:
                raise IncompatibleStateError(
                    f"{self._what}: restored state keeps {now.name}, {before!r}, got "
                    f"{now.value!r}; {now.remedy or self._remedy}"
                )

    def grows_into(self, declared: Declaration) -> bool:
        """Return whether the table can be read under another declaration, settings aside."""
        try:
            self.check_types(declared)
        except IncompatibleStateError:
            return False
        return True

    def check_alike(self, other: Declaration) -> None:
        """Refuse two declarations of one table if neither can evolve into the other.

        Raises:
            IncompatibleStateError: The two exclude each other.
        """
        try:
            other.check(self)
        except IncompatibleStateError:
            self.check(other)

    def _refusal(
        self, declared: Declaration, field: str, noun: str, remedy: str, why: str = ""
    ) -> IncompatibleStateError:
        stored, now = getattr(self, field), getattr(declared, field)
        return IncompatibleStateError(
            f"{self._what}: restored state keeps the {noun} it was written with, {stored!r}, "
            f"got {now!r}{f' ({why})' if why else ''}; {remedy}"
        )

    @property
    def _what(self) -> str:
        return "timers" if self._is_timers else shown_state(self.name)

    @property
    def _is_timers(self) -> bool:
        return self.name.startswith(RESERVED_PREFIX)

    @property
    def _remedy(self) -> str:
        """The advice in messages; a user can rename only a state that they declare themselves."""
        is_users = not self._is_timers and not is_own_state(self.name)
        return f"{_AS_BEFORE}, or {'use another name' if is_users else 'begin a new checkpoint'}"


def settings_said(said: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Return the settings of a state as the record of its operator describes them."""
    settings, ttl = _settings_of(said.get("settings") or {}), said.get("ttl")
    clock = () if ttl is None else (clock_of_ttl(ttl["time"]),)
    return tuple(sorted((*settings, *clock), key=lambda each: each.name))


def _settings_of(settings: Mapping[str, str]) -> tuple[Setting, ...]:
    return tuple(Setting(name, settings[name]) for name in sorted(settings))


@lru_cache(maxsize=256)
def grown(stored: str, declared: str) -> tuple[TypeInformation, Migration]:
    """Return the stored type of values, and a function that casts its columns to the declared type.

    Args:
        stored: Signature of the type that the values were written with.
        declared: Signature of the type that they are read as.

    Raises:
        NoMigrationError: The stored type cannot evolve into the declared one.
    """
    if not stored or not declared:
        msg = "entries with values cannot become entries without, or the other way round"
        raise NoMigrationError(msg, "Savepoint.with_state()")
    try:
        before, after = type_of(stored), type_of(declared)
    except IncompatibleStateError as error:
        msg = "one of them is not a type of Types"
        raise NoMigrationError(msg, "the version of pyflinklike that wrote it") from error
    return before, growth(before, after)
