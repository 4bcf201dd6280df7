# SPDX-License-Identifier: Apache-2.0
"""The cost of dead letters if no function raises: W1 with and without `on_error`, in one JVM.

A query with `on_error` must take at most 1.3 times as long.

    python bench/dead_letters.py                        # some 4 minutes on 2 quiet cores
    python bench/dead_letters.py --records 2000 --rounds 1   # that it works; its times mean nothing
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import paths  # noqa: F401 - the workers' path, before Spark starts
from inputs import Shape
from pyspark.sql import DataFrame
from sides.ours import BACKENDS
from spark_run import progress_of, session, stop
from workloads import WORKLOADS, RunningCount

from pyflinklike import DeadLetters
from pyflinklike.spark import key_by

VARIANTS: dict[str, dict[str, Any]] = {
    "off": {},
    "on": {"on_error": DeadLetters("dead", at_most=0.01)},
}
GOAL = 1.3


def seconds(spark: Any, backend: str, options: dict[str, Any], shape: Shape) -> list[float]:
    """Stream W1 with some options of `process`; return the seconds of its later micro-batches."""
    workload = WORKLOADS["W1"]

    def query(df: DataFrame) -> DataFrame:
        made = BACKENDS[backend]()
        return key_by(df, "user").process(
            RunningCount(), workload.output, state_backend=made, **options
        )

    ran = [each for each in progress_of(spark, workload, shape, query) if each["numInputRows"]]
    return [each["durationMs"]["triggerExecution"] / 1000 for each in ran[1:]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--backend", choices=list(BACKENDS), default="heap")
    options = parser.parse_args()
    shape = Shape(options.records, options.batches, max(options.records // 2, 1))
    found: dict[str, list[float]] = {name: [] for name in VARIANTS}
    spark = session()
    try:
        seconds(spark, options.backend, VARIANTS["off"], shape)  # warms the JVM
        for number in range(options.rounds):
            # In turns, and begun by each in turn: the machine is not equally busy all the time.
            names = list(VARIANTS) if number % 2 else list(reversed(VARIANTS))
            for name in names:
                found[name] += seconds(spark, options.backend, VARIANTS[name], shape)
    finally:
        stop(spark)
    off = statistics.median(found["off"])
    print("| dead letters | s a micro-batch: median | min | max | over off |")
    print("|---|---:|---:|---:|---:|")
    for name, mine in found.items():
        median = statistics.median(mine)
        print(f"| {name} | {median:.3f} | {min(mine):.3f} | {max(mine):.3f} | {median / off:.2f} |")
    print(f"\nThe goal is {GOAL}.")


if __name__ == "__main__":
    main()
