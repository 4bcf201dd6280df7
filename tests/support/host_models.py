# SPDX-License-Identifier: Apache-2.0
"""Two hosts that tests compare Spark with: a harness driven as a stream or a batch would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from spark_support import milliseconds

from pyflinklike import Row
from pyflinklike.testing import HarnessChain, KeyedProcessHarness

T = TypeVar("T", KeyedProcessHarness, HarnessChain)


def model_stream(harness: T, batches: Sequence[Sequence[Row]], time: str) -> T:
    """Drive a harness as a stream of monotonous times would, to the end of its input."""
    watermark = 0
    timed: list[tuple[Row, int | None]]
    for batch in [*batches, []]:
        _advance(harness, watermark)
        timed = [(row, milliseconds(row[time])) for row in batch]
        harness.process_elements(sorted(timed, key=_by_time))
        _advance(harness, watermark)
        watermark = max([watermark, *(t - 1 for _, t in timed if t is not None)])
    return harness


def model_batch(
    harness: KeyedProcessHarness, batches: Sequence[Sequence[Row]], time: str
) -> KeyedProcessHarness:
    """Drive a harness as a batch would."""
    timed = [(row, milliseconds(row[time])) for batch in batches for row in batch]
    harness.process_elements(sorted(timed, key=_by_time))
    harness.end_of_input()
    return harness


def _advance(harness: KeyedProcessHarness | HarnessChain, watermark: int) -> None:
    if watermark > 0:
        harness.process_watermark(watermark)


def _by_time(timed: tuple[Row, int | None]) -> tuple[bool, int]:
    return timed[1] is not None, timed[1] or 0
