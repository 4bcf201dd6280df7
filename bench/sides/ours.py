# SPDX-License-Identifier: Apache-2.0
"""pyflinklike on Spark."""

from __future__ import annotations

from inputs import Shape
from pyspark.sql import DataFrame, SparkSession
from results import Result
from spark_run import Transform, run
from workloads import Workload

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
from pyflinklike.spark import key_by

BACKENDS = {"heap": HashMapStateBackend, "rocksdb": EmbeddedRocksDBStateBackend}


def measure(
    spark: SparkSession, side: str, workload: Workload, shape: Shape, backend: str
) -> Result:
    """One run on one backend, `max_parallelism` at its default, 16 for two partitions."""
    return run(spark, side, workload, shape, transform(workload, backend, shape))


def transform(workload: Workload, backend: str, shape: Shape) -> Transform:
    """The query."""

    def process(df: DataFrame) -> DataFrame:
        return key_by(df, "user").process(
            workload.made(shape),
            workload.output,
            event_time="ts" if workload.event_time else None,
            state_backend=BACKENDS[backend](),
        )

    return process
