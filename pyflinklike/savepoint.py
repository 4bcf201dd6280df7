# SPDX-License-Identifier: Apache-2.0
"""Savepoints: the state of all key groups of a stream as one snapshot segment.

A savepoint is what `KeyedProcessHarness.snapshot` gives: one segment that needs
no other.  The logs of a stream's key groups become one by `merge`, which moves
sections as they are: the groups hold disjoint keys, and the sections of each
stay in order.

`pyflinklike.regrouping` is the other way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyflinklike.changelog import Declaration, Section, Segment, read_segment
from pyflinklike.errors import CorruptStateError, HostError, IncompatibleStateError
from pyflinklike.group_store import Head

__all__ = ["merge", "read_log", "refuse_shared", "sections_of"]

_MAX_BYTES = 2**31 - 1


def read_log(head: Head, segments: Mapping[int, bytes], where: str) -> list[Segment]:
    """The segments of a key group's log that count, checked and in order.

    Args:
        head: Of the group.
        segments: By sequence number; more than counts may be there.
        where: Which group, for messages.

    Raises:
        CorruptStateError: A segment is missing, damaged, or not made from the one before.
    """
    log = []
    nonce = b""
    for sequence in range(head.first_sequence, head.next_sequence):
        place = f"{where}, segment {sequence}"
        blob = segments.get(sequence)
        if blob is None:
            msg = f"{place}: the log must be whole, got no segment; go back to a checkpoint"
            raise CorruptStateError(msg)
        segment = read_segment(blob, place)
        if segment.parent != nonce:
            msg = f"{place}: a segment must follow the one before it, got another's successor"
            raise CorruptStateError(f"{msg}; go back to a checkpoint")
        nonce = segment.nonce
        log.append(segment)
    if nonce != head.nonce:
        msg = f"{where}: the last segment must be the head's, got another; go back to a checkpoint"
        raise CorruptStateError(msg)
    return log


def sections_of(log: Iterable[Segment], where: str) -> Iterator[Section]:
    """The sections of successive segments, in order.

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
            yield Section(declarations[table_id], payload)


def merge(logs: Mapping[str, Sequence[Segment]]) -> bytes:
    """One snapshot of the logs of many key groups.

    Args:
        logs: Of each group, as `read_log` gives it, by what messages call the group.

    Raises:
        CorruptStateError: A segment does not declare its tables.
        IncompatibleStateError: A state was declared differently in two key groups, or two
            have entries that belong to no key.
        HostError: The savepoint would be larger than 2 GiB.
    """
    merged = Segment(os.urandom(16), b"")
    ids: dict[str, int] = {}
    size = 0
    owners: dict[str, str] = {}
    for where, log in logs.items():
        for section in sections_of(log, where):
            declaration = section.declaration
            if declaration.per_group and owners.setdefault(declaration.name, where) != where:
                raise refuse_shared(declaration, where)
            table_id = ids.setdefault(declaration.name, len(ids))
            merged.declarations.setdefault(table_id, declaration).check(declaration)
            merged.sections.append((table_id, section.payload))
            size += len(section.payload)
    if size > _MAX_BYTES:
        msg = (
            f"a savepoint is one value in memory and must be smaller than 2 GiB, got {size} bytes; "
            "go on from the checkpoint itself"
        )
        raise HostError(msg)
    return merged.to_bytes()


def refuse_shared(declaration: Declaration, where: str) -> IncompatibleStateError:
    """The error for entries of a key group that would have to be split or merged."""
    return IncompatibleStateError(
        f"{where}: what a savepoint holds must belong to keys where there are several key groups, "
        f'got {declaration.name!r} of scope "partition"; use scope "key", or go on from the '
        "checkpoint itself"
    )
