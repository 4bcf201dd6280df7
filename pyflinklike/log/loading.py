# SPDX-License-Identifier: Apache-2.0
"""Working state out of a log: from all its segments, or from those it has not seen yet."""

from __future__ import annotations

from pyflinklike.log.chain import chained, place_of, read_one
from pyflinklike.log.storage import Head, LogStorage
from pyflinklike.log.working_state import WorkingState

__all__ = ["catch_up", "rebuilt"]


def rebuilt(storage: LogStorage, head: Head, index: int, where: str) -> WorkingState:
    """Working state from all segments.

    Args:
        storage: Of the group.
        head: Read from it.
        index: Of the group.
        where: Which group, for messages.

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
        storage: Of the group.
        head: Read from it.
        state: What a worker still has of the group; changed only if it is an ancestor.
        where: Which group, for messages.

    Returns:
        Whether it was, and is now the state at the head.

    Raises:
        CorruptStateError: A segment is missing, damaged, or not made from the one before.
    """
    if not state.nonce or not head.first_sequence < state.next_sequence < head.next_sequence:
        return False
    first = read_one(storage.read_segment, state.next_sequence, where)
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
