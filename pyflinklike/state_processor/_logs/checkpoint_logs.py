# SPDX-License-Identifier: Apache-2.0
"""The logs of an operator as a checkpoint holds them: checked, read, and merged into a savepoint.

**Checking.**  A state store may lose data without an error: if Spark reads a damaged file up to the
damage, it looks like a shorter one.  So a reader compares what it finds with the registry.  Each
key group of the registry must be there, and no other.  The head of each must have the time at
which, by the registry, the group last had records.

**Merging.**  A savepoint in bytes is the state of all key groups as one self-contained segment; the
snapshot of a harness has the same form.  `merge` copies the sections of all logs undecoded.  That
is right because key groups have no keys in common, and the sections of one group stay in order.
Only a store's notes (`Declaration.is_mark`) are in every group: one of these is copied.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence

from pyflinklike._changelog.entry_codec import decode_entries
from pyflinklike._changelog.log_storage import Head
from pyflinklike._changelog.operator_record import (
    RECORD_AT,
    REGISTRY_AT,
    KeyGroupRegistry,
    OperatorIdentity,
    OperatorRecord,
    is_of_state,
)
from pyflinklike._changelog.segment_chain import read_chain, refusal_of_shared, sections_of
from pyflinklike._changelog.segments import MAX_BYTES, Declaration, Section, Segment
from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.state.table import LAYOUT, Shape, TableSpec
from pyflinklike.types import Types
from pyflinklike.types.catalog import type_of

__all__ = [
    "check_groups",
    "check_head",
    "check_log",
    "check_logs",
    "merge",
    "read_log",
    "record_and_registry",
    "refuse_pickles",
]


def record_and_registry(
    blobs: Mapping[int, bytes], where: str
) -> tuple[OperatorRecord, KeyGroupRegistry]:
    """Read the record and the registry of an operator.

    Args:
        blobs: Blobs stored beside the key groups, by sequence number.
        where: Name of the operator, for messages.

    Raises:
        CorruptStateError: One of them is missing or damaged.
    """
    if RECORD_AT not in blobs or REGISTRY_AT not in blobs:
        msg = f"{where}: state must hold the record of its operator and the registry of its key groups"
        raise CorruptStateError(f"{msg}, got numbers {sorted(blobs)}; go back to a checkpoint")
    record = OperatorRecord.from_bytes(blobs[RECORD_AT], where)
    return record, KeyGroupRegistry.from_bytes(blobs[REGISTRY_AT], where)


def check_logs(
    record: OperatorRecord,
    registry: KeyGroupRegistry,
    groups: Mapping[int, tuple[Head, Mapping[int, bytes]]],
    where: str,
) -> dict[str, list[Segment]]:
    """Read the segments of all key groups that count, by the name of each group for messages.

    Args:
        record: Record of the operator.
        registry: The key groups of the operator.
        groups: Head and segments of each key group, by index.
        where: Name of the operator, for messages.

    Raises:
        CorruptStateError: Something is missing, surplus, or belongs to another operator.
    """
    check_groups(registry, groups, where)
    logs = {}
    for index, (head, segments) in groups.items():
        name = f"{where}, key group {index}"
        logs[name] = check_log(record.identity, registry.served_at[index], head, segments, name)
    return logs


def check_groups(registry: KeyGroupRegistry, groups: Collection[int], where: str) -> None:
    """Refuse key groups that are not exactly the ones in the registry.

    Args:
        registry: The key groups of the operator.
        groups: Indexes of the key groups that were found.
        where: Name of the operator, for messages.

    Raises:
        CorruptStateError: A key group is missing or surplus.
    """
    unlike = sorted(registry.served_at.keys() ^ set(groups))
    if unlike:
        msg = (
            f"{where}: its registry names {len(registry.served_at)} key groups, got {len(groups)}, "
            f"which differ in {_some(unlike)}"
        )
        raise CorruptStateError(f"{msg}; go back to a checkpoint")


def check_log(
    identity: OperatorIdentity,
    served_at: int,
    head: Head,
    segments: Mapping[int, bytes],
    where: str,
) -> list[Segment]:
    """Read the segments of one key group that count.

    Args:
        identity: Identity in the operator's record.
        served_at: Time in the registry at which the key group last had records, in ms.
        head: Head of the key group, which is checked, too.
        segments: Blobs by sequence number; there may be more than count.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: Something is missing, or belongs to another operator.
    """
    check_head(head, identity, served_at, where)
    return read_log(head, segments, where)


def check_head(head: Head, identity: OperatorIdentity, served_at: int, where: str) -> None:
    """Refuse the head of a key group that does not agree with the record and the registry.

    Args:
        head: Head of the key group, as it was read.
        identity: Identity in the operator's record.
        served_at: Time in the registry at which the key group last had records, in ms.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: The head does not agree with one of them.
    """
    if head.identity != identity.text or head.max_parallelism != identity.max_parallelism:
        msg = (
            f"{where}: a key group must be of the operator {identity.text} with "
            f"{identity.max_parallelism} key groups, got {head.identity} with {head.max_parallelism}"
        )
        raise CorruptStateError(f"{msg}; go back to a checkpoint")
    if head.served_at != served_at:
        msg = (
            f"{where}: by the registry it last had records in the micro-batch of {served_at} ms, "
            f"got the state after {head.served_at} ms"
        )
        raise CorruptStateError(f"{msg}; go back to a checkpoint")


def _some(numbers: list[int]) -> str:
    more = len(numbers) - 10
    return ", ".join(map(str, numbers[:10])) + (f" and {more} more" if more > 0 else "")


def read_log(head: Head, segments: Mapping[int, bytes], where: str) -> list[Segment]:
    """Read the segments of a key group's log that count, in order.

    Args:
        head: Head of the group, which says which segments count.
        segments: Blobs by sequence number; there may be more than count.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: A segment is missing, damaged, or not made from the one before.
    """
    sequences = range(head.first_sequence, head.next_sequence)
    return [each for _, each in read_chain(segments.get, sequences, b"", head.nonce, where)]


# Savepoints


def merge(
    logs: Mapping[str, Sequence[Segment]],
    limit: int = MAX_BYTES,
    *,
    dropped: Collection[str] = (),
) -> bytes:
    """Merge the logs of many key groups into one snapshot.

    Args:
        logs: The log of each group as `read_log` gives it, by the group's name for messages.
        limit: Most bytes of the savepoint before it is compressed.
        dropped: The names of states to leave out, which some groups have lost already.

    Raises:
        CorruptStateError: A segment does not declare its tables.
        IncompatibleStateError: Two key groups declare a state with types that cannot evolve into
            each other, or both have entries that belong to no key.
        SparkSetupError: The savepoint would be larger than 2 GiB.
    """
    merged = Segment(os.urandom(16), b"")
    ids: dict[Declaration, int] = {}
    first: dict[str, Declaration] = {}
    owners: dict[str, str] = {}
    marks: dict[Declaration, dict[str, Section]] = {}

    def add(declaration: Declaration, section: Section) -> None:
        table_id = ids.setdefault(declaration, len(ids))
        merged.declarations[table_id] = declaration
        merged.sections.append((table_id, section.payload))

    for where, log in logs.items():
        for section in sections_of(log, where):
            declaration = section.declaration
            if is_of_state(declaration.name, dropped):
                continue
            if declaration.is_mark:
                marks.setdefault(declaration, {})[where] = section  # the last one counts
                continue
            if declaration.per_group and owners.setdefault(declaration.name, where) != where:
                if declaration.is_replicated:
                    continue  # one key group's copy is as good as another's
                raise refusal_of_shared(declaration, where)
            first.setdefault(declaration.name, declaration).check_alike(declaration)
            add(declaration, section)
    for declaration, sections in marks.items():
        add(declaration, _mark_of_all(declaration, sections))
    return merged.to_bytes(limit)


def _mark_of_all(declaration: Declaration, sections: Mapping[str, Section]) -> Section:
    """Return the section with the number that all key groups can go on from.

    Args:
        declaration: Declaration of the table.
        sections: The last section of each key group, by the group's name.

    Raises:
        IncompatibleStateError: The entries of two key groups are laid out differently.
    """
    spec = TableSpec(declaration.name, Shape.SINGLE, declaration.kind, Types.LONG(), per_group=True)
    numbers: dict[str, int] = {}
    for where, section in sections.items():
        entries = decode_entries(section, spec, Types.LONG(), 0, where).entries
        numbers[where] = entries[-1]
    if declaration.kind == LAYOUT and len(set(numbers.values())) > 1:
        (one, first), (other, second) = _unlike(numbers)
        msg = (
            f"{other}: the entries of store {declaration.name.rpartition('/')[0]!r} must lie in "
            f"segments of one length, got {second} ms and in {one} {first} ms, because its retention "
            "or segments were changed and not every key group had records since; take the savepoint "
            "as a directory"
        )
        raise IncompatibleStateError(msg)
    # Layouts are equal here; of stream times the latest is right, since time never goes back.
    return sections[max(numbers, key=numbers.__getitem__)]


def _unlike(numbers: Mapping[str, int]) -> tuple[tuple[str, int], tuple[str, int]]:
    first, *others = numbers.items()
    return first, next(each for each in others if each[1] != first[1])


def refuse_pickles(logs: Mapping[str, Iterable[Segment]]) -> None:
    """Refuse logs in which a state is, or could be, pickled.

    Args:
        logs: The log of each group, by the group's name for messages.

    Raises:
        IncompatibleStateError: A state is pickled, or has a type that is not one of `Types`.
    """
    for where, log in logs.items():
        for section in sections_of(log, where):
            declaration = section.declaration
            types = (
                *(declaration.key, declaration.namespace),
                *(declaration.user_key, declaration.value),
            )
            pickled = [each for each in types if each and type_of(each).is_pickled]
            if pickled:
                msg = (
                    f"{where}: the savepoint must be without pickles, got state "
                    f"{declaration.name!r} of {pickled[0]}; pass allow_pickle=True if you trust the "
                    "checkpoint's writer, whose pickles run code when the savepoint is restored"
                )
                raise IncompatibleStateError(msg)
