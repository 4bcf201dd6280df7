# SPDX-License-Identifier: Apache-2.0
"""The tests keep to what `tests/README.md` says of them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
README = (TESTS / "README.md").read_text()
MODULES = sorted(TESTS.rglob("*.py"))


def names_in_table(heading: str) -> set[str]:
    """What the first column of the table under a heading names."""
    section = README.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", section, flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([\w/]+)`", row)}


def test_the_readme_names_every_folder():
    """A newcomer finds the place of a test there."""
    folders = {f"{path.name}/" for path in TESTS.iterdir() if any(path.glob("*.py"))}

    assert set() == folders - names_in_table("Where a test goes")


def test_the_readme_names_every_module_of_support():
    """And none that is not there."""
    modules = {path.stem for path in (TESTS / "support").glob("*.py")}

    assert modules == names_in_table("Support modules")


def test_the_bug_to_plant_is_code_that_is_there():
    """So that whoever follows the README finds the line."""
    section = README.partition("## Plant a bug\n")[2]
    module = re.search(r"in `(pyflinklike/[\w/]+\.py)`", section)[1]
    diff = re.search(r"```diff\n(.*?)```", section, flags=re.DOTALL)[1]
    planted_in = "".join(line[1:] + "\n" for line in diff.splitlines())

    assert planted_in in (TESTS.parent / module).read_text()


def test_a_module_has_a_name_of_its_own():
    """Outside of a package, the second module of a name would not be imported."""
    bare = [path for path in MODULES if not (path.parent / "__init__.py").exists()]
    names = Counter(path.stem for path in bare if path.name != "conftest.py")

    assert [] == [name for name, count in names.items() if count > 1]


def test_no_test_sleeps():
    """A helper may poll for a sign of another process."""
    sleeping = [
        f"{path.name}:{node.lineno}"
        for path in MODULES
        if path.parent.name != "support" and "sleep" in (source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "time.sleep"
    ]

    assert [] == sleeping
