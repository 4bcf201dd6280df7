# SPDX-License-Identifier: Apache-2.0
"""The nodes of a program, added by the API as the program declares them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import attrs

from pyflinklike.graph.job import JobGraph
from pyflinklike.graph.nodes import FromSource, KeyBy, Node, Partition, SideOutput, ToSink, Union

__all__ = ["GraphBuilder"]

N = TypeVar("N", bound=Node)

_NO_OPERATORS = (FromSource, KeyBy, Partition, SideOutput, Union)
"""Nodes that Flink does not run by themselves: sources, and nodes that only route elements."""


class GraphBuilder:
    """All nodes of a program, by number; they stay for further jobs of the program."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}

    def __getitem__(self, number: int) -> Node:
        """Return the node of a number."""
        return self._nodes[number]

    def add(self, kind: type[N], **fields: Any) -> N:
        """Add a new node, and return it.

        Args:
            kind: The class of the node.
            fields: The fields of the node, except its number.
        """
        node = kind(id=len(self._nodes) + 1, **fields)
        assert all(each in self._nodes for each in node.inputs)
        self._nodes[node.id] = node
        return node

    def change(self, number: int, **settings: Any) -> Node:
        """Give a node other settings; nodes that read it do not change.

        Args:
            number: The number of the node.
            settings: Fields such as name, uid or parallelism.
        """
        node = self._nodes[number] = attrs.evolve(self._nodes[number], **settings)
        return node

    @property
    def last(self) -> int:
        """The number of the last node, 0 where there is none."""
        return len(self._nodes)

    def without_sink(self, begin: int) -> list[int]:
        """Return the numbers of the operators that have no sink behind them.

        Args:
            begin: Only operators with a greater number are returned.
        """
        to_sinks = [node.id for node in self._nodes.values() if isinstance(node, ToSink)]
        covered = self.graph(to_sinks).nodes
        return [
            number
            for number, node in self._nodes.items()
            if number > begin and number not in covered and not isinstance(node, _NO_OPERATORS)
        ]

    def graph(self, sinks: Iterable[int]) -> JobGraph:
        """Return the part of the graph that some nodes need, these nodes included.

        Args:
            sinks: The numbers of the nodes.
        """
        needed: set[int] = set()
        missing = list(sinks)
        while missing:
            number = missing.pop()
            if number not in needed:
                needed.add(number)
                missing += self._nodes[number].inputs
        return JobGraph({number: self._nodes[number] for number in sorted(needed)})
