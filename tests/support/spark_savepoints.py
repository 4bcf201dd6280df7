# SPDX-License-Identifier: Apache-2.0
"""A function over streams and in harnesses, whose state savepoints carry."""

from __future__ import annotations

from typing import Any

import pytest
from spark_support import pickle_by_value

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    Row,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.types import TypeInformation

pickle_by_value(__name__)


def rocksdb(
    directory: object, cls: type[EmbeddedRocksDBStateBackend] = EmbeddedRocksDBStateBackend
) -> EmbeddedRocksDBStateBackend:
    """A backend with its files there."""
    pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")
    backend = cls()
    backend.set_db_storage_paths(str(directory))
    return backend


class Sum(KeyedProcessFunction):
    """The sum of `n` per key."""

    def __init__(self, kind: TypeInformation | None = None) -> None:
        self.kind = kind or Types.LONG()

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", self.kind))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.sum.update((self.sum.value() or 0) + value.n)
        yield ctx.get_current_key(), self.sum.value()


def sums(*keys: Any) -> KeyedProcessHarness:
    """A harness whose sum for each of these keys is 100."""
    summing = KeyedProcessHarness(Sum(), key_selector=lambda value: value.key)
    for key in keys:
        summing.process_element(Row(key=key, n=100))
    return summing
