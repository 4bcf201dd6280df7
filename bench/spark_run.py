# SPDX-License-Identifier: Apache-2.0
"""Run a Spark side: a streaming query over prepared micro-batches, each timed by Spark.

The time of a micro-batch is its `triggerExecution`.  It includes planning, the logs and the commit
of the state.  The same run also sums up the outputs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paths  # noqa: F401 - the workers' path, before Spark starts
from inputs import Shape, write_batches
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from results import Check, Result, WrongResultError
from sides.floor import expected
from workloads import Workload

PARTITIONS = 2
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # See docs/reference/spark-settings.md: without it a batch starts twice as many processes.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""Of every Spark side, the Scala one too."""
MASTER = f"local[{PARTITIONS}]"
_DDL = {"user": "user string", "amount": "amount long", "item": "item int", "ts": "ts timestamp"}
_PATIENCE_SECONDS = 300

Transform = Callable[[DataFrame], DataFrame]


def session() -> SparkSession:
    """A local session of two cores, on loopback."""
    builder = SparkSession.builder.master(MASTER).appName("pyflinklike-bench")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def stop(spark: SparkSession) -> None:
    """End the session and its JVM, which PySpark would keep for the next one."""
    context: Any = type(spark.sparkContext)
    spark.stop()
    gateway = context._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    context._gateway = context._jvm = None


def ddl(workload: Workload) -> str:
    """Of the input."""
    return ", ".join(_DDL[column] for column in workload.columns)


def run(
    spark: SparkSession,
    side: str,
    workload: Workload,
    shape: Shape,
    transform: Transform,
    *,
    never_ends: bool = False,
    rows_only: bool = False,
) -> Result:
    """Stream the workload's records through a transformation.

    Args:
        spark: The session.
        side: Names the side.
        workload: The input, and the expected outputs.
        shape: The size of the input.
        transform: From the input stream to `(user, total)`.
        never_ends: It is in processing-time mode, where `availableNow` does not end.
        rows_only: Check the number of outputs, not their sum.

    Raises:
        WrongResultError: The outputs are not the reference's.
    """
    progress = progress_of(
        spark, workload, shape, transform, never_ends=never_ends, limit=workload.limit(shape)
    )
    return judged(side, workload, shape, progress, rows_only=rows_only)


def judged(
    side: str, workload: Workload, shape: Shape, progress: list[Any], *, rows_only: bool = False
) -> Result:
    """The times of the steady-state micro-batches, if the outputs are right.

    Args:
        side: Names the side.
        workload: What was read.
        shape: How much of it.
        progress: Spark's, of each micro-batch.
        rows_only: Check the number of outputs, not their sum.

    Raises:
        WrongResultError: The outputs are not the reference's.
    """
    ran = [each for each in progress if "addBatch" in each["durationMs"]]
    observed = [each["observedMetrics"]["check"] for each in ran]
    check = Check(
        sum(each["rows"] for each in observed), sum(each["total"] or 0 for each in observed)
    )
    right = expected(workload.name, shape)
    if rows_only:
        right = Check(right.rows, check.total)
    check.must_be(right, f"{side}, {workload.name}")
    timed = [each for each in ran if each["numInputRows"]]
    read = [each["numInputRows"] for each in timed]
    wanted = [shape.records_of(batch) for batch in range(shape.batches)]
    known = [wanted, [each * workload.inputs for each in wanted]]
    known.append([wanted[0] + workload.rules, *wanted[1:]])
    if read not in known:
        msg = f"{side}, {workload.name}: each micro-batch must be read at once, got {read}"
        raise WrongResultError(msg)
    seconds = tuple(each["durationMs"]["triggerExecution"] / 1000 for each in timed[1:])
    return Result(side, workload.name, shape, seconds)


def progress_of(
    spark: SparkSession,
    workload: Workload,
    shape: Shape,
    transform: Transform,
    *,
    never_ends: bool = False,
    limit: int | None = None,
) -> list[Any]:
    """Return Spark's report of each micro-batch."""
    # Spark may still write into the checkpoint, in the background.
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        write_batches(folder / "in", shape, list(workload.columns))
        stream = (
            spark.readStream.schema(ddl(workload))
            .option("maxFilesPerTrigger", 2)
            .parquet(str(folder / "in"))
        )
        if workload.event_time:
            stream = stream.withWatermark("ts", "0 seconds")
        outputs = transform(stream)
        counted = F.lit(True) if limit is None else F.col("total") <= limit
        writer = (
            outputs.observe(
                "check",
                F.count_if(counted).alias("rows"),
                F.sum(F.when(counted, F.col("total"))).alias("total"),
            )
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
        )
        if not never_ends:
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return list(query.recentProgress)
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            _await_rows(query, shape.total)
            return list(query.recentProgress)
        finally:
            query.stop()


def _await_rows(query: Any, rows: int) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while sum(each["numInputRows"] for each in query.recentProgress) < rows:
        if query.exception() is not None:
            raise query.exception()
        if time.monotonic() > deadline:
            msg = f"the query had {_PATIENCE_SECONDS} s for {rows} records and did not read them"
            raise TimeoutError(msg)
        time.sleep(0.1)
