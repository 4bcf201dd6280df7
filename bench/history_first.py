# SPDX-License-Identifier: Apache-2.0
"""History in a batch and then a stream, beside one pass through the stream: the same rows, how much sooner?

    python bench/history_first.py --records 20000000                 # sessions by a function
    python bench/history_first.py --records 20000000 --program chain # counts, then session windows

History is nine tenths of the records; the others come while the query runs.  Each program runs as a
process of its own: through the stream; history first; and history first with a driver that is killed
while the batch runs and again in the first micro-batches, and started again each time.  The rows of
all three are compared as a multiset, by their number and the sum of their hashes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = "user string, at timestamp, n long"
_GAP = 120_000
_STEP = 10
"""Milliseconds between two records."""
_SETTINGS: dict[str, Any] = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
}


def write_log(folder: Path, first: int, records: int, files: int, users: int) -> None:
    """Write records in the order of their times, as files that Spark reads in this order."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    there = len(list(folder.glob("*.parquet")))
    bounds = np.linspace(first, first + records, files + 1).astype(int)
    for at, (start, end) in enumerate(pairwise(bounds)):
        numbers = np.arange(start, end)
        chosen = np.random.default_rng(int(start)).integers(0, users, end - start)
        names = np.char.add("u", chosen.astype(str))
        times = pa.array(
            (1_700_000_000_000 + numbers * _STEP) * 1_000, pa.timestamp("us", tz="UTC")
        )
        table = pa.table({"user": names, "at": times, "n": pa.array(numbers % 7)})
        file = folder / f"{there + at:05}.parquet"
        pq.write_table(table, folder / f".{file.name}")
        (folder / f".{file.name}").rename(file)
        os.utime(file, (1_700_000_000 + there + at,) * 2)


# The programs


def _functions() -> Any:
    """Make the functions, in a process that has Spark."""
    from pyflinklike import KeyedProcessFunction, Time, Types, ValueStateDescriptor
    from pyflinklike.spark import key_by
    from pyflinklike.windows import EventTimeSessionWindows, ProcessWindowFunction

    class Sessions(KeyedProcessFunction):
        """A user's records without a pause: the first, the last, and how many."""

        def open(self, runtime_context: Any) -> None:
            kind = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
            self.session = runtime_context.get_state(ValueStateDescriptor("session", kind))

        def process_element(self, value: Any, ctx: Any) -> Any:
            at = ctx.timestamp()
            first, last, count = self.session.value() or (at, at, 0)
            if at >= last + _GAP:
                yield ctx.get_current_key(), first, last, count
                first, count = at, 0
            self.session.update((first, at, count + 1))
            ctx.timer_service().register_event_time_timer(at + _GAP)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            session = self.session.value()
            if session is not None and timestamp == session[1] + _GAP:
                self.session.clear()
                yield ctx.get_current_key(), *session

    class Counted(KeyedProcessFunction):
        """Counts by user."""

        def open(self, runtime_context: Any) -> None:
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> Any:
            total = (self.total.value() or 0) + value.n
            self.total.update(total)
            yield value.user, value.at, total

    class Last(ProcessWindowFunction):
        """How many, and the last total, of a session."""

        def process(self, key: Any, context: Any, elements: Any) -> Any:
            totals = [each.total for each in elements]
            yield len(totals), max(totals)

    def sessions(df: Any, **options: Any) -> Any:
        schema = "user string, first long, last long, records long"
        return key_by(df, "user").process(
            Sessions(), schema, event_time="at", max_parallelism=16, **options
        )

    def chain(df: Any, **options: Any) -> Any:
        counted = key_by(df, "user").process(
            Counted(),
            "user string, at timestamp, total long",
            event_time="at",
            max_parallelism=16,
            **options,
        )
        windows = key_by(counted, "user").window(
            EventTimeSessionWindows.with_gap(Time.milliseconds(_GAP))
        )
        return windows.process(
            Last(), "records long, total long", event_time="at", max_parallelism=16, **options
        )

    return {"sessions": sessions, "chain": chain}


def drive(place: Path, program: str, *, history_first: bool) -> None:
    """Run the program, as a user would: it may be killed anywhere, and started again."""
    from pyspark.sql import SparkSession

    from pyflinklike.spark import history_of
    from pyflinklike.state_processor import is_savepoint

    spark = SparkSession.builder.master("local[2]").config(map=_SETTINGS).getOrCreate()
    apply = _functions()[program]
    log, savepoint = str(place.parent / "log"), str(place / "savepoint")
    options = {"maxFilesPerTrigger": "2"}
    if history_first:
        # A batch reads what is there when it begins; the rest has come when it is done.
        history = history_of(spark, format="parquet", schema=SCHEMA, path=log, options=options)
        if not is_savepoint(savepoint):
            result = apply(history.batch(), savepoint_to=savepoint)
            result.write.mode("overwrite").parquet(str(place / "past"))
        (place / "batch is done").touch()
        while not (place.parent / "all is there").exists():
            time.sleep(0.05)
        later = history.stream(savepoint)
        rows = apply(later, from_savepoint=savepoint)
    else:
        reader = spark.readStream.schema(SCHEMA).options(**options)
        rows = apply(reader.parquet(log))
    writing = rows.writeStream.format("parquet").option("path", str(place / "live"))
    writing = writing.option("checkpointLocation", str(place / "checkpoint"))
    writing.trigger(availableNow=True).start().awaitTermination()


def digest(places: list[Path]) -> list[tuple[int, str]]:
    """Return the number of rows of each place, and the sum of their hashes."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

    spark = SparkSession.builder.master("local[2]").config(map=_SETTINGS).getOrCreate()
    found = []
    for place in places:
        rows = spark.read.parquet(str(place / "live"))
        if (place / "past").exists():
            rows = rows.union(spark.read.parquet(str(place / "past")).select(rows.columns))
        hashed = F.sum(F.xxhash64(*rows.columns).cast("decimal(38,0)"))
        (row,) = rows.agg(F.count("*"), hashed).collect()
        found.append((int(row[0]), str(row[1])))
    return found


# The runs


class Runs:
    """Runs drivers as processes.

    Args:
        root: The folder of all files.
        program: "sessions" or "chain".
    """

    def __init__(self, root: Path, program: str) -> None:
        self.root, self._program = root, program

    def start(self, name: str, *, history_first: bool) -> subprocess.Popen[bytes]:
        """Start a driver."""
        (self.root / name).mkdir(exist_ok=True)
        job = {"place": str(self.root / name), "program": self._program, "first": history_first}
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            **os.environ,
            "PYTHONPATH": path,
        }
        with (self.root / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, __file__, "--job", json.dumps(job)],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def finish(self, process: subprocess.Popen[bytes], name: str) -> None:
        """Wait for a driver, which must succeed."""
        if process.wait():
            sys.exit(f"{name}: {(self.root / f'{name}.log').read_text()[-3000:]}")

    def kill_when(
        self, name: str, condition: Callable[[Path], bool], *, history_first: bool
    ) -> bool:
        """Start a driver, and kill it with its JVM and workers when a condition holds."""
        process, place = self.start(name, history_first=history_first), self.root / name
        while process.poll() is None:
            if condition(place):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return True
            time.sleep(0.02)
        self.finish(process, name)
        return False


def is_in_batch(place: Path) -> bool:
    """Return whether a task of the batch has begun to write, and none has ended all."""
    return any(place.glob("savepoint/operators/*/states/*/*.parquet"))


def is_in_first_batches(place: Path) -> bool:
    """Return whether the stream has committed a micro-batch."""
    return any(place.glob("checkpoint/commits/[0-9]*"))


def measure(root: Path, records: int, program: str, users: int) -> dict[str, Any]:
    """Run all three, and compare them."""
    runs, past = Runs(root, program), records * 9 // 10
    write_log(root / "log", 0, past, 8, users)

    begin = time.monotonic()
    process = runs.start("first", history_first=True)
    while process.poll() is None and not (root / "first" / "batch is done").exists():
        time.sleep(0.02)
    batch = time.monotonic() - begin
    write_log(root / "log", past, records - past, 6, users)
    (root / "all is there").touch()
    runs.finish(process, "first")
    first = time.monotonic() - begin

    begin = time.monotonic()
    runs.finish(runs.start("stream", history_first=False), "stream")
    stream = time.monotonic() - begin

    # It finds all records as history: that is another cut, of the same rows.
    killed = [
        runs.kill_when("killed", condition, history_first=True)
        for condition in (is_in_batch, is_in_first_batches)
    ]
    runs.finish(runs.start("killed", history_first=True), "killed")
    found = digest([root / name for name in ("stream", "first", "killed")])
    return {
        "program": program,
        "records": records,
        "seconds": {
            "stream": round(stream, 1),
            "batch": round(batch, 1),
            "history first": round(first, 1),
        },
        "ratio": round(stream / first, 2),
        "killed": killed,
        "rows": found,
        "equal": len(set(found)) == 1,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--program", choices=("sessions", "chain"), default="sessions")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job = json.loads(options.job)
        drive(Path(job["place"]), job["program"], history_first=job["first"])
        return
    root = Path(tempfile.mkdtemp(prefix="history-first-"))
    try:
        found = measure(root, options.records, options.program, options.users)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(found, indent=1))
    sys.exit(not found["equal"])


if __name__ == "__main__":
    main()
