# SPDX-License-Identifier: Apache-2.0
"""The snippets of the README and the docs that need a session."""

import pytest
from doc_snippets import blocks_of, pages_with, run


@pytest.mark.parametrize("page", pages_with("spark"))
def test_the_snippets_of_a_page_run_on_spark(page, spark):
    """All snippets of a page that has some for Spark, in order."""
    run([block for block in blocks_of(page) if block.mark in ("", "spark")], spark=spark)
