# SPDX-License-Identifier: Apache-2.0
"""Snapshots divided by key: into key groups, or to write their keys in another way.

The sections are replayed, so the result holds each entry once.  No program is needed, since the
columns of a section follow from the signatures in its declaration; so states that nobody declares
any more come along.  Values and stamps are copied as columns; only keys and user keys become
Python objects.

Keys of an undeclared type (of a harness without `key_type`) are read as keys of a declared one, and
the other way round, if they fit.  Keys of two different declared types are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyflinklike.clock import TimeDomain
from pyflinklike.log.chain import snapshots
from pyflinklike.log.replay import ReplayedTable
from pyflinklike.log.savepoint import refuse_shared, sections_of
from pyflinklike.log.segments import MAX_BYTES, SEGMENT_BYTES, Section, Segment
from pyflinklike.state.agenda import timers_table
from pyflinklike.types import TypeInformation
from pyflinklike.types.keys import ANY_KEY

__all__ = ["regrouped", "timer_domains", "with_keys_of"]


def with_keys_of(snapshot: Segment, key_type: TypeInformation, where: str) -> Segment:
    """Return a snapshot whose keys are written as a program writes them, where they can be.

    Args:
        snapshot: Returned as it is if its keys are written so already, or if both key types are
            declared and differ: then restoring a state will say so.
        key_type: The program's.
        where: Name of the snapshot, for messages.

    Raises:
        IncompatibleStateError: A key does not fit the type.
    """
    declarations = snapshot.declarations.values()
    stored = {each.key for each in declarations if not each.per_group}
    wanted = key_type.signature
    if not any(ANY_KEY in (key, wanted) for key in stored - {wanted}):
        return snapshot
    groups = regrouped(snapshot, key_type, lambda keys: [0] * len(keys), 1, where, MAX_BYTES)
    return groups[0][0] if groups else Segment(snapshot.nonce, b"")


def regrouped(
    snapshot: Segment,
    key_type: TypeInformation,
    group_of: Callable[[list[Any]], Sequence[int]],
    max_parallelism: int,
    where: str,
    segment_bytes: int = SEGMENT_BYTES,
) -> dict[int, list[Segment]]:
    """Divide a snapshot by key group.

    Args:
        snapshot: Snapshot of all key groups, or of a harness.
        key_type: Type of the keys in the result.
        group_of: Returns the key groups of keys, which are in the user's form.
        max_parallelism: The number of key groups.
        where: Name of the snapshot, for messages.
        segment_bytes: Largest plain body of a segment with more than one entry, in bytes.

    Returns:
        For each key group that has state, segments each of which needs no other.

    Raises:
        CorruptStateError: The snapshot is damaged.
        IncompatibleStateError: A key does not fit the type, the type of a state is unknown, or
            entries that belong to no key cannot be told apart by key group.
    """
    tables: dict[str, ReplayedTable] = {}
    shared: list[Section] = []
    for section in sections_of([snapshot], where):
        if section.declaration.per_group:
            shared.append(section)
            continue
        table = tables.get(section.declaration.name)
        if table is None:
            table = tables[section.declaration.name] = ReplayedTable(section.declaration)
        table.read(section, where)
    for table in tables.values():
        table.convert_keys(key_type, where)
    # The keys of all tables at once, for on Spark `group_of` costs a job.
    distinct = list(
        dict.fromkeys(table.key_of(each) for table in tables.values() for each in table.rows)
    )
    groups = dict(zip(distinct, group_of([key_type.thaw_key(key) for key in distinct])))
    sections: dict[int, list[Section]] = {}
    for table in tables.values():
        for index, section in table.sections(groups, segment_bytes):
            sections.setdefault(index, []).append(section)
    for section in shared:
        if max_parallelism > 1 and not section.declaration.is_replicated:
            raise refuse_shared(section.declaration, where)
        # Every key group keeps a copy of broadcast state, also a group without keys so far.
        for index in range(max_parallelism):
            sections.setdefault(index, []).append(section)
    return {index: list(snapshots(mine, segment_bytes)) for index, mine in sections.items()}


def timer_domains(segments: Iterable[Segment]) -> set[TimeDomain]:
    """Return the domains of the timers in snapshots that `regrouped` gave."""
    names = {each.name for segment in segments for each in segment.declarations.values()}
    return {domain for domain in TimeDomain if timers_table(domain) in names}
