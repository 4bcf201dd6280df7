# SPDX-License-Identifier: Apache-2.0
"""A million records of which one in a hundred raises, and a driver that is killed on the way."""

from __future__ import annotations

import traceback
from collections import Counter

import letters_driver
import pyarrow.parquet as pq
import pytest
from fault_ledger import await_that
from fault_lives import SETTINGS, kill, program

from pyflinklike.testing import KeyedProcessHarness

RECORDS, FILES = 1_000_000, 10


def _numbers(directory, column):
    """The values of a column of all batches of a sink."""
    files = sorted(directory.glob("*/*.parquet"))
    return [
        value
        for each in files
        for value in pq.read_table(each, columns=[column])[column].to_pylist()
    ]


@pytest.mark.spark
def test_a_million_records_with_one_in_a_hundred_that_raises(tmp_path):
    """Rows and letters are right and none comes twice; ten letters fail again with the same frames."""
    letters_driver.write_input(tmp_path / "input", RECORDS, FILES)
    settings = {**SETTINGS, "spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    described = {"root": str(tmp_path), "settings": settings}
    commits, log = tmp_path / "checkpoint" / "commits", tmp_path / "log"

    def committed():
        return len([each for each in commits.glob("*") if each.name.isdecimal()])

    with program("letters_driver.py", described, log) as process:
        await_that(lambda: process.poll() is not None or committed() >= 4, 300)
        assert process.poll() is None, log.read_text()[-3_000:]
        kill(process)
    killed_after = committed()
    with program("letters_driver.py", described, log) as process:
        assert process.wait(500) == 0, log.read_text()[-3_000:]

    poison = {number for number in range(RECORDS) if letters_driver.is_poison(number)}
    rows, dead = tmp_path / "main", tmp_path / "dead"
    assert (True, FILES) == (killed_after < FILES, committed())
    letters = [
        row for each in sorted(dead.glob("*/*.parquet")) for row in pq.read_table(each).to_pylist()
    ]
    raised = sorted(int(each["message"].split()[1]) for each in letters)
    assert sorted(poison) == raised
    assert [each for each in range(RECORDS) if each not in poison] == sorted(
        _numbers(rows, "number")
    )
    # Each key has counted its good records, one after the other: no failed call has left a count.
    good = Counter(
        each * 7_919 % letters_driver.KEYS for each in range(RECORDS) if each not in poison
    )
    counts = Counter(zip(_numbers(rows, "key"), _numbers(rows, "count")))
    assert {(key, count): 1 for key, most in good.items() for count in range(1, most + 1)} == counts
    for letter in letters[:: len(letters) // 10][:10]:
        with KeyedProcessHarness.of_failure(
            letter["failure_snapshot"], letters_driver.Counts()
        ) as harness:
            with pytest.raises(ValueError, match="record") as again:
                harness.replay()
            told = "".join(traceback.format_exception(again.value))
            assert (letter["message"], _frames(letter["traceback"])) == (
                str(again.value),
                _frames(told),
            )


def _frames(text):
    """The frames of the user's file, and what was raised."""
    return [
        line for line in text.splitlines() if "letters_driver.py" in line or "ValueError" in line
    ]
