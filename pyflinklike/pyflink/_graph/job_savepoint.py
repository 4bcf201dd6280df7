# SPDX-License-Identifier: Apache-2.0
"""A savepoint of a job: the parts for the operators and sources of a program, and positions of sources.

An operator is found by its uid.  An operator without a uid is found by the default name of its state, which
has its kind and its position among the operators with state.  Another program may have another operator at
that position, so the function must be of the same class.  A source is found by its uid, or else by what it
reads.  If no part of the program claims something, it is refused, unless the program lets it be lost.

The position of a source counts elements.  Any iterator of Python can be a source here, so there is no offset to
seek to.  Instead a source is read again from its beginning, and as many elements are skipped as were read
before.  So it must yield the same elements in the same order each time; `Source.is_read_alike` says whether it
does.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

import attrs

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.pyflink._graph.job import JobGraph, JobSettings
from pyflinklike.pyflink._graph.nodes import FromSource, Node
from pyflinklike.pyflink._graph.sources import HybridSource, Source
from pyflinklike.state_processor._savepoints.manifest import (
    Manifest,
    Position,
    SavedJob,
    SavedJobOperator,
    SavedOperator,
    SavedSource,
    move_on,
)
from pyflinklike.state_processor._savepoints.savepoint_directory import SavepointDirectory
from pyflinklike.windows.window_operator import WindowOperator

_IGNORE_UNCLAIMED = "execution.state-recovery.ignore-unclaimed-state"


@attrs.frozen
class JobBeginning:
    """The parts of a savepoint with which a job begins.

    Args:
        directory: The directory of the savepoint.
        operators: The saved operator of each operator that has one, by the number of its node.
        positions: The position of each source that has one, by the number of its node.
    """

    directory: SavepointDirectory
    operators: Mapping[int, SavedOperator]
    positions: Mapping[int, Position]


def begin_with(
    directory: SavepointDirectory, graph: JobGraph, settings: JobSettings
) -> JobBeginning:
    """Find the parts of a savepoint with which the operators and sources of a job begin.

    Args:
        directory: The savepoint, of a job or of a single query.
        graph: The nodes of the job that begins.
        settings: The settings of that job, such as whether state may be left unclaimed.

    Raises:
        IncompatibleStateError: State or a position would be lost, or would go to another operator or source;
            or the savepoint does not know how far a source was read.
    """
    claims = _Claims(directory.manifest, graph, directory.location.where)
    operators, sources = dict(claims.operators()), dict(claims.sources())
    if not settings.ignores_unclaimed_state:
        claims.refuse_unclaimed(operators, sources)
    positions = {number: saved.position for number, saved in sources.items()}
    return JobBeginning(
        directory, operators, {at: each for at, each in positions.items() if each is not None}
    )


@attrs.frozen
class _Claims:
    """The parts of a savepoint that a job claims.

    Args:
        manifest: The manifest of the savepoint.
        graph: The nodes of the job.
        where: The name of the savepoint, for messages.
    """

    manifest: Manifest
    graph: JobGraph
    where: str

    def operators(self) -> Iterator[tuple[int, SavedOperator]]:
        """Yield the saved operators of the job's operators, by the numbers of their nodes."""
        known = {each.uid: each for each in self.manifest.operators}
        for number, name in self.graph.state_names.items():
            saved, node = known.get(name), self.graph.nodes[number]
            if saved is None:
                continue
            # A savepoint of a single query does not describe a job, so its uids decide alone.
            former = None if self.manifest.job is None else self.manifest.job.operator(name)
            if former is not None and node.uid is None:
                self._refuse_stranger(node, former)
            self._check_keys(node, saved)
            yield number, saved

    def _refuse_stranger(self, node: Node, former: SavedJobOperator) -> None:
        """Refuse to give an operator without a uid the state of another one that had its position."""
        now = class_of(getattr(node, "function", None))
        if former.uid is None and former.function == now:
            return
        was = f"uid {former.uid!r}" if former.uid else former.function
        msg = (
            f"{self.where}: an operator without a uid begins with the state of the operator that had its position "
            f"and the class of its function, got {former.name!r} ({now}), but the savepoint has {was}; give the "
            f"operator uid({former.name!r}) if it is the same one, and else another uid"
        )
        raise IncompatibleStateError(msg)

    def _check_keys(self, node: Node, saved: SavedOperator) -> None:
        keys = self.graph.keys_of(node)
        now = "none" if keys is None else keys.key_type.signature
        former = saved.record.identity.key
        if now != former and _has_keys(saved):
            msg = (
                f"{self.where}: the keys of an operator are of the type that they had, got {now!r} for operator "
                f"{saved.uid!r}, whose keys are {former!r}; give key_by the former key_type, or rekey() the "
                "savepoint"
            )
            raise IncompatibleStateError(msg)

    def sources(self) -> Iterator[tuple[int, SavedSource]]:
        """Yield the saved sources of the job's sources, by the numbers of their nodes."""
        left = list(self.manifest.job.sources) if self.manifest.job is not None else []
        nodes = list(self.graph.of_kind(FromSource))
        # Sources with uids first: a source without one may read the same, and must not take their parts.
        for node in sorted(nodes, key=lambda each: each.uid is None):
            now = source_of(node)
            saved = next((each for each in left if each.is_same(now)), None)
            if saved is not None:
                left.remove(saved)
                self._check_source(saved, now)
                yield node.id, saved

    def _check_source(self, saved: SavedSource, now: SavedSource) -> None:
        if (saved.kind, saved.is_bounded) != (now.kind, now.is_bounded):
            msg = (
                f"a source goes on from the position of a source of its kind, got a {_kind(now)} for the "
                f"position of a {_kind(saved)}, uid {now.uid!r}; give it another uid and a start of its own"
            )
        elif saved.kind == HybridSource.__name__ and saved.what != now.what:
            msg = (
                f"the position of a HybridSource names its sources by their numbers, got {now} for the "
                f"position of {saved}; give it the former sources, or another uid"
            )
        elif saved.position is None:
            msg = (
                f"a source goes on from its position, got one whose position is not in the savepoint, "
                f"{now}: {saved.reason}; give it another uid and the start that you need, and set "
                f"{_IGNORE_UNCLAIMED} to true"
            )
        else:
            return
        raise IncompatibleStateError(f"{self.where}: {msg}")

    def refuse_unclaimed(
        self, operators: Mapping[int, SavedOperator], sources: Mapping[int, SavedSource]
    ) -> None:
        """Refuse to lose state or a position.

        Args:
            operators: The saved operators that the job has, by the numbers of their nodes.
            sources: The saved sources that the job has, by the numbers of their nodes.
        """
        claimed = {each.uid for each in operators.values()}
        lost = [
            f"operator {each.uid!r}"
            for each in self.manifest.operators
            if each.uid not in claimed and _has_anything(each)
        ]
        # One by one, since two sources without uids may be equal.
        taken = list(sources.values())
        for source in self.manifest.job.sources if self.manifest.job is not None else ():
            if source in taken:
                taken.remove(source)
            else:
                lost.append(str(source))
        if lost:
            own = map(str, map(source_of, self.graph.of_kind(FromSource)))
            names = ", ".join([*map(repr, self.graph.state_names.values()), *own]) or "none"
            msg = (
                f"{self.where}: a job begins with all state of a savepoint, got {', '.join(lost)}, which the job "
                f"does not have: it has {names}; give its operators and sources the uids of the savepoint, or set "
                f"{_IGNORE_UNCLAIMED} to true to lose this"
            )
            raise IncompatibleStateError(msg)


def _has_keys(saved: SavedOperator) -> bool:
    # Broadcast states have no keys, so another type of keys does not matter for them.
    kinds = saved.record.states
    keyed = (
        rows.rows for name, rows in saved.states.items() if kinds[name].get("kind") != "broadcast"
    )
    return bool(saved.timers.rows or any(keyed))


def _has_anything(saved: SavedOperator) -> bool:
    return bool(saved.timers.rows or any(each.rows for each in saved.states.values()))


def _kind(source: SavedSource) -> str:
    return source.kind if source.is_bounded else f"{source.kind} without an end"


# The description of a job in a savepoint


def job_to_save(
    name: str, graph: JobGraph, positions: Mapping[int, tuple[Position | None, str]]
) -> SavedJob:
    """Describe a job for a savepoint.

    Args:
        name: The name of the job.
        graph: The nodes of the job.
        positions: The position of each source, or None with the reason, by the number of its node.
    """
    sources = []
    for node in graph.of_kind(FromSource):
        position, reason = positions[node.id]
        sources.append(attrs.evolve(source_of(node), position=position, reason=reason))
    operators = tuple(
        SavedJobOperator(state, node.uid, class_of(getattr(node, "function", None)))
        for number, state in graph.state_names.items()
        for node in (graph.nodes[number],)
    )
    return SavedJob(name, tuple(sources), operators)


def source_of(node: FromSource) -> SavedSource:
    """Describe a source, without its position."""
    source = node.source
    return SavedSource(node.uid, type(source).__name__, source.identity, source.is_bounded)


def class_of(function: Any) -> str:
    """Return the name of a function's class; for windows also the classes of the functions inside."""
    name = type(function).__qualname__
    if not isinstance(function, WindowOperator):
        return name
    return f"{name} of {', '.join(type(each).__qualname__ for each in function.functions)}"


def savepoint_id(manifest: Manifest) -> str:
    """Return a text that differs between savepoints."""
    return f"{manifest.taken_at}-{zlib.crc32(manifest.to_json().encode()):08x}"


# Positions of sources


Elements = Iterator[tuple[Any, "int | None"]]


def find_beginning(source: Source, count: int) -> Position:
    """Return the position of a source before its first element.

    Args:
        source: The source; one that ends has its splits listed now.
        count: The number of splits, if they have no names.
    """
    if source.is_bounded and source.has_named_splits:
        return {"left": [[name, 0] for name in source.splits()]}
    return {"splits": count, "read": [0] * count}


def find_parts_left(source: Source, position: Position) -> list[Elements]:
    """Return the elements of each split after a position; one iterator for splits that follow one another.

    Args:
        source: The source that the position belongs to.
        position: One of the forms that count elements.
    """
    if "left" in position:
        splits = [(source.read_split(name), skip) for name, skip in position["left"]]
    else:
        count, read = position["splits"], position["read"]
        splits = [
            (source.read(index, count), skip) for index, skip in enumerate(read) if skip is not None
        ]
    parts = [_without_first(elements, skip) for elements, skip in splits]
    # "first" counts elements over all splits in order; a source that Spark has read has such a position.
    first = position.get("first", 0)
    return [_without_first(chain.from_iterable(parts), first)] if first else parts


def _without_first(elements: Elements, skip: int) -> Elements:
    return islice(elements, skip, None) if skip else elements


class ReadParts:
    """The parts of a source that the instances of this process read, and how far they have read.

    Args:
        source: The source to read.
        instances: The number of instances that share the parts.
        position: The position from which they go on; None reads from the beginning.
    """

    def __init__(self, source: Source, instances: int, position: Position | None) -> None:
        self._source, self._instances = source, instances
        self._begun = position
        self._parts: list[Elements] | None = None
        self._counts: list[int | None] = []
        """The number of elements of each part that were read here; None at its end."""

    def elements(self, index: int) -> Elements:
        """Yield the elements of one instance, part by part.

        Args:
            index: The number of the instance, from 0.

        Raises:
            SparkSetupError: This process cannot read the source; it is raised at once.
        """
        return self._elements(index, self._open())

    def _elements(self, index: int, parts: list[Elements]) -> Elements:
        for number in range(index, len(parts), self._instances):
            for element in parts[number]:
                self._counts[number] += 1  # type: ignore[operator]
                yield element
            self._counts[number] = None

    def is_at_an_end(self) -> bool:
        """Return whether this process has read no element yet, or all elements."""
        self._open()
        return not any(self._counts) or not any(each is not None for each in self._counts)

    def position(self) -> Position:
        """Return how far the source was read."""
        parts, begun = self._open(), self._begun
        assert begun is not None
        if "first" in begun:
            (count,) = self._counts
            # After the end of all splits no element is left, so the number to skip does not matter.
            return {**begun, **_leave_nothing(begun)} if count is None else move_on(begun, count)
        assert len(parts) == len(self._counts)
        counts = iter(self._counts)
        if "left" in begun:
            behind = [(name, skip, next(counts)) for name, skip in begun["left"]]
            return {
                "left": [[name, skip + count] for name, skip, count in behind if count is not None]
            }
        read = [None if each is None else _sum(each, next(counts)) for each in begun["read"]]
        return {"splits": begun["splits"], "read": read}

    def _open(self) -> list[Elements]:
        if self._parts is None:
            if self._begun is None:
                self._begun = find_beginning(self._source, self._instances)
            self._parts = find_parts_left(self._source, self._begun)
            self._counts = [0] * len(self._parts)
        return self._parts


def _leave_nothing(position: Position) -> Position:
    if "left" in position:
        return {"left": [], "first": 0}
    return {"read": [None] * position["splits"], "first": 0}


def _sum(skip: int, count: int | None) -> int | None:
    return None if count is None else skip + count
