# SPDX-License-Identifier: Apache-2.0
"""Segments that somebody crafted: whole by their checksums, wrong inside.

Run as a program it crafts, reads and counts; a test runs it in a process of its own, for
what is tried may end one:

    python tests/support/crafted_segments.py <seed> <count>

It prints a line of JSON: how many were refused, read as something, or failed with an error that
is not ours, with an example of each of these.
"""

from __future__ import annotations

import collections
import datetime as dt
import json
import resource
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from pyflinklike._changelog.entry_codec import decode_entries, encode_entries, schema_of
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.segments import (
    FORMAT_VERSION,
    Declaration,
    Section,
    Segment,
    read_segment,
)
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike._changelog.stored_table import StoredTable
from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.state.table import MISSING, Shape, TableChanges, TableSpec
from pyflinklike.types import Instant, Types
from pyflinklike.types.key_codec import AnyKeyTypeInfo

_HEADER = struct.Struct("<3sBB16s16sI")
_SECTION = struct.Struct("<BII")
_PREFIX = 8
_ROWS = 12
_MEMORY = 4 * 1024**3

STRING, LONG = Types.STRING(), Types.LONG()
_DAY = dt.datetime(2026, 2, 28, 12, 30, 1, 5)
VALUES: list[tuple[Any, list[Any]]] = [
    (LONG, [1, -5, 2**40]),
    (STRING, ["", "żółw", "x" * 70]),
    (Types.BOOLEAN(), [True, False]),
    (Types.BYTE(), [1, -128]),
    (Types.FLOAT(), [0.5, float("nan")]),
    (Types.DOUBLE(), [0.5, float("-inf")]),
    (Types.CHAR(), ["a", "ż"]),
    (Types.BIG_INT(), [0, -(10**30), 1 << 3000]),
    (Types.BIG_DEC(), [Decimal("1.50"), Decimal("-7E+3")]),
    (Types.SQL_DATE(), [_DAY.date(), dt.date.max]),
    (Types.SQL_TIME(), [_DAY.time(), dt.time.max]),
    (Types.SQL_TIMESTAMP(), [_DAY, dt.datetime.min]),
    (Types.INSTANT(), [Instant(5, 7)]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\x00\xff" * 20]),
    (Types.PICKLED_BYTE_ARRAY(), [{"a": 1}, "text", 5, 1.5, True]),
    (Types.LIST(STRING), [[], ["a", "b"]]),
    (Types.BASIC_ARRAY(LONG), [[1, None, 3]]),
    (Types.MAP(STRING, Types.LIST(LONG)), [{}, {"a": [1, 2], "b": []}]),
    (Types.TUPLE([LONG, STRING, Types.TUPLE([])]), [(1, "a", ()), (None, None, None)]),
    (Types.LIST(Types.TUPLE([])), [[(), ()]]),
    (
        Types.ROW_NAMED(["a", "b"], [Types.BIG_DEC(), Types.MAP(LONG, STRING)]),
        [(Decimal(1), {1: "x"})],
    ),
]
KEYS: list[tuple[Any, list[Any]]] = [
    (STRING, ["a", "b", "ccc"]),
    (LONG, [1, 2, -3]),
    (AnyKeyTypeInfo(), ["a", 5, (1.5, None, (True,)), _DAY.date()]),
    (Types.TUPLE([STRING, Types.SQL_DATE()]), [("a", _DAY.date()), ("b", None)]),
]
ODD = [
    0,
    1,
    2,
    7,
    8,
    -1,
    -8,
    127,
    2**15,
    2**31 - 1,
    -(2**31),
    2**31,
    2**32,
    2**40,
    2**62,
    -(2**62),
    2**63 - 1,
    -(2**63),
]


def table_of(random: Random) -> tuple[TableChanges, Any]:
    """Changes of some table, and the type of its keys."""
    key_type, keys = random.choice(KEYS)
    value_type, values = random.choice(VALUES)
    shape = random.choice(list(Shape))
    user_type, user_keys = random.choice(VALUES[:-2])
    stamped = random.random() < 0.5
    rows = range(random.randint(0, _ROWS))
    entries: list[Any] = [value_type.freeze(random.choice(values)) for _ in rows]
    if stamped:
        entries = [(number, entry) for number, entry in enumerate(entries)]
    if random.random() < 0.5:
        entries = [MISSING if random.random() < 0.3 else entry for entry in entries]
    frozen: list[Any] = [None for _ in rows]
    if shape is Shape.MAP:
        frozen = [user_type.freeze_key(random.choice(user_keys)) for _ in rows]
    elif shape is Shape.LIST:
        frozen = list(rows)
    spec = TableSpec(
        "s", shape, "kind", value_type, user_type if shape is Shape.MAP else None, stamped
    )
    cleared = [key_type.freeze_key(random.choice(keys)) for _ in range(random.choice([0, 0, 2]))]
    own = [key_type.freeze_key(random.choice(keys)) for _ in rows]
    return TableChanges(spec, cleared, own, frozen, entries), key_type


def sealed(body: bytes, *, packed: bool = False, size: int | None = None) -> bytes:
    """A segment with this body, all of whose checksums are right."""
    stored = body
    if packed:
        stored = struct.pack("<I", zlib.crc32(body)) + pa.compress(body, "lz4_raw", asbytes=True)
    return _with_header(stored, int(packed), len(body) if size is None else size)


def _with_header(stored: bytes, flags: int, size: int) -> bytes:
    head = _HEADER.pack(b"PFL", FORMAT_VERSION, flags, b"n" * 16, bytes(16), size & 0xFFFFFFFF)
    return head + struct.pack("<I", zlib.crc32(stored, zlib.crc32(head))) + stored


def body_of(declaration: bytes, payload: bytes) -> bytes:
    """A body of two sections."""
    parts = [(0, declaration), (1, payload)]
    return b"".join(_SECTION.pack(kind, 0, len(each)) + each for kind, each in parts)


def with_column(
    declaration: Declaration, payload: bytes, name: str, change: Callable[[pa.Array], pa.Array]
) -> bytes:
    """A payload with another column of that name."""
    table = StoredTable(declaration)
    schema = schema_of(table.spec, table.key_type, payload[0])
    message = pa.ipc.read_message(pa.py_buffer(payload)[8:])
    batch = pa.ipc.read_record_batch(message, schema)
    number = schema.names.index(name)
    batch = batch.set_column(number, schema.field(number), change(batch.column(number)))
    return payload[:8] + bytes(batch.serialize())


def poked(random: Random, data: bytes, start: int = 0, end: int | None = None) -> bytes:
    """The bytes with a few of them, or a whole number among them, changed."""
    changed = bytearray(data)
    end = len(data) if end is None else min(end, len(data))
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        if end - start < 8:
            break
        width, form = random.choice([(1, "B"), (2, "H"), (4, "I"), (4, "I"), (8, "Q"), (8, "Q")])
        at = start + random.randrange((end - start - width) // width + 1) * width
        old = struct.unpack_from(f"<{form}", changed, at)[0]
        new = random.choice(
            [random.choice(ODD), old + random.choice([1, -1, 8, -8]), random.getrandbits(64)]
        )
        struct.pack_into(f"<{form}", changed, at, new & ((1 << 8 * width) - 1))
    return bytes(changed)


def metadata_end(payload: bytes) -> int:
    """Where the metadata of a payload's message ends."""
    size: int = struct.unpack_from("<i", payload, _PREFIX + 4)[0]
    return _PREFIX + 8 + size


def other_batch(random: Random, batch: pa.RecordBatch) -> bytes:
    """The message of a batch that is like this one, and is not."""
    rows = batch.num_rows
    columns = list(batch.columns)
    at = random.randrange(len(columns))
    replacements: list[Callable[[], Any]] = [
        lambda: pa.array([f"{row}" for row in range(rows)]).dictionary_encode(),
        lambda: pa.array([b"x" * row for row in range(rows)], pa.large_binary()),
        lambda: pa.array([None] * rows, pa.null()),
        lambda: pa.array(range(rows), pa.int64()),
        lambda: pa.array(["x"] * rows, pa.string_view()),
        lambda: pa.array([[row] for row in range(rows)], pa.list_(pa.int8())),
        lambda: pa.array([None] * rows, batch.schema.field(at).type),
        lambda: pa.array([b"\xff\xfe"] * rows, pa.binary()),
    ]
    columns[at] = random.choice(replacements)()
    if random.random() < 0.2:
        columns.append(columns[0])
    if random.random() < 0.2:
        columns.pop()
    names = [str(number) for number in range(len(columns))]
    message: bytes = pa.RecordBatch.from_arrays(columns, names=names).serialize().to_pybytes()
    return message


def payloads(random: Random, payload: bytes, schema: pa.Schema) -> Iterator[bytes]:
    """Ways to change a payload."""
    prefix, message = payload[:_PREFIX], payload[_PREFIX:]
    end = metadata_end(payload)
    batch = pa.ipc.read_record_batch(pa.ipc.read_message(message), schema)
    for _ in range(4):
        yield poked(random, payload, _PREFIX, end)
        yield poked(random, payload, end)
    yield poked(random, payload, 0, _PREFIX)
    yield poked(random, payload)
    yield payload[: random.randrange(len(payload))]
    yield payload + bytes(random.choice([1, 8, 64]))
    for codec in ("lz4", "zstd"):
        options = pa.ipc.IpcWriteOptions(compression=codec)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
        reader.read_next_message()
        squeezed = prefix + reader.read_next_message().serialize().to_pybytes()
        yield squeezed
        yield poked(random, squeezed, metadata_end(squeezed))
    yield prefix + batch.schema.serialize().to_pybytes()
    yield prefix + pa.ipc.read_message(message).serialize(alignment=64).to_pybytes() + message
    if batch.num_columns:
        yield prefix + other_batch(random, batch)
    if batch.num_rows > 1:
        yield prefix + batch.slice(1).serialize().to_pybytes()


def segments(random: Random) -> Iterator[tuple[bytes, TableSpec, Any]]:
    """Crafted segments, with what a program declares."""
    changes, key_type = table_of(random)
    declared = Declaration.of(changes.spec, key_type)
    (payload,) = encode_entries(changes, key_type)
    schema = schema_of(changes.spec, key_type, payload[0])
    text = json.dumps(declared.fields()).encode()
    body = body_of(text, payload)
    blobs = [
        sealed(body_of(text, each), packed=random.random() < 0.2)
        for each in payloads(random, payload, schema)
    ]
    blobs += [sealed(poked(random, body), packed=packed) for packed in (False, True)]
    blobs += [sealed(poked(random, body, 0, _SECTION.size + 8)) for _ in range(2)]
    blobs.append(sealed(body[: random.randrange(len(body))]))
    blobs.append(sealed(body, packed=True, size=random.choice(ODD)))
    blobs.append(sealed(body, packed=True, size=len(body) + random.choice([1, 8, 100])))
    packed = struct.pack("<I", zlib.crc32(body)) + pa.compress(body, "lz4_raw", asbytes=True)
    blobs.append(_with_header(poked(random, packed), 1, len(body)))
    blobs.append(_with_header(body, random.choice([1, 2, 3, 255]), len(body)))
    fields = declared.fields()
    field = random.choice(list(fields))
    odd: list[Any] = [
        None,
        5,
        [],
        {},
        "",
        "x",
        "[" * 5000,
        "ListTypeInfo<" * 3000,
        "TupleTypeInfo()",
        "Long",
    ]
    crafted = [
        json.dumps(fields | {field: random.choice(odd)}),
        json.dumps(fields | {"more": 1}),
        json.dumps([fields]),
        "[" * 100_000,
        json.dumps({key: value for key, value in fields.items() if key != field}),
    ]
    blobs.append(sealed(body_of(random.choice(crafted).encode(), payload)))
    for blob in blobs:
        yield blob, changes.spec, key_type


def use(blob: bytes, spec: TableSpec, key_type: Any, *, regroup: bool) -> None:
    """What a restore does, and then a program that reads all there is."""
    segment: Segment = read_segment(blob, "operator 'crafted', key group 7")
    group = KeyGroupState(7)
    group.read(segment, "operator 'crafted', key group 7, segment 0")
    for section in group.pending.get(spec.name, []):
        section.declaration.check(Declaration.of(spec, key_type))
        seen(decode_entries(section, spec, key_type, 0, "unused"), spec, key_type)
    if regroup:
        for each in regroup_snapshot(
            segment, key_type, lambda keys: [0] * len(keys), 1, "savepoint"
        ).get(0, []):
            for table_id, payload in each.sections:
                section = Section(each.declarations[table_id], payload)
                if section.declaration == Declaration.of(spec, key_type):
                    decode_entries(section, spec, key_type, 0, "regrouped")


def seen(changes: TableChanges, spec: TableSpec, key_type: Any) -> None:
    """The user's own form of everything, but what would have to be unpickled."""
    for key in changes.cleared + changes.keys:
        hash(key)
        repr(key_type.thaw_key(key))
    for user_key in changes.user_keys:
        hash(user_key)
        if spec.user_key_type is not None and not spec.user_key_type.is_pickled:
            repr(spec.user_key_type.thaw_key(user_key))
    for entry in changes.entries:
        value = entry[1] if spec.paired and entry is not MISSING else entry
        value_type = spec.value_type
        if value_type is None or value is MISSING or value is None:
            continue
        if not value_type.is_pickled:
            repr(value_type.thaw(value))


def main(seed: int, count: int) -> None:
    """Craft, read and count."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    random = Random(seed)
    counted: collections.Counter[str] = collections.Counter()
    raw: dict[str, str] = {}
    while sum(counted.values()) < count:
        for blob, spec, key_type in segments(random):
            sys.stderr.write(f"{sum(counted.values())} of seed {seed}: {blob.hex()[:200]}\n")
            try:
                use(blob, spec, key_type, regroup=random.random() < 0.3)
                counted["read"] += 1
            except (CorruptStateError, IncompatibleStateError):
                counted["refused"] += 1
            except BaseException as error:
                counted["raw"] += 1
                raw[type(error).__name__] = f"{spec} {key_type}: {error}"[:600]
    sys.stdout.write(json.dumps({**counted, "errors": raw}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
