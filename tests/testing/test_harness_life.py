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
LIST = ListStateDescriptor("s", Types.LONG())
MAP = MapStateDescriptor("s", Types.LONG(), Types.LONG())
REDUCING = ReducingStateDescriptor("s", max, Types.LONG())
AGGREGATING = AggregatingStateDescriptor("s", Sum(), Types.LONG())


class Closing(Probe):
    """Counts how often it was closed."""

    closed = 0

    def close(self):
        self.closed += 1


# Closing


def test_the_with_block_closes_the_function_once():
    """As close() does, which does nothing again."""
    probe = Closing()
    with harness(probe) as h:
        assert 0 == probe.closed
    h.close()
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


TOUCHES = [
    *((LONG, touch) for touch in (lambda s: s.value(), lambda s: s.update(1), lambda s: s.clear())),
    (LONG, lambda s: s.update(None)),
    *(
        (LIST, touch)
        for touch in (lambda s: [*s.get()], lambda s: s.add(1), lambda s: s.update([1]))
    ),
    *(
        (MAP, touch)
        for touch in (lambda s: s.get(1), lambda s: s.put(1, 1), lambda s: [*s.items()])
    ),
    *((MAP, touch) for touch in (lambda s: s.is_empty(), lambda s: s.remove(1))),
    *((REDUCING, touch) for touch in (lambda s: s.get(), lambda s: s.add(1))),
    *((AGGREGATING, touch) for touch in (lambda s: s.get(), lambda s: s.add(1))),
]


@pytest.mark.parametrize(("descriptor", "touch"), TOUCHES)
def test_state_cannot_be_touched_without_a_key(descriptor, touch):
    """In open, between two calls, and after close."""

    class Touches(Probe):
        def open(self, runtime_context):
            super().open(runtime_context)
            with pytest.raises(StateAccessError, match=r"no current key.*in open.. only create"):
                touch(self.state)

    probe = Touches(descriptor)
    with harness(probe) as h:
        Driver(h).run(lambda _state, _ctx: None)
        with pytest.raises(StateAccessError, match="no current key"):
            touch(probe.state)
    with pytest.raises(StateAccessError, match="no current key"):
        touch(probe.state)


def test_a_context_has_no_key_between_calls():
    """It belongs to the call it was handed to."""
    kept = []
    drive().run(lambda _, ctx: kept.append(ctx))
    with pytest.raises(StateAccessError, match="there is a current key only while"):
        kept[0].get_current_key()
