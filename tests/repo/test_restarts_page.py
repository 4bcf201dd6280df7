# SPDX-License-Identifier: Apache-2.0
"""The page of restarts has each change that tests restart with, and the answer that they see."""

from __future__ import annotations

import re

from doc_snippets import ROOT
from restart_cells import CELLS

PAGE = ROOT / "docs" / "reference" / "restarts.md"
PREFIXES = {
    "Keys": "key: ",
    "Sources of DataFrames": "source of a DataFrame: ",
    "Functions": "function: ",
    "States": "state: ",
    "TTL": "TTL: ",
    "Windows": "windows: ",
    "Folds": "fold: ",
    "Stores": "store: ",
    "Jobs of the DataStream API": "job: ",
}
"""How the names of a section begin in the tests; elsewhere the page has them in full."""
_ROW = re.compile(r"^\| ([^|]+) \| (goes on|refused) \| ", re.MULTILINE)
_MARK = re.compile(r"""restarts\(\s*"([^"]+)",\s*"([^"]+)",?\s*\)""")
_CELL = re.compile(r"""\b(goes_on|refused)\(\s*"([^"]+)",""")


def shown() -> list[tuple[str, str]]:
    """Changes and answers of the page: a row has one answer for each of its changes."""
    found = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        of_section = PREFIXES.get(section.partition("\n")[0], "")
        for changes, answer in _ROW.findall(section):
            prefix = of_section
            for change in changes.split("; "):
                head, colon, _ = change.partition(": ")
                prefix = head + colon if colon else prefix
                found.append((change if colon else prefix + change, answer))
    return found


def tried() -> set[tuple[str, str]]:
    """Rows and answers of all tests."""
    found = {(cell.row, cell.answer) for cell in CELLS}
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        found |= set(_MARK.findall(text))
        found |= {(row, answer.replace("_", " ")) for answer, row in _CELL.findall(text)}
    return found


def test_the_page_has_what_the_tests_try():
    """Neither a change without a test, nor a test without its change, nor another answer."""
    rows = shown()

    assert sorted(tried()) == sorted(rows)
    assert len(rows) == len({row for row, _ in rows})
