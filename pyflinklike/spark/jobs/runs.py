# SPDX-License-Identifier: Apache-2.0
"""A job while it runs on Spark."""

from __future__ import annotations

import queue
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.utils import is_remote

from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.errors import HostError
from pyflinklike.graph.file_source import local_path
from pyflinklike.graph.job import Job
from pyflinklike.graph.nodes import FromSource
from pyflinklike.graph.running import DrivenRun
from pyflinklike.spark.failures import error_of
from pyflinklike.spark.jobs.plans import job_frame
from pyflinklike.spark.jobs.refusals import refuse_unbounded, refuse_what_is_missing
from pyflinklike.spark.jobs.results import Results
from pyflinklike.spark.jobs.sources import batch_frame, stream_frame
from pyflinklike.spark.jobs.steps import JobSteps, SessionFacts
from pyflinklike.spark.setup.checks import checked_backend
from pyflinklike.spark.setup.requirements import packages_checked
from pyflinklike.spark.setup.settings import (
    default_max_parallelism,
    partitions_of,
    time_zone_of,
)
from pyflinklike.spark.setup.shipping import put_wheels_on_path

__all__ = [
    "SparkRun",
    "checked_session",
    "frame_of_batch",
    "frame_of_stream",
    "own_folder",
    "start",
]

Rows = list[tuple[int, bytes]]
_PATIENCE_SECONDS = 0.05


def start(job: Job) -> SparkRun:
    """Run a job on the Spark session that is there, or on a new one.

    Args:
        job: What to run.

    Raises:
        HostError: It has a step that this host does not run, or the session is one of Spark Connect.
    """
    refuse_unbounded(job)
    return SparkRun(job, checked_session(job))


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
    for path in job.settings.python_files:
        spark.sparkContext.addPyFile(path)
    put_wheels_on_path(spark)
    return spark


def frame_of_batch(job: Job, spark: SparkSession) -> DataFrame:
    """The results of a job in batch mode: numbers of sinks with pickles of records.

    Args:
        job: Which one.
        spark: The session.
    """
    nodes = job.graph.of_kind(FromSource)
    sources = {node.id: batch_frame(spark, node, job.settings) for node in nodes}
    return job_frame(_steps_of(job, spark), sources)


def frame_of_stream(job: Job, spark: SparkSession, folder: Path) -> DataFrame:
    """The same of a job in streaming mode.

    Args:
        job: Which one.
        spark: The session.
        folder: For the files of its sources.
    """
    nodes = job.graph.of_kind(FromSource)
    sources = {
        node.id: stream_frame(spark, node, job.settings_of(node), folder / f"source-{node.id}")
        for node in nodes
    }
    return job_frame(_steps_of(job, spark), sources)


def _steps_of(job: Job, spark: SparkSession) -> JobSteps:
    facts = SessionFacts(partitions_of(spark), default_max_parallelism(spark), time_zone_of(spark))
    return JobSteps(
        job, facts, checked_backend(job.settings.state_backend or HashMapStateBackend())
    )


class SparkRun(DrivenRun):
    """A job on Spark.  Its results come to this process, and are written when they are asked for.

    Args:
        job: Which one.
        spark: The session.
    """

    def __init__(self, job: Job, spark: SparkSession) -> None:
        self._job, self._spark = job, spark
        self._results = Results(job)
        super().__init__(self._results.collected)

    def _running(self) -> Generator[None, None, None]:
        """All the work; stops after every part of the results."""
        try:
            with packages_checked():
                for rows in self._batch() if self._job.settings.is_batch else self._stream():
                    self._results.add(rows)
                    yield
        except Exception as failure:
            told = error_of(failure)
            if told is None or told is failure:
                raise
            raise told from failure
        self._results.finish()

    def _abandon(self) -> None:
        self._results.abandon()

    def _batch(self) -> Iterator[Rows]:
        for row in frame_of_batch(self._job, self._spark).toLocalIterator():
            yield [(row[0], row[1])]

    def _stream(self) -> Iterator[Rows]:
        """The rows of each micro-batch; the folder of the job goes when it has ended."""
        folder = own_folder(self._job.settings.checkpoint_dir)
        query = None
        try:
            arrived: queue.Queue[Rows] = queue.Queue()
            query = self._started(arrived, folder)
            while query.isActive or not arrived.empty():
                try:
                    yield arrived.get(timeout=_PATIENCE_SECONDS)
                except queue.Empty:
                    yield []  # whoever waits may have been told to stop
            failure = query.exception()
            if failure is not None:
                raise failure
        finally:
            if query is not None:
                query.stop()
            shutil.rmtree(folder, ignore_errors=True)

    def _started(self, arrived: queue.Queue[Rows], folder: Path) -> StreamingQuery:
        def give(batch: DataFrame, _: int) -> None:
            arrived.put([(row[0], row[1]) for row in batch.collect()])

        frame = frame_of_stream(self._job, self._spark, folder / "sources")
        writing = frame.writeStream.foreachBatch(give)
        writing = writing.option("checkpointLocation", str(folder / "checkpoint"))
        return writing.trigger(availableNow=True).start()


def own_folder(parent: str | None) -> Path:
    """A new folder of one job.

    Args:
        parent: Where it shall be; None is this machine's folder for what does not stay.
    """
    if parent is None:
        return Path(tempfile.mkdtemp(prefix="pyflinklike-job-"))
    directory = local_path(parent)
    directory.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="job-", dir=directory))
