# SPDX-License-Identifier: Apache-2.0
"""The watermark of the micro-batch before, in storage.

Where none is stored it is `MIN_WATERMARK`: a query that begins anew, from a savepoint or not, has
no watermark yet, as in Flink.
"""

from __future__ import annotations

import struct
import zlib
from typing import Protocol

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.errors import CorruptStateError

__all__ = ["WATERMARK_AT", "WatermarkStorage", "exchange_watermark"]

WATERMARK_AT = -4
"""Number of the watermark in the map that stores it."""
_STORED = struct.Struct("<qI")


class WatermarkStorage(Protocol):
    """A host's storage for the watermark."""

    def read_segment(self, sequence: int) -> bytes | None:
        """Return the blob under a number, or None."""

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Store a blob under a number."""


def exchange_watermark(storage: WatermarkStorage, watermark: int, where: str) -> int:
    """Store a watermark and return the one that it replaces, in ms.

    Args:
        storage: Where the watermark is kept.
        watermark: Watermark of this micro-batch, in ms.
        where: Name of the owner, for messages.

    Raises:
        CorruptStateError: The stored watermark is damaged.
    """
    blob = storage.read_segment(WATERMARK_AT)
    former = MIN_WATERMARK if blob is None else _read(blob, where)
    if blob is None or watermark != former:
        storage.write_segment(WATERMARK_AT, _written(watermark))
    return former


def _written(watermark: int) -> bytes:
    return _STORED.pack(watermark, zlib.crc32(_STORED.pack(watermark, 0)))


def _read(blob: bytes, where: str) -> int:
    if len(blob) == _STORED.size:
        watermark: int = _STORED.unpack(blob)[0]
        if _written(watermark) == blob:
            return watermark
    msg = f"{where}: the former watermark must be the 12 bytes that were written, got {blob[:99]!r}"
    raise CorruptStateError(f"{msg}; go back to a checkpoint")
