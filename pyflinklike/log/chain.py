# SPDX-License-Identifier: Apache-2.0
"""The chain of segments: each names the state it was made from, and is read only after it.

Whoever reads a key group's log (a worker, cold or catching up, or a savepoint) reads
it here, where a segment that is missing, doubled, or another group's is found out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator

from pyflinklike.errors import CorruptStateError
from pyflinklike.log.declaration import Declaration
from pyflinklike.log.segments import Section, Segment, read_segment
from pyflinklike.log.working_state import WorkingState

__all__ = ["chained", "divided", "joined", "place_of", "read_one", "snapshots"]


def divided(
    sections: Iterable[Section], state: WorkingState, parent: bytes, limit: int
) -> Iterator[Segment]:
    """Segments that hold these sections in order, each made from the one before.

    Args:
        sections: What to write.
        state: Knows which tables the log has declared.
        parent: Nonce of the state that the first is made from; empty for a snapshot.
        limit: How many bytes of sections a segment may have; a single section may have more.
    """
    for some in _portions(sections, limit):
        segment = Segment(os.urandom(16), parent)
        for section in some:
            table_id = _declare(state, segment, section.declaration)
            segment.sections.append((table_id, section.payload))
        yield segment
        parent = segment.nonce


def snapshots(sections: Iterable[Section], limit: int) -> Iterator[Segment]:
    """Segments that hold these sections, each of which needs no other; none where there are none.

    Args:
        sections: Of a snapshot: no entry is in two of them.
        limit: How many bytes of sections a segment may have; a single section may have more.
    """
    for some in _portions(sections, limit):
        if some:
            yield from divided(some, WorkingState(0), b"", sys.maxsize)


def _portions(sections: Iterable[Section], limit: int) -> Iterator[list[Section]]:
    """The sections in portions of about so many bytes; one at least."""
    portion: list[Section] = []
    size = 0
    for section in sections:
        if portion and size + len(section.payload) > limit:
            yield portion
            portion, size = [], 0
        portion.append(section)
        size += len(section.payload)
    yield portion


def _declare(state: WorkingState, segment: Segment, declaration: Declaration) -> int:
    """The id of a table; one that was written under another declaration gets a new one."""
    table_id = state.declared.get(declaration.name)
    if table_id is None or state.declarations[table_id] != declaration:
        table_id = len(state.declarations)  # which is free, but in a log that was not written here
        while table_id in state.declarations:
            table_id += 1
        state.declared[declaration.name] = table_id
        state.declarations[table_id] = segment.declarations[table_id] = declaration
    return table_id


def joined(segments: Iterable[Segment]) -> Segment:
    """One segment that holds what a chain of them does, however large it gets."""
    first, *others = segments
    for each in others:
        first.declarations |= each.declarations
        first.sections += each.sections
    return first


def read_one(read: Callable[[int], bytes | None], sequence: int, where: str) -> Segment:
    """One segment of a log.

    Args:
        read: Gives what is stored under a sequence number, or None.
        sequence: Which one.
        where: Which group, for messages.

    Raises:
        CorruptStateError: It is missing or damaged.
    """
    place = place_of(where, sequence)
    blob = read(sequence)
    if blob is None:
        msg = f"{place}: the log must be whole, got no segment; go back to a checkpoint"
        raise CorruptStateError(msg)
    return read_segment(blob, place)


def place_of(where: str, sequence: int) -> str:
    """What messages call a segment."""
    return f"{where}, segment {sequence}"


def chained(
    read: Callable[[int], bytes | None],
    sequences: range,
    parent: bytes,
    nonce: bytes,
    where: str,
) -> Iterator[tuple[str, Segment]]:
    """The segments of a stretch of a log in order, each with what messages call it.

    Args:
        read: Gives what is stored under a sequence number, or None.
        sequences: Which ones.
        parent: Nonce of the state that the first is made from; empty where it needs none.
        nonce: Of the head, which the last must have.
        where: Which group, for messages.

    Raises:
        CorruptStateError: One is missing, damaged, or not made from the one before.
    """
    for sequence in sequences:
        segment = read_one(read, sequence, where)
        place = place_of(where, sequence)
        if segment.parent != parent:
            msg = f"{place}: a segment must follow the one before it, got another's successor"
            raise CorruptStateError(f"{msg}; go back to a checkpoint")
        parent = segment.nonce
        yield place, segment
    if parent != nonce:
        msg = f"{where}: the last segment must be the head's, got another; go back to a checkpoint"
        raise CorruptStateError(msg)
