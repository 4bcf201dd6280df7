# SPDX-License-Identifier: Apache-2.0
"""The lower bounds of the requirements are versions that the package works with."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = [
    "tests/types",
    "tests/cdc",
    "tests/state",
    "tests/runtime",
    "tests/testing",
]


def lowest() -> list[str]:
    """The requirements of the core and of its tests, pinned to their lower bounds."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    core = config["options"]["install_requires"]
    testing = config["options.extras_require"]["testing"]
    return re.sub(r">=([\w.]+),<\w+", r"==\1", f"{core}\n{testing}").split()


def test_the_core_runs_on_the_lowest_versions(tmp_path: Path) -> None:
    """Also that the bounds can be had together; each was once too low for a reason of its own."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = str(tmp_path / "env" / "bin" / "python")
    # As the import of a wheel needs no compiler, neither does this.
    pip = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    subprocess.run([*pip, *_for_this_python(lowest())], check=True, timeout=400)
    run = subprocess.run(
        [python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not spark", *CORE],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HYPOTHESIS_PROFILE": "quick"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert run.returncode == 0, run.stdout[-4_000:]


def _for_this_python(pins: list[str]) -> list[str]:
    """A newer Python has no wheels of the oldest NumPy and pandas, which only tests need."""
    if sys.version_info < (3, 12):
        return pins
    return [
        each.partition("==")[0] if each.startswith(("numpy", "pandas")) else each for each in pins
    ]
