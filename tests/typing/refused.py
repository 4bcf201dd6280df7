# SPDX-License-Identifier: Apache-2.0
"""Mistakes that every type checker finds: an error on each line marked `refused`, on no other."""

from __future__ import annotations

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    Row,
    RuntimeContext,
    TypeInformation,
    Types,
    ValueState,
    ValueStateDescriptor,
)
from pyflinklike.spark import KeyedConnectedDataFrames, KeyedDataFrame
from pyflinklike.stores import KeyValueStoreDescriptor, LruStoreDescriptor, WindowStoreDescriptor


class Mean(AggregateFunction[int, int, float]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: str) -> int:  # refused
        return value

    def get_result(self, accumulator: int) -> float:
        return accumulator / 2

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class States(KeyedProcessFunction):
    name: ValueState[str]

    def open(self, runtime_context: RuntimeContext) -> None:
        count = ValueStateDescriptor("count", Types.LONG())
        self.count = runtime_context.get_state(count)
        self.name = runtime_context.get_state(count)  # refused
        runtime_context.get_list_state(count)  # refused
        self.names = runtime_context.get_list_state(ListStateDescriptor("names", Types.STRING()))
        sizes = MapStateDescriptor("sizes", Types.STRING(), Types.LONG())
        self.sizes = runtime_context.get_map_state(sizes)
        mean = AggregatingStateDescriptor("mean", Mean(), Types.LONG())
        self.mean = runtime_context.get_aggregating_state(mean)
        ValueStateDescriptor("no type", int)  # refused
        ValueStateDescriptor("not called", Types.LONG)  # refused
        ReducingStateDescriptor("sum", lambda a, b: f"{a}{b}", Types.LONG())  # refused
        AggregatingStateDescriptor("mean", Mean(), Types.STRING())  # refused

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> None:
        self.count.update("one")  # refused
        self.count.value() + 1  # refused
        self.names.add(1)  # refused
        self.sizes[1] = 1  # refused
        self.sizes["a"] = "b"  # refused
        self.mean.add("one")  # refused
        ctx.register_timer(1)  # refused


class Stores(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        counts = KeyValueStoreDescriptor("counts", Types.STRING(), Types.LONG())
        self.counts = runtime_context.get_store(counts)
        runtime_context.get_store(ValueStateDescriptor("count", Types.LONG()))  # refused
        runtime_context.get_state(counts)  # refused
        LruStoreDescriptor("recent", Types.STRING(), Types.LONG())  # refused
        WindowStoreDescriptor("windows", Types.STRING(), Types.LONG(), window_size="1h")  # refused

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> None:
        self.counts[1] = 1  # refused
        self.counts["a"] = "one"  # refused
        self.counts.get("a") + 1  # refused


strings: TypeInformation[str] = Types.LONG()  # refused
lists: TypeInformation[list[str]] = Types.LIST(Types.LONG())  # refused
names: OutputTag[str] = OutputTag("counts", Types.LONG())  # refused
OutputTag(1)  # refused


def on_spark(keyed: KeyedDataFrame, both: KeyedConnectedDataFrames, count: States) -> None:
    """Options that an operator has not, or of another type."""
    keyed.process(count, "n long", event_time="ts")
    keyed.process(count, "n long", evnt_time="ts")  # refused
    keyed.process(count, "n long", event_time=("at", "ts"))  # refused
    keyed.process(count, "n long", max_parallelism="16")  # refused
    keyed.process(count, "n long", "ts")  # refused
    keyed.sum("n", side_outputs=[])  # refused
    both.process(count, "n long")  # refused
