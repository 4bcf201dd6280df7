# SPDX-License-Identifier: Apache-2.0
"""The mark beside a view's file: how many batches were acknowledged.

After a writer is killed, its last batches are only in SQLite's log.  If the log is damaged, SQLite
reads it up to the damage and drops the rest without an error, although the streams were told that
these batches are applied.  The mark shows that they are missing.

The mark is written after the commit and is not synced.  So it may lag behind the view, but is never
ahead of it: after a loss of power, too, it reports only batches that were committed.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from zlib import crc32

__all__ = ["Mark", "MarkError"]

_FORMAT = struct.Struct("<8sqqL")  # magic, the identity of the view's file, seq, checksum
_MAGIC = b"pflvmrk1"


class MarkError(Exception):
    """The mark is damaged."""


class Mark:
    """The mark of one view's file.

    Args:
        file: The view's file; the mark lies beside it.
    """

    def __init__(self, file: Path) -> None:
        self.file = file.with_name(f"{file.name}-mark")
        """The mark's own file."""
        self._descriptor: int | None = None

    def read(self, identity: int | None) -> int:
        """Return the last batch that was acknowledged.

        Args:
            identity: The identity of the view's file; None for any.

        Returns:
            The seq of the batch; 0 if there is no mark, or it belongs to another file.

        Raises:
            MarkError: The mark is damaged.
        """
        try:
            data = self.file.read_bytes()
        except FileNotFoundError:
            return 0
        if not any(data):
            return 0  # the power was lost after the file was created
        if len(data) != _FORMAT.size or _summed(data[:-4]) != data:
            raise MarkError
        _, marked, seq, _ = _FORMAT.unpack(data)
        return int(seq) if identity in (marked, None) else 0

    def write(self, identity: int, seq: int) -> None:
        """Record that a batch was acknowledged.

        Raises:
            OSError: The file cannot be written.
        """
        if self._descriptor is None:
            self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600)
        data = _summed(struct.pack("<8sqq", _MAGIC, identity, seq))
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, data)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _summed(data: bytes) -> bytes:
    return data + struct.pack("<L", crc32(data))
