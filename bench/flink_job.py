# SPDX-License-Identifier: Apache-2.0
"""The workloads on PyFlink; run by Flink's own Python, see `sides/flink.py`.

Argument: a JSON object with workload, backend, mode, total, records, keys, limit,
folder, jar, checkpoint_ms, parallelism and every.  The source and the sink are the
JVM's (`jvm/Generator.java`, `jvm/CheckSink.java`); only the function is Python.
See `workloads.py` for the same functions on our side.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Time, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.data_stream import DataStream
from pyflink.datastream.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ReduceFunction,
    RuntimeContext,
    WindowFunction,
)
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyflink.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from pyflink.java_gateway import get_gateway

READ_EVERY = 10
RULES = 100
TIMER_DELAY_MS = 1000
START_MS = 1_700_000_000_000
PANES = 10
TUMBLE = 20
COUNTS = 1_000


LIMITS = MapStateDescriptor("limits", Types.LONG(), Types.LONG())


class RunningCount(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(self.descriptor())

    def descriptor(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("count", Types.LONG())

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


class ExpiringCount(RunningCount):
    def descriptor(self) -> ValueStateDescriptor:
        descriptor = super().descriptor()
        descriptor.enable_time_to_live(
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        return descriptor


class CountPerItem(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("items", Types.INT(), Types.LONG())
        self.items = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        item = value[2]
        count = (self.items.get(item) or 0) + 1
        self.items.put(item, count)
        yield value[0], count


class ListSum(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ListStateDescriptor("amounts", Types.LONG())
        self.amounts = runtime_context.get_list_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.amounts.add(value[1])
        if value[1] % READ_EVERY == 0:
            yield value[0], sum(self.amounts.get())


class Add(ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class ReducedSum(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ReducingStateDescriptor("sum", Add(), Types.LONG())
        self.sum = runtime_context.get_reducing_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.sum.add(value[1])
        yield value[0], self.sum.get()


class Average(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: int, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class AverageSoFar(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
        descriptor = AggregatingStateDescriptor("average", Average(), accumulator)
        self.average = runtime_context.get_aggregating_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.average.add(value[1])
        yield value[0], self.average.get()


class TimerPerRecord(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + TIMER_DELAY_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Told(WindowFunction):
    """The same as `windowed.told` on our side."""

    def apply(self, key: str, window: Any, inputs: Any) -> Any:
        for count in inputs:
            yield key, (window.max_timestamp() - START_MS) * COUNTS + count


def windows(name: str, keys: int) -> Any:
    """The assigner of W9 to W11; `windowed.py` says how long windows are."""
    length = Time.milliseconds
    if name == "W9":
        return SlidingEventTimeWindows.of(length(PANES * keys), length(keys))
    if name == "W11":
        return TumblingEventTimeWindows.of(length(TUMBLE * keys))
    return EventTimeSessionWindows.with_gap(length(keys))


class SeenByTheOther(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen1 = runtime_context.get_state(ValueStateDescriptor("seen1", Types.LONG()))
        self.seen2 = runtime_context.get_state(ValueStateDescriptor("seen2", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen1.update((self.seen1.value() or 0) + 1)
        yield value[0], self.seen2.value() or 0

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen2.update((self.seen2.value() or 0) + 1)
        yield value[0], self.seen1.value() or 0


class AboveLimit(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.above = runtime_context.get_state(ValueStateDescriptor("above", Types.LONG()))

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(LIMITS).put(value[0], value[1])

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        above = self.above.value() or 0
        rule = value[1] % RULES
        limit = ctx.get_broadcast_state(LIMITS).get(rule)
        # A record may come before its rule.
        if value[1] > (rule * 37 % 1000 if limit is None else limit):
            above += 1
            self.above.update(above)
        yield value[0], above


FUNCTIONS = {
    "W1": RunningCount,
    "W2": ExpiringCount,
    "W3": CountPerItem,
    "W4": ListSum,
    "W5": ReducedSum,
    "W6": AverageSoFar,
    "W7": TimerPerRecord,
    "J1": SeenByTheOther,
    "B1": AboveLimit,
}


def keyed(env: Any, records: DataStream, name: str) -> Any:
    """Return the keyed stream for a workload's function."""
    if name == "J1":
        even, odd = records.filter(lambda row: row[1] % 2 == 0), records.filter(_is_odd)
        return even.connect(odd).key_by(_user, _user, key_type=Types.STRING())
    stream = records.key_by(_user, key_type=Types.STRING())
    if name == "B1":
        rules = env.from_collection(
            [(rule, rule * 37 % 1000) for rule in range(RULES)],
            Types.TUPLE([Types.LONG(), Types.LONG()]),
        )
        return stream.connect(rules.broadcast(LIMITS))
    return stream


def _user(row: Any) -> Any:
    return row[0]


def _is_odd(row: Any) -> bool:
    return row[1] % 2 == 1


def main() -> None:
    """Build the job, run it, and leave the figures in the sink's folder."""
    task = json.loads(sys.argv[1])
    settings = Configuration()
    for name, value in {
        "python.execution-mode": task["mode"],
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "restart-strategy.type": "none",  # a failure ends the job, which reports it
        "parallelism.default": str(task["parallelism"]),
        "state.backend.type": task["backend"],
        "execution.checkpointing.interval": f"{task['checkpoint_ms']} ms",
        "execution.checkpointing.dir": f"file://{task['folder']}/checkpoints",
        "execution.checkpointing.incremental": "true",
        "taskmanager.memory.managed.size": "512m",
        "rest.bind-address": "127.0.0.1",
        "rest.address": "127.0.0.1",
        "rest.port": "0",
    }.items():
        # PyFlink 2.3 cannot checkpoint windows that merge (VoidNamespace is no TimeWindow).
        if task["workload"] != "W10" or "checkpointing" not in name:
            settings.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.add_jars(f"file://{task['jar']}")
    bench = get_gateway().jvm.pyflinklike.bench
    name = task["workload"]
    records = DataStream(
        bench.Generator.rows(
            env._j_stream_execution_environment,
            task["total"],
            task["records"],
            task["keys"],
            name in ("W7", "W9", "W10", "W11"),
        )
    )
    total = Types.DOUBLE() if name == "W6" else Types.LONG()
    by_user = keyed(env, records, name)
    output_type = Types.TUPLE([Types.STRING(), total])
    if name == "PJ1":
        # As a script: its functions go to Flink by value.
        script = Path(__file__).with_name("lambda_job.py")
        outputs = runpy.run_path(str(script), run_name="__main__")["outputs"](records)
    elif name in FUNCTIONS:
        outputs = by_user.process(FUNCTIONS[name](), output_type=output_type)
    else:
        outputs = by_user.window(windows(name, task["keys"])).aggregate(
            Count(), Told(), accumulator_type=Types.LONG(), output_type=output_type
        )
    outputs._j_data_stream.sinkTo(bench.CheckSink(task["folder"], task["every"], task["limit"]))
    env.execute(name)


if __name__ == "__main__":
    main()
