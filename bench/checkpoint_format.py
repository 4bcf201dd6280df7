# SPDX-License-Identifier: Apache-2.0
"""The cost of Spark's second checkpoint format per micro-batch, against the first.

It runs W1 with 100 records a micro-batch, which mostly writes checkpoint files, and with 200 k.
Each round runs every variant once in the same JVM, and every second round reverses the order.  So
slow changes (a JVM that still compiles, a machine that grows warm) affect all variants alike.  Each
difference to format 1 compares two runs of the same round.

    python bench/checkpoint_format.py            # some 10 minutes on 2 quiet cores
    python bench/checkpoint_format.py --quick    # that it works; its times mean nothing
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import attrs
import pyspark
from checkpoints import Run, measured, processes, recording_session
from inputs import Shape
from spark_run import stop

_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_CHECKSUM = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
_LOCAL_FS = "fs.AbstractFileSystem.file.impl"
_RAW = {_LOCAL_FS: "org.apache.hadoop.fs.local.RawLocalFs"}
_FIRST = "format 1"

VARIANTS: dict[str, dict[str, str]] = {
    _FIRST: {_FORMAT: "1", **_RAW},
    "format 2": {_FORMAT: "2", **_RAW},
    "format 2, without Spark's checksum files": {_FORMAT: "2", _CHECKSUM: "false", **_RAW},
    "format 1, with Hadoop's checksum files": {_FORMAT: "1"},
    "format 2, with Hadoop's checksum files": {_FORMAT: "2"},
}
"""By what is said in the table: settings of the session."""


@attrs.frozen
class Size:
    """How much is streamed.

    Args:
        name: In the table.
        shape: Of the input.
        rounds: How often each variant runs.
    """

    name: str
    shape: Shape
    rounds: int


def sizes(*, quick: bool) -> list[Size]:
    """The small micro-batch, and W1 at its full size."""
    if quick:
        return [Size("small", Shape(100, 4, 100), 1), Size("W1", Shape(2_000, 4, 1_000), 1)]
    return [
        Size("small", Shape(100, 14, 100), 6),
        Size("W1", Shape(200_000, 8, 100_000), 4),
    ]


def medians(runs: list[Run]) -> list[float]:
    """The median of each run in ms."""
    return [statistics.median(run.seconds) * 1000 for run in runs]


def row(size: Size, name: str, runs: dict[str, list[Run]], started: list[float]) -> dict[str, Any]:
    """Return a variant's row; the difference to format 1 compares runs of the same round."""
    mine, first = medians(runs[name]), medians(runs[_FIRST])
    more = [one - other for one, other in zip(mine, first)]
    count = sum(run.began <= at <= run.ended for run in runs[name] for at in started)
    return {
        "size": size.name,
        "variant": name,
        "ms": statistics.median(mine),
        "min": min(mine),
        "max": max(mine),
        "more": statistics.median(more),
        "more_min": min(more),
        "more_max": max(more),
        "processes": count / (len(runs[name]) * size.shape.batches),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it works")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    every = sizes(quick=options.quick)
    runs: dict[str, dict[str, list[Run]]] = {
        size.name: {name: [] for name in VARIANTS} for size in every
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        recording = Path(folder) / "processes.jfr"
        spark = recording_session(recording)
        for size in every:
            measured(spark, VARIANTS[_FIRST], size.shape)  # warms the JVM
            for number in range(size.rounds):
                order = list(VARIANTS) if number % 2 == 0 else list(reversed(VARIANTS))
                for name in order:
                    runs[size.name][name].append(measured(spark, VARIANTS[name], size.shape))
        stop(spark)
        started = processes(recording)
    rows = [row(size, name, runs[size.name], started) for size in every for name in VARIANTS]
    print(f"PySpark {pyspark.__version__}; medians of runs, in ms a micro-batch (min to max)")
    print("| size | checkpoint | ms a micro-batch | more than format 1 | processes a batch |")
    print("|---|---|---:|---:|---:|")
    for each in rows:
        print(
            "| {size} | {variant} | {ms:.0f} ({min:.0f} to {max:.0f}) | "
            "{more:+.0f} ({more_min:+.0f} to {more_max:+.0f}) | {processes:.1f} |".format(**each)
        )
    if options.json:
        options.json.write_text(
            json.dumps({"pyspark": pyspark.__version__, "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
