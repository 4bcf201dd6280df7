# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in what is durable: heads, segments and savepoints of a small job.

As a program it flips every bit (or every `step`-th) and prints what became of it:

    python tests/support/damaged_state.py [step]
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterator
from typing import Any

from tasks import opened

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.log_storage import Head, InMemoryLogStorage
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.micro_batch import Records, TimerScheduling, serve
from pyflinklike.backends.heap.heap_backend import WARM_GROUPS
from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.testing import KeyedProcessHarness

REFUSED = (CorruptStateError, IncompatibleStateError)
SAVEPOINT, HEAD = "savepoint", "head"


class Visits(KeyedProcessFunction):
    """Has a state of each shape, timers, and TTL on one of them."""

    def open(self, runtime_context: Any) -> None:
        """Declare them."""
        count = ValueStateDescriptor("count", Types.LONG())
        count.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.count = runtime_context.get_state(count)
        self.pages = runtime_context.get_list_state(ListStateDescriptor("pages", Types.STRING()))
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.STRING(), Types.LIST(Types.LONG()))
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Put something into each."""
        self.count.update((self.count.value() or 0) + 1)
        self.pages.add(f"page {value}")
        self.seen.put(f"żółw {value % 3}", [value, value + 1])
        ctx.timer_service().register_event_time_timer(1_000 + value)
        yield value


class Job:
    """A job of one key group and its log."""

    def __init__(self, store: InMemoryLogStorage) -> None:
        WARM_GROUPS.clear()
        self.store = store
        self.operator = opened(Visits(), task=TaskInfo("visits"))

    def batch(self, *numbers: int, wake_at: int | None = None) -> None:
        """A micro-batch, of a worker that has nothing warm at first."""
        keys = [f"user-{number % 4}" for number in numbers]
        records = Records(keys, numbers, [None] * len(numbers))
        waking = TimerScheduling(wake_at=lambda *_: wake_at)
        serve(self.operator, self.store, 3, records, waking=waking)
        self.operator.group.cache()

    def contents(self) -> Any:
        """What a worker that has nothing warm finds, whatever the order."""
        self.operator.load(self.store, self.store.read_head("visits"), 3)
        return [
            sorted(map(repr, zip(each.keys, each.user_keys, each.entries)))
            for each in self.operator.backend.contents()
        ]


def log() -> InMemoryLogStorage:
    """A log of a small and a compressed segment, and another small one."""
    store = InMemoryLogStorage()
    job = Job(store)
    job.batch(1, 2, wake_at=5_000)
    job.batch(*range(400))
    job.batch(7, wake_at=6_000)
    return store


def snapshot() -> bytes:
    """A savepoint."""
    with KeyedProcessHarness(Visits(), key_selector=lambda value: f"user-{value % 4}") as harness:
        harness.process_elements([(number, None) for number in range(40)])
        return harness.snapshot()


def after_restore(savepoint: bytes) -> Any:
    """What a harness restores."""
    with KeyedProcessHarness(
        Visits(), key_selector=lambda value: f"user-{value % 4}", restore=savepoint
    ) as harness:
        return [
            sorted(map(repr, zip(each.keys, each.user_keys, each.entries)))
            for each in harness._operator.backend.contents()
        ]


class Damage:
    """What is durable, and what becomes of it when it changes."""

    def __init__(self) -> None:
        self._store = log()
        self._savepoint = snapshot()
        assert self._store.head is not None
        self.forms: dict[Any, bytes] = {
            SAVEPOINT: self._savepoint,
            HEAD: self._store.head.to_bytes(),
            **self._store.segments,
        }
        self._expected = self._read(self._store), after_restore(self._savepoint)

    @staticmethod
    def _read(store: InMemoryLogStorage) -> Any:
        return store.head, Job(store).contents()

    def outcome(self, form: Any, changed: bytes) -> str:
        """`refused`, `harmless` or `silent`; any other error is raised."""
        try:
            if form == SAVEPOINT:
                same = after_restore(changed) == self._expected[1]
            else:
                store = self._store.copy()
                if form == HEAD:
                    store.head = Head.from_bytes(changed, "visits")
                else:
                    store.segments[form] = changed
                same = self._read(store) == self._expected[0]
        except REFUSED:
            return "refused"
        return "harmless" if same else "silent"

    def flips(self, step: int = 1) -> Iterator[tuple[Any, bytes]]:
        """Every `step`-th bit of all forms, flipped."""
        for form, blob in self.forms.items():
            for at in range(0, 8 * len(blob), step):
                changed = bytearray(blob)
                changed[at // 8] ^= 1 << at % 8
                yield form, bytes(changed)


def main(step: int) -> None:
    """Count."""
    damage = Damage()
    counted: dict[str, collections.Counter[str]] = {}
    for form, changed in damage.flips(step):
        name = form if isinstance(form, str) else "segment"
        counted.setdefault(name, collections.Counter())[damage.outcome(form, changed)] += 1
    for name, outcomes in counted.items():
        sys.stdout.write(f"{name}: {sum(outcomes.values())} tried, {dict(outcomes)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
