# SPDX-License-Identifier: Apache-2.0
"""The image of a later micro-batch, made of an earlier one and the writes in between.

The writes that a host's store has noted are applied in their order, to copies of the key groups that
they change.  That holds for a compaction, too: its commit writes its own segments first, then
removes all, then writes the snapshot.

The nonces prove that the result is the state from which the operator went on: new segments of a log
must follow the former ones, or begin anew, and each key group must agree with the roll.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyflinklike.log.chain import chained, read_one
from pyflinklike.replay.clock import BatchClock
from pyflinklike.replica.image import GroupLog, Image, checked, group_log
from pyflinklike.replica.position import Position

__all__ = ["Write", "followed"]


class Write(NamedTuple):
    """One write to the stored logs of an operator.

    Args:
        key_group: The number of the key group; None for the record and the roll.
        sequence: The number under which the blob is stored.
        blob: The stored bytes; None for a removal.
    """

    key_group: int | None
    sequence: int
    blob: bytes | None


def followed(
    image: Image, writes: Iterable[Write], position: Position, clock: BatchClock, where: str
) -> Image:
    """Make the image after some writes.

    Args:
        image: The image before the writes.
        writes: All writes since, in order within a key group.
        position: The micro-batch of the result.
        clock: The times of that micro-batch.
        where: Names the result in messages.

    Raises:
        CorruptStateError: The writes do not follow the image, or some are missing: then the caller
            has to read everything anew.
    """
    changed: dict[int | None, dict[int, bytes]] = {}
    for write in writes:
        # A replica of a part must not come to hold other key groups.
        if write.key_group is not None and not image.held.has_group(write.key_group):
            continue
        blobs = changed.get(write.key_group)
        if blobs is None:
            blobs = changed[write.key_group] = _copy(image, write.key_group)
        if write.blob is None:
            blobs.pop(write.sequence, None)
        else:
            blobs[write.sequence] = write.blob
    called = changed.pop(None, image.called)
    logs = dict(image.groups)
    for index, blobs in changed.items():
        assert index is not None
        place = f"{where}, key group {index}"
        logs[index] = _next(image.groups.get(index), blobs, place)
    return checked(position, clock, logs, called, where, image.operator_id, image.held)


def _copy(image: Image, index: int | None) -> dict[int, bytes]:
    if index is None:
        return dict(image.called)
    return dict(image.groups[index].blobs) if index in image.groups else {}


def _next(former: GroupLog | None, blobs: Mapping[int, bytes], where: str) -> GroupLog:
    log = group_log(blobs, where)
    head = log.head
    first, parent = head.first_sequence, b""
    if former is not None and former.head.nonce:
        after = former.head.next_sequence
        if head.nonce == former.head.nonce:
            first, parent = head.next_sequence, head.nonce  # the batch noted only new times
        elif head.first_sequence < after < head.next_sequence and (
            read_one(blobs.get, after, where).parent == former.head.nonce
        ):
            first, parent = after, former.head.nonce
    for _ in chained(blobs.get, range(first, head.next_sequence), parent, head.nonce, where):
        pass
    return log
