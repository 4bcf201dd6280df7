# SPDX-License-Identifier: Apache-2.0
"""Workers that Spark forks from our daemon can do what all others can."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from surroundings import REPOSITORY

DRIVER = REPOSITORY / "tests" / "support" / "daemon_driver.py"
SUM = sum(range(200_000))


@pytest.mark.telling
@pytest.mark.thorough
@pytest.mark.classic(reason="has a session of its own")
@pytest.mark.usefixtures("spark")  # so that there is a JVM to start, and the marks of Spark's tests
def test_workers_of_the_daemon_use_threads_and_draw_numbers_of_their_own(tmp_path: Path):
    """Their packages were imported before the fork, where Arrow, OpenBLAS and NumPy keep threads and seeds."""
    path = os.pathsep.join((str(REPOSITORY), str(DRIVER.parent)))
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    workers = told["workers"]

    right = {"forked with imports": True, "arrow": SUM, "pandas": SUM, "numpy": 400.0**3}
    assert [right] * 2 == [{name: each[name] for name in right} for each in workers]
    assert (2, 2) == tuple(len({each[name] for each in workers}) for name in ("pid", "random"))
    assert [["a", 1], ["a", 2], ["b", 1]] == told["counts"]
