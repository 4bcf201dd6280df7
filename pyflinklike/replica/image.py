# SPDX-License-Identifier: Apache-2.0
"""The image of an operator after one micro-batch: the logs of its key groups, as they are stored.

An image never changes.  The next one is made of it and of later writes, and shares with it every key
group that did not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import attrs

from pyflinklike.errors import CorruptStateError, StateAccessError
from pyflinklike.log.checkpoint_logs import check_groups, check_head, record_and_roll
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.log.storage import HEAD_AT, Head
from pyflinklike.replay.clock import BatchClock
from pyflinklike.replica.held import ALL, Held
from pyflinklike.replica.position import Position

__all__ = ["GroupLog", "Image", "checked", "group_log", "image_of"]


@attrs.frozen
class GroupLog:
    """The log of a key group: a `LogStorage` that is only read.

    Args:
        head: The head of the group.
        blobs: The stored head and segments, by sequence number.
    """

    head: Head
    blobs: Mapping[int, bytes] = attrs.field(repr=False)

    def read_head(self, where: str) -> Head:  # noqa: ARG002
        """Return the head."""
        return self.head

    def read_segment(self, sequence: int) -> bytes | None:
        """Return one segment, or None if it is missing."""
        return self.blobs.get(sequence)

    def write_head(self, head: Head) -> NoReturn:  # noqa: ARG002
        """Refuse: a replica writes no log."""
        raise _unwritten()

    def write_segment(self, sequence: int, blob: bytes) -> NoReturn:  # noqa: ARG002
        """Refuse: a replica writes no log."""
        raise _unwritten()

    def clear_segments(self) -> NoReturn:
        """Refuse: a replica writes no log."""
        raise _unwritten()


def _unwritten() -> StateAccessError:
    return StateAccessError("a replica is read only, got a write to its log; write to the stream")


@attrs.frozen
class Image:
    """All that a replica holds of an operator after a micro-batch.

    Args:
        position: The micro-batch after which the image holds.
        record: The operator record, which declares its states.
        clock: The times of the operator in that batch.
        groups: The logs of its key groups, by their numbers.
        called: The operator record and roll as they are stored, by sequence number.
        where: Names the image in messages.
        operator_id: The host's number of the operator.
        held: The key groups and keys that the image has.
    """

    position: Position
    record: OperatorRecord
    clock: BatchClock
    groups: Mapping[int, GroupLog] = attrs.field(repr=False)
    called: Mapping[int, bytes] = attrs.field(repr=False)
    where: str
    operator_id: int = 0
    held: Held = ALL

    @property
    def bytes(self) -> int:
        """The size of the logs as they are stored, in bytes."""
        return sum(len(blob) for log in self.groups.values() for blob in log.blobs.values())


def image_of(
    position: Position,
    clock: BatchClock,
    groups: Mapping[int, Mapping[int, bytes]],
    called: Mapping[int, bytes],
    where: str,
    operator_id: int = 0,
    held: Held = ALL,
) -> Image:
    """Make an image of the stored blobs of a checkpoint.

    Args:
        position: The micro-batch after which the image holds.
        clock: The times of the operator in that batch.
        groups: The blobs of each key group that is held, the head included, by its number.
        called: The operator record and roll as they are stored, by sequence number.
        where: Names the image in messages.
        operator_id: The host's number of the operator.
        held: The key groups and keys that the image is to have.

    Raises:
        CorruptStateError: A blob or key group is missing, unexpected or damaged.  A segment is
            decoded, and so checked, only when its key group is first read.
    """
    logs = {
        index: group_log(blobs, f"{where}, key group {index}") for index, blobs in groups.items()
    }
    return checked(position, clock, logs, called, where, operator_id, held)


def checked(
    position: Position,
    clock: BatchClock,
    logs: Mapping[int, GroupLog],
    called: Mapping[int, bytes],
    where: str,
    operator_id: int,
    held: Held,
) -> Image:
    """Check logs against the roll, as far as it is held, and make an image of them."""
    record, roll = record_and_roll(called, where)
    served_at = {at: time for at, time in roll.served_at.items() if held.has_group(at)}
    check_groups(attrs.evolve(roll, served_at=served_at), logs, where)
    for index, log in logs.items():
        place = f"{where}, key group {index}"
        check_head(log.head, record.identity, roll.served_at[index], place)
    return Image(position, record, clock, logs, called, where, operator_id, held)


def group_log(blobs: Mapping[int, bytes], where: str) -> GroupLog:
    """Make the log of a key group of its blobs.

    Args:
        blobs: The stored blobs by sequence number, the head included.
        where: Names the key group in messages.

    Raises:
        CorruptStateError: The head is missing, or a segment.
    """
    if HEAD_AT not in blobs:
        msg = f"{where}: a key group must have a head, got none; go back to a checkpoint"
        raise CorruptStateError(msg)
    head = Head.from_bytes(blobs[HEAD_AT], where)
    missing = [at for at in range(head.first_sequence, head.next_sequence) if at not in blobs]
    if missing:
        msg = f"{where}: the log must be whole, got no segments {missing}; go back to a checkpoint"
        raise CorruptStateError(msg)
    return GroupLog(head, blobs)
