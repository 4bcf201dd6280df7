# SPDX-License-Identifier: Apache-2.0
"""Rows as an HTML table with bars, for notebooks and reports, made of nothing but text."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["html_table"]

_LONGEST = 200


def html_table(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], bar: str | None = None
) -> str:
    """Return rows as a table.

    Args:
        columns: Names of the columns, in order.
        rows: Values by column; a missing value is shown as nothing.
        bar: The column of numbers that each row gets a bar for; None for none.
    """
    numbers = {name for name in columns if all(_is_number(row.get(name)) for row in rows)}
    head = "".join(f"<th{_aligned(name in numbers)}>{html.escape(name)}</th>" for name in columns)
    most = max((row.get(bar) or 0 for row in rows), default=0) if bar is not None else 0
    body = "".join(_row(row, columns, numbers, bar, most) for row in rows)
    return f"<table><tr>{head}{'' if bar is None else '<th></th>'}</tr>{body}</table>"


def _row(
    row: Mapping[str, Any], columns: Sequence[str], numbers: set[str], bar: str | None, most: float
) -> str:
    cells = "".join(
        f"<td{_aligned(name in numbers)}>{html.escape(_text(row.get(name)))}</td>"
        for name in columns
    )
    return f"<tr>{cells}{'' if bar is None else _bar(row.get(bar) or 0, most)}</tr>"


def _bar(value: float, most: float) -> str:
    width = round(100 * value / most, 1) if most else 0
    return (
        '<td><svg width="100" height="10" role="img">'
        f'<rect width="{width}" height="10" fill="#3b7dd8"/></svg></td>'
    )


def _aligned(is_number: bool) -> str:
    return ' style="text-align:right"' if is_number else ' style="text-align:left"'


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _text(value: Any) -> str:
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:,.1f}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
