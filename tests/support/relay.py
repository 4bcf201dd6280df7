# SPDX-License-Identifier: Apache-2.0
"""Functions for operators behind each other, whose outputs show all that they could see."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pyspark.sql import types as st

from pyflinklike import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.testing import HarnessChain, KeyedProcessHarness

__all__ = [
    "ORDER",
    "SCHEMA",
    "Relay",
    "RelayOfTwo",
    "RelayUnderRules",
    "element",
    "instant",
    "milliseconds",
    "relays",
]

SCHEMA = st.StructType(
    [
        st.StructField("key", st.StringType()),
        st.StructField("ts", st.TimestampType()),
        st.StructField("n", st.LongType()),
        st.StructField("trace", st.StringType()),
    ]
)
_EPOCH = dt.datetime(1970, 1, 1)


def instant(milliseconds: int | None) -> dt.datetime | None:
    """A point in time as a function yields it."""
    return None if milliseconds is None else _EPOCH + dt.timedelta(milliseconds=milliseconds)


def milliseconds(instant: dt.datetime | None) -> int | None:
    """The same in ms."""
    return None if instant is None else (instant - _EPOCH) // dt.timedelta(milliseconds=1)


class Relay(KeyedProcessFunction):
    """Passes records on, and from timers sums of them, each with all that could be seen on the way.

    What it does with one record does not depend on the order of those before.

    Args:
        keys: Records of how many keys it emits.
    """

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.sum.update((self.sum.value() or 0) + value.n)
        timers = ctx.timer_service()
        if value.n % 3:
            timers.register_event_time_timer(self._due(ctx.timestamp() + value.n % 7, ctx))
        if value.n % 2:
            yield self._traced(value.n, ctx.timestamp(), f"{value.trace}/element", ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        total = self.sum.value() or 0
        if timestamp % 4 == 1:
            ctx.timer_service().register_event_time_timer(timestamp + 3)
        if timestamp % 5 == 2:
            self.sum.clear()
        yield self._traced(total, timestamp, f"timer of {ctx.get_current_key()}", ctx)

    def _due(self, time: int, ctx: Any) -> int:
        return time

    def _traced(self, n: int, time: int, what: str, ctx: Any) -> tuple[Any, ...]:
        watermark = ctx.timer_service().current_watermark()
        return f"k{n % self._keys}", instant(time), n + 1, f"{what} {time} under {watermark}"


def relays(
    functions: list[KeyedProcessFunction], restored: list[bytes] | None = None, **options: Any
) -> HarnessChain:
    """Such functions in harnesses, one behind the other.

    Args:
        functions: The first one first.
        restored: A snapshot for each of them.
        options: Of the links.
    """
    snapshots = restored or [None] * len(functions)  # type: ignore[list-item]
    first, *others = [
        KeyedProcessHarness(function, lambda row: row.key, restore=snapshot)
        for function, snapshot in zip(functions, snapshots)
    ]
    chain = HarnessChain(first)
    for harness in others:
        chain.then(harness, element, **options)
    return chain


def element(output: tuple[Any, ...]) -> tuple[Row, int | None]:
    """What one yielded as an element of the next."""
    return Row(**dict(zip(SCHEMA.names, output))), milliseconds(output[1])


class _Patient(Relay):
    """Whose timers wait for the next watermark: one that does not move fires none of two inputs."""

    def _due(self, time: int, ctx: Any) -> int:
        later: int = ctx.timer_service().current_watermark() + 1
        return max(time, later)


class RelayOfTwo(KeyedCoProcessFunction):
    """`Relay` of two inputs: what a record gives does not depend on those of the other input before.

    Args:
        keys: Records of how many keys it emits.
    """

    def __init__(self, keys: int) -> None:
        self._relay = _Patient(keys)

    def open(self, runtime_context: Any) -> None:
        self._relay.open(runtime_context)

    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield from self._relay.process_element(value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        value = value._replace(n=value.n + 101, trace=f"{value.trace}/second")
        yield from self._relay.process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from self._relay.on_timer(timestamp, ctx)


ORDER = MapStateDescriptor("order", Types.STRING(), Types.STRING())


class RelayUnderRules(KeyedBroadcastProcessFunction):
    """`Relay` whose outputs show all elements of the broadcast input so far, in their order.

    Args:
        keys: Records of how many keys it emits.
    """

    def __init__(self, keys: int) -> None:
        self._relay = _Patient(keys)

    def open(self, runtime_context: Any) -> None:
        self._relay.open(runtime_context)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        order = ctx.get_broadcast_state(ORDER)
        seen = f"{value.key}{value.n} under {ctx.current_watermark()}, "
        order.put("all", (order.get("all") or "") + seen)

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self._ruled(self._relay.process_element(value, ctx), ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self._ruled(self._relay.on_timer(timestamp, ctx), ctx)

    def _ruled(self, outputs: Any, ctx: Any) -> Any:
        for key, time, n, trace in outputs:
            yield key, time, n, f"{trace} and {ctx.get_broadcast_state(ORDER).get('all')}"
