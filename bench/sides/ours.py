# SPDX-License-Identifier: Apache-2.0
"""pyflinklike on Spark.

J1 splits its input in two, by whether the amount is even: which it is depends on key and batch.
B1 reads its rules from a directory of their own, all in the first micro-batch.
PJ1 is PyFlink's script between `from_data_frame` and `to_data_frame`.
"""

from __future__ import annotations

import atexit
import runpy
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from inputs import Shape
from paths import BENCH
from pyspark.sql import DataFrame, SparkSession
from results import Result
from spark_run import Transform, run
from workloads import LIMITS, RULES, Workload, limit_of

import pyflinklike.run
from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
from pyflinklike.pyflink.common import Configuration
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.spark import broadcast, connect, key_by

_NAMES = {"heap": "hashmap", "rocksdb": "rocksdb"}
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

    def connected(df: DataFrame) -> DataFrame:
        even, odd = df.where("amount % 2 = 0"), df.where("amount % 2 = 1")
        return (
            connect(even, odd)
            .key_by("user")
            .process(workload.function(), workload.output, state_backend=BACKENDS[backend]())
        )

    def with_rules(df: DataFrame) -> DataFrame:
        return (
            key_by(df, "user")
            .connect(broadcast(_rules(df.sparkSession), LIMITS))
            .process(workload.function(), workload.output, state_backend=BACKENDS[backend]())
        )

    def process(df: DataFrame) -> DataFrame:
        return key_by(df, "user").process(
            function(),
            workload.output,
            event_time="ts" if workload.event_time else None,
            state_backend=BACKENDS[backend](),
        )

    def job(df: DataFrame) -> DataFrame:
        pyflinklike.run.install()
        # As `python -m pyflinklike.run` runs a script.
        script = runpy.run_path(str(BENCH / "lambda_job.py"), run_name="__main__")
        settings = {"execution.target": "spark", "state.backend.type": _NAMES[backend]}
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict(settings)
        )
        outputs: DataFrame = script["outputs"](env.from_data_frame(df)).to_data_frame()
        return outputs.toDF("user", "total")

    if workload.is_job:
        return job
    if workload.rules:
        return with_rules
    return connected if workload.inputs == 2 else process


def _rules(spark: SparkSession) -> DataFrame:
    folder = tempfile.mkdtemp(prefix="bench-rules-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rules = pa.table({"rule": range(RULES), "limit": [limit_of(rule) for rule in range(RULES)]})
    pq.write_table(rules, f"{folder}/rules.parquet")
    return spark.readStream.schema("rule long, limit long").parquet(folder)
