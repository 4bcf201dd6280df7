# SPDX-License-Identifier: Apache-2.0
"""Savepoints: the state of all key groups of a stream as one snapshot segment.

`KeyedProcessHarness.snapshot` gives the same: one segment that needs no other.  `merge` moves the
sections of all logs as they are, which is right because the groups hold disjoint keys and the
sections of each stay in order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.log.chain import chained
from pyflinklike.log.declaration import Declaration
from pyflinklike.log.segments import MAX_BYTES, Section, Segment
from pyflinklike.log.storage import Head
from pyflinklike.types.signature import type_of

__all__ = ["merge", "read_log", "refuse_pickles", "refuse_shared", "sections_of"]


def read_log(head: Head, segments: Mapping[int, bytes], where: str) -> list[Segment]:
    """Read the segments of a key group's log that count, in order.

    Args:
        head: Head of the group.
        segments: Blobs by sequence number; there may be more than count.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: A segment is missing, damaged, or not made from the one before.
    """
    sequences = range(head.first_sequence, head.next_sequence)
    return [each for _, each in chained(segments.get, sequences, b"", head.nonce, where)]


def sections_of(log: Iterable[Segment], where: str) -> Iterator[Section]:
    """Yield the sections of successive segments, in order.

    Raises:
        CorruptStateError: A table is not declared.
    """
    declarations = {}
    for segment in log:
        declarations.update(segment.declarations)
        for table_id, payload in segment.sections:
            if table_id not in declarations:
                msg = f"{where}: a segment must declare its tables, got table id {table_id}"
                raise CorruptStateError(f"{msg}; go back to a checkpoint")
            yield Section(declarations[table_id], payload, where)


def merge(logs: Mapping[str, Sequence[Segment]], limit: int = MAX_BYTES) -> bytes:
    """Merge the logs of many key groups into one snapshot.

    Args:
        logs: The log of each group as `read_log` gives it, by the group's name for messages.
        limit: Most bytes of the savepoint before it is compressed.

    Raises:
        CorruptStateError: A segment does not declare its tables.
        IncompatibleStateError: A state was declared differently in two key groups, and neither
            grows into the other; or two have entries that belong to no key.
        HostError: The savepoint would be larger than 2 GiB.
    """
    merged = Segment(os.urandom(16), b"")
    ids: dict[Declaration, int] = {}
    first: dict[str, Declaration] = {}
    owners: dict[str, str] = {}
    for where, log in logs.items():
        for section in sections_of(log, where):
            declaration = section.declaration
            if declaration.per_group and owners.setdefault(declaration.name, where) != where:
                if declaration.is_replicated:
                    continue  # one key group's copy is as good as another's
                raise refuse_shared(declaration, where)
            first.setdefault(declaration.name, declaration).check_alike(declaration)
            table_id = ids.setdefault(declaration, len(ids))
            merged.declarations[table_id] = declaration
            merged.sections.append((table_id, section.payload))
    return merged.to_bytes(limit)


def refuse_pickles(logs: Mapping[str, Iterable[Segment]]) -> None:
    """Refuse logs in which a state is, or could be, pickled.

    Args:
        logs: The log of each group, by the group's name for messages.

    Raises:
        IncompatibleStateError: A state is pickled, or has a type that is none of `Types`.
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
                    f"{where}: a savepoint without pickles is asked for, got state "
                    f"{declaration.name!r} of {pickled[0]}; pass allow_pickle=True if whoever "
                    "wrote the checkpoint may run code where the savepoint is restored"
                )
                raise IncompatibleStateError(msg)


def refuse_shared(declaration: Declaration, where: str) -> IncompatibleStateError:
    """Build the error for entries of a key group that would have to be divided or merged."""
    return IncompatibleStateError(
        f"{where}: what a savepoint holds must belong to keys where there are several key groups, "
        f'got {declaration.name!r} of scope "partition"; use scope "key", or go on from the '
        "checkpoint itself"
    )
