# SPDX-License-Identifier: Apache-2.0
"""What Spark's watermark means."""

from __future__ import annotations

import pytest

from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.spark.wire.watermarks import END_OF_INPUT, ENDED, watermark_of


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        (-1, MIN_WATERMARK),
        (0, MIN_WATERMARK),
        (1, 1),
        (ENDED - 1, ENDED - 1),
        (ENDED, MAX_WATERMARK),
        (END_OF_INPUT, MAX_WATERMARK),
    ],
)
def test_a_watermark_of_spark_is_a_time_or_one_of_the_ends(told, meant):
    """0 is before the first event, -1 no event time; near the time of the record that ends an input it is the end."""
    assert meant == watermark_of(told)


def test_the_record_that_ends_an_input_is_a_timestamp():
    """Spark's are of 64 bits and microseconds."""
    assert END_OF_INPUT * 1_000 < 2**63
