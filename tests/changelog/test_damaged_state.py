# SPDX-License-Identifier: Apache-2.0
"""Whatever becomes of durable bytes, they are read as they were written or refused: never otherwise, and no interpreter ends."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from crafted_segments import KEYS, body_of, sealed
from hypothesis import given, settings
from hypothesis import strategies as st
from tasks import opened

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from pyflinklike._changelog.entry_codec import decode_entries, encode_entries
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import Head, InMemoryLogStorage
from pyflinklike._changelog.segments import Declaration, Section, read_segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike._changelog.stored_table import StoredTable, replay
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.micro_batch import Records, TimerScheduling, serve
from pyflinklike.backends.heap.heap_backend import WARM_GROUPS
from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.state.table import MISSING, Shape, TableChanges, TableSpec
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.types import Types
from pyflinklike.types.catalog import type_of

PLACE = "operator 'visits', key group 7, segment 3"
KEY = Types.STRING()
TEXT = TableSpec("s", Shape.SINGLE, "value", Types.STRING())
PREFIX = bytes(8)


REFUSED = (CorruptStateError, IncompatibleStateError)
SAVEPOINT, HEAD = "savepoint", "head"


class Visits(KeyedProcessFunction):
    """Has a state of each shape, timers, and TTL on one of them."""

    def open(self, runtime_context: Any) -> None:
        """Declare them."""
        count = ValueStateDescriptor("count", Types.LONG())
        count.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.count = runtime_context.get_state(count)
        self.pages = runtime_context.get_list_state(ListStateDescriptor("pages", Types.STRING()))
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.STRING(), Types.LIST(Types.LONG()))
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Put something into each."""
        self.count.update((self.count.value() or 0) + 1)
        self.pages.add(f"page {value}")
        self.seen.put(f"żółw {value % 3}", [value, value + 1])
        ctx.timer_service().register_event_time_timer(1_000 + value)
        yield value


class Job:
    """A job of one key group and its log."""

    def __init__(self, store: InMemoryLogStorage) -> None:
        WARM_GROUPS.clear()
        self.store = store
        self.operator = opened(Visits(), task=TaskInfo("visits"))

    def batch(self, *numbers: int, wake_at: int | None = None) -> None:
        """A micro-batch, of a worker that has nothing warm at first."""
        keys = [f"user-{number % 4}" for number in numbers]
        records = Records(keys, numbers, [None] * len(numbers))
        waking = TimerScheduling(wake_at=lambda *_: wake_at)
        serve(self.operator, self.store, 3, records, waking=waking)
        self.operator.group.cache()

    def contents(self) -> Any:
        """What a worker that has nothing warm finds, whatever the order."""
        self.operator.load(self.store, self.store.read_head("visits"), 3)
        return [
            sorted(map(repr, zip(each.keys, each.user_keys, each.entries)))
            for each in self.operator.backend.contents()
        ]


def log() -> InMemoryLogStorage:
    """A log of a small and a compressed segment, and another small one."""
    store = InMemoryLogStorage()
    job = Job(store)
    job.batch(1, 2, wake_at=5_000)
    job.batch(*range(400))
    job.batch(7, wake_at=6_000)
    return store


def snapshot() -> bytes:
    """A savepoint."""
    with KeyedProcessHarness(Visits(), key_selector=lambda value: f"user-{value % 4}") as harness:
        harness.process_elements([(number, None) for number in range(40)])
        return harness.snapshot()


def after_restore(savepoint: bytes) -> Any:
    """What a harness restores."""
    with KeyedProcessHarness(
        Visits(), key_selector=lambda value: f"user-{value % 4}", restore=savepoint
    ) as harness:
        return [
            sorted(map(repr, zip(each.keys, each.user_keys, each.entries)))
            for each in harness._operator.backend.contents()
        ]


class Damage:
    """What is durable, and what becomes of it when it changes."""

    def __init__(self) -> None:
        self._store = log()
        self._savepoint = snapshot()
        assert self._store.head is not None
        self.forms: dict[Any, bytes] = {
            SAVEPOINT: self._savepoint,
            HEAD: self._store.head.to_bytes(),
            **self._store.segments,
        }
        self._expected = self._read(self._store), after_restore(self._savepoint)

    @staticmethod
    def _read(store: InMemoryLogStorage) -> Any:
        return store.head, Job(store).contents()

    def outcome(self, form: Any, changed: bytes) -> str:
        """`refused`, `harmless` or `silent`; any other error is raised."""
        try:
            if form == SAVEPOINT:
                same = after_restore(changed) == self._expected[1]
            else:
                store = self._store.copy()
                if form == HEAD:
                    store.head = Head.from_bytes(changed, "visits")
                else:
                    store.segments[form] = changed
                same = self._read(store) == self._expected[0]
        except REFUSED:
            return "refused"
        return "harmless" if same else "silent"

    def flips(self, step: int = 1) -> Iterator[tuple[Any, bytes]]:
        """Every `step`-th bit of all forms, flipped."""
        for form, blob in self.forms.items():
            for at in range(0, 8 * len(blob), step):
                changed = bytearray(blob)
                changed[at // 8] ^= 1 << at % 8
                yield form, bytes(changed)


@pytest.fixture(scope="module")
def damage() -> Damage:
    """A head, a log and a savepoint."""
    return Damage()


def thorough() -> bool:
    """Whether all shall be tried: with HYPOTHESIS_PROFILE=thorough, for some minutes."""
    return settings().max_examples > 1_000


def test_no_flipped_bit_is_silent(damage):
    """Of heads, segments and savepoints; every bit in the thorough profile, else one of some hundred."""
    outcomes = {damage.outcome(*flip) for flip in damage.flips(1 if thorough() else 101)}

    assert {"refused"} == outcomes


@given(st.data())
def test_bytes_that_changed_are_read_as_they_were_or_refused(damage, data):
    """Cut, doubled, moved or replaced: whatever a disk, a copy or a hand does to them."""
    form = data.draw(st.sampled_from(list(damage.forms)))
    blob = damage.forms[form]
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(blob))] * 2)))
    new = data.draw(st.binary(max_size=20) | st.just(blob[start:end] * 2) | st.just(blob))
    changed = blob[:start] + new + blob[end:]

    assert damage.outcome(form, changed) == ("harmless" if changed == blob else "refused")


def found_by(program: str, seed: int, count: int) -> dict[str, Any]:
    """What a program of `support` found that crafts and reads, in a process of its own."""
    script = Path(__file__).resolve().parents[1] / "support" / program
    run = subprocess.run(
        [sys.executable, str(script), str(seed), str(count)],
        check=False,
        capture_output=True,
        text=True,
        cwd=script.parents[2],
        env={"PYTHONPATH": str(script.parents[2])},
    )
    assert 0 == run.returncode, run.stderr[-2000:]
    found: dict[str, Any] = json.loads(run.stdout)
    assert {} == found["errors"]
    return found


@pytest.mark.parametrize("seed", range(10) if thorough() else range(2))
def test_no_crafted_segment_ends_the_interpreter_or_is_blamed_on_the_program(seed):
    """With right checksums, and anything within; each is refused or read."""
    count = 2_000 if thorough() else 300
    found = found_by("crafted_segments.py", seed, count)

    assert count <= found["refused"] + found["read"]
    assert (True, True) == (count / 2 < found["refused"], count / 20 < found["read"])


@pytest.mark.parametrize("seed", range(10) if thorough() else range(1))
def test_no_value_of_a_crafted_savepoint_is_blamed_on_the_program_or_takes_memory(seed):
    """With right checksums, and one value of one column replaced; every reader refuses it or reads it."""
    count = 400 if thorough() else 10
    found = found_by("crafted_values.py", seed, count)

    assert (4 * count, True) == (found["refused"] + found["read"], found["grown"] < 64)


# One by one


def section_of(payload: bytes, spec: TableSpec = TEXT, key_type=KEY) -> Section:
    """A section as a segment of this place holds it."""
    return Section(Declaration.of(spec, key_type), payload, PLACE)


def decoded(payload: bytes, spec: TableSpec = TEXT, key_type=KEY) -> TableChanges:
    """What a program that declares the state reads."""
    return decode_entries(section_of(payload, spec, key_type), spec, key_type, 0, "unused")


def payload_of(*columns, flags: int = 0) -> bytes:
    """A payload with these columns."""
    names = [str(number) for number in range(len(columns))]
    batch = pa.RecordBatch.from_arrays(list(columns), names=names)
    return bytes((flags,)) + bytes(7) + batch.serialize().to_pybytes()


def strings(offsets: list[int], data: bytes, **options) -> pa.Array:
    """A column of text with these offsets, right or wrong."""
    buffers = [None, pa.py_buffer(struct.pack(f"<{len(offsets)}i", *offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers, **options)


GOOD = pa.array(["a", "b", "c"])


def test_what_is_crafted_below_is_read_where_it_is_right():
    """The tests below change one thing each."""
    assert ["a", "b", "c"] == decoded(payload_of(GOOD, strings([0, 1, 2, 3], b"abc"))).entries


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (strings([0, 1, 2**30, 3], b"abc"), "offset"),
        (strings([0, 2, 1, 3], b"abc"), "offset"),
        (strings([0, 1, 2, 3], b"a\xffc"), "UTF8"),
        (pa.array(["a", None, "c"], pa.string()), "a null in place of a key"),
        (pa.array(["a", "b"]), "length"),
        (pa.array([1, 2, 3]), "buffers, not"),
        (pa.array(["a", "b", "c"]).dictionary_encode(), "buffers, not"),
        (pa.array(["a", "b", "c"], pa.string_view()), "variadic"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_columns_that_point_elsewhere_are_refused(column, why):
    """Before a value is read; operator, key group, segment and state are named."""
    columns = [column, GOOD]
    if len(column) != 3:
        columns = [GOOD]
    with pytest.raises(CorruptStateError, match=f"{PLACE}, state 's': ") as raised:
        decoded(payload_of(*columns))
    if len(column) == 3:
        assert why in str(raised.value)


def test_a_compressed_message_is_refused_before_it_is_decompressed():
    """Its header says how much memory it wants."""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([GOOD, pa.array(["x" * 10_000] * 3)], names=["key", "value"])
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()
    message = reader.read_next_message().serialize().to_pybytes()

    with pytest.raises(CorruptStateError, match="compressed"):
        decoded(PREFIX + message)


@pytest.mark.parametrize("size", [2**32 - 1, 2**31, 10**9])
def test_a_body_that_says_it_is_huge_is_refused_before_memory_is_taken(size):
    """LZ4 makes at most 255 bytes of one."""
    before = pa.total_allocated_bytes()
    with pytest.raises(CorruptStateError, match=f"{PLACE}: .* would be {size} decompressed"):
        read_segment(sealed(b"x" * 1000, packed=True, size=size), PLACE)
    # Not the same number: what other tests left may be freed meanwhile.
    assert pa.total_allocated_bytes() - before < 1_000_000


@pytest.mark.parametrize("more", [1, 64, 1000])
def test_a_body_that_is_shorter_than_it_says_is_refused(more):
    """What lies behind it in memory is nobody's business."""
    with pytest.raises(CorruptStateError, match=r"not the \d+ bytes that were written"):
        read_segment(sealed(bytes(20_000), packed=True, size=20_000 + more), PLACE)


def test_a_list_of_nothing_cannot_claim_to_be_long():
    """Every value has at least a bit of its own, also one without fields."""
    nothing = Types.LIST(Types.TUPLE([]))
    spec = TableSpec("s", Shape.SINGLE, "value", nothing)
    many = nothing.freeze([()] * 100_000)
    changes = TableChanges(spec, [], ["a", "b"], [None] * 2, [many, ()])
    (payload,) = encode_entries(changes, KEY)

    assert changes == decoded(payload, spec)
    assert len(payload) > 100_000 / 8


def nested(depth: int) -> str:
    """A declaration whose value type is nested so deep."""
    text = "ListTypeInfo<" * depth + "Long" + ">" * depth
    return json.dumps(Declaration.of(TEXT, KEY).fields() | {"value": text})


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "{}", "[]", "5", '"x"', nested(5).replace("single", "double"), "\ud800"],
    ids=range(7),
)
def test_a_declaration_that_is_none_is_refused(text):
    """Also one that is nested without end."""
    body = body_of(text.encode("utf-8", "surrogatepass"), payload_of(GOOD, GOOD))
    with pytest.raises(CorruptStateError, match=PLACE):
        read_segment(sealed(body), PLACE)


@pytest.mark.parametrize("depth", [100, 5_000, 200_000])
def test_a_type_that_is_nested_without_end_is_refused(depth):
    """The message does not repeat it."""
    with pytest.raises(IncompatibleStateError) as raised:
        type_of("ListTypeInfo<" * depth)
    assert len(str(raised.value)) < 1_000


@pytest.mark.parametrize(
    ("kind", "table_id", "length"), [(2, 0, 0), (1, 0, 10), (1, 0, 2**32 - 1), (255, 9, 0)]
)
def test_a_section_that_is_none_is_refused(kind, table_id, length):
    """Of another kind, or longer than what is left."""
    with pytest.raises(CorruptStateError, match=f"{PLACE}: .* a section of kind {kind}"):
        read_segment(sealed(struct.pack("<BII", kind, table_id, length)), PLACE)


def test_a_header_cut_short_is_refused():
    """The rest of a section is not there."""
    with pytest.raises(CorruptStateError, match=PLACE):
        read_segment(sealed(b"\x00\x00"), PLACE)


def test_a_table_that_is_not_declared_is_refused():
    """Its segment is named."""
    segment = read_segment(sealed(struct.pack("<BII", 1, 9, 0)), PLACE)
    with pytest.raises(CorruptStateError, match=f"{PLACE}: .* got table id 9"):
        KeyGroupState(7).read(segment, PLACE)


@pytest.mark.parametrize("prefix", [b"", b"\x00" * 7, b"\x04" + bytes(7), b"\x00" * 7 + b"\x01"])
def test_flags_that_nobody_sets_are_refused(prefix):
    """And so is a payload without any."""
    payload = payload_of(GOOD, GOOD)[8:] if len(prefix) == 8 else b""
    with pytest.raises(CorruptStateError, match="state 's'"):
        decoded(prefix + payload)


@pytest.mark.parametrize(
    "operations", [[0, 0, 2], [3, 0, 0], [-1, 0, 0], [0, None, 0], [2, 0, 2], [1, 2, 0]]
)
def test_operations_that_nobody_writes_are_refused(operations):
    """Keys are cleared before others are put."""
    column = pa.array(operations, pa.int8())
    with pytest.raises(CorruptStateError, match="state 's'"):
        decoded(payload_of(GOOD, GOOD, column, flags=2))


def test_operations_that_are_written_are_read():
    """A key that is cleared first, then what was put and deleted."""
    changes = decoded(payload_of(GOOD, GOOD, pa.array([2, 1, 0], pa.int8()), flags=2))
    assert (["a"], ["b", "c"], [MISSING, "c"]) == (changes.cleared, changes.keys, changes.entries)


@pytest.mark.parametrize(
    ("type_info", "column"),
    [
        (Types.LONG(), pa.array([1, None, 2])),
        (Types.CHAR(), pa.array(["a", "bc", "d"])),
        (Types.BIG_INT(), pa.array(["1", "x", "2"])),
        (Types.BIG_INT(), pa.array(["1", "9" * 5000, "2"])),
        (Types.BIG_DEC(), pa.array(["1", "1..5", "2"])),
        (Types.SQL_DATE(), pa.array([0, 2**30, 1], pa.int32()).cast(pa.date32())),
        (Types.SQL_TIMESTAMP(), pa.array([0, 2**62, 1]).cast(pa.timestamp("us"))),
        (Types.LIST(Types.LONG()), pa.array([[1], [None], []], pa.list_(pa.int64()))),
        (Types.PICKLED_BYTE_ARRAY(), pa.array([b"i\x01", b"", b"T"], pa.binary())),
        (Types.PICKLED_BYTE_ARRAY(), pa.array([b"i\x01", b"?", b"T"], pa.binary())),
        (Types.PICKLED_BYTE_ARRAY(), pa.array([b"i\x01", b"f\x00", b"T"], pa.binary())),
        (
            Types.MAP(Types.STRING(), Types.LONG()),
            pa.array([[("a", 1)], [("a", None)], []], pa.map_(pa.string(), pa.int64())),
        ),
        (
            Types.INSTANT(),
            pa.array(
                [{"seconds": 1, "nanos": 10**9}] * 3,
                pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())]),
            ),
        ),
    ],
    ids=str,
)
def test_a_value_that_is_none_of_its_type_is_refused_when_it_is_restored(type_info, column):
    """And not when the program reads it, which would be blamed on the program."""
    spec = TableSpec("s", Shape.SINGLE, "value", type_info)
    with pytest.raises(CorruptStateError, match=f"{PLACE}, state 's'"):
        decoded(payload_of(GOOD, column), spec)


@pytest.mark.parametrize("cell", [b"", b"\x02", b"\x05\x05", b"\x05" * 50_000, b"\x26\x00", None])
def test_a_key_that_is_none_is_refused(cell):
    """Also one that is nested without end."""
    key_type = KEYS[2][0]
    keys = pa.array([b"\x02a\x00", cell, b"\x02b\x00"], pa.binary())
    with pytest.raises(CorruptStateError, match=f"{PLACE}, state 's'"):
        decoded(payload_of(keys, GOOD), key_type=key_type)


@pytest.mark.parametrize("size", [100_001, 5_000_000])
@pytest.mark.parametrize("packed", [False, True])
def test_the_checksum_covers_a_body_of_any_size(size, packed):
    """Its last byte as well as its first, compressed or not."""
    (payload,) = encode_entries(TableChanges(TEXT, [], ["a"], [None], ["x" * size]), KEY)
    text = json.dumps(Declaration.of(TEXT, KEY).fields()).encode()
    blob = sealed(body_of(text, payload), packed=packed)
    assert read_segment(blob, PLACE)

    for at in (45, 45 + (len(blob) - 45) // 2, len(blob) - 60, len(blob) - 1):
        changed = bytearray(blob)
        changed[at] ^= 1
        with pytest.raises(CorruptStateError, match=f"{PLACE}: the checksum of a segment"):
            read_segment(bytes(changed), PLACE)
    head = bytearray(blob[:45])
    struct.pack_into("<I", head, 41, zlib.crc32(blob[:41]))  # of the header alone
    with pytest.raises(CorruptStateError, match="the checksum of a segment"):
        read_segment(bytes(head) + blob[45:], PLACE)


# Positions in lists

ELEMENTS = TableSpec("s", Shape.LIST, "list", Types.STRING())


class Appends(KeyedProcessFunction):
    """Adds each element to a list and tells all of it."""

    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("s", Types.STRING()))

    def process_element(self, value, ctx):
        self.list.add(value)
        yield list(self.list)


def snapshot_of_list(positions: list[int]) -> bytes:
    """A savepoint of a list, under the key "a", with elements at these positions."""
    keys, elements = pa.array(["a"] * len(positions)), pa.array(list("xyz"[: len(positions)]))
    payload = payload_of(keys, pa.array(positions, pa.int64()), elements)
    declared = Declaration.of(ELEMENTS, KEY).to_json()
    return sealed(body_of(declared, payload))


@pytest.mark.parametrize("backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend])
@pytest.mark.parametrize("position", [-1, -(2**63), 2**48 + 1, 2**62, 2**63 - 1])
def test_a_position_that_no_list_reaches_is_refused(backend, position):
    """Neither is it blamed on the program, nor is memory taken for what would be before it."""
    blob = snapshot_of_list([0, position])
    with pytest.raises(CorruptStateError, match=r"state 's': .* positions of a list outside 0 to"):
        KeyedProcessHarness(
            Appends(), lambda _: "a", state_backend=backend(), restore=blob, key_type=KEY
        )


def test_the_readers_without_a_program_refuse_such_a_position_too():
    """Rows of a state, and a savepoint that is taken apart."""
    log = read_segment(snapshot_of_list([0, -1]), PLACE)
    sections = [Section(log.declarations[0], log.sections[0][1], PLACE)]
    readers = [
        lambda: replay(StoredTable(log.declarations[0]), sections, PLACE),
        lambda: regroup_snapshot(log, KEY, lambda keys: [0] * len(keys), 1, PLACE),
    ]
    for read in readers:
        with pytest.raises(CorruptStateError, match="positions of a list outside 0 to"):
            read()


@pytest.mark.parametrize("backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend])
@pytest.mark.parametrize(
    "positions", [[2**28], [0, 2**28], [0, 2**32, 2**32 + 1], [2**47, 7, 0], [2**28, 2**29, 5]]
)
def test_a_list_costs_what_is_in_it_wherever_its_positions_are(backend, positions):
    """A log of RocksDB may hold the first of a list and what was appended millions of times later."""
    blob, elements = snapshot_of_list(positions), "xyz"
    told = [element for _, element in sorted(zip(positions, elements))]
    tracemalloc.start()
    with KeyedProcessHarness(
        Appends(), lambda _: "a", state_backend=backend(), restore=blob, key_type=KEY
    ) as harness:
        told_now = harness.process_element("new")
        saved = harness.snapshot()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    with KeyedProcessHarness(Appends(), lambda _: "a", restore=saved, key_type=KEY) as harness:
        told_then = harness.process_element("last")

    assert ([[*told, "new"]], [[*told, "new", "last"]]) == (told_now, told_then)
    assert peak < 4_000_000
