# SPDX-License-Identifier: Apache-2.0
"""The run of a job on Spark: one query, which in streaming mode has a checkpoint.

On a stream two parties commit: Spark its checkpoint, and the sinks their files.  Each micro-batch goes through
these steps, so that a driver may be killed between any two of them:

1. Spark plans the micro-batch, and writes its offsets.
2. Tasks run the stages, and write files under hidden names.
3. Spark calls `give`, and the thread of the job writes the results and records that in its `Ledger`.
4. The watermarks of splits are written.
5. `give` returns, and Spark commits.

After a kill before step 3 Spark runs the micro-batch again, and its results are written.  After a kill between
3 and 5 it also runs again, but the ledger knows its number, so its results are dropped.

If Spark cannot run a step of a job, the job is refused when it starts, and the error names the step.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.utils import is_remote

from pyflinklike._clock import wall_clock
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink._graph.hybrid_source import HybridSource
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._graph.job_run import DrivenRun, JobRun, JobStatus, SavepointRequest
from pyflinklike.pyflink._graph.job_savepoint import begin_with
from pyflinklike.pyflink._graph.ledger import Ledger
from pyflinklike.pyflink._graph.nodes import (
    FromSource,
    KeyBy,
    KeyedFold,
    Node,
    Partition,
    Partitioning,
    ToSink,
)
from pyflinklike.pyflink._graph.sources import Source
from pyflinklike.pyflink._spark.data_frame_source import frame_source
from pyflinklike.pyflink._spark.job_folder import JobFolder, identity_of
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts, job_frame
from pyflinklike.pyflink._spark.results import Handover, ResultBatch, Results
from pyflinklike.pyflink._spark.shipped_files import ship_files
from pyflinklike.pyflink._spark.stages import (
    PythonStage,
    find_watermark_makers,
    has_processing_timers,
    is_keyed,
    needs_ticks,
    stages_of,
)
from pyflinklike.pyflink._spark.stream_sources import StreamSource, batch_frame, last_frame_source
from pyflinklike.pyflink._spark.watermark_feed import WatermarkFeed, has_idleness, needs_feed
from pyflinklike.spark._host.spark_failures import error_of
from pyflinklike.spark._plan.process_options import check_backend
from pyflinklike.spark._plan.requirements import packages_checked
from pyflinklike.spark._plan.session import (
    HAS_TRANSFORM_WITH_STATE,
    check_watermark_policy,
    max_parallelism_for,
    partitions_of,
    prepare_workers,
    time_zone_of,
)
from pyflinklike.state_processor._checkpoints.folder_lock import driver_of
from pyflinklike.state_processor._checkpoints.hadoop_savepoints import savepoint_location_in
from pyflinklike.state_processor._edits.saved_files import save_checkpoint
from pyflinklike.state_processor._folders.folder_paths import FolderPath
from pyflinklike.state_processor._folders.hadoop_files import folder_path, for_spark

__all__ = [
    "backend_of",
    "frame_of_batch",
    "frame_of_stream",
    "prepare_session",
    "refuse_what_is_missing",
    "start",
    "steps_of",
]


def start(job: Job) -> JobRun:
    """Run a job on the active Spark session, or on a new one.

    Raises:
        SparkSetupError: The job has a step that this host does not run, or the session is one of Spark
            Connect.
    """
    spark = prepare_session(job)
    return BatchRun(job, spark) if job.settings.is_batch else StreamRun(job, spark)


def prepare_session(job: Job) -> SparkSession:
    """Return the session for a job, and ship the job's files to its workers.

    Raises:
        SparkSetupError: The job cannot run on Spark, or the session is one of Spark Connect.
    """
    refuse_what_is_missing(job)
    warn_of_timers(job)
    if is_remote():
        msg = (
            "jobs of the DataStream API need a classic session on Spark, got one of Spark Connect; "
            "submit the program to the cluster, or set execution.target to local"
        )
        raise SparkSetupError(msg)
    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if not job.settings.is_batch and len(list(job.graph.of_kind(FromSource))) > 1:
        check_watermark_policy(spark)
    ship_files(spark, job.settings.python_files)
    prepare_workers(spark)
    return spark


def frame_of_batch(steps: JobSteps, spark: SparkSession) -> DataFrame:
    """Return the results of a job in batch mode: rows of the number of a sink and a pickle of records."""
    nodes, settings = steps.job.graph.of_kind(FromSource), steps.job.settings
    return job_frame(steps, {node.id: batch_frame(spark, node, settings) for node in nodes})


def steps_of(job: Job, spark: SparkSession) -> JobSteps:
    """Return the steps of a job for a session."""
    return JobSteps(job, facts_of(spark, job.settings), backend_of(job))


class BatchRun(DrivenRun):
    """A job in batch mode on Spark, which works only while the program asks for its results."""

    def __init__(self, job: Job, spark: SparkSession) -> None:
        self._steps, self._spark = steps_of(job, spark), spark
        self._steps.tell_counts()
        self._results = Results(job)
        super().__init__(self._results.collected)

    def _run(self) -> Generator[None, None, None]:
        """Do all the work; yield after each row of results."""
        with errors_as_ours():
            frame = frame_of_batch(self._steps, self._spark)
            # If tasks write, `collect`: an iterator would run the partitions one after the other.
            rows = frame.collect() if self._results.are_small else frame.toLocalIterator()
            for row in rows:
                self._results.add([(row[0], row[1])])
                yield
        self._results.finish()
        self._results.remove_unfinished(self._steps.output_name)

    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the metrics of functions and keyed operators, over all tasks."""
        return self._results.metrics.reports()

    def _abandon(self) -> None:
        self._results.abandon()
        self._results.remove_unfinished(self._steps.output_name)


_PATIENCE_SECONDS = 0.05  # how soon a cancelled job or an ended query is noticed


def frame_of_stream(
    job: Job, spark: SparkSession, folder: FolderPath, metric_names: set[str]
) -> DataFrame:
    """Return the results of a job in streaming mode as a stream of rows as in batch mode.

    Args:
        job: The job, in streaming mode.
        spark: The session that runs the query.
        folder: An empty folder for the files of the job's sources.
        metric_names: Names of metrics that may come into the same query; the job's names are added.

    Raises:
        SparkSetupError: The job needs work of the driver while the query runs.
    """
    _refuse_work_of_the_driver(job)
    frames = {}
    for node in job.graph.of_kind(FromSource):
        source = StreamSource(node, job.settings_of(node), folder / f"source-{node.id}")
        frames[node.id] = source.frame(spark)
    # The query is the user's, and has the partitions of its session.
    settings = attrs.evolve(job.settings, parallelism=None)
    steps = JobSteps(job, facts_of(spark, settings), backend_of(job))
    steps.tell_apart(metric_names)
    return job_frame(steps, frames)


def _refuse_work_of_the_driver(job: Job) -> None:
    """Check that a job needs no work of the driver while the user's own query runs it."""
    for node in job.graph.of_kind(FromSource):
        if node.source.discovery_milliseconds is not None:
            msg = (
                "to_data_frame takes sources that end and DataFrames, got one that looks for files, "
                f"{node.name!r}; read them with spark.readStream and from_data_frame, or execute the job"
            )
            raise SparkSetupError(msg)
        if last_frame_source(node.source) is not None:
            msg = (
                "to_data_frame cannot let the last of several sources begin, got a HybridSource "
                f"that does not end, {node.name!r}; execute the job, or unite its sources with union"
            )
            raise SparkSetupError(msg)
    if needs_ticks(job.graph):
        msg = (
            "to_data_frame lets Spark wake the query, by one of the two times only, got processing-time "
            "timers beside event times; leave out event times and watermark strategies, or execute the job "
            "with a sink"
        )
        raise SparkSetupError(msg)
    if not job.graph.is_bounded and has_idleness(stages_of(job.graph)[0]):
        msg = (
            "to_data_frame lets Spark make the watermark, which does not leave idle inputs out, got "
            "with_idleness; leave it out, or execute the job with a sink"
        )
        raise SparkSetupError(msg)


class StreamRun(DrivenRun):
    """A job in streaming mode on Spark.

    Its results come to this process micro-batch by micro-batch.  If the job has a checkpoint directory or
    never ends, each micro-batch is visible before Spark commits it; otherwise all results are when the
    job has ended.

    Raises:
        SparkSetupError: The folder has another job, or the job runs already.
        CorruptStateError: The job's folder is damaged.
        IncompatibleStateError: The job cannot begin with the savepoint that its settings name.
    """

    def __init__(self, job: Job, spark: SparkSession) -> None:
        self._job, self._spark = job, spark
        self._results = Results(job)
        self._handover = Handover()
        self._is_stopping = self._has_batch = False
        self._held: ResultBatch | None = None
        """A micro-batch that is not written, since the job must stop before it."""
        directory = job.settings.checkpoint_dir
        self._folder = JobFolder(
            job.settings,
            None if directory is None else folder_path(spark, directory),
            driver_of(spark),
            partial(savepoint_location_in, spark),
        )
        try:
            self._begin()
        except BaseException:
            self._folder.leave(is_over=False)
            raise
        super().__init__(self._results.collected)

    def _begin(self) -> None:
        """Check, before anything runs, that the program is the one that the folder belongs to."""
        facts = self._folder.facts(facts_of(self._spark, self._job.settings))
        self._steps = JobSteps(self._job, facts, backend_of(self._job))
        self._steps.is_fed = needs_feed(self._job.graph, self._steps.stages[0])
        is_again, saved = self._folder.is_begun, self._folder.savepoint
        graph, settings = self._job.graph, self._job.settings
        self._beginning = None if saved is None else begin_with(saved, graph, settings)
        positions = {} if self._beginning is None else self._beginning.positions
        ledger = self._folder.begin(identity_of(self._steps), facts)
        self._steps.output_name = self._folder.name
        self._feed = self._begin_feed() if self._steps.is_fed else None
        each_batch = self._folder.is_durable or not self._job.graph.is_bounded
        self._ledger: Ledger | None = ledger if each_batch else None
        self._last_written = self._folder.last_written
        if is_again:
            self._results.remove_unfinished(self._folder.name)
        self._sources = {
            node.id: StreamSource(
                node,
                self._job.settings_of(node),
                self._folder.source(number),
                positions.get(node.id),
                self._folder.signals_of(number),
            )
            for number, node in enumerate(self._job.graph.of_kind(FromSource))
        }
        for number, source in self._sources.items():
            if self._feed is not None and source.is_switched:
                self._feed.end_files(number)

    def _begin_feed(self) -> WatermarkFeed:
        folder, stage = self._folder, self._steps.stages[0]
        signal = None if isinstance(folder.watermark, Path) else folder.signals / "watermark.json"
        return WatermarkFeed(folder.watermark, stage, wall_clock(), signal)

    def _run(self) -> Generator[None, None, None]:
        """Do all the work; yield after each micro-batch, and often while there is none."""
        with errors_as_ours():
            yield from self._batches()
        self._results.finish()
        self._results.remove_unfinished(self._steps.output_name)
        self._folder.leave(is_over=True)

    def _batches(self) -> Generator[None, None, None]:
        self._look()
        query = self._start()
        try:
            # In this order: a query that is seen to have ended has handed over its last micro-batch.
            while query.isActive or self._handover.is_waited_for or self._held is not None:
                self._look()
                self._switch(query)
                batch = self._held or self._handover.take(_PATIENCE_SECONDS)
                self._held = batch if self._is_stopping else None
                is_written = batch is not None and self._held is None
                if batch is not None and is_written:
                    self._take_in(batch)
                self._has_batch = batch is not None
                # Before `done`: the program may cancel here, and has taken all elements if it collects them.
                yield
                if is_written:
                    self._handover.done()
            failure = query.exception()
            if failure is not None:
                raise failure
        finally:
            self._handover.close()
            query.stop()

    def _look(self) -> None:
        now = wall_clock()
        if self._feed is not None:
            self._feed.tell(now)
            ahead = self._feed.find_ahead(now)
            for number, source in self._sources.items():
                source.hold(is_ahead=number in ahead)
        for source in self._sources.values():
            source.look(now)

    def _switch(self, query: StreamingQuery) -> None:
        """Let the last of several sources begin, once the sources before it are read."""
        waiting = [each for each in self._sources.items() if each[1].is_waiting]
        for number, source in waiting:
            if source.switch(query.lastProgress) and self._feed is not None:
                self._feed.end_files(number)

    def _save(self, request: SavepointRequest) -> bool:
        if request.drains:
            msg = (
                "Spark cannot end the event time of a job that goes on, got stop_with_savepoint("
                "advance_to_end_of_event_time=True); pass False"
            )
            raise SparkSetupError(msg)
        if not self._folder.has_planned:
            msg = (
                f"a savepoint needs a committed micro-batch, got a request for {request.path!r} of a job "
                "before its first one; ask for it when the job has had elements"
            )
            raise SparkSetupError(msg)
        # Asked for again: the first micro-batch is planned, so its commit comes soon.
        if self._folder.last_commit < 0:
            return False
        self._is_stopping = request.stops
        # Results that sinks have written must be in the savepoint, or the next job would write them again.
        if request.stops and not self._is_between_batches():
            return False
        try:
            save_checkpoint(self._spark, str(self._folder.path), request.path)
        except BaseException:
            self._is_stopping = False
            raise
        return True

    def _is_between_batches(self) -> bool:
        """Return whether Spark has committed exactly the micro-batches that sinks have written."""
        # Spark hands over a micro-batch only when it has committed the one before.
        if self._held is not None:
            return True
        return not self._has_batch and self._folder.last_commit >= self._last_written

    def _finish_early(self) -> None:
        self._results.finish()
        self._results.remove_unfinished(self._steps.output_name)
        self._folder.leave(is_over=True)

    def _take_in(self, batch: ResultBatch) -> None:
        self._last_written = max(self._last_written, batch.number)
        if self._ledger is None:
            self._results.add(batch.rows)
        else:
            self._results.add_batch(batch, self._ledger)
        if self._feed is not None:
            # Before Spark commits the micro-batch: else a split would fall back after a restart.
            reported, self._results.split_watermarks = self._results.split_watermarks, []
            self._feed.note(reported, wall_clock())
            self._feed.tell(wall_clock())

    def _start(self) -> StreamingQuery:
        def give(batch: DataFrame, number: int) -> None:
            self._handover.give(ResultBatch(number, [(row[0], row[1]) for row in batch.collect()]))

        frames = {number: source.frame(self._spark) for number, source in self._sources.items()}
        frame = job_frame(self._steps, frames, self._watermarks(), self._beginning)
        writing = frame.writeStream.foreachBatch(give)
        writing = writing.option("checkpointLocation", for_spark(self._folder.checkpoint))
        if self._job.graph.is_bounded:
            writing = writing.trigger(availableNow=True)
        else:
            writing = writing.trigger(processingTime=f"{self._interval()} milliseconds")
        with with_partitions(self._spark, self._steps.partitions):
            return writing.start()

    def _watermarks(self) -> DataFrame | None:
        if self._feed is None:
            return None
        # Imported late: PySpark 3.5 has no data sources in Python, and runs no jobs in streaming mode.
        from pyflinklike.pyflink._spark.watermark_source import watermark_frame

        return watermark_frame(self._spark, self._feed.path, self._steps.tick_calls())

    def _interval(self) -> int:
        """Return the least time of a micro-batch in ms: the interval of checkpoints, or else of discovery."""
        nodes = self._job.graph.of_kind(FromSource)
        looks = [each.source.discovery_milliseconds for each in nodes]
        often = min((each for each in looks if each is not None), default=0)
        asked = self._job.settings.checkpoint_interval
        return often if asked is None else asked

    def _abandon(self) -> None:
        """Leave the folder to a later run, unless the program drops checkpoints of cancelled jobs."""
        self._results.abandon()
        is_cancelled = self.status() is JobStatus.CANCELED
        self._folder.leave(is_over=is_cancelled and self._job.settings.is_dropped_when_cancelled)


_REMEDY = "set execution.target to local"
_ON_ALL_WAYS = (
    "assign times and watermarks after the union of all ways, or before the first keyed operator; or set "
    "execution.target to local"
)
_AFTER_THE_OTHER = (
    "Spark begins to read all streams of a query at once, and only a KafkaSource can wait (PySpark 4.2): bound "
    "it, read a topic or new files last, or unite the sources with union if their order does not matter"
)


def refuse_what_is_missing(job: Job) -> None:
    """Check that Spark can run a job.

    Raises:
        SparkSetupError: The job has a step that this host does not run; the message names it.
    """
    for node, what, remedy in _find_missing(job):
        msg = f"{what} of the DataStream API {_runs_not(job)}, got {node.name!r}; {remedy}"
        raise SparkSetupError(msg)
    if not job.settings.is_batch and not HAS_TRANSFORM_WITH_STATE:
        msg = (
            "jobs in streaming mode need PySpark 4 on Spark, got PySpark 3.5; set "
            f"execution.runtime-mode to BATCH, or {_REMEDY}"
        )
        raise SparkSetupError(msg)


def warn_of_timers(job: Job) -> None:
    """Warn if a job may end before its processing-time timers fire."""
    graph = job.graph
    if not job.settings.is_batch and graph.is_bounded and has_processing_timers(graph):
        warnings.warn(
            "processing-time timers do not fire when the input of a job in streaming mode ends before their "
            "time, as in Flink, got a job that ends and may register some; set execution.runtime-mode to "
            "BATCH, where every timer fires at the end, or register event-time timers",
            stacklevel=2,
        )


def _runs_not(job: Job) -> str:
    return f"is not there on Spark yet in {'batch' if job.settings.is_batch else 'streaming'} mode"


def _find_missing(job: Job) -> Iterator[tuple[Node, str, str]]:
    """Yield the steps that this host does not run, each with a description and a remedy."""
    for node in job.graph.nodes.values():
        if isinstance(node, FromSource) and _cannot_wait(node.source):
            yield node, "a HybridSource whose last source is a stream of Spark", _AFTER_THE_OTHER
        elif isinstance(node, FromSource) and not _is_read(node.source):
            yield node, f"an unbounded {type(node.source).__name__}", _REMEDY
    for node, what in _find_partitioned_elsewhere(job):
        yield node, what, _REMEDY
    if not job.settings.is_batch:
        yield from _find_missing_on_streams(job)


def _find_partitioned_elsewhere(job: Job) -> Iterator[tuple[Node, str]]:
    """Yield partitionings that functions see, if a consumer is in another stage."""
    for stage in stages_of(job.graph):
        for number in sorted(stage.inner):
            node = job.graph.nodes[number]
            if isinstance(node, Partition) and node.is_seen:
                consumers = [each for each, _ in job.graph.consumers[number]]
                if not all(_is_in(stage, node, each) for each in consumers):
                    yield node, "a broadcast() or partition_custom() before what has keyed inputs"


def _is_in(stage: PythonStage, node: Partition, consumer: Node) -> bool:
    """Return whether a task of the stage can give a consumer the elements of its partition."""
    if isinstance(consumer, KeyBy) and node.how is Partitioning.BROADCAST:
        return False  # the number of copies of each element is not known
    return isinstance(consumer, ToSink) or consumer.id in stage.inner


def _cannot_wait(source: Source) -> bool:
    """Return whether the last of several sources would begin with the query, not after the others."""
    if not isinstance(source, HybridSource) or source.is_bounded:
        return False
    if source.discovery_milliseconds is not None:
        return False
    last = last_frame_source(source)
    return last is None or last.wait_for_file(Path()) is None


def _is_read(source: Source) -> bool:
    is_looked_for = source.discovery_milliseconds is not None
    is_frame = (frame_source(source, is_streaming=True) or last_frame_source(source)) is not None
    return source.is_bounded or is_looked_for or is_frame


def _find_missing_on_streams(job: Job) -> Iterator[tuple[Node, str, str]]:
    makers = find_watermark_makers(job.graph)
    for node in job.graph.nodes.values():
        # The outputs of a fold do not depend on time.
        if is_keyed(node) and not isinstance(node, KeyedFold) and len(makers[node.id]) > 1:
            what = "a watermark strategy between keyed operators, on one of several ways to another one,"
            yield node, what, _ON_ALL_WAYS


_PARTITIONS = "spark.sql.shuffle.partitions"


def facts_of(spark: SparkSession, settings: JobSettings) -> SessionFacts:
    """Return the facts of a session; if the job sets a parallelism, it counts."""
    partitions = settings.parallelism or partitions_of(spark)
    return SessionFacts(partitions, max_parallelism_for(partitions), time_zone_of(spark))


@contextmanager
def with_partitions(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Set the number of tasks after a shuffle, for queries that start within the block."""
    # Spark reads the setting when a query starts, and stores it in a new checkpoint.
    former = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, str(partitions))
    try:
        yield
    finally:
        spark.conf.set(_PARTITIONS, former or "")


def backend_of(job: Job) -> StateBackend:
    """Return the state backend of a job."""
    return check_backend(job.settings.state_backend or HashMapStateBackend())


@contextmanager
def errors_as_ours() -> Iterator[None]:
    """Raise the error of a worker instead of Spark's failure that reports it."""
    try:
        with packages_checked():
            yield
    except Exception as failure:
        cause = error_of(failure)
        if cause is None or cause is failure:
            raise
        raise cause from failure
