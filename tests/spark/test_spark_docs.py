# SPDX-License-Identifier: Apache-2.0
"""The snippets of the README and the docs that need a session."""

import pytest
from doc_snippets import ROOT, blocks_of, pages_with, printed_of, run

LONG = {
    f"docs/how-to/{name}.md"
    for name in ("read-state", "ask-a-running-query", "write-side-outputs", "recipes")
}
"""What they show, tests of Spark see as well."""
PAGES = [
    pytest.param(*each.values, id=each.id, marks=[pytest.mark.thorough] if each.id in LONG else [])
    for each in pages_with("spark")
]


def test_the_long_pages_are_there():
    """Else one that was renamed would be run with the others, and one that is gone stay in the list."""
    assert set() == {name for name in LONG if not (ROOT / name).exists()}


@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_run_on_spark(page, spark, capsys):
    """All snippets of a page that has some for Spark, in order; they print what it shows."""
    run([block for block in blocks_of(page) if block.mark in ("", "spark")], spark=spark)

    shown = printed_of(page)
    assert not shown or shown == capsys.readouterr().out
