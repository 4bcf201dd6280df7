# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a harness, and what a new one restores of it."""

import pytest
from probe import Driver, Probe, Sum, drive, harness

from pyflinklike import (
    MIN_WATERMARK,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import CorruptStateError, IncompatibleStateError

LONG = ValueStateDescriptor("s", Types.LONG())


EVERY_KIND = (
    LONG,
    ListStateDescriptor("l", Types.STRING()),
    MapStateDescriptor("m", Types.STRING(), Types.LONG()),
    ReducingStateDescriptor("r", max, Types.LONG()),
    AggregatingStateDescriptor("a", Sum(), Types.LONG()),
)


def fill(states, _):
    """Write to a state of every kind."""
    value, list_, map_, reducing, aggregating = states
    value.update(1)
    list_.add_all(["x", "y"])
    map_.put_all({"b": 2, "a": 1})
    for number in (3, 4):
        reducing.add(number)
        aggregating.add(number)


def contents(states, _):
    """What is in a state of every kind."""
    value, list_, map_, reducing, aggregating = states
    read = value.value(), list(list_.get()), list(map_.items())
    return *read, reducing.get(), aggregating.get()


FILLED = (1, ["x", "y"], [("b", 2), ("a", 1)], 4, 7)


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


def test_a_snapshot_is_restored_into_another_max_parallelism():
    """Keys are hashed anew."""
    state = drive(LONG, max_parallelism=4)
    state.update(1)
    assert 1 == state.restored(LONG, max_parallelism=64).value()


def test_a_state_that_is_not_declared_is_kept():
    """It comes back when it is declared again."""
    driver = drive(*EVERY_KIND)
    driver.run(fill)
    without = driver.restored(LONG)
    assert FILLED == without.restored(*EVERY_KIND).run(contents)


def test_a_state_declared_late_is_restored():
    """In process_element."""
    state = drive(LONG)
    state.update(1)
    probe = Probe()
    again = Driver(harness(probe, restore=state.harness.snapshot()))
    assert 1 == again.run(lambda _state, _ctx: probe.runtime_context.get_state(LONG).value())


@pytest.mark.parametrize(
    "other",
    [
        ValueStateDescriptor("s", Types.STRING()),
        ListStateDescriptor("s", Types.LONG()),
        ReducingStateDescriptor("s", max, Types.LONG()),
    ],
    ids=["type", "shape", "kind"],
)
def test_a_state_declared_otherwise_is_not_restored(other):
    """With what was stored and what was declared in the message."""
    state = drive(LONG)
    state.update(1)
    with pytest.raises(IncompatibleStateError, match="state 's': restored state keeps"):
        state.restored(other)


@pytest.mark.parametrize("blob", [b"", b"not a snapshot"], ids=["empty", "other"])
def test_other_bytes_are_not_restored(blob):
    """A clear error and no silent reset."""
    with pytest.raises(CorruptStateError):
        drive(LONG, restore=blob)
