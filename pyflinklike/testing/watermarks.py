# SPDX-License-Identifier: Apache-2.0
"""The watermarks of two inputs, of which the smaller one counts."""

from __future__ import annotations

from pyflinklike.clock import MIN_WATERMARK

__all__ = ["InputWatermarks"]


class InputWatermarks:
    """How far each of two inputs has come."""

    def __init__(self) -> None:
        self._watermarks = {1: MIN_WATERMARK, 2: MIN_WATERMARK}

    def least(self, number: int, watermark: int) -> int:
        """Note the watermark of an input; the smaller one of both now.

        Args:
            number: Of the input, 1 or 2.
            watermark: In ms; one below what the input has said before says nothing, as in Flink.
        """
        self._watermarks[number] = max(watermark, self._watermarks[number])
        return min(self._watermarks.values())
