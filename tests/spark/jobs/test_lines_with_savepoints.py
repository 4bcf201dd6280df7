# SPDX-License-Identifier: Apache-2.0
"""The collection of jobs, begun in this process and ended by the functions that Spark runs, without Spark."""

from __future__ import annotations

import pytest
from job_savepoint_support import Cut, stopped_after, told
from job_stream_support import needs_streams, results_of_stream
from jobs.collection import every_job
from jobs.refused_by_spark import REFUSED_ON_STREAMS, runs_or_is_refused
from local_support import local

from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.sinks import CollectSink
from pyflinklike.pyflink._spark.job_plan import SessionFacts
from pyflinklike.pyflink._spark.job_session import refuse_what_is_missing
from pyflinklike.pyflink.datastream import KeyedStream

JOBS = every_job()

# A job that begins has no watermark yet: nothing is late then.
NOT_CUT = {"late_elements_go_aside", "late_elements_that_are_allowed", "nothing_at_all"}
CUT = [job for job in JOBS if job.cuts and job.name not in NOT_CUT]
FACTS = SessionFacts(partitions=1, max_parallelism=4, time_zone="UTC")


def ended_by_spark(program, savepoint):
    """What Spark's functions make of the rest of a job, element by element."""
    stream = program(local(**{"pyflinklike__source__records-per-batch": "1"}))
    if isinstance(stream, KeyedStream):
        stream = stream._with_keys()
    program = stream._program
    graph = program.builder.graph([stream._sink(CollectSink(), "Collect Sink", to_run=False)])
    job = Job(graph, program._settings(graph, None))
    refuse_what_is_missing(job)
    return results_of_stream(job, FACTS, savepoint=str(savepoint))


@needs_streams
@pytest.mark.parametrize("job", CUT, ids=[job.name for job in CUT])
def test_a_job_of_this_process_is_ended_by_spark(job, tmp_path):
    """In other key groups, with the timers, windows and rules that it had."""
    steps = sum(1 for _ in Cut(job.program(local())).run._work)
    before = stopped_after(job.program, max(1, steps // 2), tmp_path / "savepoint")
    after = runs_or_is_refused(
        job.name, REFUSED_ON_STREAMS, lambda: ended_by_spark(job.program, tmp_path / "savepoint")
    )

    assert after is None or told(job.expected) == told(before + after)
