# SPDX-License-Identifier: Apache-2.0
"""How much slower a query's micro-batches are while another process reads its state.

The query of `state_as_data.py` on one core, alone and beside a process that reads all of its state
over and over on another core, in turns.  The reader begins with reads that warm its JVM.  Figures are
of one run, to be compared with each other only.

    python bench/reading_beside.py                      # 200,000 keys; some two minutes on 2 quiet cores
    python bench/reading_beside.py --by replica         # a replica that follows and is asked instead
    python bench/reading_beside.py --pin                # either process on a core of its own, JVM and all
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import paths  # noqa: F401 - the workers' path, before Spark starts
import state_as_data
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from state_as_data import counted, drained, session, write_input

from pyflinklike.errors import PyflinklikeError
from pyflinklike.queryable_state import QueryableState
from pyflinklike.state_processor import read_state

_TURNS = 2
_WARM_UP = 10


def batches(spark: SparkSession, source: Path, checkpoint: Path) -> list[float]:
    """How long each micro-batch but the first took, in seconds."""
    writer = counted(spark, source, max_parallelism=16).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    every = [each["durationMs"]["triggerExecution"] for each in query.recentProgress]
    return [each / 1000 for each in every[1:]]


def wanted(now: Path) -> str:
    """The checkpoint to be read; empty once that is over."""
    try:
        return now.read_text()
    except FileNotFoundError:
        return ""


def read(by: str, root: Path) -> None:
    """Read what the file `now` names until it is gone, and tell how often."""
    spark, reads = session("1g", cores=1), 0
    now = root / "now"
    for _ in range(_WARM_UP):
        drained(read_state(spark, wanted(now), "count"))
    (root / "ready").touch()
    while checkpoint := wanted(now):
        try:
            if by == "read_state":
                drained(read_state(spark, checkpoint, "count"))
                reads += 1
                continue
            with QueryableState.open(spark, checkpoint) as state:
                while wanted(now) == checkpoint:
                    state["count"].get_many(f"user-{at}" for at in range(1000))
                    reads += 1
        except PyflinklikeError:
            pass  # no batch is committed yet
    (root / "reads").write_text(str(reads))
    spark.stop()


def measured(
    spark: SparkSession, root: Path, keys: int, reader_options: list[str]
) -> dict[str, Any]:
    """All figures."""
    command = [sys.executable, __file__, *reader_options, "--read", str(root)]
    source = root / "in"
    found: dict[str, list[float]] = {"alone": [], "beside": []}
    source.mkdir()
    write_input(spark, source, keys)
    batches(spark, source, root / "warm")
    now = root / "now"
    for turn in range(_TURNS):
        found["alone"] += batches(spark, source, root / f"alone-{turn}")
        now.write_text(str(root / "warm"))
        reader = subprocess.Popen(command)
        while not (root / "ready").exists():
            if reader.poll() is not None:
                raise SystemExit("the reader ended")
            time.sleep(0.1)
        written = root / "_now"
        written.write_text(str(root / f"beside-{turn}"))
        written.rename(now)
        found["beside"] += batches(spark, source, root / f"beside-{turn}")
        now.unlink()
        reader.wait()
        (root / "ready").unlink()
    medians = {name: round(statistics.median(each), 3) for name, each in found.items()}
    return {
        "keys": keys,
        "reader": reader_options,
        "median seconds of a batch": medians,
        "beside, in times of alone": round(medians["beside"] / medians["alone"], 2),
        "reads in the last turn": int((root / "reads").read_text()),
    }


def main() -> None:
    """Measure, and print; with `--read` be the reader."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--by", choices=["read_state", "replica"], default="read_state")
    parser.add_argument("--pin", action="store_true", help="either process on a core of its own")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.pin:
        # Inherited by the JVM and the workers, which are started below.
        os.sched_setaffinity(0, {0 if given.read is None else 1})
    if given.read is not None:
        read(given.by, given.read)
        return
    cloudpickle.register_pickle_by_value(state_as_data)  # type: ignore[no-untyped-call]
    spark = session("1g", cores=1)
    root = Path(tempfile.mkdtemp(prefix="reading-beside-"))
    try:
        options = ["--by", given.by, *(["--pin"] if given.pin else [])]
        print(json.dumps(measured(spark, root, given.keys, options), indent=1))
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
