# SPDX-License-Identifier: Apache-2.0
"""The base of all commands: their common options, and the printing of rows.

Rows are printed as JSON lines, or as a table, which is drawn on a terminal and plain in a pipe.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from pyflinklike.cli.answers import Answers, end_waiting, is_savepoint, operator_of, session
from pyflinklike.cli.cells import as_json, as_text, rows_of
from pyflinklike.errors import DeclarationValueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

C = TypeVar("C", bound=Callable[..., Any])


_MODULES = {
    **dict.fromkeys(("list", "show", "get", "timers"), "commands"),
    **dict.fromkeys(("check", "diff", "export", "report"), "commands"),
    "explain": "explain_command",
    "failures": "failures_command",
    "serve": "commands",
}
"""The module of each command, imported when the command is called: some import much."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click passes it
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _MODULES:
            import_module(f"pyflinklike.cli.{_MODULES[cmd_name]}")
        return super().get_command(ctx, cmd_name)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pyflinklike")
def program() -> None:
    """Flink's keyed state, TTL and timers on Spark."""


@program.group(cls=_Commands)
def state() -> None:
    """Look into the state of a query.

    PATH is the checkpoint of a running or stopped query (Spark reads it and needs Java), or the
    directory of a savepoint (no Spark, no Java). For `failures` it is the directory of dead letters.

    Exit codes: 0 if the command is done; 1 if `check` finds damage, `diff` a difference, `get` no
    such key, `explain` a refusal, or if `failures --replay` fails again; 2 if it cannot be done.
    """


def _add_look_options(command: C) -> C:
    """Add the options that all commands have."""
    options = [
        click.argument("path"),
        click.option("--operator", help="An operator's uid or Spark's number; without it, all."),
        click.option("--batch", type=int, help="Read the state after this batch."),
        click.option("--json", "is_json", is_flag=True, help="JSON lines, times also in ms."),
        click.option("--master", default="local[2]", show_default=True, help="Spark's master URL."),
        click.option("--traceback", is_flag=True, help="Show the traceback of an error."),
    ]
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


@attrs.frozen
class Look:
    """The values of the common options."""

    path: str
    operator: str | None
    batch: int | None
    is_json: bool
    master: str
    traceback: bool

    @property
    def printer(self) -> Printer:
        """The printer in the form that `--json` chooses."""
        return Printer(self.is_json)

    def session(self) -> AbstractContextManager[SparkSession]:
        """Start a session of Spark that reads the checkpoint, until the end of the block."""
        return session(self.master, self.path, quiet=not self.traceback)

    @contextmanager
    def answers(self) -> Iterator[Answers]:
        """Open the checkpoint or savepoint until the end of the block.

        Raises:
            DeclarationValueError: The path does not exist, or is a savepoint and a batch is given.
        """
        if not is_savepoint(self.path):
            from pyflinklike.cli.checkpoint_answers import CheckpointAnswers

            with self.session() as spark:
                operator = operator_of(self.operator)
                yield CheckpointAnswers.open(spark, self.path, operator, self.batch)
            return
        if self.batch is not None:
            msg = f"--batch chooses a batch of a checkpoint, got savepoint {self.path!r}"
            raise DeclarationValueError(f"{msg}, which has one batch; leave it out")
        from pyflinklike.cli.savepoint_answers import SavepointAnswers

        yield SavepointAnswers.open(self.path, self.operator)


def command(name: str) -> Callable[[Callable[..., int]], click.Command]:
    """Make a command whose function gets a `Look` for the common options."""

    def made(function: Callable[..., int]) -> click.Command:
        @functools.wraps(function)
        def called(**options: Any) -> int:
            common = {each.name: options.pop(each.name) for each in attrs.fields(Look)}
            try:
                return function(Look(**common), **options)
            except BrokenPipeError:  # `| head` has read enough; click would end with code 1
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return 0

        return state.command(name)(_add_look_options(called))

    return made


def print_rows(look: Look, answers: Answers, table: Any, limit: int, **facts: object) -> None:
    """Print entries.

    Args:
        look: The common options, which choose JSON lines or a table.
        answers: The answers that gave the entries; every line of JSON has their batch.
        table: The entries to print; if there are more than `limit`, one more than that.
        limit: The most entries to print; 0 prints all.
        facts: Further fields for every line of JSON.
    """
    more = bool(limit) and table.num_rows > limit
    kept = table.slice(0, limit) if more else table
    look.printer.rows(rows_of(kept), kept.column_names, batch_id=answers.batch_id, **facts)
    if more:
        look.printer.warn_of_more(limit)


limit_option = click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True, help="Rows; 0 for all."
)


# Printing


@attrs.frozen
class Printer:
    """Prints rows as a table, or as JSON lines if `is_json`."""

    is_json: bool

    def note(self, text: str) -> None:
        """Print a line beside the rows; with `--json` print nothing, so that all lines are JSON."""
        end_waiting()
        if not self.is_json:
            click.echo(click.style(text, dim=True))

    def warn(self, text: str) -> None:
        """Print a line about the answer on standard error."""
        end_waiting()
        click.echo(text, err=True)

    def warn_of_more(self, limit: int, what: str = "there are") -> None:
        """Say that only the first rows were printed."""
        self.warn(f"{what} more than these {limit}; --limit 0 shows all")

    def rows(
        self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str], **facts: object
    ) -> None:
        """Print rows.

        Args:
            rows: The rows, each with all columns.
            columns: The names of the columns; a table without rows shows them, too.
            facts: Further fields for every line of JSON.
        """
        end_waiting()
        if self.is_json:
            for row in rows:
                shown = as_json(row)
                # A key column may have the name of a fact.
                first = {f"_{name}" if name in shown else name: facts[name] for name in facts}
                click.echo(json.dumps({**first, **shown}, ensure_ascii=False))
            return
        texts = [[as_text(row[name]) for name in columns] for row in rows]
        if sys.stdout.isatty():
            _draw(columns, texts)
        else:
            _plain(columns, texts)


def _draw(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold cyan", row_styles=["", "dim"])
    for name in columns:
        table.add_column(Text(name), overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))  # as Text, since values may look like rich's markup
    Console().print(table)


def _plain(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    lines = [list(columns), *texts]
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths))
        click.echo("  ".join(cells).rstrip())
