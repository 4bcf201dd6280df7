# SPDX-License-Identifier: Apache-2.0
"""Programs of every kind that go on from a snapshot or from a directory of a savepoint.

Each program is driven up to a point and its state is saved; a restored harness is driven further.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from all_states import AllStates
from two_input_support import Enrich
from window_support import Contents, Sum, processed

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Row,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.aggregations import Fold, Max, MinBy
from pyflinklike.aggregations import Sum as SumOf
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.joins import (
    CoGrouping,
    IntervalJoin,
    JoinBounds,
    JoinedGroups,
    ProcessJoinFunction,
    TaggedTypeInfo,
)
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.testing import BroadcastHarness, KeyedProcessHarness, KeyedTwoInputHarness
from pyflinklike.windows import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    count_window,
    window,
)

BACKENDS: dict[str, Callable[[], Any]] = {
    "heap": HashMapStateBackend,
    "rocksdb": EmbeddedRocksDBStateBackend,
}
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())

Step = tuple[Any, ...]
"""A method of a harness and its arguments."""


def _first(element: Any) -> Any:
    return element[0]


@attrs.frozen
class Program:
    """A function in its harness, and what it is given.

    Args:
        make: Opens the harness, with `state_backend` and `restore`.
        before: Steps up to the snapshot.
        after: Steps behind it.
    """

    make: Callable[..., Any]
    before: list[Step]
    after: list[Step]


class Values(KeyedProcessFunction):
    """Value, list and map state with a TTL, and timers of both clocks.

    Args:
        ttl: Of each state, or None.
    """

    def __init__(self, ttl: Any = None) -> None:
        self.ttl = ttl

    def open(self, runtime_context: Any) -> None:
        descriptors = (
            ValueStateDescriptor("value", Types.LONG()),
            ListStateDescriptor("list", Types.STRING()),
            MapStateDescriptor("map", Types.STRING(), Types.LONG()),
        )
        for each in descriptors:
            if self.ttl is not None:
                each.enable_time_to_live(self.ttl)
        value, elements, entries = descriptors
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(elements)
        self.map = runtime_context.get_map_state(entries)

    def process_element(self, value: Any, ctx: Any) -> Any:
        number = value[1]
        yield "before", self._read()
        if number >= 0:
            self.value.update((self.value.value() or 0) + number)
            self.list.add(str(number))
            self.map.put(str(number % 3), number)
            ctx.timer_service().register_event_time_timer(number * 10)
            ctx.timer_service().register_processing_time_timer(number * 10 + 1)
        if number % 5 == 4:
            self.list.clear()
            self.map.remove("1")

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp, ctx.time_domain().name, self._read()

    def _read(self) -> Any:
        return self.value.value(), list(self.list.get()), dict(self.map.items())


class Limits(KeyedBroadcastProcessFunction):
    """The sum of each key, and the limits it is above."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        limits = ctx.get_broadcast_state(LIMITS).items()
        yield value[0], self.total.value(), sorted(name for name, most in limits if value[1] > most)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(LIMITS).put(*value)


class Columns(KeyedBatchFunction):
    """A running count by key and word as columns, a count by key, and timers."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_column_state(ValueStateDescriptor("count", Types.LONG()))
        words = MapStateDescriptor("words", Types.STRING(), Types.LONG())
        self.words = ctx.get_column_map_state(words)

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        groups, words = batch.groups, self.words.at(batch["word"])
        counts = groups.spread(self.count.get(0)) + groups.rank() + 1
        of_word = words.groups.spread(words.get(0)) + words.groups.rank() + 1
        self.count.put(groups.last(counts))
        words.put(words.groups.last(of_word))
        ctx.timer_service().register_event_time_timer(batch.numpy("at") + 20, codes=groups.codes)
        return {"key": batch["key"], "count": counts, "of_word": of_word}

    def on_timers(self, batch: Any, ctx: Any) -> Any:
        return {"key": batch["key"], "count": self.count.get(0), "of_word": batch.timestamps}


class Gap(SessionWindowTimeGapExtractor):
    """From 3 to 6 ms, by the number of an element."""

    def extract(self, element: Any) -> int:
        return 3 + int(element[1]) % 4


def _batch(*records: tuple[str, str, int]) -> Step:
    keys, words, times = zip(*records)
    return "process_batch", {"key": list(keys), "word": list(words), "at": list(times)}


class Pairs(ProcessJoinFunction):
    """The times of both."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left and left[1], right and right[1]


def _ttl(*, is_event: bool) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(Time.milliseconds(100))
    if is_event:
        builder.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)
    return builder.build()


def _keyed(function: Callable[[], Any], before: list[Step], after: list[Step]) -> Program:
    return Program(
        lambda **options: KeyedProcessHarness(function(), _first, **options), before, after
    )


def _elements(*times: int, keys: str = "ab") -> list[Step]:
    return [("process_element", (key, time), time) for time in times for key in keys]


def _windowed(operator: Callable[[], Any]) -> Program:
    return _keyed(
        operator,
        [("set_processing_time", 3), *_elements(1, 4, 12, 13, 21), ("process_watermark", 11)],
        [
            ("set_processing_time", 4),
            ("process_watermark", 11),
            *_elements(14, 22, 17, 40),
            ("set_processing_time", 60),
            ("process_watermark", 30),
            *_elements(26, 41),
            ("end_of_input",),
        ],
    )


def _values(ttl: Any) -> Program:
    return _keyed(
        lambda: Values(ttl),
        [
            *(("set_processing_time", 30), ("process_watermark", 20)),
            *_elements(1, 4, 7),
            *(
                ("set_processing_time", 90),
                ("process_watermark", 80),
                ("process_element", ("b", 9), 9),
            ),
        ],
        [
            *(("set_processing_time", 95), ("process_watermark", 85)),
            *_elements(-1),
            *(("set_processing_time", 150), ("process_watermark", 140)),
            *_elements(-1, 3, -1),
            ("end_of_input",),
        ],
    )


def _interval_join(how: str) -> Program:
    def make(**options: Any) -> Any:
        bounds = JoinBounds(-2, 1)
        join = IntervalJoin(Pairs(), bounds, how, left_type=PAIR, right_type=PAIR)
        return KeyedTwoInputHarness(join, _first, **options)

    def given(*elements: tuple[int, int]) -> list[Step]:
        return [(f"process_element{side}", ("k", at), at) for side, at in elements]

    return Program(
        make,
        [*given((1, 10), (2, 11), (1, 13), (2, 16)), ("process_both_watermarks", 11)],
        [
            ("process_both_watermarks", 11),
            *given((2, 12), (1, 15), (1, 30), (2, 33)),
            ("end_of_input1",),
            ("end_of_input2",),
        ],
    )


def _window_join() -> Any:
    groups = JoinedGroups(lambda one, two: (one and one[1], two and two[1]), "full_outer")
    assigner = TumblingEventTimeWindows.of(5)
    return window(assigner, TaggedTypeInfo(PAIR, PAIR)).process(CoGrouping(groups))


def _joined(join: Callable[[], Any]) -> Program:
    def given(*elements: tuple[int, int]) -> list[Step]:
        return [("process_element", (side, ("k", at)), at) for side, at in elements]

    return Program(
        lambda **options: KeyedProcessHarness(join(), lambda each: each[1][0], **options),
        [*given((1, 10), (2, 11), (1, 13), (2, 16)), ("process_watermark", 11)],
        [("process_watermark", 11), *given((2, 12), (1, 15), (1, 30)), ("end_of_input",)],
    )


def _fold(function: Callable[[], Any], **options: Any) -> Program:
    kind = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.LONG()])

    def rows(*pairs: tuple[str, int]) -> list[Step]:
        return [("process_element", Row(k=key, n=n)) for key, n in pairs]

    return _keyed(
        lambda: Fold(function(), kind, **options),
        rows(("a", 5), ("b", 7), ("a", 2)),
        [*rows(("a", 3), ("c", 8)), ("end_of_input",)],
    )


_TEN = TumblingEventTimeWindows.of(10)
_SESSION = EventTimeSessionWindows.with_gap(5)

PROGRAMS: dict[str, Program] = {
    "values": _values(None),
    "values with a TTL": _values(_ttl(is_event=False)),
    "values with a TTL of event time": _values(_ttl(is_event=True)),
    "every state and store": Program(
        lambda **options: KeyedProcessHarness(AllStates(), _first, **options),
        [
            *(("process_element", Row(user=f"u{1 + n % 3}", n=n)) for n in range(40)),
            ("process_element", Row(user="u1", n=-1)),
        ],
        [
            *(("process_element", Row(user=f"u{n}", n=-1)) for n in range(1, 4)),
            *(("process_element", Row(user=f"u{1 + n % 3}", n=n)) for n in range(40, 55)),
            *(("process_element", Row(user=f"u{n}", n=-1)) for n in range(1, 4)),
        ],
    ),
    "two inputs": Program(
        lambda **options: KeyedTwoInputHarness(Enrich(), _first, **options),
        [
            ("process_element1", ("a", 1), 1),
            ("process_element1", ("b", 2), 2),
            ("process_element2", ("a", "Ann"), 2),
            ("process_both_watermarks", 2),
        ],
        [
            ("process_both_watermarks", 2),
            ("process_element1", ("a", 3), 3),
            ("process_element2", ("b", "Bob"), 3),
            ("process_element1", ("c", 4), 4),
            ("end_of_input1",),
            ("end_of_input2",),
        ],
    ),
    "broadcast": Program(
        lambda **options: BroadcastHarness(Limits(), [LIMITS], _first, **options),
        [
            ("process_broadcast_element", ("low", 3), 1),
            ("process_element", ("a", 4), 1),
            ("process_broadcast_element", ("high", 9), 2),
        ],
        [("process_element", ("a", 10), 3), ("process_element", ("b", 3), 3)],
    ),
    "columns": Program(
        lambda **options: KeyedBatchHarness(Columns(), "key", "at", **options),
        [_batch(("a", "x", 1), ("b", "y", 2), ("a", "x", 3)), ("process_watermark", 5)],
        [
            ("process_watermark", 5),
            _batch(("a", "y", 6), ("b", "y", 7), ("c", "x", 8)),
            ("process_watermark", 22),
            ("end_of_input",),
        ],
    ),
    **{
        f"windows: {name}": _windowed(operator)
        for name, operator in {
            "tumbling": lambda: processed(_TEN),
            "tumbling, late": lambda: processed(_TEN, allowed_lateness=7),
            "tumbling, aggregated": lambda: window(_TEN, PAIR).aggregate(Sum()),
            "tumbling, reduced": lambda: window(_TEN, PAIR).reduce(max),
            "tumbling by the clock": lambda: processed(TumblingProcessingTimeWindows.of(10)),
            "sliding": lambda: processed(SlidingEventTimeWindows.of(10, 4)),
            "sliding by the clock": lambda: processed(SlidingProcessingTimeWindows.of(10, 4)),
            "sessions": lambda: processed(_SESSION),
            "sessions, late": lambda: processed(_SESSION, allowed_lateness=7),
            "sessions, reduced": lambda: window(_SESSION, PAIR).reduce(max),
            "sessions by the clock": lambda: processed(ProcessingTimeSessionWindows.with_gap(5)),
            "sessions of several gaps": lambda: processed(
                DynamicEventTimeSessionWindows.with_dynamic_gap(Gap())
            ),
            "global, by a count": lambda: processed(
                GlobalWindows.create(), trigger=PurgingTrigger(CountTrigger.of(3))
            ),
            "global, by a count, evicted": lambda: processed(
                GlobalWindows.create(), trigger=CountTrigger.of(2), evictor=CountEvictor.of(3)
            ),
            "tumbling, evicted": lambda: processed(_TEN, evictor=CountEvictor.of(2)),
            "tumbling, continuous": lambda: processed(
                _TEN, trigger=ContinuousEventTimeTrigger.of(3)
            ),
            "tumbling, purging": lambda: processed(
                _TEN, trigger=PurgingTrigger(EventTimeTrigger.create()), allowed_lateness=9
            ),
            "of a count": lambda: count_window(4).process(Contents()),
            "of a count, sliding": lambda: count_window(4, 3).process(Contents()),
        }.items()
    },
    **{
        f"interval join: {how}": _interval_join(how)
        for how in ("inner", "left_outer", "right_outer", "full_outer")
    },
    "window join": _joined(_window_join),
    "running sum": _fold(lambda: SumOf("n")),
    "running maximum": _fold(lambda: Max("n")),
    "final sum": _fold(lambda: SumOf("n"), running=False),
    "final minimum": _fold(lambda: MinBy("n"), running=False),
}


def backends_of(name: str) -> list[str]:
    """The backends that a program runs on: columns are on the heap."""
    return ["heap"] if name == "columns" else list(BACKENDS)


def _shown(outputs: Any) -> str:
    return repr(outputs.to_pylist() if isinstance(outputs, pa.Table) else outputs)


def _drive(harness: Any, steps: list[Step]) -> list[str]:
    return [_shown(getattr(harness, name)(*arguments)) for name, *arguments in steps]


def written(program: Program, backend: str) -> bytes:
    """The snapshot of a program before it goes on."""
    with program.make(state_backend=BACKENDS[backend]()) as harness:
        _drive(harness, program.before)
        snapshot: bytes = harness.snapshot()
        return snapshot


def saved(program: Program, backend: str, folder: Path) -> None:
    """The same as a directory of Parquet files."""
    with program.make(state_backend=BACKENDS[backend]()) as harness:
        _drive(harness, program.before)
        write_savepoint(harness, folder)


def outputs_after(program: Program, backend: str, snapshot: bytes | Path) -> list[str]:
    """What each step gives that a program takes behind its snapshot."""
    begun = snapshot if isinstance(snapshot, bytes) else open_savepoint(snapshot)
    with program.make(state_backend=BACKENDS[backend](), restore=begun) as harness:
        return _drive(harness, program.after)


@pytest.mark.restarts("backend", "goes on")
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_goes_on_from_the_other_backend_and_from_a_directory(name, backend, tmp_path):
    """A snapshot is of no backend, and a savepoint has all that it has: folds and joins, too."""
    other = {"heap": "rocksdb", "rocksdb": "heap"}[backend]
    if not {backend, other} <= set(backends_of(name)):
        pytest.skip("columns are on the heap")
    pytest.importorskip("rocksdict")
    program = PROGRAMS[name]
    expected = outputs_after(program, backend, written(program, backend))
    saved(program, other, tmp_path / "savepoint")

    assert expected == outputs_after(program, backend, written(program, other))
    assert expected == outputs_after(program, backend, tmp_path / "savepoint")
