# SPDX-License-Identifier: Apache-2.0
"""What a host keeps of a key group, and must change in one transaction: a head and segments.

`pyflinklike.group_log` says what they mean.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Protocol

import attrs

from pyflinklike.changelog import FORMAT_VERSION, check_version
from pyflinklike.decoding import decoding

__all__ = ["GroupStore", "Head"]

_MAGIC = b"PFH"
_PREFIX = struct.Struct("<3sBI")
_NONCE_SIZE = 16


def _checksum(text: bytes) -> int:
    """Of the prefix as well, so that a head of one version is none of another."""
    return zlib.crc32(text, zlib.crc32(_MAGIC + bytes((FORMAT_VERSION,))))


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

    def to_bytes(self) -> bytes:
        """The head as it is stored: a magic, the format version, a CRC-32 and JSON."""
        fields = attrs.asdict(self) | {"nonce": self.nonce.hex()}
        text = json.dumps(fields, separators=(",", ":")).encode()
        return _PREFIX.pack(_MAGIC, FORMAT_VERSION, _checksum(text)) + text

    @classmethod
    def from_bytes(cls, blob: bytes, where: str) -> Head:
        """The head that `to_bytes` wrote.

        Args:
            blob: As it is stored.
            where: Which operator and key group, for messages.

        Raises:
            CorruptStateError: It is none, is damaged, or of another format version.
        """
        with decoding(where, "the head of a key group must be what a commit wrote"):
            if blob[:1] == b"{":
                check_version(1, where)
            magic, version, checksum = _PREFIX.unpack_from(blob)
            text = blob[_PREFIX.size :]
            if magic != _MAGIC:
                msg = f"{blob[: _PREFIX.size]!r}"
                raise ValueError(msg)
            check_version(version, where)
            if checksum != _checksum(text):
                msg = f"a checksum of {_checksum(text):#x} instead of {checksum:#x}"
                raise ValueError(msg)
            fields = json.loads(text)
            head = cls(**fields | {"nonce": bytes.fromhex(fields["nonce"])})
            head.check()
            return head

    def check(self) -> None:
        """See that the fields can be those of a head.

        Raises:
            ValueError: They cannot.
        """
        fields = attrs.asdict(self)
        nonce = fields.pop("nonce")
        times = (fields.pop("wake_at"), fields.pop("sweep_at"))
        optional = [time for time in times if time is not None]
        numbers = list(fields.values())
        if (
            any(type(number) is not int for number in (*numbers, *optional))
            or min(numbers[:-1]) < 0  # the last is a time
            or len(nonce) not in (0, _NONCE_SIZE)
            or (self.first_sequence < self.next_sequence) != bool(nonce)
        ):
            raise ValueError(fields)


class GroupStore(Protocol):
    """Where a host keeps the durable form of the key group it is working on."""

    def read_head(self, where: str) -> Head | None:
        """The head, or None where there was none yet.

        Args:
            where: Which operator and key group, for messages.
        """

    def write_head(self, head: Head) -> None:
        """Replace the head."""

    def read_segment(self, sequence: int) -> bytes | None:
        """One segment, or None where it is missing."""

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Add a segment."""

    def clear_segments(self) -> None:
        """Remove every segment."""
