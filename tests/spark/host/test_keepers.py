# SPDX-License-Identifier: Apache-2.0
"""Keepers in real processes, without Spark: who serves a task, and what ends a keeper."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no transformWithState")

if sys.platform != "linux":
    pytest.skip("keepers are for Linux", allow_module_level=True)

_DRIVER = Path(__file__).resolve().parents[2] / "support" / "keeper_driver.py"


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What each task put out, and which process did it."""
    folder = tmp_path_factory.mktemp("keepers")
    ended = subprocess.run(
        [sys.executable, str(_DRIVER), str(folder)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_every_task_counts_on(told):
    """Whatever becomes of its keeper, a task goes on where the last one that committed has ended."""
    tasks = [each for each in told.values() if isinstance(each, dict) and not each["error"]]
    expected = [[f"a {n}", f"b {2 * n}"] for n in range(1, len(tasks) + 1)]

    assert expected == [each["counts"] for each in tasks]


def test_tasks_of_one_run_have_one_keeper(told):
    """Each task is in a worker of its own, and all of them are served by the same process."""
    names = ("first", "second", "after it failed")

    assert len({*(each for name in names for each in told[name]["by"])}) == 1


def test_an_error_of_the_function_is_raised_in_the_worker(told):
    """With its class and its message, as if the worker had served the task."""
    assert told["fails"]["error"].startswith(
        "UserFunctionError: Counting.process_element failed for key 'b'"
    )


def test_a_killed_keeper_has_a_successor(told):
    """The next task forks it."""
    assert told["first"]["by"] != told["after its keeper was killed"]["by"]


def test_a_task_does_not_wait_for_a_keeper_that_hangs(told):
    """Its worker serves it; the task after it has another keeper."""
    names = (
        "after its keeper was killed",
        "beside a keeper that hangs",
        "after a keeper that hangs",
    )
    [hangs], [beside], [after] = (told[name]["by"] for name in names)

    assert len({hangs, beside, after}) == 3


def test_a_keeper_ends_with_its_run(told):
    """A later run of the query has a keeper of its own, and ends the former one."""
    assert told["left of the former run"] == []
    assert told["left of the present run"] == told["of the next run"]["by"]


def test_a_call_without_end_ends_with_its_task(told):
    """Spark kills the worker of a task that is cancelled; the keeper ends by itself."""
    assert told["left of a call without end"] == []
