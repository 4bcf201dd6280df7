# SPDX-License-Identifier: Apache-2.0
"""A micro-batch of Spark's `transformWithStateInPandas` that has nothing to do.

It reads a file as the others do, and drops every record before the operator.
"""

from __future__ import annotations

from inputs import Shape
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from results import Result
from spark_run import progress_of
from workloads import WORKLOADS

from sides.spark_tws import Count, InPandas


class EmptyCount(InPandas, Count):
    """Never called."""


def measure(spark: SparkSession, shape: Shape) -> Result:
    """One run; the time of a batch without records, with as many partitions as the others."""

    def process(df: DataFrame) -> DataFrame:
        none: DataFrame = (
            df.where(F.col("amount") < 0)
            .groupBy("user")
            .transformWithStateInPandas(EmptyCount(), "user string, total long", "Append", "None")
        )
        return none

    progress = progress_of(spark, WORKLOADS["W1"], shape, process)
    ran = [each for each in progress if "addBatch" in each["durationMs"]]
    seconds = tuple(each["durationMs"]["triggerExecution"] / 1000 for each in ran[1:])
    return Result("empty", "small", shape, seconds)
