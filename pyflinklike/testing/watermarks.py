# SPDX-License-Identifier: Apache-2.0
"""The watermarks of two inputs, the smaller of which counts."""

from __future__ import annotations

from pyflinklike.clock import MIN_WATERMARK

__all__ = ["InputWatermarks"]


class InputWatermarks:
    """The watermark of each of two inputs."""

    def __init__(self) -> None:
        self._watermarks = {1: MIN_WATERMARK, 2: MIN_WATERMARK}

    def least(self, number: int, watermark: int) -> int:
        """Note the watermark of an input; return the smaller one of both.

        Args:
            number: Number of the input, 1 or 2.
            watermark: Watermark in ms; one below the input's last has no effect, as in Flink.
        """
        self._watermarks[number] = max(watermark, self._watermarks[number])
        return min(self._watermarks.values())
