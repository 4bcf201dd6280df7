# SPDX-License-Identifier: Apache-2.0
"""The cost of Spark's checkpoint files per small micro-batch on a local disk, in several variants.

If Hadoop's native library is absent, its local file system starts `chmod` and `readlink` for files.
The variants take turns in one JVM and stream W1 with 100 records a micro-batch.  Java's flight
recorder counts the processes that the JVM starts.

    python bench/checkpoints.py            # some 3 minutes on 2 quiet cores

For Spark's own checksum files, which only its second format has, see `checkpoint_format.py`.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs
import paths  # noqa: F401 - the workers' path, before Spark starts
from inputs import Shape
from pyspark.sql import SparkSession
from sides.ours import transform
from spark_run import MASTER, SETTINGS, progress_of, stop
from workloads import WORKLOADS, RunningCount

_LOCAL_FS = "fs.AbstractFileSystem.file.impl"

VARIANTS: dict[str, dict[str, str]] = {
    "as Spark has it": {},
    "no checksum files of Hadoop's": {_LOCAL_FS: "org.apache.hadoop.fs.local.RawLocalFs"},
}
"""By what is said in the table: settings of the session."""


@attrs.frozen
class Run:
    """One stream: the seconds of its micro-batches, and when it ran."""

    seconds: list[float]
    began: float
    ended: float


def measured(spark: SparkSession, settings: dict[str, str], shape: Shape) -> Run:
    """Stream W1 under some settings, the first micro-batches dropped."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    began = time.time()
    try:
        workload = WORKLOADS["W1"]
        query = functools.partial(transform(workload, "heap", RunningCount))
        progress = progress_of(spark, workload, shape, query)
    finally:
        for name in settings:
            spark.conf.unset(name)
    ran = [each for each in progress if each["numInputRows"]]
    seconds = [each["durationMs"]["triggerExecution"] / 1000 for each in ran[2:]]
    return Run(seconds, began, time.time())


def processes(recording: Path) -> list[float]:
    """When the JVM started processes, in seconds since the epoch."""
    command = ["jfr", "print", "--json", "--events", "jdk.ProcessStart", str(recording)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    events = json.loads(printed)["recording"]["events"]
    return [_seconds(each["values"]["startTime"]) for each in events]


def _seconds(text: str) -> float:
    from datetime import datetime

    head, _, rest = text.partition(".")
    digits = rest.rstrip("Z").split("+")[0][:6]
    return datetime.fromisoformat(f"{head}.{digits:0<6}+00:00").timestamp()


def recording_session(recording: Path) -> Any:
    """A session whose JVM records the processes it starts."""
    options = f"-XX:StartFlightRecording=filename={recording},dumponexit=true"
    builder = SparkSession.builder.master(MASTER).appName("pyflinklike-bench")
    settings = {name: value for name, value in SETTINGS.items() if not name.endswith(_LOCAL_FS)}
    for name, value in {**settings, "spark.driver.extraJavaOptions": options}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=12)
    options = parser.parse_args()
    shape = Shape(100, options.batches, 100)
    runs: dict[str, list[Run]] = {name: [] for name in VARIANTS}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        recording = Path(folder) / "processes.jfr"
        spark = recording_session(recording)
        measured(spark, {}, shape)  # warms the JVM
        for _ in range(options.rounds):
            for name, settings in VARIANTS.items():
                runs[name].append(measured(spark, settings, shape))
        stop(spark)
        started = processes(recording)
    print("| checkpoint files | ms a micro-batch: median | min | max | processes a batch |")
    print("|---|---:|---:|---:|---:|")
    for name, mine in runs.items():
        ms = [each * 1000 for run in mine for each in run.seconds]
        count = sum(run.began <= at <= run.ended for run in mine for at in started)
        each = count / (len(mine) * options.batches)
        median = statistics.median(ms)
        print(f"| {name} | {median:.0f} | {min(ms):.0f} | {max(ms):.0f} | {each:.1f} |")


if __name__ == "__main__":
    main()
