# SPDX-License-Identifier: Apache-2.0
"""The collection of jobs on the local runner, in streaming mode with every cut, and in batch mode."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from jobs.collection import JOBS

from pyflinklike.pyflink.common import Configuration
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment

for each in sorted((Path(__file__).parents[2] / "support" / "jobs").glob("*_jobs.py")):
    if not each.name.startswith("test_"):
        importlib.import_module(f"jobs.{each.stem}")

STREAMED = [(job, cut) for job in JOBS for cut in job.cuts]
IN_BATCH = [job for job in JOBS if job.batch is not None]


def environment(**settings):
    """One whose jobs run here."""
    values = {"execution.target": "local", **settings}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))


def told(elements):
    """Elements in an order that does not depend on that in which they came."""
    return sorted(map(repr, elements))


@pytest.mark.parametrize(
    ("job", "cut"), STREAMED, ids=[f"{job.name}-{cut or 'all'}" for job, cut in STREAMED]
)
def test_a_job_gives_what_it_must(job, cut):
    """In streaming mode, wherever its input is cut."""
    env = environment(**({} if cut is None else {"pyflinklike.source.records-per-batch": str(cut)}))

    collected = list(job.program(env).execute_and_collect(job.name))

    if job.is_ordered:
        assert job.expected == collected
    assert told(job.expected) == told(collected)


@pytest.mark.parametrize("job", IN_BATCH, ids=[job.name for job in IN_BATCH])
def test_a_job_gives_what_it_must_in_batch_mode(job):
    """Folds give their last value only; else it is the same."""
    env = environment(**{"execution.runtime-mode": "BATCH"})

    assert told(job.batch) == told(job.program(env).execute_and_collect(job.name))


@pytest.mark.parametrize("job", IN_BATCH, ids=[job.name for job in IN_BATCH])
def test_a_job_gives_the_same_with_several_instances(job):
    """Whichever instance an element goes to."""
    env = environment(**{"execution.runtime-mode": "BATCH", "parallelism.default": "3"})

    assert told(job.batch) == told(job.program(env).execute_and_collect(job.name))
