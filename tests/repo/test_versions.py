# SPDX-License-Identifier: Apache-2.0
"""The table of versions: what is run, what is kept of it, and that the page says so."""

import configparser
import importlib.util
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

REPORT = """<testsuites><testsuite tests="5" time="12.4">
<testcase classname="tests.spark.test_a" name="test_one"/>
<testcase classname="tests.spark.test_a" name="test_two"><failure message="no"/></testcase>
<testcase classname="tests.spark.test_a" name="test_three"><error message="no"/></testcase>
<testcase classname="tests.spark.test_a" name="test_four"><skipped message="no Java"/></testcase>
<testcase classname="tests.spark.test_a" name="test_five"><skipped message="no Java"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture(scope="module")
def versions():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("versions", ROOT / "scripts" / "versions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settings(name):
    """A file of settings."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / name, encoding="utf-8")
    return parser


def expanded(pattern):
    """The names that a line of tox's `env_list` stands for."""
    parts = re.split(r"\{([^}]*)\}", pattern)
    return map("".join, itertools.product(*(part.split(",") for part in parts)))


def result(commit="aaa", failed=(), **more):
    """What is kept of a cell."""
    counts = {"passed": 3, "failed": list(failed), "skipped": {}, "seconds": 9}
    return {"commit": commit, "date": "2026-11-22", "packages": {}, "java": None, **counts, **more}


def test_tox_runs_every_cell(versions):
    """What the table has a place for is what `tox` without arguments runs."""
    lines = settings("tox.ini")["tox"]["env_list"].split()
    listed = {name for line in lines for name in expanded(line) if name.startswith("py")}

    assert listed == set(versions.cells())


def test_the_package_says_that_it_runs_on_the_pythons_and_pysparks_of_the_table(versions):
    """Classifiers and the range of PySpark do not fall behind the table."""
    # In an sdist setuptools has written it again, and indents with tabs.
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    pythons = re.findall(r"Python :: (3\.\d+)$", text, re.MULTILINE)
    lowest, above = re.search(r"^\s+pyspark>=([\d.]+),<4\.(\d+)$", text, re.MULTILINE).groups()

    assert (list(versions.PYTHONS), versions.SPARKS[0], versions.SPARKS[-1]) == (
        pythons,
        lowest,
        f"4.{int(above) - 1}",
    )


def test_the_page_shows_the_results_that_are_kept(versions, tmp_path):
    """`python scripts/versions.py table` would change nothing."""
    page = tmp_path / "page.md"
    page.write_text(versions.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    versions.write_page(page, versions.load(versions.RESULTS))

    assert page.read_text(encoding="utf-8") == versions.PAGE.read_text(encoding="utf-8")


def test_failures_errors_and_skips_of_a_report_are_told_apart(versions, tmp_path):
    """An error of a fixture counts as a failure; reasons of skips are counted."""
    path = tmp_path / "report.xml"
    path.write_text(REPORT, encoding="utf-8")

    assert {
        "passed": 1,
        "failed": ["test_a::test_three", "test_a::test_two"],
        "skipped": {"no Java": 2},
        "seconds": 12,
    } == versions.read_report(path)


def test_what_failed_or_is_of_another_commit_is_run_again(versions):
    """Only what passed at this commit is done."""
    done = dict.fromkeys(versions.cells(), result())
    done |= {"py312": result("bbb"), "py310-spark40": result(failed=["test_a::test_two"])}
    del done["py314"]

    assert ["py312", "py314", "py310-spark40"] == versions.missing(done, "aaa")


def test_the_table_names_what_failed_what_was_not_run_and_what_cannot_be(versions):
    """No cell is empty, and none looks better than it was."""
    failed = result(failed=["test_a::test_two"])
    lines = versions.table({"py310": result(), "py310-spark41": failed}).splitlines()

    assert "| **3.10** | 3 passed | not run | not run | **1 failed** | not run | no |" == lines[2]
    assert "- `py310-spark41` failed: `test_a::test_two`." in lines
