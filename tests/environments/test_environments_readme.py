# SPDX-License-Identifier: Apache-2.0
"""The README and the tutorial from an empty environment, on the oldest and the newest pairs of Python and PySpark.

Each takes some minutes and 1 GB: PySpark is large.  Interpreters are looked for on the PATH and under
`~/.pyenv/versions`; a pair whose interpreter is not there is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from doc_snippets import ROOT, blocks_of, printed_of

PAIRS = [("3.10", "4.0"), ("3.13", "4.3"), ("3.14", "4.3")]


def interpreter(version: str) -> str:
    """The path of a Python that runs; skips the test where there is none."""
    versions = Path.home() / ".pyenv" / "versions"
    on_path = shutil.which(f"python{version}")
    for found in [on_path, *map(str, sorted(versions.glob(f"{version}.*/bin/python{version}")))]:
        # A shim of pyenv may be there and run nothing.
        if found and not subprocess.run([found, "-c", ""], check=False).returncode:
            return found
    pytest.skip(f"Python {version} is not installed")


class Newcomer:
    """A checkout and an empty environment, which is active.

    Args:
        folder: An empty one.
        python: The interpreter of the environment.
    """

    def __init__(self, folder: Path, python: str) -> None:
        self.checkout, env = folder / "checkout", folder / "env"
        leave_out = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "site")
        shutil.copytree(ROOT, self.checkout, ignore=leave_out)
        subprocess.run([python, "-m", "venv", str(env)], check=True)
        ours = {"PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "PYTHON"}
        self.environ = {name: value for name, value in os.environ.items() if name not in ours}
        self.environ["VIRTUAL_ENV"] = str(env)
        self.environ["PATH"] = f"{env / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def types(self, *command: str) -> str:
        """What a command prints, which must succeed."""
        done = subprocess.run(
            command,
            cwd=self.checkout,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, f"{command}: {done.stdout}"
        return done.stdout

    def runs(self, page: Path) -> str:
        """What all snippets of a page print, as one program."""
        program = self.checkout.parent / f"{page.stem}.py"
        program.write_text("\n".join(each.code for each in blocks_of(page)), "utf-8")
        done = subprocess.run(
            ["python", "-I", str(program)],
            cwd=self.checkout.parent,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, done.stderr
        return done.stdout


@pytest.fixture
def folder(tmp_path):
    """An empty one, which is removed: pytest would keep those of three runs."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(("python", "pyspark"), PAIRS)
def test_what_the_readme_says_works_in_an_empty_environment(python, pyspark, folder):
    """Its example, the demo, and the test command on a part of the tests; and the tutorial."""
    newcomer = Newcomer(folder, interpreter(python))
    pages = [ROOT / "README.md", ROOT / "docs" / "tutorial.md"]

    newcomer.types("pip", "install", "--quiet", ".[spark,testing]", f"pyspark=={pyspark}.*")
    printed = {page: newcomer.runs(page) for page in pages}
    shown = newcomer.types("./scripts/demo", "--days", "9", "--days-per-batch", "3")
    part = ["tests/testing", "tests/spark/test_spark_docs.py", "-k", "harness or README"]
    tested = newcomer.types("./scripts/test", "-q", *part)
    versions = newcomer.types(
        "python", "-c", "import pyspark, sys; print(pyspark.__version__, sys.version)"
    )

    assert {page: printed_of(page) for page in pages} == printed
    assert versions.startswith(f"{pyspark}.")
    assert python in versions
    assert "equal   yes" in shown
    assert " passed" in tested
    assert " failed" not in tested
