# SPDX-License-Identifier: Apache-2.0
"""Savepoints of jobs in this process, to write one and to begin with one.

A savepoint is taken between two elements.  Then no element is on its way, since each one passes through the
whole graph before the next is read; only calls of async functions are still open, and the run waits for them.
So no barriers are needed, as Flink has them.

The entries of all instances of an operator become one operator of the savepoint.  A job may begin with it at
another parallelism: each instance gets the keys whose elements it will get, and a copy of broadcast state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from pyflinklike import __version__
from pyflinklike._changelog.segments import Segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike._clock import wall_clock
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.job_savepoint import JobBeginning, job_to_save
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._graph.source_positions import ReadParts
from pyflinklike.pyflink._local.keyed_stream_operators import OperatorStation
from pyflinklike.state_processor._savepoints.manifest import Manifest, Position, SavedOperator
from pyflinklike.state_processor._savepoints.savepoint_directory import check_fit
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    savepoint_location_of,
)
from pyflinklike.state_processor._savepoints.savepoint_writer import write_operator
from pyflinklike.types.catalog import type_of
from pyflinklike.types.frozen_keys import key_group_of

__all__ = ["begin_stations", "write_savepoint"]

Instances = Mapping[int, list[OperatorStation]]
"""The instances of operators with state, by the numbers of their nodes."""


def write_savepoint(
    path: str,
    job: Job,
    instances: Instances,
    sources: Mapping[int, ReadParts],
    former: JobBeginning | None,
) -> None:
    """Write the state of a job and the positions of its sources.

    Args:
        path: The directory to write, which must not exist or be empty.
        job: The job that runs.
        instances: The instances of the job; they must have passed on all outputs.
        sources: How far its sources were read, by the numbers of their nodes.
        former: The savepoint with which it began, or None.  Its states are saved again even if the job
            does not declare them.

    Raises:
        DeclarationTypeError, DeclarationValueError: The path cannot be used.
        IncompatibleStateError: A store belongs to one of several instances.
    """
    location = savepoint_location_of(path)
    location.begin("error")  # refuses a path where something is
    begun = {} if former is None else former.operators
    written = tuple(
        _write_operator(
            location, job.graph.state_names[number], instances[number], begun.get(number)
        )
        for number in job.graph.state_names
    )
    positions = {
        node.id: _position_of(node, sources[node.id]) for node in job.graph.of_kind(FromSource)
    }
    saved = job_to_save(job.settings.name, job.graph, positions)
    # Last of all: a directory without a manifest is no savepoint.
    location.finish(Manifest(__version__, wall_clock(), written, job=saved))


def _write_operator(
    location: SavepointLocation,
    name: str,
    stations: list[OperatorStation],
    former: SavedOperator | None,
) -> SavedOperator:
    record = stations[0].describe(name)
    # A state that no function has declared in this run is still in the entries.
    if former is not None:
        record = attrs.evolve(record, states={**former.record.states, **record.states})
    log = [station.snapshot() for station in stations]
    if len(log) > 1:
        _refuse_divided(name, log)
    return write_operator(location, record, log)


def _refuse_divided(name: str, log: Iterable[Segment]) -> None:
    """Refuse a store that belongs to no key, since each instance has one of its own."""
    for declaration in (each for segment in log for each in segment.declarations.values()):
        if declaration.per_group and not declaration.is_replicated and not declaration.is_mark:
            msg = (
                f"operator {name!r}: a savepoint of several instances holds only what belongs to keys, "
                f'got {declaration.name!r} of scope or stream_time "partition"; use scope "key", '
                "or set the parallelism of the operator to 1"
            )
            raise IncompatibleStateError(msg)


def _position_of(node: FromSource, parts: ReadParts) -> tuple[Position | None, str]:
    if not node.source.is_read_alike and not parts.is_at_an_end():
        return None, "its elements may come in another order when they are read again"
    return parts.position(), ""


def begin_stations(
    instances: Instances, key_groups: Mapping[int, int], beginning: JobBeginning
) -> None:
    """Give the instances of a job their parts of a savepoint, before their functions are opened.

    Args:
        instances: The instances of the job, not opened yet.
        key_groups: The number of key groups by which the keys of an operator are divided among its
            instances, by the number of its node.
        beginning: The parts of the savepoint for this job.

    Raises:
        CorruptStateError: The savepoint is damaged.
        IncompatibleStateError: A store would have to be divided among instances.
        StateValueError: A value does not fit its type.
    """
    where = beginning.directory.location.where
    for number, saved in beginning.operators.items():
        stations = instances[number]
        check_fit(saved.record, saved.domains, len(stations), {}, where)
        snapshot = beginning.directory.segment(saved.uid)
        owner = _Owner(key_groups[number], len(stations))
        # `begin_with` has checked that this is the program's own type of keys.
        key_type = type_of(saved.record.identity.key)
        groups = regroup_snapshot(
            snapshot, key_type, owner.of, len(stations), where, by_frozen_key=True
        )
        for index, station in enumerate(stations):
            station.begin_with(groups.get(index, []), where)


@attrs.frozen
class _Owner:
    """Finds the instance that gets the elements of a key.

    Args:
        key_groups: The number of key groups.
        instances: The number of instances.
    """

    key_groups: int
    instances: int

    def of(self, keys: list[Any]) -> list[int]:
        """Return the numbers of the instances that have some frozen keys."""
        # As Flink assigns key groups: each instance has a range of them.
        groups = self.key_groups
        return [key_group_of(key, groups) * self.instances // groups for key in keys]
