# SPDX-License-Identifier: Apache-2.0
"""The cost of each step of a stream per micro-batch: the input, pack, the state operator, unpack.

It cuts W1 after each step, and drops the output there.  The difference between two rows is the cost
of a step.  The cuts take turns, so a slow minute of the machine affects all of them.

    python bench/stages.py                                    # 1 M records a micro-batch, in columns
    python bench/stages.py --records 100 --batches 30 --side ours_heap
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paths  # noqa: F401 - the workers' path, before Spark starts
from inputs import Shape, write_batches
from pyspark.sql import DataFrame, SparkSession
from sides import ours
from spark_run import ddl, session, stop
from workloads import WORKLOADS

from pyflinklike.spark._api import query as operators
from pyflinklike.spark._api.query import pack_records
from pyflinklike.spark._host.streaming_host import serve_payloads
from pyflinklike.spark._plan.operator_plan import Plan

_W1 = WORKLOADS["W1"]
Cut = Callable[[DataFrame], DataFrame]


class Steps:
    """The query of W1, and what its steps give.

    Args:
        side: `ours_columns` or `ours_heap`.
    """

    def __init__(self, side: str) -> None:
        function = _W1.columnar if side == "ours_columns" else _W1.function
        assert function is not None
        self._transform = ours.transform(_W1, "heap", function)
        self.cuts: dict[str, Cut] = {
            "the input, with key groups": lambda df: self._keyed(df)[0],
            "pack": lambda df: pack_records(*self._keyed(df)),
            "the state operator": self._serve,
            "unpack": self._transform,
        }

    def _keyed(self, df: DataFrame) -> tuple[DataFrame, Plan]:
        """Return the records and the plan that `process` packs."""
        handed: list[tuple[DataFrame, Plan]] = []

        def pack(keyed: DataFrame, plan: Plan) -> DataFrame:
            handed.append((keyed, plan))
            return pack_records(keyed, plan)

        module: Any = operators
        module.pack_records = pack
        try:
            self._transform(df)
        finally:
            module.pack_records = pack_records
        return handed[0]

    def _serve(self, df: DataFrame) -> DataFrame:
        keyed, plan = self._keyed(df)
        return serve_payloads(pack_records(keyed, plan), [plan])


def seconds_of(spark: SparkSession, shape: Shape, cut: Cut) -> list[float]:
    """The times of the micro-batches but the first."""
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = Path(scratch)
        write_batches(folder / "in", shape, list(_W1.columns))
        reader = spark.readStream.schema(ddl(_W1)).option("maxFilesPerTrigger", 2)
        writer = cut(reader.parquet(str(folder / "in"))).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [each for each in query.recentProgress if each["numInputRows"]]
        return [each["durationMs"]["triggerExecution"] / 1000 for each in progress[1:]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000, help="of a micro-batch")
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2, help="after one that warms the JVM")
    parser.add_argument("--side", choices=["ours_columns", "ours_heap"], default="ours_columns")
    options = parser.parse_args()
    shape = Shape(options.records, options.batches, min(options.records, 100_000))
    steps, spark = Steps(options.side), session()
    times: dict[str, list[float]] = {name: [] for name in steps.cuts}
    try:
        for turn in range(options.rounds + 1):
            for name, cut in steps.cuts.items():
                measured = seconds_of(spark, shape, cut)
                times[name] += measured if turn else []
    finally:
        stop(spark)
    print("| up to and with | s a micro-batch: median | min | max |\n|---|---:|---:|---:|")
    for name, each in times.items():
        print(f"| {name} | {statistics.median(each):.3f} | {min(each):.3f} | {max(each):.3f} |")


if __name__ == "__main__":
    main()
