# SPDX-License-Identifier: Apache-2.0
"""Only the operator that made a checkpoint goes on from it: the processor of a stream, without a JVM."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

from checkpoint_support import Checkpoint, Program

from pyflinklike import KeyedProcessFunction, ListStateDescriptor, Row, Types, ValueStateDescriptor
from pyflinklike._changelog.operator_record import RECORD_AT, REGISTRY_AT
from pyflinklike._changelog.segments import read_segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike.errors import CorruptStateError, IncompatibleStateError, UserFunctionError
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, group_ids, registry_payload
from pyflinklike.testing import KeyedProcessHarness

PARALLELISMS = (1, 2, 4, 16, 64, 128, 200, 512)
CHANGED = list(itertools.permutations(PARALLELISMS, 2))


class Count(KeyedProcessFunction):
    """Counts the records of a key; the key "mute" leaves no state, and none takes a number below 0."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        if value.key == "mute":
            return
        if value.n < 0:
            raise ValueError
        self.count.update((self.count.value() or 0) + 1)
        yield value.key, self.count.value()


class Remind(KeyedProcessFunction):
    """Registers a timer for the time `n`."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value.n)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def key_in(program, group):
    """A key of that key group."""
    return next(key for key in map(str, itertools.count()) if program.group_of(key) == group)


@pytest.mark.parametrize(("former", "now"), CHANGED)
@pytest.mark.restarts("max_parallelism", "refused")
def test_a_changed_max_parallelism_is_refused_wherever_the_data_lies(former, now):
    """In a batch with data of a key group that is new under both numbers, for every pair."""
    checkpoint, before, after = (
        Checkpoint(),
        Program(Count(), max_parallelism=former),
        Program(Count(), max_parallelism=now),
    )
    checkpoint.run(before, [(key_in(before, former - 1), 1)], time=1)
    taken = set(checkpoint.blobs)
    ids = group_ids(now)
    free = next((at for at in range(now) if ids[at] not in taken), 0)
    with pytest.raises(
        IncompatibleStateError,
        match=rf"'counted': max_parallelism is fixed by its checkpoint at {former}, got {now}; .*read_savepoint",
    ):
        checkpoint.run(after, [(key_in(after, free), 1)], time=2)


@pytest.mark.parametrize(("former", "now"), CHANGED)
def test_a_changed_max_parallelism_is_refused_before_any_timer_fires(former, now):
    """In a batch without data as well, in which the registry is not called."""
    checkpoint, before = Checkpoint(), Program(Remind(), max_parallelism=former)
    checkpoint.run(before, [("a", 50)], time=1)
    with pytest.raises(IncompatibleStateError, match=f"at {former}, got {now};"):
        checkpoint.expire(Program(Remind(), max_parallelism=now), time=60)
    assert [("a", 50)] == checkpoint.expire(before, time=60)


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ([("a", "string"), ("b", "string")], [("b", "string"), ("a", "string")]),
        ([("a", "string"), ("b", "int")], [("b", "int"), ("a", "string")]),
        ([("a", "int")], [("a", "bigint")]),
        ([("a", "date")], [("a", "timestamp")]),
        ([("a", "timestamp")], [("a", "timestamp_ntz")]),
        ([("a", "string")], [("b", "string")]),
        ([("a", "string")], [("a", "string"), ("b", "string")]),
        ([("a", "decimal(10,2)")], [("a", "decimal(12,2)")]),
    ],
)
@pytest.mark.restarts("key: type", "refused")
@pytest.mark.restarts("key: names of its columns", "refused")
@pytest.mark.restarts("key: order of its columns", "refused")
@pytest.mark.restarts("key: number of its columns", "refused")
def test_changed_key_columns_are_refused(former, now):
    """Another order, type, name or number: with what the checkpoint has and what the program has; with data, and without."""
    checkpoint = Checkpoint()
    checkpoint.run(Program(Remind(), key_columns=tuple(former)), [("a", 50)], time=1)
    for run in (
        lambda: checkpoint.run(Program(Remind(), key_columns=tuple(now)), [("z", 1)], time=2),
        lambda: checkpoint.expire(Program(Remind(), key_columns=tuple(now)), time=60),
    ):
        with pytest.raises(IncompatibleStateError) as raised:
            run()
        for columns in (former, now):
            assert ", ".join(f"{name} {kind}" for name, kind in columns) in str(raised.value)


@pytest.mark.parametrize("former", ["tinyint", "smallint", "int"])
@pytest.mark.parametrize("now", ["tinyint", "smallint", "int"])
@pytest.mark.restarts("key: int for smallint or tinyint", "goes on")
def test_integers_of_up_to_32_bits_are_the_same_keys(former, now):
    """Spark hashes them alike, and they make the same Python keys."""
    checkpoint = Checkpoint()
    checkpoint.run(Program(Count(), key_columns=(("a", former),)), [("1", 1)], time=1)
    changed = Program(Count(), key_columns=(("a", now),))
    assert [("1", 2)] == checkpoint.run(changed, [("1", 1)], time=2)
    assert (("a", now),) == checkpoint.record().identity.key_columns


@pytest.mark.parametrize("pandas", [False, True])
@pytest.mark.restarts("uid", "refused")
@pytest.mark.restarts("chain: operators in another order", "refused")
def test_operators_that_changed_places_are_refused(pandas):
    """By the names of both, with data and without; back in their places they go on."""
    checkpoint = Checkpoint()
    first = Program(Remind(), name="first", pandas=pandas)
    second = Program(Remind(), name="second", pandas=pandas)
    checkpoint.run(first, [("a", 50)], time=1)
    for run in (
        lambda: checkpoint.run(second, [("z", 1)], time=2),
        lambda: checkpoint.expire(second, time=60),
    ):
        with pytest.raises(IncompatibleStateError, match=r"'second': .*'first'.*uid='first'"):
            run()
    assert [("a", 50)] == checkpoint.expire(first, time=60)


@pytest.mark.restarts("function: its class and its code", "goes on")
def test_a_renamed_class_goes_on_under_the_former_name():
    """The class is in the record to be read, not to be compared."""

    class Renamed(Count):
        pass

    checkpoint = Checkpoint()
    checkpoint.run(Program(Count()), [("a", 1)], time=1)
    assert [("a", 2)] == checkpoint.run(Program(Renamed()), [("a", 1)], time=2)
    assert checkpoint.record().function.endswith("Renamed")


def test_a_first_batch_that_failed_leaves_no_record():
    """Which one it would have been does not matter."""
    checkpoint = Checkpoint()
    with pytest.raises(UserFunctionError):
        checkpoint.run(Program(Count(), max_parallelism=4), [("a", -1)], time=1)
    assert {} == checkpoint.blobs
    assert [("a", 1)] == checkpoint.run(Program(Count(), max_parallelism=8), [("a", 1)], time=2)


def test_a_batch_without_records_writes_the_record():
    """As where the first files of a source are empty."""
    checkpoint = Checkpoint()
    checkpoint.run(Program(Count(), max_parallelism=4), [], time=1)
    assert {REGISTRY_KEY} == checkpoint.blobs.keys()
    with pytest.raises(IncompatibleStateError, match="at 4, got 8"):
        checkpoint.run(Program(Count(), max_parallelism=8), [("a", 1)], time=2)


def test_the_roll_says_when_each_key_group_last_had_records():
    """And so do their heads: also of a key group without state, and after a batch of timers alone."""
    checkpoint, program = Checkpoint(), Program(Count(), max_parallelism=64)
    a, b, mute = (program.group_of(key) for key in ("a", "b", "mute"))
    assert 3 == len({a, b, mute})
    checkpoint.run(program, [("a", 1), ("mute", 1)], time=10)
    checkpoint.run(program, [("b", 1), ("mute", 1)], time=20)
    checkpoint.expire(program, time=30)
    expected = {a: 10, b: 20, mute: 20}
    assert expected == checkpoint.registry().served_at
    assert expected == {at: head.served_at for at, head in checkpoint.heads(program).items()}


def test_the_record_is_written_once():
    """A batch costs the registry two round trips; the record is not even read."""
    checkpoint, program = Checkpoint(), Program(Count(), max_parallelism=4)
    checkpoint.run(program, [("a", 1)], time=1)
    with checkpoint.edit_blobs() as blobs:
        record = blobs[REGISTRY_KEY].pop(RECORD_AT)
    checkpoint.run(program, [("a", 1)], time=2)
    assert RECORD_AT not in checkpoint.blobs[REGISTRY_KEY]
    # The key group reads head and segment, and writes both; the registry is read and written.
    assert 4 + 2 == checkpoint.calls
    with checkpoint.edit_blobs() as blobs:
        blobs[REGISTRY_KEY][RECORD_AT] = record
    assert "counted" == checkpoint.record().identity.name


def test_a_record_keeps_the_states_that_the_program_left_out():
    """Their entries are still in the log."""

    class More(Count):
        def open(self, runtime_context):
            super().open(runtime_context)
            runtime_context.get_list_state(ListStateDescriptor("more", Types.STRING()))

    checkpoint = Checkpoint()
    for function, states in [(Count(), 1), (More(), 2), (Count(), 2)]:
        checkpoint.run(Program(function), [("a", 1)], time=1)
        assert states == len(checkpoint.record().states)
    kind = Types.STRING().signature
    assert {"kind": "list", "value": kind} == checkpoint.record().states["more"]


@pytest.mark.parametrize("lost", [RECORD_AT, REGISTRY_AT])
def test_a_record_without_its_roll_is_damage(lost):
    """And the other way round, once the record is looked at."""
    checkpoint = Checkpoint()
    checkpoint.run(Program(Count()), [("a", 1)], time=1)
    with checkpoint.edit_blobs() as blobs:
        del blobs[REGISTRY_KEY][lost]

    class Renamed(Count):
        pass

    with pytest.raises(CorruptStateError, match="'counted': its record and the registry"):
        checkpoint.run(Program(Renamed()), [("a", 1)], time=2)


# A savepoint to begin with


def counted(keys):
    """A savepoint in which each of these keys was seen once."""
    harness = KeyedProcessHarness(
        Count(), key_selector=lambda value: value.key, key_type=Types.STRING()
    )
    harness.process_elements((Row(key=key, n=1), None) for key in keys)
    return read_segment(harness.snapshot(), "savepoint")


def initial_rows(program, *savepoints):
    """The rows of an initial state, by grouping key: one of each savepoint."""
    ids = group_ids(program.max_parallelism)
    rows = {}
    for savepoint in savepoints:
        groups = regroup_snapshot(
            savepoint,
            Types.STRING(),
            lambda keys: [program.group_of(key) for key in keys],
            program.max_parallelism,
            "savepoint",
        )
        for index, segments in groups.items():
            rows.setdefault(ids[index], []).extend(each.to_bytes() for each in segments)
        rows.setdefault(REGISTRY_KEY, []).append(registry_payload(groups))
    return rows


@pytest.mark.parametrize("pandas", [False, True])
def test_a_key_group_begins_with_all_rows_that_spark_hands_over(pandas):
    """One by one or as a frame; the registry names them all, and a later call changes nothing."""
    program = Program(Count(), max_parallelism=4, pandas=pandas)
    keys = [str(number) for number in range(40)]
    rows = initial_rows(program, counted(keys[:15]), counted(keys[15:30]), counted(keys[30:]))
    assert 3 == max(map(len, rows.values()))
    checkpoint = Checkpoint()
    checkpoint.begin(program, rows, time=5)
    assert dict.fromkeys(range(4), 5) == checkpoint.registry().served_at
    again = checkpoint.run(program, [(key, 1) for key in keys], time=6)
    assert sorted((key, 2) for key in keys) == again
    checkpoint.begin(program, rows, time=7)
    assert sorted((key, 3) for key in keys) == checkpoint.run(
        program, [(key, 1) for key in keys], time=8
    )
