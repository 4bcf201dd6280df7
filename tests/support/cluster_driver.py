# SPDX-License-Identifier: Apache-2.0
"""Ledgers that run side by side until told to end: `cluster_driver.py <queries as JSON>`.

Each query is the root of a `fault_support.Place` and the name of a backend.  All end when each
root has a file "enough", and leave what Spark told of their batches in "progress.json".
One that fails is started again, as whoever supervises it would, and leaves why in "errors".
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from fault_support import Place, backend_of, ledger, write
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

AT_ONCE = {"processingTime": "0 seconds"}
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
    places = {Place(Path(root)): backend for root, backend in json.loads(sys.argv[1])}
    ledgers = {
        place: ledger(spark, place, backend_of(name, place)) for place, name in places.items()
    }
    queries = {place: write(rows, place, **AT_ONCE) for place, rows in ledgers.items()}
    while not all((place.root / "enough").exists() for place in places):
        for place, query in queries.items():
            if not query.isActive:
                with (place.root / "errors").open("a") as errors:
                    errors.write(f"{query.exception()}\n")
                queries[place] = write(ledgers[place], place, **AT_ONCE)
        time.sleep(_POLL_SECONDS)
    for place, query in queries.items():
        query.processAllAvailable()
        (place.root / "progress.json").write_text(json.dumps(told(query)))
        query.stop()
    spark.stop()
