# SPDX-License-Identifier: Apache-2.0
"""Starts a job on Spark; how one runs in batch mode."""

from __future__ import annotations

from collections.abc import Generator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from pyflinklike.errors import HostError
from pyflinklike.graph.job import Job
from pyflinklike.graph.nodes import FromSource
from pyflinklike.graph.running import DrivenRun, JobRun
from pyflinklike.spark.jobs.plans import job_frame
from pyflinklike.spark.jobs.refusals import refuse_what_is_missing
from pyflinklike.spark.jobs.results import Results
from pyflinklike.spark.jobs.session import backend_of, facts_of, told_as_ours
from pyflinklike.spark.jobs.sources import batch_frame
from pyflinklike.spark.jobs.steps import JobSteps
from pyflinklike.spark.jobs.streams import StreamRun
from pyflinklike.spark.setup.settings import check_watermark_policy
from pyflinklike.spark.setup.shipping import prepare_workers, ship_files

__all__ = ["BatchRun", "checked_session", "frame_of_batch", "start", "steps_of"]


def start(job: Job) -> JobRun:
    """Run a job on the Spark session that is there, or on a new one.

    Args:
        job: What to run.

    Raises:
        HostError: It has a step that this host does not run, or the session is one of Spark Connect.
    """
    spark = checked_session(job)
    return BatchRun(job, spark) if job.settings.is_batch else StreamRun(job, spark)


def checked_session(job: Job) -> SparkSession:
    """The session for a job.

    Raises:
        HostError: As `start`.
    """
    refuse_what_is_missing(job)
    if is_remote():
        msg = (
            "jobs of the DataStream API need a classic session on Spark, got one of Spark Connect; "
            "submit the program to the cluster, or set execution.target to local"
        )
        raise HostError(msg)
    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if not job.settings.is_batch and len(list(job.graph.of_kind(FromSource))) > 1:
        check_watermark_policy(spark)
    ship_files(spark, job.settings.python_files)
    prepare_workers(spark)
    return spark


def frame_of_batch(steps: JobSteps, spark: SparkSession) -> DataFrame:
    """The results of a job in batch mode: numbers of sinks with pickles of records.

    Args:
        steps: Of the job.
        spark: The session.
    """
    nodes, settings = steps.job.graph.of_kind(FromSource), steps.job.settings
    return job_frame(steps, {node.id: batch_frame(spark, node, settings) for node in nodes})


def steps_of(job: Job, spark: SparkSession) -> JobSteps:
    """The steps of a job, as a session would run them.

    Args:
        job: Which one.
        spark: The session.
    """
    return JobSteps(job, facts_of(spark, job.settings), backend_of(job))


class BatchRun(DrivenRun):
    """A job in batch mode on Spark, which works when its results are asked for.

    Args:
        job: Which one.
        spark: The session.
    """

    def __init__(self, job: Job, spark: SparkSession) -> None:
        self._steps, self._spark = steps_of(job, spark), spark
        self._results = Results(job)
        super().__init__(self._results.collected)

    def _running(self) -> Generator[None, None, None]:
        """All the work; stops after every part of the results."""
        with told_as_ours():
            frame = frame_of_batch(self._steps, self._spark)
            # All at once where tasks write: an iterator has them run one after the other.
            rows = frame.collect() if self._results.are_small else frame.toLocalIterator()
            for row in rows:
                self._results.add([(row[0], row[1])])
                yield
        self._results.finish()
        self._results.remove_unfinished(self._steps.output_name)

    def _abandon(self) -> None:
        self._results.abandon()
        self._results.remove_unfinished(self._steps.output_name)
