# SPDX-License-Identifier: Apache-2.0
"""The floor: the same loops over Python dicts, with Arrow in and out and no framework.

In one process it is also the reference for every side.  On Spark it is a `mapInArrow` after a
repartition by key, with its dicts in a global of the worker.  It has no durability, and any worker
may get any partition.  So on Spark only the number of its outputs is right.
"""

from __future__ import annotations

import gc
import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from inputs import Shape, batch_of
from results import Check
from windowed import PANES, TUMBLE, told
from workloads import READ_EVERY, RULES, TIMER_DELAY_MS, WORKLOADS, limit_of

_HOUR_MS = 3_600_000
Columns = dict[str, list[Any]]
Output = tuple[list[str], list[Any]]


class Floor:
    """Runs a workload, batch by batch, over dicts of its own."""

    def __init__(self, workload: str, keys: int = 1) -> None:
        self.state: dict[Any, Any] = {}
        self.timers: list[tuple[int, str]] = []
        self.watermark = -1
        self.keys = keys
        self.workload = WORKLOADS[workload]
        self._loop: Callable[[Columns], Output] = getattr(self, workload.lower())

    def run(self, batch: Any) -> pa.RecordBatch:
        """One Arrow batch in, one out."""
        columns = {}
        for name in self.workload.columns:
            column = batch.column(name)
            if name == "ts":
                column = pc.cast(column, pa.timestamp("ms", "UTC")).cast(pa.int64())
            columns[name] = column.to_pylist()
        users, totals = self._loop(columns)
        kind = pa.float64() if self.workload.total == "double" else pa.int64()
        return pa.RecordBatch.from_arrays(
            [pa.array(users, pa.string()), pa.array(totals, kind)], ["user", "total"]
        )

    def w1(self, columns: Columns) -> Output:
        state, totals = self.state, []
        for user in columns["user"]:
            count = state.get(user, 0) + 1
            state[user] = count
            totals.append(count)
        return columns["user"], totals

    w8 = pj1 = w1

    def w2(self, columns: Columns) -> Output:
        state, totals = self.state, []
        now = int(time.time() * 1000)
        for user in columns["user"]:
            entry = state.get(user)
            count = 1 if entry is None or entry[1] + _HOUR_MS <= now else entry[0] + 1
            state[user] = count, now
            totals.append(count)
        return columns["user"], totals

    def w3(self, columns: Columns) -> Output:
        state, totals = self.state, []
        for user, item in zip(columns["user"], columns["item"]):
            items = state.get(user)
            if items is None:
                items = state[user] = {}
            count = items.get(item, 0) + 1
            items[item] = count
            totals.append(count)
        return columns["user"], totals

    def w4(self, columns: Columns) -> Output:
        state = self.state
        users, totals = [], []
        for user, amount in zip(columns["user"], columns["amount"]):
            amounts = state.get(user)
            if amounts is None:
                amounts = state[user] = []
            amounts.append(amount)
            if amount % READ_EVERY == 0:
                users.append(user)
                totals.append(sum(amounts))
        return users, totals

    def w5(self, columns: Columns) -> Output:
        state, totals = self.state, []
        for user, amount in zip(columns["user"], columns["amount"]):
            total = state.get(user, 0) + amount
            state[user] = total
            totals.append(total)
        return columns["user"], totals

    def w6(self, columns: Columns) -> Output:
        state, totals = self.state, []
        for user, amount in zip(columns["user"], columns["amount"]):
            total, count = state.get(user, (0, 0))
            total, count = state[user] = total + amount, count + 1
            totals.append(total / count)
        return columns["user"], totals

    def j1(self, columns: Columns) -> Output:
        state, totals = self.state, []
        for user, amount in zip(columns["user"], columns["amount"]):
            seen = state.get(user)
            if seen is None:
                seen = state[user] = [0, 0]
            seen[amount % 2] += 1
            totals.append(seen[1 - amount % 2])
        return columns["user"], totals

    def b1(self, columns: Columns) -> Output:
        state, totals = self.state, []
        limits = [limit_of(rule) for rule in range(RULES)]
        for user, amount in zip(columns["user"], columns["amount"]):
            above = state[user] = state.get(user, 0) + (amount > limits[amount % RULES])
            totals.append(above)
        return columns["user"], totals

    def w7(self, columns: Columns) -> Output:
        timers, users, totals = self.timers, [], []
        registered = self.state
        for user, ts in zip(columns["user"], columns["ts"]):
            timer = ts + TIMER_DELAY_MS, user
            if timer not in registered:
                registered[timer] = None
                heapq.heappush(timers, timer)
        self.watermark = max(self.watermark, max(columns["ts"], default=-1))
        while timers and timers[0][0] <= self.watermark:
            timer = heapq.heappop(timers)
            del registered[timer]
            totals.append(timer[0])
            users.append(timer[1])
        return users, totals

    def w9(self, columns: Columns) -> Output:
        return self._aligned(columns, self.keys, PANES)

    def w11(self, columns: Columns) -> Output:
        return self._aligned(columns, TUMBLE * self.keys, 1)

    def _aligned(self, columns: Columns, slide: int, panes: int) -> Output:
        state = self.state
        for user, ts in zip(columns["user"], columns["ts"]):
            newest = ts - ts % slide
            for start in range(newest, newest - panes * slide, -slide):
                window = start + panes * slide - 1, user
                state[window] = state.get(window, 0) + 1
        self.watermark = max(columns["ts"])
        over = [window for window in state if window[0] <= self.watermark]
        totals = [told(last, state.pop((last, user))) for last, user in over]
        return [user for _, user in over], totals

    def w10(self, columns: Columns) -> Output:
        state, users, totals = self.state, [], []

        def end(user: str) -> None:
            last, count = state.pop(user)
            users.append(user)
            totals.append(told(last + self.keys - 1, count))

        for user, ts in zip(columns["user"], columns["ts"]):
            if user in state and state[user][0] + self.keys < ts:
                end(user)
            state[user] = ts, state.get(user, (0, 0))[1] + 1
        self.watermark = max(columns["ts"])
        for user in [each for each in state if state[each][0] + self.keys - 1 <= self.watermark]:
            end(user)
        return users, totals


_FLOORS: dict[str, Floor] = {}


def on_spark(run_id: str, workload: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The function for `mapInArrow`; the dicts are the worker's own."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        floor = _FLOORS.setdefault(run_id, Floor(workload))
        was_on = gc.isenabled()
        gc.disable()  # as pyflinklike does
        try:
            for batch in batches:
                yield floor.run(batch)
        finally:
            if was_on:
                gc.enable()

    return run


def in_process(workload: str, shape: Shape) -> tuple[list[float], list[float], Check]:
    """All of it in this process.

    Returns:
        Wall and CPU seconds of each micro-batch, and what the outputs add up to.
    """
    floor = Floor(workload, shape.keys)
    wall, cpu = [], []
    rows, total = 0, 0
    limit = WORKLOADS[workload].limit(shape)
    for number in range(shape.batches):
        batch = batch_of(shape, number)
        gc.collect()
        gc.disable()
        started = time.perf_counter(), time.process_time()
        output = floor.run(batch.combine_chunks())
        wall.append(time.perf_counter() - started[0])
        cpu.append(time.process_time() - started[1])
        gc.enable()
        counted = output
        if limit is not None:
            counted = output.filter(pc.less_equal(output.column("total"), limit))
        rows += counted.num_rows
        total += pc.sum(counted.column("total")).as_py() or 0
    return wall, cpu, Check(rows, total)


@cache
def expected(workload: str, shape: Shape) -> Check:
    """Return the number and the sum that every side's outputs must have."""
    return in_process(workload, shape)[2]
