# SPDX-License-Identifier: Apache-2.0
"""A job that never ends, whose driver is killed again and again: nothing is lost, nothing is there twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from subprocess import TimeoutExpired

import pytest
from fault_lives import SETTINGS, program
from job_lives import Input, amounts_of_running_sums, expected_windows, is_window, wait_for, written

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

KILLS = 6
FILES_OF_A_LIFE = 10


def test_a_job_that_never_ends_and_is_killed(tmp_path):
    """Killed at any moment, also while it starts and while it renames what it has written."""
    source, log, random = Input(tmp_path / "in"), tmp_path / "log", Random(4)
    described = {"folder": str(tmp_path), "settings": SETTINGS}
    for life in range(KILLS):
        before = len(written(tmp_path / "out"))
        with program("job_driver.py", described, log) as process:
            for _ in range(FILES_OF_A_LIFE):
                source.add()
            if life % 4 != 3:  # else at a moment of its start
                wait_for(tmp_path / "out", lambda lines, n=before: len(lines) > n, log)
                source.add()
            with pytest.raises(
                TimeoutExpired
            ):  # wherever it is then; the end of the block kills it
                process.wait(random.random() * 2)

    with program("job_driver.py", described, log):
        source.end()
        wait_for(tmp_path / "out", lambda lines: "sum,end,1,1" in lines, log)
        told = expected_windows(source.elements)
        wait_for(tmp_path / "out", lambda lines: sum(map(is_window, lines)) >= told.total(), log)

    lines = written(tmp_path / "out")
    amounts: dict[str, list[int]] = defaultdict(list)
    for key, amount, _ in source.elements:
        amounts[key].append(amount)
    assert {key: sorted(each) for key, each in amounts.items()} == amounts_of_running_sums(lines)
    assert told == Counter(filter(is_window, lines))
