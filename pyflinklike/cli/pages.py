# SPDX-License-Identifier: Apache-2.0
"""A page of tables with bars: one HTML file without scripts, which fetches nothing."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from pyflinklike.cli.shapes import as_text

__all__ = ["Picture", "page"]

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:1080px;margin:2rem auto;padding:0 1rem;
color:#1b2430;background:#fff}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin:2.2rem 0 .2rem}
p{margin:.2rem 0 .6rem;color:#5a6675}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.22rem .7rem .22rem 0;border-bottom:1px solid #e3e8ee;
vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600;color:#5a6675;font-size:.85rem}td.n,th.n{text-align:right;
font-variant-numeric:tabular-nums;white-space:nowrap}td.b{width:28%;min-width:120px}
svg{display:block;width:100%;height:1.1em}rect{fill:#3b7dd8}rect.over{fill:#d8703b}
@media(prefers-color-scheme:dark){body{color:#dfe5ec;background:#14191f}
p,th{color:#93a0ae}th,td{border-color:#2a323c}}
"""


@attrs.frozen
class Picture:
    """Numbers, and the bar of each row.

    Args:
        title: Of what.
        note: What they say, in a sentence.
        columns: Their names.
        rows: The numbers.
        bar: The column that bars are drawn of; None for none.
        marked: Whether the bar of a row stands out.
    """

    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    bar: str | None = None
    marked: Sequence[bool] = ()

    def html(self) -> str:
        """As a part of a page."""
        head = f"<h2>{html.escape(self.title)}</h2><p>{html.escape(self.note)}</p>"
        if not self.rows:
            return head
        numbers = [name for name in self.columns if _is_number(self.rows, name)]
        cells = "".join(
            f"<th{_number(name in numbers)}>{html.escape(name)}</th>" for name in self.columns
        )
        bars = "" if self.bar is None else "<th></th>"
        rows = "".join(self._row(at, row, numbers) for at, row in enumerate(self.rows))
        return f"{head}<table><tr>{cells}{bars}</tr>{rows}</table>"

    def _row(self, at: int, row: Mapping[str, Any], numbers: Sequence[str]) -> str:
        cells = "".join(
            f"<td{_number(name in numbers)}>{html.escape(_text(row[name]))}</td>"
            for name in self.columns
        )
        if self.bar is None:
            return f"<tr>{cells}</tr>"
        most = max((each[self.bar] or 0 for each in self.rows), default=0) or 1
        width = round(100 * (row[self.bar] or 0) / most, 2)
        over = ' class="over"' if self.marked and self.marked[at] else ""
        bar = f'<svg viewBox="0 0 100 10" preserveAspectRatio="none"><rect{over} width="{width}" height="10"/></svg>'
        return f'<tr>{cells}<td class="b">{bar}</td></tr>'


def _number(is_number: bool) -> str:
    return ' class="n"' if is_number else ""


def _is_number(rows: Iterable[Mapping[str, Any]], name: str) -> bool:
    return all(row[name] is None or isinstance(row[name], (int, float)) for row in rows)


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else as_text(value)


def page(title: str, facts: str, pictures: Iterable[Picture]) -> str:
    """The page.

    Args:
        title: Of the page.
        facts: A line beneath it.
        pictures: In order.
    """
    body = "\n".join(each.html() for each in pictures)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1><p>{html.escape(facts)}</p>\n{body}\n</body></html>\n"
    )
