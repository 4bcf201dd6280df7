# SPDX-License-Identifier: Apache-2.0
"""The stages of a job: the parts of its graph between two shuffles.

Stage 0 begins with the sources.  Each further stage begins with the outputs of all keyed operators that
are the same number of shuffles away from the sources; these operators share a state operator of Spark.  So the
plan is a line for any graph, as long as the longest way through it.  A node without state is in the first stage
that all its inputs have reached.

    A -> map -> key_by -> sum ------------------------------+
    B -> map -> key_by -> count -> filter -> key_by -> max -+-> union -> sink

Here stage 0 runs both maps, one state operator runs `sum` and `count`, stage 1 runs the filter, another state
operator runs `max`, and stage 2 the union.  The results of `sum` pass the second shuffle unopened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs
from pyspark.sql import DataFrame

from pyflinklike.functions.code_search import uses_processing_timers
from pyflinklike.pyflink._graph.job import JobGraph
from pyflinklike.pyflink._graph.nodes import (
    AssignTimestamps,
    FromSource,
    Keyed,
    KeyedFold,
    Node,
    ToSink,
    TwoInputs,
    WithBroadcast,
)
from pyflinklike.pyflink._graph.watermarks import WatermarkKind, WatermarkStrategy
from pyflinklike.spark._host.observed_metrics import numbers_by_name
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._wire.key_groups import MOST_OPERATORS


def is_keyed(node: Node) -> bool:
    """Return whether a node needs a shuffle to the tasks with its keys or its broadcast state."""
    if isinstance(node, TwoInputs):
        return node.is_keyed
    return isinstance(node, (Keyed, KeyedFold, WithBroadcast))


@attrs.frozen
class PythonStage:
    """The nodes that one task runs between two shuffles.

    Args:
        number: The position of the stage, from 0.
        graph: The nodes that it runs, and the nodes of other stages to which they are linked.
        entrances: The numbers of its sources, or of the keyed operators before it, in order.
        inner: The numbers of the nodes that it runs.
        following: The numbers of the keyed operators after it, in order; empty for the last stage.
    """

    number: int
    graph: JobGraph
    entrances: tuple[int, ...]
    inner: frozenset[int]
    following: tuple[int, ...]

    def part_reached_from(self, source: int) -> PythonStage:
        """Return the part of the stage that the elements of one source reach.

        Args:
            source: The number of the source's node.
        """
        reached = {source}
        for node in self.graph.nodes.values():
            if reached.intersection(node.inputs) and self._begins_with(node.inputs, reached):
                reached.add(node.id)
        # Without the nodes of other sources, whose watermarks never come to this task.
        nodes = {number: node for number, node in self.graph.nodes.items() if number in reached}
        inner = self.inner & reached
        return attrs.evolve(self, graph=JobGraph(nodes), entrances=(source,), inner=inner)

    def _begins_with(self, inputs: Iterable[int], reached: set[int]) -> bool:
        """Return whether an input is a node of this stage, not of a later one."""
        own = {*self.entrances, *self.inner}
        return any(number in reached and number in own for number in inputs)


def stages_of(graph: JobGraph) -> tuple[PythonStage, ...]:
    """Return the stages of a job, in order."""
    number_of = _stage_numbers(graph)
    count = max(number_of.values(), default=0) + 1
    keyed: list[tuple[int, ...]] = [() for _ in range(count + 1)]
    for node in graph.nodes.values():
        if is_keyed(node):
            keyed[number_of[node.id]] += (node.id,)
    return tuple(_stage(graph, number, number_of, keyed) for number in range(count))


def _stage_numbers(graph: JobGraph) -> Mapping[int, int]:
    """Return the number of each node's stage; a keyed operator is in the stage of its outputs."""
    found: dict[int, int] = {}
    counts: Counter[int] = Counter()
    for node in graph.nodes.values():
        number = max((found[each] for each in node.inputs), default=0)
        if is_keyed(node):
            number += 1
            # A state operator of Spark has room for this many operators; the others wait a stage.
            while counts[number] == MOST_OPERATORS:
                number += 1
            counts[number] += 1
        found[node.id] = number
    return found


def _stage(
    graph: JobGraph, number: int, number_of: Mapping[int, int], keyed: Sequence[tuple[int, ...]]
) -> PythonStage:
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
    return PythonStage(number, JobGraph(nodes), entrances, inner, keyed[number + 1])


def time_mode_of(graph: JobGraph) -> TimeMode:
    """Return the time by which Spark wakes the keyed operators of a job; a query has only one.

    In processing time Spark passes no watermark on, and such a query does not end with its input.  So
    a job that has event time or an end goes by event time, and calls key groups for processing-time timers.
    """
    if graph.is_bounded or has_event_time(graph) or not has_processing_timers(graph):
        return TimeMode.EVENT_TIME
    return TimeMode.PROCESSING_TIME


def find_reassigners(graph: JobGraph) -> Mapping[int, int]:
    """Return the keyed nodes with reassigned timestamps: times that are assigned after another keyed node.

    The watermark of such a node follows the last node that assigns times on each way to it.  Spark has one
    watermark for a query, and does not know this one.  If there is not exactly one such assigner on all
    ways to a node, the node is left out.

    Returns:
        The number of the node that assigns times, by the number of the keyed node.
    """
    makers, numbers = find_watermark_makers(graph), _stage_numbers(graph)
    heeded = {
        maker
        for node in graph.nodes.values()
        if is_keyed(node) and not isinstance(node, KeyedFold)
        for maker in makers[node.id]
    }
    return {
        number: maker
        for number, found in makers.items()
        if is_keyed(graph.nodes[number]) and numbers[number] > 1 and len(found) == 1
        for maker in found
        if maker in heeded and maker != _OF_SPARK
    }


def find_watermark_makers(graph: JobGraph) -> Mapping[int, frozenset[int]]:
    """Return the makers of the watermarks that come to each node: nodes between operators, or 0 for Spark."""
    numbers = _stage_numbers(graph)
    found: dict[int, frozenset[int]] = {}
    for node in graph.nodes.values():
        if isinstance(node, AssignTimestamps) and numbers[node.id]:
            found[node.id] = frozenset([node.id])
        else:
            inputs = [found[each] for each in node.inputs]
            found[node.id] = frozenset().union(*inputs) or frozenset([_OF_SPARK])
    return found


_OF_SPARK = 0
"""Spark as a maker of watermarks; numbers of nodes begin with 1."""


def has_processing_timers(graph: JobGraph) -> bool:
    """Return whether the function of some node registers processing-time timers."""
    return any(map(registers_processing_timers, graph.nodes.values()))


def needs_ticks(graph: JobGraph) -> bool:
    """Return whether key groups must be called at every trigger, in addition to the calls that Spark makes."""
    if graph.is_bounded or time_mode_of(graph) is TimeMode.PROCESSING_TIME:
        return False
    return has_processing_timers(graph)


def registers_processing_timers(node: Node) -> bool:
    """Return whether the function of a node registers processing-time timers."""
    function = getattr(node, "function", None)
    return function is not None and uses_processing_timers(function)


def has_event_time(graph: JobGraph) -> bool:
    """Return whether elements have event times, or watermarks are made."""
    strategies = [node.strategy for node in graph.of_kind(FromSource)]
    return any(map(_is_timed, strategies)) or any(graph.of_kind(AssignTimestamps))


def _is_timed(strategy: WatermarkStrategy) -> bool:
    return strategy.assigner is not None or strategy.kind is not WatermarkKind.NONE


COUNTS = -1
"""The address of stage records with `Count`s for the last stage; numbers of nodes begin with 1.

State operators report the metrics of keyed operators only.  So the counts of functions without keys travel in
a stage record through all operators to the last stage.  There they become a column that Spark observes, beside
the reports of keyed operators.  A batch has no progress to report them: there the driver gets the counts of all
functions and operators beside the results.
"""


def observe_functions(results: DataFrame, names: Iterable[str]) -> DataFrame:
    """Return the results of the last stage without the counts, which Spark observes.

    Args:
        results: The results and counts of the last stage.
        names: The names of the functions that may count.
    """
    # Spark refuses a query in which two observations have one name.
    for name in sorted(set(names)):
        results = results.observe(name, numbers_by_name(_counts_of(name)).alias("user"))
    return results.where("payload is not null").select("output", "payload")


def _counts_of(function: str) -> str:
    # As bytes: a name may hold quotes.
    name = f"cast(X'{function.encode().hex()}' AS string)"
    return f"filter(counts, count -> count.function = {name})"
