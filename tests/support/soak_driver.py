# SPDX-License-Identifier: Apache-2.0
"""A driver of a soak, to be killed: `python soak_driver.py <job as JSON>`; see soak.py."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from fault_support import Place, backend_of, write
from pyspark.sql import SparkSession
from soak_notes import Notes
from soak_program import Traffic, sessions

from pyflinklike import HashMapStateBackend
from pyflinklike.report import ProgressLog
from pyflinklike.state_processor import open_savepoint, take_savepoint

_HEAP_SECONDS = 20


def main(job: dict[str, Any]) -> None:
    """Run the query until a file asks for its end, or the parent is gone."""
    root, parent = Path(job["root"]), os.getppid()
    place, notes = Place(root), Notes(root / "soak.jsonl")
    spark = SparkSession.builder.config(map=job["settings"]).getOrCreate()
    spark.streams.addListener(ProgressLog(root / "progress.jsonl"))
    backend = backend_of(job["backend"], place)
    if job["max_warm_bytes"] is not None:
        backend = HashMapStateBackend(max_warm_bytes=job["max_warm_bytes"])
    rows = sessions(spark, Traffic(**job["traffic"]), backend)
    query = write(rows, place, processingTime=f"{job['trigger']} seconds")
    heap_at = time.monotonic() + _HEAP_SECONDS
    while not query.awaitTermination(1):
        if (root / "stop").exists() or os.getppid() != parent:
            query.stop()
            break
        if (root / "savepoint").exists():
            (root / "savepoint").unlink()
            save(spark, place, notes)
        if time.monotonic() > heap_at:
            notes.note("heap", life=job["life"], bytes=live_heap(spark))
            heap_at = time.monotonic() + _HEAP_SECONDS
    spark.stop()


def save(spark: SparkSession, place: Place, notes: Notes) -> None:
    """Take a savepoint beside the running query, and note what is in it."""
    path, began = place.root / "saved", time.monotonic()
    take_savepoint(spark, place.checkpoint, path, mode="overwrite")
    saved = open_savepoint(path)
    saved.verify()
    counts = saved.dataset("count", "visits").to_table(columns=["value"])["value"]
    notes.note(
        "savepoint",
        batch=json.loads((path / "_manifest.json").read_text())["batch_id"],
        seconds=round(time.monotonic() - began, 2),
        keys=len(counts),
        visits=sum(counts.to_pylist()),
        timers=saved.timers("visits").count_rows(),
    )


def live_heap(spark: SparkSession) -> int:
    """The bytes that the JVM's heap holds after a collection."""
    runtime: Any = spark._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    runtime.gc()
    return int(runtime.totalMemory() - runtime.freeMemory())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
