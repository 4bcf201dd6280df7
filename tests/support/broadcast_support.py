# SPDX-License-Identifier: Apache-2.0
"""A function with a broadcast input, and its rules a second time over dicts."""

from __future__ import annotations

from typing import Any

from pyflinklike import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    OutputTag,
    Types,
    ValueStateDescriptor,
)

__all__ = ["APPLIED", "LIMITS", "TOTAL", "Alert", "AlertModel", "Flag"]

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
TOTAL = ValueStateDescriptor("total", Types.LONG())
APPLIED = OutputTag("applied", Types.STRING())


class Alert(KeyedBroadcastProcessFunction):
    """The sum of the numbers of each key, and the rules whose limit it is above.

    Elements are `(key, number)`.  Of a rule `(name, limit)` the limit None removes it; the name
    "clear" removes all; the name "reset" sets the sum of every key to its limit.
    """

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        if ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)
        yield from self._broken(ctx)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        name, limit = value
        limits = ctx.get_broadcast_state(LIMITS)
        if name == "clear":
            limits.clear()
        elif name == "reset":
            ctx.apply_to_keyed_state(TOTAL, lambda _, total: total.update(limit))
        elif limit is None:
            limits.remove(name)
        else:
            limits.put(name, limit)
        yield APPLIED, name

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from self._broken(ctx)

    def _broken(self, ctx: Any) -> Any:
        total = self.total.value() or 0
        broken = sorted(
            name for name, limit in ctx.get_broadcast_state(LIMITS).items() if total > limit
        )
        yield ctx.get_current_key(), total, ",".join(broken)


class AlertModel:
    """What `Alert` gives, over dicts."""

    def __init__(self) -> None:
        self.limits: dict[str, int] = {}
        self.totals: dict[Any, int] = {}

    def element(self, key: Any, number: int) -> tuple[Any, int, str]:
        """What comes of an element."""
        self.totals[key] = self.totals.get(key, 0) + number
        return self.broken(key)

    def rule(self, name: str, limit: int | None) -> None:
        """A rule comes."""
        if name == "clear":
            self.limits.clear()
        elif name == "reset":
            self.totals = dict.fromkeys(self.totals, limit or 0)
        elif limit is None:
            self.limits.pop(name, None)
        else:
            self.limits[name] = limit

    def broken(self, key: Any) -> tuple[Any, int, str]:
        """The sum of a key, and the rules that it breaks."""
        total = self.totals[key]
        return key, total, ",".join(sorted(n for n, limit in self.limits.items() if total > limit))


class Flag(BroadcastProcessFunction):
    """The elements, which have no keys, with the rules that they break."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        limits = ctx.get_broadcast_state(LIMITS)
        yield value, ",".join(sorted(name for name in limits if value > limits[name]))

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(LIMITS).put_all({value[0]: value[1]})
        yield APPLIED, value[0]
