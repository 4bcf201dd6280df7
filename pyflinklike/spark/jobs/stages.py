# SPDX-License-Identifier: Apache-2.0
"""Which part of a graph runs between which shuffles.

Stage 0 begins with the sources, and each further one with the outputs of keyed operators: of all
that are equally far behind the sources, counted in shuffles.  These share a state operator, so the
plan is a line whatever the graph is, as long as the longest way through it.  A node without state is
in the first stage that all its inputs have come to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from pyflinklike.graph.job import JobGraph
from pyflinklike.graph.nodes import (
    Fold,
    FromSource,
    Keyed,
    Node,
    ToSink,
    TwoInputs,
    WithBroadcast,
)
from pyflinklike.spark.wire.places import PLACES

__all__ = ["Stage", "is_keyed", "stages_of"]


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
