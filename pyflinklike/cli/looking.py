# SPDX-License-Identifier: Apache-2.0
"""What all commands have in common: their options, and how rows are printed."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, TypeVar

import attrs
import click

from pyflinklike.cli.asking import Source
from pyflinklike.cli.printing import Printer
from pyflinklike.cli.shapes import rows_of
from pyflinklike.cli.sources import opened

__all__ = ["Look", "command", "print_rows", "program"]

C = TypeVar("C", bound=Callable[..., Any])


_MODULES = {
    **dict.fromkeys(("list", "show", "get", "timers"), "commands"),
    **dict.fromkeys(("check", "diff", "export", "report"), "further"),
    "explain": "explaining",
    "serve": "serving",
}
"""The module that has a command, which is imported when the command is asked for: some need much."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
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

    PATH is the checkpoint of a query, running or stopped (Spark reads it, so Java is needed), or
    the directory of a savepoint (which needs neither).

    Exit codes: 0 done and nothing found; 1 `check` found damage, `diff` a difference, `get` no
    such key, `explain` a refusal; 2 it could not be done.
    """


def _looking(command: C) -> C:
    """The options that all commands have."""
    options = [
        click.argument("path"),
        click.option("--operator", help="Its uid, or Spark's number of it; else all there are."),
        click.option("--batch", type=int, help="After which micro-batch; else the last one."),
        click.option("--json", "is_json", is_flag=True, help="JSON lines, times also in ms."),
        click.option("--master", default="local[2]", show_default=True, help="Of Spark."),
        click.option("--traceback", is_flag=True, help="With an error, show where it came from."),
    ]
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


@attrs.frozen
class Look:
    """What the common options say."""

    path: str
    operator: str | None
    batch: int | None
    is_json: bool
    master: str
    traceback: bool

    @property
    def printer(self) -> Printer:
        """Prints as was asked."""
        return Printer(self.is_json)

    def source(self) -> AbstractContextManager[Source]:
        """What is looked into, until the end of the block."""
        return opened(self.path, self.operator, self.batch, self.master, quiet=not self.traceback)


def command(name: str) -> Callable[[Callable[..., int]], click.Command]:
    """A command whose function is given a `Look` for the common options."""

    def made(function: Callable[..., int]) -> click.Command:
        @functools.wraps(function)
        def called(**options: Any) -> int:
            common = {each.name: options.pop(each.name) for each in attrs.fields(Look)}
            try:
                return function(Look(**common), **options)
            except BrokenPipeError:  # `| head` has read enough, which click takes for a failure
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return 0

        return state.command(name)(_looking(called))

    return made


def print_rows(look: Look, source: Source, table: Any, limit: int, **facts: object) -> None:
    """Print entries.

    Args:
        look: What was asked.
        source: Of which they are.
        table: The entries, one more than `limit` where there are more.
        limit: How many are printed; 0 for all.
        facts: What is in every line of JSON besides.
    """
    more = bool(limit) and table.num_rows > limit
    kept = table.slice(0, limit) if more else table
    look.printer.rows(rows_of(kept), kept.column_names, batch_id=source.batch_id, **facts)
    if more:
        look.printer.warn(f"there are more than these {limit}; --limit 0 shows all")
