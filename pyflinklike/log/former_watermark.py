# SPDX-License-Identifier: Apache-2.0
"""The watermark of the micro-batch before, as it is stored.

Without one stored it is `MIN_WATERMARK`: a query that begins anew, from a savepoint or not, has no
watermark yet, as in Flink.
"""

from __future__ import annotations

import struct
import zlib
from typing import Protocol

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.errors import CorruptStateError

__all__ = ["WATERMARK_AT", "WatermarkStorage", "exchange_watermark"]

WATERMARK_AT = -4
"""Where the watermark is among the sequence numbers of its place."""
_STORED = struct.Struct("<qI")


class WatermarkStorage(Protocol):
    """Where a host keeps it."""

    def read_segment(self, sequence: int) -> bytes | None:
        """What is stored under a number, or None."""

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Store under a number."""


def exchange_watermark(storage: WatermarkStorage, watermark: int, where: str) -> int:
    """The watermark before, in ms; the one of now is stored in its place.

    Args:
        storage: Where it is kept.
        watermark: Of this micro-batch, in ms.
        where: Whose it is, for messages.

    Raises:
        CorruptStateError: What is stored is damaged.
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
