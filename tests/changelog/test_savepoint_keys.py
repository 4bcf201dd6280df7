# SPDX-License-Identifier: Apache-2.0
"""The keys of a savepoint: taken apart, restored under another type, or of no key at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from probe import Probe, Record, drive
from stream_support import Stream, snapshot_of

from pyflinklike import HashMapStateBackend, KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike._changelog.segments import read_segment
from pyflinklike._changelog.snapshot_division import (
    regroup_snapshot,
    timer_domains,
    with_keys_of,
)
from pyflinklike._clock import TimeDomain
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.state_processor._logs.checkpoint_logs import merge
from pyflinklike.stores import KeyValueStoreDescriptor, WindowStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.testing.strategies import keys, type_infos, values_of
from pyflinklike.types.catalog import type_of
from pyflinklike.types.key_codec import AnyKeyTypeInfo

# Keys


@given(st.data(), type_infos())
def test_a_signature_names_its_type(data, type_info):
    """And its values are read back as that type's."""
    found = type_of(type_info.signature)
    stored = [type_info.freeze(value) for value in data.draw(st.lists(values_of(type_info)))]
    assert (found, found.arrow_type) == (type_info, type_info.arrow_type)
    assert repr(stored) == repr(found.from_arrow(type_info.to_arrow(stored)))


@pytest.mark.parametrize("name", ["it's", 'a "b"', "a\\", "é", "a, b: String"])
def test_a_signature_keeps_the_names_of_fields(name):
    """With quotes, backslashes and separators in them."""
    row = Types.ROW_NAMED([name, "n"], [Types.TUPLE([]), Types.MAP(Types.STRING(), Types.LONG())])
    assert row == type_of(row.signature)


@pytest.mark.parametrize(
    "signature", ["", "Mine", "Long>", "ListTypeInfo<Long", "RowTypeInfo(String)"]
)
def test_an_unknown_signature_is_refused(signature):
    """A type of one's own has no columns that could be read without its program."""
    with pytest.raises(IncompatibleStateError, match="types are pyflinklike's own"):
        type_of(signature)


@given(st.lists(keys(), max_size=5))
def test_any_keys_are_taken_apart(some):
    """And are found again, each in the group it belongs to."""
    driver = drive(ValueStateDescriptor("s", Types.LONG()))
    for number, key in enumerate(some):
        driver.of(key).update(number)
    snapshot = read_segment(driver.harness.snapshot(), "snapshot")
    groups = regroup_snapshot(
        snapshot, AnyKeyTypeInfo(), lambda found: list(range(len(found))), len(some), "snapshot"
    )
    found = [
        again.of(key).value()
        for (segment,) in groups.values()
        for again in [drive(ValueStateDescriptor("s", Types.LONG()), restore=segment.to_bytes())]
        for key in some
    ]
    expected = [driver.of(key).value() for key in some]
    assert len(some) * (len(groups) - 1) == found.count(None) if groups else found == []
    assert sorted(expected) == sorted(each for each in found if each is not None)


@pytest.mark.parametrize(
    ("key_type", "key"),
    [
        (Types.STRING(), "k"),
        (Types.LONG(), 2**40),
        (Types.BOOLEAN(), True),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), ("a", None)),
        (AnyKeyTypeInfo(), 1.5),
    ],
    ids=repr,
)
def test_a_harness_takes_the_keys_of_any_snapshot(key_type, key):
    """Those of a stream without being told their type, and a stream those of a harness."""
    descriptor = ValueStateDescriptor("s", Types.LONG())
    stream = Stream(Probe(descriptor), HashMapStateBackend(), 4, key_type)
    stream.batch([Record(key, lambda state, _: state.update(7))], 0, 0)
    driver = drive(descriptor, restore=stream.savepoint())
    assert 7 == driver.of(key).value()
    again = Stream(Probe(descriptor), HashMapStateBackend(), 9, key_type, driver.harness.snapshot())
    assert [7] == again.batch([Record(key, lambda state, _: state.value())], 0, 0)
    declared = drive(descriptor, restore=stream.savepoint(), key_type=key_type)
    assert 7 == declared.of(key).value()


def test_keys_that_do_not_fit_are_refused():
    """A harness had keys that a stream of strings cannot have."""
    with pytest.raises(IncompatibleStateError, match=r"snapshot: its keys must fit .* got 1 "):
        with_keys_of(snapshot_of("a", 1), Types.STRING(), "snapshot")


def test_two_declared_key_types_are_not_each_others():
    """Whether a harness restores or a stream begins."""
    longs = snapshot_of(1, key_type=Types.LONG())
    with pytest.raises(IncompatibleStateError, match=r"keeps the key type .* 'Long', got 'String'"):
        drive(
            ValueStateDescriptor("s", Types.LONG()),
            restore=longs.to_bytes(),
            key_type=Types.STRING(),
        )
    with pytest.raises(IncompatibleStateError, match=r"keeps the key type .* 'Long', got 'String'"):
        regroup_snapshot(longs, Types.STRING(), lambda some: [0] * len(some), 1, "savepoint")


def test_a_snapshot_that_fits_is_left_as_it_is():
    """No section is decoded without need."""
    snapshot = snapshot_of("a")
    assert snapshot is with_keys_of(snapshot, AnyKeyTypeInfo(), "snapshot")


def test_the_domains_of_timers_are_told():
    """Of those that are still there."""
    stream = Stream(Probe(), HashMapStateBackend(), 2)
    stream.batch(
        [
            Record("a", lambda _, ctx: ctx.timer_service().register_event_time_timer(5)),
            Record("b", lambda _, ctx: ctx.timer_service().register_processing_time_timer(5)),
        ],
        0,
        0,
    )
    stream.batch(
        [Record("b", lambda _, ctx: ctx.timer_service().delete_processing_time_timer(5))], 0, 0
    )
    snapshot = read_segment(stream.savepoint(), "savepoint")
    groups = regroup_snapshot(
        snapshot, Types.STRING(), lambda some: [0] * len(some), 1, "savepoint"
    )
    assert {TimeDomain.EVENT_TIME} == timer_domains(groups[0])


# Entries that belong to no key


class Shared(KeyedProcessFunction):
    """Counts all records of the key group in one store, and those of each key in another."""

    def open(self, runtime_context):
        self.counts = [
            runtime_context.get_store(
                KeyValueStoreDescriptor(scope, Types.STRING(), Types.LONG(), scope=scope)
            )
            for scope in ("partition", "key")
        ]

    def process_element(self, value, ctx):
        for counts in self.counts:
            counts.put("all", (counts.get("all") or 0) + 1)
        yield tuple(counts.get("all") for counts in self.counts)


def _shared_by(*keys, **options):
    harness = KeyedProcessHarness(Shared(), key_selector=str, **options)
    return harness, [harness.process_element(key)[-1] for key in keys]


@pytest.mark.parametrize("key_type", [None, Types.STRING()])
def test_entries_of_no_key_are_in_the_snapshot_of_a_harness(key_type):
    """Whatever becomes of the keys' type."""
    harness, _ = _shared_by("a", "b", "a")
    _, seen = _shared_by("a", "c", restore=harness.snapshot(), key_type=key_type)

    assert [(4, 3), (5, 1)] == seen


def test_entries_of_no_key_cannot_be_taken_apart_by_key_group():
    """Nothing says which of several key groups they are of."""
    harness, _ = _shared_by("a", "b")
    snapshot = read_segment(harness.snapshot(), "savepoint")

    with pytest.raises(IncompatibleStateError, match=r"got 'partition' of scope .*use scope"):
        regroup_snapshot(snapshot, Types.STRING(), lambda some: [0] * len(some), 2, "savepoint")


def test_entries_of_no_key_cannot_be_merged():
    """Those of two key groups may be under the same key of the store."""
    logs = {}
    for name in ("key group 0", "key group 1"):
        harness, _ = _shared_by("a")
        logs[name] = [read_segment(harness.snapshot(), name)]

    with pytest.raises(IncompatibleStateError, match=r"key group 1: .*got 'partition' of scope"):
        merge(logs)
    assert merge({"key group 0": logs["key group 0"]})


# Numbers that a store notes in each key group


class Windowed(KeyedProcessFunction):
    """Keeps each record in a window of its key, and shows all of them.

    Args:
        stream_time: Of the store.
        segments: Of the store.
    """

    def __init__(self, stream_time="key", segments=2):
        self._of = {"stream_time": stream_time, "segments": segments}

    def open(self, runtime_context):
        self.windows = runtime_context.get_store(
            WindowStoreDescriptor(
                "windows",
                Types.STRING(),
                Types.LONG(),
                window_size=10,
                retention=500_000,
                **self._of,
            )
        )

    def process_element(self, value, ctx):
        value.script(self, ctx)
        yield ctx.get_current_key(), list(self.windows.fetch("w", None, None))


def _put(number):
    return lambda windowed, _: windowed.windows.put("w", number, number)


def _nothing(*_):
    return None


def _windows(function, key="a"):
    with KeyedProcessHarness(function, key_selector=lambda each: each.key) as harness:
        harness.process_element(Record(key, _put(10)))
        return read_segment(harness.snapshot(), "tested")


@pytest.mark.parametrize("stream_time", ["key", "watermark"])
def test_windows_of_keys_go_into_the_bytes_of_a_savepoint_and_out_of_them(stream_time):
    """The length of segments and the watermark are noted by key group, and belong to no key."""
    keys_of_all = "abcdefgh"
    former = Stream(Windowed(stream_time), HashMapStateBackend(), 4)
    former.batch([Record(key, _put(at * 10)) for at, key in enumerate(keys_of_all)], 0, 40)
    stream = Stream(Windowed(stream_time), HashMapStateBackend(), 3, savepoint=former.savepoint())
    seen = stream.batch([Record(key, _nothing) for key in keys_of_all], 0, 50)
    assert {key: [(at * 10, at * 10)] for at, key in enumerate(keys_of_all)} == dict(seen)


def test_windows_in_segments_of_two_lengths_cannot_be_merged():
    """A key group that was not used since the restart has those of the former length."""
    logs = {
        f"key group {index}": [_windows(function)]
        for index, function in enumerate([Windowed(), Windowed(segments=3)])
    }
    with pytest.raises(IncompatibleStateError, match=r"store 'windows' .*of one length.*directory"):
        merge(logs)


def test_a_stream_time_of_key_groups_cannot_be_merged():
    """An entry of the slower one would be gone in the faster one's time."""
    logs = {
        f"key group {index}": [_windows(Windowed("partition"), key)]
        for index, key in enumerate("ab")
    }
    with pytest.raises(IncompatibleStateError, match=r'stream_time "partition".*directory'):
        merge(logs)
