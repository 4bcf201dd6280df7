# SPDX-License-Identifier: Apache-2.0
"""A Spark Connect server on this machine, of the jars that PySpark's package brings.

    with connect_server({"spark.sql.shuffle.partitions": "2"}) as server:
        spark = server.session()

It is a process of its own, as in life: what clients send it is pickled, and runs in the Python
processes that it starts.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import attrs
import pyspark

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_PATIENCE_SECONDS = 180
_POLL_SECONDS = 0.2


@attrs.frozen
class ConnectServer:
    """A server that runs.

    Args:
        url: For `SparkSession.builder.remote`.
        log: What it has said so far.
    """

    url: str
    log: Path

    def session(self) -> Any:
        """A new session of it."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.remote(self.url).create()


@contextmanager
def connect_server(
    conf: Mapping[str, str],
    directory: Path,
    *,
    spark_home: Path | None = None,
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Iterator[ConnectServer]:
    """Run a server.

    Args:
        conf: Spark's settings.
        directory: For its log, and the one it works in.
        spark_home: Of the Spark to run; by default that of the installed PySpark.
        environment: Of the server, and so of the Python processes it starts.
        port: On the loopback address; by default a free one.
    """
    home = spark_home or Path(pyspark.__file__).parent
    port = port or _free_port()
    every = {
        **conf,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", _CLASS]
    command += [part for name, value in every.items() for part in ("--conf", f"{name}={value}")]
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "server.log"
    variables = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_CONNECT_MODE": "0",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        **(environment or {}),
    }
    with log.open("wb") as output:
        process = _started([*command, "spark-internal"], variables, directory, output)
        try:
            _wait_for(port, process, log)
            yield ConnectServer(f"sc://127.0.0.1:{port}", log)
        finally:
            _stop(process)


def _started(
    command: list[str], variables: Mapping[str, str], directory: Path, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=dict(variables),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # so that what it starts can be stopped with it
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(timeout=30)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        with closing(socket.socket()) as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(_POLL_SECONDS)
    msg = f"no Spark Connect server: {log.read_text(errors='replace')[-3000:]}"
    raise RuntimeError(msg)


def _free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
