# SPDX-License-Identifier: Apache-2.0
"""Columns in the log: the bytes are those of entries, and what no program writes is refused."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pytest

from pyflinklike import HashMapStateBackend, StateTtlConfig, Types, ValueStateDescriptor
from pyflinklike._changelog.entry_codec import (
    decode_columns,
    decode_entries,
    encode_batch,
    encode_columns,
    encode_entries,
    schema_of,
)
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._changelog.segments import Declaration, Section
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.micro_batch import PreWatermarkRecords, serve
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.columns.column_tables import ColumnTable
from pyflinklike.columns.columnar_records import ColumnReader
from pyflinklike.columns.keyed_batch import KeyReader, frozen_keys
from pyflinklike.errors import CorruptStateError, DeclarationError, StateValueError
from pyflinklike.state.table import (
    CLEAR,
    DELETE,
    MISSING,
    PUT,
    ColumnChanges,
    Shape,
    TableChanges,
    TableSpec,
)

STRING = Types.STRING()
COUNT = TableSpec("count", Shape.SINGLE, "value", Types.LONG())
PAIRED = TableSpec("count", Shape.SINGLE, "value", Types.LONG(), paired=True)
NO_OPERATIONS, OPERATIONS, STAMPS = 0, 2, 1


def columns(spec, deleted=False) -> ColumnChanges:
    """Two entries, of which the second may be deleted."""
    return ColumnChanges(
        spec,
        keys=pa.array(["a", "b"]),
        values=pa.array([1, None if deleted else 2], pa.int64()),
        stamps=np.array([5, 6]) if spec.paired else None,
        operations=np.array([PUT, DELETE], np.int8) if deleted else None,
    )


def entries(spec, deleted=False) -> TableChanges:
    """The same, one by one."""
    values = [(5, 1), (6, 2)] if spec.paired else [1, 2]
    last = MISSING if deleted else values[1]
    return TableChanges(spec, keys=["a", "b"], user_keys=[None, None], entries=[values[0], last])


@pytest.mark.parametrize("spec", [COUNT, PAIRED], ids=["plain", "paired"])
@pytest.mark.parametrize("deleted", [False, True])
def test_either_form_is_read_from_either_form(spec, deleted):
    """And without stamps or deletions the bytes are the same."""
    declaration = Declaration.of(spec, STRING)
    (by_columns,) = encode_columns(columns(spec, deleted), STRING)
    (by_entries,) = encode_entries(entries(spec, deleted), STRING)

    if not deleted:
        assert by_entries == by_columns
    read = decode_entries(Section(declaration, by_columns), spec, STRING, 0, "test")
    assert (entries(spec, deleted).keys, entries(spec, deleted).entries) == (
        read.keys,
        read.entries,
    )
    got = decode_columns(Section(declaration, by_entries), spec, STRING, 0, "test")
    assert ["a", "b"] == got.keys.to_pylist()
    assert [1, None if deleted else 2] == got.values.to_pylist()
    assert (None if not spec.paired else 5) == (got.stamps[0] if spec.paired else None)


LAST_DAY = TableSpec("count", Shape.SINGLE, "value", Types.SQL_DATE())
DAYS = TableSpec("count", Shape.MAP, "map", Types.LONG(), Types.SQL_DATE())
TIMES = TableSpec("count", Shape.SINGLE, "value", Types.TUPLE([Types.SQL_TIMESTAMP()]))


def section(flags, *arrays, spec=COUNT) -> Section:
    """What somebody wrote."""
    batch = pa.RecordBatch.from_arrays(list(arrays), schema=schema_of(spec, STRING, flags))
    return Section(Declaration.of(spec, STRING), encode_batch(batch), "segment 7")


KEYS, VALUES = pa.array(["a", "b"]), pa.array([1, 2])
CRAFTED = {
    "a null key": section(0, pa.array(["a", None]), VALUES),
    "a null value": section(0, KEYS, pa.array([1, None])),
    "an unknown operation": section(OPERATIONS, KEYS, VALUES, pa.array([0, 3], pa.int8())),
    "a null operation": section(OPERATIONS, KEYS, VALUES, pa.array([0, None], pa.int8())),
    "a null value that was put": section(
        OPERATIONS, KEYS, pa.array([None, 2], pa.int64()), pa.array([PUT, DELETE], pa.int8())
    ),
    "an operation that clears a key after others": section(
        OPERATIONS, KEYS, VALUES, pa.array([PUT, CLEAR], pa.int8())
    ),
    "a day after 9999": section(0, KEYS, pa.array([0, 3_000_000], pa.date32()), spec=LAST_DAY),
    "a day before the year 1": section(
        0, KEYS, pa.array([-800_000, 0], pa.date32()), spec=LAST_DAY
    ),
    "a time after 9999": section(
        0, KEYS, pa.array([(2**62,), (0,)], TIMES.value_type.arrow_type), spec=TIMES
    ),
    "a user key after 9999": section(
        0, KEYS, pa.array([0, 3_000_000], pa.date32()), VALUES, spec=DAYS
    ),
    "a null user key": section(0, KEYS, pa.array([0, None], pa.date32()), VALUES, spec=DAYS),
    "a null stamp": section(STAMPS, KEYS, VALUES, pa.array([1, None]), spec=PAIRED),
}


@pytest.mark.parametrize("what", CRAFTED)
def test_what_no_program_writes_is_refused(what):
    """By its place."""
    specs = {"day": LAST_DAY, "time": TIMES, "user": DAYS, "stamp": PAIRED}
    spec = next((spec for word, spec in specs.items() if word in what.split()), COUNT)

    with pytest.raises(CorruptStateError, match="segment 7, state 'count'"):
        decode_columns(CRAFTED[what], spec, STRING, 0, "test")


def test_the_first_and_the_last_day_are_read():
    """1 January of the year 1, and 31 December 9999."""
    days = [-719162, 2932896]
    read = section(0, KEYS, pa.array(days, pa.date32()), spec=LAST_DAY)
    assert days == decode_columns(read, LAST_DAY, STRING, 0, "").values.cast(pa.int32()).to_pylist()


def test_a_cleared_key_is_gone():
    """As functions of elements read it."""
    operations = pa.array([CLEAR, PUT], pa.int8())
    read = decode_columns(section(OPERATIONS, KEYS, VALUES, operations), COUNT, STRING, 0, "test")

    assert [CLEAR, PUT] == read.operations.tolist()


def test_many_entries_are_several_sections():
    """And a single one that is too large is told by name."""
    spec = TableSpec("text", Shape.SINGLE, "value", STRING)
    texts = ColumnChanges(spec, pa.array(["a", "b", "c"]), pa.array(["x" * 500] * 3))

    assert 3 == len(encode_columns(texts, STRING, limit=600))
    with pytest.raises(StateValueError, match="'text': one entry may take 400 bytes"):
        encode_columns(texts, STRING, limit=100, largest=400)


class Keeps(KeyedBatchFunction):
    """Keeps the last value of a key, and forgets it where that is 0."""

    ttl = None

    def open(self, ctx):
        descriptor = ValueStateDescriptor("last", Types.LONG())
        descriptor.enable_time_to_live(self.ttl)
        self.last = ctx.get_column_state(descriptor)

    def process_batch(self, batch, ctx):
        before = self.last.get(-1)
        last = batch.groups.last(batch.numpy("value"))
        self.last.put(last, where=last != 0)
        self.last.clear(where=last == 0)
        return {"key": batch.groups.first(batch["key"]), "before": before}


def test_a_large_key_group_is_written_in_portions(monkeypatch):
    """Arrow's strings end at 2 GiB, and a key group may have more."""
    monkeypatch.setattr(ColumnTable, "portion_bytes", 1 << 12)
    worker, store = Worker(), InMemoryLogStorage()
    some = [f"key-{number}" for number in range(500)]

    worker.serve(store, some, 7)

    assert 2 < len(worker.operator.backend.contents())
    assert [7] * 500 == Worker().serve(store, some, 8)


class Worker:
    """Serves key group 0 of a log."""

    def __init__(self, function=Keeps):
        task, owner = TaskInfo("keeps", max_parallelism=1), f"tested-{uuid.uuid4()}"
        self.operator = make_keyed_operator(
            OperatorDeclaration(function(), HashMapStateBackend(), STRING, task, owner)
        )
        self.operator.open()
        keys = KeyReader(("key",), STRING, lambda each: frozen_keys(STRING, each))
        self.reader = ColumnReader(keys, None)

    def serve(self, store, keys, value) -> list[int]:
        """Serve a batch with this value for each key; the values before."""
        batch = pa.RecordBatch.from_pydict(
            {"key": pa.array(keys, pa.string()), "value": np.full(len(keys), value)}
        )
        serve(self.operator, store, 0, self.reader.read(batch))
        self.operator.group.cache()
        rows = self.operator.outputs.take().main
        return [value for each in rows for value in each.column("before").to_pylist()]


def test_keys_without_state_are_forgotten():
    """A key group that many keys pass through does not grow."""
    worker, store = Worker(), InMemoryLogStorage()
    some = [f"key-{number}" for number in range(3000)]
    kept = some[::10]

    assert [-1] * 3000 == worker.serve(store, some, 7)
    worker.serve(store, [key for key in some if key not in kept], 0)

    assert 300 == worker.operator.backend.columns.index.count
    assert [7] * 300 == worker.serve(store, kept, 8)
    assert [8, -1] == worker.serve(store, ["key-10", "key-11"], 9)
    assert [9, 8, 9] == Worker().serve(store, ["key-10", "key-20", "key-11"], 1)


def test_a_worker_catches_up_and_a_failed_batch_leaves_nothing():
    """Two workers on one log, of which one fails halfway."""
    one, other, store = Worker(), Worker(), InMemoryLogStorage()
    one.serve(store, ["a", "b"], 1)
    other.serve(store, ["b"], 2)
    assert [1, 2] == one.serve(store, ["a", "b"], 3)

    # Its transaction is given up, and what it keeps warm must not be used.
    other.serve(store.copy(), ["a", "c"], 99)

    assert [3, 3, -1] == other.serve(store, ["a", "b", "c"], 4)
    metrics = other.operator.metrics
    assert (2, 1) == (metrics.cold_loads, metrics.caught_up_loads)


def with_ttl(ttl):
    """The function with that TTL."""
    return type("Keeps", (Keeps,), {"ttl": ttl})


def test_ttl_is_switched_on_and_off_at_a_restore():
    """On: old entries are stamped then.  Off: all that is stored stays."""
    ttl = StateTtlConfig.new_builder(100).build()
    records = {"key": ["a"], "value": [1]}
    with KeyedBatchHarness(Keeps(), "key") as plain:
        plain.process_batch(records)
        snapshot = plain.snapshot()
    with KeyedBatchHarness(with_ttl(ttl)(), "key", restore=snapshot) as expiring:
        expiring.set_processing_time(99)
        kept = expiring.snapshot()
        expiring.set_processing_time(100)
        assert [-1] == expiring.process_batch(records).column("before").to_pylist()
    with KeyedBatchHarness(Keeps(), "key", restore=kept) as plain:
        plain.set_processing_time(10_000)
        assert [1] == plain.process_batch(records).column("before").to_pylist()


@pytest.mark.parametrize("every", [True, False])
def test_incremental_cleanup_goes_through_all_entries(every):
    """As many with each record as the TTL says."""
    ttl = StateTtlConfig.new_builder(100).cleanup_incrementally(5, every).build()
    with KeyedBatchHarness(with_ttl(ttl)(), "key") as harness:
        harness.process_batch({"key": [f"k{at}" for at in range(100)], "value": [1] * 100})
        harness.set_processing_time(100)
        for _ in range(40):
            harness.process_batch({"key": ["other"], "value": [1]})

        assert 1 == harness.num_keyed_state_entries("last")


def test_compaction_and_full_snapshots_leave_expired_entries_out():
    """Where the TTL says so."""
    ttl = StateTtlConfig.new_builder(100).cleanup_full_snapshot().build()
    with KeyedBatchHarness(with_ttl(ttl)(), "key") as harness:
        harness.process_batch({"key": ["a", "b"], "value": [1, 1]})
        harness.set_processing_time(50)
        harness.process_batch({"key": ["b"], "value": [1]})
        harness.set_processing_time(120)
        with KeyedBatchHarness(with_ttl(ttl)(), "key", restore=harness.snapshot()) as restored:
            assert 1 == restored.num_keyed_state_entries("last")
        assert 2 == harness.num_keyed_state_entries("last")
        harness.compact()
        assert 1 == harness.num_keyed_state_entries("last")


class Renamed(Keeps):
    """Wants timers, by the name that they have in a KeyedProcessFunction."""

    def on_timer(self, batch, ctx):
        """Would never be called."""


def test_a_method_for_single_timers_is_refused():
    """It would never be called, without an error."""
    with pytest.raises(DeclarationError, match="got Renamed with a method on_timer, which is"):
        KeyedBatchHarness(Renamed(), "key")


class Counted(Keeps):
    """Has a timer for each key."""

    def process_batch(self, batch, ctx):
        ctx.timer_service().register_event_time_timer(30)

    def on_timers(self, batch, ctx):
        """Nothing."""


def test_a_key_is_counted_once():
    """Whether it has records before and after the watermark, or a timer that fires, or all three."""
    worker, store = Worker(Counted), InMemoryLogStorage()

    def read(*keys):
        return worker.reader.read(pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.string())}))

    worker.operator.clock.watermark = 20
    serve(
        worker.operator,
        store,
        0,
        read("a", "b", "a"),
        early=PreWatermarkRecords(read("b", "c"), 10),
    )
    first = counted(worker)
    worker.operator.clock.watermark = 30
    serve(worker.operator, store, 0, read("a", "d"))
    assert [(5, 3, 0), (2, 4, 5)] == [first, counted(worker)]


def counted(worker) -> tuple[int, int, int]:
    """Records, keys, and timers that fired."""
    numbers = dict(zip(OperatorMetrics.names(), worker.operator.metrics.take()))
    return numbers["records"], numbers["keys"], numbers["timers_fired"]


class Registers(Keeps):
    """Registers a timer for the value of a record, and tells of those that fire."""

    def process_batch(self, batch, ctx):
        ctx.timer_service().register_event_time_timer(batch.numpy("value"))

    def on_timers(self, batch, ctx):
        return {"before": batch.timestamps}


def test_a_timer_of_another_worker_fires():
    """Also one that is earlier than all that this worker knew of."""
    one, other, store = Worker(Registers), Worker(Registers), InMemoryLogStorage()
    one.serve(store, ["a"], 12)
    one.serve(store, ["b"], 12)
    other.serve(store, ["a"], 5)
    one.operator.clock.watermark = 6

    assert [5] == one.serve(store, ["c"], 20)
