# SPDX-License-Identifier: Apache-2.0
"""Tasks over the RocksDB backend without an operator: tables filled, kept and found again.

Importing it skips the module where rocksdict is not installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Shape, TableSpec

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

VALUE = TableSpec("value", Shape.SINGLE, "value", Types.STRING())
MAP = TableSpec("map", Shape.MAP, "map", Types.STRING(), Types.LONG())
LIST = TableSpec("list", Shape.LIST, "list", Types.STRING())
SPECS = {spec.name: spec for spec in (VALUE, MAP, LIST)}


def in_directory(path: object) -> EmbeddedRocksDBStateBackend:
    """A backend whose files lie there."""
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(path))
    return backend


NONCE = bytes(range(16))


def opened(
    state_backend: EmbeddedRocksDBStateBackend, index: int, owner: str = "query/0"
) -> tuple[Any, dict[str, Any]]:
    """A keyed backend in a new group, and its tables."""
    backend: Any = state_backend.create_keyed_state_backend(CurrentKey(), owner)
    tables = {name: backend.table(spec) for name, spec in SPECS.items()}
    backend.groups = {index: {}}
    backend.enter(index, backend.groups[index])
    return backend, tables


def kept(backend: Any, group: KeyGroupState) -> None:
    """Commit and keep a group."""
    backend.drain()
    backend.cache(group)


def fill(tables: dict[str, Any], current: CurrentKey, number: int = 5) -> None:
    """Entries of three keys in all tables."""
    for key in "abc":
        current.key = key
        tables["value"].put(None, f"value {key}")
        tables["map"].multi_put([(at, f"{key}{at}") for at in reversed(range(number))])
        for at in range(number):
            tables["list"].append(f"{key}{at}")


def leave(path: object, nonce: bytes = NONCE, **options: Any) -> None:
    """A first task that fills group 3 and ends."""
    backend, tables = opened(in_directory(path), 3, **options)
    fill(tables, backend.current)
    kept(backend, KeyGroupState(3, nonce, 7, tables=backend.groups[3]))
    backend.close()


def found(path: object, **options: Any) -> tuple[Any, dict[str, Any], KeyGroupState | None]:
    """A second task: its backend, its tables, and what it took of group 3."""
    backend, tables = opened(in_directory(path), 3, **options)
    group = backend.pop_cached(3)
    backend.enter(3, KeyGroupState(3).tables if group is None else group.tables)
    return backend, tables, group


def contents(backend: Any) -> dict[str, list[tuple[Any, ...]]]:
    """All entries, by table."""
    return {
        each.spec.name: sorted(zip(each.keys, each.user_keys, each.entries), key=repr)
        for each in backend.contents()
        if len(each)
    }


def only_directory(path: Path) -> Path:
    """Of the one owner there."""
    (root,) = Path(path).iterdir()
    (directory,) = root.iterdir()
    return directory


def found_nonce(path: object) -> bytes | None:
    """The nonce on disk."""
    backend, _, group = found(path)
    backend.close()
    return None if group is None else group.nonce


class Everything(KeyedProcessFunction):
    """One state of three kinds, and timers."""

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(
            MapStateDescriptor("map", Types.STRING(), Types.LONG())
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.value.update((self.value.value() or 0) + value)
        self.list.add(value)
        self.map.put(str(value % 3), value)
        ctx.timer_service().register_event_time_timer(value)
        yield self.value.value(), list(self.list), sorted(self.map.items())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer", ctx.get_current_key(), timestamp
