# SPDX-License-Identifier: Apache-2.0
"""Savepoints in which one value of one column was replaced, all checksums right, and all that reads them.

Run as a program it crafts, reads and counts; a test runs it in a process of its own:

    python tests/support/crafted_values.py <seed> <count>

It prints a line of JSON: how many were refused, read, or failed with an error that is
not ours, with an example of each of these, and by how many MiB the process has grown.
"""

from __future__ import annotations

import collections
import json
import resource
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from all_states import AllStates
from crafted_segments import with_column
from replay_support import record_of

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend, Row, Types
from pyflinklike._changelog.entry_codec import schema_of
from pyflinklike._changelog.segments import Segment, read_segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike._changelog.stored_table import StoredTable
from pyflinklike.errors import (
    CorruptStateError,
    IncompatibleStateError,
)
from pyflinklike.state_processor import write_savepoint
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.group_reader import GroupStateReader, TimersReader
from pyflinklike.state_processor._logs.state_infos import describe_states
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.testing import KeyedProcessHarness

ODD = [0, 1, -1, 7, 127, 2**15, 2**28, 2**31 - 1, 2**32, 2**48, 2**48 + 1, 2**62, 2**63 - 1]
ODD += [-(2**15), -(2**31), -(2**32), -(2**62), -(2**63)]
MEMORY = 8 * 1024**3
USERS = ("u0", "u1", "u2")
_WIDTHS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


class WithTimers(AllStates):
    """All states, and timers of both kinds."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value.n >= 0:
            ctx.timer_service().register_event_time_timer(1_000 + value.n)
            ctx.timer_service().register_processing_time_timer(1_000 + value.n)
        yield from super().process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer", timestamp


def filled() -> bytes:
    """A savepoint with some entries of everything."""
    with KeyedProcessHarness(
        WithTimers(), lambda row: row.user, key_type=Types.STRING()
    ) as harness:
        for n in range(20):
            harness.process_element(Row(user=USERS[n % 3], n=n))
        return harness.snapshot()


def replaced(random: Random, column: Any) -> Any:
    """The column with another value in one of its rows."""
    kind, rows = column.type, len(column)
    if not rows:
        return column
    if pa.types.is_struct(kind) and kind.num_fields:
        parts = [column.field(number) for number in range(kind.num_fields)]
        at = random.randrange(len(parts))
        parts[at] = replaced(random, parts[at])
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    row = random.randrange(rows)
    if random.random() < 0.1:
        return pa.array([each == row for each in range(rows)]).cast(pa.bool_()) and _with(
            column, row, None
        )
    if random.random() < 0.2:
        return column.take(pa.array([*range(row), random.randrange(rows), *range(row + 1, rows)]))
    if pa.types.is_binary(kind):
        return _with(column, row, _other_bytes(random, column[row].as_py() or b""))
    if pa.types.is_string(kind):
        return _with(column, row, random.choice(["", "x", "\x00", "u9", "0" * 40]))
    if pa.types.is_floating(kind):
        return _with(column, row, random.choice([0.0, float("nan"), float("-inf")]))
    if pa.types.is_primitive(kind) and not pa.types.is_boolean(kind):
        whole = _WIDTHS[kind.bit_width]
        bits = kind.bit_width - 1
        new = random.choice([each for each in ODD if -(2**bits) <= each < 2**bits])
        return _with(column.view(whole), row, new).view(kind)
    return _with(column, row, None)


def _with(column: Any, row: int, value: Any) -> Any:
    values = column.to_pylist()
    values[row] = value
    return pa.array(values, column.type)


def _other_bytes(random: Random, old: bytes) -> bytes:
    """Bytes like these: shorter, longer, or with another number in them."""
    changed = bytearray(old)
    if len(old) >= 8 and random.random() < 0.6:
        at = random.choice([0, len(old) - 8, random.randrange(len(old) - 7)])
        struct.pack_into(">Q", changed, at, random.choice(ODD) & (2**64 - 1))
        return bytes(changed)
    return random.choice([b"", old[:-1], old[1:], old + b"\x00", old * 2, random.randbytes(16)])


def crafted(random: Random, segment: Segment, own: set[str]) -> tuple[str, bytes]:
    """What was replaced in the savepoint, and the savepoint.

    Args:
        random: Decides.
        segment: The savepoint.
        own: States whose values are a program's own, with which it may do as it likes.
    """
    sections = list(segment.sections)
    at = random.randrange(len(sections))
    table_id, payload = sections[at]
    declaration = segment.declarations[table_id]
    if random.random() < 0.05:
        other = random.choice([*segment.declarations, 99, 2**32 - 1])
        sections[at] = other, payload
        what = f"table {declaration.name} as {other}"
    else:
        table = StoredTable(declaration)
        names = schema_of(table.spec, table.key_type, payload[0]).names
        name = random.choice([n for n in names if n != "value" or declaration.name not in own])
        changes: list[Any] = []

        def change(column: Any) -> Any:
            new = replaced(random, column)
            if not pa.types.is_temporal(column.type):
                pairs = zip(column.to_pylist(), new.to_pylist())
                changes.extend((old, other) for old, other in pairs if old != other)
            return new

        sections[at] = table_id, with_column(declaration, payload, name, change)
        what = f"{declaration.name}.{name}: {changes}"
    return what, Segment(segment.nonce, segment.parent, segment.declarations, sections).to_bytes()


def run(blob: bytes, backend: Any) -> None:
    """A program goes on from the savepoint, uses all of it and takes another."""
    with KeyedProcessHarness(
        WithTimers(),
        lambda row: row.user,
        state_backend=backend,
        restore=blob,
        key_type=Types.STRING(),
    ) as harness:
        for user in USERS:
            harness.process_element(Row(user=user, n=-1))
        for n in range(20, 26):
            harness.process_element(Row(user=USERS[n % 3], n=n))
        harness.end_batch()
        harness.process_watermark(1_010)
        harness.set_processing_time(1_010)
        harness.snapshot()
        with tempfile.TemporaryDirectory() as folder:
            write_savepoint(harness, Path(folder) / "saved")


def replay(blob: bytes, record: Any) -> None:
    """Its rows without the program, judged and as a savepoint has them."""
    log = [read_segment(blob, "crafted")]
    clock = BatchClock(2_000, 1_000)
    for info in describe_states(record, 0):
        for saved in (False, True):
            rows = StateRows.of(record, info, saved=saved)
            for table in GroupStateReader(rows, clock, False).read(3, log, "crafted"):
                str(table)
    for judged in (clock, None):
        for table in TimersReader(record, judged).read(3, log, "crafted"):
            str(table)


def regroup(blob: bytes) -> None:
    """The savepoint taken apart as a stream does that begins from it."""
    log = read_segment(blob, "crafted")
    key_type = Types.STRING()
    regroup_snapshot(log, key_type, lambda keys: [0] * len(keys), 1, "crafted")


def main(seed: int, count: int) -> None:
    """Craft, read and count."""
    random = Random(seed)
    blob = filled()
    segment = read_segment(blob, "filled")
    with KeyedProcessHarness(
        WithTimers(), lambda row: row.user, restore=blob, key_type=Types.STRING()
    ) as harness:
        record = record_of(harness._operator, Types.STRING())
    own = {"total", "all", "last", "texts", "mean", "blob"}
    readers = {
        "heap": lambda each: run(each, HashMapStateBackend()),
        "rocksdb": lambda each: run(each, EmbeddedRocksDBStateBackend()),
        "replay": lambda each: replay(each, record),
        "regroup": regroup,
    }
    for read in readers.values():
        read(blob)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counted: collections.Counter[str] = collections.Counter()
    raw: dict[str, str] = {}
    for _ in range(count):
        what, each = crafted(random, segment, own)
        for name, read in readers.items():
            started = time.monotonic()
            try:
                read(each)
                counted["read"] += 1
            except (CorruptStateError, IncompatibleStateError):
                counted["refused"] += 1
            except BaseException as error:
                counted["raw"] += 1
                place = traceback.extract_tb(error.__traceback__)[-1]
                cause = error.__cause__
                raw[f"{name} {type(error).__name__} {type(cause).__name__} {place.name}"] = (
                    f"{what[:300]}: {error}"[:700]
                )
            if time.monotonic() - started > 3:
                sys.stderr.write(f"SLOW {name} {what}\n")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    sys.stdout.write(json.dumps({**counted, "grown": grown, "errors": raw}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
