# SPDX-License-Identifier: Apache-2.0
"""Run a streaming query over prepared micro-batches and time each of them."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import DataFrame, SparkSession

SCHEMA = "user string, amount long"


@attrs.frozen
class Rates:
    """Records per second of one side, one figure per steady-state micro-batch."""

    side: str
    figures: list[float]

    @property
    def median(self) -> float:
        """The middle figure."""
        return statistics.median(self.figures)

    def row(self, against: Rates) -> str:
        """One line of the table."""
        low, high = min(self.figures), max(self.figures)
        ratio = self.median / against.median
        return f"{self.side:<52} {self.median:>11,.0f} {low:>11,.0f} {high:>11,.0f} {ratio:>8.1f}x"


def machine() -> str:
    """What the figures were measured on."""
    import pyspark

    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"PySpark {pyspark.__version__}, pyarrow {pa.__version__}"
    )


def session(partitions: int) -> SparkSession:
    """A local session on all cores, on loopback."""
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write_batches(folder: Path, batches: int, records: int, keys: int) -> None:
    """One Parquet file per micro-batch, of records with keys drawn uniformly."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    names = np.array([f"user-{number:06d}" for number in range(keys)])
    for number in range(batches):
        table = pa.table(
            {
                "user": names[random.integers(0, keys, records)],
                "amount": random.integers(0, 1000, records),
            }
        )
        path = folder / f"batch-{number:04d}.parquet"
        pq.write_table(table, path, row_group_size=max(records // 2, 1))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def run(
    spark: SparkSession,
    side: str,
    transform: Callable[[DataFrame], DataFrame],
    *,
    batches: int,
    records: int,
    keys: int,
) -> Rates:
    """Stream the records through a transformation, one micro-batch per file.

    Args:
        spark: The session.
        side: Names the side in the table.
        transform: From the input stream to the result.
        batches: Micro-batches in all; the first one is not counted.
        records: Per micro-batch.
        keys: Distinct keys.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_batches(folder / "in", batches, records, keys)
        stream = (
            spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / "in"))
        )
        query = (
            transform(stream)
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress: list[Any] = [each for each in query.recentProgress if each["numInputRows"]]
        steady = [each["durationMs"]["triggerExecution"] for each in progress[1:]]
        print(f"  {side}: {steady} ms per batch of {records:,}", file=sys.stderr)
        return Rates(side, [records * 1000 / milliseconds for milliseconds in steady])
