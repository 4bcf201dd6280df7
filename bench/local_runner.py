# SPDX-License-Identifier: Apache-2.0
"""How fast the local runner is: map, key_by and a running count, and the least time of a job.

    python bench/local_runner.py [elements]

Prints one line for each: what, elements, seconds, elements per second.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from pyflinklike import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from pyflinklike.pyflink.common import Configuration, TimestampAssigner, WatermarkStrategy
from pyflinklike.pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors import NumberSequenceSource

KEYS = 1_000


class Count(KeyedProcessFunction):
    """Counts the elements of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the state."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Give out the count so far."""
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


class Time(TimestampAssigner):
    """An element's number is its time."""

    def extract_timestamp(self, value: Any, record_timestamp: int | None) -> int:
        """The number."""
        return int(value)


def environment(records_per_batch: int = 0) -> StreamExecutionEnvironment:
    """One whose jobs run here."""
    settings = Configuration().set_string("execution.target", "local")
    if records_per_batch:
        settings.set_integer("pyflinklike.source.records-per-batch", records_per_batch)
    return StreamExecutionEnvironment.get_execution_environment(settings)


def numbers(
    env: StreamExecutionEnvironment, elements: int, strategy: WatermarkStrategy
) -> DataStream:
    """A stream of numbers."""
    return env.from_source(NumberSequenceSource(1, elements), strategy, "numbers")


def told(what: str, elements: int, stream: DataStream) -> None:
    """Run a job, and say how long it took."""
    began = time.perf_counter()
    deque(stream.execute_and_collect(), maxlen=0)
    seconds = time.perf_counter() - began
    print(f"{what:<40} {elements:>9} {seconds:8.3f} s {elements / seconds:>12,.0f} /s")


def main(elements: int) -> None:
    """Run all of them."""
    none = WatermarkStrategy.no_watermarks()
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time())
    told("a job of one element", 1, numbers(environment(), 1, none).map(lambda n: n))
    told("a job of one element, again", 1, numbers(environment(), 1, none).map(lambda n: n))
    stream = numbers(environment(), elements, none).map(lambda n: (n % KEYS, n))
    told("map, key_by, process", elements, stream.key_by(lambda v: v[0]).process(Count()))
    told("map, key_by, sum", elements, stream.key_by(lambda v: v[0]).sum(1))
    watched = numbers(environment(1), elements, timed).map(lambda n: (n % KEYS, n))
    told(
        "a watermark after each element", elements, watched.key_by(lambda v: v[0]).process(Count())
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
