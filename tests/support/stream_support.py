# SPDX-License-Identifier: Apache-2.0
"""A stream in miniature, and the harness driven as it is: what savepoints are taken from and given to."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from probe import Mean, Record, drive
from tasks import opened

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
from pyflinklike._changelog.key_group_state import LocalStateBackend
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._changelog.segments import Segment, read_segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.micro_batch import Records, begin, serve
from pyflinklike.state_processor._logs.checkpoint_logs import merge, read_log
from pyflinklike.testing import KeyedProcessHarness

BACKENDS = [pytest.param(HashMapStateBackend(), id="heap")]
try:
    import rocksdict  # noqa: F401 - whether it is there
except ImportError:
    BACKENDS.append(pytest.param(None, id="rocksdb", marks=pytest.mark.skip("no rocksdict")))
else:
    BACKENDS.append(pytest.param(EmbeddedRocksDBStateBackend(), id="rocksdb"))


STRING = Types.STRING()


class Stream:
    """Key groups in stores of their own, committed after every batch.

    Args:
        function: Of the operator.
        backend: For working state.
        max_parallelism: The number of key groups.
        key_type: Of the keys.
        savepoint: What it begins with.
        segment_bytes: How large a segment of a key group it is given gets.
        now: Its processing time.
        on_error: Makes dead letters.
    """

    def __init__(
        self,
        function: KeyedProcessFunction,
        backend: Any,
        max_parallelism: int,
        key_type: Any = STRING,
        savepoint: bytes | None = None,
        now: int = 0,
        segment_bytes: int = 1 << 20,
        on_error: Any = None,
    ) -> None:
        task = TaskInfo("stream", max_parallelism=max_parallelism)
        self.operator = opened(function, backend, task, key_type=key_type, on_error=on_error)
        self.operator.clock.processing_time = now
        self.stores = [InMemoryLogStorage() for _ in range(max_parallelism)]
        if savepoint is not None:
            snapshot = read_segment(savepoint, "savepoint")
            groups = regroup_snapshot(
                snapshot, key_type, self.groups_of, max_parallelism, "savepoint", segment_bytes
            )
            for index, segments in groups.items():
                for segment in segments:
                    begin(self.operator, self.stores[index], index, segment)
                    self.operator.group.cache()

    def groups_of(self, some: Iterable[Any]) -> list[int]:
        """The key groups of keys."""
        return [zlib.crc32(repr(key).encode()) % len(self.stores) for key in some]

    def batch(self, records: list[Record], now: int, watermark: int) -> list[Any]:
        """Process a micro-batch; what it gives."""
        operator = self.operator
        operator.clock.processing_time, operator.clock.watermark = now, watermark
        results = []
        for index, store in enumerate(self.stores):
            mine = [each for each in records if self.groups_of([each.key]) == [index]]
            keys_of_mine = [operator.frozen_key(each.key) for each in mine]
            serve(operator, store, index, Records(keys_of_mine, mine, [None] * len(mine)))
            operator.group.cache()
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
        """Close the operator, and delete what it has on the disk."""
        self.operator.close()
        if isinstance(self.operator.backend, LocalStateBackend):
            self.operator.backend.discard()


class Harness:
    """The harness, driven as the stream is."""

    def __init__(
        self, function: Any, backend: Any, max_parallelism: int, savepoint: bytes | None, now: int
    ) -> None:
        self._harness = KeyedProcessHarness(
            function,
            lambda record: record.key,
            state_backend=backend,
            restore=savepoint,
            max_parallelism=max_parallelism,
        )

    def batch(self, records: list[Record], now: int, watermark: int) -> list[Any]:
        """Process a micro-batch; what it gives."""
        harness = self._harness
        # On a stream both clocks have moved before any timer fires.
        harness._operator.clock.processing_time = now
        results = harness.process_watermark(watermark) + harness.set_processing_time(now)
        results += harness.process_elements((record, None) for record in records)
        return results + harness.process_watermark(watermark) + harness.set_processing_time(now)

    def savepoint(self) -> bytes:
        """A snapshot."""
        return self._harness.snapshot()

    def close(self) -> None:
        """Close it."""
        self._harness.close()


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


READ = act("read", 0)


def snapshot_of(*some: Any, **options: Any) -> Segment:
    """A snapshot of a value state with these keys."""
    driver = drive(ValueStateDescriptor("s", Types.LONG()), **options)
    for key in some:
        driver.of(key).update(7)
    return read_segment(driver.harness.snapshot(), "snapshot")
