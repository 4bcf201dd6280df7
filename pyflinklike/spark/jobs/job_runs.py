# SPDX-License-Identifier: Apache-2.0
"""Starts a job on Spark; how one runs in batch mode.

A job in streaming mode while it runs on Spark: one streaming query with one checkpoint.

What this host does not run: it is refused by name when a job is started.

What jobs ask of the session that runs them, and how its errors are told.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.utils import is_remote

from pyflinklike.engine.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.engine.backends.state_backend import StateBackend
from pyflinklike.engine.clock import wall_clock
from pyflinklike.engine.graph.job import Job, JobSettings
from pyflinklike.engine.graph.job_run import DrivenRun, JobRun, JobStatus
from pyflinklike.engine.graph.nodes import (
    AssignTimestamps,
    Fold,
    FromSource,
    KeyBy,
    Node,
    Partition,
    Partitioning,
    ToSink,
)
from pyflinklike.engine.graph.sources import Source
from pyflinklike.errors import HostError
from pyflinklike.spark.host.host_choice import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark.host.python_stage import error_of
from pyflinklike.spark.jobs.data_frame_source import frame_source
from pyflinklike.spark.jobs.durable_files import Ledger
from pyflinklike.spark.jobs.job_folder import JobFolder, identity_of
from pyflinklike.spark.jobs.job_plan import JobSteps, SessionFacts, job_frame
from pyflinklike.spark.jobs.results import Handover, ResultBatch, Results
from pyflinklike.spark.jobs.stages import (
    Stage,
    first_with_processing_timers,
    has_event_time,
    is_keyed,
    stages_of,
)
from pyflinklike.spark.jobs.stream_sources import StreamSource, batch_frame
from pyflinklike.spark.jobs.watermark_feed import WatermarkFeed, has_idleness, needs_feed
from pyflinklike.spark.plan.process_options import checked_backend
from pyflinklike.spark.plan.requirements import packages_checked
from pyflinklike.spark.plan.session import (
    check_watermark_policy,
    max_parallelism_for,
    partitions_of,
    prepare_workers,
    ship_files,
    time_zone_of,
)

__all__ = [
    "BatchRun",
    "StreamRun",
    "backend_of",
    "checked_session",
    "errors_as_ours",
    "facts_of",
    "frame_of_batch",
    "frame_of_stream",
    "refuse_what_is_missing",
    "start",
    "steps_of",
    "with_partitions",
]


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
        with errors_as_ours():
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
        each_batch = self._folder.is_durable or not self._job.graph.is_bounded
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
        with errors_as_ours():
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

    def _take_in(self, batch: ResultBatch) -> None:
        if self._ledger is None:
            self._results.add(batch.rows)
        else:
            self._results.add_batch(batch, self._ledger)
        if self._feed is not None:
            # Noted before Spark takes note of the micro-batch: no split falls back by a restart.
            marks, self._results.split_watermarks = self._results.split_watermarks, []
            self._feed.note(marks, wall_clock())
            self._feed.tell(wall_clock())

    def _started(self) -> StreamingQuery:
        def give(batch: DataFrame, number: int) -> None:
            self._handover.give(ResultBatch(number, [(row[0], row[1]) for row in batch.collect()]))

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
        from pyflinklike.spark.jobs.watermark_feed import watermark_frame

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


_REMEDY = "set execution.target to local"
_BY_ONE_TIME = (
    "leave out event times and watermark strategies, or have it go by event time: Spark wakes a query "
    "by one of the two"
)


def refuse_what_is_missing(job: Job) -> None:
    """See that Spark can run a job.

    Raises:
        HostError: It has a step that this host does not run, with the step's name.
    """
    for node, what, remedy in _missing(job):
        msg = f"{what} of the DataStream API {_runs_not(job)}, got {node.name!r}; {remedy}"
        raise HostError(msg)
    if not job.settings.is_batch and not HAS_TRANSFORM_WITH_STATE:
        msg = (
            "jobs in streaming mode need PySpark 4 on Spark, got PySpark 3.5; set "
            f"execution.runtime-mode to BATCH, or {_REMEDY}"
        )
        raise HostError(msg)


def _runs_not(job: Job) -> str:
    return f"is not there on Spark yet in {'batch' if job.settings.is_batch else 'streaming'} mode"


def _missing(job: Job) -> Iterator[tuple[Node, str, str]]:
    """The steps that are missing: what each is, and what to do instead."""
    for node in job.graph.nodes.values():
        if isinstance(node, FromSource) and not _is_read(node.source):
            yield node, f"an unbounded {type(node.source).__name__}", _REMEDY
    for node, what in _partitioned_elsewhere(job):
        yield node, what, _REMEDY
    if not job.settings.is_batch:
        yield from _missing_on_streams(job)


def _is_waited_for(node: Node, job: Job) -> bool:
    """Whether an operator behind a node goes by its watermark: Spark has one for all of a query."""
    for consumer, _ in job.graph.consumers[node.id]:
        # A fold gives what it gives whatever the time is.
        if is_keyed(consumer) and not isinstance(consumer, Fold):
            return True
        if _is_waited_for(consumer, job):
            return True
    return False


def _partitioned_elsewhere(job: Job) -> Iterator[tuple[Node, str]]:
    """Partitionings that functions see, before what is in another stage: they are within one."""
    for stage in stages_of(job.graph):
        for number in sorted(stage.inner):
            node = job.graph.nodes[number]
            if isinstance(node, Partition) and node.is_seen:
                consumers = [each for each, _ in job.graph.consumers[number]]
                if not all(_is_in(stage, node, each) for each in consumers):
                    yield node, "a broadcast() or partition_custom() before what has keyed inputs"


def _is_in(stage: Stage, node: Partition, consumer: Node) -> bool:
    """Whether the tasks of a stage can give a consumer of a partitioning what is its own."""
    if isinstance(consumer, KeyBy) and node.how is Partitioning.BROADCAST:
        return False  # nobody says how many copies there are
    return isinstance(consumer, ToSink) or consumer.id in stage.inner


def _is_read(source: Source) -> bool:
    is_looked_for = source.discovery_milliseconds is not None
    is_frame = frame_source(source, is_streaming=True) is not None
    return source.is_bounded or is_looked_for or is_frame


def _missing_on_streams(job: Job) -> Iterator[tuple[Node, str, str]]:
    for stage in stages_of(job.graph):
        for number in sorted(stage.inner):
            node = job.graph.nodes[number]
            if stage.number and isinstance(node, AssignTimestamps) and _is_waited_for(node, job):
                yield node, "a watermark strategy between keyed operators", _REMEDY
    timed = first_with_processing_timers(job.graph)
    if timed is not None and job.graph.is_bounded:
        yield timed, "a processing-time timer in a job that ends", _REMEDY
    elif timed is not None and has_event_time(job.graph):
        yield timed, "a processing-time timer beside event time", _BY_ONE_TIME


_PARTITIONS = "spark.sql.shuffle.partitions"


def facts_of(spark: SparkSession, settings: JobSettings) -> SessionFacts:
    """What a job must know of a session: the parallelism is that of the job, if it asks for one.

    Args:
        spark: Which one.
        settings: Of the job.
    """
    partitions = settings.parallelism or partitions_of(spark)
    return SessionFacts(partitions, max_parallelism_for(partitions), time_zone_of(spark))


@contextmanager
def with_partitions(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Within it, queries that start have so many tasks behind a shuffle.

    Args:
        spark: Their session.
        partitions: How many.
    """
    former = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, str(partitions))
    try:
        yield
    finally:
        spark.conf.set(_PARTITIONS, former or "")


def backend_of(job: Job) -> StateBackend:
    """Where a job keeps working state.

    Args:
        job: Which one.
    """
    return checked_backend(job.settings.state_backend or HashMapStateBackend())


@contextmanager
def errors_as_ours() -> Iterator[None]:
    """Raise the error of a worker for the failure of Spark that tells of it."""
    try:
        with packages_checked():
            yield
    except Exception as failure:
        told = error_of(failure)
        if told is None or told is failure:
            raise
        raise told from failure
