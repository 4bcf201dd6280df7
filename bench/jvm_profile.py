# SPDX-License-Identifier: Apache-2.0
"""The time of Spark's JVM by part, for a stream of ours and the floor, by Java's flight recorder.

Both stream W1, once to warm the JVM and once recorded.  A sample stands for 10 ms in which a thread
ran Java code; it counts for the first part that has one of the frames on its stack.  The samples do
not include the JVM's compiler and garbage collector.

    python bench/jvm_profile.py                      # ours_heap and the floor, 200 k a batch
    python bench/jvm_profile.py --sides ours_columns,floor --records 1000000 --frames 20
    python bench/jvm_profile.py --set spark.sql.execution.arrow.maxRecordsPerBatch=50000
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import paths  # noqa: F401 - the workers' path, before Spark starts
from inputs import Shape
from matrix import SIDES
from pyspark.sql import SparkSession
from spark_run import MASTER, SETTINGS, stop
from workloads import WORKLOADS

_CONFIGURATION = """<?xml version="1.0" encoding="UTF-8"?>
<configuration version="2.0">
  <event name="jdk.ExecutionSample"><setting name="enabled">true</setting>
    <setting name="period">10 ms</setting></event>
  <event name="jdk.NativeMethodSample"><setting name="enabled">false</setting></event>
</configuration>
"""
PARTS = {
    "compiling queries (janino)": ("org.codehaus.janino", "org.codehaus.commons"),
    "state server: calls of Python": ("TransformWithStateInPySparkStateServer",),
    "state store": ("streaming.state.", "org.rocksdb"),
    "Arrow, JVM to Python": (
        "ArrowWriter",
        "PythonArrowInput",
        "VectorLoader",
        "ArrowStreamWriter",
    ),
    "Arrow, Python to JVM": ("PythonArrowOutput", "ArrowStreamReader", "ArrowColumnVector"),
    "Parquet": ("parquet",),
    "shuffle": ("spark.shuffle", "ShuffleWriter", "ShuffleExternalSorter", "UnsafeExternalSorter"),
    "observed metrics, aggregation": ("AggregatingAccumulator", "CollectMetrics", "aggregate"),
    "planning": ("sql.catalyst", "QueryExecution", "QueryPlan"),
    "logs of the checkpoint": ("checkpointing", "HDFSMetadataLog", "OffsetSeqLog", "CommitLog"),
    "generated code": ("GeneratedIterator", "GeneratedClass"),
    "scheduling, events": ("spark.scheduler", "LiveListenerBus", "spark.storage", "spark.rpc"),
    "py4j": ("py4j",),
}
"""What a sample counts for: the first part one of whose names is in one of its frames."""


@attrs.frozen
class Samples:
    """The samples of a run.

    Args:
        parts: Samples by part.
        frames: By the method that ran.
        count: The number of micro-batches.
    """

    parts: Counter[str]
    frames: Counter[str]
    count: int


def _stacks(recording: Path) -> Iterator[list[str]]:
    command = ["jfr", "print", "--json", "--stack-depth", "64"]
    command += ["--events", "jdk.ExecutionSample", str(recording)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for event in json.loads(printed)["recording"]["events"]:
        trace = event["values"]["stackTrace"]
        if trace:
            methods = (frame["method"] for frame in trace["frames"])
            yield [f"{each['type']['name']}.{each['name']}".replace("/", ".") for each in methods]


def _part(stack: list[str]) -> str:
    for part, names in PARTS.items():
        if any(name in frame for frame in stack for name in names):
            return part
    return "other"


def recorded(side: str, shape: Shape, folder: Path, more: dict[str, str]) -> Samples:
    """Run a side in a JVM of its own, warmed by a first run."""
    settings = folder / "profile.jfc"
    settings.write_text(_CONFIGURATION)
    builder: Any = SparkSession.builder.master(MASTER).appName("pyflinklike-bench")
    for name, value in (SETTINGS | more).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    chosen, workload = SIDES[side], WORKLOADS["W1"]
    recording = folder / f"{side}.jfr"
    try:
        chosen.measure(spark, side, workload, shape)
        jvm = spark.sparkContext._gateway.proc.pid
        options = [f"settings={settings}", "name=bench"]
        _jcmd(jvm, "JFR.start", *options)
        chosen.measure(spark, side, workload, shape)
        _jcmd(jvm, "JFR.stop", "name=bench", f"filename={recording}")
    finally:
        stop(spark)
    parts, frames = Counter[str](), Counter[str]()
    for stack in _stacks(recording):
        parts[_part(stack)] += 1
        frames[stack[0]] += 1
    return Samples(parts, frames, shape.batches)


def _jcmd(pid: int, *command: str) -> None:
    java = subprocess.run(
        ["pgrep", "-P", str(pid), "java"], check=False, capture_output=True, text=True
    ).stdout.split()
    subprocess.run(["jcmd", (java or [str(pid)])[0], *command], check=True, capture_output=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sides", default="ours_heap,floor")
    parser.add_argument("--records", type=int, default=200_000, help="of a micro-batch")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--frames", type=int, default=12, help="methods to list")
    parser.add_argument("--set", nargs="*", default=[], help="settings of Spark, name=value")
    options = parser.parse_args()
    more = dict(each.split("=", 1) for each in options.set)
    shape = Shape(options.records, options.batches, 100_000)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        runs = {
            each: recorded(each, shape, Path(folder), more) for each in options.sides.split(",")
        }
    print(f"| ms of CPU a micro-batch | {' | '.join(runs)} |")
    print("|---|" + "---:|" * len(runs))
    for part in [*PARTS, "other"]:
        cells = [f"{run.parts[part] * 10 / run.count:.0f}" for run in runs.values()]
        print(f"| {part} | {' | '.join(cells)} |")
    total = [f"{run.parts.total() * 10 / run.count:.0f}" for run in runs.values()]
    print(f"| all | {' | '.join(total)} |")
    for side, run in runs.items():
        print(f"\n{side}, what ran:")
        for frame, count in run.frames.most_common(options.frames):
            print(f"  {count * 10 / run.count:6.1f} ms  {frame}")


if __name__ == "__main__":
    main()
