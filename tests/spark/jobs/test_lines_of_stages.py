# SPDX-License-Identifier: Apache-2.0
"""The collection of jobs through the functions that Spark runs in batch mode, without Spark."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest
from job_savepoint_support import told
from job_stream_support import needs_streams, results_of_stream
from jobs.collection import every_job
from jobs.refused_by_spark import REFUSED, REFUSED_ON_STREAMS, runs_or_is_refused

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.job_session import refuse_what_is_missing
from pyflinklike.pyflink._spark.keyed_stages import run_in_batch
from pyflinklike.pyflink._spark.results import Results
from pyflinklike.pyflink.common import Configuration, Time, TimestampAssigner, WatermarkStrategy
from pyflinklike.pyflink.datastream import (
    AsyncDataStream,
    AsyncFunction,
    StreamExecutionEnvironment,
)
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows

JOBS = every_job()

IN_BATCH = [job for job in JOBS if job.batch is not None]
ONE_BY_ONE = {"pyflinklike.source.records-per-batch": "1"}
IN_BATCH_MODE = {"execution.runtime-mode": "BATCH"}
STREAMED = [
    (job, job.cuts[-1]) for job in JOBS if job.cuts
]  # all cuts run on Spark: tests/spark/jobs
STREAM_FACTS = SessionFacts(partitions=1, max_parallelism=4, time_zone="UTC")
FACTS = SessionFacts(partitions=2, max_parallelism=4, time_zone="UTC")


class Line:
    """A host of jobs: what Spark would run in tasks, one after the other in this process."""

    def __init__(self, job):
        refuse_what_is_missing(job)
        self.job = job

    def collect(self, _):
        """What came to the only sink."""
        if self.job.settings.is_batch:
            return iter(results_of(self.job))
        return iter(results_of_stream(self.job, STREAM_FACTS))

    def cancel(self):
        """It has ended."""


def stream_of(program, **settings):
    """The stream of a program, whose jobs run in a line."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    stream = program(env)
    stream._program._host = lambda: Line
    return stream


def as_rows(table):
    """Batches of a few rows, as Spark sorts them."""
    rows = sorted(
        table.to_pylist(),
        key=lambda r: (r["__key_group"], r["time"] is not None, r["time"] or 0, r["arrival"]),
    )
    ordered = pa.Table.from_pylist(rows, schema=table.schema)
    timed = ordered.append_column("__batch_time", pa.array([1_000] * len(rows), pa.int64()))
    return timed.combine_chunks().to_batches(max_chunksize=3)


def sources_of(job):
    """A row for each source, with its number."""
    for node in job.graph.of_kind(FromSource):
        row = {
            "source": node.id,
            "split": 0,
            "splits": 1,
            "part": None,
            "elements": None,
            "is_last": True,
        }
        yield node.id, pa.RecordBatch.from_pylist([row])


def results_of(job):
    """What comes of a job."""
    steps = JobSteps(job, FACTS, HashMapStateBackend())
    first, *others = steps.stages
    batches = []
    for number, rows in sources_of(job):
        batches += steps.task(first.part_reached_from(number)).run([rows])
    for before, stage in zip(steps.stages, others):
        host = run_in_batch(steps.operators(before, stage))
        given = list(host(as_rows(pa.Table.from_batches(batches)))) if batches else []
        batches = list(steps.task(stage).run(given))
    results = Results(job)
    for batch in batches:
        results.add(zip(*(column.to_pylist() for column in batch.columns)))
    (collected,) = results.collected.values()
    return list(collected)


@pytest.mark.parametrize("each", IN_BATCH, ids=[job.name for job in IN_BATCH])
def test_a_job_gives_what_it_must(each):
    """Through stages and keyed operators, or it is refused by name."""
    given = runs_or_is_refused(
        each.name, REFUSED, lambda: stream_of(each.program, **IN_BATCH_MODE).execute_and_collect()
    )

    assert given is None or told(each.batch) == told(given)


@needs_streams
@pytest.mark.parametrize(
    ("each", "cut"), STREAMED, ids=[f"{job.name}-{cut or 'all'}" for job, cut in STREAMED]
)
def test_a_job_gives_on_a_stream_what_it_must(each, cut):
    """The same, wherever the input is cut into micro-batches."""
    settings = {} if cut is None else {"pyflinklike.source.records-per-batch": str(cut)}
    given = runs_or_is_refused(
        each.name,
        REFUSED | REFUSED_ON_STREAMS,
        lambda: stream_of(each.program, **settings).execute_and_collect(),
    )

    assert given is None or told(each.expected) == told(given)


class Awaited(AsyncFunction):
    """Holds the first element back until the last one has come; tells how many waited at most."""

    def open(self, runtime_context):
        self.last_has_come, self.waiting, self.most = asyncio.Event(), 0, 0

    async def async_invoke(self, value):
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if value == 5:
            self.last_has_come.set()
        await (self.last_has_come.wait() if value == 1 else asyncio.sleep(0))
        self.waiting -= 1
        return [(value, self.most)]


def test_a_place_that_is_free_is_taken_by_the_next_element():
    """All elements of a task's batch wait in one event loop, no more at a time than may."""

    def program(env):
        stream = env.from_collection([1, 2, 3, 4, 5])
        return AsyncDataStream.ordered_wait(stream, Awaited(), Time.seconds(10), 2)

    given = list(stream_of(program, **IN_BATCH_MODE).execute_and_collect())

    assert [1, 2, 3, 4, 5] == [value for value, _ in given]
    assert 2 == max(most for _, most in given)


@needs_streams
def test_a_time_that_spark_cannot_have_fails_a_stream_by_name():
    """In batch mode it is a time as any other."""

    def windows(env):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Same())
        times = env.from_collection([1, 9 * 10**15]).assign_timestamps_and_watermarks(strategy)
        keyed = times.key_by(lambda _: 0)
        return keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(max)

    with pytest.raises(SparkSetupError, match=r"below 8,000,000,000,000,000 ms, .*got 8,999,999,"):
        list(stream_of(windows, **ONE_BY_ONE).execute_and_collect())
    assert [1, 9 * 10**15] == list(stream_of(windows, **IN_BATCH_MODE).execute_and_collect())


class Same(TimestampAssigner):
    """Elements are times."""

    def extract_timestamp(self, value, record_timestamp):
        return value
