# SPDX-License-Identifier: Apache-2.0
"""The cost of a batch as the state grows, and the size of the log against its live entries.

The function is a running count, by default on RocksDB.  The first batch loads the keys, then each
micro-batch touches 10,000 random keys.  For each size it measures:

* the time of these micro-batches, which should not depend on the size
* the greatest resident memory of any Python worker, also while loading
* after all micro-batches (some delete), the bytes of the current segments against the bytes of one
  snapshot per key group of the same state
* with `--restart`, the first micro-batches of a query that restarts without its local files, as on
  another executor: it rebuilds every key group from its log

    python bench/state_size.py                                 # about 12 minutes on 2 cores
    python bench/state_size.py --sizes 100000 --batches 20
    python bench/state_size.py --backend heap --sizes 1000000 5000000 --batches 40
    python bench/state_size.py --sizes 2000000 --batches 75 --restart
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import HEAD_AT, Head, InMemoryLogStorage
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.spark import key_by
from pyflinklike.spark._host.blob_map import LOG_VARIABLE
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY

_LOAD = 250_000
_DELETE = -1
_KEY_GROUPS = 128
_AFTER_RESTART = 5
_MIB = 1024 * 1024


class RunningCount(KeyedProcessFunction):
    """Counts the records of a key; a negative amount deletes the count."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value.amount < 0:
            self.count.clear()
            return
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value.user, count


@attrs.frozen
class Figures:
    """The measurements for one size."""

    keys: int
    milliseconds: list[int]
    worker_bytes: int
    durable_bytes: int
    live_bytes: int
    live_entries: int
    cold: float
    """The share of loads of key groups that read the whole log."""

    @property
    def mean(self) -> float:
        """The mean time of a micro-batch in ms."""
        return statistics.mean(self.milliseconds)

    @property
    def median(self) -> float:
        """The median time of a micro-batch in ms."""
        return statistics.median(self.milliseconds)

    def row(self, against: Figures) -> str:
        """One line of the table."""
        return (
            f"| {self.keys:,} | {len(self.milliseconds)} | {self.median:,.0f} | {self.mean:,.0f} "
            f"| {min(self.milliseconds):,} | {max(self.milliseconds):,} "
            f"| {self.median / against.median:.2f} | {self.cold:.0%} | {self.worker_bytes / _MIB:,.0f} MiB "
            f"| {self.live_entries:,} | {self.live_bytes / _MIB:,.1f} MiB "
            f"| {self.durable_bytes / self.live_bytes:.2f} |"
        )


def session() -> SparkSession:
    """A local session of two tasks, on loopback."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write_input(folder: Path, keys: int, batches: int, touched: int, deleted: float) -> int:
    """One Parquet file per micro-batch; the number of those that load."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    loads = [np.arange(start, min(start + _LOAD, keys)) for start in range(0, keys, _LOAD)]
    draws = [random.integers(0, keys, touched) for _ in range(batches)]
    for number, drawn in enumerate([*loads, *draws]):
        amounts = np.ones(len(drawn), np.int64)
        if number >= len(loads):
            amounts[random.random(len(drawn)) < deleted] = _DELETE
        users = pa.array([f"user-{key:08d}" for key in drawn.tolist()])
        path = folder / f"batch-{number:05d}.parquet"
        table = pa.table({"user": users, "amount": amounts})
        pq.write_table(table, path, row_group_size=max(len(drawn) // 2, 1))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return len(loads)


class WorkerMemory:
    """Watches how much resident memory the Python workers of this process have at most."""

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            for path in Path("/proc").glob("[0-9]*"):
                try:
                    if b"pyspark.daemon" in (path / "cmdline").read_bytes():
                        status = (path / "status").read_text()
                        found = re.search(r"VmHWM:\s+(\d+) kB", status)
                        self.most = max(self.most, int(found[1]) * 1024 if found else 0)
                except OSError:  # it has ended
                    continue


def backend_of(options: argparse.Namespace, folder: Path) -> StateBackend:
    """Return the chosen backend; its files, if any, are in the folder."""
    if options.backend == "heap":
        return HashMapStateBackend(max_warm_bytes=int(options.max_warm_mib * _MIB))
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(folder / "local"))
    return backend


def measure(spark: SparkSession, keys: int, options: argparse.Namespace) -> Figures:
    """Load so many keys, then touch some in each micro-batch."""
    with tempfile.TemporaryDirectory() as scratch, WorkerMemory() as memory:
        folder = Path(scratch)
        after = _AFTER_RESTART if options.restart else 0
        loads = write_input(
            folder / "in", keys, options.batches + after, options.touched, options.deleted
        )
        held = [
            folder / "in" / f"batch-{loads + options.batches + n:05d}.parquet" for n in range(after)
        ]
        for path in held:
            path.rename(folder / path.name)
        stream = (
            spark.readStream.schema("user string, amount long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / "in"))
        )
        counts = key_by(stream, "user").process(
            RunningCount(),
            "user string, total long",
            state_backend=backend_of(options, folder),
            max_parallelism=_KEY_GROUPS,
        )
        writer = (
            counts.writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
        )
        query = writer.start()
        query.awaitTermination()
        progress = [each for each in query.recentProgress if each["numInputRows"]]
        durations = [each["durationMs"]["triggerExecution"] for each in progress]
        print(f"  {keys:,} keys, loading: {durations[:loads]} ms", file=sys.stderr)
        print(f"  {keys:,} keys, touching: {durations[loads:]} ms", file=sys.stderr)
        print(f"  {keys:,} keys, the last: {progress[-1].observedMetrics}", file=sys.stderr)
        durable, live, entries = weigh(spark, folder / "checkpoint")
        if held:
            shutil.rmtree(folder / "local", ignore_errors=True)
            for path in held:
                (folder / path.name).rename(path)
            again = writer.start()
            again.awaitTermination()
            rows = [each for each in again.recentProgress if each["numInputRows"]]
            took = [each["durationMs"]["triggerExecution"] for each in rows]
            print(f"  {keys:,} keys, started again: {took} ms", file=sys.stderr)
            print(f"  cold loads of the first: {share_of_cold(rows[:1]):.0%}", file=sys.stderr)
    # The first micro-batch after the load waits for what the load left to do.
    cold = share_of_cold(progress[loads + 1 :])
    return Figures(keys, durations[loads + 1 :], memory.most, durable, live, entries, cold)


def share_of_cold(progress: list[Any]) -> float:
    """Return the share of cold loads of key groups in these micro-batches."""
    rows = [each.observedMetrics["RunningCount"] for each in progress]
    loads = sum(row["warm_loads"] + row["caught_up_loads"] + row["cold_loads"] for row in rows)
    return float(sum(row["cold_loads"] for row in rows) / loads)


def weigh(spark: SparkSession, checkpoint: Path) -> tuple[int, int, int]:
    """Bytes of the segments that count, of a snapshot of the same state, and its entries."""
    reader = spark.read.format("statestore").option("stateVarName", LOG_VARIABLE)
    columns = ("key.__key_group", "user_map_key.sequence", "user_map_value.blob")
    rows = reader.load(str(checkpoint)).select(*columns).toArrow().to_pylist()
    stores: dict[int, InMemoryLogStorage] = defaultdict(InMemoryLogStorage)
    for row in rows:
        if row["__key_group"] == REGISTRY_KEY:
            continue
        store = stores[row["__key_group"]]
        if row["sequence"] == HEAD_AT:
            store.head = Head.from_bytes(row["blob"], "bench")
        else:
            store.segments[row["sequence"]] = row["blob"]
    operator = make_keyed_operator(
        OperatorDeclaration(
            RunningCount(),
            HashMapStateBackend(),
            Types.STRING(),
            TaskInfo(
                "RunningCount", max_parallelism=_KEY_GROUPS, key_columns=(("user", "string"),)
            ),
            "weigh",
        )
    )
    operator.open()
    durable = live = entries = 0
    for index, store in stores.items():
        operator.load(store, store.head, KeyGroupState(index))
        durable += store.size
        live += len(operator.snapshot())
        entries += operator.backend.count()
    return durable, live, entries


def main() -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000])
    parser.add_argument("--batches", type=int, default=200, help="after loading")
    parser.add_argument("--touched", type=int, default=10_000, help="records per micro-batch")
    parser.add_argument("--deleted", type=float, default=0.1, help="share of them that delete")
    parser.add_argument("--backend", choices=["rocksdb", "heap"], default="rocksdb")
    parser.add_argument(
        "--restart", action="store_true", help="start again at the end, without local files"
    )
    parser.add_argument("--max-warm-mib", type=float, default=512.0, help="of the heap backend")
    options = parser.parse_args()
    spark = session()
    figures = [measure(spark, keys, options) for keys in options.sizes]
    print(
        "\n| keys | batches | median ms | mean ms | min | max | median to the smallest | cold loads "
        "| most memory of a worker | live entries | live bytes | durable to live |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for each in figures:
        print(each.row(figures[0]))
    spark.stop()


if __name__ == "__main__":
    main()
