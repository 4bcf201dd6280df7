# SPDX-License-Identifier: Apache-2.0
"""A function of two inputs that joins them, and its rules a second time over dicts."""

from __future__ import annotations

import importlib.util
import tempfile
from typing import Any

from pyflinklike import (
    MIN_WATERMARK,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedCoProcessFunction,
    ListStateDescriptor,
    Types,
    ValueStateDescriptor,
)

__all__ = ["BACKENDS", "GRACE", "Enrich", "EnrichModel"]

_DIRECTORY = tempfile.TemporaryDirectory()
BACKENDS: list[Any] = [HashMapStateBackend()]
if importlib.util.find_spec("rocksdict") is not None:
    BACKENDS.append(EmbeddedRocksDBStateBackend())
    BACKENDS[1].set_db_storage_paths(_DIRECTORY.name)

GRACE = 2
"""How long an element of the first input waits for the second's, in ms."""


class Enrich(KeyedCoProcessFunction):
    """Joins elements `(key, number)` of input 1 with the last name `(key, name)` of input 2.

    What comes before its key has a name waits for one, at most `GRACE` ms of event time.
    """

    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.waiting = runtime_context.get_list_state(
            ListStateDescriptor("waiting", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element1(self, value: Any, ctx: Any) -> Any:
        name = self.name.value()
        if name is not None:
            yield value[0], value[1], name
            return
        due = ctx.timestamp() + GRACE
        self.waiting.add((value[1], due))
        ctx.timer_service().register_event_time_timer(due)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.name.update(value[1])
        for number, _ in self.waiting.get() or ():
            yield ctx.get_current_key(), number, value[1]
        self.waiting.clear()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        entries = list(self.waiting.get() or ())
        self.waiting.update([each for each in entries if each[1] > timestamp])
        for number, due in entries:
            if due <= timestamp:
                yield ctx.get_current_key(), number, None


class EnrichModel:
    """What `Enrich` gives, over dicts."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.waiting: list[tuple[int, Any, int]] = []
        self.watermarks = {1: MIN_WATERMARK, 2: MIN_WATERMARK}

    def element(self, number: int, key: Any, value: Any, timestamp: int) -> list[Any]:
        """What comes of an element."""
        if number == 1:
            if key in self.names:
                return [(key, value, self.names[key])]
            self.waiting.append((timestamp + GRACE, key, value))
            return []
        self.names[key] = value
        found = [(key, n, value) for _, of, n in self.waiting if of == key]
        self.waiting = [each for each in self.waiting if each[1] != key]
        return found

    def watermark(self, number: int, time: int) -> list[Any]:
        """What comes of a watermark."""
        self.watermarks[number] = time
        now = min(self.watermarks.values())
        due = sorted((each for each in self.waiting if each[0] <= now), key=lambda each: each[0])
        self.waiting = [each for each in self.waiting if each[0] > now]
        return [(key, n, None) for _, key, n in due]
