# SPDX-License-Identifier: Apache-2.0
"""The paths of the benchmarks, also for child processes.

Import it first: it puts `bench/` and the checkout on the path of Spark's workers and of child
processes, so that they can import the modules by name.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
PEERS = Path(os.environ.get("BENCH_PEERS", Path.home() / ".cache" / "pyflinklike-bench"))
"""What `setup_peers.sh` has made: Flink's virtual environment and the compiled jars."""

FLINK_PYTHON = PEERS / "flink-venv" / "bin" / "python"
FLINK_JAR = PEERS / "flink-bench.jar"
SCALA_JAR = PEERS / "spark-bench.jar"


def prepare() -> None:
    """Put the benchmark and the checkout on the path, here and in child processes."""
    for folder in (str(ROOT), str(BENCH)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    inherited = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    ours = [each for each in (str(BENCH), str(ROOT)) if each not in inherited]
    os.environ["PYTHONPATH"] = os.pathsep.join(ours + inherited)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


prepare()
