# SPDX-License-Identifier: Apache-2.0
"""State read, exported and begun with again: seconds, and the driver's memory.

A running count over string keys, ten batches: the first writes every key, the others a tenth of
them each.  Every figure is of one run, so they are to be compared with each other only.

    python bench/state_as_data.py                         # 1 M keys, some 5 minutes on 2 quiet cores
    python bench/state_as_data.py --keys 5000000 --driver-memory 1g
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import paths  # noqa: F401 - the workers' path, before Spark starts
import pyarrow as pa
import pyspark
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.spark import key_by
from pyflinklike.spark._wire.key_groups import group_ids
from pyflinklike.state_processor import (
    list_states,
    open_savepoint,
    read_heads,
    read_savepoint,
    read_state,
    read_state_changes,
    take_savepoint,
)
from pyflinklike.state_processor._checkpoints.checkpoint import CheckpointState, checkpoint_states
from pyflinklike.state_processor._logs.checkpoint_logs import check_log
from pyflinklike.state_processor._logs.group_reader import GroupStateReader
from pyflinklike.state_processor._logs.state_infos import describe_states
from pyflinklike.state_processor._logs.state_rows import StateRows

_BATCHES = 10
_SHARE = 10
# For as long as the process: arrays that it has allocated need it.
_COUNTING = pa.proxy_memory_pool(pa.default_memory_pool())


class Count(KeyedProcessFunction):
    """Records per key."""

    def open(self, runtime_context: Any) -> None:
        """Declare the state."""
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """One more."""
        self._count.update((self._count.value() or 0) + 1)
        yield from ()


class Clock:
    """Takes the time of what is called, and keeps it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def of(self, name: str, call: Callable[[], Any]) -> Any:
        """Call, and note how long it took."""
        with self.running(name):
            return call()

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Note how long the block takes."""
        began = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - began, 2)
        print(f"{name:55} {self.seconds[name]:8.2f} s", flush=True)


def session(memory: str, cores: int = 2, *, executor_mib: int | None = None) -> SparkSession:
    """A session on this machine.

    Args:
        memory: The memory of the driver's JVM.
        cores: The number of tasks that run at once.
        executor_mib: The memory of an executor with its own JVM; with None the driver executes.
    """
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    master = f"local[{cores}]"
    if executor_mib is not None:
        master = f"local-cluster[1,{cores},{executor_mib}]"
        settings["spark.executor.memory"] = f"{executor_mib}m"
        # Spark finds the jars for executors there.
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    found: SparkSession = builder.getOrCreate()
    return found


def write_input(spark: SparkSession, directory: Path, keys: int) -> None:
    """The files of the batches: all keys, then a tenth of them each."""
    for batch in range(_BATCHES):
        rows = spark.range(keys if batch == 0 else keys // _SHARE)
        named = rows.select(F.concat(F.lit("user-"), F.col("id")).alias("user"))
        hidden = directory / f"_{batch}"
        named.coalesce(1).write.parquet(str(hidden))
        (part,) = hidden.glob("part-*.parquet")
        part.rename(directory / f"{batch:02}.parquet")
        shutil.rmtree(hidden)


def counted(spark: SparkSession, source: Path, **options: Any) -> DataFrame:
    """The query over all files, one a batch."""
    stream = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1)
    return key_by(stream.parquet(str(source)), "user").process(
        Count(), "user string", uid="count", **options
    )


def run(spark: SparkSession, source: Path, checkpoint: Path, **options: Any) -> None:
    """Run it over the files there are."""
    query = (
        counted(spark, source, **options)
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def drained(frame: DataFrame) -> None:
    """Read all rows, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def totals(state: DataFrame) -> tuple[int, int]:
    """The sum of all values, and how many there are."""
    (row,) = state.agg(F.sum("value"), F.count("value")).collect()
    return row[0], row[1]


def log_and_peak(state: CheckpointState) -> tuple[int, int]:
    """The bytes of the largest key group's log, decompressed, and the most that Arrow held to read it."""
    index = max(state.heads, key=lambda each: state.heads[each].log_bytes)
    number = group_ids(state.max_parallelism)[index]
    rows = state.group_blobs().where(F.col("__key_group") == number).collect()
    blobs = {row["sequence"]: bytes(row["blob"]) for row in rows}
    served = state.registry.served_at[index]
    log = check_log(state.record.identity, served, blobs, state.where)
    size = sum(len(payload) for segment in log for _, payload in segment.sections)
    (info,) = describe_states(state.record, 0)
    former = pa.default_memory_pool()
    pa.set_memory_pool(_COUNTING)
    try:
        for table in GroupStateReader(StateRows.of(state.record, info), None).read(index, log, ""):
            assert table.num_rows
            del table
    finally:
        pa.set_memory_pool(former)
    return size, _COUNTING.max_memory()


class Workers:
    """The most memory that a Python worker of ours has had, looked at ten times a second."""

    def __init__(self) -> None:
        self.peak_mb = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self.peak_mb = max([self.peak_mb, *map(_resident_mb, _workers_of(os.getpid()))])

    def end(self) -> int:
        """Stop, and tell it in MiB."""
        self._ended.set()
        self._thread.join()
        return self.peak_mb


def _workers_of(ancestor: int) -> list[int]:
    parents: dict[int, int] = {}
    for each in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
    ours = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return [pid for pid in ours if _is_worker(pid)]


def _is_worker(pid: int) -> bool:
    with suppress(OSError):
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _resident_mb(pid: int) -> int:
    with suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20
    return 0


def measured(spark: SparkSession, root: Path, keys: int, *, through_driver: bool) -> dict[str, Any]:
    """All figures."""
    clock, source, checkpoint = Clock(), root / "in", root / "checkpoint"
    source.mkdir()
    write_input(spark, source, keys)
    clock.of("the query, ten batches", lambda: run(spark, source, checkpoint, max_parallelism=16))
    (state,) = checkpoint_states(spark, str(checkpoint), 0, None)
    for turn in ("warm up", "1", "2", "3"):
        clock.of(f"raw blobs ({turn})", lambda: drained(state.group_blobs()))
        clock.of(
            f"read_state of all ({turn})", lambda: drained(read_state(spark, checkpoint, "count"))
        )
    one = read_state(spark, checkpoint, "count", keys=["user-1"])
    clock.of("read_state(keys=[one])", one.collect)
    clock.of(
        "read_state at batch 3", lambda: drained(read_state(spark, checkpoint, "count", batch_id=3))
    )
    feed = read_state_changes(spark, checkpoint, "count", _BATCHES - 1, _BATCHES - 1)
    clock.of("changes of one batch (10 % of the keys)", lambda: drained(feed))
    log, peak = log_and_peak(state)
    total, held = totals(read_state(spark, checkpoint, "count"))
    assert (keys + (_BATCHES - 1) * (keys // _SHARE), keys) == (total, held)
    more = root / "more"
    more.mkdir()
    shutil.copy(source / "01.parquet", more / "00.parquet")
    saved, begun = root / "savepoint", root / "begun"
    workers = Workers()
    clock.of("take_savepoint", lambda: take_savepoint(spark, checkpoint, saved))
    clock.of(
        "begin with the directory, 64 key groups",
        lambda: run(spark, more, begun, from_savepoint=saved, max_parallelism=64),
    )
    worker_mb = workers.end()
    assert (total + keys // _SHARE, keys) == totals(read_state(spark, begun, "count"))
    clock.of("states of the directory", lambda: open_savepoint(saved).states())
    if through_driver:
        taken = clock.of("read_savepoint", lambda: read_savepoint(spark, checkpoint))
        clock.of(
            "begin with bytes, 64 key groups",
            lambda: run(spark, more, root / "bytes", from_savepoint=taken, max_parallelism=64),
        )
    log_bytes = read_heads(spark, checkpoint).agg(F.sum("log_bytes")).first()
    return {
        "keys": keys,
        "seconds": clock.seconds,
        "log_bytes": log_bytes[0] if log_bytes else 0,
        "savepoint_bytes": sum(each.bytes or 0 for each in open_savepoint(saved).states()),
        "states": len(list_states(spark, checkpoint)),
        "largest_group_log_bytes": log,
        "arrow_peak_over_log": round(peak / log, 2),
        "worker_peak_mb": worker_mb,
        "python_driver_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--driver-memory", default="2g", help="of the JVM, executors included")
    parser.add_argument("--no-bytes", action="store_true", help="without read_savepoint")
    given = parser.parse_args()
    cloudpickle.register_pickle_by_value(__import__(__name__))  # type: ignore[no-untyped-call]
    spark = session(given.driver_memory)
    root = Path(tempfile.mkdtemp(prefix="state-as-data-"))
    try:
        figures = measured(spark, root, given.keys, through_driver=not given.no_bytes)
        print(json.dumps(figures, indent=1))
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
