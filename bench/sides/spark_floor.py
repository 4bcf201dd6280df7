# SPDX-License-Identifier: Apache-2.0
"""The floor on Spark: the loops of `floor.py` behind the same shuffle."""

from __future__ import annotations

import uuid

from inputs import Shape
from pyspark.sql import DataFrame, SparkSession
from results import Result
from spark_run import PARTITIONS, run
from workloads import Workload

from sides.floor import on_spark


def measure(spark: SparkSession, side: str, workload: Workload, shape: Shape) -> Result:
    """Measure one run; its sums are right only while partitions keep their workers."""
    loop = on_spark(str(uuid.uuid4()), workload.name)

    def process(df: DataFrame) -> DataFrame:
        return df.repartition(PARTITIONS, "user").mapInArrow(loop, workload.output)

    return run(spark, side, workload, shape, process, rows_only=True)
