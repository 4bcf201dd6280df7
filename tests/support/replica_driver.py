# SPDX-License-Identifier: Apache-2.0
"""A driver with all kinds of state, to be killed: `python replica_driver.py <job as JSON>`.

The job says `input` and `checkpoint`, `backend` ("heap" or "rocksdb"), `compacted_every` in ms,
whether it `ends` once all input is read, and Spark's `settings`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import all_states
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
from pyflinklike.spark import key_by


def main(job: dict[str, Any]) -> None:
    """Run the query, until all of its input is read or for ever."""
    cloudpickle.register_pickle_by_value(all_states)  # type: ignore[no-untyped-call]
    spark = SparkSession.builder.config(map=job["settings"]).getOrCreate()
    reader = spark.readStream.schema(all_states.SCHEMA).option("maxFilesPerTrigger", 1)
    backends = {"heap": HashMapStateBackend, "rocksdb": EmbeddedRocksDBStateBackend}
    rows = key_by(reader.parquet(job["input"]), "user").process(
        all_states.AllStates(job["compacted_every"]),
        all_states.OUTPUT,
        state_backend=backends[job["backend"]](),
        max_parallelism=4,
        uid="all states",
    )
    writer = rows.writeStream.format("noop").option("checkpointLocation", job["checkpoint"])
    query = writer.trigger(processingTime="2 seconds").start()
    if not job["ends"]:
        query.awaitTermination()
    query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
