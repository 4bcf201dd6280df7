# SPDX-License-Identifier: Apache-2.0
"""A Spark session for one command, whose Java prints nothing on the terminal."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyflinklike.errors import HostError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}


@contextmanager
def session(master: str, *, quiet: bool) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end of the block unless it ran before.

    Args:
        master: The master URL of Spark.
        quiet: Whether to hide what Java prints on standard error.

    Raises:
        HostError: Java or PySpark is missing, or does not start.
    """
    from pyflinklike.spark.setup.requirements import pyspark_checked

    with pyspark_checked():
        from pyspark.sql import SparkSession
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    # Workers must run the driver's Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("pyflinklike state")
    for name, value in _SETTINGS.items():
        if master.startswith("local") or not name.startswith("spark.driver."):
            builder = builder.config(name, value)
    with tempfile.TemporaryFile("w+b") as told:
        try:
            with _elsewhere(told.fileno(), quiet=quiet):
                spark = builder.getOrCreate()
        except Exception as error:
            told.seek(0)
            said = told.read().decode(errors="replace").strip().splitlines()
            msg = f"a checkpoint is read with Spark, got {(said or [repr(error)])[-1]}"
            raise HostError(f"{msg}; install Java 17 or newer, or give a savepoint") from error
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def _elsewhere(descriptor: int, *, quiet: bool) -> Iterator[None]:
    """Let processes that are started in the context inherit a file as their standard error."""
    if not quiet:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
