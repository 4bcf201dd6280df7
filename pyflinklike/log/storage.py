# SPDX-License-Identifier: Apache-2.0
"""What a host keeps of a key group, and must change in one transaction: a head and segments.

`pyflinklike.log.key_group_log` says what they mean.
"""

from __future__ import annotations

import json
import zlib
from typing import Protocol

import attrs

from pyflinklike.log.decoding import decoding
from pyflinklike.log.segments import FORMAT_VERSION, check_version

__all__ = ["HEAD_AT", "NO_TIMES", "Head", "HeadTimes", "LogStorage"]

HEAD_AT = -1
"""Where the head is among the sequence numbers of a map that has both."""

_FORMAT_1 = b'{"nonce":'
_NONCE_SIZE = 16


def _seal(text: bytes) -> bytes:
    """The end of a head: the checksum of what is before it, as a field of its own."""
    return b',"checksum":"%08x"}' % zlib.crc32(text)


_SEAL_SIZE = len(_seal(b""))


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

    @classmethod
    def blank(cls, max_parallelism: int, identity: str = "") -> Head:
        """Of a group without state: it says no more than what the checkpoint was made with."""
        return cls(b"", 0, 0, 0, 0, 0, 0, max_parallelism, identity=identity)

    def to_bytes(self) -> bytes:
        """The head as it is stored: JSON whose last field is the checksum of what is before it."""
        fields = {"format": FORMAT_VERSION} | attrs.asdict(self) | {"nonce": self.nonce.hex()}
        text = json.dumps(fields, separators=(",", ":")).encode()[:-1]
        return text + _seal(text)

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
            if blob.startswith(_FORMAT_1):
                check_version(1, where)
            text, seal = blob[:-_SEAL_SIZE], blob[-_SEAL_SIZE:]
            if seal != _seal(text):
                msg = f"an end of {seal!r} instead of {_seal(text)!r}"
                raise ValueError(msg)
            fields = json.loads(blob)
            check_version(fields.pop("format"), where)
            del fields["checksum"]
            head = cls(**fields | {"nonce": bytes.fromhex(fields["nonce"])})
            head.check()
            return head

    def check(self) -> None:
        """See that the fields can be those of a head.

        Raises:
            ValueError: They cannot.
        """
        times = (self.wake_at, self.sweep_at, self.served_at)
        counts = (
            self.next_sequence,
            self.first_sequence,
            self.log_bytes,
            self.log_entries,
            self.snapshot_bytes,
            self.snapshot_entries,
            self.max_parallelism,
        )
        if (
            any(type(time) is not int for time in times if time is not None)
            or any(type(each) is not int for each in (*counts, self.compacted_at))
            or min(counts) < 0
            or type(self.identity) is not str
            or len(self.nonce) not in (0, _NONCE_SIZE)
            or (self.first_sequence < self.next_sequence) != bool(self.nonce)
        ):
            raise ValueError(self)


@attrs.frozen
class HeadTimes:
    """The times that a host wants noted in a head, in ms.

    Args:
        wake_at: When the host must call even without data, or None.
        sweep_at: When expired entries are looked for next, or None.
        served_at: Of the micro-batch, if it has records for the key group; None to leave what
            was noted before.
    """

    wake_at: int | None = None
    sweep_at: int | None = None
    served_at: int | None = None


NO_TIMES = HeadTimes()
"""Of a host that calls no key group without records."""


class LogStorage(Protocol):
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
