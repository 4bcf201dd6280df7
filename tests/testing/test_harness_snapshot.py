# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a harness, and what a new one restores of it."""

import pytest
from probe import Driver, Probe, drive, harness

from pyflinklike import (
    MIN_WATERMARK,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import CorruptStateError

LONG = ValueStateDescriptor("s", Types.LONG())


def test_a_snapshot_is_not_changed_by_what_follows():
    """It is as of its call."""
    state = drive(LONG)
    state.update(1)
    blob = state.harness.snapshot()
    state.update(2)
    assert isinstance(blob, bytes)
    assert 1 == drive(LONG, restore=blob).value()


def test_one_snapshot_can_be_restored_twice():
    """The two go their own ways."""
    state = drive(LONG)
    state.update(1)
    blob = state.harness.snapshot()
    first, second = drive(LONG, restore=blob), drive(LONG, restore=blob)
    first.update(2)
    assert (2, 1) == (first.value(), second.value())


def test_a_restored_harness_begins_at_the_beginning():
    """Time and outputs are not in a snapshot."""
    driver = drive(LONG).at(50).at_watermark(60)
    driver.update(1)
    again = driver.restored(LONG).harness
    assert (0, MIN_WATERMARK, []) == (again.processing_time, again.watermark, again.output)


def test_a_state_declared_late_is_restored():
    """In process_element."""
    state = drive(LONG)
    state.update(1)
    probe = Probe()
    again = Driver(harness(probe, restore=state.harness.snapshot()))
    assert 1 == again.run(lambda _state, _ctx: probe.runtime_context.get_state(LONG).value())


@pytest.mark.parametrize("blob", [b"", b"not a snapshot"], ids=["empty", "other"])
def test_other_bytes_are_not_restored(blob):
    """A clear error and no silent reset."""
    with pytest.raises(CorruptStateError):
        drive(LONG, restore=blob)
