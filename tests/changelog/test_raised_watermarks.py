# SPDX-License-Identifier: Apache-2.0
"""Watermarks that a host keeps for key groups: the one of the micro-batch before, and raised ones."""

from __future__ import annotations

import pytest

from pyflinklike._changelog.log_storage import (
    WATERMARK_AT,
    InMemoryLogStorage,
    exchange_watermark,
    raise_watermark,
)
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.errors import CorruptStateError


def test_a_raised_watermark_never_goes_back():
    """A lower one changes nothing, and each position has its own."""
    storage = InMemoryLogStorage()

    raised = [raise_watermark(storage, each, 0, "home") for each in (50, 30, 70, MIN_WATERMARK)]

    assert [(MIN_WATERMARK, 50), (50, 50), (50, 70), (70, 70)] == raised
    assert (MIN_WATERMARK, 9) == raise_watermark(storage, 9, 1, "home")
    assert MIN_WATERMARK == exchange_watermark(storage, 3, "home")


def test_a_raised_watermark_that_was_changed_is_told():
    """It has a checksum."""
    storage = InMemoryLogStorage()
    raise_watermark(storage, 50, 0, "home")
    blob = bytearray(storage.read_segment(WATERMARK_AT - 1))
    blob[3] ^= 1
    storage.write_segment(WATERMARK_AT - 1, bytes(blob))

    with pytest.raises(CorruptStateError, match="home: the former watermark must be"):
        raise_watermark(storage, 60, 0, "home")
