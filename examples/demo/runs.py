# SPDX-License-Identifier: Apache-2.0
"""The same function on a stream and on a batch of the same files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from demo.flights import ALERT_TYPE, FLIGHT_TYPE, SILENT, LateAircraft, flown
from pyflinklike.spark import foreach_batch_output, get_side_output, key_by, main_output

__all__ = ["Findings", "MicroBatch", "find_on_batch", "find_on_stream"]

# A key group costs some ms per micro-batch.  A day has 900 flights, so few groups are enough.
KEY_GROUPS = 8

_POLL_SECONDS = 0.2

# Spark's workers do not have the folder of the examples on their path.
cloudpickle.register_pickle_by_value(sys.modules[LateAircraft.__module__])  # type: ignore[no-untyped-call]


@attrs.frozen
class MicroBatch:
    """Spark's numbers for a micro-batch.

    Args:
        number: Its id, from 0.
        records: The number of records that it read.
        seconds: The time from its trigger to its commit.
    """

    number: int
    records: int
    seconds: float


@attrs.define
class Findings:
    """The findings of a run, in no particular order.

    Args:
        alerts: (tailnum, departure, flight, route, delay) of each alert.
        silences: (tailnum, last departure before it) of each silence.
        seconds: How long the run took.
        batches: The micro-batches with records, in order; at most the last 100, because Spark keeps
            no more.
    """

    alerts: list[tuple[Any, ...]] = attrs.field(factory=list)
    silences: list[tuple[Any, ...]] = attrs.field(factory=list)
    seconds: float = 0.0
    batches: list[MicroBatch] = attrs.field(factory=list)


class _Collected:
    """The findings of a stream's micro-batches; a retried one replaces its first try."""

    def __init__(self) -> None:
        self._alerts: dict[int, list[tuple[Any, ...]]] = {}
        self._silences: dict[int, list[tuple[Any, ...]]] = {}
        self._start = time.monotonic()

    def add_alerts(self, batch: DataFrame, number: int) -> None:
        """Keep the main output of a micro-batch."""
        self._alerts[number] = _rows(batch)

    def add_silences(self, batch: DataFrame, number: int) -> None:
        """Keep the side output of a micro-batch."""
        self._silences[number] = _rows(batch)

    def findings(self) -> Findings:
        """Return all findings so far."""
        return Findings(
            [row for rows in list(self._alerts.values()) for row in rows],
            [row for rows in list(self._silences.values()) for row in rows],
            time.monotonic() - self._start,
        )


def find(flights: DataFrame) -> DataFrame:
    """Apply `LateAircraft` to flights, as a stream or a batch."""
    return key_by(flown(flights), "tailnum").process(
        LateAircraft(),
        ALERT_TYPE,
        event_time="scheduled",
        side_outputs=[SILENT],
        max_parallelism=KEY_GROUPS,
        uid="late-aircraft",
    )


def find_on_stream(
    spark: SparkSession,
    days: Path,
    checkpoint: Path,
    days_per_batch: int = 1,
    on_progress: Callable[[Any, Findings], None] = lambda _progress, _findings: None,
) -> Findings:
    """Stream a directory of days, `days_per_batch` in each micro-batch.

    Args:
        spark: The session.
        days: The directory that `write_days` filled.
        checkpoint: The directory for the query's checkpoint; empty or missing.
        days_per_batch: The number of days in each micro-batch.
        on_progress: Receives Spark's progress of a micro-batch, and the findings so far.

    Raises:
        StreamingQueryException: The query failed.
    """
    flights = (
        spark.readStream.schema(FLIGHT_TYPE)
        .option("maxFilesPerTrigger", days_per_batch)
        .parquet(str(days))
    )
    collected = _Collected()
    write = foreach_batch_output(collected.add_alerts, {SILENT: collected.add_silences})
    query = (
        find(flights)
        .writeStream.queryName("late-aircraft")
        .foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]  # takes floats
            if query.lastProgress is not None:
                on_progress(query.lastProgress, collected.findings())
        found = collected.findings()
        found.batches = _micro_batches(query.recentProgress)
    finally:
        query.stop()
    return found


def _micro_batches(progress: Iterable[Any]) -> list[MicroBatch]:
    return [
        MicroBatch(each.batchId, each.numInputRows, each.durationMs["triggerExecution"] / 1_000)
        for each in progress
        if each.numInputRows > 0
    ]


def find_on_batch(spark: SparkSession, days: Path) -> Findings:
    """Process the same directory, or one of its files, as one batch."""
    start = time.monotonic()
    result = find(spark.read.schema(FLIGHT_TYPE).parquet(str(days))).persist()
    try:
        alerts, silences = _rows(main_output(result)), _rows(get_side_output(result, SILENT))
    finally:
        result.unpersist()
    return Findings(alerts, silences, time.monotonic() - start)


def _rows(df: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in df.collect()]
