# SPDX-License-Identifier: Apache-2.0
"""A savepoint of a job: finds for each operator and source of a program its part of the savepoint.

An operator is found by its uid.  An operator without a uid is found by the default name of its state, which
has its kind and its position among the operators with state.  Another program may have another operator at
that position, so the function must be of the same class.  A source is found by its uid, or else by what it
reads.  If no part of the program claims something, it is refused, unless the program lets it be lost.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.pyflink._graph.hybrid_source import HybridSource
from pyflinklike.pyflink._graph.job import JobGraph, JobSettings
from pyflinklike.pyflink._graph.nodes import FromSource, KeyBy, Node
from pyflinklike.state_processor._savepoints.manifest import (
    Manifest,
    Position,
    SavedJob,
    SavedJobOperator,
    SavedOperator,
    SavedSource,
)
from pyflinklike.state_processor._savepoints.savepoint_directory import SavepointDirectory
from pyflinklike.windows.window_operator import WindowOperator

__all__ = ["JobBeginning", "begin_with", "class_of", "job_to_save", "savepoint_id", "source_of"]

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
    manifest, where = directory.manifest, directory.location.where
    operators = dict(_claim_operators(manifest, graph, where))
    sources = dict(_claim_sources(manifest, graph, where))
    if not settings.ignores_unclaimed_state:
        _refuse_unclaimed(manifest, graph, operators, sources, where)
    positions = {number: saved.position for number, saved in sources.items()}
    return JobBeginning(
        directory, operators, {at: each for at, each in positions.items() if each is not None}
    )


def _claim_operators(
    manifest: Manifest, graph: JobGraph, where: str
) -> Iterator[tuple[int, SavedOperator]]:
    known = {each.uid: each for each in manifest.operators}
    for number, name in graph.state_names.items():
        saved, node = known.get(name), graph.nodes[number]
        if saved is None:
            continue
        # A savepoint of a single query does not describe a job, so its uids decide alone.
        former = None if manifest.job is None else manifest.job.operator(name)
        if former is not None and node.uid is None:
            _refuse_stranger(node, former, where)
        _check_keys(graph, node, saved, where)
        yield number, saved


def _refuse_stranger(node: Node, former: SavedJobOperator, where: str) -> None:
    """Refuse to give an operator without a uid the state of another one that had its position."""
    now = class_of(getattr(node, "function", None))
    if former.uid is None and former.function == now:
        return
    was = f"uid {former.uid!r}" if former.uid else former.function
    msg = (
        f"{where}: an operator without a uid begins with the state of the operator that had its position and "
        f"the class of its function, got {former.name!r} ({now}), but the savepoint has {was}; give the operator "
        f"uid({former.name!r}) if it is the same one, and else another uid"
    )
    raise IncompatibleStateError(msg)


def _check_keys(graph: JobGraph, node: Node, saved: SavedOperator, where: str) -> None:
    keys = graph.nodes[node.inputs[0]]
    now = keys.key_type.signature if isinstance(keys, KeyBy) else "none"
    former = saved.record.identity.key
    if now != former and _has_keys(saved):
        msg = (
            f"{where}: the keys of an operator are of the type that they had, got {now!r} for operator "
            f"{saved.uid!r}, whose keys are {former!r}; give key_by the former key_type, or rekey() the "
            "savepoint"
        )
        raise IncompatibleStateError(msg)


def _has_keys(saved: SavedOperator) -> bool:
    # Broadcast states have no keys, so another type of keys does not matter for them.
    kinds = saved.record.states
    keyed = (
        rows.rows for name, rows in saved.states.items() if kinds[name].get("kind") != "broadcast"
    )
    return bool(saved.timers.rows or any(keyed))


def _claim_sources(
    manifest: Manifest, graph: JobGraph, where: str
) -> Iterator[tuple[int, SavedSource]]:
    left = list(manifest.job.sources) if manifest.job is not None else []
    nodes = list(graph.of_kind(FromSource))
    # Sources with uids first: a source without one may read the same, and must not take their parts.
    for node in sorted(nodes, key=lambda each: each.uid is None):
        now = source_of(node)
        saved = next((each for each in left if each.is_same(now)), None)
        if saved is None:
            continue
        left.remove(saved)
        if (saved.kind, saved.is_bounded) != (now.kind, now.is_bounded):
            msg = (
                f"{where}: a source goes on from the position of a source of its kind, got a {_kind(now)} for the "
                f"position of a {_kind(saved)}, uid {now.uid!r}; give it another uid and a start of its own"
            )
            raise IncompatibleStateError(msg)
        if saved.kind == HybridSource.__name__ and saved.what != now.what:
            msg = (
                f"{where}: the position of a HybridSource names its sources by their numbers, got {now} for the "
                f"position of {saved}; give it the former sources, or another uid"
            )
            raise IncompatibleStateError(msg)
        if saved.position is None:
            msg = (
                f"{where}: a source goes on from its position, got one whose position is not in the savepoint, "
                f"{now}: {saved.reason}; give it another uid and the start that you need, and set "
                f"{_IGNORE_UNCLAIMED} to true"
            )
            raise IncompatibleStateError(msg)
        yield node.id, saved


def _kind(source: SavedSource) -> str:
    return source.kind if source.is_bounded else f"{source.kind} without an end"


def _refuse_unclaimed(
    manifest: Manifest,
    graph: JobGraph,
    operators: Mapping[int, SavedOperator],
    sources: Mapping[int, SavedSource],
    where: str,
) -> None:
    claimed = {each.uid for each in operators.values()}
    lost = [
        f"operator {each.uid!r}"
        for each in manifest.operators
        if each.uid not in claimed and _has_anything(each)
    ]
    # One by one, since two sources without uids may be equal.
    taken = list(sources.values())
    for source in manifest.job.sources if manifest.job is not None else ():
        if source in taken:
            taken.remove(source)
        else:
            lost.append(str(source))
    if lost:
        names = [
            *map(repr, graph.state_names.values()),
            *map(str, map(source_of, graph.of_kind(FromSource))),
        ]
        msg = (
            f"{where}: a job begins with all state of a savepoint, got {', '.join(lost)}, which the job "
            f"does not have: it has {', '.join(names) or 'none'}; give its operators and sources the uids of "
            f"the savepoint, or set {_IGNORE_UNCLAIMED} to true to lose this"
        )
        raise IncompatibleStateError(msg)


def _has_anything(saved: SavedOperator) -> bool:
    return bool(saved.timers.rows or any(each.rows for each in saved.states.values()))


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
