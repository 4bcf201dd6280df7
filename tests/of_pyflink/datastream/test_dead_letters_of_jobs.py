# SPDX-License-Identifier: Apache-2.0
"""Dead letters of jobs: the settings, and what becomes of a letter."""

from __future__ import annotations

import pytest
from jobs.keyed_jobs import first
from jobs.letters_jobs import DEAD, Counted, go_on
from jobs.timed import timed
from local_support import local

from pyflinklike.errors import DeclarationError, UserFunctionError
from pyflinklike.testing import KeyedProcessHarness


def _counted(env, *elements):
    return timed(env, *elements).key_by(first).process(Counted())


def test_a_letter_of_a_job_becomes_a_test_as_well():
    """Its keys are pickled, where the job does not say their type."""
    stream = _counted(go_on(local()), ("a", 1, 4), ("a", 2, 12)).get_side_output(DEAD)
    (letter,) = [each for each in stream.execute_and_collect() if each.call == "process_element"]
    with (
        KeyedProcessHarness.of_failure(
            letter.failure_snapshot, Counted(), allow_pickle=True
        ) as harness,
        pytest.raises(LookupError, match="2"),
    ):
        harness.replay()
    assert ([("a", 2)], 2) == (harness.output, letter.timestamp)


def test_an_operator_whose_letters_nobody_reads_fails_the_job():
    """They would be lost."""
    env = go_on(local())
    read = _counted(env, ("a", 1, 4))
    others = _counted(env, ("a", 2, 12))
    with pytest.raises(UserFunctionError, match="LookupError: 2"):
        list(
            read.get_side_output(DEAD)
            .union(others.get_side_output(DEAD.__class__("x")))
            .execute_and_collect()
        )


def test_too_many_letters_fail_the_job():
    """A number for a task, or a share at its end, never for ten or fewer."""
    by_number = _counted(
        go_on(local(), per="batch", **{"at-most": "1"}), *[("a", n, 12) for n in (1, 2)]
    )
    with pytest.raises(UserFunctionError, match="takes at most 1 records and timers of a task"):
        list(by_number.get_side_output(DEAD).execute_and_collect())
    by_share = _counted(
        go_on(local(), **{"at-most": "0.1"}), *[("a", n, 12) for n in range(20, 40)]
    )
    with pytest.raises(UserFunctionError, match=r"takes at most 10\.00% of the records"):
        list(by_share.get_side_output(DEAD).execute_and_collect())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"at-most": "many"}, r"at-most is a number such as 0\.01 or 100, got 'many'"),
        ({"at-most": "2"}, "DeadLetters: at_most must be a share between 0 and 1, got 2"),
        ({"per": "hour"}, 'DeadLetters: per must be "record" or "batch", got \'hour\''),
        ({"snapshot-bytes": "-1"}, "snapshot_bytes must be an int from 0 on, got -1"),
        ({"tag": "others"}, "got 'others', which the job does not read; call get_side_output"),
    ],
)
def test_a_setting_that_makes_no_sense_fails_the_job_before_it_begins(settings, said):
    """With its key, or what `DeadLetters` says."""
    stream = _counted(go_on(local(), **settings), ("a", 1, 4)).get_side_output(DEAD)
    with pytest.raises(DeclarationError, match=said):
        stream.execute_and_collect()


def test_letters_are_of_operators_that_process_elements():
    """Not of a source, for example."""
    stream = timed(go_on(local()), ("a", 1)).get_side_output(DEAD)
    with pytest.raises(
        DeclarationError, match="dead letters come from operators that process elements"
    ):
        stream.execute_and_collect()
