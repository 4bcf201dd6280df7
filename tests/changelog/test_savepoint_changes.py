# SPDX-License-Identifier: Apache-2.0
"""What a restore keeps when TTL, types and declarations change, on and between both backends."""

from __future__ import annotations

from typing import Any

import pytest
from probe import Probe, Record, drive
from stream_support import BACKENDS, READ, Harness, Stream, act, five_states
from tasks import Task

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import IncompatibleStateError

BOTH = [
    pytest.mark.parametrize("source", BACKENDS),
    pytest.mark.parametrize("target", BACKENDS),
]


def between_backends(test):
    """Runs a test from each backend to each."""
    for mark in BOTH:
        test = mark(test)
    return test


def ttl_of(milliseconds: int | None) -> StateTtlConfig | None:
    """Without background cleanup, so that what is stored can be counted."""
    if milliseconds is None:
        return None
    return (
        StateTtlConfig.new_builder(Time.milliseconds(milliseconds))
        .disable_cleanup_in_background()
        .build()
    )


FILL = act("write", 1)
FULL = ([1], [("1", 1)], [("m1", [1])], "1;", 1.0)
EMPTY = (None, [], [], None, None)


@between_backends
@pytest.mark.parametrize(
    ("before", "after", "restored_at", "alive_at", "dead_at"),
    [
        pytest.param(100, 100, 1_050, 1_099, 1_100, id="unchanged"),
        pytest.param(100, 300, 1_250, 1_299, 1_300, id="longer, revived"),
        pytest.param(100, 20, 1_010, 1_019, 1_020, id="shorter"),
        pytest.param(None, 100, 5_000, 5_099, 5_100, id="on"),
        pytest.param(100, None, 5_000, 10**12, None, id="off, expired ones too"),
    ],
)
def test_a_ttl_may_change_at_a_restore(
    source, target, before, after, restored_at, alive_at, dead_at
):
    """Of all five states: stored stamps count; a new TTL begins at the restore; without one all is alive."""
    driver = drive(*five_states(ttl_of(before)), state_backend=source).at(1_000)
    driver.run(FILL)
    blob = driver.harness.snapshot()
    driver.harness.close()

    # A harness restores at time 0, a stream at the time of its first batch.
    stream = Stream(Probe(*five_states(ttl_of(after))), target, 4, savepoint=blob, now=restored_at)
    for time, expected in ((alive_at, FULL), (dead_at, EMPTY)):
        if time is not None:
            ((*_, found),) = stream.batch([Record("k", READ)], time, 0)
            assert expected == found, time
    stream.close()


def of_kind(kind: Any, ttl: int | None = None) -> Any:
    """A descriptor with or without a TTL."""
    kind.enable_time_to_live(ttl_of(ttl))
    return kind


@between_backends
@pytest.mark.parametrize(
    ("stored", "declared", "what"),
    [
        (
            ValueStateDescriptor("s", Types.LONG()),
            ValueStateDescriptor("s", Types.INT()),
            "value type",
        ),
        (
            ValueStateDescriptor("s", Types.LONG()),
            ReducingStateDescriptor("s", max, Types.LONG()),
            "kind",
        ),
        (
            ListStateDescriptor("s", Types.LONG()),
            ListStateDescriptor("s", Types.STRING()),
            "value type",
        ),
        (
            MapStateDescriptor("s", Types.LONG(), Types.LONG()),
            MapStateDescriptor("s", Types.STRING(), Types.LONG()),
            "user key type",
        ),
        (
            MapStateDescriptor("s", Types.LONG(), Types.LONG()),
            MapStateDescriptor("s", Types.LONG(), Types.STRING()),
            "value type",
        ),
    ],
    ids=["value", "kind", "element", "user key", "map value"],
)
@pytest.mark.parametrize("ttl", [None, 100])
def test_a_changed_type_is_refused(source, target, stored, declared, what, ttl):
    """By name, with what was stored, also where the TTL is another now."""

    def write(state, _):
        if isinstance(stored, MapStateDescriptor):
            state.put(1, 1)
        elif isinstance(stored, ListStateDescriptor):
            state.add(1)
        else:
            state.update(1)

    driver = drive(stored, state_backend=source)
    driver.run(write)
    blob = driver.harness.snapshot()
    driver.harness.close()
    with pytest.raises(IncompatibleStateError, match=f"state 's': restored state keeps the {what}"):
        drive(of_kind(declared, ttl), restore=blob, state_backend=target)
    with pytest.raises(IncompatibleStateError, match=f"state 's': restored state keeps the {what}"):
        Stream(Probe(of_kind(declared, ttl)), target, 4, savepoint=blob)


@between_backends
def test_timers_of_both_domains_are_restored(source, target):
    """Each fires once, in the harness and in a stream."""

    def register(_, ctx):
        ctx.timer_service().register_event_time_timer(5)
        ctx.timer_service().register_processing_time_timer(7)

    driver = drive(state_backend=source)
    for key in "ab":
        driver.of(key).run(register)
    blob = driver.harness.snapshot()
    driver.harness.close()
    restored = Harness(Probe(), target, 2, blob, 0)
    stream = Stream(Probe(), target, 3, savepoint=blob)
    expected = [
        (key, at, domain)
        for key in "ab"
        for at, domain in ((5, "EVENT_TIME"), (7, "PROCESSING_TIME"))
    ]
    for host in (restored, stream):
        assert [] == host.batch([], 4, 4)
        assert expected == sorted(host.batch([], 9, 9))
        assert [] == host.batch([], 10, 10)
        host.close()


@between_backends
def test_states_that_are_not_declared_come_along(source, target):
    """Through a stream that knows nothing of them."""
    driver = drive(*five_states(ttl_of(100)), state_backend=source)
    for key in "abcdef":
        driver.of(key).run(FILL)
    stream = Stream(Probe(), target, 3, savepoint=driver.harness.snapshot())
    stream.batch(
        [
            Record(key, lambda _, ctx: ctx.timer_service().register_event_time_timer(9))
            for key in "abc"
        ],
        0,
        0,
    )
    again = drive(*five_states(ttl_of(100)), restore=stream.savepoint(), state_backend=source)
    assert [FULL] * 6 == [again.of(key).run(READ)[-1] for key in "abcdef"]
    assert 3 == again.harness.num_event_time_timers()
    for each in (driver.harness, stream, again.harness):
        each.close()


# A warm working state that was written under another declaration


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("before", "after"), [(None, 100), (100, None), (100, 50)])
def test_warm_state_is_not_read_under_another_ttl(backend, before, after, tmp_path):
    """Entries with stamps and without never take each other's place, although owner and nonce are the same."""
    if isinstance(backend, EmbeddedRocksDBStateBackend):
        backend = EmbeddedRocksDBStateBackend()
        backend.set_db_storage_paths(str(tmp_path))
    task = Task(Probe(), backend)

    def run(ttl, now, script):
        task.function = Probe(*five_states(ttl_of(ttl)))
        (found,) = task.serve([("k", Record("k", script), None)], processing_time=now)
        return found[-1]

    run(before, 1_000, FILL)
    assert FULL == run(after, 1_040, READ)
    assert (EMPTY if after == 50 else FULL) == run(after, 1_050, READ)
