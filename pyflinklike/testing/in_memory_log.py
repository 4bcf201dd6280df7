# SPDX-License-Identifier: Apache-2.0
"""The log of a key group in two Python fields, for tests of hosts and backends.

A copy serves as a host's transaction: commit into `store.copy()`, and go on with the copy if the
transaction succeeds, or with the original if it fails.
"""

from __future__ import annotations

import attrs

from pyflinklike._changelog.entry_codec import entries_in
from pyflinklike._changelog.log_storage import Head
from pyflinklike._changelog.segment_chain import sections_of
from pyflinklike._changelog.segments import read_segment

__all__ = ["InMemoryLogStorage"]


@attrs.define
class InMemoryLogStorage:
    """A `LogStorage` of one key group.

    Args:
        head: The head of the group; None if the group has no state.
        segments: The bytes of each segment, by sequence number.
    """

    head: Head | None = None
    segments: dict[int, bytes] = attrs.field(factory=dict)

    @classmethod
    def of_snapshot(cls, snapshot: bytes, max_parallelism: int) -> InMemoryLogStorage:
        """Make the log of a key group that begins with a snapshot.

        Args:
            snapshot: One segment that needs no other one; `snapshot` of a harness returns such
                bytes.
            max_parallelism: The number of key groups.

        Raises:
            CorruptStateError: The snapshot is damaged.
        """
        segment = read_segment(snapshot, "snapshot")
        entries = entries_in(sections_of([segment], "snapshot"))
        head = Head(
            segment.nonce,
            next_sequence=1,
            first_sequence=0,
            log_bytes=len(snapshot),
            log_entries=entries,
            snapshot_bytes=len(snapshot),
            snapshot_entries=entries,
            max_parallelism=max_parallelism,
        )
        return cls(head, {0: snapshot})

    def read_head(self, where: str) -> Head | None:  # noqa: ARG002
        """Return the head, or None if the group has no state."""
        return self.head

    def write_head(self, head: Head) -> None:
        """Replace the head."""
        self.head = head

    def read_segment(self, sequence: int) -> bytes | None:
        """Return one segment, or None if it is missing."""
        return self.segments.get(sequence)

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Add a segment."""
        self.segments[sequence] = blob

    def clear_segments(self) -> None:
        """Remove every segment."""
        self.segments.clear()

    def copy(self) -> InMemoryLogStorage:
        """Return a store of the same contents; later changes of one do not show in the other."""
        # Heads and blobs are immutable, so a flat copy is enough.
        return InMemoryLogStorage(self.head, dict(self.segments))

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(map(len, self.segments.values()))
