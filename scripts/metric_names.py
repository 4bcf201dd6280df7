# SPDX-License-Identifier: Apache-2.0
"""The page of all metrics that listeners export, made of their catalogue.

python scripts/metric_names.py          # writes docs/reference/metric-names.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyflinklike.monitoring.catalogue import CATALOGUE

PAGE: Final = Path(__file__).resolve().parents[1] / "docs/reference/metric-names.md"
_HEAD: Final = """# Metrics for Prometheus and OpenTelemetry

[Watch a query](../how-to/watch-a-query.md) says how to start a listener and what to look at; this page has all that it exports.
It is written by `python scripts/metric_names.py` from the catalogue that both listeners are made of.

- A **counter** is the sum over the micro-batches since the driver began, and only grows. A **sum** may also fall; to Prometheus it is a gauge. A **gauge** is of the last micro-batch, and goes when the query ends.
- `query` is the name of the query (`queryName`), or else its id; `operator` the `uid` of an operator, or else the name of its function's class; `state_operator` the number of a stateful operator in Spark's progress; `input` 1 or 2; `phase` as Spark calls it; `name` the full name of a function's metric.
- OpenTelemetry's instruments are without unit and ending: `pyflinklike.segment` in `By` is `pyflinklike_segment_bytes_total`. Its exporters to Prometheus append both, so that names are the same there.
- What Spark's progress says is of one micro-batch. One that is done again after a failure of the driver counts there again, in a new process that began at 0.

"""
_GROUPS: Final = {
    "Of a query": ("query",),
    "Of the phases of micro-batches": ("query", "phase"),
    "Of an operator": ("query", "operator"),
    "Of the inputs of an operator": ("query", "operator", "input"),
    "Of Spark's stateful operators": ("query", "state_operator"),
    "Of functions": ("query", "operator", "name"),
    "Of the listener": (),
}
_API: Final = """## API

::: pyflinklike.monitoring.PrometheusListener

::: pyflinklike.monitoring.OpenTelemetryListener
"""


def page() -> str:
    """The text of the page."""
    parts = [_HEAD]
    for title, labels in _GROUPS.items():
        told = f"Labels: {', '.join(f'`{each}`' for each in labels)}.\n\n" if labels else ""
        rows = [
            f"| `{each.name}` | {each.kind} | {each.help} | {each.source} |\n"
            for each in CATALOGUE
            if each.labels == labels
        ]
        parts.append(
            f"## {title}\n\n{told}| name | kind | what it is | from |\n|---|---|---|---|\n"
            f"{''.join(rows)}\n"
        )
    assert sum(each.count("\n| `") for each in parts) == len(CATALOGUE)
    return "".join([*parts, _API])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
