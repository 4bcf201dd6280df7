# SPDX-License-Identifier: Apache-2.0
"""The Python snippets of the README and of the pages under docs.

The blocks of one page share their names, in order.  A comment right before a block says what it
needs:

    <!-- session -->            makes the session, where a test has none
    <!-- spark -->              runs where there is a session, called `spark`
    <!-- not run: reason -->    is only compiled

A text after `<!-- printed -->` is what the snippets before it print.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>spark|session|printed|not run: [^\n]+) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A snippet, and where it stands."""

    page: Path
    line: int
    mark: str
    code: str

    def compiled(self) -> CodeType:
        """The code object; its line numbers are the page's."""
        return compile("\n" * (self.line - 1) + self.code, str(self.page), "exec")


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """The Python snippets of a page; with `"py"` among the languages also those that are in parts."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page, text.count("\n", 0, found.start("code")) + 1, found["mark"] or "", found["code"]
        )
        for found in BLOCK.finditer(text)
        if found["language"] in ("python", *languages)
    ]


def printed_of(page: Path) -> str:
    """What the snippets of a page print, as it shows it; empty if it shows nothing."""
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return "".join(each["code"] for each in found if each["mark"] == "printed")


def run(blocks: list[Block], **names: Any) -> None:
    """Run snippets one after another in one namespace."""
    # No module has this name, so that cloudpickle takes the classes along by value.
    namespace = {"__name__": "snippets", **names}
    for block in blocks:
        if "import duckdb" in block.code:
            pytest.importorskip("duckdb", reason="DuckDB is not installed (the extra `tools`)")
        exec(block.compiled(), namespace)


def pages_with(*marks: str) -> list[Any]:
    """The pages that have such snippets, as parameters of a test."""
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if any(block.mark in marks for block in blocks_of(page))
    ]
