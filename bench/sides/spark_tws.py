# SPDX-License-Identifier: Apache-2.0
"""Spark's Python `transformWithState`, keyed per user key: with pandas and with rows.

Spark calls the function with all records of a key in a micro-batch.  So each state is read and
written once per call if the workload allows it, as users would write it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import pandas as pd
from inputs import Shape
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from results import Result
from spark_run import run
from windowed import PANES, TUMBLE, told
from workloads import READ_EVERY, RULES, TIMER_DELAY_MS, Workload, limit_of

_TTL_MS = 3_600_000


class Count(StatefulProcessor):
    """W1; `totals` is the logic, the subclasses of `sides` read and write."""

    column = "amount"
    ttl: int | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("state", "count long", self.ttl)

    def totals(self, values: Iterable[Any]) -> list[Any]:
        first = (self.state.get() or (0,))[0] + 1
        totals = list(range(first, first + sum(1 for _ in values)))
        self.state.update((totals[-1],))
        return totals

    def fired(self, key: Any, info: Any) -> tuple[Any, int]:
        return key[0], info.getExpiryTimeInMs()

    def close(self) -> None:
        pass


class ExpiringCount(Count):
    """W2: Spark refreshes TTL at writes only; each call writes."""

    ttl = _TTL_MS


class CountPerItem(Count):
    """W3."""

    column = "item"

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state: Any = handle.getMapState("state", "item int", "count long")

    def totals(self, values: Iterable[Any]) -> list[Any]:
        counts: dict[int, int] = {}
        totals = []
        for item in values:
            if item not in counts:
                counts[item] = (self.state.getValue((item,)) or (0,))[0]
            counts[item] += 1
            totals.append(counts[item])
        for item, count in counts.items():
            self.state.updateValue((item,), (count,))
        return totals


class ListSum(Count):
    """W4: the stored list is read once per call, if at all."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state: Any = handle.getListState("state", "amount long")

    def totals(self, values: Iterable[Any]) -> list[Any]:
        added: list[int] = []
        totals = []
        stored: int | None = None
        for amount in values:
            added.append(amount)
            if amount % READ_EVERY == 0:
                if stored is None:
                    stored = sum(row[0] for row in self.state.get())
                totals.append(stored + sum(added))
        self.state.appendList([(amount,) for amount in added])
        return totals


class Sum(Count):
    """W5."""

    def totals(self, values: Iterable[Any]) -> list[Any]:
        total = (self.state.get() or (0,))[0]
        totals = []
        for amount in values:
            total += amount
            totals.append(total)
        self.state.update((total,))
        return totals


class AverageSoFar(Count):
    """W6."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("state", "total long, count long")

    def totals(self, values: Iterable[Any]) -> list[Any]:
        total, count = self.state.get() or (0, 0)
        totals = []
        for amount in values:
            total, count = total + amount, count + 1
            totals.append(total / count)
        self.state.update((total, count))
        return totals


class TimerPerRecord(Count):
    """W7."""

    column = "ts"

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle

    def totals(self, values: Iterable[Any]) -> list[Any]:
        for ts in values:
            self.handle.registerTimer(round(ts.timestamp() * 1000) + TIMER_DELAY_MS)
        return []


class SlidingCount(Count):
    """W9: a count for the end of each window, and a timer there."""

    column = "ts"
    keys: int
    panes, records = PANES, 1

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state: Any = handle.getMapState("state", "end long", "count long")

    def totals(self, values: Iterable[Any]) -> list[Any]:
        added: dict[int, int] = {}
        slide = self.records * self.keys
        for ts in values:
            first = _millis(ts) // slide * slide + slide
            for end in range(first, first + self.panes * slide, slide):
                added[end] = added.get(end, 0) + 1
        for end, count in added.items():
            known = self.state.getValue((end,))
            if known is None:
                self.handle.registerTimer(end - 1)
            self.state.updateValue((end,), ((known or (0,))[0] + count,))
        return []

    def fired(self, key: Any, info: Any) -> tuple[Any, int]:
        last = info.getExpiryTimeInMs()
        (count,) = self.state.getValue((last + 1,))
        self.state.removeKey((last + 1,))
        return key[0], told(last, count)


class TumblingCount(SlidingCount):
    """W11: the same for windows one after another."""

    panes, records = 1, TUMBLE


class SessionCount(Count):
    """W10: the sessions of the key that are not over, by their last ms, and a timer for each."""

    column = "ts"
    keys: int

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state: Any = handle.getMapState("state", "last long", "first long, count long")

    def totals(self, values: Iterable[Any]) -> list[Any]:
        sessions = {last: tuple(each) for (last,), each in self.state.iterator()}
        before = dict(sessions)
        for ts in sorted(map(_millis, values)):
            first, last, count = ts, ts + self.keys - 1, 1
            for other, (start, known) in list(sessions.items()):
                if start <= last + 1 and first <= other + 1:
                    del sessions[other]
                    first, last, count = min(first, start), max(last, other), count + known
            sessions[last] = first, count
        for last in before.keys() - sessions.keys():
            self.state.removeKey((last,))
            self.handle.deleteTimer(last)
        for last, session in sessions.items():
            if before.get(last) != session:
                self.state.updateValue((last,), session)
                self.handle.registerTimer(last)
        return []

    def fired(self, key: Any, info: Any) -> tuple[Any, int]:
        last = info.getExpiryTimeInMs()
        _, count = self.state.getValue((last,))
        self.state.removeKey((last,))
        return key[0], told(last, count)


def _millis(ts: Any) -> int:
    millis: int = round(ts.timestamp() * 1000)
    return millis


class SeenByTheOther(Count):
    """J1, on one stream: the operator has one input."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("state", "odd long, even long")

    def totals(self, values: Iterable[Any]) -> list[Any]:
        seen = list(self.state.get() or (0, 0))
        totals = []
        for amount in values:
            seen[amount % 2] += 1
            totals.append(seen[1 - amount % 2])
        self.state.update(tuple(seen))
        return totals


class AboveLimit(Count):
    """B1, with rules that cannot change: the operator has one input."""

    limits: ClassVar[list[int]] = [limit_of(rule) for rule in range(RULES)]

    def totals(self, values: Iterable[Any]) -> list[Any]:
        above = (self.state.get() or (0,))[0]
        totals = []
        for amount in values:
            above += amount > self.limits[amount % RULES]
            totals.append(int(above))
        self.state.update((int(above),))
        return totals


class InPandas:
    """Reads frames, yields frames; the logic comes from the class that is mixed in."""

    column: str
    totals: Callable[[Iterable[Any]], list[Any]]
    fired: Callable[[Any, Any], tuple[Any, Any]]

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        for frame in rows:
            totals = self.totals(frame[self.column])
            if totals:
                yield pd.DataFrame({"user": key[0], "total": totals})

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803 - Spark gives it by this name
    ) -> Iterator[Any]:
        user, total = self.fired(key, expiredTimerInfo)
        yield pd.DataFrame({"user": [user], "total": [total]})


class InRows:
    """Reads rows, yields rows; the logic comes from the class that is mixed in."""

    column: str
    totals: Callable[[Iterable[Any]], list[Any]]
    fired: Callable[[Any, Any], tuple[Any, Any]]

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        user, column = key[0], self.column
        for total in self.totals(row[column] for row in rows):
            yield SparkRow(user=user, total=total)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        user, total = self.fired(key, expiredTimerInfo)
        yield SparkRow(user=user, total=total)


_LOGIC = {
    "W1": Count,
    "W2": ExpiringCount,
    "W3": CountPerItem,
    "W4": ListSum,
    "W5": Sum,
    "W6": AverageSoFar,
    "W7": TimerPerRecord,
    "W8": Count,
    "W9": SlidingCount,
    "W10": SessionCount,
    "W11": TumblingCount,
    "J1": SeenByTheOther,
    "B1": AboveLimit,
}


def measure(
    spark: SparkSession, side: str, workload: Workload, shape: Shape, interface: str
) -> Result:
    """One run.

    Args:
        spark: The session.
        side: Names it.
        workload: Which.
        shape: How much.
        interface: "pandas" or "rows".
    """
    face = InPandas if interface == "pandas" else InRows
    processor = type(face.__name__, (face, _LOGIC[workload.name]), {"keys": shape.keys})()
    mode = "None"
    if workload.event_time:
        mode = "EventTime"
    elif workload.name == "W2":
        mode = "ProcessingTime"  # Spark's TTL asks for it

    def process(df: DataFrame) -> DataFrame:
        grouped: Any = df.groupBy("user")
        if interface == "pandas":
            call = grouped.transformWithStateInPandas
        else:
            call = grouped.transformWithState
        result: DataFrame = call(processor, workload.output, "Append", mode)
        return result

    return run(spark, side, workload, shape, process, never_ends=mode == "ProcessingTime")
