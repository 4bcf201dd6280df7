# SPDX-License-Identifier: Apache-2.0
"""The nodes of a program, added by the API as the program declares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import attrs

from pyflinklike.graph.job import JobGraph
from pyflinklike.graph.nodes import FromSource, KeyBy, Node, Partition, SideOutput, ToSink, Union

__all__ = ["GraphBuilder"]

N = TypeVar("N", bound=Node)

_NO_OPERATORS = (FromSource, KeyBy, Partition, SideOutput, Union)
"""Nodes that Flink does not run by themselves: sources, and nodes that only route elements."""


class GraphBuilder:
    """All nodes of a program, by number; they stay for further jobs of the program.

    A program may go on with streams of another program.  Their nodes stay the other one's, which may
    still change their settings, and have numbers of their own here.

    Args:
        parallelism: Tells how many instances an operator of this program has that asks for no
            number, also in jobs of another program; None where that is left to the job.
    """

    def __init__(self, parallelism: Callable[[], int | None] = lambda: None) -> None:
        self._parallelism = parallelism
        self._nodes: dict[int, Node] = {}
        self._others: dict[int, tuple[GraphBuilder, int, tuple[int, ...]]] = {}
        """Of nodes of other programs: whose, their number there, and their inputs here."""
        self._adopted: dict[tuple[GraphBuilder, int], int] = {}
        """The number here of a node of another program."""

    def __getitem__(self, number: int) -> Node:
        """Return the node of a number."""
        if number not in self._others:
            return self._nodes[number]
        owner, there, inputs = self._others[number]
        node = owner[there]
        parallelism = owner._parallelism() if node.parallelism is None else node.parallelism
        return attrs.evolve(node, id=number, inputs=inputs, parallelism=parallelism)

    def add(self, kind: type[N], **fields: Any) -> N:
        """Add a new node, and return it.

        Args:
            kind: The class of the node.
            fields: The fields of the node, except its number.
        """
        node = kind(id=self.last + 1, **fields)
        assert all(0 < each < node.id for each in node.inputs)
        self._nodes[node.id] = node
        return node

    def adopt(self, owner: GraphBuilder, number: int) -> int:
        """The number that a node of another program has here; all nodes that it needs come along.

        Args:
            owner: Whose node it is; this program's keep their numbers.
            number: Of the node there.
        """
        while number in owner._others:
            owner, number, _ = owner._others[number]
        if owner is self:
            return number
        known = self._adopted.get((owner, number))
        if known is not None:
            return known
        # Each needed node comes after its inputs, however long the chain is.
        for each, node in owner.graph([number]).nodes.items():
            at, source = owner, each
            while source in at._others:
                at, source, _ = at._others[source]
            if at is not self and (at, source) not in self._adopted:
                inputs = tuple(self.adopt(owner, one) for one in node.inputs)
                here = self.last + 1
                self._others[here] = at, source, inputs
                self._adopted[at, source] = here
        return self._adopted[owner, number]

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
        return len(self._nodes) + len(self._others)

    def without_sink(self, begin: int) -> list[int]:
        """Return the numbers of this program's operators that have no sink behind them.

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
                missing += self[number].inputs
        return JobGraph({number: self[number] for number in sorted(needed)})
