# SPDX-License-Identifier: Apache-2.0
"""Spark's built-in aggregation by windows, which runs in the JVM."""

from __future__ import annotations

from inputs import START_MS, Shape
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from results import Result
from spark_run import run
from windowed import COUNTS, PANES, TUMBLE
from workloads import Workload


def measure(spark: SparkSession, side: str, workload: Workload, shape: Shape) -> Result:
    """One run of W9, W10 or W11."""
    if workload.name == "W9":
        windows = F.window("ts", f"{PANES * shape.keys} milliseconds", f"{shape.keys} milliseconds")
    elif workload.name == "W11":
        windows = F.window("ts", f"{TUMBLE * shape.keys} milliseconds")
    else:
        # Half a ms more: whether Spark's sessions that touch are one does not matter then.
        windows = F.session_window("ts", f"{shape.keys} milliseconds 500 microseconds")

    def process(df: DataFrame) -> DataFrame:
        counts = df.groupBy("user", windows.alias("window")).count()
        last = F.unix_millis("window.end") - 1 - F.lit(START_MS)
        return counts.select("user", (last * COUNTS + F.col("count")).alias("total"))

    return run(spark, side, workload, shape, process)
