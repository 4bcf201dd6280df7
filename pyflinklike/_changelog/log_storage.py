# SPDX-License-Identifier: Apache-2.0
"""The blobs that a host stores: the head and segments of each key group, and watermarks.

A host keeps maps from numbers to bytes.  Segments have the numbers from 0 on, and everything else
has a negative number:

    a map for each key group   -1 the head (`HEAD_AT`); 0, 1, 2 ... the segments
    one map for the operator   -2 its record, -3 its registry of key groups (`operator_record`)
    a map for each partition   -4 the watermark of the batch before (`WATERMARK_AT`);
                               -5 and below: watermarks of reassigned timestamps

The host must change head and segments in one transaction: `key_group_log` relies on that.

`InMemoryLogStorage` is for tests of hosts and backends.  A copy serves as a host's transaction: commit
into `store.copy()`, and go on with the copy if the transaction succeeds, or with the original if it fails.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import NamedTuple, Protocol

import attrs

from pyflinklike._changelog.damage import decoding
from pyflinklike._changelog.entry_codec import entries_in
from pyflinklike._changelog.segment_chain import sections_of
from pyflinklike._changelog.segments import FORMAT_VERSION, check_version, read_segment
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.errors import CorruptStateError

HEAD_AT = -1
"""Number of the head in a map that holds head and segments."""

_NONCE_SIZE = 16


def _seal(text: bytes) -> bytes:
    """Return the end of a head: the checksum of all bytes before it, as the last JSON field."""
    return b',"checksum":"%08x"}' % zlib.crc32(text)


_SEAL_SIZE = len(_seal(b""))


class LetterCounts(NamedTuple):
    """The dead letters of some micro-batches, and the number of calls from which they came."""

    letters: int
    calls: int


NO_LETTERS = LetterCounts(0, 0)


@attrs.frozen
class Head:
    """The durable pointer to the state of a key group.

    Args:
        nonce: Drawn by the last commit; empty if the group has no log.
        next_sequence: Number for the next segment.
        first_sequence: Number of the oldest segment that counts: the last snapshot.
        log_bytes: Bytes of all segments that count.
        log_entries: Entries of all segments that count.
        snapshot_bytes: Bytes of the last snapshot; 0 if there was no snapshot yet.
        snapshot_entries: Entries of the last snapshot.
        max_parallelism: The number of key groups the keys are hashed into.
        compacted_at: Processing time of the oldest segment that counts, in ms.
        wake_at: When the host must call even without data, in ms, or None.
        sweep_at: When expired entries are looked for next, in ms, or None.
        identity: `OperatorIdentity.text` of the operator, or empty if the host does not note it.
        served_at: Time of the last micro-batch with records for the group, in ms, or None if the
            host does not note it.
        dead_letters: Number of dead letters in the last micro-batches, while they are few.
        dead_letter_calls: Number of records and timers in the same micro-batches.
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
    dead_letters: int = 0
    dead_letter_calls: int = 0

    @property
    def letters(self) -> LetterCounts:
        """The dead letters of the last micro-batches."""
        return LetterCounts(self.dead_letters, self.dead_letter_calls)

    @classmethod
    def blank(cls, max_parallelism: int, identity: str = "") -> Head:
        """Return the head of a group without state: it names only the operator."""
        return cls(b"", 0, 0, 0, 0, 0, 0, max_parallelism, identity=identity)

    def to_bytes(self) -> bytes:
        """Return the head as it is stored: JSON that ends with the checksum of all before it."""
        fields = {"format": FORMAT_VERSION} | attrs.asdict(self) | {"nonce": self.nonce.hex()}
        text = json.dumps(fields, separators=(",", ":")).encode()[:-1]
        return text + _seal(text)

    @classmethod
    def from_bytes(cls, blob: bytes, where: str) -> Head:
        """Read a head that `to_bytes` wrote.

        Args:
            blob: The bytes that were stored; untrusted.
            where: Name of the operator and key group, for messages.

        Raises:
            CorruptStateError: The blob is no head, is damaged, or is of another format version.
        """
        with decoding(where, "the head of a key group must be what a commit wrote"):
            # The checksum first: after it, wrong fields can only come from a crafted head.
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
        """Refuse fields that no commit writes.

        Raises:
            ValueError: A field is of another type or out of its range.
        """
        # Compare by `type`, because JSON's true is an int to `isinstance`.
        times = (self.wake_at, self.sweep_at, self.served_at)
        counts = (
            self.next_sequence,
            self.first_sequence,
            self.log_bytes,
            self.log_entries,
            self.snapshot_bytes,
            self.snapshot_entries,
            self.max_parallelism,
            self.dead_letters,
            self.dead_letter_calls,
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
    """The notes of a micro-batch in a head, beside the log: times in ms, and dead letters.

    Args:
        wake_at: When the host must call even without data, or None.
        sweep_at: When expired entries are looked for next, or None.
        served_at: Time of the micro-batch if it has records for the key group.  None keeps the
            time that was noted before.
        letters: The dead letters to note beside the times.
    """

    wake_at: int | None = None
    sweep_at: int | None = None
    served_at: int | None = None
    letters: LetterCounts = NO_LETTERS


NO_TIMES = HeadTimes()
"""For a host that calls no key group without records."""


class BlobStorage(Protocol):
    """A host's storage for blobs under numbers: an operator's record and registry, or watermarks."""

    def read_segment(self, sequence: int) -> bytes | None:
        """Return the blob under a number, or None if it is missing."""

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Store a blob under a number; a segment is new, and others may replace a former one."""


class LogStorage(BlobStorage, Protocol):
    """A host's storage for the durable form of the key group that is being worked on."""

    def read_head(self, where: str) -> Head | None:
        """Return the head, or None if the key group has no head yet.

        Args:
            where: Name of the operator and key group, for messages.
        """

    def write_head(self, head: Head) -> None:
        """Replace the head."""

    def clear_segments(self) -> None:
        """Remove every segment."""


# The watermark of the micro-batch before


WATERMARK_AT = -4
"""Number of the watermark in the map that stores it."""
_STORED = struct.Struct("<qI")


def exchange_watermark(storage: BlobStorage, watermark: int, where: str) -> int:
    """Store a watermark and return the one that it replaces, in ms.

    If no watermark is stored, the result is `MIN_WATERMARK`: a query that begins anew, from a
    savepoint or not, has no watermark yet, as in Flink.

    Args:
        storage: The host's storage of the watermark.
        watermark: Watermark of this micro-batch, in ms.
        where: Name of the owner, for messages.

    Raises:
        CorruptStateError: The stored watermark is damaged.
    """
    blob = storage.read_segment(WATERMARK_AT)
    former = MIN_WATERMARK if blob is None else _read(blob, where)
    if blob is None or watermark != former:
        storage.write_segment(WATERMARK_AT, _write(watermark))
    return former


def raise_watermark(
    storage: BlobStorage, watermark: int, position: int, where: str
) -> tuple[int, int]:
    """Store a watermark that never goes back; return the former and the present one, in ms.

    Args:
        storage: The host's storage of all watermarks of a partition.
        watermark: New watermark in ms.  If it is lower than the stored one, nothing changes.
        position: The position of the watermark among several, from 0.
        where: Name of the owner, for messages.

    Raises:
        CorruptStateError: The stored watermark is damaged.
    """
    at = WATERMARK_AT - 1 - position
    blob = storage.read_segment(at)
    former = MIN_WATERMARK if blob is None else _read(blob, where)
    if watermark > former:
        storage.write_segment(at, _write(watermark))
    return former, max(former, watermark)


def _write(watermark: int) -> bytes:
    return _STORED.pack(watermark, zlib.crc32(_STORED.pack(watermark, 0)))


def _read(blob: bytes, where: str) -> int:
    if len(blob) == _STORED.size:
        watermark: int = _STORED.unpack(blob)[0]
        if _write(watermark) == blob:
            return watermark
    msg = f"{where}: the former watermark must be the 12 bytes that were written, got {blob[:99]!r}"
    raise CorruptStateError(f"{msg}; go back to a checkpoint")


# In memory, for tests of hosts and backends


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
