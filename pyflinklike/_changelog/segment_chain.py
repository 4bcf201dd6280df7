# SPDX-License-Identifier: Apache-2.0
"""The chain of segments: each names the state it was made from, and is read only after that one.

`divide` writes a chain and `read_chain` reads one.  All readers of a log use `read_chain`: a worker
that starts cold, a worker that catches up, and savepoints.  It refuses a segment that is missing,
doubled, or another group's, because each segment must name the nonce of the one before it.

A table is declared once in a chain, under a small number (`KeyGroupState.declared`); later segments
use the number.  If a program changes the declaration, it gets a new number.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.segments import Declaration, Section, Segment, read_segment
from pyflinklike.errors import CorruptStateError, IncompatibleStateError


def divide(
    sections: Iterable[Section], state: KeyGroupState, parent: bytes, limit: int
) -> Iterator[Segment]:
    """Divide sections into segments, each made from the one before; one segment at least.

    Args:
        sections: The sections to write, in order.
        state: Knows which tables the log has declared; learns those that are declared now.
        parent: Nonce of the state that the first segment is made from; empty for a snapshot.
        limit: Most bytes of sections in a segment; a single section may have more.
    """
    for some in _portions(sections, limit):
        segment = Segment(os.urandom(16), parent)
        for section in some:
            table_id = _declare(state, segment, section.declaration)
            segment.sections.append((table_id, section.payload))
        yield segment
        parent = segment.nonce


def snapshots(sections: Iterable[Section], limit: int) -> Iterator[Segment]:
    """Divide the sections of a snapshot into self-contained segments.

    Args:
        sections: Sections that have no entry in common; if there are none, neither are segments.
        limit: Most bytes of sections in a segment; a single section may have more.
    """
    for some in _portions(sections, limit):
        if some:
            # A fresh state knows of no tables, so each segment declares its own.
            yield from divide(some, KeyGroupState(0), b"", sys.maxsize)


def _portions(sections: Iterable[Section], limit: int) -> Iterator[list[Section]]:
    """Divide sections into portions of about `limit` bytes; one portion at least, even if empty."""
    portion: list[Section] = []
    size = 0
    for section in sections:
        if portion and size + len(section.payload) > limit:
            yield portion
            portion, size = [], 0
        portion.append(section)
        size += len(section.payload)
    yield portion


def _declare(state: KeyGroupState, segment: Segment, declaration: Declaration) -> int:
    """Return the id of a table; it is a new one if the table was declared otherwise before."""
    table_id = state.declared.get(declaration.name)
    if table_id is None or state.declarations[table_id] != declaration:
        # Start at the number of tables: a search for the first free id took a minute for 65,000
        # tables.  The loop only runs for a log that another writer has numbered.
        table_id = len(state.declarations)
        while table_id in state.declarations:
            table_id += 1
        state.declared[declaration.name] = table_id
        state.declarations[table_id] = segment.declarations[table_id] = declaration
    return table_id


def join(segments: Iterable[Segment]) -> Segment:
    """Join a chain of segments into one, however large it gets."""
    first, *others = segments
    for each in others:
        first.declarations |= each.declarations
        first.sections += each.sections
    return first


def read_one(read: Callable[[int], bytes | None], sequence: int, where: str) -> Segment:
    """Read one segment of a log.

    Args:
        read: Returns the blob stored under a sequence number, or None.
        sequence: Number of the segment.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: The segment is missing or damaged.
    """
    name = segment_name(where, sequence)
    blob = read(sequence)
    if blob is None:
        msg = f"{name}: the segment is missing from the log; go back to a checkpoint"
        raise CorruptStateError(msg)
    return read_segment(blob, name)


def segment_name(where: str, sequence: int) -> str:
    """Name a segment for messages."""
    return f"{where}, segment {sequence}"


def read_chain(
    read: Callable[[int], bytes | None],
    sequences: range,
    parent: bytes,
    nonce: bytes,
    where: str,
) -> Iterator[tuple[str, Segment]]:
    """Read a stretch of a log in order; yield each segment behind its name for messages.

    Args:
        read: Returns the blob stored under a sequence number, or None.
        sequences: Numbers of the stretch.
        parent: Nonce of the state that the first segment is made from; empty if it needs none.
        nonce: The head's, which the last segment must have.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: A segment is missing, damaged, or not made from the one before.
    """
    for sequence in sequences:
        segment = read_one(read, sequence, where)
        name = segment_name(where, sequence)
        if segment.parent != parent:
            msg = f"{name}: the segment does not follow the one before it in the log"
            raise CorruptStateError(f"{msg}; go back to a checkpoint")
        parent = segment.nonce
        yield name, segment
    # A log that was cut short is still a whole chain, so only the head's nonce shows the cut.
    if parent != nonce:
        msg = f"{where}: the log's last segment is not the one its head names; go back to a checkpoint"
        raise CorruptStateError(msg)


# The sections of segments


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


def refusal_of_shared(declaration: Declaration, where: str) -> IncompatibleStateError:
    """Build the error for entries of a key group that would have to be divided or merged."""
    return IncompatibleStateError(
        f"{where}: a savepoint in bytes of several key groups may hold only entries that belong to "
        f'keys, got {declaration.name!r} of scope or stream_time "partition"; use scope "key", take '
        "the savepoint as a directory, or go on from the checkpoint itself"
    )
