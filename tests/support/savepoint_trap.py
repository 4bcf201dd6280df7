# SPDX-License-Identifier: Apache-2.0
"""A function that keeps a hostile pickle in everything that takes one: opening it leaves a trace."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.stores import KeyValueStoreDescriptor

PICKLED, TEXT = Types.PICKLED_BYTE_ARRAY(), Types.STRING()
TRAPPED = ["value", "list", "map", "row", "aggregating", "store", "shared"]
"""Its states and stores."""


class Hostile:
    """Makes a directory where it is unpickled."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.makedirs, (self._path, 0o777, True)


class Last(AggregateFunction):
    """The last value."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return None

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_b


class Trapped(KeyedProcessFunction):
    """Keeps it, whatever its elements are.

    Args:
        path: Of the directory that is there once a pickle was opened.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def open(self, runtime_context: Any) -> None:
        of = runtime_context
        row = Types.ROW_NAMED(["n", "what"], [Types.LONG(), PICKLED])
        self.value = of.get_state(ValueStateDescriptor("value", PICKLED))
        self.list = of.get_list_state(ListStateDescriptor("list", PICKLED))
        self.map = of.get_map_state(MapStateDescriptor("map", TEXT, PICKLED))
        self.row = of.get_state(ValueStateDescriptor("row", row))
        folded = AggregatingStateDescriptor("aggregating", Last(), PICKLED)
        self.aggregating = of.get_aggregating_state(folded)
        self.store = of.get_store(KeyValueStoreDescriptor("store", TEXT, PICKLED))
        shared = KeyValueStoreDescriptor("shared", TEXT, PICKLED, scope="partition")
        self.shared = of.get_store(shared)

    def process_element(self, value: Any, ctx: Any) -> Any:
        what = Hostile(self._path)
        self.value.update(what)
        self.list.update([what])
        self.map.put("k", what)
        self.row.update(Row(n=1, what=what))
        self.aggregating.add(what)
        self.store.put("k", what)
        self.shared.put("k", what)
        return []


def hostile(path: Path | str) -> bytes:
    """The bytes that it keeps."""
    return pickle.dumps(Hostile(str(path)), protocol=5)
