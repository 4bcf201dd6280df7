# SPDX-License-Identifier: Apache-2.0
"""When a snapshot replaces a log: once the log outweighs what is alive in it, or is too old.

A log is append-only, so entries that were overwritten or deleted stay in it.
"""

from __future__ import annotations

from typing import Protocol

from pyflinklike.log.storage import Head

__all__ = ["LogCleanup", "is_outgrown"]

_FLOOR_BYTES = 4096
"""Bytes that a log may have in excess, so that a small one is not compacted again and again."""
_STAGGER = 64


class LogCleanup(Protocol):
    """The knowledge of expired entries that a log asks for."""

    def now(self) -> int:
        """Return the processing time in ms."""

    def is_compaction_due(self, compacted_at: int) -> bool:
        """Return whether a log whose last snapshot was written at that time, in ms, is too old."""

    def drop_expired(self) -> None:
        """Delete the expired entries that a compaction must not keep."""


def is_outgrown(head: Head, index: int, alive: int, segment_bytes: int) -> bool:
    """Return whether a log weighs more than 2 to 2.5 times a snapshot of what is alive in it.

    Args:
        head: Head of the log as it would be after this commit.
        index: Index of the key group.
        alive: Number of entries in the group.
        segment_bytes: Bytes that this commit writes, which a snapshot would not save.
    """
    if head.log_bytes <= _FLOOR_BYTES + segment_bytes:
        return False
    # A snapshot's entries come first: those of many small commits take more bytes each, and a
    # log measured by them grew to three times a snapshot.
    if head.snapshot_entries:
        each = head.snapshot_bytes / head.snapshot_entries
    else:
        each = head.log_bytes / max(head.log_entries, 1)
    # Groups fill at one pace; with one limit all would be compacted in the same micro-batch.
    limit = 2.5 - (index % _STAGGER) / (2 * _STAGGER)
    return head.log_bytes > _FLOOR_BYTES + limit * alive * each
