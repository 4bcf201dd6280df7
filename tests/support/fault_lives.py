# SPDX-License-Identifier: Apache-2.0
"""Drivers in processes of their own, which a test may kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from surroundings import REPOSITORY, SPARK_SETTINGS

_SUPPORT = Path(__file__).resolve().parent
SETTINGS = {
    **SPARK_SETTINGS,
    # Most of a short life would go into compiling.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.executor.extraJavaOptions": SPARK_SETTINGS["spark.driver.extraJavaOptions"],
}


@attrs.frozen
class Job:
    """What a driver shall do.

    Args:
        queries: The root of a `fault_support.Place` and the name of a backend, each.
        settings: Of Spark, besides the usual ones.
        tries: How often a query that fails is started.
        hosts: Of the workers of a cluster of its own; none for a local master.
    """

    queries: list[tuple[Path, str]]
    settings: dict[str, str]
    tries: int = 1
    hosts: tuple[str, ...] = ()


@contextlib.contextmanager
def driver(job: Job, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver and its JVM, in a session of their own that ends with the block."""
    described = {**attrs.asdict(job), "settings": {**SETTINGS, **job.settings}}
    with program("fault_driver.py", described, log) as process:
        yield process


@contextlib.contextmanager
def program(name: str, described: dict[str, Any], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of `tests/support`, in a session of its own that ends with the block.

    Args:
        name: Of its file.
        described: What it shall do, which it is given as JSON.
        log: Where its output is appended.
    """
    with started([str(_SUPPORT / name), json.dumps(described, default=str)], log) as process:
        yield process


@contextlib.contextmanager
def started(arguments: list[str], log: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Python, in a session of its own that ends with the block.

    Args:
        arguments: Of `python`.
        log: Where its output is appended.
        variables: Of its environment.
    """
    python_path = os.pathsep.join(map(str, [REPOSITORY, _SUPPORT.parent, _SUPPORT]))
    environment = {
        **{name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
        "PYTHONPATH": os.pathsep.join(filter(None, [python_path, os.environ.get("PYTHONPATH")])),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
        **variables,
    }
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """`kill -9` of a driver and all processes of its session, Python's workers as well."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for left in session_of(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)


def session_of(leader: int) -> Iterator[int]:
    """The processes of a session that still run."""
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # After the name, which may hold anything: state, parent, group, session.
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                yield int(directory.name)


def run(job: Job, log: Path, patience: float = 500) -> None:
    """Run a driver to its end; an error with its log where it fails."""
    with driver(job, log) as process:
        code = process.wait(patience)
    if code:
        raise AssertionError(f"the driver ended with {code}\n{log.read_text()[-5_000:]}")
