# SPDX-License-Identifier: Apache-2.0
"""A standalone Spark cluster on loopback addresses: a master, workers, and jobs submitted to it.

python = python_with(tmp_path / "env", packages_but_ours(tmp_path / "packages"))
with Cluster(tmp_path, python) as cluster:
    cluster.add_worker()
    done = cluster.submit(["--py-files", "x.zip", "job.py"], cwd=tmp_path)
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyspark
from typing_extensions import Self

_SPARK_HOME = Path(pyspark.__file__).parent
_PATIENCE = 120
_POLL_SECONDS = 0.05
_SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ALONE = re.compile(r"pyflinklike|__editable__|__pycache__")

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": _SMALL,
    "spark.executor.extraJavaOptions": _SMALL,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def packages_but_ours(directory: Path) -> Path:
    """Links to all packages of the running environment, but for pyflinklike."""
    directory.mkdir(parents=True)
    for entry in Path(pyspark.__file__).resolve().parents[1].iterdir():
        if not _ALONE.search(entry.name) and entry.suffix != ".pth":
            (directory / entry.name).symlink_to(entry)
    return directory


def python_with(directory: Path, *paths: Path) -> Path:
    """The Python of a new environment that has nothing but what lies under some paths."""
    venv.create(directory, with_pip=False, symlinks=True)
    # venv-pack takes a path in a .pth file for an editable package, and refuses it.
    lines = ["import sys", f"sys.path += {list(map(str, paths))!r}"]
    (site_packages(directory) / "sitecustomize.py").write_text("\n".join(lines))
    return directory / "bin" / "python"


def site_packages(environment: Path) -> Path:
    """Where an environment has its packages."""
    return next(environment.glob("lib/python*/site-packages"))


@attrs.define
class Worker:
    """A worker of the cluster: a JVM that starts executors."""

    host: str
    process: subprocess.Popen[bytes]

    def executors(self) -> list[int]:
        """The process ids of its executors."""
        return [pid for pid, parent in _parents() if parent == self.process.pid]

    def kill(self) -> None:
        """`kill -9` of the worker and its executors, as when a machine fails."""
        stop(self.process)


class Cluster:
    """A standalone master and its workers, each with one core; they end with the block.

    Args:
        directory: For logs and the workers' directories.
        python: What jobs run on, driver and executors alike.
    """

    def __init__(self, directory: Path, python: Path) -> None:
        self.directory = directory
        self.python = python
        self.workers: list[Worker] = []
        self._stack = contextlib.ExitStack()
        self._log = directory / "cluster.log"
        self.url = ""

    def __enter__(self) -> Self:
        self._start("master.Master", "--host", "127.0.0.1", "--port", "0")
        found = await_that(lambda: re.search(r"spark://127\.0\.0\.1:\d+", self._logged()))
        self.url = found[0]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add_worker(self) -> Worker:
        """Start a worker on a loopback address of its own."""
        host = f"127.0.0.{len(self.workers) + 2}"
        work = self.directory / "work" / host
        process = self._start(
            *("worker.Worker", "--host", host, "--port", "0", "--cores", "1"),
            *("--memory", "1g", "--work-dir", str(work), self.url),
        )
        await_that(
            lambda: (
                len(re.findall("Successfully registered", self._logged())) == len(self.workers) + 1
            )
        )
        self.workers.append(Worker(host, process))
        return self.workers[-1]

    def submit(
        self, arguments: Sequence[str], cwd: Path, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """`spark-submit`, until the job ends.

        Args:
            arguments: Of `spark-submit`, after those that every job has.
            cwd: The working directory of the driver.
            settings: Of Spark, with `_` for `.`.
        """
        return subprocess.run(
            self.command(arguments, settings),
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE * 2,
        )

    @contextlib.contextmanager
    def running(
        self, arguments: Sequence[str], log: Path, **settings: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """`spark-submit` of a job that goes on meanwhile, and ends with the block at the latest."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.command(arguments, settings),
                cwd=log.parent,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            yield process
        finally:
            stop(process)

    def command(self, arguments: Sequence[str], settings: Mapping[str, str]) -> list[str]:
        """The command line of `submit`."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        confs = {**SETTINGS, "spark.pyspark.python": str(self.python), **given}
        pairs = [part for pair in confs.items() for part in ("--conf", "=".join(pair))]
        return [str(_SPARK_HOME / "bin" / "spark-submit"), "--master", self.url, *pairs, *arguments]

    def _start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(_SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}"]
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [*command, "--webui-port", "0", *arguments],
                env={**environment(), "SPARK_DAEMON_MEMORY": "128m"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._stack.callback(stop, process)
        return process

    def _logged(self) -> str:
        return self._log.read_text(errors="replace")


def environment() -> dict[str, str]:
    """The environment of a shell that knows nothing of this checkout."""
    alien = {"PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "SPARK_HOME"}
    own = {name: value for name, value in os.environ.items() if name not in alien}
    return {
        **own,
        "SPARK_HOME": str(_SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
        "SPARK_DAEMON_JAVA_OPTS": _SMALL,
    }


def stop(process: subprocess.Popen[Any]) -> None:
    """`kill -9` a process, its children and theirs."""
    family = [process.pid]
    for parent in family:
        family += [pid for pid, of in _parents() if of == parent and pid not in family]
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def await_that(condition: Callable[[], Any], patience: float = _PATIENCE) -> Any:
    """Poll until something is so, and give it; an error where it never is."""
    end = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError("never happened")
        time.sleep(_POLL_SECONDS)
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # After the name, which may hold anything: state, parent.
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
            yield int(directory.name), int(fields[1])
