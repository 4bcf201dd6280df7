# SPDX-License-Identifier: Apache-2.0
"""Functions of windows and joins for DataFrames, and the streams that they are applied to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from spark_support import Feed, at, pickle_by_value

from pyflinklike import AggregateFunction, OutputTag, Types
from pyflinklike.joins import CoGroupFunction, FlatJoinFunction, ProcessJoinFunction
from pyflinklike.windows import (
    AllWindowFunction,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    WindowFunction,
)

pickle_by_value(__name__)

PAYMENTS = "user string, n int, price decimal(10,2), ts timestamp"
CLICKS, ORDERS = (
    "user string, page string, ts timestamp",
    "who string, price long, ordered timestamp",
)
PAIRS = "user string, page string, price long, at long"
TIMES = ("ts", "ordered")
BIG = OutputTag("big", Types.LONG())
SECOND = TumblingEventTimeWindows.of(1_000)


class Total(AggregateFunction):
    """The sum of n, and how many there were."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value.n, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Largest(AggregateFunction):
    """The largest n, as a plain value."""

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return max(value.n, accumulator)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return max(acc_a, acc_b)


class Listed(WindowFunction):
    """All n of a window."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        yield {"listed": [each.n for each in inputs], "whose": f"{key} from {window.start}"}


class Amounts(WindowFunction):
    """All n of a window that has no time."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        return [([each.n for each in inputs],)]


class Told(ProcessWindowFunction):
    """What there is, and to the side what is big."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        total = sum(each.n for each in elements)
        if total > 5:
            yield BIG, total
        yield total, context.current_watermark() >= context.window().max_timestamp()


class Everyone(AllWindowFunction):
    """Who was there."""

    def apply(self, window: Any, inputs: Iterable[Any]) -> Any:
        yield (sorted({each.user for each in inputs}),)


class Pairs(ProcessJoinFunction):
    """Who did what for how much, and the time of the pair."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield ctx.get_current_key(), left and left.page, right and right.price, ctx.get_timestamp()


class Counts(CoGroupFunction):
    """How many there are of both."""

    def co_group(self, first: list[Any], second: list[Any]) -> Any:
        yield len(first), len(second)


class Cheap(FlatJoinFunction):
    """Pairs of which the order is cheap."""

    def join(self, first: Any, second: Any) -> Any:
        if second.price < 10:
            yield first.page, second.price


def payments(*rows: tuple[str, int, int]) -> list[tuple[Any, ...]]:
    """Records of `PAYMENTS`, each given as user, n and time in ms."""
    return [(user, n, Decimal(n), at(ms)) for user, n, ms in rows]


def payment_feed(spark: SparkSession, tmp_path: Path) -> Feed:
    """Three micro-batches, in the last of which ann is late twice, once for her window only."""
    feed = Feed(spark, tmp_path / "payments", PAYMENTS)
    feed.add(
        payments(("ann", 1, 0), ("bob", 2, 500), ("ann", 3, 999)),
        payments(("ann", 4, 2_100)),
        payments(("ann", 8, 1_999), ("ann", 9, 100), ("bob", 1, 9_000)),
    )
    return feed


def click_feed(spark: SparkSession, tmp_path: Path) -> Feed:
    """Two micro-batches of clicks."""
    feed = Feed(spark, tmp_path / "clicks", CLICKS)
    feed.add([("ann", "a", at(1_000)), ("bob", "b", at(1_100))], [("ann", "c", at(4_000))])
    return feed


def order_feed(spark: SparkSession, tmp_path: Path) -> Feed:
    """Two micro-batches of orders."""
    feed = Feed(spark, tmp_path / "orders", ORDERS)
    feed.add([("ann", 5, at(1_500))], [("ann", 50, at(2_000)), ("cat", 7, at(2_500))])
    return feed


def in_ms(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Rows with their times in ms, sorted."""

    def plain(value: Any) -> Any:
        is_time = isinstance(value, dt.datetime)
        return (value - at(0)) // dt.timedelta(milliseconds=1) if is_time else value

    return sorted((tuple(map(plain, row)) for row in rows), key=repr)
