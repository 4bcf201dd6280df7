# SPDX-License-Identifier: Apache-2.0
"""PyFlink in thread and process mode, and the same jobs in Java on the same jars.

A Flink job has no micro-batches.  Its sink notes when outputs come.  A "batch" is an equal share of
the outputs; the first share includes the job's start-up and is dropped.  The job takes a checkpoint
every two seconds.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import tempfile
from pathlib import Path

from inputs import Shape
from paths import FLINK_JAR, FLINK_PYTHON
from results import Check, Result, UnavailableError
from workloads import Workload

from sides.floor import expected

CHECKPOINT_MS = 2000
PARALLELISM = 2
_NO_LIMIT = (1 << 63) - 1
_PATIENCE_SECONDS = 300
_BACKENDS = {"heap": "hashmap", "rocksdb": "rocksdb"}
_JAVA_OPENS = ("java.util", "java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch")


def pyflink(side: str, workload: Workload, shape: Shape, backend: str, mode: str) -> Result:
    """One run of a Python job.

    Args:
        side: Names the side.
        workload: Which.
        shape: How much.
        backend: "heap" or "rocksdb".
        mode: "thread" or "process".

    Raises:
        UnavailableError: There is no PyFlink.
    """
    _check_installed()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        task = {
            "workload": workload.name,
            "backend": _BACKENDS[backend],
            "mode": mode,
            "total": shape.total,
            "records": shape.records,
            "keys": shape.keys,
            "limit": _limit(workload, shape),
            "folder": folder,
            "jar": str(FLINK_JAR),
            "checkpoint_ms": CHECKPOINT_MS,
            "parallelism": PARALLELISM,
            "every": _outputs_between_notes(workload, shape),
        }
        script = Path(__file__).resolve().parent.parent / "flink_job.py"
        _run([str(FLINK_PYTHON), str(script), json.dumps(task)], folder)
        return _result(side, workload, shape, Path(folder))


def java(side: str, workload: Workload, shape: Shape, backend: str) -> Result:
    """One run of a Java job, after one that warms the JVM.

    Raises:
        UnavailableError: There are no Flink jars.
    """
    _check_installed()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        command = ["java", "-Xmx4g"]
        command += [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in _JAVA_OPENS]
        command += ["-cp", f"{FLINK_JAR}:{_site_packages()}/pyflink/lib/*"]
        command += ["pyflinklike.bench.FlinkBench", workload.name, _BACKENDS[backend]]
        command += [str(shape.total), str(shape.records), str(shape.keys)]
        command += [str(_limit(workload, shape)), folder, str(CHECKPOINT_MS), str(PARALLELISM)]
        command.append(str(_outputs_between_notes(workload, shape)))
        _run(command, folder)
        return _result(side, workload, shape, Path(folder))


def _check_installed() -> None:
    for path in (FLINK_PYTHON, FLINK_JAR):
        if not path.exists():
            msg = f"no {path}; run bench/setup_peers.sh"
            raise UnavailableError(msg)


def _site_packages() -> Path:
    return next((FLINK_PYTHON.parent.parent / "lib").glob("python*/site-packages"))


def _outputs_between_notes(workload: Workload, shape: Shape) -> int:
    """So that a share's end is known within a fiftieth of it, and noting costs nothing."""
    per_share = expected(workload.name, shape).rows // shape.batches
    return min(max(per_share // 50, 1), 500)


def _limit(workload: Workload, shape: Shape) -> int:
    limit = workload.limit(shape)
    return _NO_LIMIT if limit is None else limit


def _run(command: list[str], folder: str) -> None:
    # Thread mode embeds Python in the JVM, which finds its packages by this path.
    environment = {
        name: value
        for name, value in os.environ.items()
        if "SPARK" not in name and "FLINK" not in name
    }
    environment["PYTHONPATH"] = str(_site_packages())
    environment["PATH"] = f"{FLINK_PYTHON.parent}:{environment['PATH']}"
    environment["VIRTUAL_ENV"] = str(FLINK_PYTHON.parent.parent)
    ended = subprocess.run(
        command,
        check=False,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
    )
    if ended.returncode:
        raise RuntimeError((ended.stdout + ended.stderr)[-3000:])


def _result(side: str, workload: Workload, shape: Shape, folder: Path) -> Result:
    rows, total = 0, 0.0
    events: list[tuple[int, int]] = []
    for path in folder.glob("sink-*"):
        first, *lines = path.read_text().splitlines()
        counted, added = first.split()
        rows += int(counted)
        total += float(added) if "." in added else int(added)
        former = 0
        for line in lines:
            nanos, outputs = map(int, line.split())
            events.append((nanos, outputs - former))
            former = outputs
    Check(rows, total).must_be(expected(workload.name, shape), f"{side}, {workload.name}")
    return Result(side, workload.name, shape, _shares(sorted(events), shape.batches))


def _shares(events: list[tuple[int, int]], count: int) -> tuple[float, ...]:
    """Seconds from each n-th part of the outputs to the next, the first part left out."""
    every = sum(outputs for _, outputs in events)
    ends: list[int] = []
    seen = 0
    for nanos, outputs in events:
        seen += outputs
        while len(ends) < count and seen * count >= every * (len(ends) + 1):
            ends.append(nanos)
    return tuple((end - start) / 1e9 for start, end in itertools.pairwise(ends))
