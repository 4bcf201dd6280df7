# SPDX-License-Identifier: Apache-2.0
"""A driver whose workers come from `pyflinklike.spark.daemon`: `python daemon_driver.py <folder>`.

Its last line is JSON: what functions in its workers could do, and what a stream gave.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surroundings import SPARK_SETTINGS

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.spark import key_by

_ROWS = 200_000
_TASKS = 2


class Count(KeyedProcessFunction):
    """How many records the key has had."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value.user, self.count.value()


def work(batches: Iterator[Any]) -> Iterator[Any]:
    """Use what has threads or random numbers of its own: Arrow, pandas and NumPy."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from pyspark import BarrierTaskContext

    frozen = gc.get_freeze_count()
    BarrierTaskContext.get().barrier()  # so that each task has a worker of its own
    for _ in batches:
        pass
    pa.set_cpu_count(4)  # Spark says 1
    table = pa.table({"key": np.arange(_ROWS) % 7, "n": np.arange(_ROWS)})
    chunked = pa.concat_tables([table.slice(at, 1000) for at in range(0, _ROWS, 1000)])
    groups = chunked.group_by("key", use_threads=True).aggregate([("n", "sum")])
    frame = pd.DataFrame({"key": np.arange(_ROWS) % 7, "n": np.arange(_ROWS)})
    ones = np.ones((400, 400))
    jemalloc = pa.jemalloc_memory_pool() if "jemalloc" in pa.supported_memory_backends() else None
    for _ in range(100):
        pa.allocate_buffer(1_000_000, memory_pool=jemalloc)
    told = {
        "pid": os.getpid(),
        "forked with imports": frozen > 10_000,
        "arrow": sum(groups["n_sum"].to_pylist()),
        "pandas": int(frame.groupby("key").n.sum().sum()),
        "numpy": float(np.dot(ones, ones).sum()),
        "random": float(np.random.random()),
    }
    yield pa.RecordBatch.from_pydict({"told": [json.dumps(told)]})


def main(folder: Path) -> None:
    """Run both, and print what came of them."""
    from pyspark.sql import SparkSession

    settings = {**SPARK_SETTINGS, "spark.python.daemon.module": "pyflinklike.spark.daemon"}
    builder = SparkSession.builder.master(f"local[{_TASKS}]").config(map=settings)
    spark = builder.getOrCreate()
    rows = spark.range(0, _TASKS, 1, _TASKS).mapInArrow(work, "told string", True).collect()
    source = spark.createDataFrame([("a",), ("b",), ("a",)], "user string")
    source.write.parquet(str(folder / "in"))
    stream = spark.readStream.schema("user string").parquet(str(folder / "in"))
    counts = key_by(stream, "user").process(Count(), "user string, n long", max_parallelism=2)
    query = (
        counts.writeStream.format("memory")
        .queryName("counts")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    counted = sorted(tuple(row) for row in spark.table("counts").collect())
    spark.stop()
    found = {"workers": [json.loads(row.told) for row in rows], "counts": counted}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
