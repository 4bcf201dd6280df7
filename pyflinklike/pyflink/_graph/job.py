# SPDX-License-Identifier: Apache-2.0
"""A job is what a host runs: a graph and settings.  `GraphBuilder` builds a program's graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

import attrs

from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.functions.dead_letters import DeadLetters
from pyflinklike.pyflink._graph.nodes import (
    FromSource,
    KeyBy,
    Keyed,
    KeyedFold,
    Node,
    Partition,
    SideOutput,
    ToSink,
    TwoInputs,
    Union,
    WithBroadcast,
)

N = TypeVar("N", bound=Node)


class RuntimeExecutionMode(Enum):
    """The way in which a job runs, as `pyflink.datastream.RuntimeExecutionMode`."""

    STREAMING = "streaming"
    """Elements are processed as they come, and watermarks follow them."""
    BATCH = "batch"
    """Sources are bounded: each key is processed as a whole, sorted by time, and folds give one result."""
    AUTOMATIC = "automatic"
    """Batch if all sources are bounded, else streaming."""


@attrs.frozen(slots=False)
class JobGraph:
    """The nodes that some sinks need.

    Args:
        nodes: The nodes by number, ascending: every node comes after its inputs.
    """

    nodes: Mapping[int, Node]

    def of_kind(self, kind: type[N]) -> Iterator[N]:
        """Return the nodes of a class, in order."""
        return (node for node in self.nodes.values() if isinstance(node, kind))

    @property
    def is_bounded(self) -> bool:
        """True if all sources come to an end."""
        return all(node.source.is_bounded for node in self.of_kind(FromSource))

    @property
    def sinks(self) -> tuple[ToSink, ...]:
        """The nodes where elements go out."""
        return tuple(self.of_kind(ToSink))

    @cached_property
    def consumers(self) -> Mapping[int, tuple[tuple[Node, int], ...]]:
        """The readers of each node, by its number: pairs of a node and the number of its input.

        Inputs are counted from 0.  If a node reads another one twice, there are two pairs.  In a part
        of a graph, inputs from the rest of the graph are left out.
        """
        found: dict[int, list[tuple[Node, int]]] = {number: [] for number in self.nodes}
        for node in self.nodes.values():
            for position, number in enumerate(node.inputs):
                if number in found:
                    found[number].append((node, position))
        return {number: tuple(each) for number, each in found.items()}

    def main_consumers(self, node: Node) -> tuple[tuple[Node, int], ...]:
        """Return the readers of a node's main output: `consumers` without side outputs."""
        return tuple(
            each for each in self.consumers[node.id] if not isinstance(each[0], SideOutput)
        )

    def side_outputs(self, node: Node) -> tuple[SideOutput, ...]:
        """Return the side outputs of a node that are read; any other is dropped."""
        return tuple(each for each, _ in self.consumers[node.id] if isinstance(each, SideOutput))

    def is_only_broadcast(self, number: int) -> bool:
        """Return whether all elements of a node go to broadcast inputs only.

        Args:
            number: The number of the node.
        """
        consumers = self.consumers[number]
        return bool(consumers) and all(
            position == 1 if isinstance(node, WithBroadcast) else self.is_only_broadcast(node.id)
            for node, position in consumers
        )

    def keys_of(self, node: Node) -> KeyBy | None:
        """Return the node that gives an operator's elements their keys; None if they have no keys."""
        first = self.nodes.get(node.inputs[0])
        return first if isinstance(first, KeyBy) else None

    @cached_property
    def state_names(self) -> Mapping[int, str]:
        """The name of the state of each node that has one: its uid, or its kind and position.

        The position counts the nodes with state in the order in which they were declared.  So it
        stays the same until a node with state is added before.
        """
        stateful = [each for each in self.nodes.values() if isinstance(each, _STATEFUL)]
        return {
            node.id: node.uid or f"{type(node).__name__}-{position}"
            for position, node in enumerate(stateful, 1)
        }


_STATEFUL = (Keyed, KeyedFold, TwoInputs, WithBroadcast)


@attrs.frozen(kw_only=True)
class JobSettings:
    """The settings of a job, from its `ExecutionConfig` and `Configuration`.

    Args:
        name: The name of the job.
        is_batch: True for batch mode; `AUTOMATIC` is decided already.
        parallelism: The number of instances of an operator that asks for none; None leaves it to
            the host.
        max_parallelism: The number of key groups; None leaves it to the host.
        job_parameters: Texts by name, for `RuntimeContext.get_job_parameter`.
        records_per_batch: The number of elements that a collection or sequence yields before a
            watermark follows; None leaves it to the host.
        state_backend: The storage of working state; None leaves it to the host.
        checkpoint_dir: The directory of the state that the job continues from, or None.
        recovery_path: The path of a savepoint, or of the folder of an earlier run, from which the
            program wants to continue; None if it wants neither.
        ignores_unclaimed_state: Whether state of a savepoint may be lost if no operator of the job has it.
        is_dropped_when_cancelled: True if the job does not continue once it was cancelled.
        files_per_batch: The number of files in a micro-batch of a source that looks for them; None
            for all that exist.
        checkpoint_interval: The least duration of a micro-batch, in ms; None makes them as short
            as possible.
        python_files: The paths of files that functions import.
        configuration: All keys of the program's `Configuration`, as text.
        on_error: Makes dead letters in operators if the side output of its tag is read.  If None, an error
            fails the job.
    """

    name: str = "Flink Streaming Job"
    is_batch: bool = False
    parallelism: int | None = None
    max_parallelism: int | None = None
    job_parameters: Mapping[str, str] = attrs.field(factory=dict)
    records_per_batch: int | None = None
    state_backend: StateBackend | None = None
    checkpoint_dir: str | None = None
    recovery_path: str | None = None
    ignores_unclaimed_state: bool = False
    is_dropped_when_cancelled: bool = False
    files_per_batch: int | None = None
    checkpoint_interval: int | None = None
    python_files: tuple[str, ...] = ()
    configuration: Mapping[str, str] = attrs.field(factory=dict)
    on_error: DeadLetters | None = None

    def letters_to(self, side_outputs: Collection[str]) -> DeadLetters | None:
        """Return the dead letters of an operator, if their tag is among the side outputs that are read."""
        on_error = self.on_error
        return on_error if on_error is not None and on_error.tag.tag_id in side_outputs else None


@attrs.frozen
class Job:
    """The input of a host: a graph, and how to run it.

    Args:
        graph: The nodes that the job needs.
        settings: The settings of the whole job.
    """

    graph: JobGraph
    settings: JobSettings

    def settings_of(self, source: FromSource) -> JobSettings:
        """Return the settings of a source.

        If a bounded source feeds broadcast inputs only, it is read in one piece, not in micro-batches.
        So a host can let its elements come before all others, as in batch mode.

        Args:
            source: The node of the source.
        """
        if source.source.is_bounded and self.graph.is_only_broadcast(source.id):
            return attrs.evolve(self.settings, records_per_batch=None)
        return self.settings


# The builder


_NO_OPERATORS = (FromSource, KeyBy, Partition, SideOutput, Union)
"""Nodes that Flink does not run by themselves: sources, and nodes that only route elements."""


class GraphBuilder:
    """The nodes of a program, by number; they stay for further jobs of the program.

    A program may use streams of another program.  Their nodes still belong to that program, which may
    change their settings later; here these nodes only have other numbers.

    Args:
        parallelism: Returns the number of instances of this program's operators that ask for none,
            also in jobs of another program; None leaves it to the job.
    """

    def __init__(self, parallelism: Callable[[], int | None] = lambda: None) -> None:
        self._parallelism = parallelism
        self._nodes: dict[int, Node] = {}
        self._others: dict[int, tuple[GraphBuilder, int, tuple[int, ...]]] = {}
        """For each node of another program its owner, its number there, and its inputs here."""
        self._adopted: dict[tuple[GraphBuilder, int], int] = {}
        """The number here of a node of another program."""

    def __getitem__(self, number: int) -> Node:
        """Return the node of a number."""
        if number not in self._others:
            return self._nodes[number]
        owner, there, inputs = self._others[number]
        node = owner[there]
        # Asked for now: the other program may set it after its streams were used here.
        parallelism = owner._parallelism() if node.parallelism is None else node.parallelism
        return attrs.evolve(node, id=number, inputs=inputs, parallelism=parallelism)

    def add(self, kind: type[N], **fields: Any) -> N:
        """Add a new node, and return it.

        Args:
            kind: The class of the node.
            fields: The fields of the node, except its number.
        """
        # Inputs exist already, so a graph has no circle.
        node = kind(id=self.last + 1, **fields)
        assert all(0 < each < node.id for each in node.inputs)
        self._nodes[node.id] = node
        return node

    def adopt(self, owner: GraphBuilder, number: int) -> int:
        """Add a node of another program with all nodes that it needs, and return its number here.

        Args:
            owner: The program that has the node; nodes of this program keep their numbers.
            number: The number of the node in that program.
        """
        while number in owner._others:
            owner, number, _ = owner._others[number]
        if owner is self:
            return number
        known = self._adopted.get((owner, number))
        if known is not None:
            return known
        # In the order of numbers, so inputs are adopted first and the recursion below is never deep.
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
        """The number of the last node; 0 if there is no node yet."""
        return len(self._nodes) + len(self._others)

    def without_sink(self, begin: int) -> list[int]:
        """Return the numbers of this program's operators whose elements reach no sink.

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
        # A loop, not a recursion: a program may chain thousands of operators.
        missing = list(sinks)
        while missing:
            number = missing.pop()
            if number not in needed:
                needed.add(number)
                missing += self[number].inputs
        return JobGraph({number: self[number] for number in sorted(needed)})
