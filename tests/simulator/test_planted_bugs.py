# SPDX-License-Identifier: Apache-2.0
"""The bugs that the simulator is measured by."""

from __future__ import annotations

import ast

import pytest
from planted_bugs import BUGS, PlantedBug


@pytest.mark.parametrize("bug", BUGS, ids=[each.name for each in BUGS])
def test_a_planted_bug_is_a_change_of_code_that_compiles(bug: PlantedBug) -> None:
    """The text is there once, and its replacement makes another program."""
    source = bug.path.read_text(encoding="utf-8")
    assert ast.dump(ast.parse(bug.apply(source))) != ast.dump(ast.parse(source))


def test_planted_bugs_have_names_of_their_own() -> None:
    """A run names its bug by its name alone."""
    assert len({each.name for each in BUGS}) == len(BUGS)
