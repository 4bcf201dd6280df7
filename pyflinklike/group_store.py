# SPDX-License-Identifier: Apache-2.0
"""What a host keeps of a key group, and must change in one transaction: a head and segments.

`pyflinklike.group_log` says what they mean.
"""

from __future__ import annotations

import json
from typing import Protocol

import attrs

from pyflinklike.errors import CorruptStateError

__all__ = ["GroupStore", "Head"]


@attrs.frozen
class Head:
    """The durable pointer to the state of a key group.

    Args:
        nonce: Of the last commit.
        next_sequence: Under which the next segment will be stored.
        first_sequence: Of the oldest segment that counts: the last snapshot.
        log_bytes: Bytes of all segments that count.
        log_entries: Entries of all segments that count.
        snapshot_bytes: Bytes of the last snapshot; 0 where there was none yet.
        snapshot_entries: Entries of the last snapshot.
        max_parallelism: The number of key groups the keys are hashed into.
        compacted_at: Processing time of the oldest segment that counts, in ms.
        wake_at: When the host must call even without data, in ms, or None.
        sweep_at: When expired entries are looked for next, in ms, or None.
        identity: `OperatorIdentity.text` of the operator, where the host notes it.
        served_at: Time of the last micro-batch with records for the group, in ms, where the
            host tells it.
    """

    nonce: bytes
    next_sequence: int
    first_sequence: int
    log_bytes: int
    log_entries: int
    snapshot_bytes: int
    snapshot_entries: int
    max_parallelism: int
    compacted_at: int = 0
    wake_at: int | None = None
    sweep_at: int | None = None
    identity: str = ""
    served_at: int | None = None

    def to_bytes(self) -> bytes:
        """The head as JSON, for hosts that keep bytes."""
        fields = attrs.asdict(self) | {"nonce": self.nonce.hex()}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, blob: bytes) -> Head:
        """The head that `to_bytes` wrote.

        Raises:
            CorruptStateError: It is none.
        """
        try:
            fields = json.loads(blob)
            return cls(**fields | {"nonce": bytes.fromhex(fields["nonce"])})
        except (ValueError, TypeError, KeyError) as error:
            msg = f"the head of a key group must be a JSON object of its fields, got {blob[:200]!r}"
            raise CorruptStateError(f"{msg}; go back to a checkpoint") from error


class GroupStore(Protocol):
    """Where a host keeps the durable form of the key group it is working on."""

    def read_head(self) -> Head | None:
        """The head, or None where there was none yet."""

    def write_head(self, head: Head) -> None:
        """Replace the head."""

    def read_segment(self, sequence: int) -> bytes | None:
        """One segment, or None where it is missing."""

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Add a segment."""

    def clear_segments(self) -> None:
        """Remove every segment."""
