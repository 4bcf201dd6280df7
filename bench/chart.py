# SPDX-License-Identifier: Apache-2.0
"""Draw the running count (W1) of each side as a chart, from the figures that `run.py` keeps.

    python bench/run.py --json bench/figures.json
    python bench/chart.py                # docs/img/throughput-light.svg and throughput-dark.svg
    python bench/chart.py folder         # the two files in another folder

It needs `pip install '.[bench,report]'`.  All sizes are fixed, so the files do not depend on the
fonts of the machine that draws them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import attrs
import vl_convert
from matrix import SIDES
from paths import BENCH
from results import Result

FIGURES = BENCH / "figures.json"
IMAGES = BENCH.parent / "docs" / "img"

_WORKLOAD = "W1"
_GROUPS = {
    "Your function in Python": (
        "ours_columns",
        "ours_heap",
        "ours_rocksdb",
        "spark_rows",
        "spark_apply",
        "spark_pandas",
        "pyflink_heap",
        "pyflink_rocksdb",
        "pyflink_process",
    ),
    "Your function in Scala or Java": ("spark_scala", "java_rocksdb", "java_heap"),
}
_VERSION = "6.4"
"""Of Vega-Lite; altair 6 writes for it."""
_WIDTH, _BAR = 460, 24
_NAMES = 230
"""Pixels for the names of the sides."""
_LEAST, _MOST = 1_000, 10_000_000
"""The ends of the axis: the figure of the longest bar needs room behind it."""
_IS_OURS = "indexof(datum.label, 'pyflinklike') === 0"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"


@attrs.frozen
class Theme:
    """The colours of a chart, as in `docs/img/overview.svg`."""

    page: str
    text: str
    faint: str
    ours: str
    others: str


THEMES = {
    "light": Theme("#ffffff", "#1f2328", "#59636e", "#0969da", "#afb8c1"),
    "dark": Theme("#0d1117", "#f0f6fc", "#9198a1", "#4493f8", "#565f69"),
}


def rates(path: Path) -> dict[str, float]:
    """Read the median records per second of each side that ran W1."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    results = [Result.from_json(each) for each in raw["results"]]
    return {each.side: each.median for each in results if each.workload == _WORKLOAD}


def chart(measured: Mapping[str, float], theme: Theme) -> alt.VConcatChart:
    """Draw a bar for each side, longest first, in a group for each language.

    The floor is left out: it keeps no state that survives.

    Args:
        measured: Records per second, by side.
        theme: The colours.
    """
    groups = [_bars(name, sides, measured, theme) for name, sides in _GROUPS.items()]
    title = alt.TitleParams(
        "A running count per key",
        subtitle="records per second, on a logarithmic scale that begins at 1,000",
        anchor="start",
        color=theme.text,
        subtitleColor=theme.faint,
        fontSize=17,
        subtitleFontSize=13,
        offset=14,
    )
    drawn: alt.VConcatChart = (
        alt.vconcat(*groups, spacing=18, title=title)
        .configure(font=_FONT, background=theme.page, padding=16)
        .configure_view(strokeWidth=0)
        .configure_axis(domain=False, ticks=False, grid=False)
    )
    return drawn


def _bars(
    name: str, sides: Sequence[str], measured: Mapping[str, float], theme: Theme
) -> alt.LayerChart:
    rows: list[dict[str, Any]] = [
        {
            "side": SIDES[side].title,
            "rate": measured[side],
            "from": _LEAST,
            "figure": f"{measured[side]:,.0f}",
            "ours": side.startswith("ours"),
        }
        for side in sorted(sides, key=lambda side: -measured.get(side, 0))
        if side in measured
    ]
    ours = alt.datum.ours
    names = alt.Axis(
        title=None,
        labelColor=theme.text,
        labelFontSize=13,
        labelFontWeight=alt.condition(_IS_OURS, alt.value("bold"), alt.value("normal")),
        labelPadding=8,
        labelLimit=_NAMES,
        minExtent=_NAMES,
        maxExtent=_NAMES,
    )
    base = alt.Chart(
        {"values": rows},
        title=alt.TitleParams(
            name, anchor="start", color=theme.faint, fontSize=13, fontWeight="normal", offset=4
        ),
        width=_WIDTH,
        height=len(rows) * _BAR,
    ).encode(
        y=alt.Y("side:N", sort=None, axis=names),
        x=alt.X(
            "rate:Q", scale=alt.Scale(type="log", domain=[_LEAST, _MOST], nice=False), axis=None
        ),
    )
    bars = base.mark_bar(height=_BAR - 7, cornerRadiusEnd=3).encode(
        x2="from:Q", color=alt.condition(ours, alt.value(theme.ours), alt.value(theme.others))
    )
    figures = base.mark_text(align="left", dx=6, fontSize=13).encode(
        text="figure:N", color=alt.value(theme.text)
    )
    layers: alt.LayerChart = bars + figures
    return layers


def write(path: Path, folder: Path) -> None:
    """Draw the figures of a file in both themes.

    Args:
        path: A file of `run.py --json`.
        folder: The folder for the two charts.
    """
    measured = rates(path)
    for name, theme in THEMES.items():
        spec = chart(measured, theme).to_dict()
        svg = vl_convert.vegalite_to_svg(spec, vl_version=_VERSION)
        (folder / f"throughput-{name}.svg").write_text(f"{svg}\n", encoding="utf-8")


def main() -> None:
    """Draw what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=IMAGES)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="what run.py --json wrote")
    options = parser.parse_args()
    write(options.figures, options.folder)


if __name__ == "__main__":
    main()
