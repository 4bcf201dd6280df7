# SPDX-License-Identifier: Apache-2.0
"""Nothing here points to a document that is not here: a sentence says what it means instead."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "docs", "examples", "pyflinklike", "scripts", "tests")
# One by one, because a pattern that begins with its letters is looked for many times as fast.
CITATIONS = [
    re.compile(pattern)
    for pattern in (
        r"""\[(?<!# \[)(\d+(\.\d+)+)[^]"']*\]""",  # [2.1.11], [2.4 C6, L9]
        r"\[(?<!able\[)[A-Z]\d+(,\s*[\w. ]+)*\]",  # [L9], of a list of rules; not disable[N802]
        r"DESIGN(?<!\wDESIGN)(\.md)?\s*\d",
        r"issue(?<!\wissue)s?\s+#?\d",  # of a tracker that readers do not have
        r"spec(?<!\wspec)(ification)?('s)?\s+\d",
        r"/work/(?<![\w/.-]/work/)\w",  # a path on one machine
    )
]


def prose_of_python(source: str) -> Iterator[str]:
    """Its comments and docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def prose_of_markdown(text: str) -> Iterator[str]:
    """All but its code."""
    yield re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def citations(text: str, name: str) -> list[str]:
    """What a file cites that is not here."""
    if not any(each.search(text) for each in CITATIONS):  # most files, which stay whole
        return []
    prose = prose_of_python(text) if name.endswith(".py") else prose_of_markdown(text)
    return [found[0] for part in prose for each in CITATIONS for found in each.finditer(part)]


FILES = sorted(
    path
    for places in (REPOSITORY.glob("*.md"), *((REPOSITORY / each).rglob("*") for each in FOLDERS))
    for path in places
    if path.suffix in (".py", ".md") and path != Path(__file__).resolve()
)


def test_no_file_cites_a_document_that_is_not_in_the_repository():
    """Numbers of sections and issues say nothing to a reader who has only this repository."""
    found = {
        str(path.relative_to(REPOSITORY)): cited
        for path in FILES
        if (cited := citations(path.read_text(), path.name))
    }

    assert {} == found
    assert len(FILES) > 300


@pytest.mark.parametrize(
    "text",
    [
        '"""Nothing to read [2.1.11]."""',
        'def f():\n    """As in Flink [2.6.3, DESIGN 9]."""',
        "x = 1  # the reason: [DESIGN 9]",
        "# every one is judged [L9]",
        "# as issue 4 has it",
        "# the rules of specification 2.6",
        '"""See /work/shared/notes."""',
    ],
)
def test_a_citation_in_a_module_is_found(text):
    """In docstrings and comments."""
    assert citations(text, "module.py")


@pytest.mark.parametrize(
    "text", ["x = [0.5, 1.25]", '"""An issue of the day, in version 1.2 [sic]."""', "# [1.5, 2"]
)
def test_what_is_no_citation_is_not_taken_for_one(text):
    """Lists of numbers are code."""
    assert [] == citations(text, "module.py")


def test_a_citation_in_a_page_is_found_unless_it_is_code():
    """The headings of a changelog are versions."""
    page = "## [0.1.0]\n\nAs told [2.4].\n\n```python\nx = [2.4]\n```\n\n`[1.5]`\n"

    assert ["[2.4]"] == citations(page, "page.md")
