# SPDX-License-Identifier: Apache-2.0
"""Savepoints of jobs in this process: taken between two elements, and begun with by any parallelism.

Between two elements nothing is on its way, but for calls of async functions, which are waited for.  The
entries of all instances of an operator become one operator of the savepoint.  An instance that begins with
a savepoint gets the keys whose elements it will get, and a copy of broadcast state.
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
from pyflinklike.state_processor._savepoints.manifest import Manifest, SavedOperator
from pyflinklike.state_processor._savepoints.saved_job import Position
from pyflinklike.state_processor._savepoints.savepoint_directory import check_fit, write_operator
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    savepoint_location_of,
)
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
        path: The directory to write, where nothing may be.
        job: The job.
        instances: Its instances, none of which holds anything back.
        sources: How far its sources were read, by the numbers of their nodes.
        former: The savepoint with which it began: states that it does not declare are saved, too.

    Raises:
        DeclarationTypeError, DeclarationValueError: The path cannot be used.
        IncompatibleStateError: A store belongs to one of several instances.
    """
    location = savepoint_location_of(path)
    location.begin("error")
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
    if former is not None:
        record = attrs.evolve(record, states={**former.record.states, **record.states})
    log = [station.snapshot() for station in stations]
    if len(log) > 1:
        _refuse_divided(name, log)
    return write_operator(location, record, log)


def _refuse_divided(name: str, log: Iterable[Segment]) -> None:
    """Refuse a store that no key owns: each instance has one of its own."""
    for declaration in (each for segment in log for each in segment.declarations.values()):
        if declaration.per_group and not declaration.is_replicated and not declaration.is_mark:
            msg = (
                f"operator {name!r}: what a savepoint holds belongs to keys where there are several "
                f'instances, got {declaration.name!r} of scope or stream_time "partition"; use scope "key", '
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
        instances: The instances of the job.
        key_groups: The number of key groups by which the keys of an operator are divided among its
            instances, by the number of its node.
        beginning: The savepoint.

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
        # The program's own type of keys: `begin_with` has compared them.
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
        groups = self.key_groups
        return [key_group_of(key, groups) * self.instances // groups for key in keys]
