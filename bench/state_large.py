# SPDX-License-Identifier: Apache-2.0
"""A state of some GiB: from a checkpoint to a savepoint, and from there into a new query.

Each key has bytes that do not compress.  The driver's JVM has 1 GiB; the executor's JVM has 4 GiB
and two cores.  The program checks the bytes of each key.

    python bench/state_large.py                  # 4 GiB: 25 GiB of disk, some ten minutes on 2 cores
    python bench/state_large.py --gib 0.1
    python bench/state_large.py --executor-memory 0     # all of it in one JVM of 1 GiB
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paths  # noqa: F401 - the workers' path, before Spark starts
import state_as_data
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from state_as_data import Clock, Workers, session

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.spark import key_by
from pyflinklike.state_processor import open_savepoint, read_heads, read_state, take_savepoint

_BYTES = 1024
_BATCHES = 8
_MIB = 1 << 20


class Holding(KeyedProcessFunction):
    """Keeps bytes that follow from the key."""

    def open(self, runtime_context: Any) -> None:
        """Declare the state."""
        self._held = runtime_context.get_state(
            ValueStateDescriptor("held", Types.PRIMITIVE_ARRAY(Types.BYTE()))
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Keep them, if there are none yet."""
        if self._held.value() is None:
            self._held.update(hashlib.shake_128(value.user.encode()).digest(_BYTES))
        yield from ()


def run(spark: SparkSession, source: Path, checkpoint: Path, **options: Any) -> None:
    """Run the query over the files there are."""
    stream = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1)
    frame = key_by(stream.parquet(str(source)), "user").process(
        Holding(),
        "user string",
        uid="large",
        state_backend=EmbeddedRocksDBStateBackend(),
        **options,
    )
    writing = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writing.trigger(availableNow=True).start().awaitTermination()


def write_input(spark: SparkSession, source: Path, keys: int) -> None:
    """A file for each micro-batch, each with keys of its own."""
    for batch in range(_BATCHES):
        some = spark.range(batch * keys // _BATCHES, (batch + 1) * keys // _BATCHES, 1, 1)
        hidden = source / f"_{batch}"
        some.select(F.concat(F.lit("user-"), F.col("id")).alias("user")).write.parquet(str(hidden))
        (part,) = hidden.glob("part-*.parquet")
        part.rename(source / f"{batch:02}.parquet")
        shutil.rmtree(hidden)


def seen(state: DataFrame) -> tuple[int, int]:
    """How many entries there are, and how many of them are what they must be."""

    @F.udf("boolean")
    def is_right(user: Any, value: Any) -> bool:
        return hashlib.shake_128(user.encode()).digest(_BYTES) == bytes(value)

    right = F.sum(is_right("user", "value").cast("int"))
    (row,) = state.agg(F.count("*"), right).collect()
    return row[0], row[1]


def measured(spark: SparkSession, root: Path, keys: int) -> dict[str, Any]:
    """All figures."""
    clock, source, more = Clock(), root / "in", root / "more"
    for folder in (source, more):
        folder.mkdir()
    write_input(spark, source, keys)
    workers = Workers()
    clock.of("the query", lambda: run(spark, source, root / "old", max_parallelism=128))
    clock.of("take_savepoint", lambda: take_savepoint(spark, root / "old", root / "savepoint"))
    (log,) = read_heads(spark, root / "old").agg(F.sum("log_bytes")).collect()
    (largest,) = read_heads(spark, root / "old").agg(F.max("log_bytes")).collect()
    shutil.rmtree(root / "old")
    shutil.copy(source / "01.parquet", more / "00.parquet")
    options = {"from_savepoint": root / "savepoint", "max_parallelism": 96}
    clock.of("begin with it, 96 key groups", lambda: run(spark, more, root / "new", **options))
    worker_mb = workers.end()
    found = clock.of("read it all", lambda: seen(read_state(spark, root / "new", "held")))
    assert (keys, keys) == found, f"{found} of {keys} entries"
    return {
        "keys": keys,
        "seconds": clock.seconds,
        "log_mib": log[0] // _MIB,
        "largest_group_log_mib": round(largest[0] / _MIB, 1),
        "savepoint_mib": sum(
            each.bytes or 0 for each in open_savepoint(root / "savepoint").states()
        )
        // _MIB,
        "worker_peak_mib": worker_mb,
        "python_driver_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument(
        "--executor-memory", type=int, default=4096, help="in MiB; 0: the driver's JVM executes"
    )
    given = parser.parse_args()
    for module in (state_as_data, __import__(__name__)):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spark = session("1g", executor_mib=given.executor_memory or None)
    root = Path(tempfile.mkdtemp(prefix="state-large-"))
    try:
        print(json.dumps(measured(spark, root, int(given.gib * 1024 * _MIB / _BYTES)), indent=1))
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
