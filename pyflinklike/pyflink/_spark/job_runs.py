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

A job may also end in a DataFrame, which a query of the user runs.
"""

from __future__ import annotations

import atexit
import pickle
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyflinklike._clock import wall_clock
from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.job_run import JobRun, JobStatus, SavepointRequest
from pyflinklike.pyflink._graph.job_savepoint import begin_with
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._spark.job_folder import JobFolder, identity_of, new_folder
from pyflinklike.pyflink._spark.job_plan import JobSteps, job_frame
from pyflinklike.pyflink._spark.job_session import (
    backend_of,
    facts_of,
    prepare_session,
    refuse_work_of_the_driver,
    steps_of,
    with_partitions,
)
from pyflinklike.pyflink._spark.results import Handover, Ledger, ResultBatch, Results
from pyflinklike.pyflink._spark.stream_sources import StreamSource, batch_frame
from pyflinklike.pyflink._spark.watermark_feed import WatermarkFeed, needs_feed
from pyflinklike.spark._host.driver_pickle import in_worker
from pyflinklike.spark._host.spark_failures import error_of
from pyflinklike.spark._plan.requirements import packages_checked
from pyflinklike.spark._plan.session import time_zone_of
from pyflinklike.spark._wire.output_layout import OutputEncoder
from pyflinklike.spark._wire.schema import output_schema
from pyflinklike.state_processor._checkpoints.checkpoint import savepoint_location_in
from pyflinklike.state_processor._checkpoints.job_at_rest import driver_of
from pyflinklike.state_processor._checkpoints.savepoint_frames import save_checkpoint
from pyflinklike.state_processor._folders.folder_paths import FolderPath
from pyflinklike.state_processor._folders.hadoop_files import (
    folder_path,
    for_spark,
    is_remote_address,
    temporary_folder,
)
from pyflinklike.types import RowTypeInfo, TupleTypeInfo


def start(job: Job) -> JobRun:
    """Run a job on the active Spark session, or on a new one.

    Raises:
        SparkSetupError: The job has a step that this host does not run, or the session is one of Spark
            Connect.
    """
    spark = prepare_session(job)
    return BatchRun(job, spark) if job.settings.is_batch else StreamRun(job, spark)


def _frame_of_batch(steps: JobSteps, spark: SparkSession) -> DataFrame:
    """Return the results of a job in batch mode: rows of the number of a sink and a pickle of records."""
    nodes, settings = steps.job.graph.of_kind(FromSource), steps.job.settings
    return job_frame(steps, {node.id: batch_frame(spark, node, settings) for node in nodes})


class BatchRun(JobRun):
    """A job in batch mode on Spark, which works only while the program asks for its results."""

    def __init__(self, job: Job, spark: SparkSession) -> None:
        self._steps, self._spark = steps_of(job, spark), spark
        self._steps.tell_counts()
        self._results = Results(job)
        super().__init__(self._results.collected, self._results.metrics)

    def _run(self) -> Generator[None, None, None]:
        """Do all the work; yield after each row of results."""
        with errors_as_ours():
            frame = _frame_of_batch(self._steps, self._spark)
            # If tasks write, `collect`: an iterator would run the partitions one after the other.
            rows = frame.collect() if self._results.are_small else frame.toLocalIterator()
            for row in rows:
                self._results.add([(row[0], row[1])])
                yield

    def _finish(self, *, is_stopped: bool) -> None:  # noqa: ARG002
        self._results.finish()
        self._results.remove_unfinished(self._steps.output_name)

    def _abandon(self) -> None:
        self._results.abandon()
        self._results.remove_unfinished(self._steps.output_name)


_PATIENCE_SECONDS = 0.05  # how soon a cancelled job or an ended query is noticed


class StreamRun(JobRun):
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
        super().__init__(self._results.collected, self._results.metrics)

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

    def _finish(self, *, is_stopped: bool) -> None:  # noqa: ARG002
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


# A job as a DataFrame


def data_frame(
    job: Job, schema: Any, plain: Callable[[Any], Any], metric_names: set[str]
) -> DataFrame:
    """Return the elements of a job's only sink as a DataFrame; the job runs when that is read.

    Args:
        job: The job; in streaming mode the DataFrame is a stream.
        schema: The schema of the DataFrame, as an `output_type`; None takes the type of the elements.
        plain: Makes a tuple or mapping from an element that is a row.
        metric_names: Names of metrics that other DataFrames of the program use; the job's names are
            added.

    Raises:
        SparkSetupError: The job has a step that Spark does not run.
        DeclarationTypeError: Spark does not have the type of the elements.
    """
    spark = prepare_session(job)
    (sink,) = job.graph.sinks
    rows = (
        _frame_of_batch(steps_of(job, spark), spark)
        if job.settings.is_batch
        else _stream(job, spark, metric_names)
    )
    wanted = sink.type_info if schema is None else schema
    columns = output_schema(rows, wanted, "the schema of to_data_frame")
    encoder = OutputEncoder(columns, time_zone_of(spark), "to_data_frame", str)
    # Without a schema, an element that is no row is the value of the only column, even if it is a list.
    is_row = schema is not None or isinstance(sink.type_info, (RowTypeInfo, TupleTypeInfo))
    opening = in_worker(_Opening(encoder, plain, is_row).run)
    result: DataFrame = rows.mapInArrow(opening, columns)
    return result


def _stream(job: Job, spark: SparkSession, metric_names: set[str]) -> DataFrame:
    """Return the results of a stream; its files stay until this process ends, for any query to read."""
    directory = job.settings.checkpoint_dir
    if directory is not None and is_remote_address(directory):
        return _frame_of_stream(job, spark, temporary_folder(spark, directory), metric_names)
    folder = new_folder(directory)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _frame_of_stream(job, spark, folder, metric_names)


def _frame_of_stream(
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
    refuse_work_of_the_driver(job)
    frames = {}
    for node in job.graph.of_kind(FromSource):
        source = StreamSource(node, job.settings_of(node), folder / f"source-{node.id}")
        frames[node.id] = source.frame(spark)
    # The query is the user's, and has the partitions of its session.
    settings = attrs.evolve(job.settings, parallelism=None)
    steps = JobSteps(job, facts_of(spark, settings), backend_of(job))
    steps.tell_apart(metric_names)
    return job_frame(steps, frames)


@attrs.frozen
class _Opening:
    """Makes rows from the elements in stage records.

    Args:
        encoder: Encodes rows as Arrow record batches.
        plain: Makes a tuple or mapping from an element that is a row.
        is_row: True if an element is a row, False if it is the value of the only column.
    """

    encoder: OutputEncoder
    plain: Callable[[Any], Any]
    is_row: bool

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Make rows from all stage records, for `mapInArrow`."""
        for batch in batches:
            for payload in batch.column("payload").to_pylist():
                records = pickle.loads(payload)  # noqa: S301  # of the job's own stages
                rows = self._rows([value for _, value, _ in records])
                yield self.encoder.encode(rows, [None] * len(rows))

    def _rows(self, values: list[Any]) -> list[Any]:
        if not self.is_row:
            return [(self.plain(value),) for value in values]
        if self._is_flat() and set(map(type, values)) == {tuple}:
            return values  # in flat columns no value can be a row
        return [self.plain(value) for value in values]

    def _is_flat(self) -> bool:
        return not any(pa.types.is_nested(kind) for kind in self.encoder.schema.types)
