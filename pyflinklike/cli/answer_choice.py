# SPDX-License-Identifier: Apache-2.0
"""Opens a checkpoint or a savepoint for a command.

A savepoint is opened without Spark.  For a checkpoint the command starts Spark, unless it runs, and
keeps Java from printing on the terminal.  That takes many seconds, so a line on standard error says
what the command waits for, and for how long.  In a pipe or a log there is no such line.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyflinklike.cli.answers import Answers
from pyflinklike.errors import DeclarationValueError, SparkSetupError, UnknownStateError
from pyflinklike.state_processor._logs.state_infos import StateInfo, state_of
from pyflinklike.state_processor._savepoints.savepoint_location import savepoint_location_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "choose_state",
    "end_waiting",
    "is_savepoint",
    "open_answers",
    "operator_of",
    "session",
    "tell_waiting",
]


@contextmanager
def open_answers(
    path: str, operator: str | None, batch: int | None, master: str, *, quiet: bool = True
) -> Iterator[Answers]:
    """Open the checkpoint or savepoint at a path until the end of the block.

    Args:
        path: The path of a checkpoint or a savepoint.
        operator: Spark's number of an operator or its uid; None opens all operators.
        batch: The number of a micro-batch; None opens the last.
        master: Spark's master URL, if the path is a checkpoint; a savepoint needs no Spark.
        quiet: Whether to hide what Java prints.

    Raises:
        DeclarationValueError: The path does not exist, or is a savepoint and a batch is given.
    """
    if is_savepoint(path):
        if batch is not None:
            msg = f"--batch chooses a batch of a checkpoint, got savepoint {path!r}, which has one batch"
            raise DeclarationValueError(f"{msg}; leave it out")
        from pyflinklike.cli.savepoint_answers import SavepointAnswers

        yield SavepointAnswers.open(path, operator)
        return
    from pyflinklike.cli.checkpoint_answers import CheckpointAnswers

    with session(master, path, quiet=quiet) as spark:
        yield CheckpointAnswers.open(spark, path, operator_of(operator), batch)


def is_savepoint(path: str) -> bool:
    """Return whether a path leads to a savepoint instead of a checkpoint.

    Raises:
        DeclarationValueError: The path does not exist; the command finds that before Spark starts.
    """
    try:
        location = savepoint_location_of(path)
        if location.is_savepoint():
            return True
        if location.exists():
            return False
    except (DeclarationValueError, OSError):
        if ":" in path:  # Spark may know this file system although Arrow does not
            return False
        raise
    msg = f"PATH must be a checkpoint or a savepoint, got {path!r}, which does not exist"
    raise DeclarationValueError(f"{msg}; give the checkpointLocation of a query")


def operator_of(text: str | None) -> int | str | None:
    """Read Spark's number of an operator, or its uid, as the user typed it."""
    return int(text) if text is not None and text.isdecimal() else text


def choose_state(answers: Answers, name: str) -> StateInfo:
    """Return the state that has a name, in any operator.

    Raises:
        UnknownStateError: No operator has such a state, or several operators have.
    """
    infos = answers.states()
    having = [info for info in infos if info.name == name]
    if len(having) > 1:
        uids = [info.uid or str(info.operator_id) for info in having]
        msg = f"{answers.where}: several operators have a state {name!r}, got {uids}"
        raise UnknownStateError(f"{msg}; choose with --operator")
    return state_of(infos, name, answers.where)


# A session for one command

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Java's optimizing compiler took 40 % of the time of a `get`, whose code runs once.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "4",
}


@contextmanager
def session(master: str, path: str, *, quiet: bool) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end of the block unless it ran before.

    Args:
        master: The master URL of Spark.
        path: The path of the checkpoint to read; a session that is started here takes its format.
        quiet: Whether to hide what Java prints on standard error.

    Raises:
        SparkSetupError: Java or PySpark is missing, or Spark does not start.
    """
    from pyflinklike.spark._plan.requirements import pyspark_checked

    with pyspark_checked():
        from pyspark.sql import SparkSession
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    # Local workers must run the driver's Python; a cluster's nodes need not have one at that path.
    if master.startswith("local") and not os.environ.get("PYSPARK_PYTHON"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("pyflinklike state")
    for name, value in _SETTINGS.items():
        if master.startswith("local") or not name.startswith("spark.driver."):
            builder = builder.config(name, value)
    # A file, not a pipe: Java would wait for a reader once a pipe is full.
    with tempfile.TemporaryFile("w+b") as printed, tell_waiting(quiet=quiet) as say:
        try:
            say("starting Spark")
            with _elsewhere(printed.fileno(), quiet=quiet):
                spark = builder.getOrCreate()
        except Exception as error:
            printed.seek(0)
            said = printed.read().decode(errors="replace").strip().splitlines()
            msg = f"a checkpoint is read with Spark, got {(said or [repr(error)])[-1]}"
            raise SparkSetupError(
                f"{msg}; install Java 17 or newer, or give a savepoint"
            ) from error
        try:
            say(f"reading {path}")
            from pyflinklike.state_processor._checkpoints.checkpoint import (
                location_of,
                take_format_of,
            )

            take_format_of(spark, location_of(path, spark))
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
    # Java inherits the descriptor, not Python's `sys.stderr`, so redirecting that would not do.
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# The line that says what the command waits for

_shown: list[Any] = []
"""The line that the terminal shows, if any."""


@contextmanager
def tell_waiting(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what the command waits for, and for how long.

    Args:
        quiet: Whether Java's output is hidden; if it is not, no line is shown.

    Yields:
        A function that changes the text of the line.
    """
    if not quiet or not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # `_elsewhere` replaces descriptor 2 while Spark starts; the line needs the terminal meanwhile.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        shown = Progress(*columns, console=Console(file=terminal), transient=True)
        shown.start()
        task = shown.add_task("")
        _shown.append(shown)
        try:
            yield lambda text: shown.update(task, description=text)
        finally:
            end_waiting()


def end_waiting() -> None:
    """Remove the line from the terminal, if there is one."""
    while _shown:
        _shown.pop().stop()
