# SPDX-License-Identifier: Apache-2.0
"""What becomes of state in a restart with other settings: goes on or refused, cell by cell."""

from __future__ import annotations

import pytest
from surroundings import is_installed

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.testing import KeyedProcessHarness

Clock = StateTtlConfig.TtlTimeCharacteristic
Update = StateTtlConfig.UpdateType
Visibility = StateTtlConfig.StateVisibility

NO_ROCKSDB = pytest.mark.skipif(not is_installed("rocksdict"), reason="rocksdict is not installed")
BACKENDS = pytest.mark.parametrize(
    "backend", [HashMapStateBackend, pytest.param(EmbeddedRocksDBStateBackend, marks=NO_ROCKSDB)]
)


class Total(AggregateFunction):
    """A sum."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


KINDS = {
    "value": lambda: ValueStateDescriptor("s", Types.LONG()),
    "list": lambda: ListStateDescriptor("s", Types.LONG()),
    "map": lambda: MapStateDescriptor("s", Types.LONG(), Types.LONG()),
    "reducing": lambda: ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG()),
    "aggregating": lambda: AggregatingStateDescriptor("s", Total(), Types.LONG()),
}
GET = {
    "value": lambda context: context.get_state,
    "list": lambda context: context.get_list_state,
    "map": lambda context: context.get_map_state,
    "reducing": lambda context: context.get_reducing_state,
    "aggregating": lambda context: context.get_aggregating_state,
}


def ttl(ms=100, clock=Clock.ProcessingTime, **options):
    """A TTL."""
    builder = StateTtlConfig.new_builder(Time.milliseconds(ms))
    builder.set_ttl_time_characteristic(clock)
    for name, value in options.items():
        getattr(builder, name)(value)
    return builder.build()


class Keeping(KeyedProcessFunction):
    """Adds an element to a state, and gives what is there for an element below 0."""

    def __init__(self, kind, config):
        self._kind, self._config = kind, config

    def open(self, runtime_context):
        descriptor = KINDS[self._kind]()
        descriptor.enable_time_to_live(self._config)
        self.state = GET[self._kind](runtime_context)(descriptor)

    def process_element(self, value, ctx):
        if value < 0:
            return [self._seen()]
        if self._kind == "value":
            self.state.update(value)
        elif self._kind == "map":
            self.state.put(value, value)
        else:
            self.state.add(value)
        return []

    def _seen(self):
        if self._kind == "value":
            return self.state.value()
        if self._kind == "map":
            return next(iter(self.state.values()))
        if self._kind == "list":
            return next(iter(self.state.get()))
        return self.state.get()


def harness(kind, config, backend, restore=None):
    """One over a single key."""
    return KeyedProcessHarness(Keeping(kind, config), lambda _: "k", backend(), restore=restore)


def stored(kind, config, backend):
    """A snapshot with a 7."""
    with harness(kind, config, backend) as first:
        first.process_element(7)
        return first.snapshot()


@BACKENDS
@pytest.mark.parametrize("clocks", [tuple(Clock), tuple(Clock)[::-1]], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_ttl_that_changes_its_clock_is_refused(kind, clocks, backend):
    """Stamps of one clock are not judged by the other; the message has the remedy."""
    before, after = clocks
    snapshot = stored(kind, ttl(clock=before), backend)

    with pytest.raises(
        IncompatibleStateError,
        match=rf"'s'.*the clock of its TTL, '{before.name}', got '{after.name}'; .*with_ttl\(\)",
    ):
        harness(kind, ttl(clock=after), backend, snapshot)


CHANGES = {
    "longer": (ttl(), ttl(200)),
    "shorter": (ttl(), ttl(50)),
    "switched on": (None, ttl()),
    "switched off": (ttl(), None),
    "update type": (ttl(), ttl(set_update_type=Update.OnReadAndWrite)),
    "update type back": (ttl(set_update_type=Update.OnReadAndWrite), ttl()),
    "visibility": (ttl(), ttl(set_state_visibility=Visibility.ReturnExpiredIfNotCleanedUp)),
    "visibility back": (ttl(set_state_visibility=Visibility.ReturnExpiredIfNotCleanedUp), ttl()),
}


@BACKENDS
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_any_other_change_of_a_ttl_goes_on(kind, change, backend):
    """With what is stored."""
    before, after = CHANGES[change]
    with harness(kind, after, backend, stored(kind, before, backend)) as second:
        assert [7] == second.process_element(-1)


@BACKENDS
@pytest.mark.parametrize("kind", KINDS)
def test_a_ttl_that_was_off_in_between_may_have_another_clock(kind, backend):
    """Its entries have lost the stamps of the former one."""
    between = stored(kind, ttl(), backend)
    with harness(kind, None, backend, between) as off:
        snapshot = off.snapshot()
    with harness(kind, ttl(clock=Clock.EventTime), backend, snapshot) as second:
        assert [7] == second.process_element(-1)


@BACKENDS
@pytest.mark.parametrize("after", KINDS)
@pytest.mark.parametrize("before", KINDS)
def test_a_state_of_another_kind_is_refused(before, after, backend):
    """Under the same name; the same kind goes on."""
    snapshot = stored(before, None, backend)
    if before == after:
        with harness(after, None, backend, snapshot) as second:
            assert [7] == second.process_element(-1)
        return
    with pytest.raises(IncompatibleStateError, match=r"state 's'"):
        harness(after, None, backend, snapshot)


class Storing(KeyedProcessFunction):
    """Writes numbers into a store, and tells all that is in it for one below 0."""

    def __init__(self, descriptor, write, read):
        self._descriptor, self._write, self._read = descriptor, write, read

    def open(self, runtime_context):
        self.store = runtime_context.get_store(self._descriptor)

    def process_element(self, value, ctx):
        if value < 0:
            return [self._read(self.store)]
        self._write(self.store, value)
        return []


TEXT, LONG = Types.STRING(), Types.LONG()
STORES = {
    "key-value": (KeyValueStoreDescriptor, {}),
    "timestamped": (TimestampedStoreDescriptor, {}),
    "lru": (LruStoreDescriptor, {"max_entries": 4}),
    "window": (WindowStoreDescriptor, {"window_size": 10, "retention": 40}),
    "session": (SessionStoreDescriptor, {"retention": 40}),
    "versioned": (VersionedStoreDescriptor, {"history_retention": 40}),
}
WRITES = {
    "key-value": lambda store, n: store.put(f"a{n}", n),
    "timestamped": lambda store, n: store.put(f"a{n}", n, n * 10),
    "lru": lambda store, n: store.put(f"a{n}", n),
    "window": lambda store, n: store.put("a", n, n * 10),
    "session": lambda store, n: store.put("a", n * 10, n * 10 + 5, n),
    "versioned": lambda store, n: store.put("a", n, n * 10),
}


def _all(store):
    return [each.value for each in store.all()]


READS = {
    **dict.fromkeys(("key-value", "lru", "window"), _all),
    "timestamped": lambda store: [each.value.value for each in store.all()],
    "session": lambda store: [each.value for each in store.fetch("a")],
    "versioned": lambda store: [each.value for each in store.history("a", None, None, "asc")],
}
EIGHT, LAST_FOUR = list(range(8)), [4, 5, 6, 7]
EVERYWHERE = {"caching": False, "changelog": False}
GOES_ON = [
    *(("key-value", {name: value}, EIGHT) for name, value in EVERYWHERE.items()),
    *(("timestamped", {name: value}, EIGHT) for name, value in EVERYWHERE.items()),
    *(("lru", {name: value}, LAST_FOUR) for name, value in EVERYWHERE.items()),
    ("lru", {"max_entries": 7}, LAST_FOUR),
    *(("window", {name: value}, LAST_FOUR) for name, value in EVERYWHERE.items()),
    ("window", {"retention": 80}, LAST_FOUR),
    ("window", {"retention": 15}, [6, 7]),
    ("window", {"segments": 4}, LAST_FOUR),
    *(("session", {name: value}, LAST_FOUR) for name, value in EVERYWHERE.items()),
    ("session", {"retention": 80}, LAST_FOUR),
    ("session", {"retention": 15}, [6, 7]),
    ("session", {"segments": 4}, LAST_FOUR),
    *(("versioned", {name: value}, [3, 4, 5, 6, 7]) for name, value in EVERYWHERE.items()),
    ("versioned", {"history_retention": 80}, [3, 4, 5, 6, 7]),
    ("versioned", {"history_retention": 15}, [5, 6, 7]),
]
REFUSED = [
    *((kind, {"scope": "partition"}) for kind in STORES),
    ("window", {"window_size": 7}),
    ("window", {"retain_duplicates": True}),
    ("window", {"stream_time": "partition"}),
    ("session", {"stream_time": "partition"}),
]


def storing(kind, backend, changed=None, restore=None):
    """A harness over one key and a store."""
    descriptor, options = STORES[kind]
    store = descriptor("s", TEXT, LONG, **{**options, **(changed or {})})
    function = Storing(store, WRITES[kind], READS[kind])
    return KeyedProcessHarness(function, lambda _: "k", backend(), restore=restore)


def stored_in(kind, backend):
    """A snapshot after eight numbers."""
    with storing(kind, backend) as first:
        for n in range(8):
            first.process_element(n)
        return first.snapshot()


@BACKENDS
@pytest.mark.parametrize(("kind", "changed", "expected"), GOES_ON, ids=str)
def test_what_a_store_may_change_applies_to_what_is_there(kind, changed, expected, backend):
    """A shorter retention hides what is older; a longer one brings back nothing."""
    with storing(kind, backend, changed, stored_in(kind, backend)) as second:
        assert [expected] == second.process_element(-1)


@BACKENDS
def test_an_lru_store_that_may_hold_less_drops_the_oldest_with_the_next_write(backend):
    """Until then it holds what it did."""
    with storing("lru", backend, {"max_entries": 2}, stored_in("lru", backend)) as second:
        second.process_element(8)
        assert [[7, 8]] == second.process_element(-1)


@BACKENDS
@pytest.mark.parametrize(("kind", "changed"), REFUSED, ids=str)
def test_what_a_store_is_found_by_may_not_change(kind, changed, backend):
    """Its scope, the length of its windows, and by what its time goes."""
    snapshot = stored_in(kind, backend)
    with pytest.raises(IncompatibleStateError, match=r"state 's(/time)?': restored state keeps"):
        storing(kind, backend, changed, snapshot)
