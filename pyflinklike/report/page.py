# SPDX-License-Identifier: Apache-2.0
"""The page of a report: numbers and their charts in one HTML file that fetches nothing.

Charts are specifications of Vega-Lite.  altair makes them, and they contain the rows.
"""

from __future__ import annotations

import functools
import html
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from pyflinklike._checks import lacking
from pyflinklike.state_processor._logs.state_infos import html_table

if TYPE_CHECKING:
    import pandas as pd

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)
"""The policy that makes a browser refuse to fetch anything, whatever the page asks for.

Vega compiles the expressions of charts, which needs `unsafe-eval`.
"""
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:900px;margin:2rem auto;padding:0 1rem;color:#1b2430}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin:2.2rem 0 .2rem}
p{margin:.2rem 0 .6rem;color:#5a6675}table{border-collapse:collapse}
th,td{padding:.2rem .9rem .2rem 0;border-bottom:1px solid #e3e8ee;vertical-align:top}
.headline{display:flex;flex-wrap:wrap;gap:.5rem 2.2rem;margin:1.2rem 0}
.headline b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}
.headline span{color:#5a6675;font-size:.85rem}
td{overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
th{font-weight:600;color:#5a6675;font-size:.85rem}summary{color:#5a6675;cursor:pointer}
"""
_EMBED = """
for (const [id, spec] of Object.entries(JSON.parse(document.getElementById("charts").textContent)))
  vegaEmbed("#" + id, spec, {actions: {export: true, source: false, compiled: false, editor: false}});
"""
_TALLEST = 12  # rows; a longer table is folded away below its charts
# The version of Vega-Lite that altair writes for; the page uses only the name `vegaEmbed`.
_SNIPPET, _VERSION = "window.vegaEmbed = vegaEmbed;", "6.4"


@attrs.frozen
class Picture:
    """Numbers, and the charts that show them.

    Args:
        name: The key of the numbers in the `data` of a report.
        title: The heading above the numbers.
        note: A sentence beneath the heading that explains the numbers.
        columns: The names of the columns, in their order.
        rows: The numbers, by the name of the column.
        charts: The charts as specifications of Vega-Lite; without charts only the table is shown.
    """

    name: str
    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    charts: Sequence[Mapping[str, Any]] = ()


@attrs.frozen(eq=False)
class Report:
    """A page that was written, and its numbers.

    Args:
        path: The path of the page's file.
        title: The title of the page.
        facts: A line beneath the title that says what was read.
        pictures: The numbers and charts of the page, in their order.
        headline: The numbers at the top, as pairs of the thing that is counted and the number.
    """

    path: str
    title: str
    facts: str
    pictures: Sequence[Picture] = attrs.field(repr=False)
    headline: Sequence[tuple[str, str]] = attrs.field(default=(), repr=False)

    @property
    def data(self) -> Mapping[str, pd.DataFrame]:
        """The numbers of each picture by its name, as DataFrames of pandas."""
        import pandas as pd

        return {
            each.name: pd.DataFrame(list(each.rows), columns=list(each.columns))
            for each in self.pictures
        }

    def _repr_html_(self) -> str:
        parts = "".join(_write_note(each) + _write_table(each) for each in self.pictures)
        return f"<h3>{html.escape(self.title)}</h3><p>{html.escape(self.facts)}</p>{_write_headline(self)}{parts}"

    def write(self) -> Report:
        """Write the page.

        Raises:
            RequirementError: altair or vl-convert-python is missing; these draw the charts.
            OSError: The file cannot be written.
        """
        Path(self.path).write_text(_page(self), encoding="utf-8")
        return self


def check_path(path: str | os.PathLike[str]) -> str:
    """Check that a page can be written to a path, and return the path.

    Raises:
        RequirementError: altair or vl-convert-python is missing; these draw the charts.
        OSError: The file cannot be opened for writing.
    """
    _script()
    with Path(path).open("a", encoding="utf-8"):
        return os.fspath(path)


def _page(report: Report) -> str:
    charts = {
        f"chart-{each.name}-{at}": spec
        for each in report.pictures
        for at, spec in enumerate(each.charts)
    }
    body = "\n".join(_write_note(each) + _write_charts(each) for each in report.pictures)
    # Names of queries and operators are the user's, and may hold markup.
    title = html.escape(report.title)
    # Only a `<` could end the script element that holds the text.
    specs = json.dumps(charts, default=str, allow_nan=False).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{title}</h1><p>{html.escape(report.facts)}</p>\n{_write_headline(report)}\n{body}\n"
        f'<script id="charts" type="application/json">{specs}</script>\n'
        f"<script>{_script()}</script>\n<script>{_EMBED}</script></body></html>\n"
    )


@functools.cache
def _script() -> str:
    """Return the script that draws charts: Vega, in the version that altair writes for."""
    try:
        import altair  # noqa: F401 - if it is missing, that must show before any state is read
        import vl_convert
    except ImportError as error:
        raise lacking("pyflinklike.report", "report", error) from error
    # The script's own text must not end the script element.
    return vl_convert.javascript_bundle(_SNIPPET, vl_version=_VERSION).replace(
        "</script", "<\\/script"
    )


def _write_headline(report: Report) -> str:
    if not report.headline:
        return ""
    told = (
        f"<div><b>{html.escape(number)}</b><span>{html.escape(what)}</span></div>"
        for what, number in report.headline
    )
    return f'<div class="headline">{"".join(told)}</div>'


def _write_note(picture: Picture) -> str:
    note = f"<p>{html.escape(picture.note)}</p>" if picture.note else ""
    return f"<h2>{html.escape(picture.title)}</h2>{note}"


def _write_charts(picture: Picture) -> str:
    places = "".join(
        f'<div id="chart-{picture.name}-{at}"></div>' for at in range(len(picture.charts))
    )
    table = _write_table(picture)
    if places and len(picture.rows) > _TALLEST:
        table = f"<details><summary>The numbers</summary>{table}</details>"
    return places + table


def _write_table(picture: Picture) -> str:
    """Return a table of the numbers in readable units; `data` has the numbers themselves."""
    if not picture.rows:
        return ""
    rows = [
        {_in_words(name): _readable(name, row.get(name)) for name in picture.columns}
        for row in picture.rows
    ]
    return html_table([_in_words(name) for name in picture.columns], rows)


def _readable(name: str, value: Any) -> Any:
    return size_in_words(value) if _is_size(name) and isinstance(value, int) else value


def size_in_words(size: int) -> str:
    """Return a number of bytes in a suitable unit, such as 40.0 MB."""
    number, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{size} B" if unit == "B" else f"{number:,.1f} {unit}"


# Charts

Rows = Sequence[Mapping[str, Any]]
_WHOLE = frozenset(("batches", "entries", "timers"))
# The widest chart that fits into the page's column, with the axis and the legend.
_WIDTH, _HEIGHT = 640, 200
_BLUE, _ORANGE = "#3b7dd8", "#d8703b"
# If there is no room for all labels, some are left out.
_UPRIGHT = {"labelAngle": 0, "labelOverlap": True}


def bars(
    rows: Rows, of: str, by: str, *, title: str = "", marked: str = "", rule: float | None = None
) -> Any:
    """Return a chart with an upright bar for each row, in the order of the rows.

    Args:
        rows: The numbers by column, one bar for each.
        of: The column with the length of a bar.
        by: The column with the name of a bar.
        title: The title of the chart.
        marked: The column that says which bars stand out; empty if no bar does.
        rule: The number at which a line crosses all bars; None for no line.
    """
    alt = _altair()
    color = alt.value(_BLUE)
    if marked:
        color = alt.condition(f"datum[{marked!r}]", alt.value(_ORANGE), alt.value(_BLUE))
    x, y = _column(alt.X, by, "ordinal", sort=None, axis=_UPRIGHT), _numbers(alt.Y, of)
    chart = _chart(alt, rows, title).mark_bar().encode(x=x, y=y, color=color)
    if rule is not None:
        line = alt.Chart(alt.Data(values=[{of: rule}])).encode(y=y)
        chart = chart + line.mark_rule(color="#5a6675", strokeDash=[4, 4])
    return _size_chart(chart, len(rows))


def flat_bars(rows: Rows, of: str, by: str, *, title: str = "") -> Any:
    """Return a chart with a flat bar beside the name of each row, which leaves room for long names.

    Args:
        rows: The numbers by column, one bar for each.
        of: The column with the length of a bar.
        by: The column with the name of a bar.
        title: The title of the chart.
    """
    alt = _altair()
    x, y = _numbers(alt.X, of), _column(alt.Y, by, "ordinal", sort=None)
    chart = _chart(alt, rows, title).mark_bar(color=_BLUE).encode(x=x, y=y)
    spec: dict[str, Any] = chart.properties(width=_WIDTH).to_dict()
    return spec


def stack_bars(rows: Rows, of: str, by: str, parts: str, order: Sequence[str]) -> Any:
    """Return a chart with a bar of several parts for each value of a column.

    Args:
        rows: The numbers by column, one part for each.
        of: The column with the length of a part.
        by: The column with the name of the bar.
        parts: The column with the name of the part.
        order: The names of the parts in their order; empty for the alphabet's.
    """
    alt = _altair()
    x, y = _column(alt.X, by, "ordinal", sort=None, axis=_UPRIGHT), _numbers(alt.Y, of)
    color = _column(alt.Color, parts, "nominal", sort=list(order))
    chart = _chart(alt, rows).mark_bar().encode(x=x, y=y, color=color)
    return _size_chart(chart, len({row[by] for row in rows}))


def lines(rows: Rows, of: str, by: str, each: str) -> Any:
    """Return a chart with a line for each value of a column.

    Args:
        rows: The numbers by column, one point for each.
        of: The column with the height of a point.
        by: The column of numbers that orders the points.
        each: The column with the name of the line.
    """
    alt = _altair()
    x = _column(alt.X, by, "quantitative", axis={"format": "d", "tickMinStep": 1})
    color = _column(alt.Color, each, "nominal")
    chart = _chart(alt, rows).mark_line(point=True).encode(x=x, y=_numbers(alt.Y, of), color=color)
    return _size_chart(chart)


def _altair() -> Any:
    _script()  # raises if altair is missing
    import altair

    return altair


def _chart(alt: Any, rows: Rows, title: str = "") -> Any:
    """Return a chart of some rows, without a mark; a tooltip shows all columns."""
    tips = [_column(alt.Tooltip, name, "nominal") for name in (rows[0] if rows else ())]
    return alt.Chart(alt.Data(values=[dict(row) for row in rows]), title=title).encode(tooltip=tips)


def _column(channel: Any, name: str, kind: str, **options: Any) -> Any:
    """Return a channel of altair that shows a column under its heading."""
    # Vega would take dots and brackets of a name for a path.
    field = name.replace(".", "\\.").replace("[", "\\[").replace("]", "\\]")
    return channel(field, type=kind, title=_in_words(name), **options)


def _numbers(channel: Any, name: str) -> Any:
    """Return a channel whose axis writes large numbers in thousands, millions and so on."""
    axis: dict[str, Any] = {
        "labelExpr": "datum.value >= 10000 ? format(datum.value, '~s') : datum.label"
    }
    if _is_size(name):
        axis = {"labelExpr": "format(datum.value, '~s') + 'B'", "tickCount": 5}
    elif name in _WHOLE:
        axis["tickMinStep"] = 1  # a chart of things that are counted has no half ticks
    return _column(channel, name, "quantitative", axis=axis)


def _size_chart(chart: Any, bars: int | None = None) -> dict[str, Any]:
    width = _WIDTH if bars is None else min(_WIDTH, 60 * max(bars, 2))
    spec: dict[str, Any] = chart.properties(width=width, height=_HEIGHT).to_dict()
    return spec


def _in_words(name: str) -> str:
    """Return the heading for a column: its name without underscores."""
    return name.replace("_", " ")


def _is_size(name: str) -> bool:
    """Return whether the numbers of a column are bytes."""
    return name == "bytes" or name.endswith("_bytes")
