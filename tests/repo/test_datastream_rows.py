# SPDX-License-Identifier: Apache-2.0
"""Every row of the page of DataStream semantics names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "datastream.md").read_text()
ROW = re.compile(r"^\| (?P<rule>[^|]+) \| (?P<shown>[^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`(\w+)::(\w+)`")
MODULES = {path.stem: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
ROWS = [
    (row["rule"], row["shown"])
    for row in ROW.finditer(PAGE)
    if row["rule"] != "Flink" and not row["rule"].startswith("---")
]


@pytest.mark.parametrize("rule", [rule for rule, _ in ROWS])
def test_a_row_is_shown_by_a_test(rule):
    """Or says that it is not here, and what is instead; or where its own rows are."""
    shown = dict(ROWS)[rule]

    assert TEST.search(shown) or re.match(r"\*not here\*: \w|\[below\]\(#", shown)


@pytest.mark.parametrize(
    ("module", "test"), sorted({each for _, shown in ROWS for each in TEST.findall(shown)})
)
def test_a_test_that_a_row_names_is_there(module, test):
    """In the module of that name."""
    assert f"\ndef {test}(" in MODULES.get(module, "")


def test_every_line_of_the_tables_is_read():
    """A bar too many would leave a row out."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    heads = PAGE.count("| Flink | shown by |")

    assert len(lines) - heads == len(ROWS) > 90
    assert len(ROWS) == len(dict(ROWS))
