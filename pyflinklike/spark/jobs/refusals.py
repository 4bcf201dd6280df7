# SPDX-License-Identifier: Apache-2.0
"""What this host does not run: it is refused by name when a job is started."""

from __future__ import annotations

from collections.abc import Iterator

from pyflinklike.errors import HostError
from pyflinklike.graph.job import Job
from pyflinklike.graph.nodes import (
    AssignTimestamps,
    Fold,
    FromSource,
    KeyBy,
    Node,
    Partition,
    Partitioning,
    ToSink,
)
from pyflinklike.graph.sources import Source
from pyflinklike.spark.hosts.choice import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark.jobs.frames import frame_source
from pyflinklike.spark.jobs.stages import Stage, is_keyed, stages_of
from pyflinklike.spark.jobs.times import first_with_processing_timers, has_event_time

__all__ = ["refuse_what_is_missing"]

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
