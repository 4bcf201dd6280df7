# SPDX-License-Identifier: Apache-2.0
"""The workloads W1 to W11, J1, B1 and PJ1, and our function for each of them.

Every function yields `(user, total)`; what `total` is, is the workload's.  The
other sides have the same logic, written as their users would write it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
from columnar import (
    Add,
    Average,
    AverageInColumns,
    CountInColumns,
    ExpiringCountInColumns,
    SumInColumns,
)
from inputs import Shape
from windowed import session_count, sliding_count, told, tumbling_count

from pyflinklike import (
    AggregatingStateDescriptor,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchFunction

TIMER_DELAY_MS = 1000
READ_EVERY = 10
RULES = 100
LIMITS = MapStateDescriptor("limits", Types.LONG(), Types.LONG())


@attrs.frozen
class Workload:
    """The work of every side: a function, its input and its size.

    Args:
        name: W1 to W11; J1 has two inputs, B1 a broadcast one, PJ1 is a job of PyFlink's API.
        title: What it measures.
        shape: At full size.
        columns: Of the input.
        function: Our side's.
        event_time: Whether it needs timestamps and a watermark.
        total: Spark's type of the output's second column.
        windows: Makes our function of windows from the number of keys.
        inputs: How often our side reads the records: once for each of two inputs.
        rules: Records of its broadcast input, in the first micro-batch.
        columnar: The same function in columns, if there is one.
        is_job: Whether it is `lambda_job.py`, which has a function of its own.
    """

    name: str
    title: str
    shape: Shape
    columns: tuple[str, ...]
    function: type[Any]
    event_time: bool = False
    total: str = "long"
    windows: Callable[[int], KeyedProcessFunction] | None = None
    inputs: int = 1
    rules: int = 0
    columnar: type[KeyedBatchFunction] | None = None
    is_job: bool = False

    @property
    def output(self) -> str:
        """DDL of the output."""
        return f"user string, total {self.total}"

    def limit(self, shape: Shape) -> int | None:
        """Outputs above it are not checked: hosts differ in which last timers still fire."""
        if self.windows is not None:
            # One ms less: the end of Spark's sessions is half a ms later.
            return told(shape.last_ms - 1, 0) - 1
        return shape.last_ms - 1 if self.event_time else None

    def made(self, shape: Shape) -> KeyedProcessFunction:
        """Our side's function for an input."""
        return self.function() if self.windows is None else self.windows(shape.keys)


class RunningCount(KeyedProcessFunction):
    """W1 and W8: the key's count so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(self.descriptor())

    def descriptor(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("count", Types.LONG())

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value.user, count


class ExpiringCount(RunningCount):
    """W2: W1 with TTL."""

    def descriptor(self) -> ValueStateDescriptor:
        ttl = (
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        descriptor = super().descriptor()
        descriptor.enable_time_to_live(ttl)
        return descriptor


class CountPerItem(KeyedProcessFunction):
    """W3: how often the key has had this item."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("items", Types.INT(), Types.LONG())
        self.items = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        item = value.item
        count = (self.items.get(item) or 0) + 1
        self.items.put(item, count)
        yield value.user, count


class ListSum(KeyedProcessFunction):
    """W4: append each amount, and sum the list at every tenth record or so."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ListStateDescriptor("amounts", Types.LONG())
        self.amounts = runtime_context.get_list_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.amounts.add(value.amount)
        if value.amount % READ_EVERY == 0:
            yield value.user, sum(self.amounts.get())


class ReducedSum(KeyedProcessFunction):
    """W5: the key's sum so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ReducingStateDescriptor("sum", Add(), Types.LONG())
        self.sum = runtime_context.get_reducing_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.sum.add(value.amount)
        yield value.user, self.sum.get()


class AverageSoFar(KeyedProcessFunction):
    """W6: the key's average so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
        descriptor = AggregatingStateDescriptor("average", Average(), accumulator)
        self.average = runtime_context.get_aggregating_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.average.add(value.amount)
        yield value.user, self.average.get()


class TimerPerRecord(KeyedProcessFunction):
    """W7: each record registers a timer, which tells its time when it fires."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + TIMER_DELAY_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp


class SeenByTheOther(KeyedCoProcessFunction):
    """J1: how many records of the key the other input has had: each pair is counted once."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen1 = runtime_context.get_state(ValueStateDescriptor("seen1", Types.LONG()))
        self.seen2 = runtime_context.get_state(ValueStateDescriptor("seen2", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen1.update((self.seen1.value() or 0) + 1)
        yield value.user, self.seen2.value() or 0

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen2.update((self.seen2.value() or 0) + 1)
        yield value.user, self.seen1.value() or 0


class AboveLimit(KeyedBroadcastProcessFunction):
    """B1: how many records of the key were above the limit of their rule, one of `RULES`."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.above = runtime_context.get_state(ValueStateDescriptor("above", Types.LONG()))

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(LIMITS).put(value.rule, value.limit)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        above = self.above.value() or 0
        if value.amount > ctx.get_broadcast_state(LIMITS).get(value.amount % RULES):
            above += 1
            self.above.update(above)
        yield value.user, above


def limit_of(rule: int) -> int:
    """The limit of a rule of B1."""
    return rule * 37 % 1000


_MANY = Shape(200_000, 10, 100_000)
_FEW = Shape(200_000, 10, 10_000)
_PLAIN = ("user", "amount")


def _windowed(
    name: str, title: str, windows: Callable[[int], KeyedProcessFunction], shape: Shape
) -> Workload:
    columns = ("user", "ts")
    return Workload(name, title, shape, columns, RunningCount, event_time=True, windows=windows)


WORKLOADS = {
    each.name: each
    for each in (
        Workload(
            "W1", "ValueState, running count", _MANY, _PLAIN, RunningCount, columnar=CountInColumns
        ),
        Workload(
            "W2",
            "W1 with TTL, OnReadAndWrite",
            _MANY,
            _PLAIN,
            ExpiringCount,
            columnar=ExpiringCountInColumns,
        ),
        Workload("W3", "MapState, 20 map keys a key", _FEW, ("user", "item"), CountPerItem),
        Workload("W4", "ListState, read every 10th", _MANY, _PLAIN, ListSum),
        Workload("W5", "ReducingState, sum", _MANY, _PLAIN, ReducedSum, columnar=SumInColumns),
        Workload(
            "W6",
            "AggregatingState, average",
            _MANY,
            _PLAIN,
            AverageSoFar,
            total="double",
            columnar=AverageInColumns,
        ),
        Workload(
            "W7",
            "an event-time timer a record",
            _FEW,
            ("user", "ts"),
            TimerPerRecord,
            event_time=True,
        ),
        Workload(
            "W8",
            "10 k records a batch, 1 M keys in state",
            Shape(10_000, 9, 1_000_000, sparse=True),
            _PLAIN,
            RunningCount,
            columnar=CountInColumns,
        ),
        _windowed("W9", "sliding windows, 10 panes", sliding_count, Shape(50_000, 10, 5_000)),
        _windowed("W10", "session windows", session_count, _FEW),
        _windowed("W11", "tumbling windows", tumbling_count, _FEW),
        Workload("J1", "two inputs, two ValueStates", _MANY, _PLAIN, SeenByTheOther, inputs=2),
        Workload("B1", "broadcast, 100 rules", _MANY, _PLAIN, AboveLimit, rules=RULES),
        Workload("PJ1", "W1 as a PyFlink job", _MANY, _PLAIN, RunningCount, is_job=True),
    )
}
