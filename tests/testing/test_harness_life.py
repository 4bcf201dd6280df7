# SPDX-License-Identifier: Apache-2.0
"""What a harness refuses before it is open, after it is closed, and between calls."""

import pytest
from probe import Driver, Probe, Record, Sum, drive, harness

from pyflinklike import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import StateAccessError

LONG = ValueStateDescriptor("s", Types.LONG())


class Closing(Probe):
    """Counts how often it was closed."""

    closed = 0

    def close(self):
        self.closed += 1


def kept_states(*descriptors):
    """A function with its states, and a harness that had one element."""
    probe = Probe(*descriptors)
    driver = Driver(harness(probe))
    driver.run(lambda _state, _ctx: None)
    return probe, driver.harness


# Closing


def test_the_with_block_closes_the_function_once():
    """Closing again does nothing."""
    probe = Closing()
    with harness(probe) as h:
        assert 0 == probe.closed
    h.close()
    assert 1 == probe.closed


def test_the_with_block_is_optional():
    """close() does the same."""
    probe = Closing()
    harness(probe).close()
    assert 1 == probe.closed


@pytest.mark.parametrize(
    "use",
    [
        lambda h: h.process_element(Record("k", None)),
        lambda h: h.process_watermark(1),
        lambda h: h.set_processing_time(1),
        lambda h: h.end_of_input(),
        lambda h: h.compact(),
        lambda h: h.snapshot(),
        lambda h: h.num_keyed_state_entries("s"),
        lambda h: h.num_event_time_timers(),
        lambda h: h.num_processing_time_timers(),
    ],
)
def test_a_closed_harness_cannot_be_driven(use):
    """Nor can its state be looked at."""
    h = harness(Probe(LONG))
    h.close()
    with pytest.raises(StateAccessError, match=r"got a call after close\(\)"):
        use(h)


def test_the_output_of_a_closed_harness_can_be_read():
    """A test may look at it after the with block."""
    with harness(Probe()) as h:
        h.process_element(Record("k", lambda _state, _ctx: 1))
    assert [1] == h.output


# Access without a key


TOUCHES = {
    "value": (LONG, lambda s: s.value()),
    "update": (LONG, lambda s: s.update(1)),
    "update None": (LONG, lambda s: s.update(None)),
    "clear": (LONG, lambda s: s.clear()),
    "list get": (ListStateDescriptor("s", Types.LONG()), lambda s: list(s.get())),
    "list add": (ListStateDescriptor("s", Types.LONG()), lambda s: s.add(1)),
    "list update": (ListStateDescriptor("s", Types.LONG()), lambda s: s.update([1])),
    "map get": (MapStateDescriptor("s", Types.LONG(), Types.LONG()), lambda s: s.get(1)),
    "map put": (MapStateDescriptor("s", Types.LONG(), Types.LONG()), lambda s: s.put(1, 1)),
    "map items": (MapStateDescriptor("s", Types.LONG(), Types.LONG()), lambda s: list(s.items())),
    "map is_empty": (
        MapStateDescriptor("s", Types.LONG(), Types.LONG()),
        lambda s: s.is_empty(),
    ),
    "map remove": (MapStateDescriptor("s", Types.LONG(), Types.LONG()), lambda s: s.remove(1)),
    "reducing get": (ReducingStateDescriptor("s", max, Types.LONG()), lambda s: s.get()),
    "reducing add": (ReducingStateDescriptor("s", max, Types.LONG()), lambda s: s.add(1)),
    "aggregating get": (AggregatingStateDescriptor("s", Sum(), Types.LONG()), lambda s: s.get()),
    "aggregating add": (AggregatingStateDescriptor("s", Sum(), Types.LONG()), lambda s: s.add(1)),
}
touches = pytest.mark.parametrize(("descriptor", "touch"), TOUCHES.values(), ids=TOUCHES)


@touches
def test_state_cannot_be_touched_in_open(descriptor, touch):
    """There is no key yet."""

    class Touches(Probe):
        def open(self, runtime_context):
            super().open(runtime_context)
            touch(self.state)

    with pytest.raises(StateAccessError, match="no current key"):
        harness(Touches(descriptor))


@touches
def test_state_cannot_be_touched_between_calls(descriptor, touch):
    """The key of the last element is not that of the next."""
    probe, _ = kept_states(descriptor)
    with pytest.raises(StateAccessError, match="no current key"):
        touch(probe.state)


@touches
def test_state_cannot_be_touched_after_close(descriptor, touch):
    """It is gone."""
    probe, h = kept_states(descriptor)
    h.close()
    with pytest.raises(StateAccessError, match="no current key"):
        touch(probe.state)


def test_a_context_has_no_key_between_calls():
    """It belongs to the call it was handed to."""
    kept = []
    drive().run(lambda _, ctx: kept.append(ctx))
    with pytest.raises(StateAccessError, match="there is a current key only while"):
        kept[0].get_current_key()
