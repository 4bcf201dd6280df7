# SPDX-License-Identifier: Apache-2.0
"""By which time the keyed operators of a job in streaming mode are woken: Spark has one for a query.

In processing time Spark passes no watermark on, and a query that takes what is there never ends.  So
a job runs in processing time if it has processing-time timers, no event time, and no end.
"""

from __future__ import annotations

from pyflinklike.graph.job import JobGraph
from pyflinklike.graph.nodes import AssignTimestamps, FromSource, Node
from pyflinklike.graph.watermarks import WatermarkKind, WatermarkStrategy
from pyflinklike.spark.setup.plan import TimeMode
from pyflinklike.spark.setup.timer_use import uses_processing_timers

__all__ = ["first_with_processing_timers", "has_event_time", "time_mode_of"]


def time_mode_of(graph: JobGraph) -> TimeMode:
    """That of all keyed operators of a job.

    Args:
        graph: Of the job.
    """
    if first_with_processing_timers(graph) is None:
        return TimeMode.EVENT_TIME
    return TimeMode.PROCESSING_TIME


def first_with_processing_timers(graph: JobGraph) -> Node | None:
    """A node whose function registers processing-time timers; None where there is none."""
    for node in graph.nodes.values():
        function = getattr(node, "function", None)
        if function is not None and uses_processing_timers(function):
            return node
    return None


def has_event_time(graph: JobGraph) -> bool:
    """Whether elements have event times, or watermarks follow them."""
    strategies = [node.strategy for node in graph.of_kind(FromSource)]
    return any(map(_is_timed, strategies)) or any(graph.of_kind(AssignTimestamps))


def _is_timed(strategy: WatermarkStrategy) -> bool:
    return strategy.assigner is not None or strategy.kind is not WatermarkKind.NONE
