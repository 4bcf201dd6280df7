# SPDX-License-Identifier: Apache-2.0
"""A batch over history and a stream that goes on: as one pass through the stream."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from history_support import Event, HistoryQuery, first_watermark
from hypothesis import example, given, settings
from hypothesis import strategies as s
from relay import Relay, instant

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    MapStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.spark import key_by
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.windows import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
)

OUTPUT = "key string, ts timestamp, n long, trace string"
WINDOWED = "n long, trace string"
_CLOCKS = StateTtlConfig.TtlTimeCharacteristic


class Expiring(KeyedProcessFunction):
    """Shows what is left of states that expire by either clock, and has timers of one of them."""

    def __init__(self, *, processing_timers: bool = False) -> None:
        self.processing_timers = processing_timers

    def open(self, runtime_context: Any) -> None:
        self.states = []
        for name, clock in [("event", _CLOCKS.EventTime), ("wall", _CLOCKS.ProcessingTime)]:
            ttl = StateTtlConfig.new_builder(Time.milliseconds(9)).set_ttl_time_characteristic(
                clock
            )
            descriptor = ValueStateDescriptor(name, Types.LONG())
            descriptor.enable_time_to_live(ttl.build())
            self.states.append(runtime_context.get_state(descriptor))
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.LONG(), Types.LONG())
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        left = [state.value() for state in self.states]
        for state in self.states:
            if value.n % 3:
                state.update(value.n)
        self.seen.put(value.n, (self.seen.get(value.n) or 0) + 1)
        if self.processing_timers:
            # For event timers Spark would wait until the wall clock moves, which stands still here.
            # One that is due already fires behind the record.
            wait = -1 if value.n == 9 else value.n + 1
            timers.register_processing_time_timer(timers.current_processing_time() + wait)
        else:
            timers.register_event_time_timer(ctx.timestamp() + value.n)
        yield value.key, instant(ctx.timestamp()), value.n, f"{left} {timers.current_watermark()}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        left = [state.value() for state in self.states]
        self.seen.remove(timestamp % 5)
        yield ctx.get_current_key(), instant(timestamp), len(list(self.seen.keys())), f"{left}"


class Listing(ProcessWindowFunction):
    """Lists what is in a window."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        listed = sorted(each.n for each in elements)
        yield len(listed), str(listed)


def relay(frame: Any, **options: Any) -> Any:
    """Elements and timers, with the watermarks that they see."""
    return key_by(frame, "key").process(Relay(2), OUTPUT, event_time="ts", **options)


def expiring(frame: Any, **options: Any) -> Any:
    """State that expires."""
    return key_by(frame, "key").process(
        Expiring(), OUTPUT, event_time="ts", processing_time_timers=False, **options
    )


def ticking(frame: Any, **options: Any) -> Any:
    """The same with processing timers."""
    function = Expiring(processing_timers=True)
    return key_by(frame, "key").process(
        function, OUTPUT, event_time="ts", processing_time_timers=True, **options
    )


def sessions(frame: Any, **options: Any) -> Any:
    """Session windows."""
    windows = key_by(frame, "key").window(EventTimeSessionWindows.with_gap(Time.milliseconds(4)))
    return windows.process(Listing(), WINDOWED, event_time="ts", **options)


def sessions_of_tumbling(frame: Any, **options: Any) -> Any:
    """Session windows behind tumbling ones."""
    tumbling = TumblingEventTimeWindows.of(Time.milliseconds(5))
    first = key_by(frame, "key").window(tumbling)
    counted = first.process(Listing(), WINDOWED, event_time="ts", **options)
    gap = EventTimeSessionWindows.with_gap(Time.milliseconds(8))
    second = key_by(counted, "key").window(gap)
    return second.process(Listing(), WINDOWED, event_time="window_time", **options)


BACKENDS = s.sampled_from([HashMapStateBackend(), EmbeddedRocksDBStateBackend()])
PROGRAMS = [relay, expiring, ticking, sessions, sessions_of_tumbling]
BEGIN = 1_000
NOW = 50_000

events = s.builds(Event, s.sampled_from("abc"), s.integers(BEGIN, BEGIN + 25), s.integers(0, 9))
PAST = [Event("a", BEGIN + at, n) for at, n in [(0, 1), (5, 0), (7, 4), (12, 9), (20, 2)]]
"""Timers are due before, at and behind the records that follow them."""
later = s.lists(s.tuples(s.lists(events, max_size=3), s.integers(1, 6)), max_size=4)


def moved(batches: list[tuple[list[Event], int]], by: int) -> list[tuple[list[Event], int]]:
    """The same some ms later, so that some are new and some are late."""
    return [
        ([Event(each.key, each.time + by, each.n) for each in records], wait)
        for records, wait in batches
    ]


def end_of(history: list[Event], batches: Any, delay: int) -> tuple[int, int]:
    """The clock in the last micro-batch: processing time and watermark."""
    every = [*history, *(each for records, _ in batches for each in records)]
    now = NOW + sum(wait for _, wait in batches) + 1
    return now, first_watermark(every, delay) or MIN_WATERMARK


def go_on(chain: Any, known: list[Event], delay: int, batches: Any) -> list[Any]:
    """Micro-batches under the watermarks that Spark makes of the records that it knows, then an end."""
    rows, now, known = [], NOW, list(known)
    if chain.stages[0].time_mode is TimeMode.PROCESSING_TIME:
        # Of a savepoint Spark learns in the first micro-batch, so timers fire in the next one.
        batches = [([], 0), *batches]
    for records, wait in [*batches, ([], 1)]:
        now += wait
        chain._time = now - 1
        rows.append(
            sorted(
                chain.batch([each.row() for each in records], first_watermark(known, delay)),
                key=repr,
            )
        )
        known += records
    return rows


def through_the_stream(query: HistoryQuery, history: list[Event], batches: Any) -> Any:
    """Rows of the history, rows of each later micro-batch, and all state, of one pass."""
    chain, rows = query.stream(), []
    by_time = (
        {time: [] for time in range(BEGIN, max(each.time for each in history) + 2)}
        if history
        else {}
    )
    for each in history:
        by_time[each.time].append(each.row())
    for time, records in by_time.items():
        chain._time = NOW - 1
        rows += chain.batch(records, max(time - 1 - query.delay, 0))
    after = go_on(chain, history, query.delay, batches)
    clock = end_of(history, batches, query.delay)
    return sorted(rows, key=repr), after, query.states(chain, *clock)


def history_first(query: HistoryQuery, history: list[Event], batches: Any, **planted: Any) -> Any:
    """The same of a batch and a stream that begins with its savepoint."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "savepoint"
        rows = query.read(history, NOW, path, tasks=planted.pop("tasks", 2))
        chain = query.stream(path, **planted)
        after = go_on(chain, [], query.delay, batches)
        clock = end_of(history, batches, query.delay)
        return sorted(rows, key=repr), after, query.states(chain, *clock)


@settings(max_examples=max(settings.default.max_examples // 5, 5))
@given(
    build=s.sampled_from(PROGRAMS),
    history=s.lists(events, max_size=12),
    batches=later,
    by=s.integers(0, 30),
    delay=s.integers(0, 7),
    backend=BACKENDS,
)
@example(relay, PAST, [], 0, 0, HashMapStateBackend())
@example(ticking, PAST, [], 0, 0, HashMapStateBackend())
@example(expiring, PAST, [], 0, 2, HashMapStateBackend())
def test_history_and_then_a_stream_are_one_pass(build, history, batches, by, delay, backend):
    """Rows, state and timers, whatever is late after the cut, on each backend."""
    query = HistoryQuery(
        lambda frame: build(frame, state_backend=backend, max_parallelism=3), delay
    )
    after = moved(batches, by)

    expected, actual = (each(query, history, after) for each in (through_the_stream, history_first))

    if build is sessions_of_tumbling:
        # A session that has grown keeps its timer until that fires, and in a batch the watermark of
        # a second operator is behind by the delay.
        for _, _, states in (expected, actual):
            for each in filter(None, states):
                each.pop("timers", None)
    # A stream that begins with a savepoint without entries stores nothing before its first record.
    assert nothing_as_empty(expected) == nothing_as_empty(actual)


def nothing_as_empty(outcome: Any) -> Any:
    """An operator that stored nothing so far is as one whose states are empty."""
    rows, after, states = outcome
    return rows, after, [each or {} for each in states]


def test_a_stream_that_forgets_the_watermark_of_the_history_is_found():
    """The law can fail: a late record would open a window again."""
    query = HistoryQuery(lambda frame: sessions(frame, max_parallelism=3), 0)
    history = [Event("a", BEGIN, 1), Event("a", BEGIN + 30, 2)]
    late = [([Event("a", BEGIN + 1, 3)], 1), ([Event("b", BEGIN + 60, 4)], 1)]

    expected = through_the_stream(query, history, late)

    assert expected == history_first(query, history, late)
    assert expected != history_first(query, history, late, least_watermark=MIN_WATERMARK)
