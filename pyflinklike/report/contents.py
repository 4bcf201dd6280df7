# SPDX-License-Identifier: Apache-2.0
"""What the states of a checkpoint hold, counted by Spark: its keys, expiry and timers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.replay.clock import BatchClock
from pyflinklike.replay.described import StateInfo, described
from pyflinklike.report.growth import first_batch
from pyflinklike.spark.reading.changes import read_state_changes
from pyflinklike.spark.reading.checkpoint import CheckpointState
from pyflinklike.spark.reading.states import entries_of, has_clock, registered_of
from pyflinklike.spark.wire.names import quoted

__all__ = ["Contents"]

_HOUR = 3_600_000
_AHEAD = {"next hour": _HOUR, "next day": 24 * _HOUR, "next 30 days": 30 * 24 * _HOUR}
_KEYS = 15


@attrs.frozen(slots=False)
class Contents:
    """What operators hold after a batch.

    Args:
        operators: After the same batch.
        batches: How many batches are looked back.
    """

    operators: Sequence[CheckpointState]
    batches: int

    def largest_keys(self) -> list[dict[str, Any]]:
        """The keys with the most entries."""
        rows: list[dict[str, Any]] = []
        for each in self.operators:
            infos = _keyed(each)
            if infos:
                frames = [self._entries(each, info) for info in infos]
                rows += _first_keys(each, frames, infos[0], F.count("*"), "entries")
        return rows

    def hottest_keys(self) -> list[dict[str, Any]]:
        """The keys that were written to in the most batches."""
        rows: list[dict[str, Any]] = []
        for each in self.operators:
            infos, first = _keyed(each), first_batch(each, self.batches)
            if infos:
                frames = [
                    read_state_changes(
                        each.spark,
                        each.location,
                        info.name,
                        first,
                        each.batch_id,
                        operator=each.operator_id,
                    )
                    for info in infos
                ]
                written = F.count_distinct("batch_id")
                rows += _first_keys(each, frames, infos[0], written, "batches", "batch_id")
        return rows

    def expiry(self) -> list[dict[str, Any]]:
        """Entries of states with a TTL by when it ends."""
        rows: list[dict[str, Any]] = []
        for each in self.operators:
            for info in described(each.record, each.operator_id):
                if info.ttl is not None:
                    now = F.lit(self._clock.now(info.ttl))
                    ahead = F.unix_millis("expires_at") - now
                    frame = self._entries(each, info)
                    counts = _counted(frame, ahead, ~F.col("alive"), "expired")
                    said = {"operator": info.uid, "state": info.name}
                    rows += [{**said, "ends": at, "entries": n} for at, n in counts.items()]
        return rows

    def timers(self) -> list[dict[str, Any]]:
        """Timers by how far they are ahead."""
        rows: list[dict[str, Any]] = []
        clock = self._clock
        times = {"event_time": clock.watermark, "processing_time": clock.processing_time}
        for each in self.operators:
            frame = registered_of(each, clock)
            for domain, now in times.items():
                some = frame.where(F.col("domain") == domain)
                counts = _counted(some, F.col("timestamp") - F.lit(now), F.col("due"), "due")
                if any(counts.values()):
                    said = {"operator": each.record.identity.name, "domain": domain}
                    rows += [{**said, "comes": at, "timers": n} for at, n in counts.items()]
        return rows

    @functools.cached_property
    def _clock(self) -> BatchClock:
        return self.operators[0].clock()

    def _entries(self, operator: CheckpointState, info: StateInfo) -> DataFrame:
        return entries_of(operator, info, self._clock if has_clock(info) else None)


def _keyed(operator: CheckpointState) -> list[StateInfo]:
    return [i for i in described(operator.record, operator.operator_id) if i.key_columns]


def _first_keys(
    operator: CheckpointState,
    frames: list[DataFrame],
    info: StateInfo,
    number: Column,
    what: str,
    *counted: str,
) -> list[dict[str, Any]]:
    """The keys with the greatest number of something, of all frames together."""
    keys = [name for name, _ in info.key_columns]
    columns = [quoted(each) for each in (*keys, *counted)]
    every = functools.reduce(DataFrame.union, [each.select(*columns) for each in frames])
    grouped = every.groupBy(*map(quoted, keys)).agg(number.alias("__number"))
    first = grouped.orderBy(F.desc("__number"), *map(quoted, keys)).limit(_KEYS)
    uid = operator.record.identity.name
    return [
        {
            "operator": uid,
            "key": ", ".join(str(row[name]) for name in keys),
            what: row["__number"],
        }
        for row in first.toArrow().to_pylist()
    ]


def _counted(frame: DataFrame, ahead: Column, is_past: Column, past: str) -> dict[str, int]:
    """How many rows there are by how far ahead they are, in ms."""
    bucket = F.when(is_past, past).when(ahead.isNull(), "unknown")
    for name, limit in _AHEAD.items():
        bucket = bucket.when(ahead <= limit, name)
    grouped = frame.groupBy(bucket.otherwise("later").alias("bucket")).count()
    found = {row["bucket"]: row["count"] for row in grouped.toArrow().to_pylist()}
    return {name: found.get(name, 0) for name in (past, *_AHEAD, "later", "unknown")}
