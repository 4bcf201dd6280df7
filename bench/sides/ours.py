# SPDX-License-Identifier: Apache-2.0
"""pyflinklike on Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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
    return run(
        spark, side, workload, shape, transform(workload, backend, partial(workload.made, shape))
    )


def measure_columns(spark: SparkSession, side: str, workload: Workload, shape: Shape) -> Result:
    """One run of the columnar function."""
    assert workload.columnar is not None
    return run(spark, side, workload, shape, transform(workload, "heap", workload.columnar))


def transform(workload: Workload, backend: str, function: Callable[[], Any]) -> Transform:
    """The query."""

    def process(df: DataFrame) -> DataFrame:
        return key_by(df, "user").process(
            function(),
            workload.output,
            event_time="ts" if workload.event_time else None,
            state_backend=BACKENDS[backend](),
        )

    return process
