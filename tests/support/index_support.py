# SPDX-License-Identifier: Apache-2.0
"""Backends of `UpsertState`, and short ways to put and to get."""

import importlib.util
from typing import Any

import pytest

from pyflinklike.upsert import (
    AutoSpillBackend,
    InMemoryUpsertBackend,
    PutValue,
    RocksDBUpsertBackend,
    UpsertState,
)

needs_rocksdict = pytest.mark.skipif(
    importlib.util.find_spec("rocksdict") is None,
    reason="rocksdict is not installed (the extra `rocksdb`)",
)
MAKERS = {
    "memory": lambda path: InMemoryUpsertBackend(),
    "rocksdb": lambda path: RocksDBUpsertBackend(path / "rocks"),
    "spilled": lambda path: AutoSpillBackend(threshold=0, path=path / "spill"),
    "unspilled": lambda path: AutoSpillBackend(threshold=1 << 30, path=path / "spill"),
}


def put(state: UpsertState, key: Any, value: Any) -> Any:
    """Put one value as the contract asks: with the metadata of what was there."""
    before = state.multi_get([key])[0].metadata
    return state.multi_put([(key, PutValue(value, before))])


def values(state: UpsertState, *keys: Any) -> list[Any]:
    """The states under some keys."""
    return [each.value for each in state.multi_get(keys)]
