# SPDX-License-Identifier: Apache-2.0
"""TTL across a snapshot and a restore."""

import pytest
from probe import Driver, Probe, drive, harness

from pyflinklike import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)

LONG = ValueStateDescriptor("s", Types.LONG())


def ttl(milliseconds, *, relaxed=False):
    """A value state with that TTL, without background cleanup."""
    descriptor = ValueStateDescriptor("s", Types.LONG())
    builder = StateTtlConfig.new_builder(milliseconds).disable_cleanup_in_background()
    if relaxed:
        builder.return_expired_if_not_cleaned_up()
    descriptor.enable_time_to_live(builder.build())
    return descriptor


def test_a_ttl_switched_on_for_a_state_declared_late_begins_at_its_restore():
    """The time of the migration is that of its first declaration."""
    state = drive(LONG)
    state.update(1)
    probe = Probe()
    again = Driver(harness(probe, restore=state.harness.snapshot())).at(50)

    def value(_state, _ctx):
        return probe.runtime_context.get_state(ttl(100)).value()

    assert (1, 1) == (again.run(value), again.at(149).run(value))
    assert None is again.at(150).run(value)


def test_a_ttl_switched_off_and_on_begins_anew():
    """The old stamp was dropped."""
    state = drive(ttl(100)).at(10_000)
    state.update(1)
    again = state.restored(LONG).restored(ttl(100))
    assert 1 == again.at(99).value()
    assert None is again.at(100).value()


def test_the_cleanup_strategy_may_change_at_a_restore():
    """At any time."""
    state = drive(ttl(100))
    state.update(1)
    other = ValueStateDescriptor("s", Types.LONG())
    other.enable_time_to_live(
        StateTtlConfig.new_builder(100).cleanup_incrementally(5, True).build()
    )
    assert 1 == state.restored(other).at(99).value()


@pytest.mark.parametrize("switched_on", [False, True], ids=["off to off", "off to on"])
def test_lists_and_maps_keep_their_order_through_a_restore(switched_on):
    """With and without stamps."""
    config = StateTtlConfig.new_builder(100).build() if switched_on else None
    descriptors = [
        ListStateDescriptor("l", Types.LONG()),
        MapStateDescriptor("m", Types.LONG(), Types.LONG()),
    ]
    driver = drive(*descriptors)
    driver.run(lambda s, _: (s[0].update([3, 1, 2]), s[1].put_all({3: 0, 1: 0, 2: 0})))
    for descriptor in descriptors:
        descriptor.enable_time_to_live(config)
    again = driver.restored(*descriptors)
    assert ([3, 1, 2], [3, 1, 2]) == again.run(lambda s, _: (list(s[0]), list(s[1])))
