# SPDX-License-Identifier: Apache-2.0
"""The tests keep to what `tests/README.md` says of them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MODULES = sorted(TESTS.rglob("*.py"))


def test_a_folder_has_the_name_of_a_room_or_is_told_of():
    """A newcomer finds the place of a test."""
    readme = (TESTS / "README.md").read_text()
    rooms = {path.name.strip("_") for path in (TESTS.parent / "pyflinklike").iterdir()}
    folders = {path.name for path in TESTS.iterdir() if any(path.glob("*.py"))}

    assert [] == [each for each in folders - rooms if f"`{each}/`" not in readme]


BUSY = """
import pytest
left = ["fixture", "made", "call", "made", "done"]


@pytest.fixture(scope="module")
def query():
    assert "fixture" != left.pop(0), "Python worker failed to connect back."


def test_of_a_query(query):
    assert "call" != left.pop(0), "Python worker failed to connect back."
    assert not left
"""


def test_a_test_whose_worker_had_no_time_to_start_is_run_again(tmp_path):
    """Also where a fixture met it; the end of the run tells of each."""
    (tmp_path / "test_busy.py").write_text(BUSY)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS / "support"))),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider"]

    run = subprocess.run(
        [*command, "-c", os.devnull, str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == run.returncode, run.stdout
    assert "1 passed, 2 warnings" in run.stdout


def test_a_module_has_a_name_of_its_own():
    """Outside of a package, the second module of a name would not be imported."""
    bare = [path for path in MODULES if not (path.parent / "__init__.py").exists()]
    names = Counter(path.stem for path in bare if path.name != "conftest.py")

    assert [] == [name for name, count in names.items() if count > 1]


def test_a_module_whose_tests_need_a_session_says_so_in_its_name():
    """`--quick` is without them, and one process of two has all of them."""
    needing = re.compile(r"^def test_\w+\([^)]*\bspark\b", re.MULTILINE)
    kinds = ("test_spark_", "test_jobs_", "test_connect_", "test_cluster_", "test_brokers_")
    tests = [path for path in MODULES if path.name.startswith("test_")]

    assert [] == [
        path.name
        for path in tests
        if not path.name.startswith(kinds) and needing.search(path.read_text())
    ]


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
