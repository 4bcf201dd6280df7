# SPDX-License-Identifier: Apache-2.0
"""The rows of a store are what the store itself gives when it is read."""

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_support import rows_in_harness

from pyflinklike import Instant, KeyedProcessFunction, Types
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.testing import KeyedProcessHarness

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
TEXTS = st.sampled_from(["", "a", "a\x00", "ab", "é" * 40])
KEYS = {
    Types.STRING(): TEXTS,
    Types.LONG(): st.sampled_from([0, -1, 1, 255, -256, 2**63 - 1, -(2**63)]),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): st.sampled_from([b"", b"\x00", b"\xff\x00a"]),
    Types.TUPLE([Types.STRING(), Types.LONG()]): st.tuples(TEXTS, st.integers(-2, 2)),
    Types.INSTANT(): st.builds(Instant, st.integers(-2, 2), st.just(5000)),
}
TIMES = st.integers(0, 200)
FEW = settings(max_examples=max(settings().max_examples // 5, 3))


def ms(value):
    """A timestamp in ms."""
    return None if value is None else (value - EPOCH) // dt.timedelta(milliseconds=1)


class Writing(KeyedProcessFunction):
    """Calls its store as its elements say, and yields what it then holds."""

    def __init__(self, descriptor, call, read):
        self._descriptor, self._call, self._read = descriptor, call, read

    def open(self, runtime_context):
        self._store = runtime_context.get_store(self._descriptor)

    def process_element(self, value, ctx):
        if value[1] is not None:
            self._call(self._store, *value[1:])
        yield from self._read(self._store)


def compared(descriptor, call, read, calls, shown, **options):
    """What the store holds under each key, and what its rows say, in the same form."""
    with KeyedProcessHarness(
        Writing(descriptor, call, read),
        key_selector=lambda value: value[0],
        key_type=Types.STRING(),
    ) as harness:
        for each in calls:
            harness.process_element(("k", *each))
            harness.process_element(("other", *each))
        expected = harness.process_element(("k", None))
        assert sorted(expected) == sorted(harness.process_element(("other", None)))
        rows = rows_in_harness(harness, descriptor.name, **options)
    return sorted(map(repr, expected)), sorted(repr(shown(row)) for row in rows if row["k"] == "k")


@pytest.mark.parametrize("key_type", KEYS, ids=repr)
@given(data=st.data())
@FEW
def test_rows_of_a_key_value_store(key_type, data):
    """Keys of every form: fixed, escaped, nested."""
    calls = data.draw(st.lists(st.tuples(KEYS[key_type], st.none() | st.integers(0, 9))))
    instants = key_type == Types.INSTANT()

    def shown(row):
        key = row["store_key"]
        if isinstance(key, dict):
            key = tuple(key.values())
        if instants:
            key = Instant((key - EPOCH) // dt.timedelta(seconds=1), 5000)
        return key, row["value"]

    expected, actual = compared(
        KeyValueStoreDescriptor("store", key_type, Types.LONG()),
        lambda store, key, value: store.put(key, value),
        lambda store: [tuple(each) for each in store.all()],
        calls,
        shown,
    )
    assert expected == actual


@pytest.mark.parametrize("duplicates", [False, True])
@given(calls=st.lists(st.tuples(TEXTS, st.integers(0, 9), TIMES)))
@FEW
def test_rows_of_a_window_store(duplicates, calls):
    """Those within the retention only, as the store shows them."""
    descriptor = WindowStoreDescriptor(
        "store",
        Types.STRING(),
        Types.LONG(),
        window_size=7,
        retention=50,
        retain_duplicates=duplicates,
    )
    expected, actual = compared(
        descriptor,
        lambda store, key, value, time: store.put(key, value, time),
        lambda store: [tuple(each) for each in store.all()],
        calls,
        lambda row: (
            row["store_key"],
            row["value"],
            ms(row["window_start"]),
            ms(row["window_end"]),
        ),
        expired=False,
    )
    assert expected == actual


@given(calls=st.lists(st.tuples(TEXTS, TIMES, st.integers(0, 5), st.integers(0, 9))))
@FEW
def test_rows_of_a_session_store(calls):
    """Those within the retention only, as the store shows them."""
    expected, actual = compared(
        SessionStoreDescriptor("store", Types.STRING(), Types.LONG(), retention=50),
        lambda store, key, start, length, value: store.put(key, start, start + length, value),
        lambda store: [
            tuple(each) for key in ("", "a", "a\x00", "ab", "é" * 40) for each in store.fetch(key)
        ],
        calls,
        lambda row: (
            row["store_key"],
            row["value"],
            ms(row["session_start"]),
            ms(row["session_end"]),
        ),
        expired=False,
    )
    assert expected == actual


@given(calls=st.lists(st.tuples(TEXTS, st.none() | st.integers(0, 9), TIMES)))
@FEW
def test_rows_of_a_versioned_store(calls):
    """Every version, with the time to which it is valid."""
    expected, actual = compared(
        VersionedStoreDescriptor("store", Types.STRING(), Types.LONG(), history_retention=10_000),
        lambda store, key, value, time: store.put(key, value, time),
        lambda store: [
            (key, each.value, each.timestamp, each.valid_to)
            for key in ("", "a", "a\x00", "ab", "é" * 40)
            for each in store.history(key)
        ],
        calls,
        lambda row: (row["store_key"], row["value"], ms(row["valid_from"]), ms(row["valid_to"])),
    )
    assert expected == [each for each in actual if ", None, " not in each]


@given(calls=st.lists(st.tuples(TEXTS, st.integers(0, 9), TIMES)))
@FEW
def test_rows_of_a_timestamped_store(calls):
    """The time of each value."""
    expected, actual = compared(
        TimestampedStoreDescriptor("store", Types.STRING(), Types.LONG()),
        lambda store, key, value, time: store.put(key, value, time),
        lambda store: [(each.key, each.value.value, each.value.timestamp) for each in store.all()],
        calls,
        lambda row: (row["store_key"], row["value"], ms(row["timestamp"])),
    )
    assert expected == actual


@given(calls=st.lists(st.tuples(TEXTS, st.integers(0, 9))))
@FEW
def test_rows_of_an_lru_store(calls):
    """Only what was not evicted."""
    expected, actual = compared(
        LruStoreDescriptor("store", Types.STRING(), Types.LONG(), max_entries=2),
        lambda store, key, value: store.put(key, value),
        lambda store: [tuple(each) for each in store.all()],
        calls,
        lambda row: (row["store_key"], row["value"]),
    )
    assert expected == actual
