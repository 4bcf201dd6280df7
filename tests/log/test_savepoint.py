# SPDX-License-Identifier: Apache-2.0
"""Savepoints without Spark: logs of key groups merged, snapshots taken apart, and what stays the same."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probe import Mean, Probe, Record, drive

from pyflinklike import (
    AggregatingStateDescriptor,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.clock import TimeDomain
from pyflinklike.errors import CorruptStateError, HostError, IncompatibleStateError
from pyflinklike.log.regrouping import regrouped, timer_domains, with_keys_of
from pyflinklike.log.savepoint import merge, read_log
from pyflinklike.log.segments import Segment, read_segment
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.testing.log_storage import InMemoryLogStorage
from pyflinklike.testing.strategies import keys, type_infos, values_of
from pyflinklike.types.keys import AnyKeyTypeInfo
from pyflinklike.types.signature import type_of

BACKENDS = [pytest.param(HashMapStateBackend(), id="heap")]
try:
    import rocksdict  # noqa: F401 - whether it is there
except ImportError:
    BACKENDS.append(pytest.param(None, id="rocksdb", marks=pytest.mark.skip("no rocksdict")))
else:
    BACKENDS.append(pytest.param(EmbeddedRocksDBStateBackend(), id="rocksdb"))


_STRING = Types.STRING()

# A stream in miniature: what a host does with key groups, and nothing else


class Stream:
    """Key groups in stores of their own, committed after every batch.

    Args:
        function: Of the operator.
        backend: For working state.
        max_parallelism: The number of key groups.
        key_type: Of the keys.
        savepoint: What it begins with.
        now: Its processing time.
    """

    def __init__(
        self,
        function: KeyedProcessFunction,
        backend: Any,
        max_parallelism: int,
        key_type: Any = _STRING,
        savepoint: bytes | None = None,
        now: int = 0,
    ) -> None:
        task = TaskInfo("stream", max_parallelism=max_parallelism)
        self.operator = KeyedProcessOperator(
            function, backend, key_type, task, f"tested-{id(self)}"
        )
        self.operator.open()
        self.operator.clock.processing_time = now
        self.stores = [InMemoryLogStorage() for _ in range(max_parallelism)]
        if savepoint is not None:
            snapshot = read_segment(savepoint, "savepoint")
            groups = regrouped(snapshot, key_type, self.groups_of, len(self.stores), "savepoint")
            for index, segments in groups.items():
                store = self.stores[index]
                for segment in segments:
                    self.operator.begin(store, store.head, segment, index)
                    self.operator.commit(store, store.head, None)
                    self.operator.keep_warm()

    def groups_of(self, some: Iterable[Any]) -> list[int]:
        """The key groups of keys."""
        return [zlib.crc32(repr(key).encode()) % len(self.stores) for key in some]

    def batch(self, records: list[Record], now: int, watermark: int) -> list[Any]:
        """Process a micro-batch; what it gives."""
        operator = self.operator
        results = []

        def advance():
            operator.advance_processing_time(now)
            operator.advance_watermark(watermark)

        for index, store in enumerate(self.stores):
            mine = [each for each in records if self.groups_of([each.key]) == [index]]
            operator.load(store, store.head, index)
            advance()
            keys_of_mine = [operator.frozen_key(each.key) for each in mine]
            operator.process(keys_of_mine, mine, [None] * len(mine))
            advance()
            operator.commit(store, store.head, None)
            operator.keep_warm()
            results += operator.outputs.take().main
        return results

    def savepoint(self) -> bytes:
        """As read_savepoint gives it."""
        return merge(
            {
                f"key group {index}": read_log(store.head, store.segments, f"key group {index}")
                for index, store in enumerate(self.stores)
                if store.head is not None
            }
        )

    def close(self) -> None:
        """Close the operator."""
        self.operator.close()


class Harness:
    """The harness, driven as the stream is."""

    def __init__(
        self, function: Any, backend: Any, max_parallelism: int, savepoint: bytes | None, now: int
    ) -> None:
        self._harness = KeyedProcessHarness(
            function, lambda record: record.key, backend, savepoint, max_parallelism
        )

    def batch(self, records: list[Record], now: int, watermark: int) -> list[Any]:
        """Process a micro-batch; what it gives."""
        harness = self._harness
        results = harness.set_processing_time(now) + harness.process_watermark(watermark)
        results += harness.process_elements((record, None) for record in records)
        return results + harness.set_processing_time(now) + harness.process_watermark(watermark)

    def savepoint(self) -> bytes:
        """A snapshot."""
        return self._harness.snapshot()

    def close(self) -> None:
        """Close it."""
        self._harness.close()


# Going on in another place is going on


def five_states(ttl: StateTtlConfig | None) -> list[Any]:
    """One descriptor of each kind."""
    numbers = Types.LIST(Types.LONG())
    descriptors = [
        ValueStateDescriptor("value", numbers),
        ListStateDescriptor("list", Types.ROW_NAMED(["it's", "n"], [Types.STRING(), Types.LONG()])),
        MapStateDescriptor("map", Types.STRING(), numbers),
        ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.STRING()),
        AggregatingStateDescriptor("aggregating", Mean(), numbers),
    ]
    for each in descriptors:
        each.enable_time_to_live(ttl)
    return descriptors


def dump(states: Any) -> Any:
    """All that is in the five states, and nothing about order that nobody promises."""
    value, list_, map_, reducing, aggregating = states
    read = value.value(), [tuple(row) for row in list_], sorted(map_.items())
    return *read, reducing.get(), aggregating.get()


def act(what: str, n: int) -> Any:
    """A script that does one thing, and returns all state."""

    def script(states: Any, ctx: Any) -> Any:
        value, list_, map_, reducing, aggregating = states
        timers = ctx.timer_service()
        if what == "write":
            value.update([*(value.value() or []), n])
            list_.add((f"{n}", n))
            map_.put(f"m{n % 3}", [n])
            reducing.add(f"{n};")
            aggregating.add(n)
        elif what == "clear":
            states[n % 5].clear()
        elif what == "remove":
            map_.remove(f"m{n % 3}")
            list_.update([row for row in list_ if row.n % 2])
        elif what == "event timer":
            timers.register_event_time_timer(n)
        elif what == "processing timer":
            timers.register_processing_time_timer(n)
        elif what == "delete timers":
            timers.delete_event_time_timer(n)
            timers.delete_processing_time_timer(n)
        return ctx.get_current_key(), what, n, dump(states)

    return script


def on_timer(states: Any, timestamp: int, ctx: Any) -> Any:
    """Says which it is, and writes."""
    states[3].add(f"@{timestamp};")
    return ctx.get_current_key(), timestamp, ctx.time_domain().name, dump(states)


ACTIONS = ["write", "write", "clear", "remove", "event timer", "processing timer", "delete timers"]
RECORDS = st.builds(
    lambda key, what, n: Record(key, act(what, n)),
    st.sampled_from("abcd"),
    st.sampled_from(ACTIONS),
    st.integers(0, 12),
)
TTLS = st.none() | st.builds(
    lambda ms, on_read: (
        StateTtlConfig.new_builder(ms)
        .set_update_type(
            StateTtlConfig.UpdateType.OnReadAndWrite
            if on_read
            else StateTtlConfig.UpdateType.OnCreateAndWrite
        )
        .disable_cleanup_in_background()
        .build()
    ),
    st.integers(1, 6),
    st.booleans(),
)
MOVES = st.none() | st.tuples(
    st.sampled_from([Stream, Harness]),
    st.sampled_from([each.values[0] for each in BACKENDS if each.values[0]]),
    st.sampled_from([1, 2, 5, 64]),
)


@settings(max_examples=settings().max_examples // 2)
@given(
    ttl=TTLS,
    batches=st.lists(
        st.tuples(MOVES, st.lists(RECORDS, max_size=6), st.integers(0, 3)), max_size=6
    ),
)
def test_going_on_elsewhere_is_going_on(ttl, batches):
    """Whatever is done, between any two batches state moves to another host, backend and max_parallelism."""

    def probe():
        return Probe(*five_states(ttl), on_timer=on_timer)

    now = 0
    model = Harness(probe(), None, 128, None, 0)
    place = Harness(probe(), None, 128, None, 0)
    for move, records, passed in batches:
        if move is not None:
            host, backend, max_parallelism = move
            blob = place.savepoint()
            place.close()
            place = host(probe(), backend, max_parallelism, savepoint=blob, now=now)
        now += passed
        expected = model.batch(records, now, now)
        assert sorted(expected, key=repr) == sorted(place.batch(records, now, now), key=repr)
    place.close()


@pytest.mark.parametrize("key_type", [None, _STRING], ids=["keys converted", "keys as stored"])
def test_a_savepoint_is_replayed_in_order(key_type):
    """Clearings, removals and what was written after them, each in a segment of its own, of several key groups."""
    written = [act("write", n) for n in (1, 2, 3)]
    cleared = [act("clear", n) for n in range(5)]
    scripts = {
        "a": [*written, *cleared],
        "b": [*written, *cleared, *written],
        "c": [*written, act("remove", 1), act("write", 4)],
        "d": [*written, act("remove", 2), act("event timer", 7), act("delete timers", 7)],
        "e": [act("event timer", 7), act("processing timer", 8), act("write", 9)],
    }
    stream = Stream(Probe(*five_states(None), on_timer=on_timer), HashMapStateBackend(), 3)
    found = {}
    for step in range(11):
        records = [Record(key, mine[step]) for key, mine in scripts.items() if step < len(mine)]
        found.update({result[0]: result[-1] for result in stream.batch(records, 0, 0)})
    assert all(len(store.segments) > 2 for store in stream.stores)

    blob = stream.savepoint()
    moved = Stream(Probe(*five_states(None)), HashMapStateBackend(), 7, savepoint=blob)
    for savepoint in (blob, moved.savepoint()):
        again = drive(*five_states(None), restore=savepoint, key_type=key_type, on_timer=on_timer)
        assert found == {key: again.of(key).run(READ)[-1] for key in scripts}
        assert ["e"] == [fired[0] for fired in again.harness.process_watermark(9)]
        assert ["e"] == [fired[0] for fired in again.harness.set_processing_time(9)]


# What a restore keeps, on and between both backends

BOTH = [
    pytest.mark.parametrize("source", BACKENDS),
    pytest.mark.parametrize("target", BACKENDS),
]


def between_backends(test):
    """Runs a test from each backend to each."""
    for mark in BOTH:
        test = mark(test)
    return test


def ttl_of(milliseconds: int | None) -> StateTtlConfig | None:
    """Without background cleanup, so that what is stored can be counted."""
    if milliseconds is None:
        return None
    return StateTtlConfig.new_builder(milliseconds).disable_cleanup_in_background().build()


FILL = act("write", 1)
FULL = ([1], [("1", 1)], [("m1", [1])], "1;", 1.0)
EMPTY = (None, [], [], None, None)
READ = act("read", 0)


@between_backends
@pytest.mark.parametrize(
    ("before", "after", "restored_at", "alive_at", "dead_at"),
    [
        pytest.param(100, 100, 1_050, 1_099, 1_100, id="unchanged"),
        pytest.param(100, 300, 1_250, 1_299, 1_300, id="longer, revived"),
        pytest.param(100, 20, 1_010, 1_019, 1_020, id="shorter"),
        pytest.param(None, 100, 5_000, 5_099, 5_100, id="on"),
        pytest.param(100, None, 5_000, 10**12, None, id="off, expired ones too"),
    ],
)
def test_a_ttl_may_change_at_a_restore(
    source, target, before, after, restored_at, alive_at, dead_at
):
    """Of all five states: the stored stamp counts; on begins with the restore; off is for good [2.10, DESIGN 9]."""
    driver = drive(*five_states(ttl_of(before)), state_backend=source).at(1_000)
    driver.run(FILL)
    blob = driver.harness.snapshot()
    driver.harness.close()

    # A harness restores at time 0, a stream at the time of its first batch.
    stream = Stream(Probe(*five_states(ttl_of(after))), target, 4, savepoint=blob, now=restored_at)
    for time, expected in ((alive_at, FULL), (dead_at, EMPTY)):
        if time is not None:
            ((*_, found),) = stream.batch([Record("k", READ)], time, 0)
            assert expected == found, time
    stream.close()


def of_kind(kind: Any, ttl: int | None = None) -> Any:
    """A descriptor with or without a TTL."""
    kind.enable_time_to_live(ttl_of(ttl))
    return kind


@between_backends
@pytest.mark.parametrize(
    ("stored", "declared", "what"),
    [
        (
            ValueStateDescriptor("s", Types.LONG()),
            ValueStateDescriptor("s", Types.INT()),
            "value type",
        ),
        (
            ValueStateDescriptor("s", Types.LONG()),
            ReducingStateDescriptor("s", max, Types.LONG()),
            "kind",
        ),
        (
            ListStateDescriptor("s", Types.LONG()),
            ListStateDescriptor("s", Types.STRING()),
            "value type",
        ),
        (
            MapStateDescriptor("s", Types.LONG(), Types.LONG()),
            MapStateDescriptor("s", Types.STRING(), Types.LONG()),
            "user key type",
        ),
        (
            MapStateDescriptor("s", Types.LONG(), Types.LONG()),
            MapStateDescriptor("s", Types.LONG(), Types.STRING()),
            "value type",
        ),
    ],
    ids=["value", "kind", "element", "user key", "map value"],
)
@pytest.mark.parametrize("ttl", [None, 100])
def test_a_changed_type_is_refused(source, target, stored, declared, what, ttl):
    """By name, with what was stored, also where the TTL is another now [2.5, 2.10]."""

    def write(state, _):
        if isinstance(stored, MapStateDescriptor):
            state.put(1, 1)
        elif isinstance(stored, ListStateDescriptor):
            state.add(1)
        else:
            state.update(1)

    driver = drive(stored, state_backend=source)
    driver.run(write)
    blob = driver.harness.snapshot()
    driver.harness.close()
    with pytest.raises(IncompatibleStateError, match=f"state 's': restored state keeps the {what}"):
        drive(of_kind(declared, ttl), restore=blob, state_backend=target)
    with pytest.raises(IncompatibleStateError, match=f"state 's': restored state keeps the {what}"):
        Stream(Probe(of_kind(declared, ttl)), target, 4, savepoint=blob)


@between_backends
def test_timers_of_both_domains_are_restored(source, target):
    """Each fires once, in the harness and in a stream."""

    def register(_, ctx):
        ctx.timer_service().register_event_time_timer(5)
        ctx.timer_service().register_processing_time_timer(7)

    driver = drive(state_backend=source)
    for key in "ab":
        driver.of(key).run(register)
    blob = driver.harness.snapshot()
    driver.harness.close()
    restored = Harness(Probe(), target, 2, blob, 0)
    stream = Stream(Probe(), target, 3, savepoint=blob)
    expected = [
        (key, at, domain)
        for key in "ab"
        for at, domain in ((5, "EVENT_TIME"), (7, "PROCESSING_TIME"))
    ]
    for host in (restored, stream):
        assert [] == host.batch([], 4, 4)
        assert expected == sorted(host.batch([], 9, 9))
        assert [] == host.batch([], 10, 10)
        host.close()


@between_backends
def test_states_that_are_not_declared_come_along(source, target):
    """Through a stream that knows nothing of them."""
    driver = drive(*five_states(ttl_of(100)), state_backend=source)
    for key in "abcdef":
        driver.of(key).run(FILL)
    stream = Stream(Probe(), target, 3, savepoint=driver.harness.snapshot())
    stream.batch(
        [
            Record(key, lambda _, ctx: ctx.timer_service().register_event_time_timer(9))
            for key in "abc"
        ],
        0,
        0,
    )
    again = drive(*five_states(ttl_of(100)), restore=stream.savepoint(), state_backend=source)
    assert [FULL] * 6 == [again.of(key).run(READ)[-1] for key in "abcdef"]
    assert 3 == again.harness.num_event_time_timers()
    for each in (driver.harness, stream, again.harness):
        each.close()


# A warm working state that was written under another declaration


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("before", "after"), [(None, 100), (100, None), (100, 50)])
def test_warm_state_is_not_read_under_another_ttl(backend, before, after, tmp_path):
    """Entries with stamps and without never take each other's place, although owner and nonce are the same."""
    if isinstance(backend, EmbeddedRocksDBStateBackend):
        backend = EmbeddedRocksDBStateBackend()
        backend.set_db_storage_paths(str(tmp_path))
    store = InMemoryLogStorage()

    def run(ttl, now, script):
        task = TaskInfo("restarted", max_parallelism=1)
        operator = KeyedProcessOperator(
            Probe(*five_states(ttl_of(ttl))), backend, Types.STRING(), task, f"{tmp_path}"
        )
        operator.open()
        operator.clock.processing_time = now
        operator.load(store, store.head, 0)
        operator.process(["k"], [Record("k", script)], [None])
        operator.commit(store, store.head, None)
        operator.keep_warm()
        (found,) = operator.outputs.take().main
        operator.close()
        return found[-1]

    run(before, 1_000, FILL)
    assert FULL == run(after, 1_040, READ)
    assert (EMPTY if after == 50 else FULL) == run(after, 1_050, READ)


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
    groups = regrouped(
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


def snapshot_of(*some: Any, **options: Any) -> Segment:
    """A snapshot of a value state with these keys."""
    driver = drive(ValueStateDescriptor("s", Types.LONG()), **options)
    for key in some:
        driver.of(key).update(7)
    return read_segment(driver.harness.snapshot(), "snapshot")


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
        regrouped(longs, Types.STRING(), lambda some: [0] * len(some), 1, "savepoint")


def test_a_snapshot_that_fits_is_left_as_it_is():
    """No section is decoded for nothing."""
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
    groups = regrouped(snapshot, Types.STRING(), lambda some: [0] * len(some), 1, "savepoint")
    assert {TimeDomain.EVENT_TIME} == timer_domains(groups[0])


# Logs that are not whole


@pytest.fixture
def store() -> InMemoryLogStorage:
    """A key group with a log of three segments."""
    stream = Stream(Probe(ValueStateDescriptor("s", Types.LONG())), HashMapStateBackend(), 1)
    for number in range(3):
        stream.batch([Record("k", lambda state, _, n=number: state.update(n))], 0, 0)
    return stream.stores[0]


def test_a_log_is_read_from_its_last_snapshot(store):
    """What lies before it, or after the head, does not count."""
    store.segments[9] = b"of a batch that failed"
    log = read_log(store.head, store.segments, "group 0")
    assert [0, 1, 2] == list(range(store.head.first_sequence, store.head.next_sequence))
    assert [read_segment(store.segments[number], "").nonce for number in range(3)] == [
        each.nonce for each in log
    ]


def test_the_log_of_an_empty_group_is_empty():
    """A head without a nonce has no segments."""
    stream = Stream(Probe(), HashMapStateBackend(), 1)
    stream.operator.load(stream.stores[0], None, 0)
    stream.operator.commit(stream.stores[0], None, served_at=1)
    assert [] == read_log(stream.stores[0].head, {}, "group 0")
    assert (
        None is drive(ValueStateDescriptor("s", Types.LONG()), restore=stream.savepoint()).value()
    )


@pytest.mark.parametrize("sequence", range(3))
def test_a_missing_segment_is_refused(store, sequence):
    """Wherever it is missing."""
    del store.segments[sequence]
    with pytest.raises(
        CorruptStateError, match=f"group 0, segment {sequence}: the log must be whole"
    ):
        read_log(store.head, store.segments, "group 0")


def test_a_damaged_segment_is_refused(store):
    """By its checksum."""
    store.segments[1] = store.segments[1][:-1] + b"?"
    with pytest.raises(CorruptStateError, match="group 0, segment 1: the checksum"):
        read_log(store.head, store.segments, "group 0")


def test_a_segment_of_another_history_is_refused(store):
    """It does not follow from the one before."""
    other = read_segment(store.segments[1], "")
    other.parent = bytes(range(16))
    store.segments[1] = other.to_bytes()
    with pytest.raises(CorruptStateError, match="group 0, segment 1: a segment must follow"):
        read_log(store.head, store.segments, "group 0")


def test_a_head_of_another_history_is_refused(store):
    """The last segment is not its own."""
    head = attrs.evolve(store.head, nonce=bytes(range(16)))
    with pytest.raises(CorruptStateError, match="group 0: the last segment must be the head's"):
        read_log(head, store.segments, "group 0")


def test_key_groups_that_declare_a_state_differently_are_refused():
    """One of them was written before its type was changed."""
    texts = drive(ValueStateDescriptor("s", Types.STRING()))
    texts.update("x")
    other = read_segment(texts.harness.snapshot(), "snapshot")
    with pytest.raises(
        IncompatibleStateError, match="state 's': restored state keeps the value type"
    ):
        merge({"group 0": [snapshot_of("a")], "group 1": [other]})


def test_a_section_without_a_declaration_is_refused():
    """It says nothing without its types."""
    snapshot = snapshot_of("a")
    snapshot.declarations.clear()
    with pytest.raises(CorruptStateError, match="group 0: a segment must declare its tables"):
        merge({"group 0": [snapshot]})


def test_a_savepoint_has_a_size_that_one_value_can_have():
    """The message says both."""
    snapshot = snapshot_of("a")
    size = len(merge({"group 0": [snapshot]}, 10**6)) - 45  # the header
    assert merge({"group 0": [snapshot]}, size)
    with pytest.raises(HostError, match=f"may have {size - 1} bytes at most, got {size}"):
        merge({"group 0": [snapshot]}, size - 1)


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
        regrouped(snapshot, Types.STRING(), lambda some: [0] * len(some), 2, "savepoint")


def test_entries_of_no_key_cannot_be_merged():
    """Those of two key groups may be under the same key of the store."""
    logs = {}
    for name in ("key group 0", "key group 1"):
        harness, _ = _shared_by("a")
        logs[name] = [read_segment(harness.snapshot(), name)]

    with pytest.raises(IncompatibleStateError, match=r"key group 1: .*got 'partition' of scope"):
        merge(logs)
    assert merge({"key group 0": logs["key group 0"]})
