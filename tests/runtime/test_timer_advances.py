# SPDX-License-Identifier: Apache-2.0
"""An advance of a clock ends, whatever `on_timer` registers: in harness, stream and batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import Task

from pyflinklike import MAX_WATERMARK, KeyedProcessFunction, TimeDomain
from pyflinklike._clock import Clock
from pyflinklike._runtime.timer_queue import KeyedTimerService, TimerQueue
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import SparkSetupError, UserFunctionError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.testing import KeyedProcessHarness

EVENT, PROCESSING = "event_time_timer", "processing_time_timer"
domains = pytest.mark.parametrize("domain", [EVENT, PROCESSING])


class Timers(KeyedProcessFunction):
    """An element registers timers; a timer does what it is told, and yields its key and time."""

    def __init__(self, on_timer: Callable[[int, Any], None], domain: str) -> None:
        self.told = on_timer
        self.domain = domain

    def process_element(self, value: Any, ctx: Any) -> Any:
        for at in value if isinstance(value, list) else [value]:
            register(ctx, self.domain, at)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.told(timestamp, ctx)
        yield timestamp


def register(ctx: Any, domain: str, at: int) -> None:
    """Register a timer of this domain."""
    getattr(ctx.timer_service(), f"register_{domain}")(at)


def now(ctx: Any, domain: str) -> int:
    """The time of this domain."""
    service = ctx.timer_service()
    return service.current_watermark() if domain is EVENT else service.current_processing_time()


def again_now(domain: str) -> Timers:
    """Each timer registers one for the time that it is."""
    return Timers(lambda _, ctx: register(ctx, domain, now(ctx, domain)), domain)


def every_ten(domain: str, until: int = MAX_WATERMARK) -> Timers:
    """Each timer registers the next one, as long as there is to be one."""

    def next_one(at: int, ctx: Any) -> None:
        if at + 10 <= until:
            register(ctx, domain, at + 10)

    return Timers(next_one, domain)


def harness_of(function: Timers) -> KeyedProcessHarness:
    """All elements are of one key."""
    return KeyedProcessHarness(function, key_selector=lambda _: "k")


def advance(harness: KeyedProcessHarness, domain: str, time: int) -> list[Any]:
    """What fires when the clock of a domain comes to `time`."""
    if domain is EVENT:
        return harness.process_watermark(time)
    return harness.set_processing_time(time)


def test_a_processing_time_timer_for_now_waits_until_the_clock_goes_on() -> None:
    """Registered by every timer, it fires once in each advance."""
    with harness_of(again_now(PROCESSING)) as harness:
        harness.process_element(10)
        fired = [advance(harness, PROCESSING, time) for time in (100, 100, 200)]
    assert [[10], [100], [100]] == fired


def test_a_timer_that_registers_itself_for_ever_is_refused() -> None:
    """No advance goes on for ever."""
    with harness_of(again_now(EVENT)) as harness:
        harness.process_element(10)
        with pytest.raises(UserFunctionError, match="on_timer must come to an end, got more than"):
            advance(harness, EVENT, 100)


@pytest.mark.parametrize(("again", "is_refused"), [(3, False), (4, True)])
def test_a_timer_registers_the_time_that_fires_so_many_times(
    monkeypatch: pytest.MonkeyPatch, again: int, is_refused: bool
) -> None:
    """And not once more."""
    monkeypatch.setattr("pyflinklike._runtime.timer_queue._MOST_ROUNDS", 3)
    left = [10] * again

    def once_more(_: int, ctx: Any) -> None:
        if left:
            register(ctx, EVENT, left.pop())

    with harness_of(Timers(once_more, EVENT)) as harness:
        harness.process_element(10)
        if is_refused:
            with pytest.raises(UserFunctionError, match="got more than 3 timers"):
                advance(harness, EVENT, 10)
        else:
            assert [10] * 4 == advance(harness, EVENT, 10)


@domains
def test_a_periodic_timer_catches_up(domain: str) -> None:
    """All its times up to now fire in one advance."""
    with harness_of(every_ten(domain)) as harness:
        harness.process_element(10)
        fired = [advance(harness, domain, time) for time in (35, 39, 40)]
    assert [[10, 20, 30], [], [40]] == fired


def serve(task: Task, time: int, records: list[Any]) -> list[int]:
    """One micro-batch in which both clocks say the same."""
    return task.serve([("k", each, None) for each in records], processing_time=time, watermark=time)


def test_on_a_stream_a_timer_for_now_goes_on_with_the_next_arrival_of_the_time() -> None:
    """A micro-batch's times arrive before its records, and after them if it has any."""
    task = Task(again_now(PROCESSING), HashMapStateBackend())
    fired = [serve(task, 100, [10]), serve(task, 200, []), serve(task, 300, [250])]
    assert [[10], [100], [200, 250, 300]] == fired


def test_on_a_stream_timers_of_both_domains_that_register_one_another_come_to_an_end() -> None:
    """What a timer makes due in the other domain waits for that clock."""

    def other(_: int, ctx: Any) -> None:
        own = EVENT if ctx.time_domain() is TimeDomain.EVENT_TIME else PROCESSING
        domain = PROCESSING if own is EVENT else EVENT
        register(ctx, domain, now(ctx, domain))

    task = Task(Timers(other, EVENT), HashMapStateBackend())
    fired = [serve(task, 100, [10]), serve(task, 200, []), serve(task, 200, [])]
    assert [[10, 100], [100, 200], [200, 200]] == fired


def test_at_the_end_of_the_input_a_chain_of_timers_fires_to_its_end() -> None:
    """Each registers the next one, as far as it goes."""
    with harness_of(every_ten(EVENT, until=1_000_000)) as harness:
        harness.process_element(10)
        assert list(range(10, 1_000_001, 10)) == harness.end_of_input()


@pytest.fixture
def _few_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand timers are too many here, where a million are in earnest."""
    monkeypatch.setattr("pyflinklike._runtime.timer_queue.MOST_AT_THE_END", 1_000)


@pytest.mark.usefixtures("_few_at_the_end")
def test_timers_without_end_are_refused_at_the_end_of_the_input() -> None:
    """A periodic one would be due until the end of time."""
    with harness_of(every_ten(EVENT)) as harness:
        harness.process_element(10)
        with pytest.raises(
            UserFunctionError, match="must come to an end when time does, got more than 1,000"
        ):
            harness.end_of_input()


@pytest.mark.usefixtures("_few_at_the_end")
def test_at_the_end_of_the_input_any_number_of_registered_timers_fires() -> None:
    """Only those that `on_timer` registers are counted: here more than that are there before."""
    queue = queue_of({})
    for at in range(1_002):
        queue.register(at)
    assert (1_002, 0) == (sum(1 for _ in queue.due(MAX_WATERMARK)), queue.count())


# The queue itself


def queue_of(
    agendas: dict[TimeDomain, Any],
    current: CurrentKey | None = None,
    domain: TimeDomain = TimeDomain.EVENT_TIME,
) -> TimerQueue:
    """The timers of a backend, in a key group."""
    backend = HashMapStateBackend().create_keyed_state_backend(current or CurrentKey("k"), "tested")
    queue = TimerQueue(domain, backend)
    queue.enter(agendas)
    return queue


def test_deleted_timers_of_a_far_future_do_not_pile_up() -> None:
    """Each element may move its timer."""
    agendas: dict[TimeDomain, Any] = {}
    queue = queue_of(agendas)
    for at in range(10_000):
        queue.register(at)
        queue.delete(at - 1)
    agenda = agendas[TimeDomain.EVENT_TIME]
    assert len(agenda.times) < 1_000
    assert ({9_999: {"k": None}}, 9_999) == (agenda.keys_at, queue.earliest())


def test_a_deleted_timer_is_not_the_earliest() -> None:
    """A host would be woken without need."""
    queue = queue_of({})
    queue.register(1)
    queue.register(2)
    queue.delete(1)
    assert 2 == queue.earliest()


def test_a_timer_registered_again_is_not_logged_again() -> None:
    """Nothing has changed."""
    queue = queue_of({})
    queue.register(1)
    queue.table.drain()
    queue.register(1)
    assert 0 == len(queue.table.drain())


def test_a_domain_whose_timers_the_host_cannot_fire_refuses_them() -> None:
    """With the host's error; the other domain's are registered."""
    queue = queue_of({})
    other = queue_of({}, domain=TimeDomain.PROCESSING_TIME)
    refused = {TimeDomain.PROCESSING_TIME: SparkSetupError("use event time")}
    service = KeyedTimerService(Clock(), queue, other, refused)
    service.register_event_time_timer(1)
    with pytest.raises(SparkSetupError, match="use event time"):
        service.register_processing_time_timer(1)
    assert (1, 0) == (queue.count(), other.count())


def test_timers_of_a_warm_group_outlive_the_dropping_of_idle_times() -> None:
    """What is registered after it is still there when the group is used again."""
    agendas: dict[TimeDomain, Any] = {}
    queue = queue_of(agendas)
    for at in range(1_000):
        queue.register(10_000 + at)
        queue.delete(10_000 + at)
    queue.register(7)
    queue.register(5)
    queue.enter(agendas)
    assert (5, [5, 7]) == (queue.earliest(), list(queue.due(9)))


def test_idle_times_are_dropped_while_timers_fire() -> None:
    """Those that wait for the next advance stay, those that are due still fire."""
    queue = queue_of({}, domain=TimeDomain.PROCESSING_TIME)
    for at in (10, 20, 30):
        queue.register(at)
    fired = []
    for at in queue.due(25):
        fired.append(at)
        queue.register(25)
        for far in range(1_000):
            queue.register(100 + far)
            queue.delete(100 + far)
    assert [10, 20] == fired
    assert ([25], [30]) == (list(queue.due(25)), list(queue.due(99)))


def test_what_did_not_fire_is_still_due() -> None:
    """Where an advance is ended early, beside what was registered at the same time meanwhile."""
    current = CurrentKey()
    queue = queue_of({}, current)
    for current.key in "abc":
        queue.register(10)
        queue.register(20)
    due = queue.due(15)
    next(due)
    first = current.key
    queue.register(10)
    due.close()
    rest = [(current.key, at) for at in queue.due(15)]
    assert {("a", 10), ("b", 10), ("c", 10)} == set(rest)
    assert (3, True, 3) == (len(rest), first in "abc", queue.count())


def test_timers_of_the_time_at_which_one_failed_are_still_due() -> None:
    """The one that failed is gone, as it was removed before it ran."""
    current = CurrentKey()
    queue = queue_of({}, current)
    for current.key in "abc":
        queue.register(10)
    due = queue.due(15)
    next(due)
    failed = current.key
    due.close()
    assert 10 == queue.earliest()
    rest = [(current.key, at) for at in queue.due(15)]
    assert {("a", 10), ("b", 10), ("c", 10)} - {(failed, 10)} == set(rest)
    assert (2, 0) == (len(rest), queue.count())


keys, times = st.sampled_from("ab"), st.integers(0, 8)
# What each timer does when it fires for the first time: (verb, time) of its own key.
acts = st.dictionaries(
    st.tuples(keys, times),
    st.lists(st.tuples(st.sampled_from(["register", "delete"]), times), max_size=3),
)


@given(
    domain=st.sampled_from(TimeDomain), timers=st.sets(st.tuples(keys, times)), acts=acts,
    advances=st.lists(times, max_size=4), lose=st.booleans(),
)  # fmt: skip
def test_an_advance_fires_what_a_model_says(
    domain: TimeDomain,
    timers: set[tuple[str, int]],
    acts: dict[tuple[str, int], list[tuple[str, int]]],
    advances: list[int],
    lose: bool,
) -> None:
    """The first that is due, until none is; but for processing-time timers registered for now."""
    current = CurrentKey()
    agendas: dict[TimeDomain, Any] = {}
    queue = queue_of(agendas, current, domain)
    for current.key, at in sorted(timers):
        queue.register(at)
    model = set(timers)
    for time in advances:
        waiting: set[tuple[str, int]] = set()
        for at in queue.due(time):
            timer = (current.key, at)
            due = {each for each in model - waiting if each[1] <= time}
            # Those of equal time fire in any order: the model follows.
            assert (True, min(each[1] for each in due)) == (timer in due, at)
            model.discard(timer)
            before = set(model)
            for verb, other in acts.pop(timer, []):
                getattr(queue, verb)(other)
                getattr(model, "add" if verb == "register" else "discard")((current.key, other))
            if domain is TimeDomain.PROCESSING_TIME:
                waiting |= {(current.key, time)} & (model - before)
        assert set() == {each for each in model - waiting if each[1] <= time}
        assert model == {(key, at) for key, at, _ in queue.table.scan()}
        assert min((at for _, at in model), default=None) == queue.earliest()
        if lose:
            agendas.clear()
        queue.enter(agendas)
