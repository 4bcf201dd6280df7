# SPDX-License-Identifier: Apache-2.0
"""The collection of jobs on Spark: in batch mode, and in streaming mode with every cut."""

from __future__ import annotations

import sys

import pytest
from job_savepoint_support import told
from jobs.collection import every_job
from jobs.refused_by_spark import REFUSED, REFUSED_ON_STREAMS, runs_or_is_refused
from spark_jobs import on_spark

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

JOBS = every_job()

STREAMED = [(job, cut) for job in JOBS for cut in job.cuts]
IN_BATCH = [job for job in JOBS if job.batch is not None]


@pytest.fixture(autouse=True)
def shipped_jobs(spark):
    """The jobs go to workers by value: these cannot import the modules of tests."""
    from pyspark import cloudpickle

    modules = [module for name, module in sys.modules.items() if name.startswith("jobs.")]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.parametrize("job", IN_BATCH, ids=[job.name for job in IN_BATCH])
def test_a_job_gives_in_batch_mode_what_it_gives_in_this_process(job):
    """The same elements, in whatever order."""
    env = on_spark(**{"execution.runtime-mode": "BATCH"})

    given = runs_or_is_refused(job.name, REFUSED, job.program(env).execute_and_collect)

    assert given is None or told(job.batch) == told(given)


@pytest.mark.parametrize(
    ("job", "cut"), STREAMED, ids=[f"{job.name}-{cut or 'all'}" for job, cut in STREAMED]
)
def test_a_job_gives_on_a_stream_what_it_gives_in_this_process(job, cut):
    """The same elements, wherever the input is cut into micro-batches."""
    env = on_spark(**({} if cut is None else {"pyflinklike.source.records-per-batch": str(cut)}))

    refused = REFUSED | REFUSED_ON_STREAMS
    given = runs_or_is_refused(job.name, refused, job.program(env).execute_and_collect)

    assert given is None or told(job.expected) == told(given)
