# SPDX-License-Identifier: Apache-2.0
"""The daemon of workers answers as PySpark's own one does, whatever the packages do that it imports."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from surroundings import REPOSITORY

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

LOUD = """
import os, sys
print("text")
os.write(1, b"bytes")
raise {error}
"""
WITH_A_THREAD = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


@contextmanager
def daemon_with(folder: Path, package: str) -> Iterator[tuple[int, int]]:
    """A daemon that finds this text as the package `rocksdict`: its process and its port."""
    (folder / "rocksdict.py").write_text(package, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(folder), str(REPOSITORY))),
        "PYTHON_WORKER_FACTORY_SECRET": "none",
    }
    command = [sys.executable, "-m", "pyflinklike.spark.daemon", "pyspark.worker"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as daemon:
        assert daemon.stdout is not None
        yield daemon.pid, int(struct.unpack("!i", daemon.stdout.read(4))[0])
        daemon.communicate()


def worker_of(port: int) -> int:
    """The process of a new worker; it is on the same machine as the test."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        return int(struct.unpack("!i", connection.recv(4))[0])


@pytest.mark.parametrize("error", ["ImportError('planted')", "ValueError('planted')", "SystemExit"])
def test_a_package_that_cannot_be_imported_is_left_to_the_workers(tmp_path: Path, error: str):
    """Neither its error nor what it prints reaches Spark, which reads the port where it printed."""
    with daemon_with(tmp_path, LOUD.format(error=error)) as (daemon, port):
        assert worker_of(port) > daemon


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="shows a process by /proc")
def test_a_package_that_starts_a_thread_leaves_the_plain_daemon(tmp_path: Path):
    """A fork could find a lock of that thread, and wait for it for good."""
    with daemon_with(tmp_path, WITH_A_THREAD) as (daemon, port):
        command = Path(f"/proc/{daemon}/cmdline").read_text("utf-8").split("\0")

        assert (["pyspark.daemon", "pyspark.worker"], True) == (
            command[2:4],
            worker_of(port) > 0,
        )
