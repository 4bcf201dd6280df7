# SPDX-License-Identifier: Apache-2.0
"""Working state read from a log: from all its segments, or from those that it lacks."""

from __future__ import annotations

from pyflinklike.log.chain import chained, place_of, read_one
from pyflinklike.log.storage import Head, LogStorage
from pyflinklike.log.working_state import WorkingState

__all__ = ["catch_up", "rebuilt"]


def rebuilt(storage: LogStorage, head: Head, index: int, where: str) -> WorkingState:
    """Build working state from all segments.

    Args:
        storage: Where the host keeps the group's log.
        head: The group's head.
        index: Index of the key group.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: A segment is missing, damaged, or not made from the one before.
    """
    state = WorkingState(index)
    _read(storage, range(head.first_sequence, head.next_sequence), head, state, where)
    state.next_sequence = head.next_sequence
    return state


def catch_up(storage: LogStorage, head: Head, state: WorkingState, where: str) -> bool:
    """Replay the segments since the working state, if it is an ancestor of the head.

    Args:
        storage: Where the host keeps the group's log.
        head: The group's head.
        state: What a worker still has of the group; changed only if it is an ancestor.
        where: Name of the group, for messages.

    Returns:
        Whether the state was an ancestor, and is now the state at the head.

    Raises:
        CorruptStateError: A segment is missing, damaged, or not made from the one before.
    """
    # A state older than the last snapshot lacks segments that are no longer there.
    if not state.nonce or not head.first_sequence < state.next_sequence < head.next_sequence:
        return False
    first = read_one(storage.read_segment, state.next_sequence, where)
    # An attempt that failed has used the same number for a segment of its own.
    if first.parent != state.nonce:
        return False
    state.read(first, place_of(where, state.next_sequence))
    _read(storage, range(state.next_sequence + 1, head.next_sequence), head, state, where)
    state.next_sequence = head.next_sequence
    return True


def _read(
    storage: LogStorage, sequences: range, head: Head, state: WorkingState, where: str
) -> None:
    segments = chained(storage.read_segment, sequences, state.nonce, head.nonce, where)
    for place, segment in segments:
        state.read(segment, place)
