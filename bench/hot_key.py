# SPDX-License-Identifier: Apache-2.0
"""Micro-batches with most of their records on one key, over micro-batches of uniform keys.

Two queries of one session take turns.  One has uniform keys; in the other, 90 % of the records have
the same key.  Each micro-batch is one window.  Only one task can process a hot key, so on two cores
the state task can take at most twice as long.

    python bench/hot_key.py                           # an estimated four minutes on 2 quiet cores
    python bench/hot_key.py --folds sum --batches 9
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import paths  # noqa: F401 - the workers' path, before Spark starts
import pyarrow as pa
import pyarrow.parquet as pq
from inputs import START_MS, mix
from pyspark.sql import DataFrame, SparkSession
from state_as_data import session
from windowed import Count

from pyflinklike import AggregateFunction, Types
from pyflinklike.spark import key_by
from pyflinklike.windows import TumblingEventTimeWindows

_WARM_UP = 3
_SCHEMA = "user string, amount long, ts timestamp"
_KINDS = ("uniform", "hot")


class Costly(AggregateFunction[Any, int, int]):
    """A fold whose `add` takes some 10 microseconds."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return (accumulator + sum(range(value.amount, value.amount + 300))) % 1_000_003

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return (acc_a + acc_b) % 1_000_003


def windowed(df: DataFrame, fold: str, span: int) -> DataFrame:
    """A fold of tumbling windows."""
    if fold == "final":
        return key_by(df, "user").sum("amount", event_time="ts", running=False)
    windows = key_by(df, "user").window(TumblingEventTimeWindows.of(span, START_MS % span))
    if fold == "sum":
        return windows.sum("amount", event_time="ts")
    function = Costly() if fold == "costly" else Count()
    return windows.aggregate(
        function, accumulator_type=Types.LONG(), output_type="total long", event_time="ts"
    )


def table_of(batch: int, records: int, keys: int, share: float) -> pa.Table:
    """Return the records of one micro-batch; a share of them has the same key."""
    number = np.arange(batch * records, (batch + 1) * records)
    hashed = mix(number)
    key = (hashed % np.uint64(keys)).astype(np.int64)
    key[(hashed >> np.uint64(32)) % np.uint64(1000) < np.uint64(int(share * 1000))] = 0
    names = np.char.mod("user-%06d", np.arange(keys))
    ts = pa.array((START_MS + number) * 1000, pa.timestamp("us", "UTC"))
    return pa.table({"user": pa.array(names[key]), "amount": number % 1000, "ts": ts})


class Run:
    """A query that is given its micro-batches one by one.

    Args:
        spark: The session.
        root: A folder of its own.
        fold: The windows' function.
        given: The command line.
        share: The share of the records that have one key.
    """

    def __init__(
        self, spark: SparkSession, root: Path, fold: str, given: argparse.Namespace, share: float
    ) -> None:
        self._spark, self._source, self._given, self._share = spark, root / "in", given, share
        self._source.mkdir(parents=True)
        source = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 2)
        frame = windowed(source.parquet(str(self._source)), fold, given.records)
        writer = frame.writeStream.format("noop")
        self.query = writer.option("checkpointLocation", str(root / "checkpoint")).start()
        self._batch = self._stage = 0
        self.spent: list[tuple[float, list[list[int]]]] = []

    def serve(self) -> None:
        """Serve one micro-batch; note its seconds, and the ms of the tasks of its stages."""
        table = table_of(self._batch, self._given.records, self._given.keys, self._share)
        half, folder = table.num_rows // 2, self._source.parent / "new"
        folder.mkdir()
        for part in range(2):
            pq.write_table(table.slice(part * half, half), folder / f"{self._batch}-{part}.parquet")
        first = self._next_stage()
        # Both files become visible while no micro-batch is being made of the first alone: they are
        # there within a fraction of a millisecond of each other, and Spark lists every 10.
        for each in sorted(folder.iterdir()):
            os.rename(each, self._source / each.name)
        folder.rmdir()
        self.query.processAllAvailable()
        self._batch += 1
        time.sleep(0.3)  # the listener that fills the store of tasks is behind
        done = [each for each in self.query.recentProgress if each["numInputRows"]][-1]
        assert done["numInputRows"] == self._given.records, "the micro-batch has both files"
        spent = done["durationMs"]["triggerExecution"] / 1000
        self.spent.append((spent, self._tasks(first)))

    def _next_stage(self) -> int:
        return max(self._stages(), default=-1) + 1

    def _store(self) -> Any:
        return self._spark._jsc.sc().statusStore()

    def _stages(self) -> list[int]:
        store = self._store()
        bounds, statuses = (getattr(store, f"stageList$default${at}")() for at in (4, 5))
        found = store.stageList(None, False, False, bounds, statuses)
        return sorted(found.apply(at).stageId() for at in range(found.size()))

    def _tasks(self, first: int) -> list[list[int]]:
        found = []
        for number in self._stages():
            if number >= first:
                tasks = self._store().taskList(number, 0, 100)
                every = [tasks.apply(at).duration() for at in range(tasks.size())]
                found.append(sorted(each.get() for each in every if each.isDefined()))
        # A micro-batch without data may follow, which is short.
        return found[:2]


def measure(spark: SparkSession, fold: str, given: argparse.Namespace) -> None:
    """Print the line of a fold."""
    root = Path(tempfile.mkdtemp(prefix="hot-key-"))
    shares = {"uniform": 0.0, "hot": given.share}
    runs = {kind: Run(spark, root / kind, fold, given, shares[kind]) for kind in _KINDS}
    try:
        for _ in range(_WARM_UP + given.batches):
            for each in runs.values():
                each.serve()
    finally:
        for each in runs.values():
            each.query.stop()
        shutil.rmtree(root, ignore_errors=True)
    measured = {kind: each.spent[_WARM_UP:] for kind, each in runs.items()}
    whole = {kind: statistics.median(s for s, _ in each) for kind, each in measured.items()}
    ratios = sorted(hot / uniform for (uniform, _), (hot, _) in zip(*measured.values()))
    print(
        f"{fold:7} uniform {whole['uniform']:.2f} s   hot {whole['hot']:.2f} s   "
        f"{whole['hot'] / whole['uniform']:.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        flush=True,
    )
    for kind, found in measured.items():
        print(
            f"        {kind:8} ms of tasks, by stage: {[tasks for _, tasks in found]}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--folds", nargs="+", default=["sum", "count", "costly", "final"])
    parser.add_argument("--records", type=int, default=300_000, help="of a micro-batch")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=0.9, help="of the records on one key")
    parser.add_argument("--batches", type=int, default=5, help="that count")
    given = parser.parse_args()
    spark = session("1g")
    try:
        for fold in given.folds:
            measure(spark, fold, given)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
