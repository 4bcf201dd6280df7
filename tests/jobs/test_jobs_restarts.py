# SPDX-License-Identifier: Apache-2.0
"""A job that never ends, whose driver is killed again and again: nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from fault_lives import SETTINGS, program
from job_driver import WINDOW

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

KILLS = 6
FILES_OF_A_LIFE = 10
PATIENCE_SECONDS = 90
END = 10**9
"""The time of the last element: every window before it is told."""


class Input:
    """Files that come one after the other, later times in later ones.

    Args:
        folder: Where they are put.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._random = folder, Random(17)
        self._number = 0
        self.elements: list[tuple[str, int, int]] = []
        folder.mkdir()

    def add(self) -> None:
        """One more file."""
        first = self._number * 40
        self._write(
            [
                (self._random.choice("abcde"), self._random.randrange(10**6), first + step)
                for step in range(40)
            ]
        )

    def end(self) -> None:
        """The last one."""
        self._write([("end", 1, END)])

    def _write(self, elements: list[tuple[str, int, int]]) -> None:
        hidden = self._folder / f".{self._number:04}"
        hidden.write_text("".join(f"{','.join(map(str, each))}\n" for each in elements))
        hidden.rename(self._folder / f"{self._number:04}.csv")
        self._number += 1
        self.elements += elements


def written(folder: Path) -> list[str]:
    """The lines that are visible."""
    return [line for path in folder.rglob("part-*") for line in path.read_text().splitlines()]


def expected_windows(elements: list[tuple[str, int, int]]) -> Counter[str]:
    """What each window before the end tells, once."""
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for key, amount, moment in elements:
        if moment < END:
            sums[key, moment // WINDOW * WINDOW + WINDOW] += amount
    return Counter(f"window,{key},{end},{total}" for (key, end), total in sums.items())


def amounts_of_running_sums(lines: list[str]) -> dict[str, list[int]]:
    """By key what was added by each step; a step that is missing or there twice makes a hole in it."""
    steps: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for line in lines:
        kind, key, count, total = line.split(",")
        if kind == "sum":
            steps[key].append((int(count), int(total)))
    amounts = {}
    for key, each in steps.items():
        each.sort()
        assert [count for count, _ in each] == list(range(1, len(each) + 1)), key
        totals = [0, *(total for _, total in each)]
        amounts[key] = sorted(after - before for before, after in pairwise(totals))
    return amounts


def wait_for(folder: Path, is_there, log: Path) -> None:
    """Until what is written is so."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while not is_there(written(folder)):
        assert time.monotonic() < limit, log.read_text()[-3000:]
        time.sleep(0.02)  # another process works


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
            time.sleep(random.random() * 2)  # wherever it is then
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    with program("job_driver.py", described, log):
        source.end()
        wait_for(tmp_path / "out", lambda lines: "sum,end,1,1" in lines, log)
        told = expected_windows(source.elements)
        wait_for(tmp_path / "out", lambda lines: sum(map(_is_window, lines)) >= told.total(), log)

    lines = written(tmp_path / "out")
    amounts: dict[str, list[int]] = defaultdict(list)
    for key, amount, _ in source.elements:
        amounts[key].append(amount)
    assert {key: sorted(each) for key, each in amounts.items()} == amounts_of_running_sums(lines)
    assert told == Counter(filter(_is_window, lines))


def _is_window(line: str) -> bool:
    return line.startswith("window,")
