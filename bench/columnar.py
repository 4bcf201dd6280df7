# SPDX-License-Identifier: Apache-2.0
"""Our columnar functions for the workloads, and the folds that those over records share."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ReduceFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchFunction

__all__ = [
    "Add",
    "Average",
    "AverageInColumns",
    "CountInColumns",
    "ExpiringCountInColumns",
    "SumInColumns",
]


class Add(ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Average(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class CountInColumns(KeyedBatchFunction):
    """W1 and W8."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_column_state(self.descriptor())

    def descriptor(self) -> ValueStateDescriptor[int]:
        return ValueStateDescriptor("count", Types.LONG())

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        groups, before = batch.groups, self.count.get(0)
        self.count.put(before + groups.counts)
        return {"user": batch["user"], "total": groups.spread(before) + groups.rank() + 1}


class ExpiringCountInColumns(CountInColumns):
    """W2."""

    def descriptor(self) -> ValueStateDescriptor[int]:
        descriptor = super().descriptor()
        builder = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write()
        descriptor.enable_time_to_live(builder.never_return_expired().build())
        return descriptor


class SumInColumns(KeyedBatchFunction):
    """W5."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ReducingStateDescriptor("sum", Add(), Types.LONG())
        self.sum = runtime_context.get_column_state(descriptor)

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        groups = batch.groups
        totals = groups.running(np.add, batch.numpy("amount"), self.sum.get(0))
        self.sum.put(groups.last(totals))
        return {"user": batch["user"], "total": totals}


class AverageInColumns(KeyedBatchFunction):
    """W6."""

    def open(self, runtime_context: Any) -> None:
        accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
        descriptor = AggregatingStateDescriptor("average", Average(), accumulator)
        self.average = runtime_context.get_column_state(descriptor)

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        groups = batch.groups
        total, count = self.average.get((0, 0))
        totals = groups.running(np.add, batch.numpy("amount"), total)
        counts = groups.spread(count) + groups.rank() + 1
        self.average.put((groups.last(totals), groups.last(counts)))
        return {"user": batch["user"], "total": totals / counts}
