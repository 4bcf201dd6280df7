# SPDX-License-Identifier: Apache-2.0
"""A key group's durable form in Spark's own state store."""

from __future__ import annotations

import attrs
from pyspark.sql.streaming import StatefulProcessorHandle

from pyflinklike.group_store import Head

__all__ = ["SparkGroupStore"]

_HEAD_TYPE = (
    "nonce binary, next_sequence long, first_sequence long, log_bytes long, log_entries long, "
    "snapshot_bytes long, snapshot_entries long, max_parallelism int, compacted_at long, "
    "wake_at long, sweep_at long"
)


class SparkGroupStore:
    """The state variables of Spark's current grouping key, as a `GroupStore`.

    Args:
        handle: Declares them; at most once per handle.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", _HEAD_TYPE)
        self._segments = handle.getMapState("segments", "sequence long", "segment binary")

    def read_head(self) -> Head | None:
        """The head, or None where there was none yet."""
        row = self._head.get()
        return None if row is None else Head(bytes(row[0]), *row[1:])

    def write_head(self, head: Head) -> None:
        """Replace the head."""
        self._head.update(attrs.astuple(head))

    def read_segment(self, sequence: int) -> bytes | None:
        """One segment, or None where it is missing."""
        row = self._segments.getValue((sequence,))
        return None if row is None else bytes(row[0])

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Add a segment."""
        self._segments.updateValue((sequence,), (blob,))

    def clear_segments(self) -> None:
        """Remove every segment."""
        self._segments.clear()
