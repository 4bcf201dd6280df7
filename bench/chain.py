# SPDX-License-Identifier: Apache-2.0
"""The cost of a second keyed function in a chain: two functions against one.

Both functions count the records of a user and pass every record on with its event time, so both
get the same number of records.  The queries take turns in one JVM.

    python bench/chain.py                  # some 4 minutes on 2 quiet cores
    python bench/chain.py --rounds 1 --scale 0.05

The goal is a ratio of at most 1.8: both queries read, plan and log a micro-batch only once.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from typing import Any

import paths  # noqa: F401 - the workers' path, before Spark starts
from inputs import Shape
from pyspark.sql import DataFrame
from results import WrongResultError
from spark_run import progress_of, session, stop
from workloads import RunningCount, Workload

from pyflinklike.spark import key_by

_SHAPE = Shape(200_000, 10, 100_000)
_OUTPUT = "user string, ts timestamp, total long"


class PassedOn(RunningCount):
    """The key's count so far, with the record's time."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for user, count in super().process_element(value, ctx):
            yield user, value.ts, count


def chain(operators: int, df: DataFrame) -> DataFrame:
    """So many functions behind each other."""
    for number in range(operators):
        df = key_by(df, "user").process(PassedOn(), _OUTPUT, event_time="ts", uid=f"op{number}")
    return df


def measured(spark: Any, shape: Shape, operators: int) -> tuple[list[float], Any]:
    """Seconds of each micro-batch but the first, and what the outputs add up to."""
    workload = Workload("chain", "", shape, ("user", "ts"), PassedOn, event_time=True)
    progress = progress_of(spark, workload, shape, lambda df: chain(operators, df))
    ran = [each for each in progress if each["numInputRows"]]
    sums = [each["observedMetrics"]["check"] for each in progress if "observedMetrics" in each]
    checked = (sum(each["rows"] for each in sums), sum(each["total"] or 0 for each in sums))
    return [each["durationMs"]["triggerExecution"] / 1000 for each in ran[1:]], checked


def main() -> None:
    """Measure, and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    shape = _SHAPE.scaled(options.scale)
    spark = session()
    seconds: dict[int, list[float]] = {1: [], 2: []}
    try:
        for _ in range(options.rounds):
            found = {operators: measured(spark, shape, operators) for operators in seconds}
            if found[1][1] != found[2][1]:
                msg = f"both count the same records, got {found[1][1]} and {found[2][1]}"
                raise WrongResultError(msg)
            for operators, (took, _) in found.items():
                seconds[operators] += took
    finally:
        stop(spark)
    one, two = (statistics.median(seconds[operators]) for operators in (1, 2))
    print(f"one keyed function: {one:.2f} s a micro-batch, a chain of two: {two:.2f} s")
    print(f"ratio {two / one:.2f}, the goal is at most 1.8")


if __name__ == "__main__":
    main()
