# SPDX-License-Identifier: Apache-2.0
"""State whose type has grown goes on where it is: sections of both types lie side by side."""

from __future__ import annotations

import attrs
import pytest
from group_log_support import COUNT, Worker
from growth_support import growing
from hypothesis import given, settings
from hypothesis import strategies as st
from probe import Probe, Record, drive
from replay_support import log_of, record_of, rows_of
from stream_support import BACKENDS, Stream
from tasks import Task
from type_support import same

from pyflinklike import (
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.segments import read_segment
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import BroadcastHarness, KeyedProcessHarness
from pyflinklike.testing.strategies import values_of

on_both = pytest.mark.parametrize("backend", BACKENDS)
LAW = [BACKENDS[0], pytest.param(*BACKENDS[1].values, id="rocksdb", marks=pytest.mark.thorough)]
INT, LONG, BIG, TEXT = Types.INT(), Types.LONG(), Types.BIG_INT(), Types.STRING()
OLD_ROW = Types.ROW_NAMED(["user", "n"], [TEXT, INT])
NEW_ROW = Types.ROW_NAMED(["n", "city", "user"], [LONG, TEXT, TEXT])


def value_of(type_info):
    """A value."""
    return ValueStateDescriptor("s", type_info)


def list_of(type_info):
    """A list of such elements."""
    return ListStateDescriptor("s", type_info)


def map_of(type_info):
    """A map to such values."""
    return MapStateDescriptor("s", TEXT, type_info)


PUT = {
    value_of: lambda value: lambda state, _: state.update(value),
    list_of: lambda value: lambda state, _: state.add(value),
    map_of: lambda value: lambda state, _: state.put("m", value),
}
GET = {
    value_of: lambda state, _: state.value(),
    list_of: lambda state, _: list(state.get()),
    map_of: lambda state, _: dict(state.items()),
}
HOLD = {
    value_of: lambda values: values[-1],
    list_of: list,
    map_of: lambda values: {"m": values[-1]},
}


def do(task, key, script):
    """What a script gives in a micro-batch of one record."""
    (found,) = task.serve([(key, Record(key, script), None)])
    return found


@pytest.mark.parametrize("backend", LAW)
@settings(max_examples=settings().max_examples // 2)
@given(pair=growing(), kind=st.sampled_from([value_of, list_of, map_of]), data=st.data())
def test_state_reads_as_the_model_says(backend, pair, kind, data):
    """What the old program wrote, and what the new one writes beside it, also after a compaction."""
    before = data.draw(values_of(pair.stored).filter(lambda value: value is not None))
    after = data.draw(values_of(pair.declared).filter(lambda value: value is not None))
    thawed = pair.declared.thaw(pair.declared.freeze(after))
    task = Task(Probe(kind(pair.stored)), backend)
    do(task, "a", PUT[kind](before))
    do(task, "c", PUT[kind](before))
    old = pair.declared.thaw(pair.declared.freeze(pair.cast(before)))

    task.function = Probe(kind(pair.declared))
    task.lose()
    do(task, "a", PUT[kind](after))
    task.lose()
    assert same(HOLD[kind]([old, thawed]), do(task, "a", GET[kind]))
    assert same(HOLD[kind]([old]), do(task, "c", GET[kind]))
    assert 2 + (kind is list_of) == len(rows(task, "s"))


def rows(task, name):
    """The rows of a state, as the record of the task's program tells them."""
    operator = task._opened()
    record = record_of(operator, TEXT)
    operator.close()
    return rows_of(record, name, log_of(task.store))


@on_both
def test_an_old_program_goes_on_after_a_refusal_and_not_after_it_was_replaced(backend):
    """What does not grow is refused before anything is written; what has grown does not go back."""
    task = Task(Probe(value_of(INT)), backend)
    do(task, "a", PUT[value_of](7))
    before = dict(task.store.segments)
    task.function = Probe(value_of(TEXT))
    with pytest.raises(IncompatibleStateError, match=r"'Integer', got 'String' .*cast_state\(\)"):
        do(task, "a", GET[value_of])
    assert before == task.store.segments
    task.function = Probe(value_of(INT))
    assert 7 == do(task, "a", GET[value_of])

    task.function = Probe(value_of(LONG))
    do(task, "b", PUT[value_of](2**40))
    before = dict(task.store.segments)
    task.function = Probe(value_of(INT))
    with pytest.raises(IncompatibleStateError, match="'Long', got 'Integer'"):
        do(task, "b", GET[value_of])
    assert before == task.store.segments
    task.function = Probe(value_of(BIG))
    assert [7, 2**40] == [do(task, key, GET[value_of]) for key in "ab"]


def test_what_is_kept_on_the_disk_of_a_former_type_is_not_read_as_the_new_one():
    """The files of RocksDB are those of one program; another one takes the log."""
    backend = BACKENDS[1].values[0]
    if backend is None:
        pytest.skip("rocksdict is not installed")
    task = Task(Probe(value_of(OLD_ROW)), backend)
    do(task, "a", PUT[value_of]({"user": "u", "n": 1}))
    task.function = Probe(value_of(NEW_ROW))
    assert (1, None, "u") == do(task, "a", GET[value_of])
    assert (1, 0) == (task.counts["cold_loads"], task.counts["warm_loads"])


def test_rows_are_shown_in_the_newest_type():
    """Read from the log, where sections of both types are."""
    task = Task(Probe(list_of(OLD_ROW)), BACKENDS[0].values[0])
    do(task, "a", PUT[list_of]({"user": "u", "n": 1}))
    task.function = Probe(list_of(NEW_ROW))
    task.lose()
    do(task, "a", PUT[list_of]({"user": "u", "n": 2**40, "city": "Rome"}))
    assert [
        {"n": 1, "city": None, "user": "u"},
        {"n": 2**40, "city": "Rome", "user": "u"},
    ] == [row["value"] for row in rows(task, "s")]


def test_a_ttl_that_is_switched_on_while_the_type_grows_stamps_what_is_old():
    """Both changes at once."""
    task = Task(Probe(map_of(INT)), BACKENDS[0].values[0])
    do(task, "a", PUT[map_of](1))
    grown = map_of(BIG)
    grown.enable_time_to_live(StateTtlConfig.new_builder(100).build())
    task.function = Probe(grown)
    task.lose()
    task.serve([("b", Record("b", GET[map_of]), None)], processing_time=1_000)
    assert [{"m": 1}] == task.serve([("a", Record("a", GET[map_of]), None)], processing_time=1_099)
    assert [{}] == task.serve([("a", Record("a", GET[map_of]), None)], processing_time=1_100)


def test_a_reducing_state_goes_on_with_what_it_has_reduced():
    """Its value grows as any other."""

    def summing(type_info):
        return ReducingStateDescriptor("s", lambda a, b: a + b, type_info)

    driver = drive(summing(INT))
    driver.add(2**31 - 1)
    with drive(summing(LONG), restore=driver.harness.snapshot()).harness as harness:
        assert [2**31] == harness.process_elements(
            [(Record("k", lambda state, _: (state.add(1), state.get())[1]), None)]
        )


# Columns


class Adding(KeyedBatchFunction):
    """Adds one to a column."""

    def __init__(self, type_info):
        self.type_info = type_info

    def open(self, ctx):
        self.count = ctx.get_column_state(value_of(self.type_info))

    def process_batch(self, batch, ctx):
        self.count.put(self.count.get(0) + 1)


@pytest.mark.parametrize("declared", [LONG, Types.SHORT()], ids=repr)
def test_state_as_columns_grows(declared):
    """What a function per record wrote, too; what it would not fit into is refused."""
    driver = drive(value_of(INT))
    driver.update(2**31 - 1)
    blob = driver.harness.snapshot()
    if declared == LONG:
        harness = KeyedBatchHarness(Adding(LONG), "k", restore=blob)
        harness.process_batch({"k": ["k"]})
        assert 2**31 == drive(value_of(LONG), restore=harness.snapshot()).value()
    else:
        with pytest.raises(IncompatibleStateError, match="'Integer', got 'Short'"):
            KeyedBatchHarness(Adding(declared), "k", restore=blob)


# Savepoints


def stream(type_info, savepoint=None, groups=4):
    """Of lists."""
    return Stream(Probe(list_of(type_info)), BACKENDS[0].values[0], groups, savepoint=savepoint)


def lists(some, keys):
    """The lists of keys."""
    found = some.batch([Record(key, GET[list_of]) for key in keys], 0, 0)
    return sorted(map(repr, found))


def test_a_savepoint_takes_sections_of_both_types_along():
    """Into other key groups, in the order of the lists, and into a harness."""
    old = stream(OLD_ROW)
    keys = [str(number) for number in range(8)]
    for key in keys:
        old.batch([Record(key, PUT[list_of]((key, 1)))], 0, 0)
    new = stream(NEW_ROW)
    new.stores = old.stores
    for key in keys[:4]:
        new.batch([Record(key, PUT[list_of]((2, "Rome", key)))], 0, 0)
    blob = new.savepoint()
    expected = lists(new, keys)
    assert 4 == sum("Rome" in each for each in expected)
    assert expected == lists(stream(NEW_ROW, blob, 7), keys)
    again = stream(NEW_ROW, blob, 7).savepoint()
    with drive(list_of(NEW_ROW), restore=again).harness as harness:
        records = [(Record(key, GET[list_of]), None) for key in keys]
        assert expected == sorted(map(repr, harness.process_elements(records)))
    with pytest.raises(IncompatibleStateError, match="Long does not grow into Short"):
        lists(stream(Types.ROW_NAMED(["user", "n"], [TEXT, Types.SHORT()]), blob), keys)


def test_a_state_that_is_not_declared_keeps_its_sections_of_both_types(store):
    """Through a compaction by a program that does not know it."""
    grown = attrs.evolve(COUNT, value_type=BIG)
    other = attrs.evolve(COUNT, name="other")
    Worker().batch(store, a=1, b=1)
    both = Worker(grown, other)
    both.load(store)
    both.put("a", 2**70)
    both.commit(store)
    stranger = Worker(other)
    stranger.load(store)
    stranger.put("a", 5, "other")
    stranger.group.rewrite = True
    stranger.commit(store)
    again = Worker(grown, other)
    again.load(store)
    assert ({"a": 2**70, "b": 1}, {"a": 5}) == (again.contents(), again.contents("other"))
    assert 1 == len(store.segments)


def test_a_compaction_leaves_the_new_type_alone(store):
    """Then sections of the former one are no more."""
    Worker().batch(store, a=1)
    worker = Worker(attrs.evolve(COUNT, value_type=BIG))
    worker.load(store)
    worker.put("b", 2)
    worker.group.rewrite = True
    worker.commit(store)
    (blob,) = store.segments.values()
    declared = read_segment(blob, "tested").declarations.values()
    assert [BIG.signature] == [each.value for each in declared]
    assert {"a": 1, "b": 2} == worker.contents()


def test_a_directory_of_a_former_type_restores(tmp_path):
    """What a harness has written as Parquet files, the program of the new type reads."""
    driver = drive(list_of(OLD_ROW))
    driver.add({"user": "u", "n": 1})
    write_savepoint(driver.harness, tmp_path / "saved")
    restored = drive(list_of(NEW_ROW), restore=open_savepoint(tmp_path / "saved"))
    assert [(1, None, "u")] == [tuple(each) for each in restored.get()]
    with pytest.raises(IncompatibleStateError, match="'user'"):
        drive(
            list_of(Types.ROW_NAMED(["name", "n"], [TEXT, INT])),
            restore=open_savepoint(tmp_path / "saved"),
        )


class Storing(KeyedProcessFunction):
    """Adds to a store's value."""

    def __init__(self, type_info):
        self.type_info = type_info

    def open(self, runtime_context):
        descriptor = KeyValueStoreDescriptor("s", TEXT, self.type_info)
        self.store = runtime_context.get_store(descriptor)

    def process_element(self, value, ctx):
        self.store.put("x", self.store.get("x", 0) + value)
        yield self.store.get("x")


def test_the_values_of_a_store_grow():
    """Into a wider type, and not back."""
    with KeyedProcessHarness(Storing(INT), key_selector=str) as harness:
        harness.process_element(1)
        blob = harness.snapshot()
    with KeyedProcessHarness(Storing(BIG), key_selector=lambda _: "1", restore=blob) as harness:
        assert [2**80 + 1] == harness.process_element(2**80)
    with pytest.raises(IncompatibleStateError, match="'Integer', got 'Short'"):
        KeyedProcessHarness(Storing(Types.SHORT()), key_selector=str, restore=blob)


LIMITS = MapStateDescriptor("limits", TEXT, INT)
WIDER = MapStateDescriptor("limits", TEXT, BIG)


class Limited(KeyedBroadcastProcessFunction):
    """Gives the limit of the rule, which broadcast elements set."""

    def __init__(self, rules):
        self.rules = rules

    def process_element(self, value, ctx):
        yield ctx.get_broadcast_state(self.rules).get("low")

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self.rules).put("low", value)


def test_broadcast_state_grows():
    """As map state does."""
    with BroadcastHarness(Limited(LIMITS), [LIMITS], str) as harness:
        harness.process_broadcast_element(3)
        blob = harness.snapshot()
    with BroadcastHarness(Limited(WIDER), [WIDER], str, restore=blob) as harness:
        assert [3] == harness.process_element("a")
        harness.process_broadcast_element(2**80)
        assert [2**80] == harness.process_element("a")
