# SPDX-License-Identifier: Apache-2.0
"""Sources that wait for each other, and times assigned between keyed operators, over drivers that are killed."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="needs PySpark 4.0")

from aligned_job_driver import NAME
from fault_lives import SETTINGS, program
from job_lives import (
    END,
    amounts_of_running_sums,
    expected_windows,
    is_window,
    wait_for,
    wait_until,
    written,
)

LINES = 40
STEP = 10


class Inputs:
    """Files of two sources; the keys of an element tell its source."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._random, self._number = folder, Random(23), 0
        self.elements: list[tuple[str, int, int]] = []
        for name in ("left", "right"):
            (folder / name).mkdir()

    def add(self, name: str, first: int, keys: str = "abc") -> None:
        """One more file, whose times go up from the first one's."""
        lot = [
            (f"{name}-{self._random.choice(keys)}", self._random.randrange(1000), moment)
            for moment in range(first, first + LINES * STEP, STEP)
        ]
        self._write(name, lot)

    def end(self) -> None:
        """The last ones."""
        for name in ("left", "right"):
            self._write(name, [(f"{name}-end", 1, END)])

    def _write(self, name: str, elements: list[tuple[str, int, int]]) -> None:
        hidden = self._folder / name / f".{self._number:04}"
        hidden.write_text("".join(f"{','.join(map(str, each))}\n" for each in elements))
        hidden.rename(self._folder / name / f"{self._number:04}.csv")
        self._number += 1
        self.elements += elements


def count_of(lines: list[str], beginning: str) -> int:
    """The number of elements of a source that were summed up."""
    return sum(line.startswith(f"sum,{beginning}") for line in lines)


@pytest.mark.parametrize("place", ["local disk", "viewfs"])
def test_aligned_sources_and_own_times_over_killed_drivers(tmp_path, place):
    """A source that is ahead still waits after a restart; nothing is lost, doubled or late."""
    inputs, log, directory = Inputs(tmp_path), tmp_path / "log", tmp_path / "checkpoints"
    directory.mkdir()
    mount = {"spark.hadoop.fs.viewfs.mounttable.jobs.link./here": directory.as_uri()}
    described = {"folder": str(tmp_path), "settings": {**SETTINGS, **mount}}
    if place == "viewfs":
        described["checkpoints"] = "viewfs://jobs/here"
    job = directory / NAME

    with program("aligned_job_driver.py", described, log):
        inputs.add("right", 0)
        inputs.add("left", 0)
        wait_for(tmp_path / "out", lambda lines: len(lines) >= 2 * LINES, log)
        inputs.add("left", 1000)  # more than the drift ahead of the right one
        wait_until((job / "sources" / "0" / "_held").exists, log)
        inputs.add("left", 1400)

    offsets = {each.name for each in (job / "checkpoint" / "offsets").iterdir()}
    with program("aligned_job_driver.py", described, log):
        wait_until(
            lambda: {each.name for each in (job / "checkpoint" / "offsets").iterdir()} - offsets,
            log,
        )
        wait_for(tmp_path / "out", lambda lines: count_of(lines, "left") >= 2 * LINES, log)
        while_held = count_of(written(tmp_path / "out"), "left")
        for first in (400, 800, 1200):
            inputs.add("right", first)
        wait_for(tmp_path / "out", lambda lines: count_of(lines, "left") >= 3 * LINES, log)

    with program("aligned_job_driver.py", described, log):
        inputs.add("right", 1600)
        inputs.end()
        ends = ("sum,left-end,1,1", "sum,right-end,1,1")
        wait_for(tmp_path / "out", lambda lines: all(each in lines for each in ends), log)
        told = expected_windows(inputs.elements)
        wait_for(tmp_path / "out", lambda lines: sum(map(is_window, lines)) >= told.total(), log)

    lines = written(tmp_path / "out")
    amounts: dict[str, list[int]] = defaultdict(list)
    for key, amount, _ in inputs.elements:
        amounts[key].append(amount)
    assert 2 * LINES == while_held
    assert {key: sorted(each) for key, each in amounts.items()} == amounts_of_running_sums(lines)
    assert told == Counter(filter(is_window, lines))
