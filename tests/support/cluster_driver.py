# SPDX-License-Identifier: Apache-2.0
"""Ledgers that run side by side until told to end: `cluster_driver.py <queries as JSON>`.

Each query is the root of a `fault_support.Place` and the name of a backend.  All end when each
root has a file "enough", and leave what Spark told of their batches in "progress.json".
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from fault_support import Place, backend_of, ledger, write
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

_POLL_SECONDS = 0.2


def told(query: StreamingQuery) -> list[dict[str, int]]:
    """Of each batch its number, how long it took (ms), and how key groups were loaded."""
    return [
        {
            "batch": progress["batchId"],
            "ms": progress["durationMs"]["triggerExecution"],
            **{
                name: progress["observedMetrics"]["ledger"][name]
                for name in ("records", "warm_loads", "caught_up_loads", "cold_loads")
            },
        }
        for progress in query.recentProgress
        if "ledger" in progress["observedMetrics"]
    ]


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    queries = {}
    for root, backend in json.loads(sys.argv[1]):
        place = Place(Path(root))
        rows = ledger(spark, place, backend_of(backend, place))
        queries[place.root] = write(rows, place, processingTime="0 seconds")
    while not all((root / "enough").exists() for root in queries):
        for query in queries.values():
            if not query.isActive:
                query.awaitTermination()  # raises what ended it
        time.sleep(_POLL_SECONDS)
    for root, query in queries.items():
        query.processAllAvailable()
        (root / "progress.json").write_text(json.dumps(told(query)))
        query.stop()
    spark.stop()
