# SPDX-License-Identifier: Apache-2.0
"""What Spark's watermark means."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import SparkSetupError
from pyflinklike.spark._wire.system_columns import (
    END_OF_INPUT,
    ENDED,
    check_watermark,
    watermark_of,
)


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


@pytest.mark.parametrize(
    ("watermark", "is_refused"),
    [
        (MIN_WATERMARK, False),
        (ENDED - 1, False),
        (ENDED, True),
        (END_OF_INPUT, True),
        (MAX_WATERMARK - 1, True),
        (MAX_WATERMARK, False),
    ],
)
def test_a_watermark_that_spark_would_take_for_the_end_is_refused(watermark, is_refused):
    """All elements behind it would be late, in silence; times in ns make such ones, too."""
    told = pytest.raises(SparkSetupError, match="give times in ms since 1970")
    with told if is_refused else nullcontext():
        check_watermark(watermark)


def test_the_record_that_ends_an_input_is_a_timestamp():
    """Spark's are of 64 bits and microseconds."""
    assert END_OF_INPUT * 1_000 < 2**63
