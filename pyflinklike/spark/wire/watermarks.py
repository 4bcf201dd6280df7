# SPDX-License-Identifier: Apache-2.0
"""Spark's watermark as ours: before the first event, and when the input has ended.

Spark's watermark cannot go to `MAX_WATERMARK`: it is a time that a record had, less a delay, and
timestamps end earlier.  So the end of an input is a record at a time that no other has, and a
watermark near it is the end, whatever the delay.
"""

from __future__ import annotations

from typing import Final

from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import HostError

__all__ = ["ENDED", "END_OF_INPUT", "check_watermark", "watermark_of"]

END_OF_INPUT: Final = 9_000_000_000_000_000
"""The event time of the record that ends an input, in ms: in the year 287,168."""
ENDED: Final = 8_000_000_000_000_000
"""From this watermark on, in ms, the input has ended: so delays may be up to 31,000 years."""


def watermark_of(milliseconds: int) -> int:
    """What a watermark of Spark's means, in ms.

    Args:
        milliseconds: As Spark says; 0 before the first event, -1 where there is no event time.
    """
    if milliseconds <= 0:
        return MIN_WATERMARK
    return MAX_WATERMARK if milliseconds >= ENDED else milliseconds


def check_watermark(milliseconds: int) -> None:
    """Refuse a watermark that Spark cannot have, or would take for the end.

    Args:
        milliseconds: That elements make, or `MAX_WATERMARK` at their end.

    Raises:
        HostError: It is too late.
    """
    if ENDED <= milliseconds < MAX_WATERMARK:
        msg = (
            f"watermarks on Spark are before {ENDED:,} ms, in the year 255,000, got {milliseconds:,} "
            "of the times of some elements; give times in ms since 1970, and leave out such that mean "
            "never"
        )
        raise HostError(msg)
