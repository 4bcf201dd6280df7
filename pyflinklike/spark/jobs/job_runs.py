# SPDX-License-Identifier: Apache-2.0
"""A job in streaming mode while it runs on Spark: one streaming query with one checkpoint."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyflinklike.clock import wall_clock
from pyflinklike.errors import HostError
from pyflinklike.graph.job import Job
from pyflinklike.graph.nodes import FromSource
from pyflinklike.graph.running import DrivenRun, JobStatus
from pyflinklike.spark.jobs.folders import JobFolder
from pyflinklike.spark.jobs.handover import Batch, Handover
from pyflinklike.spark.jobs.identity import identity_of
from pyflinklike.spark.jobs.ledger import Ledger
from pyflinklike.spark.jobs.marks import WatermarkFeed, has_idleness, needs_feed
from pyflinklike.spark.jobs.plans import job_frame
from pyflinklike.spark.jobs.results import Results
from pyflinklike.spark.jobs.session import backend_of, facts_of, told_as_ours, with_partitions
from pyflinklike.spark.jobs.sources import StreamSource
from pyflinklike.spark.jobs.steps import JobSteps

__all__ = ["StreamRun", "frame_of_stream"]

_PATIENCE_SECONDS = 0.05


def frame_of_stream(
    job: Job, spark: SparkSession, folder: Path, metric_names: set[str]
) -> DataFrame:
    """The results of a job in streaming mode as a stream: numbers of sinks with pickles of records.

    Args:
        job: Which one.
        spark: The session.
        folder: For the files of its sources, empty.
        metric_names: Those that are taken by what may come into the same query; its own are added.

    Raises:
        HostError: It has a source that somebody must look for parts of while the query runs.
    """
    frames = {}
    for node in job.graph.of_kind(FromSource):
        if node.source.discovery_milliseconds is not None:
            msg = (
                "to_data_frame takes sources that end and DataFrames, got one that looks for files, "
                f"{node.name!r}; read them with spark.readStream and from_data_frame, or execute the job"
            )
            raise HostError(msg)
        source = StreamSource(node, job.settings_of(node), folder / f"source-{node.id}")
        frames[node.id] = source.frame(spark)
    # The query is somebody else's, and has the partitions of its session.
    settings = attrs.evolve(job.settings, parallelism=None)
    steps = JobSteps(job, facts_of(spark, settings), backend_of(job))
    steps.tell_apart(metric_names)
    if not job.graph.is_bounded and has_idleness(steps.stages[0]):
        msg = (
            "to_data_frame has Spark make the watermark, which does not leave idle inputs out, got "
            "with_idleness; leave it out, or execute the job with a sink"
        )
        raise HostError(msg)
    return job_frame(steps, frames)


class StreamRun(DrivenRun):
    """A job in streaming mode on Spark.

    Its results come to this process micro-batch by micro-batch.  Where it may go on after a restart,
    or never ends, each is written and visible before Spark takes note of it; else all of them are
    when the job has ended.

    Args:
        job: Which one.
        spark: The session.

    Raises:
        HostError: The job is another one than that which it is to go on with, or it runs already.
        CorruptStateError: The job's folder is damaged.
    """

    def __init__(self, job: Job, spark: SparkSession) -> None:
        self._job, self._spark = job, spark
        self._results = Results(job)
        self._handover = Handover()
        self._folder = JobFolder(job.settings)
        try:
            self._begin()
        except BaseException:
            self._folder.leave(is_over=False)
            raise
        super().__init__(self._results.collected)

    def _begin(self) -> None:
        """See that the program is that of the folder, before anything runs."""
        facts = self._folder.facts(facts_of(self._spark, self._job.settings))
        self._steps = JobSteps(self._job, facts, backend_of(self._job))
        self._steps.is_fed = needs_feed(self._job.graph, self._steps.stages[0])
        is_again = self._folder.is_begun
        ledger = self._folder.begin(identity_of(self._steps), facts)
        self._steps.output_name = self._folder.name
        self._feed = self._begun_feed() if self._steps.is_fed else None
        each_batch = self._folder.is_kept or not self._job.graph.is_bounded
        self._ledger: Ledger | None = ledger if each_batch else None
        if is_again:
            self._results.remove_unfinished(self._folder.name)
        self._sources = {
            node.id: StreamSource(node, self._job.settings_of(node), self._folder.source(position))
            for position, node in enumerate(self._job.graph.of_kind(FromSource))
        }

    def _begun_feed(self) -> WatermarkFeed:
        return WatermarkFeed(self._folder.watermark, self._steps.stages[0], wall_clock())

    def _running(self) -> Generator[None, None, None]:
        """All the work; stops after every micro-batch, and often while there is none."""
        with told_as_ours():
            yield from self._batches()
        self._results.finish()
        self._results.remove_unfinished(self._steps.output_name)
        self._folder.leave(is_over=True)

    def _batches(self) -> Generator[None, None, None]:
        self._look()
        query = self._started()
        try:
            # Asked first: what it gave before it ended is there then.
            while query.isActive or self._handover.is_waited_for:
                self._look()
                batch = self._handover.take(_PATIENCE_SECONDS)
                if batch is not None:
                    self._take_in(batch)
                # Whoever waits may have been told to stop, and whoever collects has taken all.
                yield
                if batch is not None:
                    self._handover.done()
            failure = query.exception()
            if failure is not None:
                raise failure
        finally:
            self._handover.close()
            query.stop()

    def _look(self) -> None:
        now = wall_clock()
        for source in self._sources.values():
            source.look(now)
        if self._feed is not None:
            self._feed.tell(now)

    def _take_in(self, batch: Batch) -> None:
        if self._ledger is None:
            self._results.add(batch.rows)
        else:
            self._results.add_batch(batch, self._ledger)
        if self._feed is not None:
            # Noted before Spark takes note of the micro-batch: no split falls back by a restart.
            marks, self._results.marks = self._results.marks, []
            self._feed.note(marks, wall_clock())
            self._feed.tell(wall_clock())

    def _started(self) -> StreamingQuery:
        def give(batch: DataFrame, number: int) -> None:
            self._handover.give(Batch(number, [(row[0], row[1]) for row in batch.collect()]))

        frames = {number: source.frame(self._spark) for number, source in self._sources.items()}
        frame = job_frame(self._steps, frames, self._watermarks())
        writing = frame.writeStream.foreachBatch(give)
        writing = writing.option("checkpointLocation", str(self._folder.checkpoint))
        if self._job.graph.is_bounded:
            writing = writing.trigger(availableNow=True)
        else:
            writing = writing.trigger(processingTime=f"{self._interval()} milliseconds")
        with with_partitions(self._spark, self._steps.partitions):
            return writing.start()

    def _watermarks(self) -> DataFrame | None:
        if self._feed is None:
            return None
        # PySpark 3.5, which has no such sources, has no jobs on streams either.
        from pyflinklike.spark.jobs.mark_source import watermark_frame

        return watermark_frame(self._spark, self._feed.path)

    def _interval(self) -> int:
        """How long a micro-batch lasts at least, in ms: as checkpoints are, or as new parts are looked for."""
        nodes = self._job.graph.of_kind(FromSource)
        looks = [each.source.discovery_milliseconds for each in nodes]
        often = min((each for each in looks if each is not None), default=0)
        asked = self._job.settings.checkpoint_interval
        return often if asked is None else asked

    def _abandon(self) -> None:
        """Leave what a further run goes on from, where the program wants one to."""
        self._results.abandon()
        is_cancelled = self.status() is JobStatus.CANCELED
        self._folder.leave(is_over=is_cancelled and self._job.settings.is_dropped_when_cancelled)
