# SPDX-License-Identifier: Apache-2.0
"""Input for `job_driver`, what it has written, and what it must have written."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random

from job_driver import WINDOW

__all__ = [
    "Input",
    "amounts_of_running_sums",
    "expected_windows",
    "is_window",
    "wait_for",
    "wait_until",
    "written",
]

PATIENCE_SECONDS = 120
END = 10**9
"""The time of the last element: every window before it is told."""


def lot_of(random: Random, first: int) -> list[tuple[str, int, int]]:
    """Elements whose times go up from the first one's."""
    return [(random.choice("abcde"), random.randrange(10**6), first + step) for step in range(40)]


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
        self._write(lot_of(self._random, first))

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


def wait_for(folder: Path, is_there: Callable[[list[str]], bool], log: Path | None = None) -> None:
    """Until what is written is so."""
    wait_until(lambda: is_there(written(folder)), log)


def wait_until(is_so: Callable[[], object], log: Path | None = None) -> None:
    """Until something is true."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < limit, log.read_text()[-3000:] if log else "it never was"
        time.sleep(0.02)  # another process works


def is_window(line: str) -> bool:
    """Whether a line tells a window."""
    return line.startswith("window,")
