# SPDX-License-Identifier: Apache-2.0
"""What a job's folder belongs to: the sources and keyed operators of a program, in their order.

A checkpoint of Spark knows both by their places only.  So a program that has others in these places
would go on with what is not its own, without an error; it is refused by name.  All that keeps
nothing between micro-batches may change: functions without state, sinks, names.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import attrs

from pyflinklike.errors import HostError
from pyflinklike.graph.nodes import FromSource, Node
from pyflinklike.spark.jobs.steps import JobSteps
from pyflinklike.windows.operator import WindowOperator

__all__ = ["Identity", "OperatorIdentity", "SourceIdentity", "identity_of", "refuse_changes"]

_FEED_KIND = "WatermarkFeed"
_FEED = "the watermark of splits and idle inputs (with_idleness, or a KafkaSource with watermarks)"


@attrs.frozen
class SourceIdentity:
    """One source.

    Args:
        uid: As the program says, or None.
        kind: The class of the source.
        what: What it reads.
        is_bounded: Whether it ends.
    """

    uid: str | None
    kind: str
    what: str
    is_bounded: bool

    def __str__(self) -> str:
        named = f"source {self.uid!r}" if self.uid else self.what
        return named if self.is_bounded else f"{named} (without an end)"

    def is_same(self, other: SourceIdentity) -> bool:
        """Whether it is the same one: by their uids, or else by what they read.

        One that ends has noted all that it gives and its end when the job began, and one that does
        not end looks for more: neither can go on as the other.
        """
        if self.is_bounded is not other.is_bounded:
            return False
        if self.uid and other.uid:
            return (self.kind, self.uid) == (other.kind, other.uid)
        return (self.kind, self.what) == (other.kind, other.what)


@attrs.frozen
class OperatorIdentity:
    """One keyed operator.

    Args:
        name: Of its state.
        uid: As the program says, or None.
        function: The class of its function.
        key_type: Of its keys.
        max_parallelism: How many key groups there are.
        depth: How many keyed operators an element comes through at most up to this one, with it;
            those of one depth share a state operator.
    """

    name: str
    uid: str | None
    function: str
    key_type: str
    max_parallelism: int
    depth: int

    def __str__(self) -> str:
        return (
            f"operator {self.name!r} ({self.function}, keys {self.key_type}, "
            f"max_parallelism {self.max_parallelism}, depth {self.depth})"
        )

    def is_same(self, other: OperatorIdentity) -> bool:
        """Whether it is the same one; a uid that says so is enough for its function to change."""
        settings = (self.name, self.key_type, self.max_parallelism, self.depth)
        if settings != (other.name, other.key_type, other.max_parallelism, other.depth):
            return False
        return bool(self.uid or other.uid) or self.function == other.function


@attrs.frozen
class Identity:
    """What keeps something between micro-batches.

    Args:
        sources: In order.
        operators: In order.
        timers: By which time operators are woken: Spark holds to it.
    """

    sources: tuple[SourceIdentity, ...]
    operators: tuple[OperatorIdentity, ...]
    timers: str

    @property
    def is_fed(self) -> bool:
        """Whether the driver makes the watermark."""
        return any(each.kind == _FEED_KIND for each in self.sources)

    @property
    def number_of_sources(self) -> int:
        """Those of the program."""
        return len(self.sources) - self.is_fed

    def to_json(self) -> dict[str, Any]:
        """As JSON can say it."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, contents: dict[str, Any]) -> Identity:
        """What `to_json` gave."""
        return cls(
            tuple(SourceIdentity(**each) for each in contents["sources"]),
            tuple(OperatorIdentity(**each) for each in contents["operators"]),
            contents["timers"],
        )


def identity_of(steps: JobSteps) -> Identity:
    """That of a job.

    Args:
        steps: Of the job.
    """
    graph = steps.job.graph
    sources = tuple(
        SourceIdentity(
            node.uid, type(node.source).__name__, node.source.identity, node.source.is_bounded
        )
        for node in graph.of_kind(FromSource)
    )
    if steps.is_fed:
        sources += (SourceIdentity(None, _FEED_KIND, _FEED, False),)
    operators = tuple(
        _operator(steps, graph.nodes[number], stage.number)
        for stage in steps.stages[1:]
        for number in stage.entrances
    )
    return Identity(sources, operators, _timers(steps))


def _timers(steps: JobSteps) -> str:
    return "event time" if steps.time_mode.passes_watermark else "processing time"


def _operator(steps: JobSteps, node: Node, depth: int) -> OperatorIdentity:
    return OperatorIdentity(
        name=steps.job.graph.state_names[node.id],
        uid=node.uid,
        function=_classes_of(getattr(node, "function", None)),
        key_type=repr(steps.key_type(node)),
        max_parallelism=steps.key_groups(node),
        depth=depth,
    )


def _classes_of(function: object) -> str:
    """The class of a function; of windows those of the functions that are within."""
    name = type(function).__qualname__
    if not isinstance(function, WindowOperator):
        return name
    return f"{name} of {', '.join(type(each).__qualname__ for each in function.functions)}"


def refuse_changes(former: Identity, now: Identity, folder: str) -> None:
    """See that a program may go on in a folder.

    Args:
        former: Of the program that began it.
        now: Of the program that is to go on.
        folder: Which one.

    Raises:
        HostError: The program has another source or keyed operator in some place.
    """
    found = list(_changes(former, now))
    if found:
        msg = (
            f"a job goes on where it was with the sources and keyed operators that it began with, in "
            f"their order, got {'; '.join(found)}; take that back (uid(...) says which operator or "
            "source is which, where its class or its paths have changed), or begin anew with another "
            f"job name or execution.checkpointing.dir than that of {folder!r}"
        )
        raise HostError(msg)


def _changes(former: Identity, now: Identity) -> Iterator[str]:
    pairs = [*zip_longest(former.sources, now.sources)]
    both: list[tuple[Any, Any]] = [*pairs, *zip_longest(former.operators, now.operators)]
    for one, other in both:
        if one is None:
            yield f"{other} where there was none"
        elif other is None:
            yield f"none where there was {one}"
        elif not one.is_same(other):
            yield f"{other} where there was {one}"
    if former.timers != now.timers:
        yield f"keyed operators that are woken by {now.timers} and were by {former.timers}"
