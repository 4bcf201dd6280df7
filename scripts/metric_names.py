# SPDX-License-Identifier: Apache-2.0
"""The tables of all metrics that listeners export, made of their catalogue.

python scripts/metric_names.py          # writes them into docs/reference/metrics.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyflinklike.monitoring.catalogue import CATALOGUE

PAGE: Final = Path(__file__).resolve().parents[1] / "docs/reference/metrics.md"
_BEGIN: Final = "<!-- written by scripts/metric_names.py -->\n"
_END: Final = "<!-- until here -->\n"
_GROUPS: Final = {
    "Operators": ("query", "operator"),
    "Inputs of an operator": ("query", "operator", "input"),
    "Functions": ("query", "operator", "name"),
    "Queries": ("query",),
    "Phases of micro-batches": ("query", "phase"),
    "Spark's stateful operators": ("query", "state_operator"),
    "The listener": (),
}


def page() -> str:
    """The page with its tables written anew."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{_BEGIN}\n{tables()}{_END}{after}"


def tables() -> str:
    """A heading and a table for each set of labels."""
    parts = []
    for title, labels in _GROUPS.items():
        named = f"Labels: {', '.join(f'`{each}`' for each in labels)}.\n\n" if labels else ""
        rows = [
            f"| `{each.name}` | {each.help} | {_short(each.source)} |\n"
            for each in CATALOGUE
            if each.labels == labels
        ]
        parts.append(
            f"### {title}\n\n{named}| name | meaning | from |\n|---|---|---|\n{''.join(rows)}\n"
        )
    assert sum(each.count("\n| `") for each in parts) == len(CATALOGUE)
    return "".join(parts)


def _short(source: str) -> str:
    """The source as a cell: the page says once which numbers are those of `metrics_of`."""
    return source.removesuffix(" of `metrics_of`").replace("`metrics_of(...).user`", "`user`")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
