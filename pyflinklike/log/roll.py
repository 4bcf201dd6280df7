# SPDX-License-Identifier: Apache-2.0
"""The roll of an operator: its key groups, and when each last had records.

The storage of a stream's state cannot tell that a key group is missing: it looks like one that
never had records.  The roll is kept apart from the key groups, and says which must be there and
of which micro-batch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping

import attrs

from pyflinklike.errors import CorruptStateError

__all__ = ["Roll"]

_MAGIC = b"PFR\x01"
_HEADER = struct.Struct("<4s8sII")
_CHECKSUM = struct.Struct("<I")
_GROUP = struct.Struct("<iq")


@attrs.frozen
class Roll:
    """The key groups that had records, each with the time of its last ones.

    Args:
        record: `OperatorRecord.digest` of the program that called it last.
        served_at: When each key group last had records: the time of the micro-batch in ms.
    """

    record: bytes
    served_at: Mapping[int, int]

    def called(self, record: bytes, groups: Iterable[int], time: int) -> Roll:
        """Return the roll after a micro-batch.

        Args:
            record: Digest of the program's record.
            groups: Key groups that had records in the micro-batch.
            time: Time of the micro-batch, in ms.
        """
        return Roll(record, {**self.served_at, **dict.fromkeys(groups, time)})

    def to_bytes(self) -> bytes:
        """Return the roll as it is stored, with its checksum."""
        plain = b"".join(_GROUP.pack(*each) for each in sorted(self.served_at.items()))
        stored = zlib.compress(plain, 1)
        head = _HEADER.pack(_MAGIC, self.record, len(self.served_at), len(stored))
        return head + _CHECKSUM.pack(zlib.crc32(stored, zlib.crc32(head))) + stored

    @classmethod
    def from_bytes(cls, blob: bytes, where: str) -> Roll:
        """Read a roll that `to_bytes` wrote.

        Args:
            blob: What was stored, or anything else.
            where: Name of the operator, for messages.

        Raises:
            CorruptStateError: The blob is no roll, or is damaged.
        """
        try:
            magic, record, count, size = _HEADER.unpack_from(blob)
            (checksum,) = _CHECKSUM.unpack_from(blob, _HEADER.size)
            stored = blob[_HEADER.size + _CHECKSUM.size :]
            whole = magic == _MAGIC and len(stored) == size
            if not whole or checksum != zlib.crc32(stored, zlib.crc32(blob[: _HEADER.size])):
                raise CorruptStateError(_damaged(where, blob))
            # No more than the header says: crafted bytes may decompress to any size.
            plain = zlib.decompressobj().decompress(stored, count * _GROUP.size)
            return cls(record, dict(_GROUP.iter_unpack(plain)))
        except (struct.error, zlib.error) as error:
            raise CorruptStateError(_damaged(where, blob)) from error


def _damaged(where: str, blob: bytes) -> str:
    return (
        f"{where}: the roll of its key groups must have the checksum it was written with, got "
        f"{len(blob)} bytes that do not; go back to a checkpoint"
    )
