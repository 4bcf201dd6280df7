# SPDX-License-Identifier: Apache-2.0
"""Jobs that never end: killed again and again, cancelled, collected from, and each time they go on."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from random import Random
from subprocess import TimeoutExpired

import pytest
from fault_lives import SETTINGS, program
from job_lives import Input, amounts_of_running_sums, expected_windows, is_window, wait_for, written
from spark_jobs import add, going_on, lines_in, sink_in, until

from pyflinklike.errors import SparkSetupError, UserFunctionError
from pyflinklike.pyflink.common import (
    JobStatus,
    Types,
)

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")


KILLS = 5
FILES_OF_A_LIFE = 8


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


def counts(env, folder):
    """Counts of lines by their text."""
    lines = lines_in(env, folder)
    pairs = lines.map(lambda line: (line, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
    return pairs.key_by(lambda pair: pair[0]).sum(1)


def started(folder, **settings):
    """The job with a sink of files, in the background."""
    env = going_on(folder, **settings)
    told = counts(env, folder).map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
    told.sink_to(sink_in(folder / "out"))
    return env.execute_async("counts")


@pytest.mark.usefixtures("shipped_module")
def test_a_cancelled_job_goes_on_where_it_was(tmp_path):
    """With its state, and without what it has read; with another retention its checkpoint goes."""
    add(tmp_path, "one", "a", "b", "a")
    first = started(tmp_path)
    until(tmp_path, 3)
    with pytest.raises(SparkSetupError, match="a job runs once at a time"):
        started(tmp_path)
    first.cancel().result()
    add(tmp_path, "two", "a", "c")

    retention = "execution.checkpointing.externalized-checkpoint-retention"
    second = started(tmp_path, **{retention: "DELETE_ON_CANCELLATION"})
    until(tmp_path, 5)
    running = second.get_job_status().result()
    second.cancel().result()

    assert ["a 1", "a 2", "a 3", "b 1", "c 1"] == sorted(written(tmp_path / "out"))
    assert (JobStatus.RUNNING, JobStatus.CANCELED) == (running, second.get_job_status().result())
    assert not (tmp_path / "checkpoints" / "counts").exists()


@pytest.mark.restarts("job: its folder copied", "goes on")
@pytest.mark.usefixtures("shipped_module")
def test_a_job_goes_on_from_a_copy_of_its_folder(tmp_path):
    """The copy is put in the folder's place, and its files have the times of now."""
    add(tmp_path, "one", "a", "b", "a")
    first = started(tmp_path)
    until(tmp_path, 3)
    first.cancel().result()
    folder = tmp_path / "checkpoints"
    shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copyfile)
    shutil.rmtree(folder)
    (tmp_path / "copy").rename(folder)
    add(tmp_path, "two", "a")

    second = started(tmp_path)
    until(tmp_path, 4)
    second.cancel().result()

    assert ["a 1", "a 2", "a 3", "b 1"] == sorted(written(tmp_path / "out"))


@pytest.mark.usefixtures("shipped_module")
def test_what_is_collected_from_a_job_that_never_ends(tmp_path):
    """Closing the iterator cancels the job; a micro-batch of which not all was taken comes again."""
    add(tmp_path, "one", "a")
    found = counts(going_on(tmp_path), tmp_path).execute_and_collect("collected")
    first = next(found)
    add(tmp_path, "two", "b", "b")
    second = next(found)
    found.close()

    found = counts(going_on(tmp_path), tmp_path).execute_and_collect("collected")
    again = [next(found), next(found)]
    found.close()

    assert [("a", 1), ("b", 1), [("b", 1), ("b", 2)]] == [first, second, again]


@pytest.mark.usefixtures("shipped_module")
def test_a_bounded_job_goes_on_to_its_end(tmp_path):
    """And leaves nothing to go on from."""

    def collected():
        env = going_on(tmp_path, **{"pyflinklike.source.records-per-batch": "1"})
        pairs = env.from_collection([("a", 1), ("a", 2), ("a", 4)])
        return pairs.key_by(lambda pair: pair[0]).sum(1).execute_and_collect("bounded")

    found = collected()
    first = [next(found), next(found)]
    found.close()
    rest = list(collected())

    assert ([("a", 1), ("a", 3)], [("a", 3), ("a", 7)]) == (first, rest)
    assert not (tmp_path / "checkpoints" / "bounded").exists()


def fails_for_b(line):
    """Never for another one."""
    if line == "b":
        raise ValueError(line)
    return line


@pytest.mark.usefixtures("shipped_module")
def test_a_job_that_failed_goes_on_when_it_is_mended(tmp_path):
    """A micro-batch that failed is no micro-batch."""

    def lines(function):
        stream = lines_in(going_on(tmp_path), tmp_path)
        return stream.map(function, Types.STRING()).execute_and_collect("mended")

    add(tmp_path, "one", "a")
    found = lines(fails_for_b)
    first = next(found)
    add(tmp_path, "two", "c", "b")
    with pytest.raises(UserFunctionError, match="failed for element 'b'"):
        next(found)
    found = lines(str)
    again = [next(found), next(found)]
    found.close()

    assert ("a", ["c", "b"]) == (first, again)
