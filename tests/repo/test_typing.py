# SPDX-License-Identifier: Apache-2.0
"""What type checkers make of programs: mypy and pyright (`basedpyright`), where they are installed.

`tests/typing/accepted.py` must pass under their strict rules; `tests/typing/refused.py` must have an error
on each line that it marks, and on no other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "typing"

Lines = dict[str, set[int]]
"""The lines with an error, by the name of the file."""


def run_mypy(cache: Path) -> Lines:
    """What mypy reports with `--strict`."""
    pytest.importorskip("mypy")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
    ]
    settings = ["--config-file=", f"--cache-dir={cache}", "--python-version=3.10"]
    run = subprocess.run(
        [*command, *settings, *map(str, sorted(PROGRAMS.glob("*.py")))],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert not run.stderr, run.stderr
    lines: Lines = {}
    for name, line in re.findall(r"([^/\\]+\.py):(\d+): error:", run.stdout):
        lines.setdefault(name, set()).add(int(line))
    return lines


def run_pyright(cache: Path) -> Lines:
    """What pyright reports of a program that it checks as strictly as mypy does."""
    pytest.importorskip("basedpyright")
    command = [sys.executable, "-m", "basedpyright", "--outputjson"]
    settings = cache / "pyrightconfig.json"
    settings.write_text(
        json.dumps(
            {
                "include": [str(PROGRAMS)],
                "extraPaths": [str(ROOT)],
                "pythonVersion": "3.10",
                "typeCheckingMode": "standard",
                "reportMissingTypeArgument": "error",
            }
        ),
        encoding="utf-8",
    )
    run = subprocess.run(
        [*command, "--project", str(settings), "--pythonpath", sys.executable],
        check=False,
        capture_output=True,
        text=True,
    )
    lines: Lines = {}
    for found in json.loads(run.stdout)["generalDiagnostics"]:
        if found["severity"] == "error":
            line = found["range"]["start"]["line"] + 1
            lines.setdefault(Path(found["file"]).name, set()).add(line)
    return lines


@pytest.fixture(scope="module", params=[run_mypy, run_pyright], ids=["mypy", "pyright"])
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """The lines in which a type checker finds errors."""
    run: Callable[[Path], Lines] = request.param
    return run(tmp_path_factory.mktemp("checker"))


def test_a_checker_accepts_correct_programs(errors: Lines):
    """It knows each type that they assert, also of classes written without brackets."""
    assert errors.get("accepted.py", set()) == set()


def test_a_checker_refuses_each_mistake_and_nothing_else(errors: Lines):
    """So the types say no less, and no more, than what is meant."""
    text = (PROGRAMS / "refused.py").read_text(encoding="utf-8").splitlines()
    marked = {at for at, line in enumerate(text, 1) if line.endswith("# refused")}

    assert errors.get("refused.py", set()) == marked
