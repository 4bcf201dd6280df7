# SPDX-License-Identifier: Apache-2.0
"""State read from a checkpoint, beside Spark's own reader; and a store read beside a map state.

The same records make a running count in Scala on Spark's `transformWithState` and in ours: 1 M string
keys, then nine micro-batches of a tenth of them each.  Spark reads the former by its data source
`statestore`.  Then functions of ours keep as many entries, twenty a key, as map state and as a store.
The two readers of a pair take turns, five times after a first one that warms them.

    python bench/state_read.py                  # needs bench/setup_peers.sh; some two minutes
    python bench/state_read.py --keys 100000
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paths
import pyspark
import state_as_data
from inputs import Shape, write_batches
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from spark_run import MASTER, SETTINGS
from state_as_data import Count, drained, session

from pyflinklike import KeyedProcessFunction, MapStateDescriptor, Types
from pyflinklike.spark import key_by
from pyflinklike.state_processor import read_state
from pyflinklike.stores import KeyValueStoreDescriptor

_TURNS = 5
_ENTRIES = 20


class Mapped(KeyedProcessFunction):
    """Twenty entries a key in map state."""

    def open(self, runtime_context: Any) -> None:
        """Declare the state."""
        self._entries = runtime_context.get_map_state(
            MapStateDescriptor("entries", Types.INT(), Types.LONG())
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """All of them."""
        for number in range(_ENTRIES):
            self._entries.put(number, value.amount)
        yield from ()


class Stored(KeyedProcessFunction):
    """The same in a store."""

    def open(self, runtime_context: Any) -> None:
        """Declare the store."""
        self._entries = runtime_context.get_store(
            KeyValueStoreDescriptor("entries", Types.INT(), Types.LONG())
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """All of them."""
        for number in range(_ENTRIES):
            self._entries.put(number, value.amount)
        yield from ()


def in_scala(source: Path, checkpoints: Path, total: int) -> Path:
    """The query on Spark's operator, in a JVM of its own; its checkpoint.

    Raises:
        SystemExit: It was not compiled.
    """
    if not paths.SCALA_JAR.exists():
        raise SystemExit(f"no {paths.SCALA_JAR}; run bench/setup_peers.sh")
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", MASTER]
    for name, value in SETTINGS.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "pyflinklike.bench.TwsBench", str(paths.SCALA_JAR)]
    command += ["W1", "user string, amount long", str(source), str(checkpoints)]
    command += [str(total), str((1 << 63) - 1), str(checkpoints.with_name("progress"))]
    subprocess.run(command, check=True, env=os.environ | {"SPARK_HOME": str(home)})
    return checkpoints / "counted"


def in_python(spark: SparkSession, source: Path, checkpoint: Path, function: Any) -> Path:
    """A query of ours over the same files; its checkpoint."""
    stream = spark.readStream.schema("user string, amount long").option("maxFilesPerTrigger", 2)
    keyed = key_by(stream.parquet(str(source)), "user")
    frame = keyed.process(function, "user string", uid="bench", max_parallelism=16)
    writing = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writing.trigger(availableNow=True).start().awaitTermination()
    return checkpoint


def compared(pair: dict[str, Callable[[], DataFrame]], entries: int) -> None:
    """Read with each in turns, and print the medians and the ratio of the first to the second."""
    took: dict[str, list[float]] = {name: [] for name in pair}
    for turn in range(_TURNS + 1):
        for name, frame in pair.items():
            if turn == 0:
                found = frame().count()
                assert found == entries, f"{name}: {found} entries, wanted {entries}"
            began = time.perf_counter()
            drained(frame())
            if turn:
                took[name].append(time.perf_counter() - began)
    for name, each in took.items():
        spread = f"{min(each):.2f} to {max(each):.2f}"
        print(f"{name:40} {statistics.median(each):6.2f} s ({spread})", flush=True)
    one, other = (statistics.median(each) for each in took.values())
    print(f"{'':40} {one / other:6.2f} of it", flush=True)


def measured(spark: SparkSession, root: Path, shape: Shape) -> None:
    """Both pairs."""
    few = Shape(records=shape.keys // _ENTRIES, batches=1, keys=shape.keys // _ENTRIES, sparse=True)
    for folder, each in (("many", shape), ("few", few)):
        write_batches(root / folder, each, ["user", "amount"])
    theirs = in_scala(root / "many", root / "scala", shape.total)
    ours = in_python(spark, root / "many", root / "ours", Count())
    reading = spark.read.format("statestore").option("stateVarName", "count")
    compared(
        {
            "read_state": lambda: read_state(spark, ours, "count"),
            "statestore of transformWithState": lambda: reading.load(str(theirs)),
        },
        shape.keys,
    )
    mapped = in_python(spark, root / "few", root / "mapped", Mapped())
    stored = in_python(spark, root / "few", root / "stored", Stored())
    compared(
        {
            "read_state of a store": lambda: read_state(spark, stored, "entries"),
            "read_state of a map state": lambda: read_state(spark, mapped, "entries"),
        },
        few.keys * _ENTRIES,
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    given = parser.parse_args()
    for module in (state_as_data, __import__(__name__)):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spark = session("2g")
    root = Path(tempfile.mkdtemp(prefix="state-read-"))
    try:
        shape = Shape(records=given.keys // 10, batches=10, keys=given.keys, sparse=True)
        measured(spark, root, shape)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
