# SPDX-License-Identifier: Apache-2.0
"""The opening of a checkpoint or a savepoint for a command.

A savepoint is opened without Spark.  For a checkpoint Spark is started, unless it runs, and its
Java prints nothing on the terminal.  That takes many seconds, so a line on standard error tells what
is waited for, and for how long; there is none in a pipe or a log.
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
        operator: Spark's number of an operator or its uid; None for all operators.
        batch: The number of a micro-batch; None for the last.
        master: The master URL of Spark for a checkpoint; a savepoint needs no Spark.
        quiet: Whether to hide what Java prints.

    Raises:
        DeclarationValueError: Nothing is at the path, or a batch is asked of a savepoint.
    """
    if is_savepoint(path):
        if batch is not None:
            msg = (
                f"--batch chooses a batch of a checkpoint, got savepoint {path!r}, which is of one"
            )
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
        DeclarationValueError: Nothing is at the path; this is found before Spark starts.
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
    msg = f"PATH must be a checkpoint or a savepoint, got {path!r}, where there is nothing"
    raise DeclarationValueError(f"{msg}; give the checkpointLocation of a query")


def operator_of(text: str | None) -> int | str | None:
    """Read Spark's number of an operator, or its uid, as the user typed it."""
    return int(text) if text is not None and text.isdecimal() else text


def choose_state(answers: Answers, name: str) -> StateInfo:
    """Return the state of a name, whichever operator has it.

    Raises:
        UnknownStateError: No operator has such a state, or several have.
    """
    infos = answers.states()
    having = [info for info in infos if info.name == name]
    if len(having) > 1:
        uids = [info.uid or str(info.operator_id) for info in having]
        msg = f"{answers.where}: state {name!r} must be one operator's, got those of {uids}"
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
    # To compile for speed what runs once took 40 % of the JVM's time for a `get`.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "4",
}


@contextmanager
def session(master: str, path: str, *, quiet: bool) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end of the block unless it ran before.

    Args:
        master: The master URL of Spark.
        path: The path of the checkpoint to read, whose format a session of our own takes.
        quiet: Whether to hide what Java prints on standard error.

    Raises:
        SparkSetupError: Java or PySpark is missing, or does not start.
    """
    from pyflinklike.spark._plan.requirements import pyspark_checked

    with pyspark_checked():
        from pyspark.sql import SparkSession
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    # Workers must run the driver's Python, which the nodes of a cluster need not have there.
    if master.startswith("local") and not os.environ.get("PYSPARK_PYTHON"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("pyflinklike state")
    for name, value in _SETTINGS.items():
        if master.startswith("local") or not name.startswith("spark.driver."):
            builder = builder.config(name, value)
    with tempfile.TemporaryFile("w+b") as told, tell_waiting(quiet=quiet) as say:
        try:
            say("starting Spark")
            with _elsewhere(told.fileno(), quiet=quiet):
                spark = builder.getOrCreate()
        except Exception as error:
            told.seek(0)
            said = told.read().decode(errors="replace").strip().splitlines()
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
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# The line that tells what is waited for

_told: list[Any] = []
"""The line that is shown, if there is one."""


@contextmanager
def tell_waiting(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is waited for, and for how long.

    Args:
        quiet: Whether nothing else is printed on standard error.

    Yields:
        A function that changes the text.
    """
    if not quiet or not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # Spark is started with another standard error, so the terminal is kept under another number.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        shown = Progress(*columns, console=Console(file=terminal), transient=True)
        shown.start()
        task = shown.add_task("")
        _told.append(shown)
        try:
            yield lambda text: shown.update(task, description=text)
        finally:
            end_waiting()


def end_waiting() -> None:
    """Take the line that tells what is waited for off the terminal, if there is one."""
    while _told:
        _told.pop().stop()
