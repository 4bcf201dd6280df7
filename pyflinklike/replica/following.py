# SPDX-License-Identifier: Apache-2.0
"""From the image of one micro-batch to that of a later one, by what was written in between.

What a host's store has noted of writes is done to a copy of what is stored, in their order; of key
groups that nothing was written to nothing is copied.  A commit that compacts writes its own segments
first, then removes all, then writes the snapshot, so the same rule holds for it.

Whether the result is the state that the operator went on from is told by the nonces: what is new in
a log must follow what was there, or begin anew; and each key group must be as the roll says.
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
    """One write to what is stored of an operator.

    Args:
        key_group: Its index; None for the record and the roll.
        sequence: Under which number.
        blob: What was stored; None if it was removed.
    """

    key_group: int | None
    sequence: int
    blob: bytes | None


def followed(
    image: Image, writes: Iterable[Write], position: Position, clock: BatchClock, where: str
) -> Image:
    """The image after these writes.

    Args:
        image: Before them.
        writes: All that were made since, those of a key group in their order.
        position: After which micro-batch.
        clock: Of that batch.
        where: What messages call it.

    Raises:
        CorruptStateError: These are not the writes that followed the image, or are not whole: then
            all has to be read anew.
    """
    changed: dict[int | None, dict[int, bytes]] = {}
    for write in writes:
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
            first, parent = head.next_sequence, head.nonce  # only its times were noted anew
        elif head.first_sequence < after < head.next_sequence and (
            read_one(blobs.get, after, where).parent == former.head.nonce
        ):
            first, parent = after, former.head.nonce
    for _ in chained(blobs.get, range(first, head.next_sequence), parent, head.nonce, where):
        pass
    return log
