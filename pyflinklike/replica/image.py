# SPDX-License-Identifier: Apache-2.0
"""What an operator keeps after one micro-batch: the logs of its key groups, as they are stored.

An image never changes.  The next one is made of it and of what was written since (`following`), and
shares with it all that stayed.
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
        head: Of the group.
        blobs: What is stored of it, by sequence number.
    """

    head: Head
    blobs: Mapping[int, bytes] = attrs.field(repr=False)

    def read_head(self, where: str) -> Head:  # noqa: ARG002
        """The head."""
        return self.head

    def read_segment(self, sequence: int) -> bytes | None:
        """One segment, or None where it is missing."""
        return self.blobs.get(sequence)

    def write_head(self, head: Head) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise _unwritten()

    def write_segment(self, sequence: int, blob: bytes) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise _unwritten()

    def clear_segments(self) -> NoReturn:
        """Refused."""
        raise _unwritten()


def _unwritten() -> StateAccessError:
    return StateAccessError("a replica is read only, got a write to its log; write to the stream")


@attrs.frozen
class Image:
    """All that an operator keeps after a micro-batch.

    Args:
        position: After which one.
        record: Of the operator.
        clock: The times that the operator was given in the batch.
        groups: The logs of its key groups, by index.
        called: The operator's record and roll as they are stored, by sequence number.
        where: What messages call it.
        operator_id: The host's number of the operator.
        held: Which key groups and keys are there.
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
        """The size of the logs, as they are stored."""
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
    """The image of what was read of a checkpoint.

    Args:
        position: After which micro-batch.
        clock: Of that batch.
        groups: What is stored of each key group that is held, the head included, by index.
        called: The operator's record and roll.
        where: What messages call it.
        operator_id: The host's number of the operator.
        held: Which key groups and keys are to be there.

    Raises:
        CorruptStateError: Something is missing, too much, or damaged.  Segments are looked into
            when their key group is first asked.
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
    """The image of these logs, if they are those of the roll that are held."""
    record, roll = record_and_roll(called, where)
    served_at = {at: time for at, time in roll.served_at.items() if held.has_group(at)}
    check_groups(attrs.evolve(roll, served_at=served_at), logs, where)
    for index, log in logs.items():
        place = f"{where}, key group {index}"
        check_head(log.head, record.identity, roll.served_at[index], place)
    return Image(position, record, clock, logs, called, where, operator_id, held)


def group_log(blobs: Mapping[int, bytes], where: str) -> GroupLog:
    """The log of a key group.

    Args:
        blobs: What is stored of it, the head included.
        where: Which group, for messages.

    Raises:
        CorruptStateError: It has no head, or not all of its segments.
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
