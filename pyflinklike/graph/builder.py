# SPDX-License-Identifier: Apache-2.0
"""What the API adds nodes to, as a program declares them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import attrs

from pyflinklike.graph.job import JobGraph
from pyflinklike.graph.nodes import FromSource, KeyBy, Node, Partition, SideOutput, ToSink, Union

__all__ = ["GraphBuilder"]

N = TypeVar("N", bound=Node)

_NO_OPERATORS = (FromSource, KeyBy, Partition, SideOutput, Union)
"""What Flink does not run by itself: sources, and what only says where elements go."""


class GraphBuilder:
    """All nodes of a program, by number; they are kept for further jobs of it."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}

    def __getitem__(self, number: int) -> Node:
        """The node of a number."""
        return self._nodes[number]

    def add(self, kind: type[N], **fields: Any) -> N:
        """A new node.

        Args:
            kind: Its class.
            fields: Of the node, but for its number.
        """
        node = kind(id=len(self._nodes) + 1, **fields)
        assert all(each in self._nodes for each in node.inputs)
        self._nodes[node.id] = node
        return node

    def change(self, number: int, **settings: Any) -> Node:
        """Give a node other settings; whatever reads it does not change.

        Args:
            number: Of the node.
            settings: Such as name, uid or parallelism.
        """
        node = self._nodes[number] = attrs.evolve(self._nodes[number], **settings)
        return node

    @property
    def last(self) -> int:
        """The number of the last node, 0 where there is none."""
        return len(self._nodes)

    def without_sink(self, begin: int) -> list[int]:
        """The numbers of the operators behind which no sink is.

        Args:
            begin: Only those of greater numbers.
        """
        to_sinks = [node.id for node in self._nodes.values() if isinstance(node, ToSink)]
        covered = self.graph(to_sinks).nodes
        return [
            number
            for number, node in self._nodes.items()
            if number > begin and number not in covered and not isinstance(node, _NO_OPERATORS)
        ]

    def graph(self, sinks: Iterable[int]) -> JobGraph:
        """The part of the graph that some nodes need, and these.

        Args:
            sinks: Their numbers.
        """
        needed: set[int] = set()
        missing = list(sinks)
        while missing:
            number = missing.pop()
            if number not in needed:
                needed.add(number)
                missing += self._nodes[number].inputs
        return JobGraph({number: self._nodes[number] for number in sorted(needed)})
