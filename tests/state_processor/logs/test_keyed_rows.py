# SPDX-License-Identifier: Apache-2.0
"""A log read key by key: all states of a key in one row, its keys alone, and its segments."""

from agreement.replica import Mode, Replica
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_support import log_of, record_of

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from pyflinklike._changelog.log_storage import HEAD_AT
from pyflinklike._changelog.segments import read_segment
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.state_processor._logs.checkpoint_logs import StoredKeys
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.group_reader import KeyedReader
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.log_rows import SegmentsReader
from pyflinklike.state_processor._logs.state_infos import describe_states, state_of
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.types import Types
from pyflinklike.windows import TumblingEventTimeWindows, Windowed
from pyflinklike.windows.window_contents import CONTENTS

STATES = ("last", "all", "by_name")


class Keep(KeyedProcessFunction):
    """Does to its states what its elements `(key, verb, number)` say; the value lives 10 ms."""

    def open(self, runtime_context):
        last = ValueStateDescriptor("last", Types.LONG())
        last.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
        self.last = runtime_context.get_state(last)
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.by_name = runtime_context.get_map_state(
            MapStateDescriptor("by_name", Types.STRING(), Types.LONG())
        )

    def process_element(self, value, ctx):
        _, verb, number = value
        verbs = {
            "update": lambda: self.last.update(number),
            "add": lambda: self.all.add(number),
            "put": lambda: self.by_name.put(f"n{number}", number),
            "forget": self.last.clear,
            "empty": self.all.clear,
            "remove": lambda: self.by_name.remove(f"n{number}"),
        }
        verbs[verb]()
        return ()


VERBS = ("update", "add", "put", "forget", "empty", "remove")
ELEMENTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(VERBS), st.integers(0, 2)), max_size=15
)


def keep():
    """A harness of `Keep`."""
    return KeyedProcessHarness(Keep(), key_selector=lambda value: value[0], key_type=Types.STRING())


def keyed_rows(harness, names, now=0, key_columns=(("k", "string"),)):
    """The rows of keys in key group 3, and their columns."""
    record = record_of(harness._operator, Types.STRING(), key_columns)
    infos = [state_of(describe_states(record, 0), name, "tested") for name in names]
    reader = KeyedReader(
        tuple(StateRows.of(record, info) for info in infos), KeyColumns.of(record), BatchClock(now)
    )
    log = [read_segment(harness.snapshot(), "tested")]
    tables = list(reader.read(3, log, "tested"))
    return [row for table in tables for row in table.to_pylist()], reader.schema.names


def model(elements):
    """What each key must have, with None for a state that has nothing."""
    last, every, by_name = {}, {}, {}
    for key, verb, number in elements:
        if verb == "update":
            last[key] = number
        elif verb == "add":
            every.setdefault(key, []).append(number)
        elif verb == "put":
            by_name.setdefault(key, {})[f"n{number}"] = number
        elif verb == "remove":
            by_name.get(key, {}).pop(f"n{number}", None)
        else:
            {"forget": last, "empty": every}[verb].pop(key, None)
    held = {key: (last.get(key), every.get(key), by_name.get(key) or None) for key, *_ in elements}
    return {key: states for key, states in held.items() if states != (None, None, None)}


@given(ELEMENTS)
@settings(max_examples=max(settings().max_examples // 5, 3))
def test_a_row_of_a_key_has_all_its_states(elements):
    """Null where it has nothing; keys that have nothing at all have no row."""
    with keep() as harness:
        harness.process_elements((each, None) for each in elements)
        rows, _ = keyed_rows(harness, STATES)

    found = {
        row["k"]: (row["last"], row["all"], row["by_name"] and dict(row["by_name"])) for row in rows
    }
    assert model(elements) == found
    assert len(found) == len(rows)
    assert {3} >= {row["key_group"] for row in rows}


def test_expired_entries_are_left_out_of_the_row_of_a_key():
    """And a key that has nothing else has no row."""
    with keep() as harness:
        for each in (("a", "update", 1), ("b", "update", 2), ("b", "add", 2)):
            harness.process_element(each)
        before, _ = keyed_rows(harness, ["last", "all"], now=9)
        after, _ = keyed_rows(harness, ["last", "all"], now=10)

    assert [("a", 1, None), ("b", 2, [2])] == sorted(
        (row["k"], row["last"], row["all"]) for row in before
    )
    assert [("b", None, [2])] == [(row["k"], row["last"], row["all"]) for row in after]


def test_a_state_that_is_named_as_a_key_column_gets_a_prefix():
    """Whatever the case of the letters, for Spark does not see it."""
    with keep() as harness:
        harness.process_element(("a", "add", 1))
        rows, names = keyed_rows(harness, ["all"], key_columns=(("ALL", "string"),))

    assert ["ALL", "state_all", "key_group"] == names
    assert [{"ALL": "a", "state_all": [1], "key_group": 3}] == rows


def test_state_of_windows_is_an_array_of_structs():
    """One for each window of the key, which says which one it is."""
    windows = Windowed(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    total = windows.reduce(lambda a, b: (a[0], a[1] + b[1]))
    with KeyedProcessHarness(total, lambda value: value[0], key_type=Types.STRING()) as harness:
        for value, time in ((("a", 1), 1), (("a", 2), 2), (("a", 4), 11)):
            harness.process_element(value, time)
        (row,), _ = keyed_rows(harness, [CONTENTS])

    starts = [each["namespace"]["f0"] for each in row[CONTENTS]]
    assert [0, 10] == sorted(starts)


def written(*batches):
    """The operator's record and the log after batches, of which each sets values of keys."""
    replica = Replica(HashMapStateBackend(), None, Mode.LAZY)
    for batch in batches:
        for key, number in batch:
            replica.operator.current.key = key
            replica.states.value.update([number])
            replica.states.map.put(key, str(number))
        replica.end_batch()
    return record_of(replica.operator, Types.STRING()), replica.store


def test_each_key_of_a_table_is_told_once():
    """Of every table that has entries of it, however often they were written."""
    record, store = written([("a", 1), ("b", 1)], [("a", 2)])
    blobs = {HEAD_AT: store.head.to_bytes(), **store.segments}
    batches = StoredKeys(record).read(3, blobs, "tested")
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

    expected = [(key, f"state {name!r}", 3) for key in "ab" for name in ("map", "value")]
    assert expected == sorted(rows)


def test_a_damaged_table_tells_no_keys():
    """Another look finds the damage; this one tells what it can."""
    record, store = written([("a", 1)])
    ((sequence, blob),) = store.segments.items()
    store.segments[sequence] = blob[:-1] + bytes([blob[-1] ^ 1])

    blobs = {HEAD_AT: store.head.to_bytes(), **store.segments}
    assert [] == list(StoredKeys(record).read(3, blobs, "tested"))


def test_segments_say_what_they_hold():
    """Each follows the one before, the first none; entries are counted as they were written."""
    _, store = written([("a", 1), ("b", 1)], [("a", 2)])
    (table,) = SegmentsReader().read(3, log_of(store), "tested")
    first, second = table.to_pylist()

    assert [(0, True, None), (1, False, first["nonce"])] == [
        (row["place"], row["is_snapshot"], row["parent"]) for row in (first, second)
    ]
    assert [{"value": 2, "map": 2}, {"value": 1, "map": 1}] == [
        {name: n for name, n in row["entries"] if n} for row in (first, second)
    ]
    assert first["bytes"] == sum(size for _, size in first["entry_bytes"]) > second["bytes"]
