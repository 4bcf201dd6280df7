# SPDX-License-Identifier: Apache-2.0
"""Which part of a graph runs between which shuffles.

Stage 0 begins with the sources, and each further one with the outputs of keyed operators: of all
that are equally far behind the sources, counted in shuffles.  These share a state operator, so the
plan is a line whatever the graph is, as long as the longest way through it.  A node without state is
in the first stage that all its inputs have come to.

By which time the keyed operators of a job in streaming mode are woken: Spark has one for a query.

In processing time Spark passes no watermark on, and a query that takes what is there never ends.  So
a job runs in processing time if it has processing-time timers, no event time, and no end.

Metrics of a job's functions without keys, which have no state operator that could report them.

What a task counts goes in a parcel through all operators to the last stage, and from there as
columns to Spark, which observes it beside what the keyed operators report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.engine.functions import Function
from pyflinklike.engine.graph.job import JobGraph
from pyflinklike.engine.graph.nodes import (
    AssignTimestamps,
    Fold,
    FromSource,
    Keyed,
    Node,
    ToSink,
    TwoInputs,
    WithBroadcast,
)
from pyflinklike.engine.graph.watermarks import WatermarkKind, WatermarkStrategy
from pyflinklike.spark.host.observed_metrics import numbers_by_name
from pyflinklike.spark.plan.operator_plan import TimeMode
from pyflinklike.spark.plan.timer_use import uses_processing_timers
from pyflinklike.spark.wire.key_groups import PLACES

__all__ = [
    "COUNTS",
    "Count",
    "Stage",
    "counting_nodes",
    "first_with_processing_timers",
    "has_event_time",
    "is_keyed",
    "observed_functions",
    "stages_of",
    "time_mode_of",
]


def is_keyed(node: Node) -> bool:
    """Whether a node needs a shuffle: to the tasks that have the keys, or the broadcast state."""
    if isinstance(node, TwoInputs):
        return node.is_keyed
    return isinstance(node, (Keyed, Fold, WithBroadcast))


@attrs.frozen
class Stage:
    """What runs in one task between two shuffles.

    Args:
        number: From 0.
        graph: Its nodes, those that elements come in by, and those behind it that they go out to.
        entrances: The numbers of its sources, or of the keyed operators before it, in order.
        inner: The numbers of the nodes that it runs.
        following: The numbers of the keyed operators behind it, in order; the last stage has none.
    """

    number: int
    graph: JobGraph
    entrances: tuple[int, ...]
    inner: frozenset[int]
    following: tuple[int, ...]

    def reached_from(self, source: int) -> Stage:
        """The part of the stage that the elements of one source come to.

        Args:
            source: The number of its node.
        """
        reached = {source}
        for node in self.graph.nodes.values():
            if reached.intersection(node.inputs) and self._begins_with(node.inputs, reached):
                reached.add(node.id)
        nodes = {number: node for number, node in self.graph.nodes.items() if number in reached}
        inner = self.inner & reached
        return attrs.evolve(self, graph=JobGraph(nodes), entrances=(source,), inner=inner)

    def _begins_with(self, inputs: Iterable[int], reached: set[int]) -> bool:
        """Whether elements come from a node of this stage, not from one behind it."""
        own = {*self.entrances, *self.inner}
        return any(number in reached and number in own for number in inputs)


def stages_of(graph: JobGraph) -> tuple[Stage, ...]:
    """The stages of a job, in order.

    Args:
        graph: Of the job.
    """
    number_of = _stage_numbers(graph)
    count = max(number_of.values(), default=0) + 1
    keyed: list[tuple[int, ...]] = [() for _ in range(count + 1)]
    for node in graph.nodes.values():
        if is_keyed(node):
            keyed[number_of[node.id]] += (node.id,)
    return tuple(_stage(graph, number, number_of, keyed) for number in range(count))


def _stage_numbers(graph: JobGraph) -> Mapping[int, int]:
    """The number of the stage that each node is in; a keyed operator is where its outputs are."""
    found: dict[int, int] = {}
    counts: Counter[int] = Counter()
    for node in graph.nodes.values():
        number = max((found[each] for each in node.inputs), default=0)
        if is_keyed(node):
            number += 1
            while counts[number] == PLACES:
                number += 1
            counts[number] += 1
        found[node.id] = number
    return found


def _stage(
    graph: JobGraph, number: int, number_of: Mapping[int, int], keyed: Sequence[tuple[int, ...]]
) -> Stage:
    here = [node for node in graph.nodes.values() if number_of[node.id] == number]
    entrances = keyed[number] or tuple(node.id for node in here if isinstance(node, FromSource))
    inner = frozenset(
        node.id for node in here if node.id not in entrances and not isinstance(node, ToSink)
    )
    sent_on = {
        consumer.id
        for each in (*entrances, *inner)
        for consumer, _ in graph.consumers[each]
        if consumer.id not in inner
    }
    nodes = {
        each: node
        for each, node in graph.nodes.items()
        if each in inner or each in entrances or each in sent_on
    }
    return Stage(number, JobGraph(nodes), entrances, inner, keyed[number + 1])


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


COUNTS = -1
"""The number by which counts go to the last stage; those of nodes begin with 1."""


class Count(NamedTuple):
    """What a function has counted in a task: an `Increment`, and of whom.

    Args:
        function: Its name in the progress of the query.
        name: Full name of the metric, and what of it.
        how: How the numbers of this name are to be combined.
        value: An int.
    """

    function: str
    name: str
    how: str
    value: int


def counting_nodes(graph: JobGraph) -> Mapping[int, str]:
    """The nodes whose functions are without keys and may count, with what reports are called.

    That is the uid, or else the name; nodes of one name report together.

    Args:
        graph: Of the job.
    """
    keyed = set(graph.state_names.values())
    found = {node.id: node.uid or node.name for node in graph.nodes.values() if _may_count(node)}
    return {at: f"{name}-{at}" if name in keyed else name for at, name in found.items()}


def _may_count(node: Node) -> bool:
    function: Any = getattr(node, "function", None)
    return (
        isinstance(function, Function)
        and not is_keyed(node)
        and type(function).open is not Function.open
    )


def observed_functions(results: DataFrame, names: Iterable[str]) -> DataFrame:
    """The results of a job without the counts, which are observed.

    Args:
        results: Of the last stage.
        names: Of the functions that may count.
    """
    for name in sorted(set(names)):
        results = results.observe(name, numbers_by_name(_counts_of(name)).alias("user"))
    return results.where("payload is not null").select("output", "payload")


def _counts_of(function: str) -> Column:
    return F.filter("counts", lambda count: count["function"] == function)
