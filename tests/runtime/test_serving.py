# SPDX-License-Identifier: Apache-2.0
"""The life of a key group: what a micro-batch does in which order, and how a group begins."""

from __future__ import annotations

from typing import Any

import pytest
import tasks

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._changelog.segments import Segment, read_segment
from pyflinklike._clock import MIN_WATERMARK, TimeDomain
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import (
    PreWatermarkRecords,
    Records,
    TimerScheduling,
    UnsortedRecords,
    begin,
    commit,
    end_bounded,
    enter_bounded,
    serve,
)
from pyflinklike.errors import UserFunctionError
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness


class Sum(KeyedProcessFunction):
    """Adds up; an element below 0 registers a timer in both domains for its amount."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        if value == 0:
            raise ValueError(value)
        if value < 0:
            ctx.timer_service().register_event_time_timer(-value)
            ctx.timer_service().register_processing_time_timer(-value)
        else:
            self.total.update((self.total.value() or 0) + value)
            yield "total", self.total.value()

    def on_timer(self, timestamp, ctx):
        yield ctx.time_domain().name, timestamp


@pytest.fixture
def operator() -> KeyedProcessOperator:
    """An operator that is open and has nothing warm."""
    return opened()


def opened(function: KeyedProcessFunction | None = None) -> KeyedProcessOperator:
    """Another one, as of another worker."""
    return tasks.opened(function or Sum())


def records(*values: int, key: str = "k") -> Records:
    """Of one key, without times."""
    return Records([key] * len(values), values, [None] * len(values))


def outputs(operator: KeyedProcessOperator) -> list[Any]:
    """What was yielded since the last look."""
    return operator.outputs.take().main


def snapshot(key: str, value: int) -> Segment:
    """A savepoint with the total of one key."""
    with KeyedProcessHarness(Sum(), key_selector=lambda _: key, key_type=Types.STRING()) as harness:
        harness.process_element(value)
        return read_segment(harness.snapshot(), "test")


def test_what_is_due_fires_before_the_records_and_what_they_make_due_after(operator):
    """Both clocks have moved before either."""
    storage = InMemoryLogStorage()
    serve(operator, storage, 0, records(-10))
    operator.group.cache()
    operator.clock.watermark = operator.clock.processing_time = 20
    serve(operator, storage, 0, records(5, -15))

    assert [
        *[("EVENT_TIME", 10), ("PROCESSING_TIME", 10)],
        ("total", 5),
        *[("EVENT_TIME", 15), ("PROCESSING_TIME", 15)],
    ] == outputs(operator)


def test_early_records_come_before_what_is_due_under_the_watermark_before(operator):
    """What they make due fires with the rest; all of that is emitted before the watermark."""
    storage = InMemoryLogStorage()
    early = PreWatermarkRecords(records(-10, 1), 5)
    operator.clock.watermark = 20
    serve(operator, storage, 0, records(2), early=early)
    before, after = operator.outputs.take_apart()

    assert [("total", 1), ("EVENT_TIME", 10)] == before.main
    assert [("total", 3)] == after.main
    assert 20 == operator.clock.watermark


def test_early_records_are_late_by_the_watermark_before(operator):
    """Those of a time that it had reached are counted, in whatever order they come."""
    early = PreWatermarkRecords(UnsortedRecords(["k"] * 4, [1] * 4, [6, None, 5, 4]), 5)
    operator.clock.watermark = 20
    serve(operator, InMemoryLogStorage(), 0, Records(["k"], [1], [20]), early=early)

    assert 3 == operator.metrics.late_records


def test_a_micro_batch_tells_the_heads_before_and_after_it(operator):
    """A host replaces the timer of the one by that of the other."""
    storage = InMemoryLogStorage()
    first = serve(operator, storage, 0, records(1))
    second = serve(operator, storage, 0, records(2))

    assert (None, second.former) == (first.former, first.head)
    assert storage.head is second.head


def test_what_the_caller_has_kept_is_used_instead_of_what_the_backend_has(operator):
    """A group that is begun anew has nothing of the one before."""
    storage = InMemoryLogStorage()
    serve(operator, storage, 0, records(1))
    operator.group.cache()
    serve(operator, InMemoryLogStorage(), KeyGroupState(0), records(2))

    assert [("total", 1), ("total", 2)] == outputs(operator)


def test_nothing_is_committed_if_the_function_raises(operator):
    """Neither a segment nor a head."""
    storage = InMemoryLogStorage()
    with pytest.raises(UserFunctionError, match=r"Sum\.process_element failed for key 'k'"):
        serve(operator, storage, 0, records(1, 0))

    assert InMemoryLogStorage() == storage


def test_a_host_that_calls_by_a_time_notes_when_it_must(operator):
    """Its policy decides, and nothing is noted for a host without one."""
    waking = TimerScheduling(TimeDomain.EVENT_TIME, lambda operator, sweep_at: (sweep_at or 0) + 70)
    storage = InMemoryLogStorage()
    served = serve(operator, storage, 0, records(1), waking=waking, served_at=9)
    assert (70, 9) == (served.head.wake_at, served.head.served_at)

    served = serve(operator, storage, 0, records(1))

    assert (None, 9) == (served.head.wake_at, served.head.served_at)


def test_a_group_begins_with_all_that_a_savepoint_holds_of_it(operator):
    """Also where it is in two snapshots."""
    storage = InMemoryLogStorage()
    begin(operator, storage, 0, snapshot("a", 3), served_at=1)
    operator.group.cache()
    begin(operator, storage, 0, snapshot("b", 4), served_at=1)
    cold = opened()
    for key in "ab":
        serve(cold, storage, 0, records(10, key=key))

    assert [("total", 13), ("total", 14)] == outputs(cold)


def test_a_savepoint_does_not_replace_what_is_newer(operator):
    """A query that goes on from its checkpoint is handed the savepoint again."""
    storage = InMemoryLogStorage()
    serve(operator, storage, 0, records(1), served_at=1)
    before = storage.copy()

    assert None is begin(operator, storage, 0, snapshot("k", 3), served_at=2)
    assert before == storage


def test_what_a_group_begins_with_is_written_once(operator):
    """A further snapshot of a savepoint is a further segment; those before stay as they are."""
    storage = InMemoryLogStorage()
    begin(operator, storage, 0, snapshot("a", 3), served_at=1)
    operator.group.cache()
    first = dict(storage.segments)
    served = begin(operator, storage, 0, snapshot("b", 4), served_at=1)

    assert {0: first[0]} == {0: storage.segments[0]} == first
    assert [0, 1] == [*storage.segments]
    assert 2 == served.head.log_entries


def test_each_group_of_a_bounded_input_begins_before_any_event(operator):
    """Without state, whatever was entered before under the same number."""
    enter_bounded(operator, 0, processing_time=50)
    operator.process(*records(1))
    end_bounded(operator)
    enter_bounded(operator, 0, processing_time=60)
    operator.process(*records(1))

    assert [("total", 1), ("total", 1)] == outputs(operator)
    assert (MIN_WATERMARK, 60) == (operator.clock.watermark, operator.clock.processing_time)


def test_at_the_end_of_a_bounded_input_stores_flush():
    """What their caches hold goes to the changelog."""
    descriptor = KeyValueStoreDescriptor("kept", Types.STRING(), Types.LONG(), caching=True)

    class Keeps(KeyedProcessFunction):
        def open(self, runtime_context):
            self.store = runtime_context.get_store(descriptor)

        def process_element(self, value, ctx):
            self.store.put("a", value)

    operator = opened(Keeps())
    enter_bounded(operator, 0, processing_time=50)
    operator.process(*records(1, 2))
    end_bounded(operator)
    _, sent = operator.outputs.take().side[descriptor.changelog_tag.tag_id]

    assert [(("k", "a"), 2)] == [(each.key, each.value) for each in sent]


def test_a_commit_by_itself_logs_what_changed(operator):
    """For hosts that process records one by one."""
    storage = InMemoryLogStorage()
    operator.load(storage, None, 0)
    operator.process(*records(7))
    commit(operator, storage, None)
    cold = opened()
    serve(cold, storage, 0, records(1))

    assert [("total", 8)] == outputs(cold)
