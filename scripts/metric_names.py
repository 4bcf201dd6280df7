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
_FROM_SPARK: Final = ("Queries", "Phases of micro-batches", "Spark's stateful operators")
"""The groups whose numbers are Spark's; the names of the others say which of ours they are."""


def page() -> str:
    """The page with its tables written anew."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{_BEGIN}\n{tables()}{_END}{after}"


def tables() -> str:
    """A heading and a table for each set of labels."""
    parts = []
    for title, labels in _GROUPS.items():
        entries = [each for each in CATALOGUE if each.labels == labels]
        named = f"Labels: {', '.join(f'`{each}`' for each in labels)}.\n\n" if labels else ""
        if title in _FROM_SPARK:
            head = "| name | meaning | from |\n|---|---|---|\n"
            rows = [f"| `{each.name}` | {each.help} | {each.source} |\n" for each in entries]
        else:
            head = "| name | meaning |\n|---|---|\n"
            rows = [f"| `{each.name}` | {each.help} |\n" for each in entries]
        parts.append(f"### {title}\n\n{named}{head}{''.join(rows)}\n")
    assert sum(each.count("\n| `") for each in parts) == len(CATALOGUE)
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
