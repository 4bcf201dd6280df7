# SPDX-License-Identifier: Apache-2.0
"""The output of commands: JSON lines, or tables, which are drawn on a terminal and plain in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import click

from pyflinklike.cli.shapes import as_json, as_text

__all__ = ["Printer"]


@attrs.frozen
class Printer:
    """Prints rows.

    Args:
        is_json: Whether as JSON lines.
    """

    is_json: bool

    def note(self, text: str) -> None:
        """Print a line beside the rows, but none among JSON lines."""
        if not self.is_json:
            click.echo(click.style(text, dim=True))

    def warn(self, text: str) -> None:
        """Print a line about the answer on standard error."""
        click.echo(text, err=True)

    def rows(
        self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str], **facts: object
    ) -> None:
        """Print rows.

        Args:
            rows: The rows, each with all columns.
            columns: The names of the columns, which a table without rows shows as well.
            facts: Further fields of every line of JSON.
        """
        if self.is_json:
            for row in rows:
                shown = as_json(row)
                # A key column may have the name of a fact.
                told = {f"_{name}" if name in shown else name: facts[name] for name in facts}
                click.echo(json.dumps({**told, **shown}, ensure_ascii=False))
            return
        texts = [[as_text(row[name]) for name in columns] for row in rows]
        if sys.stdout.isatty():
            _drawn(columns, texts)
        else:
            _plain(columns, texts)


def _drawn(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
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
