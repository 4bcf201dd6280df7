# SPDX-License-Identifier: Apache-2.0
"""Every row of `tests/datastream.md` names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "tests" / "datastream.md").read_text()
ROW = re.compile(r"^\| (?P<rule>[^|]+) \| (?P<shown>[^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`(\w+)::(\w+)`")
MODULES = {path.stem: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
ROWS = [
    (row["rule"], row["shown"])
    for row in ROW.finditer(PAGE)
    if row["rule"] != "Flink" and not row["rule"].startswith("---")
]


def test_a_row_is_shown_by_a_test():
    """Or says that it is not here, and what is instead; or where its own rows are."""
    instead = re.compile(r"\*not here\*: \w|\[below\]\(#")

    assert [] == [rule for rule, shown in ROWS if not (TEST.search(shown) or instead.match(shown))]


def test_a_test_that_a_row_names_is_there():
    """In the module of that name."""
    named = {each for _, shown in ROWS for each in TEST.findall(shown)}

    assert [] == [
        f"{module}: {test}"
        for module, test in sorted(named)
        if f"\ndef {test}(" not in MODULES.get(module, "")
    ]
    assert len(named) > 150


def test_every_line_of_the_tables_is_read():
    """A bar too many would leave a row out."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    heads = PAGE.count("| Flink | shown by |")

    assert len(lines) - heads == len(ROWS) > 90
    assert len(ROWS) == len(dict(ROWS))
