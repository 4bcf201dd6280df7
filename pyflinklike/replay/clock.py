# SPDX-License-Identifier: Apache-2.0
"""Expiry by the clock of a micro-batch: the rules of TTL for Arrow's columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.replay.values import timestamps
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.state.ttl_rules import horizon_at

__all__ = ["BatchClock", "are_alive", "expires_at"]

_EVENT_TIME = StateTtlConfig.TtlTimeCharacteristic.EventTime.name


@attrs.frozen
class BatchClock:
    """The times that an operator was given in a micro-batch.

    Args:
        processing_time: Processing time in ms.
        watermark: Watermark in ms; `MIN_WATERMARK` where there was none yet.
    """

    processing_time: int
    watermark: int = MIN_WATERMARK

    def now(self, ttl: Mapping[str, Any]) -> int:
        """Return the time that a TTL goes by, in ms."""
        return self.watermark if ttl["time"] == _EVENT_TIME else self.processing_time


def are_alive(stamps: Any, ttl: Mapping[str, Any], clock: BatchClock) -> Any:
    """Return a mask of the entries that are not expired; an entry without a stamp is not.

    Args:
        stamps: Stamps in ms; null where an entry has none.
        ttl: The TTL as in `StateInfo.ttl`.
        clock: The clock of the micro-batch.
    """
    horizon = horizon_at(clock.now(ttl), ttl["ms"])
    # Below 64 bits, so that Arrow cannot compare it, and before any stamp.
    if horizon < MIN_WATERMARK:
        return pa.repeat(pa.scalar(True), len(stamps))
    return pc.greater(stamps, pa.scalar(horizon, pa.int64())).fill_null(True)


def expires_at(stamps: Any, ttl: Mapping[str, Any]) -> Any:
    """Return when entries expire; null without a stamp, or if it was written at no known time."""
    last = pa.scalar(MAX_WATERMARK - ttl["ms"], pa.int64())
    known = pc.if_else(pc.equal(stamps, MAX_WATERMARK), pa.scalar(None, pa.int64()), stamps)
    within = pc.min_element_wise(known, last, skip_nulls=False)
    return timestamps(pc.add(within, pa.scalar(ttl["ms"], pa.int64())))
