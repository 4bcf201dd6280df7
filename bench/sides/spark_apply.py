# SPDX-License-Identifier: Apache-2.0
"""Spark's `applyInPandasWithState`, keyed per user key; it has value state only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from inputs import Shape
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout
from results import Result
from spark_run import run
from workloads import Workload

from pyflinklike.spark._host.group_state_host import read_whole_numbers
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE

if not HAS_TRANSFORM_WITH_STATE:
    # Imported in the workers, too: there PySpark 3.5 would fail with the PyArrow of today.
    read_whole_numbers()


def count(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """W1."""
    total = state.get[0] if state.exists else 0
    for frame in frames:
        first = total + 1
        total += len(frame)
        yield pd.DataFrame({"user": key[0], "total": range(first, total + 1)})
    state.update((total,))


def running_sum(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """W5."""
    total = state.get[0] if state.exists else 0
    for frame in frames:
        totals = []
        for amount in frame["amount"]:
            total += int(amount)
            totals.append(total)
        yield pd.DataFrame({"user": key[0], "total": totals})
    state.update((total,))


_LOGIC = {"W1": count, "W5": running_sum, "W8": count}


def measure(spark: SparkSession, side: str, workload: Workload, shape: Shape) -> Result:
    """One run."""

    def process(df: DataFrame) -> DataFrame:
        return df.groupBy("user").applyInPandasWithState(
            _LOGIC[workload.name],
            workload.output,
            "total long",
            "append",
            GroupStateTimeout.NoTimeout,
        )

    return run(spark, side, workload, shape, process)
