# SPDX-License-Identifier: Apache-2.0
"""Streams of elements whose second field is their time."""

from __future__ import annotations

from pyflinklike.pyflink.common import Duration, WatermarkStrategy
from pyflinklike.pyflink.common.watermark_strategy import TimestampAssigner

__all__ = ["ByField", "timed"]


class ByField(TimestampAssigner):
    """The time is a field.

    Args:
        field: Its position.
    """

    def __init__(self, field=1):
        self.field = field

    def extract_timestamp(self, value, record_timestamp):
        """The field."""
        return value[self.field]


def timed(env, *elements, delay=0, kind=None):
    """A stream of these elements, with watermarks.

    Args:
        env: The environment.
        elements: In order of arrival.
        delay: Of the watermarks, in ms.
        kind: Of the elements.
    """
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(delay))
    stream = env.from_collection(list(elements), kind)
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(ByField()))
