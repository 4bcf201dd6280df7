# SPDX-License-Identifier: Apache-2.0
"""Charts of rows: Vega-Lite's specifications, which altair makes and which hold the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyflinklike.checks import install
from pyflinklike.errors import RequirementError

__all__ = ["bars", "flat_bars", "in_words", "is_size", "lines", "needs_altair", "stacked"]

Rows = Sequence[Mapping[str, Any]]
_WHOLE = frozenset(("batches", "entries", "timers"))
_WIDTH, _HEIGHT = 640, 200
_BLUE, _ORANGE = "#3b7dd8", "#d8703b"


@contextmanager
def needs_altair() -> Iterator[None]:
    """Turn a failed import into an error that names the missing extra.

    Raises:
        RequirementError: A package is missing.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("pyflinklike"):  # a fault of ours, no missing extra
            raise
        msg = f"pyflinklike.report needs altair and vl-convert-python, got no module {error.name!r}"
        remedy = f"{install('report')} installs both"
        raise RequirementError(f"{msg}; {remedy}", name=error.name) from error


def bars(
    rows: Rows, of: str, by: str, *, title: str = "", marked: str = "", rule: float | None = None
) -> Any:
    """Draw an upright bar for each row, in the order of the rows.

    Args:
        rows: The numbers.
        of: The column with the length of a bar.
        by: The column with the name of a bar.
        title: The title of the chart.
        marked: The column that says which bars stand out; empty for none.
        rule: The number at which a line crosses all bars; None for no line.
    """
    alt = _altair()
    color = alt.value(_BLUE)
    if marked:
        color = alt.condition(f"datum[{marked!r}]", alt.value(_ORANGE), alt.value(_BLUE))
    chart = (
        alt.Chart(_data(alt, rows), title=title)
        .mark_bar()
        .encode(
            x=alt.X(_field(by), type="ordinal", sort=None, title=in_words(by), axis=_upright(alt)),
            y=alt.Y(_field(of), type="quantitative", title=in_words(of), axis=_counted(alt, of)),
            color=color,
            tooltip=_tooltips(alt, rows),
        )
    )
    if rule is not None:
        line = alt.Chart(_data(alt, [{"median": rule}])).mark_rule(
            color="#5a6675", strokeDash=[4, 4]
        )
        chart = chart + line.encode(
            y=alt.Y("median", type="quantitative", title=in_words(of), axis=_counted(alt, of))
        )
    return _sized(chart, len(rows))


def flat_bars(rows: Rows, of: str, by: str, *, title: str = "") -> Any:
    """Draw a bar for each row beside its name, which may be long, in the order of the rows.

    Args:
        rows: The numbers.
        of: The column with the length of a bar.
        by: The column with the name of a bar.
        title: The title of the chart.
    """
    alt = _altair()
    chart = (
        alt.Chart(_data(alt, rows), title=title)
        .mark_bar(color=_BLUE)
        .encode(
            x=alt.X(_field(of), type="quantitative", title=in_words(of), axis=_counted(alt, of)),
            y=alt.Y(_field(by), type="ordinal", sort=None, title=in_words(by)),
            tooltip=_tooltips(alt, rows),
        )
    )
    spec: dict[str, Any] = chart.properties(width=_WIDTH).to_dict()
    return spec


def stacked(rows: Rows, of: str, by: str, parts: str, order: Sequence[str]) -> Any:
    """Draw a bar of several parts for each value of a column.

    Args:
        rows: The numbers.
        of: The column with the length of a part.
        by: The column with the name of the bar.
        parts: The column with the name of the part.
        order: The order of the parts.
    """
    alt = _altair()
    chart = (
        alt.Chart(_data(alt, rows))
        .mark_bar()
        .encode(
            x=alt.X(_field(by), type="ordinal", sort=None, title=in_words(by), axis=_upright(alt)),
            y=alt.Y(_field(of), type="quantitative", title=in_words(of), axis=_counted(alt, of)),
            color=alt.Color(_field(parts), type="nominal", sort=list(order), title=in_words(parts)),
            tooltip=_tooltips(alt, rows),
        )
    )
    return _sized(chart, len({row[by] for row in rows}))


def lines(rows: Rows, of: str, by: str, each: str) -> Any:
    """Draw a line for each value of a column.

    Args:
        rows: The numbers.
        of: The column with the height of a point.
        by: The column of numbers that orders the points.
        each: The column with the name of the line.
    """
    alt = _altair()
    chart = (
        alt.Chart(_data(alt, rows))
        .mark_line(point=True)
        .encode(
            x=alt.X(
                _field(by),
                type="quantitative",
                title=in_words(by),
                axis=alt.Axis(format="d", tickMinStep=1),
            ),
            y=alt.Y(_field(of), type="quantitative", title=in_words(of), axis=_counted(alt, of)),
            color=alt.Color(_field(each), type="nominal", title=in_words(each)),
            tooltip=_tooltips(alt, rows),
        )
    )
    return _sized(chart)


def _altair() -> Any:
    with needs_altair():
        import altair

    return altair


def _sized(chart: Any, bars: int | None = None) -> dict[str, Any]:
    width = _WIDTH if bars is None else min(_WIDTH, 60 * max(bars, 2))
    spec: dict[str, Any] = chart.properties(width=width, height=_HEIGHT).to_dict()
    return spec


def _data(alt: Any, rows: Rows) -> Any:
    return alt.Data(values=[dict(row) for row in rows])


def in_words(name: str) -> str:
    """Make a heading of a column's name: without underscores."""
    return name.replace("_", " ")


def is_size(name: str) -> bool:
    """Return whether a column of numbers holds bytes."""
    return name == "bytes" or name.endswith("_bytes")


def _upright(alt: Any) -> Any:
    """Return an axis with upright labels; labels without room are left out."""
    return alt.Axis(labelAngle=0, labelOverlap=True)


def _counted(alt: Any, of: str) -> Any:
    """Return an axis of numbers, with large ones in thousands, millions and so on."""
    if is_size(of):
        return alt.Axis(labelExpr="format(datum.value, '~s') + 'B'", tickCount=5)
    labels = "datum.value >= 10000 ? format(datum.value, '~s') : datum.label"
    # Of things that are counted there is no half.
    return alt.Axis(labelExpr=labels, tickMinStep=1) if of in _WHOLE else alt.Axis(labelExpr=labels)


def _tooltips(alt: Any, rows: Rows) -> list[Any]:
    return [
        alt.Tooltip(_field(name), type="nominal", title=in_words(name))
        for name in (rows[0] if rows else ())
    ]


def _field(name: str) -> str:
    """Escape a column's name, in which Vega would take dots and brackets for a path."""
    return name.replace(".", "\\.").replace("[", "\\[").replace("]", "\\]")
