# SPDX-License-Identifier: Apache-2.0
"""What this host does not run: it is refused by name when a job is started."""

from __future__ import annotations

from collections.abc import Iterator

from pyflinklike.errors import HostError
from pyflinklike.graph.job import Job
from pyflinklike.graph.nodes import (
    AssignTimestamps,
    FromSource,
    Node,
    Partition,
    Partitioning,
)
from pyflinklike.graph.sources import Source
from pyflinklike.spark.hosts.choice import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark.jobs.frames import frame_source
from pyflinklike.spark.jobs.stages import stages_of
from pyflinklike.spark.jobs.times import first_with_processing_timers, has_event_time

__all__ = ["refuse_what_is_missing"]

_REMEDY = "set execution.target to local"


def refuse_what_is_missing(job: Job) -> None:
    """See that Spark can run a job.

    Raises:
        HostError: It has a step that this host does not run, with the step's name.
    """
    for node, what in _missing(job):
        msg = f"{what} of the DataStream API {_runs_not(job)}, got {node.name!r}; {_REMEDY}"
        raise HostError(msg)
    if not job.settings.is_batch and not HAS_TRANSFORM_WITH_STATE:
        msg = (
            "jobs in streaming mode need PySpark 4 on Spark, got PySpark 3.5; set "
            f"execution.runtime-mode to BATCH, or {_REMEDY}"
        )
        raise HostError(msg)


def _runs_not(job: Job) -> str:
    return f"is not there on Spark yet in {'batch' if job.settings.is_batch else 'streaming'} mode"


def _missing(job: Job) -> Iterator[tuple[Node, str]]:
    for node in job.graph.nodes.values():
        if isinstance(node, Partition) and node.how in (
            Partitioning.BROADCAST,
            Partitioning.CUSTOM,
        ):
            yield node, "a partitioning that functions see"
        elif isinstance(node, FromSource) and not _is_read(node.source):
            yield node, f"an unbounded {type(node.source).__name__}"
    if not job.settings.is_batch:
        yield from _missing_on_streams(job)


def _is_read(source: Source) -> bool:
    is_looked_for = source.discovery_milliseconds is not None
    is_frame = frame_source(source, is_streaming=True) is not None
    return source.is_bounded or is_looked_for or is_frame


def _missing_on_streams(job: Job) -> Iterator[tuple[Node, str]]:
    for stage in stages_of(job.graph):
        for number in sorted(stage.inner):
            if stage.number and isinstance(job.graph.nodes[number], AssignTimestamps):
                yield job.graph.nodes[number], "a watermark strategy behind a keyed operator"
    timed = first_with_processing_timers(job.graph)
    if timed is not None and job.graph.is_bounded:
        yield timed, "a processing-time timer in a job that ends"
    elif timed is not None and has_event_time(job.graph):
        yield timed, "a processing-time timer beside event time"
