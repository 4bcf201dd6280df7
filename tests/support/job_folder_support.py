# SPDX-License-Identifier: Apache-2.0
"""Folders of jobs without Spark: programs that begin one, and runs of them up to a micro-batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._spark.job_folder import JobFolder, identity_of
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.job_session import backend_of
from pyflinklike.pyflink._spark.watermark_feed import needs_feed
from pyflinklike.pyflink.common import Configuration, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors.file_system import FileSource, StreamFormat

__all__ = ["FACTS", "One", "Two", "environment", "files", "first", "job_of", "keyed", "run"]

FACTS = SessionFacts(partitions=2, max_parallelism=16, time_zone="UTC")
NO_WATERMARKS = WatermarkStrategy.no_watermarks()


class One(KeyedProcessFunction):
    """A function."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Gives it out."""
        yield value


class Two(One):
    """Another one."""


def first(value: Any) -> Any:
    """The key."""
    return value[0]


def environment(directory: Path, **settings: str) -> StreamExecutionEnvironment:
    """One with a directory of checkpoints."""
    values = {"execution.checkpointing.dir": str(directory), **settings}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))


def job_of(env: StreamExecutionEnvironment) -> Job:
    """The job that was declared."""
    graph = env._program.graph()
    return Job(graph, env._program._settings(graph, None))


def keyed(
    env: StreamExecutionEnvironment,
    function: type[One] = One,
    key_type: Any = None,
    uid: str | None = None,
    elements: int = 3,
) -> Job:
    """A job of one keyed function."""
    pairs = env.from_collection([("a", n) for n in range(elements)])
    result = pairs.key_by(first, key_type or Types.STRING()).process(function())
    if uid is not None:
        result.uid(uid)
    result.print()
    return job_of(env)


def run(job: Job, facts: SessionFacts = FACTS, commits: bool = True) -> JobFolder:
    """Begin a job or go on with it, up to its first micro-batch; the folder is left as by a kill."""
    folder = JobFolder(job.settings)
    try:
        facts = folder.facts(facts)
        steps = JobSteps(job, facts, backend_of(job))
        steps.is_fed = needs_feed(job.graph, steps.stages[0])
        identity = identity_of(steps)
        ledger = folder.begin(identity, facts)
        for position, _ in enumerate(job.graph.of_kind(FromSource)):
            folder.source(position).mkdir(parents=True, exist_ok=True)
        if steps.is_fed:
            folder.watermark.touch()
        (folder.checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (folder.checkpoint / "commits").mkdir(parents=True, exist_ok=True)
        if commits:
            (folder.checkpoint / "offsets" / "0").touch()
            ledger.note(0, [])
            (folder.checkpoint / "commits" / "0").touch()
        return folder
    finally:
        folder.leave(is_over=False)


def files(
    env: StreamExecutionEnvironment,
    path: Path | str,
    uid: str | None,
    is_bounded: bool = False,
    strategy: WatermarkStrategy = NO_WATERMARKS,
) -> Job:
    """A job of files that are looked for, or are there."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path))
    built = source.build() if is_bounded else source.monitor_continuously(10).build()
    stream = env.from_source(built, strategy, "files")
    if uid:
        stream.uid(uid)
    stream.key_by(len).process(One()).print()
    return job_of(env)
