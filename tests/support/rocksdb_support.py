# SPDX-License-Identifier: Apache-2.0
"""Damage to RocksDB's files: a function that uses all there is, its tasks, and flipped bits.

damaged = Damaged(tmp_path)          # two tasks have run, and left their files
expected = damaged.run()             # two more, on files that are whole
for flip in flips(damaged.local):    # the same on files of which one has a flipped bit
    assert expected == damaged.run(flip)
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from tasks import opened

from pyflinklike import (
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
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import Records, TimerScheduling, serve
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.stores import KeyValueStoreDescriptor

KEYS = [f"key-{number:03}" for number in range(120)]
LARGE = KEYS[7]
"""Its map and list outgrow a row."""
BATCHES = 4


class Everything(KeyedProcessFunction):
    """Reads and writes every kind of state, a store with ranges, and timers.

    Args:
        before: Called before each use of a state.
    """

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self._before = before

    def open(self, runtime_context: Any) -> None:
        ttl = StateTtlConfig.new_builder(10**9).cleanup_incrementally(7, True).build()
        mapped = MapStateDescriptor("map", Types.LONG(), Types.STRING())
        mapped.enable_time_to_live(ttl)
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.STRING()))
        self.map = runtime_context.get_map_state(mapped)
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda one, other: one + other, Types.LONG())
        )
        self.store = runtime_context.get_store(
            KeyValueStoreDescriptor("store", Types.STRING(), Types.LONG(), scope="partition")
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, batch = ctx.get_current_key(), value
        for use in (self._write, self._read, self._change, self._range):
            yield from ((key, use.__name__, got) for got in use(key, batch))
        self._before()
        ctx.timer_service().register_event_time_timer(batch * 1_000 + int(key[-3:]))

    def _write(self, key: str, batch: int) -> Iterator[Any]:
        self._before()
        if batch % 2 == 0:
            self.list.add(batch)
            self._before()
            self.map.put(batch + 1_000, "late")
        if batch == 0:
            size = 300 if key == LARGE else 3
            self.map.put_all({at: f"{key}.{at}" for at in range(size)})
            self.list.add_all(list(range(size)))
        self._before()
        self.store.put(f"{key}.{batch}", batch)
        yield batch

    def _read(self, key: str, batch: int) -> Iterator[Any]:
        for read in (self.value.value, self.sum.get, self.map.is_empty, lambda: self.map.get(1)):
            self._before()
            yield read()
        if key == LARGE or batch % 2:
            self._before()
            yield sorted(self.map.items())
            self._before()
            yield list(self.list.get())

    def _change(self, key: str, batch: int) -> Iterator[Any]:
        self._before()
        self.value.update(f"{key} {batch}" + "x" * 40)
        self._before()
        self.sum.add(batch + 1)
        self._before()
        yield self.map.remove(2)
        if key == KEYS[0] and batch == BATCHES - 1:
            self._before()
            yield self.list.clear(), self.map.clear()

    def _range(self, key: str, batch: int) -> Iterator[Any]:
        if batch and key in (*KEYS[::40], LARGE):
            self._before()
            yield list(self.store.range(key, KEYS[-1]))
            self._before()
            yield list(self.store.range(KEYS[0], key, reverse=True))[:5]
            self._before()
            yield self.store.get(f"{key}.0"), self.store.delete(f"{key}.1")

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), timestamp


def batch_of(number: int) -> list[str]:
    """The keys that a batch touches: all, or few, so that rows are read ahead or one by one."""
    return KEYS if number == 0 else [KEYS[0], LARGE, *KEYS[40 + number :: 40]]


def run_task(
    backend: StateBackend,
    store: InMemoryLogStorage,
    number: int,
    before: Callable[[KeyedProcessOperator], None] = lambda operator: None,
) -> list[Any]:
    """One task that serves one key group with one batch; its outputs.

    `before` is called before each use of a state, before the commit, and after it.
    """
    function = Everything(lambda: before(operator))
    operator = opened(function, backend, owner="query/0")

    def about_to_commit(operator: KeyedProcessOperator, _: int | None) -> None:
        if number == BATCHES - 1:
            operator.group.rewrite()
        before(operator)

    try:
        keys = batch_of(number)
        operator.clock.watermark = number * 1_000
        records = Records(keys, [number] * len(keys), [None] * len(keys))
        serve(operator, store, 0, records, waking=TimerScheduling(wake_at=about_to_commit))
        before(operator)
        outputs = list(operator.outputs.take().main)
        operator.group.cache()
    finally:
        operator.close()
    return outputs


def contents(store: InMemoryLogStorage) -> dict[str, list[Any]]:
    """All that a key group's log says, by table."""
    operator = opened(Everything(), HashMapStateBackend(max_warm_bytes=0))
    operator.load(store, store.read_head("test"), 0)
    return {
        each.spec.name: sorted(zip(each.keys, each.user_keys, each.entries), key=repr)
        for each in operator.backend.contents()
    }


class Damaged:
    """A key group after two tasks, whose local files may be damaged before the next two."""

    def __init__(self, root: Path) -> None:
        self._local, self._saved = root / "local", root / "saved"
        self._backend = EmbeddedRocksDBStateBackend()
        self._backend.set_db_storage_paths(str(self._local))
        self._store = InMemoryLogStorage()
        for number in range(BATCHES - 2):
            run_task(self._backend, self._store, number)
        shutil.copytree(self._local, self._saved)

    @property
    def files(self) -> list[Path]:
        """The files that there are, relative to their directory."""
        (root,) = self._saved.iterdir()
        (directory,) = root.iterdir()
        return [file for file in sorted(directory.iterdir()) if file.stat().st_size]

    def run(
        self,
        damage: Damage | None = None,
        before: Callable[[KeyedProcessOperator], None] = lambda operator: None,
    ) -> tuple[list[Any], dict[str, list[Any]]]:
        """The next two tasks: what they give, and what the log says then."""
        shutil.rmtree(self._local)
        shutil.copytree(self._saved, self._local)
        if damage is not None:
            damage.inflict(self._local / damage.file.relative_to(self._saved))
        store = self._store.copy()
        outputs = []
        for number in range(BATCHES - 2, BATCHES):
            outputs += run_task(self._backend, store, number, before)
        return outputs, contents(store)


@attrs.frozen
class Damage:
    """What happens to a file.

    Args:
        file: Which.
        how: Changes its bytes; None deletes it.
        name: For messages.
    """

    file: Path
    how: Callable[[bytes], bytes] | None
    name: str = attrs.field(default="", eq=False)

    def inflict(self, file: Path) -> None:
        """Change a copy of the file."""
        if self.how is None:
            file.unlink()
        else:
            file.write_bytes(self.how(file.read_bytes()))


def flipped(at: int, bit: int) -> Callable[[bytes], bytes]:
    """Flips one bit."""

    def how(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[at] ^= 1 << bit
        return bytes(changed)

    return how


def flips(files: list[Path], every: int) -> Iterator[Damage]:
    """A flipped bit in about every so many bytes of each file, each file's first and last too."""
    for file in files:
        size = file.stat().st_size
        for number, at in enumerate([*range(0, size, every), size - 1]):
            bit = (number * 5 + at) % 8
            yield Damage(file, flipped(at, bit), f"{file.name}, byte {at}, bit {bit}")


def losses(files: list[Path]) -> Iterator[Damage]:
    """Each file gone, emptied, cut in half, and short of its last byte."""
    for file in files:
        yield Damage(file, None, f"{file.name} gone")
        yield Damage(file, lambda data: b"", f"{file.name} empty")
        yield Damage(file, lambda data: data[: len(data) // 2], f"{file.name} cut in half")
        yield Damage(file, lambda data: data[:-1], f"{file.name} short of a byte")
