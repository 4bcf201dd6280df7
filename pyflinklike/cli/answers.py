# SPDX-License-Identifier: Apache-2.0
"""The interface through which commands ask a checkpoint or a savepoint, and the session for one.

A savepoint is read without Spark.  For a checkpoint the command starts Spark, unless it runs, and
keeps Java from printing on the terminal.  That takes many seconds, so a line on standard error says
what the command waits for, and for how long.  In a pipe or a log there is no such line.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import pyarrow as pa

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike.errors import DeclarationValueError, SparkSetupError, UnknownStateError
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.state_infos import StateInfo, StateInfos, state_of
from pyflinklike.state_processor._savepoints.savepoint_location import savepoint_location_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Answers(Protocol):
    """The answers of a checkpoint after a micro-batch, or of a savepoint."""

    @property
    def where(self) -> str:
        """The name of the checkpoint or savepoint in messages."""

    @property
    def batch_id(self) -> int | None:
        """The micro-batch of all answers; None for a savepoint without one."""

    def facts(self) -> str:
        """Describe the checkpoint or savepoint for the line above a list of its states."""

    def states(self, *, sizes: bool = False) -> StateInfos:
        """Return the states of the chosen operator, or of all."""

    def count_keys(self) -> dict[str, int]:
        """Count the keys with entries, by the uid of the operator."""

    def count_timers(self) -> dict[str, dict[str, int]]:
        """Count the registered timers, by the uid of the operator and then by domain."""

    def rows(self, info: StateInfo, choice: EntryChoice) -> pa.Table:
        """Return the chosen entries of a state, sorted."""

    def timers(
        self, domain: str | None, before: int | None, limit: int | None
    ) -> list[TimerCounts]:
        """Return the timers of each operator.

        Args:
            domain: "event_time" or "processing_time"; None returns both.
            before: If given, only timers that are due before this time, in ms.
            limit: The most rows of each operator; None returns all.
        """

    def records(self) -> list[OperatorRecord]:
        """Return the operator records of the chosen operators."""

    def clock(self) -> BatchClock | None:
        """Return the times of the batch, or None if a savepoint does not record them."""

    def count_stamped(self, info: StateInfo, after: int, until: int) -> int:
        """Count the entries with a stamp after `after` and not after `until`, both in ms.

        The state must have a TTL.
        """

    def entries(self, info: StateInfo) -> Any:
        """Return all entries of a state, in the form for `compare`."""

    def timer_entries(self, uid: str | None) -> tuple[Any, list[str]]:
        """Return the timers of an operator for `compare`, None without a uid, and its key columns."""

    def compare(
        self, before: Any, after: Any, keys: list[str], limit: int | None
    ) -> tuple[dict[str, int], pa.Table]:
        """Compare entries: return the number of differences by change, and the first of them.

        Args:
            before: The result of `entries` or `timer_entries`; None if there are no entries.
            after: The same of other answers of this class; only one of the two may be None.
            keys: The names of the key columns.
            limit: The most rows to return; None returns all.
        """

    def export(self, out: str, kind: str) -> None:
        """Write all states and timers to a directory, as "savepoint" or one of `FORMATS`."""


@attrs.frozen
class EntryChoice:
    """A choice of the entries of a state.

    Args:
        limit: The most entries, the first ones in the order of keys; None chooses all.
        where: A condition of Spark's SQL, or None.
        alive: True chooses entries that have not expired, False expired ones, None both.
        key: The only key, if `has_key`.
        has_key: Whether only the entries of `key` are chosen; None is a key, so it cannot say that.
    """

    limit: int | None = None
    where: str | None = None
    alive: bool | None = None
    key: Any = None
    has_key: bool = False


@attrs.frozen
class TimerCounts:
    """The number of timers of an operator, and the next of them.

    Args:
        uid: The uid of the operator.
        counts: A dict for each domain: `domain`, `timers`, `due`, and `first` and `last` in ms.
        rows: The next timers, sorted by time.
    """

    uid: str
    counts: list[dict[str, Any]]
    rows: pa.Table


_ENTRY = (
    *("namespace", "user_key", "position", "store_key", "window_start", "number"),
    *("session_start", "session_end", "valid_from", "last_use"),
)


def order_of(columns: Sequence[tuple[str, Any]], keys: Sequence[str]) -> list[str]:
    """Return the sort order: key columns first, then the columns that differ within a key.

    Args:
        columns: Names and Arrow types of the rows' columns.
        keys: The names of the key columns.
    """
    types = dict(columns)
    # Timers of one key differ in their time; two entries of a timestamped store may have the same.
    timers = ("domain", "timestamp") if "domain" in types else ()
    wanted = [name for name in (*keys, *_ENTRY, *timers) if name in types]
    # Arrow sorts no structs, lists or maps.
    return [name for name in wanted if not pa.types.is_nested(types[name])]


# A path, an operator, a state


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
