# SPDX-License-Identifier: Apache-2.0
"""The query of a soak, the records that it is given, and what must come of them, by plain Python.

Records follow from their numbers, so that a source without files can make them and a model again
after any kill.  Keys come and go: each has some records during a part of its life, and others take
its place, so that a state which is not freed shows as growth.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import gcd
from typing import Any

import attrs
import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_support import pickle_by_value

from pyflinklike import (
    AggregateFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    Row,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.spark import key_by
from pyflinklike.windows import EventTimeSessionWindows

__all__ = ["Model", "Traffic", "sessions"]

pickle_by_value(__name__)

START = 1_700_000_000_000
VISITS = 6
"""Records of a key, on average."""
SLOTS = 4
_PRIME, _FACTOR, _OTHER_FACTOR, _STRIDE = 2_147_483_647, 48_271, 69_621, 7_919
_Rows = list[tuple[Any, ...]]


# Records


@attrs.frozen
class Traffic:
    """The records of a soak.

    Args:
        keys: How many have records at a time.
        records: Of a micro-batch.
        seed: Another one gives other records.
        plant: "loss", "doubling" or "leak": a fault of the function that the soak must see.
    """

    keys: int
    records: int
    seed: int
    plant: str = ""

    def __attrs_post_init__(self) -> None:
        if gcd(self.records, _STRIDE) != 1:
            raise ValueError(f"records must not be a multiple of {_STRIDE}, got {self.records}")

    @property
    def life(self) -> int:
        """The micro-batches in which a key has records."""
        return max(VISITS * self.keys // self.records, 6)

    @property
    def ttl(self) -> int:
        """Of an entry of the map, in ms of event time: less than the life of its key."""
        return self.life * self.records // 3

    @property
    def idle(self) -> int:
        """After how many ms without a record a key is forgotten."""
        return self.life * self.records // 4

    @property
    def gap(self) -> int:
        """Between sessions, in ms."""
        return self.life * self.records // 6

    def of(self, number: int) -> Iterator[tuple[int, int, int]]:
        """The records of a micro-batch as key, time and amount, by time."""
        value = np.arange(number * self.records, (number + 1) * self.records, dtype=np.int64)
        mixed = (value % _PRIME + self.seed % _PRIME) * _FACTOR % _PRIME
        mixed = (mixed ^ (mixed >> 15)) * _OTHER_FACTOR % _PRIME
        key = number * self.keys // self.life + mixed % self.keys
        amount = (mixed ^ (mixed >> 13)) % 97
        moment = START + (number - 1) * self.records + 2 * (value * _STRIDE % self.records)
        order = np.argsort(moment)
        yield from zip(key[order].tolist(), moment[order].tolist(), amount[order].tolist())

    def stream(self, spark: SparkSession) -> DataFrame:
        """The same on Spark, without end: a micro-batch has as many as `of` gives for its number."""
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", self.records)
        number = F.expr(f"value div {self.records}")
        mixed = (F.col("value") % _PRIME + self.seed % _PRIME) * _FACTOR % _PRIME
        mixed = mixed.bitwiseXOR(F.shiftright(mixed, 15)) * _OTHER_FACTOR % _PRIME
        key = F.expr(f"value div {self.records} * {self.keys} div {self.life}") + mixed % self.keys
        amount = mixed.bitwiseXOR(F.shiftright(mixed, 13)) % 97
        within = F.col("value") * _STRIDE % self.records * 2
        moment = F.timestamp_millis(START + (number - 1) * self.records + within)
        rows = source.option("numPartitions", 2).load()
        rows = rows.select(
            F.concat(F.lit("k"), key).alias("key"), moment.alias("ts"), amount.alias("amount")
        )
        # Times of a micro-batch reach as far back as those of the one before.
        return rows.withWatermark("ts", f"{self.records} milliseconds")

    def planted_at(self) -> tuple[str, int]:
        """Key and time of a record that a plant is about, once the first keys have gone."""
        key, moment, _ = list(self.of(self.life + 1))[self.records // 2]
        return f"k{key}", moment


# The query


class Visits(KeyedProcessFunction):
    """Keeps how often a key came, and sums that expire; forgets the key when it stays away."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.plant, self.planted_at = traffic.plant, traffic.planted_at()

    def open(self, runtime_context: Any) -> None:
        ttl = StateTtlConfig.new_builder(Time.milliseconds(self.traffic.ttl)).use_event_time()
        sums = MapStateDescriptor("sums", Types.INT(), Types.LONG())
        sums.enable_time_to_live(ttl.build())
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))
        self.sums = runtime_context.get_map_state(sums)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if self.plant and self._plant(value, ctx):
            return
        self._count(value)
        timers, due = ctx.timer_service(), ctx.timestamp() + self.traffic.idle
        before = self.due.value()
        if before is None or due > before:
            if before is not None:
                timers.delete_event_time_timer(before)
            timers.register_event_time_timer(due)
            self.due.update(due)
        yield self._row(value.ts, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield self._row(np.datetime64(timestamp, "ms").astype(object), ctx)
        self.count.clear()
        self.due.clear()

    def _count(self, value: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)
        slot = value.amount % SLOTS
        self.sums.put(slot, (self.sums.get(slot) or 0) + value.amount)

    def _row(self, moment: Any, ctx: Any) -> tuple[Any, ...]:
        sums = sum((slot + 1) * amount for slot, amount in self.sums.items())
        return ctx.get_current_key(), moment, self.count.value() * 1_009 + sums

    def _plant(self, value: Any, ctx: Any) -> bool:
        """Do wrong, and tell whether the record is lost."""
        if self.plant == "leak":
            import sys

            # What stays in a worker, as a cache without an end would.
            sys.__dict__.setdefault("_planted", []).append(bytes(16_000))
        elif (ctx.get_current_key(), ctx.timestamp()) == self.planted_at:
            if self.plant == "doubling":
                self._count(value)
            return self.plant == "loss"
        return False


class Digest(AggregateFunction):
    """How many rows a session has, and the sum of what they tell."""

    def create_accumulator(self) -> Row:
        return Row(rows=0, total=0)

    def add(self, value: Any, accumulator: Row) -> Row:
        return Row(rows=accumulator.rows + 1, total=accumulator.total + value.digest)

    def get_result(self, accumulator: Row) -> tuple[int, int]:
        return accumulator.rows, accumulator.total

    def merge(self, acc_a: Row, acc_b: Row) -> Row:
        return Row(rows=acc_a.rows + acc_b.rows, total=acc_a.total + acc_b.total)


def sessions(spark: SparkSession, traffic: Traffic, backend: StateBackend) -> DataFrame:
    """Sessions of what `Visits` tells, as `Model.run` gives them."""
    visits = key_by(traffic.stream(spark), "key").process(
        Visits(traffic),
        "key string, ts timestamp, digest long",
        event_time="ts",
        state_backend=backend,
        uid="visits",
    )
    windows = key_by(visits, "key").window(
        EventTimeSessionWindows.with_gap(Time.milliseconds(traffic.gap))
    )
    rows = windows.aggregate(
        Digest(),
        accumulator_type="rows long, total long",
        output_type="rows long, total long",
        event_time="ts",
        state_backend=backend,
        uid="sessions",
    )
    moments = (F.unix_millis(f"window_{edge}") for edge in ("start", "end"))
    return rows.select("key", *moments, "rows", "total")


# The same in plain Python


class Model:
    """What the query must put out, micro-batch by micro-batch, over plain dicts."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.number = 0
        """Of the next micro-batch."""
        self._watermark = 0
        self._latest = 0
        self._counts: dict[int, int] = {}
        self._due: dict[int, int] = {}
        self._sums: dict[int, dict[int, tuple[int, int]]] = {}
        self._sessions: dict[int, list[list[int]]] = {}
        self._timers: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []
        self._total = 0

    def run(self) -> _Rows:
        """The rows of the next micro-batch, sorted."""
        if self.number:
            self._watermark = self._latest - self.traffic.records
        for moment, key in self._popped(self._timers):
            if self._due.get(key) == moment:
                self._add_to_session(key, moment, self._digest(key))
                self._total -= self._counts.pop(key)
                del self._due[key]
        rows = self._ended()
        for key, moment, amount in self.traffic.of(self.number):
            self._visit(key, moment, amount)
            self._add_to_session(key, moment, self._digest(key))
            self._latest = max(self._latest, moment)
        self.number += 1
        if self.number % self.traffic.life == 0:
            self._forget_expired()
        return sorted(rows)

    def saved(self) -> dict[str, int]:
        """What a savepoint of the last micro-batch must hold."""
        return {"keys": len(self._counts), "visits": self._total, "timers": len(self._due)}

    def _visit(self, key: int, moment: int, amount: int) -> None:
        self._counts[key] = self._counts.get(key, 0) + 1
        self._total += 1
        slot = amount % SLOTS
        sums = self._sums.setdefault(key, {})
        before, stamp = sums.get(slot, (0, 0))
        if not self._is_alive(stamp):
            before = 0
        sums[slot] = before + amount, max(self._watermark, moment)
        due = moment + self.traffic.idle
        if due > self._due.get(key, 0):
            self._due[key] = due
            heapq.heappush(self._timers, (due, key))

    def _digest(self, key: int) -> int:
        sums = self._sums.get(key, {}).items()
        alive = ((slot + 1) * amount for slot, (amount, stamp) in sums if self._is_alive(stamp))
        return self._counts[key] * 1_009 + sum(alive)

    def _is_alive(self, stamp: int) -> bool:
        return self._watermark < stamp + self.traffic.ttl

    def _add_to_session(self, key: int, moment: int, digest: int) -> None:
        merged, others = [moment, moment + self.traffic.gap, 1, digest], []
        for each in self._sessions.get(key, ()):
            if each[0] <= merged[1] and merged[0] <= each[1]:
                merged = [
                    min(each[0], merged[0]),
                    max(each[1], merged[1]),
                    each[2] + merged[2],
                    each[3] + merged[3],
                ]
            else:
                others.append(each)
        self._sessions[key] = [*others, merged]
        heapq.heappush(self._ends, (merged[1] - 1, key))

    def _ended(self) -> _Rows:
        rows: _Rows = []
        for _, key in self._popped(self._ends):
            still = []
            for each in self._sessions.get(key, ()):
                if each[1] - 1 <= self._watermark:
                    rows.append((f"k{key}", *each))
                else:
                    still.append(each)
            if still:
                self._sessions[key] = still
            else:
                self._sessions.pop(key, None)
        return rows

    def _popped(self, heap: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        while heap and heap[0][0] <= self._watermark:
            yield heapq.heappop(heap)

    def _forget_expired(self) -> None:
        for key in list(self._sums):
            if not any(self._is_alive(stamp) for _, stamp in self._sums[key].values()):
                del self._sums[key]
