# SPDX-License-Identifier: Apache-2.0
"""The collection of jobs on the local runner, in streaming mode with every cut, and in batch mode."""

from __future__ import annotations

import pytest
from job_savepoint_support import told
from jobs.collection import every_job
from local_support import local

JOBS = every_job()

STREAMED = [(job, cut) for job in JOBS for cut in job.cuts]
IN_BATCH = [job for job in JOBS if job.batch is not None]


@pytest.mark.parametrize(
    ("job", "cut"), STREAMED, ids=[f"{job.name}-{cut or 'all'}" for job, cut in STREAMED]
)
def test_a_job_gives_what_it_must(job, cut):
    """In streaming mode, wherever its input is cut."""
    env = local(**({} if cut is None else {"pyflinklike__source__records-per-batch": str(cut)}))

    collected = list(job.program(env).execute_and_collect(job.name))

    if job.is_ordered:
        assert job.expected == collected
    assert told(job.expected) == told(collected)


@pytest.mark.parametrize("job", IN_BATCH, ids=[job.name for job in IN_BATCH])
def test_a_job_gives_what_it_must_in_batch_mode(job):
    """Folds give their last value only; else it is the same."""
    env = local(execution__runtime_mode="BATCH")

    assert told(job.batch) == told(job.program(env).execute_and_collect(job.name))


@pytest.mark.parametrize("job", IN_BATCH, ids=[job.name for job in IN_BATCH])
def test_a_job_gives_the_same_with_several_instances(job):
    """Whichever instance an element goes to."""
    env = local(execution__runtime_mode="BATCH", parallelism__default="3")

    assert told(job.batch) == told(job.program(env).execute_and_collect(job.name))
