# SPDX-License-Identifier: Apache-2.0
"""A TTL that follows another clock after a restart: its stamps would be judged by the wrong one."""

from __future__ import annotations

import pytest
from two_input_support import BACKENDS

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.testing import KeyedProcessHarness

EVENT = StateTtlConfig.TtlTimeCharacteristic.EventTime
PROCESSING = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
LONG = Types.LONG()
DESCRIPTORS = {
    "value": lambda: ValueStateDescriptor("state", LONG),
    "list": lambda: ListStateDescriptor("state", LONG),
    "map": lambda: MapStateDescriptor("state", LONG, LONG),
    "reducing": lambda: ReducingStateDescriptor("state", max, LONG),
}
WRITES = {"value": "update", "list": "add", "map": "put", "reducing": "add"}
READS = {"value": "value", "list": "get", "map": "items", "reducing": "get"}


class Keeps(KeyedProcessFunction):
    """Keeps each number in one state.

    Args:
        kind: Of the state.
        clock: Of its TTL of 100 ms, or None without one.
    """

    def __init__(self, kind, clock):
        self.kind, self.clock = kind, clock

    def open(self, runtime_context):
        descriptor = DESCRIPTORS[self.kind]()
        if self.clock is not None:
            ttl = StateTtlConfig.new_builder(Time.milliseconds(100))
            descriptor.enable_time_to_live(ttl.set_ttl_time_characteristic(self.clock).build())
        self.state = runtime_context.state_of(descriptor)

    def process_element(self, value, ctx):
        if value[1] is not None:
            arguments = (1, value[1]) if self.kind == "map" else (value[1],)
            getattr(self.state, WRITES[self.kind])(*arguments)
        read = getattr(self.state, READS[self.kind])()
        yield read if isinstance(read, int) or read is None else list(read)


def _harness(function, **options):
    return KeyedProcessHarness(function, key_selector=lambda element: element[0], **options)


def _snapshot(kind, clock, backend):
    with _harness(Keeps(kind, clock), state_backend=backend) as harness:
        harness.set_processing_time(10_000)
        harness.process_watermark(30)
        harness.process_element(("k", 7), 30)
        return harness.snapshot()


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(("before", "now"), [(EVENT, PROCESSING), (PROCESSING, EVENT)])
@pytest.mark.parametrize("kind", DESCRIPTORS)
def test_the_clock_of_a_ttl_may_not_change(kind, before, now, backend):
    """All would be expired at once, or nothing ever: the message names the clocks and what helps."""
    stored = _snapshot(kind, before, backend)
    expected = (
        f"state 'state': restored state keeps the clock of its TTL, '{before.name}', got "
        rf"'{now.name}'; .*Savepoint.with_ttl\(\)"
    )
    with pytest.raises(IncompatibleStateError, match=expected):
        _harness(Keeps(kind, now), state_backend=backend, restore=stored)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("before", [EVENT, PROCESSING])
@pytest.mark.parametrize("kind", DESCRIPTORS)
def test_between_two_clocks_a_ttl_is_switched_off_once(kind, before, backend):
    """The stamps go, and the other clock stamps what is there with the time of its first restart."""
    without = _snapshot(kind, before, backend)
    with _harness(Keeps(kind, None), state_backend=backend, restore=without) as harness:
        stored = harness.snapshot()
    now = PROCESSING if before is EVENT else EVENT
    with _harness(Keeps(kind, now), state_backend=backend, restore=stored) as harness:
        harness.process_watermark(0)
        (found,) = harness.process_element(("k", None), 0)

    assert {"value": 7, "list": [7], "map": [(1, 7)], "reducing": 7}[kind] == found
