# SPDX-License-Identifier: Apache-2.0
"""The conversion of Spark's watermark to Flink's: before the first event, and at the end of input.

Spark's watermark cannot become `MAX_WATERMARK`, since it is a record's time less a delay, and
timestamps end earlier.  So a record at a time that no other record has ends an input.  A watermark
near that time means the end, whatever the delay.
"""

from __future__ import annotations

from typing import Final

from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import HostError

__all__ = ["ENDED", "END_OF_INPUT", "check_watermark", "watermark_of"]

END_OF_INPUT: Final = 9_000_000_000_000_000
"""The event time in ms of the record that ends an input: in the year 287,168."""
ENDED: Final = 8_000_000_000_000_000
"""The watermark in ms from which the input has ended: delays may be up to 31,000 years."""


def watermark_of(milliseconds: int) -> int:
    """Return the watermark in ms that a watermark of Spark means.

    Args:
        milliseconds: Spark's watermark: 0 before the first event, -1 if there is no event time.
    """
    if milliseconds <= 0:
        return MIN_WATERMARK
    return MAX_WATERMARK if milliseconds >= ENDED else milliseconds


def check_watermark(milliseconds: int) -> None:
    """Refuse a watermark of elements that would be taken for the end of the input.

    Args:
        milliseconds: The watermark that elements make, or `MAX_WATERMARK` at their end.

    Raises:
        HostError: The watermark is too late.
    """
    if ENDED <= milliseconds < MAX_WATERMARK:
        msg = (
            f"watermarks on Spark are before {ENDED:,} ms, in the year 255,000, got {milliseconds:,} "
            "of the times of some elements; give times in ms since 1970, and leave out such that mean "
            "never"
        )
        raise HostError(msg)
