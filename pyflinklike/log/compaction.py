# SPDX-License-Identifier: Apache-2.0
"""When a log is replaced by a snapshot: once it outweighs what is alive in it, or is too old.

A log is append-only, so entries that were overwritten or deleted stay in it.
"""

from __future__ import annotations

from typing import Protocol

from pyflinklike.log.storage import Head

__all__ = ["LogCleanup", "is_outgrown"]

_FLOOR_BYTES = 4096
"""A log may have so many bytes more, so that a small one is not compacted again and again."""
_STAGGER = 64


class LogCleanup(Protocol):
    """What a log must know of entries that expire."""

    def now(self) -> int:
        """The processing time in ms."""

    def is_compaction_due(self, compacted_at: int) -> bool:
        """Whether a log whose last snapshot is of that time, in ms, must be compacted."""

    def drop_expired(self) -> None:
        """Delete what a compaction shall not keep."""


def is_outgrown(head: Head, index: int, alive: int, segment_bytes: int) -> bool:
    """Whether a log weighs more than 2 to 2.5 times a snapshot of what is alive in it.

    Args:
        head: Of the log, with what is to be written now.
        index: Of the key group.
        alive: How many entries the group holds.
        segment_bytes: Bytes of what is to be written now, which a snapshot would not save.
    """
    if head.log_bytes <= _FLOOR_BYTES + segment_bytes:
        return False
    if head.snapshot_entries:
        each = head.snapshot_bytes / head.snapshot_entries
    else:
        each = head.log_bytes / max(head.log_entries, 1)
    # Groups fill at one pace; with one limit all would be compacted in the same batch.
    limit = 2.5 - (index % _STAGGER) / (2 * _STAGGER)
    return head.log_bytes > _FLOOR_BYTES + limit * alive * each
