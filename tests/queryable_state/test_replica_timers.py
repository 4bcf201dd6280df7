# SPDX-License-Identifier: Apache-2.0
"""The timers that a replica shows are those that the function has registered, and not deleted or fired."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_support import FollowedQuery, replica_of

from pyflinklike import (
    KeyedProcessFunction,
    Row,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import DeclarationTypeError, ScanDisabledError, StateAccessError
from pyflinklike.queryable_state import QueryableState, Timer
from pyflinklike.queryable_state.image import Share
from pyflinklike.state_processor import write_savepoint
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import EventTimeSessionWindows, window

LONG, TEXT = Types.LONG(), Types.STRING()
EVENT, PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
STATES = [ValueStateDescriptor("v", LONG)]
FEW = settings(max_examples=max(settings().max_examples // 8, 3))


def register(domain, *times):
    """A record that registers timers, or deletes those of negative times."""

    def act(on):
        timers = on["timers"]
        of_event = domain is EVENT
        add = (
            timers.register_event_time_timer if of_event else timers.register_processing_time_timer
        )
        delete = timers.delete_event_time_timer if of_event else timers.delete_processing_time_timer
        for time in times:
            add(time) if time > 0 else delete(-time)

    return act


ACTS = st.tuples(
    st.sampled_from("abcd"), st.sampled_from([EVENT, PROCESSING]), st.integers(-9, 9)
).filter(lambda act: act[2])
BATCHES = st.lists(st.tuples(st.lists(ACTS, max_size=5), st.booleans()), min_size=1, max_size=5)


@given(batches=BATCHES, cache_bytes=st.sampled_from([0, 10_000_000]))
@FEW
def test_a_replica_has_the_timers_that_were_registered(batches, cache_bytes):
    """After each batch, of each key and of all, whatever was decoded before."""
    query = FollowedQuery(STATES)
    query.batch([])
    replica = replica_of(query, cache_bytes=cache_bytes)
    expected = set()
    for acts, compact in batches:
        query.batch([(key, register(domain, time)) for key, domain, time in acts], compact=compact)
        for key, domain, time in acts:
            if time > 0:
                expected.add((time, domain.value, key))
            else:
                expected.discard((-time, domain.value, key))
        replica.refresh()
        timers = replica.timers()
        ordered = [Timer(key, TimeDomain(domain), time) for time, domain, key in sorted(expected)]
        assert ordered == list(timers.all())
        assert ordered[::-1] == list(timers.all(reverse=True))
        assert [t for t in ordered if t.domain is EVENT and 3 <= t.timestamp <= 5] == list(
            timers.all(3, 5, domain=EVENT)
        )
        for key in "abcd":
            assert [each for each in ordered if each.key == key] == timers.get(key)


def test_a_timer_that_has_fired_is_gone():
    """Also from a replica that was opened before, whose snapshot has it still."""
    query = FollowedQuery(STATES)
    query.batch([("a", register(EVENT, 5, 50))])
    replica = replica_of(query)
    with replica.snapshot() as before:
        query.batch([("a", lambda _: None)], watermark=10)
        replica.refresh()
        found = [[each.timestamp for each in at.timers().get("a")] for at in (before, replica)]
    assert [[5, 50], [50]] == found


def test_timers_of_windows_tell_their_window(tmp_path):
    """Each key and window has its own."""
    windows = window(EventTimeSessionWindows.with_gap(10), Types.ROW_NAMED(["user"], [TEXT]))
    function = windows.reduce(lambda a, b: a)
    with KeyedProcessHarness(function, lambda row: row.user, key_type=TEXT) as harness:
        for user, time in (("ann", 0), ("ann", 40), ("bob", 5)):
            harness.process_element(Row(user=user), time)
        write_savepoint(harness, tmp_path / "saved")
    with QueryableState.open_savepoint(tmp_path / "saved", allow_scan=True) as state:
        mine = [(each.timestamp, tuple(each.namespace)) for each in state.timers().get("ann")]
        every = [(each.key, each.timestamp) for each in state.timers().all()]
    assert [(9, (0, 10)), (49, (40, 50))] == mine
    assert [("ann", 9), ("bob", 14), ("ann", 49)] == every


class Waiting(KeyedProcessFunction):
    """Registers a timer of each domain."""

    def open(self, runtime_context):
        self.v = runtime_context.get_state(ValueStateDescriptor("v", LONG))

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])
        ctx.timer_service().register_processing_time_timer(value[1] + 1)
        return []


def test_a_savepoint_has_the_timers_of_its_batch(tmp_path):
    """Whose keys are tuples; and some states only are opened without them."""
    keys = Types.TUPLE([TEXT, LONG])
    with KeyedProcessHarness(Waiting(), lambda each: each, key_type=keys) as harness:
        harness.process_elements([(("ann", 3), None), (("bob", 1), None)])
        write_savepoint(harness, tmp_path / "saved")
    expected = [Timer(("ann", 3), EVENT, 3), Timer(("ann", 3), PROCESSING, 4)]
    with QueryableState.open_savepoint(tmp_path / "saved") as state:
        assert expected == state.timers().get(("ann", 3))
        with pytest.raises(ScanDisabledError, match="timers: scans must be allowed"):
            state.timers().all()
        with pytest.raises(DeclarationTypeError, match="domain takes a TimeDomain"):
            state.timers().get(("ann", 3), domain="event_time")
    with (
        QueryableState.open_savepoint(tmp_path / "saved", states=["v"]) as some,
        pytest.raises(StateAccessError, match="open one without states="),
    ):
        some.timers()


def test_a_replica_of_some_keys_has_their_timers_only():
    """Though others are in the same key group."""
    query = FollowedQuery(STATES, max_parallelism=1)
    query.batch([(key, register(EVENT, 7)) for key in "abc"])
    query.share = Share.of(["b"], None)
    timers = replica_of(query).timers()
    assert [Timer("b", EVENT, 7)] == list(timers.all())
    with pytest.raises(StateAccessError, match="keys="):
        timers.get("a")
