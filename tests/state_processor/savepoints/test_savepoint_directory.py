# SPDX-License-Identifier: Apache-2.0
"""Savepoints as directories: there and back without loss, and readable by any tool."""

import datetime as dt
import json
import math
import shutil
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sealed_manifest import resealed

from pyflinklike import (
    Instant,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationValueError,
    IncompatibleStateError,
    StateValueError,
    UnknownStateError,
)
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.testing import KeyedProcessHarness

ROW = Types.ROW_NAMED(["a", "at"], [Types.INT(), Types.SQL_TIME()])
VALUES = {
    Types.BOOLEAN(): [True, False],
    Types.LONG(): [0, -(2**63), 2**63 - 1],
    Types.DOUBLE(): [math.nan, -0.0, math.inf],
    Types.FLOAT(): [math.nan, 0.5],
    Types.STRING(): ["", "a\x00é"],
    Types.CHAR(): ["é"],
    Types.BIG_INT(): [0, 10**40, -(2**3000)],
    Types.BIG_DEC(): [Decimal("1.00"), Decimal("-1E+400")],
    Types.INSTANT(): [Instant(-(2**63), 1), Instant(5, 999_999_999)],
    Types.SQL_DATE(): [dt.date(1, 1, 1)],
    Types.SQL_TIME(): [dt.time(23, 59, 59, 999_999), dt.time(0)],
    Types.SQL_TIMESTAMP(): [dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)],
    Types.PICKLED_BYTE_ARRAY(): [{"a": [1]}, 5, None, b"\x80x"],
    Types.PRIMITIVE_ARRAY(Types.BYTE()): [b"", b"\x00\xff"],
    Types.LIST(Types.SQL_TIME()): [[], [dt.time(1)]],
    Types.OBJECT_ARRAY(Types.STRING()): [[None, "x"]],
    Types.MAP(Types.STRING(), Types.INSTANT()): [{}, {"k": Instant(1, 2)}],
    Types.TUPLE([Types.LONG(), ROW]): [(1, Row(a=None, at=dt.time(2))), (None, None)],
    ROW: [Row(a=1, at=None)],
}
"""The least and the greatest, what is empty, None in rows, and what compares oddly."""


class Keeping(KeyedProcessFunction):
    """Keeps its elements in a value of their type, and yields it."""

    def __init__(self, kind):
        self._kind = kind

    def open(self, runtime_context):
        self._value = runtime_context.get_state(ValueStateDescriptor("value", self._kind))

    def process_element(self, value, ctx):
        if len(value) > 1:
            self._value.update(value[1])
        yield self._value.value()


def harness(function, restore=None, key_type=None):
    """A harness whose key is the first field."""
    return KeyedProcessHarness(
        function,
        key_selector=lambda value: value[0],
        restore=restore,
        key_type=key_type or Types.LONG(),
    )


@pytest.mark.parametrize("kind", VALUES, ids=repr)
def test_a_value_of_any_type_comes_back(kind, tmp_path):
    """None within a row, both zeros, NaN and numbers of 40 digits included."""
    path, values = tmp_path / "savepoint", VALUES[kind]
    with harness(Keeping(kind)) as before:
        for key, value in enumerate(values):
            before.process_element((key, value))
        expected = [before.process_element((key,)) for key in range(len(values))]
        write_savepoint(before, path)
    with harness(Keeping(kind), restore=open_savepoint(path)) as after:
        found = [after.process_element((key,)) for key in range(len(values))]
    assert repr(expected) == repr(found)


@pytest.mark.parametrize("kind", VALUES, ids=repr)
def test_duckdb_hands_a_value_on_as_it_was(kind, tmp_path):
    """Read by it, and written again: to a file of other pages, statistics and compression."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed (the extra `tools`)")

    def copied(file):
        duckdb.sql(f"COPY (SELECT * FROM '{file}') TO '{file}.new' (FORMAT parquet)")
        file.with_name(f"{file.name}.new").rename(file)

    path, values = tmp_path / "savepoint", VALUES[kind]
    with harness(Keeping(kind)) as before:
        for key, value in enumerate(values):
            before.process_element((key, value))
        expected = [before.process_element((key,)) for key in range(len(values))]
        write_savepoint(before, path)
    rewritten(path, copied, "Keeping", "value")
    with harness(Keeping(kind), restore=open_savepoint(path)) as after:
        found = [after.process_element((key,)) for key in range(len(values))]
    assert repr(expected) == repr(found)


KEYS = {
    Types.STRING(): ["", "a", "é\x00"],
    Types.TUPLE([Types.STRING(), Types.LONG()]): [("a", 1), ("", -1)],
    None: ["a", 1, True, (1, "x"), dt.date(2020, 1, 1)],
}


@pytest.mark.parametrize("key_type", KEYS, ids=repr)
def test_keys_come_back(key_type, tmp_path):
    """Declared ones as columns of their own, others encoded."""
    path, keys = tmp_path / "savepoint", KEYS[key_type]

    def selecting(restore=None):
        return KeyedProcessHarness(
            Keeping(Types.LONG()), lambda value: value[0], restore=restore, key_type=key_type
        )

    with selecting() as before:
        for number, key in enumerate(keys):
            before.process_element((key, number))
        write_savepoint(before, path)
    with selecting(open_savepoint(path)) as after:
        assert [[at] for at in range(len(keys))] == [after.process_element((key,)) for key in keys]


class Everything(KeyedProcessFunction):
    """States of all kinds and stores, which do what their elements say, and yield what they hold."""

    def open(self, runtime_context):
        ttl = StateTtlConfig.new_builder(100).build()
        numbers = ListStateDescriptor("numbers", Types.LONG())
        numbers.enable_time_to_live(ttl)
        self.numbers = runtime_context.get_list_state(numbers)
        self.map = runtime_context.get_map_state(
            MapStateDescriptor("map", Types.STRING(), Types.LONG())
        )
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda one, other: one + other, Types.LONG())
        )
        text, number = Types.STRING(), Types.LONG()
        store = runtime_context.get_store
        self.plain = store(KeyValueStoreDescriptor("plain", text, number))
        self.shared = store(KeyValueStoreDescriptor("shared", text, number, scope="partition"))
        self.timed = store(TimestampedStoreDescriptor("timed", text, number))
        self.lru = store(LruStoreDescriptor("lru", text, number, max_entries=2))
        self.windows = store(
            WindowStoreDescriptor(
                "windows", text, number, window_size=7, retention=50, retain_duplicates=True
            )
        )
        self.sessions = store(SessionStoreDescriptor("sessions", text, number, retention=50))
        self.versions = store(
            VersionedStoreDescriptor("versions", text, number, history_retention=50)
        )

    def process_element(self, value, ctx):
        _, text, number = value
        if text is not None:
            self.numbers.add(number)
            self.map.put(text, number)
            self.sum.add(number)
            self.plain.put(text, number)
            self.shared.put(text, number)
            self.timed.put(text, number, number)
            self.lru.put(text, number)
            self.windows.put(text, number, number)
            self.sessions.put(text, number, number + 3, number)
            self.versions.put(text, number, number)
            ctx.timer_service().register_event_time_timer(1000 + number)
            ctx.timer_service().register_processing_time_timer(2000 + number)
        yield (
            list(self.numbers.get()),
            sorted(self.map.items()),
            self.sum.get(),
            *(list(each.all()) for each in (self.plain, self.shared, self.timed, self.windows)),
            sorted(self.lru.all()),
            [list(self.sessions.fetch(each)) for each in "abc"],
            [list(self.versions.history(each)) for each in "abc"],
        )

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, str(ctx.time_domain())


CALLS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(0, 120)))


@given(before=CALLS, after=CALLS, time=st.integers(0, 120))
@settings(max_examples=max(settings().max_examples // 5, 5))
def test_a_program_goes_on_from_a_savepoint_as_if_nothing_was(
    tmp_path_factory, before, after, time
):
    """All states, stores with what they keep beside their entries, TTL and timers of both domains."""
    path = tmp_path_factory.mktemp("savepoint") / "taken"
    with harness(Everything()) as one:
        one.set_processing_time(10)
        one.process_elements([(each, None) for each in before])
        write_savepoint(one, path)
        open_savepoint(path).verify()
        with harness(Everything(), restore=open_savepoint(path)) as other:
            for each in (one, other):
                each.set_processing_time(time)
            for element in [*((key, None, 0) for key in (0, 1)), *after]:
                assert one.process_element(element) == other.process_element(element)
            # Keys whose timers have one time come in any order.
            assert sorted(one.process_watermark(1100)) == sorted(other.process_watermark(1100))
            fired = sorted(one.set_processing_time(3000))
            assert fired == sorted(other.set_processing_time(3000))


class ByWatermark(KeyedProcessFunction):
    """A window of each number; all that is there is yielded."""

    def open(self, runtime_context):
        descriptor = WindowStoreDescriptor(
            "w",
            Types.STRING(),
            Types.LONG(),
            window_size=10,
            retention=100,
            stream_time="watermark",
        )
        self.windows = runtime_context.get_store(descriptor)

    def process_element(self, value, ctx):
        if value[1] is not None:
            self.windows.put("w", value[1], value[1])
        yield list(self.windows.fetch("w"))


@pytest.mark.parametrize("watermark", [None, 60])
def test_a_store_by_the_watermark_goes_on_under_it(tmp_path, watermark):
    """An entry ahead of the watermark is no reason to let go of one behind it."""
    with harness(ByWatermark()) as one:
        if watermark is not None:
            one.process_watermark(watermark)
        one.process_elements([((0, 50), None), ((0, 200), None)])
        write_savepoint(one, tmp_path / "taken")
    with harness(ByWatermark(), restore=open_savepoint(tmp_path / "taken")) as other:
        assert [[(50, 50), (200, 200)]] == other.process_element((0, None))
        other.process_watermark(150)
        assert [[(200, 200)]] == other.process_element((0, None))


class SumOnly(KeyedProcessFunction):
    """Declares one of the states of `Everything`, and no store."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda one, other: one + other, Types.LONG())
        )

    def process_element(self, value, ctx):
        yield self.sum.get()


@given(before=CALLS, after=CALLS)
@settings(max_examples=max(settings().max_examples // 5, 5))
def test_what_a_program_does_not_declare_goes_through_its_savepoint(
    tmp_path_factory, before, after
):
    """A version without most states, between two with all of them, loses nothing."""
    root = tmp_path_factory.mktemp("savepoint")
    with harness(Everything()) as one:
        one.process_elements([(each, None) for each in before])
        write_savepoint(one, root / "before")
        with harness(SumOnly(), restore=open_savepoint(root / "before")) as between:
            between.process_element((0, None, 0))
            write_savepoint(between, root / "between")
        with harness(Everything(), restore=open_savepoint(root / "between")) as other:
            for element in [*((key, None, 0) for key in (0, 1)), *after]:
                assert one.process_element(element) == other.process_element(element)
            assert sorted(one.process_watermark(1200)) == sorted(other.process_watermark(1200))


def test_a_savepoint_of_states_that_nobody_describes_is_refused(tmp_path):
    """A snapshot does not tell what its states are, so they would be left out."""
    with harness(Everything()) as keeping:
        keeping.process_element((0, "a", 5))
        snapshot = keeping.snapshot()
    with harness(SumOnly(), restore=snapshot) as fewer:
        unknown = (
            r"undeclared states \['lru', 'map', 'numbers', 'plain', 'sessions', 'shared', 'timed', "
        )
        with pytest.raises(IncompatibleStateError, match=unknown):
            write_savepoint(fewer, tmp_path / "savepoint")
    assert not (tmp_path / "savepoint").exists()


@pytest.fixture
def taken(tmp_path):
    """A savepoint of two keys."""
    path = tmp_path / "taken"
    with harness(Everything()) as keeping:
        for key in (0, 1):
            keeping.process_element((key, "a", 5))
        write_savepoint(keeping, path)
    return path


def test_a_savepoint_tells_what_is_in_it(taken):
    """Without the program: kinds, counts and rows."""
    savepoint = open_savepoint(taken)
    counted = {info.name: info.entries for info in savepoint.states()}
    assert {"numbers": 2, "map": 2, "sum": 2, "plain": 2, "shared": 1, "timed": 2} == {
        name: counted[name] for name in ("numbers", "map", "sum", "plain", "shared", "timed")
    }
    assert [(0, 5), (1, 5)] == [
        (row["key"], row["value"]) for row in savepoint.dataset("sum").to_table().to_pylist()
    ]
    assert 4 == savepoint.timers().count_rows()


def test_what_is_not_in_a_savepoint_is_named(taken):
    """With what is nearest."""
    with pytest.raises(UnknownStateError, match="did you mean 'map'"):
        open_savepoint(taken).dataset("mapp")
    with pytest.raises(UnknownStateError, match="its operators are \\['Everything'\\]"):
        open_savepoint(taken).states("other")


def files_of(path, operator="Everything", state="sum"):
    """The Parquet files of a state."""
    return sorted((path / "operators" / operator / "states" / state).glob("*.parquet"))


def test_a_directory_without_a_manifest_is_no_savepoint(taken):
    """It was not finished."""
    (taken / "_manifest.json").unlink()
    with pytest.raises(CorruptStateError, match="written last"):
        open_savepoint(taken)


def test_a_damaged_manifest_is_refused(taken):
    """Whatever is changed in what it says of the operator."""
    manifest = taken / "_manifest.json"
    fields = json.loads(manifest.read_text())
    fields["operators"][0]["record"]["max_parallelism"] = 7
    manifest.write_text(json.dumps(fields))
    with pytest.raises(CorruptStateError, match="record"):
        open_savepoint(taken)


def test_a_savepoint_is_not_overwritten_unasked(taken):
    """Nor anything else that is there, asked or not."""
    with harness(Everything()) as keeping:
        with pytest.raises(DeclarationValueError, match="mode="):
            write_savepoint(keeping, taken)
        with pytest.raises(DeclarationValueError, match="only a savepoint"):
            write_savepoint(keeping, taken.parent, mode="overwrite")
        write_savepoint(keeping, taken, mode="overwrite")
    assert 0 == open_savepoint(taken).states()[0].entries


def test_a_break_while_a_savepoint_is_replaced_is_told(taken):
    """The new one is whole beside it, and is read once it is moved."""
    taken.rename(f"{taken}.new")
    with pytest.raises(CorruptStateError, match=rf"was interrupted .*: move '{taken}.new' here"):
        open_savepoint(taken)
    taken.with_name(f"{taken.name}.new").rename(taken)
    assert open_savepoint(taken).states()


def test_a_replaced_savepoint_leaves_nothing_beside_it(taken):
    """Nor what an earlier break has left."""
    shutil.copytree(taken, f"{taken}.new")
    shutil.copytree(taken, f"{taken}.replaced")
    before = sorted(taken.parent.iterdir())
    with harness(Everything()) as keeping:
        write_savepoint(keeping, taken, mode="overwrite")
    beside = {taken.with_name(f"{taken.name}.{each}") for each in ("new", "replaced")}

    assert [each for each in before if each not in beside] == sorted(taken.parent.iterdir())
    assert 0 == open_savepoint(taken).states()[0].entries


def rewritten(path, rewrite, *state):
    """The savepoint with another file for a state, and a manifest that says so."""
    (file,) = files_of(path, *state)
    place = open_savepoint(path).location
    name = str(file.relative_to(path))
    former = place.measure_file(name)
    rewrite(file)
    now = place.measure_file(name)

    def told(fields):
        states = fields["operators"][0]["states"].values()
        for each in (file for state in states for file in state["files"]):
            if each["sha256"] == former.sha256:
                each |= {"bytes": now.bytes, "sha256": now.sha256}

    resealed(path, told)
    return path


def changed(path, change):
    """The savepoint with other rows of the state `sum`."""
    return rewritten(path, lambda file: pq.write_table(change(pq.read_table(file)), file))


def test_an_entry_that_is_there_twice_is_refused(taken):
    """Which one counts would be a guess."""
    path = changed(taken, lambda table: pa.concat_tables([table, table]))
    with pytest.raises(StateValueError, match="an entry must have one row"):
        harness(Everything(), restore=open_savepoint(path))


def test_a_null_is_refused_where_none_is_no_value(taken):
    """As by the state's own verbs."""

    def without_values(table):
        at = table.schema.get_field_index("value")
        return table.set_column(at, "value", pa.nulls(table.num_rows, pa.int64()))

    with pytest.raises(StateValueError, match=r"takes no null.*it is in the row \{'key': 0\}"):
        harness(Everything(), restore=open_savepoint(changed(taken, without_values)))


def test_one_bad_value_among_many_is_told_with_its_key(taken):
    """Whoever edited the file looks for it there."""

    def one_too_large(table):
        values = pa.array([None if key else 5 for key in table.column("key").to_pylist()])
        return table.set_column(table.schema.get_field_index("value"), "value", values)

    with pytest.raises(StateValueError, match=r"state 'sum'.*\{'key': 1\}"):
        harness(Everything(), restore=open_savepoint(changed(taken, one_too_large)))


@pytest.mark.parametrize("inside", ["", "state", "a/b"])
def test_a_savepoint_is_not_written_into_a_checkpoint(tmp_path, inside):
    """Spark would not know what to make of it, nor whoever cleans up."""
    for log in ("offsets", "commits"):
        (tmp_path / "checkpoint" / log).mkdir(parents=True)
    with (
        harness(Everything()) as keeping,
        pytest.raises(DeclarationValueError, match="not written into a checkpoint, got a path in"),
    ):
        write_savepoint(keeping, tmp_path / "checkpoint" / inside, mode="overwrite")
