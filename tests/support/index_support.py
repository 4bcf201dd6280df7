# SPDX-License-Identifier: Apache-2.0
"""`UpsertState` on every backend, and short ways to put and to get."""

import importlib.util
from typing import Any

import pytest

from pyflinklike import EmbeddedRocksDBStateBackend
from pyflinklike.upsert import PutValue, UpsertState

needs_rocksdict = pytest.mark.skipif(
    importlib.util.find_spec("rocksdict") is None,
    reason="rocksdict is not installed (the extra `rocksdb`)",
)


def rocksdb(path: Any) -> EmbeddedRocksDBStateBackend:
    """A backend whose files are below a path."""
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(path))
    return backend


MAKERS = {
    "memory": lambda path, **options: UpsertState(**options),
    "rocksdb": lambda path, **options: UpsertState(rocksdb(path), **options),
    "spilled": lambda path, **options: UpsertState(rocksdb(path), max_heap_bytes=1, **options),
    "unspilled": lambda path, **options: UpsertState(
        rocksdb(path), max_heap_bytes=1 << 30, **options
    ),
}


def put(state: UpsertState, key: Any, value: Any) -> Any:
    """Put one value as the contract asks: with the metadata of what was there."""
    before = state.multi_get([key])[0].metadata
    return state.multi_put([(key, PutValue(value, before))])


def values(state: UpsertState, *keys: Any) -> list[Any]:
    """The states under some keys."""
    return [each.value for each in state.multi_get(keys)]
