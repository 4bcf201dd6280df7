# SPDX-License-Identifier: Apache-2.0
"""A job: what a host is given to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import TypeVar

import attrs

from pyflinklike.backends.base import StateBackend
from pyflinklike.graph.nodes import (
    Fold,
    FromSource,
    Keyed,
    Node,
    SideOutput,
    ToSink,
    TwoInputs,
    WithBroadcast,
)

__all__ = ["Job", "JobGraph", "JobSettings", "RuntimeExecutionMode"]

N = TypeVar("N", bound=Node)


class RuntimeExecutionMode(Enum):
    """How a job runs, as `pyflink.datastream.RuntimeExecutionMode`."""

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
        nodes: By number, ascending: every node comes after its inputs.
    """

    nodes: Mapping[int, Node]

    def of_kind(self, kind: type[N]) -> Iterator[N]:
        """The nodes of a class, in order."""
        return (node for node in self.nodes.values() if isinstance(node, kind))

    @property
    def is_bounded(self) -> bool:
        """Whether all sources come to an end."""
        return all(node.source.is_bounded for node in self.of_kind(FromSource))

    @property
    def sinks(self) -> tuple[ToSink, ...]:
        """Where elements go out."""
        return tuple(self.of_kind(ToSink))

    @cached_property
    def consumers(self) -> Mapping[int, tuple[tuple[Node, int], ...]]:
        """Who gets the elements of a node, by its number: a node, and which of its inputs that is.

        Inputs are counted from 0.  A node that reads another one twice is there twice.  In a part of
        a graph, inputs from elsewhere are left out.
        """
        found: dict[int, list[tuple[Node, int]]] = {number: [] for number in self.nodes}
        for node in self.nodes.values():
            for position, number in enumerate(node.inputs):
                if number in found:
                    found[number].append((node, position))
        return {number: tuple(each) for number, each in found.items()}

    def main_consumers(self, node: Node) -> tuple[tuple[Node, int], ...]:
        """Who gets the main output of a node: `consumers` but for side outputs."""
        return tuple(each for each in self.consumers[node.id] if not _is_side_output(each[0]))

    def side_outputs(self, node: Node) -> tuple[SideOutput, ...]:
        """The side outputs of a node that are read; any other is dropped."""
        return tuple(each for each, _ in self.consumers[node.id] if isinstance(each, SideOutput))

    def is_only_broadcast(self, number: int) -> bool:
        """Whether all that comes of a node goes to broadcast inputs.

        Args:
            number: Of the node.
        """
        consumers = self.consumers[number]
        return bool(consumers) and all(
            position == 1 if isinstance(node, WithBroadcast) else self.is_only_broadcast(node.id)
            for node, position in consumers
        )

    @cached_property
    def state_names(self) -> Mapping[int, str]:
        """What names the state of each node that has one: its uid, or its kind and position.

        The position counts the nodes with state in the order in which they were declared, so
        it stays as long as no such node is declared before.
        """
        stateful = [each for each in self.nodes.values() if isinstance(each, _STATEFUL)]
        return {
            node.id: node.uid or f"{type(node).__name__}-{position}"
            for position, node in enumerate(stateful, 1)
        }


_STATEFUL = (Keyed, Fold, TwoInputs, WithBroadcast)


def _is_side_output(node: Node) -> bool:
    return isinstance(node, SideOutput)


@attrs.frozen(kw_only=True)
class JobSettings:
    """How a job is to run, from its `ExecutionConfig` and `Configuration`.

    Args:
        name: Of the job.
        is_batch: Whether it runs in batch mode; `AUTOMATIC` is decided already.
        parallelism: How many instances an operator has that asks for no number; None leaves
            that to the host.
        max_parallelism: How many key groups there are; None leaves that to the host.
        job_parameters: For `RuntimeContext.get_job_parameter`.
        records_per_batch: How many elements a collection or sequence gives before a watermark
            follows; None leaves that to the host.
        state_backend: Where working state is kept; None leaves that to the host.
        checkpoint_dir: Where the job keeps what it continues from, or None.
        recovery_path: What the program says that it continues from, or None.
        is_dropped_when_cancelled: Whether it does not continue once it was cancelled.
        files_per_batch: How many files a micro-batch has of a source that looks for them; None is
            all that there are.
        checkpoint_interval: How long a micro-batch lasts at least, in ms; None is as short as can be.
        python_files: Paths of files that functions import.
        configuration: All keys of the program's `Configuration`, as text.
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
    is_dropped_when_cancelled: bool = False
    files_per_batch: int | None = None
    checkpoint_interval: int | None = None
    python_files: tuple[str, ...] = ()
    configuration: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Job:
    """What a host is given to run.

    Args:
        graph: What is to be done.
        settings: How.
    """

    graph: JobGraph
    settings: JobSettings

    def settings_of(self, source: FromSource) -> JobSettings:
        """The settings by which a source is read: what feeds broadcast inputs only is not cut.

        So its elements come before all others, as in batch mode, where a host can see to that.

        Args:
            source: Its node.
        """
        if source.source.is_bounded and self.graph.is_only_broadcast(source.id):
            return attrs.evolve(self.settings, records_per_batch=None)
        return self.settings
