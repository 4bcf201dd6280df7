# SPDX-License-Identifier: Apache-2.0
"""Spark's own `transformWithState` in Scala, keyed per user key, run by spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pyspark
from inputs import Shape, write_batches
from paths import SCALA_JAR
from results import Result, UnavailableError
from spark_run import MASTER, SETTINGS, ddl, judged
from workloads import Workload

_SPARK_HOME = Path(pyspark.__file__).parent
_NO_LIMIT = (1 << 63) - 1


def measure(side: str, workload: Workload, shape: Shape) -> Result:
    """One run in a JVM of its own, after one that warms it.

    Raises:
        UnavailableError: It was not compiled.
    """
    if not SCALA_JAR.exists():
        msg = f"no {SCALA_JAR}; run bench/setup_peers.sh"
        raise UnavailableError(msg)
    limit = workload.limit(shape)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = Path(scratch)
        write_batches(folder / "in", shape, list(workload.columns))
        command = [str(_SPARK_HOME / "bin" / "spark-submit"), "--master", MASTER]
        for name, value in SETTINGS.items():
            command += ["--conf", f"{name}={value}"]
        command += ["--class", "pyflinklike.bench.TwsBench", str(SCALA_JAR)]
        command += [workload.name, ddl(workload), str(folder / "in"), str(folder / "checkpoints")]
        command += [str(shape.total), str(_NO_LIMIT if limit is None else limit)]
        command.append(str(folder / "progress"))
        environment = os.environ | {"SPARK_HOME": str(_SPARK_HOME)}
        ended = subprocess.run(
            command, check=False, env=environment, capture_output=True, text=True
        )
        if ended.returncode:
            raise RuntimeError(ended.stderr[-3000:])
        lines = (folder / "progress").read_text().splitlines()
    return judged(side, workload, shape, [json.loads(line) for line in lines])
