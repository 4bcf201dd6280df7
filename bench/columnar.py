# SPDX-License-Identifier: Apache-2.0
"""Our columnar functions for the workloads: the state and the outputs of those in `workloads.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyflinklike import (
    AggregatingStateDescriptor,
    KeyedBatchFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)

__all__ = ["AverageInColumns", "CountInColumns", "ExpiringCountInColumns", "SumInColumns"]


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
        from workloads import Add

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
        from workloads import Average

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
