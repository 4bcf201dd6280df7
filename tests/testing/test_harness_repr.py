# SPDX-License-Identifier: Apache-2.0
"""What a harness says of itself: in a debugger, a notebook, or the report of a failed test."""

import pytest
from probe import Probe, Record, harness

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    ListStateDescriptor,
    Types,
)
from pyflinklike.stores import KeyValueStoreDescriptor

TEXTS = ListStateDescriptor("s", Types.STRING())
AT_START = (
    "processing_time=0, watermark=MIN_WATERMARK, keys=0, event_time_timers=0, "
    "processing_time_timers=0, outputs=0"
)


def long_text_and_timers(state, ctx):
    """Two entries, a timer in each domain."""
    state.update(["x" * 10_000, "y"])
    ctx.timer_service().register_event_time_timer(100)
    ctx.timer_service().register_processing_time_timer(200)


class Sharing(Probe):
    """Its state is a store."""

    def open(self, runtime_context):
        self.state = runtime_context.get_store(self.descriptors[0])


@pytest.fixture(params=[HashMapStateBackend, EmbeddedRocksDBStateBackend])
def backend(request):
    """Each of ours."""
    if request.param is EmbeddedRocksDBStateBackend:
        pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")
    return request.param()


def test_a_new_harness_shows_its_function_and_backend(backend):
    """A watermark that was never set has Flink's name, not a number of nineteen digits."""
    with harness(Probe(TEXTS), state_backend=backend) as h:
        assert f"<KeyedProcessHarness of Probe on {backend}: {AT_START}>" == repr(h)


def test_keys_and_timers_are_counted_and_values_never_shown(backend):
    """A key counts once, however many entries and timers it has."""
    with harness(Probe(TEXTS), state_backend=backend) as h:
        for key in "abb":
            h.process_element(Record(key, long_text_and_timers), timestamp=1)
        h.process_watermark(99)
        h.set_processing_time(200)

        assert (
            f"<KeyedProcessHarness of Probe on {backend}: processing_time=200, watermark=99, "
            "keys=2, event_time_timers=2, processing_time_timers=0, outputs=5>"
        ) == repr(h)


def test_a_key_without_state_and_timers_does_not_count():
    """It was cleared, and nothing of it is left."""
    with harness(Probe(TEXTS)) as h:
        h.process_element(Record("a", lambda state, _: state.update(["x"])))
        h.process_element(Record("a", lambda state, _: state.clear()))

        assert "keys=0" in repr(h)


def test_a_store_that_all_keys_share_is_no_key(backend):
    """Its entries belong to the key group."""
    shared = KeyValueStoreDescriptor("shared", Types.STRING(), Types.LONG(), scope="partition")
    with harness(Sharing(shared), state_backend=backend) as h:
        h.process_element(Record("a", lambda store, _: store.put("x", 1)))

        assert 1 == h.num_keyed_state_entries("shared")
        assert "keys=0" in repr(h)


def test_a_closed_harness_says_so(backend):
    """Its backend has nothing to be counted any more."""
    h = harness(Probe(TEXTS), state_backend=backend)
    h.process_element(Record("a", long_text_and_timers))
    h.close()

    assert f"<KeyedProcessHarness of Probe on {backend}: closed, outputs=1>" == repr(h)


def test_looking_in_the_middle_of_a_call_changes_nothing(backend):
    """A debugger looks whenever it stops."""

    def look(state, ctx):
        long_text_and_timers(state, ctx)
        return "keys=1" in repr(h), len(list(state.get()))

    with harness(Probe(TEXTS), state_backend=backend) as h:
        assert [(True, 2)] == h.process_element(Record("a", look))
        assert [(True, 2)] == h.process_element(Record("a", look))
        assert 2 == h.num_keyed_state_entries("s")
