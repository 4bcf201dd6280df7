# SPDX-License-Identifier: Apache-2.0
"""A function with every kind of state and store, and all that can be read of them.

    query = key_by(stream, "user").process(AllStates(), OUTPUT)      # records: user, n
    answers(at, users)                                               # of a replica's snapshot
    model(records, users)                                            # the same, of a harness

A record has a number that grows, and what is written depends on it alone, so that a model of any
micro-batch is what a harness says that was given the same records.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.testing import KeyedProcessHarness

SCHEMA = "user string, n long"
OUTPUT = "user string, n long"
HEAVY = "u0"
"""The user whose key group outgrows its snapshot every few records."""

TEXT, LONG = Types.STRING(), Types.LONG()
STATES = ("total", "all", "last", "texts", "mean", "blob")
_STORES = [
    KeyValueStoreDescriptor("kv", TEXT, LONG),
    LruStoreDescriptor("lru", TEXT, LONG, max_entries=2),
    TimestampedStoreDescriptor("stamped", TEXT, LONG),
    WindowStoreDescriptor("windows", TEXT, LONG, window_size=10, retention=100),
    WindowStoreDescriptor(
        "doubled", TEXT, LONG, window_size=10, retention=100, retain_duplicates=True
    ),
    SessionStoreDescriptor("sessions", TEXT, LONG, retention=100),
    VersionedStoreDescriptor("versions", TEXT, LONG, history_retention=60),
    KeyValueStoreDescriptor("shared", TEXT, LONG, scope="partition"),
    WindowStoreDescriptor("shared-windows", TEXT, LONG, window_size=10, scope="partition"),
    SessionStoreDescriptor("shared-sessions", TEXT, LONG, scope="partition"),
]
_BY_KEY: list[tuple[str, tuple[Any, ...]]] = [
    *(("get", (key,)) for key in ("k0", "k1", "nothing")),
    *(("multi_get", (["k3", "k0"],)), ("range", ("k1", "k2")), ("range", (None, "k1"))),
    *(("all", ()), ("prefix_scan", ("k",)), ("approximate_num_entries", ()), ("items", ())),
]
_WINDOWS: list[tuple[str, tuple[Any, ...]]] = [
    *(("fetch", ("A", 10, 20)), ("fetch", ("A", None, None)), ("fetch", ("B", 16, None))),
    *(("fetch_range", ("A", "B", 15, 60)), ("fetch_range", (None, "A", None, 40)), ("all", ())),
    *(("fetch_all", (15, 20)), ("fetch_all", (None, None))),
]
_SESSIONS: list[tuple[str, tuple[Any, ...]]] = [
    *(("fetch", ("s",)), ("fetch_range", (None, "t")), ("fetch_session", ("s", 60, 65))),
    *(("find_sessions", ("s", 20, 80)), ("find_sessions_range", ("r", None, 20, 100))),
    ("find_ended_sessions", (20, 65)),
]
_VERSIONS: list[tuple[str, tuple[Any, ...]]] = [
    *(("get", ("v",)), ("get", ("v", 35)), ("history", ("v", None, None, "asc"))),
    ("history", ("v", 20, 60, "desc")),
]
_VERBS = {
    **dict.fromkeys(("kv", "lru", "stamped", "shared"), _BY_KEY),
    "windows": [("get", ("A", 20)), ("get", ("A", 21)), *_WINDOWS],
    **dict.fromkeys(("doubled", "shared-windows"), _WINDOWS),
    **dict.fromkeys(("sessions", "shared-sessions"), _SESSIONS),
    "versions": _VERSIONS,
}
_ONE_WAY = {"get", "multi_get", "approximate_num_entries", "items", "history", "fetch_session"}


class Sum(AggregateFunction):
    """Shows its accumulator, as a replica does."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class AllStates(KeyedProcessFunction):
    """Writes to each of its states and stores what the number of a record says.

    Args:
        compacted_every: After how many ms a log is compacted for its age; 0 for never.
    """

    def __init__(self, compacted_every: int = 0) -> None:
        self.compacted_every = compacted_every

    def open(self, runtime_context: Any) -> None:
        pair = Types.TUPLE([LONG, LONG])
        of = runtime_context
        self.total = of.get_state(self._with_ttl(ValueStateDescriptor("total", LONG)))
        self.all = of.get_list_state(self._with_ttl(ListStateDescriptor("all", LONG)))
        self.last = of.get_map_state(self._with_ttl(MapStateDescriptor("last", TEXT, LONG)))
        texts = ReducingStateDescriptor("texts", lambda a, b: a + b, TEXT)
        self.texts = of.get_reducing_state(texts)
        self.mean = of.get_aggregating_state(AggregatingStateDescriptor("mean", Sum(), pair))
        self.blob = of.get_state(ValueStateDescriptor("blob", Types.PRIMITIVE_ARRAY(Types.BYTE())))
        self.stores = {each.name: of.get_store(each) for each in _STORES}

    def _with_ttl(self, descriptor: Any) -> Any:
        # So long that nothing expires by Spark's clock, which is that of the day.
        ttl = StateTtlConfig.new_builder(Time.days(36_500))
        if self.compacted_every:
            period = Time.milliseconds(self.compacted_every)
            ttl.cleanup_in_rocksdb_compact_filter(1000, period)
        else:
            ttl.disable_cleanup_in_background()
        descriptor.enable_time_to_live(ttl.build())
        return descriptor

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value.n < 0:
            yield self._read(value.user)
            return
        self._write_states(value.user, value.n)
        self._write_stores(value.user, value.n)
        yield value.user, value.n

    def _write_states(self, user: str, n: int) -> None:
        self.total.update((self.total.value() or 0) + n)
        self.all.add(n)
        if n % 5 == 0:
            self.all.update([n, -n])
        self.last.put(f"m{n % 3}", n)
        if n % 4 == 0:
            self.last.remove(f"m{(n + 1) % 3}")
        if n % 7 == 0:
            self.texts.clear()
            self.last.clear()
        self.texts.add(f"{n};")
        self.mean.add(n)
        if user == HEAVY:
            self.blob.update(Random(n).randbytes(20_000))

    def _write_stores(self, user: str, n: int) -> None:
        stores, key = self.stores, "AB"[n % 2]
        stores["kv"].put(f"k{n % 4}", n)
        if n % 6 == 0:
            stores["kv"].delete("k1")
        stores["lru"].put(f"k{n % 3}", n)
        stores["stamped"].put(f"k{n % 2}", n, n * 10)
        stores["windows"].put(key, n, n * 5)
        stores["doubled"].put(key, n, n * 5)
        stores["doubled"].put(key, -n, n * 5)
        stores["sessions"].put("s", n * 20, n * 20 + 5, n)
        stores["versions"].put("v", n if n % 3 else None, n * 10)
        stores["shared"].put(user, n)
        stores["shared-windows"].put(user, n, n * 5)
        stores["shared-sessions"].put(user, n * 20, n * 20 + 5, n)

    def _read(self, user: str) -> dict[str, Any]:
        read = {
            "total": self.total.value(),
            "all": list(self.all) or None,
            "last": dict(self.last.items()) or None,
            "texts": self.texts.get(),
            "mean": self.mean.get(),
            "blob": self.blob.value(),
        }
        for name, store in self.stores.items():
            read[name] = _read_of(name, store)
        return copy.deepcopy(read)


def _read_of(name: str, store: Any) -> list[Any]:
    """What every verb of a store that reads gives, forwards and backwards."""
    found = []
    for verb, arguments in _VERBS[name]:
        for options in [{}] if verb in _ONE_WAY else [{"reverse": False}, {"reverse": True}]:
            given = getattr(store, verb)(*arguments, **options)
            is_one = verb in ("multi_get", "approximate_num_entries", "fetch_session", "get")
            found.append((verb, arguments, given if is_one else [*given]))
    return found


def answers(at: Any, users: Iterable[str]) -> dict[str, dict[str, Any]]:
    """All that a snapshot of a replica says, by user; what belongs to no key under each."""
    found = {}
    for user in users:
        found[user] = {name: at[name].get(user) for name in STATES}
        for each in _STORES:
            of_key = {} if each.scope == "partition" else {"key": user}
            found[user][each.name] = _read_of(each.name, at.store(each.name, **of_key))
    return found


def model(batches: Iterable[Sequence[tuple[str, int]]], users: Iterable[str]) -> Any:
    """What a harness says of the same after these records."""
    with KeyedProcessHarness(AllStates(), lambda row: row.user) as harness:
        for batch in batches:
            for user, n in batch:
                harness.process_element(Row(user=user, n=n))
            harness.end_batch()
        # A read counts as a use, so each user is asked once.
        return {
            user: found for user in users for found in harness.process_element(Row(user=user, n=-1))
        }
