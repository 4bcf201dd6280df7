# SPDX-License-Identifier: Apache-2.0
"""Restarts with another declaration, cell by cell: what stood in the program, what stands there now.

A cell belongs to a row of `docs/reference/restarts.md`, which has the same answer.  Its former
program is driven up to a snapshot, and the program of now goes on from it, or is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import permutations
from typing import Any

import attrs
from two_input_support import Enrich
from window_support import Contents, Sum, elements

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    DeadLetters,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.aggregations import Fold, Max, MaxBy
from pyflinklike.aggregations import Sum as SumOf
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.errors import ValueDecodeError
from pyflinklike.joins import (
    CoGrouping,
    IntervalJoin,
    JoinBounds,
    JoinedGroups,
    ProcessJoinFunction,
    TaggedTypeInfo,
)
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.testing import BroadcastHarness, KeyedProcessHarness, KeyedTwoInputHarness
from pyflinklike.upsert import UpsertFunction
from pyflinklike.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    count_window,
    window,
)

__all__ = ["CELLS", "GOES_ON", "READ", "REFUSED", "Cell", "given", "keeping", "ttl", "value"]

GOES_ON, REFUSED = "goes on", "refused"
Make = Callable[..., Any]
Step = tuple[Any, ...]
TEXT, LONG, INT = Types.STRING(), Types.LONG(), Types.INT()
PAIR = Types.TUPLE([TEXT, LONG])


@attrs.frozen
class Cell:
    """A restart.

    Args:
        row: Of the page.
        answer: As the page gives it.
        case: What tells it from others of the row.
        former: Makes the harness of the former program, with `state_backend`.
        now: Makes that of now, with `restore`, too.
        before: Steps of the former one.
        after: Steps of that of now, where it goes on.
        expected: All that these give, or what the message of the refusal must match.
        on: Backends that have such a program.
    """

    row: str
    answer: str
    case: str
    former: Make
    now: Make
    before: list[Step]
    after: list[Step]
    expected: Any
    on: tuple[str, ...] = ("heap", "rocksdb")

    def __str__(self) -> str:
        return f"{self.row}: {self.case}"


def goes_on(
    row: str, case: str, former: Make, now: Make, before: Any, after: Any, expected: Any, **on: Any
) -> Cell:
    """A restart that does."""
    return Cell(row, GOES_ON, case, former, now, before, after, expected, **on)


def refused(
    row: str, case: str, former: Make, now: Make, before: Any, words: str, **on: Any
) -> Cell:
    """A restart that is, in these words."""
    return Cell(row, REFUSED, case, former, now, before, [], words, **on)


def first_of(element: Any) -> Any:
    """Its key."""
    return element[0]


def keyed(function: Callable[[], Any], **options: Any) -> Make:
    """A harness of a function whose elements have their key in front."""
    return lambda **given: KeyedProcessHarness(function(), first_of, **{**options, **given})


def given(*values: Any, key: str = "k") -> list[Step]:
    """Elements without times."""
    return [("process_element", (key, value)) for value in values]


def at(*times: int) -> list[Step]:
    """Elements that are their times."""
    return [("process_element", value, time) for value, time in elements(*times)]


END: Step = ("end_of_input",)


def watermark(time: int) -> Step:
    """Moves it."""
    return "process_watermark", time


def clock(time: int) -> Step:
    """Moves the processing time."""
    return "set_processing_time", time


# States


class Total(AggregateFunction):
    """A sum.

    Args:
        factor: Of the result.
    """

    def __init__(self, factor: int = 1) -> None:
        self._factor = factor

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator * self._factor

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


GETTERS = {
    ValueStateDescriptor: "get_state",
    ListStateDescriptor: "get_list_state",
    MapStateDescriptor: "get_map_state",
    ReducingStateDescriptor: "get_reducing_state",
    AggregatingStateDescriptor: "get_aggregating_state",
}


class Keeps(KeyedProcessFunction):
    """Puts numbers into states, and gives what is in them for None.

    Args:
        descriptors: Of the states.
        ttl: Of each, or None.
    """

    def __init__(self, *descriptors: Callable[[], Any], ttl: Any = None) -> None:
        self._descriptors, self._ttl = descriptors, ttl

    def open(self, runtime_context: Any) -> None:
        made = [each() for each in self._descriptors]
        for each in made:
            each.enable_time_to_live(self._ttl)
        self.states = [getattr(runtime_context, GETTERS[type(each)])(each) for each in made]

    def process_element(self, value: Any, ctx: Any) -> Any:
        number = value[1]
        if number is None:
            yield [self._read(each) for each in self.states]
            return
        for each in self.states:
            if hasattr(each, "update") and not hasattr(each, "add"):
                each.update(number)
            elif hasattr(each, "put"):
                each.put(number, number)
            else:
                each.add(number)

    def _read(self, state: Any) -> Any:
        if hasattr(state, "value"):
            return state.value()
        if hasattr(state, "items"):
            return sorted(state.items())
        found = state.get()
        return sorted(found) if hasattr(found, "__iter__") and not isinstance(found, str) else found


def value(kind: Any = LONG, name: str = "s") -> Callable[[], Any]:
    """A value state."""
    return lambda: ValueStateDescriptor(name, kind)


def listed(kind: Any = LONG) -> Callable[[], Any]:
    """A list state."""
    return lambda: ListStateDescriptor("s", kind)


def mapped(key: Any = LONG, kind: Any = LONG) -> Callable[[], Any]:
    """A map state."""
    return lambda: MapStateDescriptor("s", key, kind)


def reducing(function: Any = int.__add__, kind: Any = LONG) -> Callable[[], Any]:
    """A reducing state."""
    return lambda: ReducingStateDescriptor("s", function, kind)


def aggregating(function: Any = None, kind: Any = LONG) -> Callable[[], Any]:
    """An aggregating state."""
    return lambda: AggregatingStateDescriptor("s", function or Total(), kind)


def keeping(*descriptors: Callable[[], Any], ttl: Any = None, **options: Any) -> Make:
    """A harness over states."""
    return keyed(lambda: Keeps(*descriptors, ttl=ttl), **options)


READ = given(None)
HOLDING: dict[str, Any] = {
    "value": value,
    "list": listed,
    "map": mapped,
    "reducing": reducing,
    "aggregating": aggregating,
}
HELD: dict[str, Any] = {"value": 7, "list": [7], "map": [(7, 7)], "reducing": 7, "aggregating": 7}


def states() -> Iterable[Cell]:
    """What is declared of states."""
    former: Any
    now: Any
    before: Any
    after: Any
    start, pickled = given(7), Types.PICKLED_BYTE_ARRAY()
    for kind, make in HOLDING.items():
        held, one = [[HELD[kind]]], keeping(make())
        both, other = keeping(make(), value(TEXT, "other")), keeping(value(LONG, "other"))
        yield goes_on("state: a new one", kind, one, both, start, READ, [[HELD[kind], None]])
        row = "state: one that is not declared any more"
        yield goes_on(row, kind, one, other, start, READ, [[None]])
        narrow = keeping(make(kind=INT))
        yield goes_on("state: a type that grows", kind, narrow, one, start, READ, held)
        row = "state: another type"
        if kind == "aggregating":
            row = "state: the type of an accumulator"
        for case, now in (("narrower", narrow), ("text", keeping(make(kind=TEXT)))):
            yield refused(row, f"{kind}, {case}", one, now, start, "keeps the value type")
        former = keeping(make(kind=pickled))
        now = keeping(make(kind=pickled), allow_pickle=False)
        yield refused("state: allow_pickle", kind, former, now, start, "allow_pickle")
        for row, case, before, after in (
            (
                "harness: max_parallelism",
                kind,
                {"max_parallelism": 128},
                {"max_parallelism": 16},
            ),
            (
                "job parameters",
                kind,
                {"job_parameters": {"a": "1"}},
                {"job_parameters": {"a": "2", "b": "3"}},
            ),
            ("dead letters", f"{kind}, on", {}, {"on_error": DeadLetters("dead")}),
            ("dead letters", f"{kind}, off", {"on_error": DeadLetters("dead")}, {}),
        ):
            made = keeping(make(), **before), keeping(make(), **after)
            yield goes_on(row, case, *made, start, READ, held)
        for then, make_other in HOLDING.items():
            if kind != then:
                now = keeping(make_other())
                yield refused("state: kind", f"{kind} to {then}", one, now, start, "state 's'")
    row = "state: the type of a map's keys"
    for case, key in (("another", TEXT), ("wider", Types.BIG_INT()), ("narrower", INT)):
        made = keeping(mapped()), keeping(mapped(key))
        yield refused(row, case, *made, start, "keeps the user key type")
    for case, former, now, number, expected in (
        ("reducing", reducing(), reducing(max), 1, 5),
        ("aggregating", aggregating(), aggregating(Total(10)), 3, 80),
    ):
        row = "state: the function of a reducing or aggregating state"
        made = keeping(former), keeping(now)
        after = [*given(number), *READ]
        yield goes_on(row, case, *made, given(2, 3), after, [[expected]])
    former = keeping(value(Types.ROW_NAMED(["a", "b"], [LONG, TEXT])))
    for case, names, stored in (
        ("one more", {"a": LONG, "b": TEXT, "c": LONG}, Row(a=1, b="x", c=None)),
        ("one fewer", {"a": LONG}, Row(a=1)),
        ("another order", {"b": TEXT, "a": LONG}, Row(b="x", a=1)),
    ):
        now = keeping(value(Types.ROW_NAMED([*names], [*names.values()])))
        row, case = "state: a type that grows", f"a row of which fields are {case}"
        yield goes_on(row, case, former, now, given(Row(a=1, b="x")), READ, [[stored]])


# TTL


def ttl(ms: int = 100, **options: Any) -> StateTtlConfig:
    """A TTL; an option is a method of the builder with its arguments."""
    builder = StateTtlConfig.new_builder(Time.milliseconds(ms))
    for name, arguments in options.items():
        getattr(builder, name)(*arguments)
    return builder.build()


CLEANUPS: dict[str, Any] = {
    "full snapshot": {"cleanup_full_snapshot": ()},
    "incremental": {"cleanup_incrementally": (1, True)},
    "compaction": {"cleanup_in_rocksdb_compact_filter": (10,)},
    "none in the background": {"disable_cleanup_in_background": ()},
}


def ttls() -> Iterable[Cell]:
    """What is declared of a TTL; each builder's method in both directions."""
    late = [clock(150), *READ]
    renewed = [clock(60), *READ, clock(120), *READ]
    empty: dict[str, Any] = {**HELD, **dict.fromkeys(("value", "reducing", "aggregating"))}
    empty |= {"list": [], "map": []}
    read = ttl(update_ttl_on_read_and_write=())
    shown = ttl(return_expired_if_not_cleaned_up=(), disable_cleanup_in_background=())
    for kind, make in HOLDING.items():
        there, gone = [[HELD[kind]]], [[empty[kind]]]
        for row, case, former, now, after, expected in (
            ("length", "longer", ttl(), ttl(200), late, there),
            ("length", "shorter", ttl(200), ttl(), late, gone),
            ("switched on", "alive", None, ttl(), [clock(99), *READ], there),
            ("switched on", "expired", None, ttl(), late, gone),
            ("switched off", "what was stored stays", ttl(), None, late, there),
            ("update type", "on read", ttl(), read, renewed, [*there, *there]),
            ("update type", "on write", read, ttl(), renewed, [*there, *gone]),
            ("visibility", "shown once", ttl(), shown, late, there),
            ("visibility", "hidden", shown, ttl(), late, gone),
            *(
                each
                for name, options in CLEANUPS.items()
                for each in (
                    ("cleanup", name, ttl(), ttl(**options), late, gone),
                    ("cleanup", f"{name}, back", ttl(**options), ttl(), late, gone),
                )
            ),
        ):
            made = keeping(make(), ttl=former), keeping(make(), ttl=now)
            yield goes_on(f"TTL: {row}", f"{kind}, {case}", *made, given(7), after, expected)
        for case, former, now in (
            ("to event time", ttl(), ttl(use_event_time=())),
            ("to processing time", ttl(use_event_time=()), ttl()),
        ):
            made = keeping(make(), ttl=former), keeping(make(), ttl=now)
            words = "the clock of its TTL"
            yield refused("TTL: clock", f"{kind}, {case}", *made, given(7), words)


# Columns


class Columns(KeyedBatchFunction):
    """A count by key and by word, and a timer, of state as columns.

    Args:
        config: TTL of both.
    """

    def __init__(self, config: Any = None) -> None:
        self._ttl = config

    def open(self, ctx: Any) -> None:
        count, words = counters(self._ttl)
        self.count, self.words = ctx.get_column_state(count), ctx.get_column_map_state(words)

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


def counters(config: Any) -> tuple[Any, Any]:
    """The descriptors of both."""
    made = (
        ValueStateDescriptor("count", LONG),
        MapStateDescriptor("words", TEXT, LONG),
    )
    for each in made:
        each.enable_time_to_live(config)
    return made


class Records(KeyedProcessFunction):
    """The same, record by record.

    Args:
        config: TTL of both.
    """

    def __init__(self, config: Any = None) -> None:
        self._ttl = config

    def open(self, runtime_context: Any) -> None:
        count, words = counters(self._ttl)
        self.count = runtime_context.get_state(count)
        self.words = runtime_context.get_map_state(words)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.words.put(value[1], (self.words.get(value[1]) or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[2] + 20)
        yield {"key": value[0], "count": self.count.value(), "of_word": self.words.get(value[1])}

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        count = self.count.value() or 0
        yield {"key": ctx.get_current_key(), "count": count, "of_word": timestamp}


def columns() -> Iterable[Cell]:
    """State as columns, and record by record."""
    former: Any
    now: Any

    def columnar(config: Any = None) -> Make:
        return lambda **options: KeyedBatchHarness(Columns(config), "key", "at", **options)

    def plain(config: Any = None) -> Make:
        return keyed(lambda: Records(config))

    batch = [("process_batch", {"key": ["a", "b"], "word": ["x", "y"], "at": [1, 2]})]
    records = [("process_element", each, each[2]) for each in (("a", "x", 1), ("b", "y", 2))]
    move, end = clock(150), watermark(21)
    in_columns = [move, ("process_batch", {"key": ["a"], "word": ["x"], "at": [3]}), end]
    by_record = [move, ("process_element", ("a", "x", 3), 3), end]
    second = [{"key": "a", "count": 2, "of_word": 2}, {"key": "a", "count": 2, "of_word": 21}]
    anew = [{"key": "a", "count": 1, "of_word": 1}, {"key": "a", "count": 1, "of_word": 21}]
    heap: Any = {"on": ("heap",)}
    both = "state: as columns or by record"
    for case, one, two, expected in (
        ("no TTL", None, None, second),
        ("a TTL", ttl(), ttl(), anew),
        ("a TTL that is longer", ttl(), ttl(500), second),
        ("a TTL that is switched on", None, ttl(), anew),
        ("a TTL that is switched off", ttl(), None, second),
    ):
        for row, what, former, now, before, after in (
            (both, f"to records, {case}", columnar(one), plain(two), batch, by_record),
            (both, f"to columns, {case}", plain(one), columnar(two), records, in_columns),
            ("TTL: of columns", case, columnar(one), columnar(two), batch, in_columns),
        ):
            yield goes_on(row, what, former, now, before, after, expected, **heap)
    event = ttl(use_event_time=())
    for case, former, now, before in (
        ("to records", columnar(ttl()), plain(event), batch),
        ("to columns", plain(ttl()), columnar(event), records),
        ("columns", columnar(ttl()), columnar(event), batch),
    ):
        yield refused("TTL: clock", case, former, now, before, "the clock of its TTL", **heap)
    words = "needs a backend with columns, got EmbeddedRocksDBStateBackend"
    row = "state: columns on RocksDB"
    yield refused(row, "from records", plain(), columnar(), records, words, on=("rocksdb",))


# Keys and functions


class Counts(KeyedProcessFunction):
    """Counts the elements of a key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", LONG))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()


class Timed(Counts):
    """The same, with a timer."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(99)
        return super().process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer", timestamp, self.count.value()


class Tagged(Counts):
    """The same to a side output."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        for each in super().process_element(value, ctx):
            yield OutputTag("side", LONG), each
            yield "main", each


def keys_and_functions() -> Iterable[Cell]:
    """Types of keys, and what a function is."""
    former: Any
    now: Any
    key: Any
    expected: Any

    def of_key(kind: Any) -> Make:
        return lambda **options: KeyedProcessHarness(
            Counts(), lambda each: each, key_type=kind, **options
        )

    rows = [Types.ROW_NAMED(names, [LONG, LONG]) for names in (["a", "b"], ["b", "a"])]
    for case, former, now, key in (
        ("wider", INT, LONG, 1),
        ("narrower", LONG, INT, 1),
        ("text", LONG, TEXT, 1),
        ("a tuple in another order", PAIR, Types.TUPLE([LONG, TEXT]), ("a", 1)),
        ("a row in another order", rows[0], rows[1], Row(a=1, b=2)),
        ("of one more part", PAIR, Types.TUPLE([TEXT, LONG, LONG]), ("a", 1)),
        ("pickled", TEXT, Types.PICKLED_BYTE_ARRAY(), "a"),
    ):
        made, start = (of_key(former), of_key(now)), [("process_element", key)]
        yield refused("key: type", case, *made, start, "keeps the key type")
    row, one = "harness: key type given or left out", [("process_element", 1)]
    for case, former, now in (("given", None, LONG), ("left out", LONG, None)):
        yield goes_on(row, case, of_key(former), of_key(now), one, one, [2])
    timed, other = [("process_element", ("k", 1), 1)], type("Other", (Timed,), {})
    code, outputs = "function: its class and its code", "function: side outputs and output type"
    for row, case, former, now, before, after, expected in (
        (code, "without a timer", Timed, Counts, timed, given(1), [2]),
        (code, "its timers fire", Timed, other, timed, [END], [("timer", 99, 1)]),
        (outputs, "a new one", Counts, Tagged, given(1), given(1), [("main", 2)]),
        (outputs, "none any more", Tagged, Counts, given(1), given(1), [2]),
    ):
        yield goes_on(row, case, keyed(former), keyed(now), before, after, expected)
    windows, row = keyed(lambda: window(TEN).process(Contents())), "function: windows or none"
    words = "timers: restored state keeps the namespace type"
    yield refused(row, "from windows", windows, keyed(Timed), timed, words)
    yield refused(row, "to windows", keyed(Timed), windows, timed, words)

    def joining(function: Callable[[], Any]) -> Make:
        return lambda **options: KeyedTwoInputHarness(function(), first_of, **options)

    row = "function: two inputs exchanged, and its methods with them"
    name, number = [[("process_element2", ("a", each), at)] for each, at in (("Ann", 2), (1, 3))]
    both = joining(Enrich), joining(Swapped)
    yield goes_on(row, "a join by hand", *both, name, number, [("a", 1, "Ann")])


class Swapped(Enrich):
    """With its inputs the other way round."""

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return super().process_element2(value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return super().process_element1(value, ctx)


# Windows

TEN, SESSIONS = TumblingEventTimeWindows.of(10), EventTimeSessionWindows.with_gap(5)
CLOCKED = TumblingProcessingTimeWindows.of(10)


class Gap(SessionWindowTimeGapExtractor):
    """Of 3."""

    def extract(self, element: Any) -> int:
        return 3


def processed(assigner: Any, trigger: Any = None, function: Any = None, **settings: Any) -> Make:
    """Windows that are processed whole; a setting is a method of `Windowed` with its argument."""

    def make() -> Any:
        windowed: Any = window(assigner)
        if trigger is not None:
            windowed.trigger(trigger)
        for name, argument in settings.items():
            getattr(windowed, name)(argument)
        return windowed.process(function or Contents())

    return keyed(make)


class Sizes(Contents):
    """How many there are in a window."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield "size", len(list(elements))


def fired(*windows: tuple[int, int, list[int]]) -> list[Any]:
    """What `Contents` gives of these."""
    return [("k", (start, end), [("k", n) for n in some]) for start, end, some in windows]


def windows() -> Iterable[Cell]:
    """Assigners and lateness; then what else is said of windows."""
    former: Any
    now: Any
    assigner: Any
    tumbling, sliding = TumblingEventTimeWindows.of, SlidingEventTimeWindows.of
    of_clock, gap = TumblingProcessingTimeWindows.of, EventTimeSessionWindows.with_gap
    sliding_of_clock = SlidingProcessingTimeWindows.of(10, 5)
    clock_sessions = ProcessingTimeSessionWindows.with_gap
    by_element = DynamicEventTimeSessionWindows.with_dynamic_gap(Gap())
    later, by_clock = [*at(3), END], [clock(3), *at(3), clock(30)]
    whole, of_sessions = [(0, 10, [1, 2])], [*at(6, 9), END]
    of_both = [(-5, 5, [3]), (0, 10, [1, 2, 3])]
    of_two = [(-6, 4, [3]), (-5, 5, [1, 2]), (-4, 6, [3]), (-2, 8, [3])]
    of_two += [(0, 10, [1, 2, 3]), (2, 12, [3])]
    time = "size, slide or offset of windows of time"
    gaps = "gap of sessions"
    for row, case, former, now, after, expected in (
        (time, "smaller", TEN, tumbling(3), later, [(3, 6, [3]), *whole]),
        (time, "larger", TEN, tumbling(20), later, [*whole, (0, 20, [3])]),
        (time, "offset", TEN, tumbling(10, 1), later, [*whole, (1, 11, [3])]),
        (time, "to sliding", TEN, sliding(10, 5), later, of_both),
        (time, "slide", sliding(10, 5), sliding(10, 2), later, of_two),
        (time, "to tumbling", sliding(10, 5), TEN, later, [(-5, 5, [1, 2]), (0, 10, [1, 2, 3])]),
        (time, "size, by the clock", CLOCKED, of_clock(3), by_clock, [(3, 6, [3]), *whole]),
        (time, "to sliding, by the clock", CLOCKED, sliding_of_clock, by_clock, of_both),
        (gaps, "shorter", SESSIONS, gap(2), of_sessions, [(1, 8, [1, 2, 6]), (9, 11, [9])]),
        (gaps, "longer", SESSIONS, gap(9), of_sessions, [(1, 18, [1, 2, 6, 9])]),
        (gaps, "by the element", SESSIONS, by_element, of_sessions, [(1, 12, [1, 2, 6, 9])]),
        (
            gaps,
            "by the element before",
            by_element,
            SESSIONS,
            of_sessions,
            [(1, 5, [1, 2]), (6, 14, [6, 9])],
        ),
        (
            gaps,
            "by the clock",
            clock_sessions(5),
            clock_sessions(9),
            by_clock,
            [(0, 12, [1, 2, 3])],
        ),
    ):
        made = processed(former), processed(now)
        yield cell(row, case, *made, after, fired(*expected))
    by, kind = "event time or the clock", "sessions or not"
    for row, case, former, now in (
        (by, "to the clock", TEN, CLOCKED),
        (by, "to event time", CLOCKED, TEN),
        (by, "sessions to the clock", SESSIONS, clock_sessions(5)),
        (by, "sessions to event time", clock_sessions(5), SESSIONS),
        (kind, "to sessions", TEN, SESSIONS),
        (kind, "from sessions", SESSIONS, TEN),
        (kind, "of the clock", CLOCKED, clock_sessions(5)),
    ):
        yield unlike(row, case, processed(former), processed(now), "keeps the kind")
    counted = {
        "tumbling": keyed(lambda: count_window(5).process(Contents())),
        "of another size": keyed(lambda: count_window(3).process(Contents())),
        "sliding": keyed(lambda: count_window(6, 2).process(Contents())),
        "of another slide": keyed(lambda: count_window(6, 3).process(Contents())),
    }
    everything, ten = processed(GlobalWindows.create(), CountTrigger.of(50)), processed(TEN)
    row = "windows of time, of a count, or the global one"
    for before, former in counted.items():
        for then, now in counted.items():
            if before != then:
                size = "size or slide of count windows"
                yield unlike(size, f"{before} to {then}", former, now, "keeps the windows")
        yield unlike(row, f"{before} to global", former, everything, "keeps the windows")
        yield unlike(row, f"global to {before}", everything, former, "keeps the windows")
        yield unlike(row, f"time to {before}", ten, former, "restored state keeps")
        yield unlike(row, f"{before} to time", former, ten, "restored state keeps")
    yield unlike(row, "time to global", ten, everything, "restored state keeps")
    yield unlike(row, "global to time", everything, ten, "restored state keeps")
    for name, assigner, begin, end in (("tumbling", TEN, 0, 10), ("sessions", SESSIONS, 1, 7)):
        for one, two in ((0, 5), (5, 0), (5, 9), (9, 5)):
            former, now = (processed(assigner, allowed_lateness=each) for each in (one, two))
            case, after = f"{name}, {one} to {two}", [watermark(end), END]
            yield cell("allowed lateness", case, former, now, after, fired((begin, end, [1, 2])))
    yield from triggers()
    yield from evictors()
    yield from contents()


def cell(row: str, case: str, former: Make, now: Make, after: Any, expected: Any) -> Cell:
    """Windows with two elements that go on."""
    return goes_on(f"windows: {row}", case, former, now, at(1, 2), after, expected)


def unlike(row: str, case: str, former: Make, now: Make, words: str) -> Cell:
    """Windows with two elements that are refused."""
    return refused(f"windows: {row}", case, former, now, at(1, 2), words)


def triggers() -> Iterable[Cell]:
    """Those of windows."""
    now: Any
    assigner: Any
    count, purging = CountTrigger.of, PurgingTrigger(EventTimeTrigger())
    every, by_clock = ContinuousEventTimeTrigger.of, ContinuousProcessingTimeTrigger.of
    both, four = (0, 10, [1, 2]), (0, 10, [1, 2, 3, 4])
    three, five = (0, 10, [1, 2, 3]), (0, 10, [1, 2, 3, 4, 5])
    kind, counts, at_four = "trigger", "count of a trigger", [*at(3), watermark(4), END]
    next_time = "the next time is the former one's"
    for row, case, assigner, one, two, after, expected in (
        (kind, "a count to the end", TEN, count(3), None, [END], [both]),
        (kind, "the end to a count", TEN, None, count(3), [*at(3, 4, 5), END], [five]),
        (kind, "one that purges", TEN, None, purging, [*at(3), END], [three]),
        (kind, "the end to a continuous one", TEN, None, every(4), at_four, [three] * 3),
        (
            kind,
            "the end to a continuous one, of the clock",
            CLOCKED,
            None,
            by_clock(4),
            [clock(9)],
            [both],
        ),
        (counts, "less than what there is", TEN, count(9), count(2), at(3, 4), [three]),
        (counts, "more", TEN, count(3), count(4), at(3, 4), [four]),
        (
            "interval of a continuous trigger",
            next_time,
            TEN,
            every(4),
            every(2),
            [watermark(4), watermark(6)],
            [both, both],
        ),
    ):
        made = processed(assigner, one), processed(assigner, two)
        yield cell(row, case, *made, after, fired(*expected))
    row, words = "a trigger that waits for the end, with a lateness", "what fires a window"
    for name, assigner in (("tumbling", TEN), ("sessions", SESSIONS)):
        for case, now in (("the end", None), ("purging", purging), ("continuous", every(4))):
            former = processed(assigner, count(3), allowed_lateness=5)
            late = processed(assigner, now, allowed_lateness=5)
            yield unlike(row, f"{name}, {case}", former, late, words)
    row = "a trigger that waits for the clock, of windows of event time"
    for case, now in (("its end", ProcessingTimeTrigger()), ("continuous", by_clock(4))):
        yield unlike(row, case, processed(TEN), processed(TEN, now), words)
        yield unlike(
            row, f"{case}, of a count", processed(TEN, count(3)), processed(TEN, now), words
        )
    row, words = "clock of a continuous trigger", "the clock of a continuous trigger"
    yield unlike(row, "to event time", processed(TEN, by_clock(4)), processed(TEN, every(4)), words)


def evictors() -> Iterable[Cell]:
    """Those of windows."""
    count, time = CountEvictor.of(2), TimeEvictor.of(1)
    for case, one, two, expected in (
        ("a smaller count", CountEvictor.of(9), count, [2, 3]),
        ("a count to a time", count, time, [3]),
        ("a time to a count", time, count, [2, 3]),
        ("a longer time", time, TimeEvictor.of(9), [1, 2, 3]),
        ("before or after", count, CountEvictor.of(2, True), [1, 2, 3]),
    ):
        made = processed(TEN, evictor=one), processed(TEN, evictor=two)
        yield cell("another evictor", case, *made, [*at(3), END], fired((0, 10, expected)))
    evicted = processed(TEN, evictor=count)
    yield unlike("an evictor or none", "one", processed(TEN), evicted, "restored state keeps")
    yield unlike("an evictor or none", "none", evicted, processed(TEN), "restored state keeps")


def contents() -> Iterable[Cell]:
    """Functions and types of windows."""
    former: Any
    now: Any

    def reduced(function: Any = max, kind: Any = PAIR) -> Make:
        return keyed(lambda: window(TEN, kind).reduce(function))

    def aggregated(kind: Any) -> Make:
        return keyed(lambda: window(TEN, PAIR).aggregate(Sum(), accumulator_type=kind))

    def of_all(kind: Any = PAIR) -> Make:
        return keyed(lambda: window(TEN, kind).process(Contents()))

    end, row = [*at(3), END], "a reduce or aggregate function of your own"
    sizes = processed(TEN, function=Sizes())
    yield cell("their function", "of all elements", processed(TEN), sizes, end, [("size", 3)])
    yield cell(row, "reduce", reduced(), reduced(min), end, [("k", 2)])
    summed = reduced(SumOf(1))
    for case, former, now in (
        ("another", summed, reduced(Max(1))),
        ("another field", summed, reduced(SumOf(0))),
        ("to one of your own", summed, reduced()),
        ("from one of your own", reduced(), summed),
    ):
        row = "sum, min, max, min_by, max_by, or their field"
        yield unlike(row, case, former, now, "the fold of a window")
    kinds = {"reduce": reduced(), "aggregate": aggregated(LONG), "all elements": of_all()}
    for before, then in permutations(kinds, 2):
        row, made = "reduce, aggregate or all elements", (kinds[before], kinds[then])
        yield unlike(row, f"{before} to {then}", *made, "keeps the kind")
    narrow = Types.TUPLE([TEXT, INT])
    for case, former, now, expected in (
        ("all elements", of_all(narrow), of_all(), fired((0, 10, [1, 2, 3]))),
        ("reduce", reduced(kind=narrow), reduced(), [("k", 3)]),
    ):
        yield cell("a type of elements that grows", case, former, now, end, expected)
        row = "another type of elements or accumulator"
        yield unlike(row, case, now, former, "keeps the value type")
    yield unlike(row, "aggregate", aggregated(LONG), aggregated(INT), "keeps the value type")
    plain, late = processed(TEN), processed(TEN, side_output_late_data=OutputTag("late", PAIR))
    for case, former, now in (("given", plain, late), ("left out", late, plain)):
        after, expected = [watermark(5), *end], fired((0, 10, [1, 2, 3]))
        yield cell("side output of late data", case, former, now, after, expected)


# Joins and folds


class Pairs(ProcessJoinFunction):
    """The numbers of both."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left and left[1], right and right[1]


def joined(
    how: str = "inner", bounds: Any = (-2, 1), kinds: Any = (PAIR, PAIR), **late: Any
) -> Make:
    """An interval join."""
    return lambda **options: KeyedTwoInputHarness(
        IntervalJoin(
            Pairs(), JoinBounds(*bounds), how, left_type=kinds[0], right_type=kinds[1], **late
        ),
        first_of,
        **options,
    )


def sides(*numbers: tuple[int, int]) -> list[Step]:
    """Elements of inputs."""
    return [(f"process_element{side}", ("k", time), time) for side, time in numbers]


BOTH_END: list[Step] = [("end_of_input1",), ("end_of_input2",)]
OUTER = {
    "inner": (False, False),
    "left_outer": (True, False),
    "right_outer": (False, True),
    "full_outer": (True, True),
}


def joins() -> Iterable[Cell]:
    """Joins of intervals and within windows."""
    former: Any
    now: Any
    bounds: Any
    expected: Any
    before = sides((1, 10), (2, 11), (1, 30), (2, 50))
    for one, two in permutations(OUTER, 2):
        case, made = f"{one} to {two}", (joined(one), joined(two))
        had, has = OUTER[one], OUTER[two]
        if all(side >= other for side, other in zip(had, has)):
            alone = [(30, None)] * has[0] + [(None, 50)] * has[1]
            row = "interval join: an outer input that becomes inner"
            yield goes_on(row, case, *made, before, BOTH_END, alone)
        else:
            row = "interval join: an inner input that becomes outer"
            yield refused(row, case, *made, before, "the kind of the join")
    for case, bounds, after, expected in (
        ("wider", (-5, 5), sides((1, 14)), [(14, 11)]),
        ("narrower", (0, 0), sides((1, 11), (1, 12)), [(11, 11)]),
        ("moved", (1, 3), sides((2, 12), (2, 15)), [(10, 12)]),
    ):
        row, made, start = "interval join: bounds", (joined(), joined(bounds=bounds)), before[:2]
        yield goes_on(row, case, *made, start, after, expected)
    tag = OutputTag("late", PAIR)
    late = joined(left_late=tag, right_late=tag)
    for case, former, now in (("given", joined(), late), ("left out", late, joined())):
        row, after = "interval join: side outputs of late data", sides((2, 11))
        yield goes_on(row, case, former, now, before[:1], after, [(10, 11)])
    narrow = Types.TUPLE([TEXT, INT])
    for case, kinds in (("left", (narrow, PAIR)), ("right", (PAIR, narrow))):
        start, after = sides((1, 10), (2, 20)), sides((2, 11), (1, 21))
        row = "interval join: a type of elements that grows"
        made = joined(kinds=kinds), joined()
        yield goes_on(row, case, *made, start, after, [(10, 11), (21, 20)])
        row = "interval join: another type of elements"
        yield refused(row, case, made[1], made[0], start, "keeps the value type")

    def within(how: str, kinds: Any = (PAIR, PAIR)) -> Make:
        def make() -> Any:
            groups = JoinedGroups(lambda one, two: (one and one[1], two and two[1]), how)
            return window(TEN, TaggedTypeInfo(*kinds)).process(CoGrouping(groups))

        return lambda **options: KeyedProcessHarness(make(), lambda each: each[1][0], **options)

    start = [("process_element", (1, ("k", 1)), 1), ("process_element", (1, ("k", 2)), 2)]
    both = [(1, None), (2, None)]
    for one, two in permutations(OUTER, 2):
        row, made = "window join: its kind", (within(one), within(two))
        expected = both if OUTER[two][0] else []
        yield goes_on(row, f"{one} to {two}", *made, start, [END], expected)
    made = within("full_outer", (narrow, PAIR)), within("full_outer")
    yield goes_on("window join: a type of elements that grows", "left", *made, start, [END], both)


NAMED = Types.ROW_NAMED(["k", "n", "m"], [TEXT, LONG, LONG])
MOVED = Types.ROW_NAMED(["k", "m", "n"], [TEXT, LONG, LONG])
MORE = Types.ROW_NAMED(["k", "n", "m", "x"], [TEXT, LONG, LONG, LONG])


def folds() -> Iterable[Cell]:
    """Folds of keys."""
    former: Any
    now: Any

    def fold(function: Any, kind: Any = NAMED, **options: Any) -> Make:
        return lambda **given: KeyedProcessHarness(
            Fold(function, kind, **options), lambda row: row.k, **given
        )

    def rows(*numbers: int, **fields: Any) -> list[Step]:
        return [("process_element", Row(k="a", n=n, m=100, **fields)) for n in numbers]

    def own(one: Any, two: Any) -> Any:
        return one if one.n > two.n else two

    def least(one: Any, two: Any) -> Any:
        return one if one.n < two.n else two

    names, words = SumOf("n"), "when a key gives out its fold"
    for case, former, now in (("on", False, True), ("off", True, False)):
        made = fold(names, running=former), fold(names, running=now)
        yield refused("fold: running", case, *made, rows(1, 2), words)
    for case, former, now in (
        ("another", names, Max("n")),
        ("of whole elements", Max("n"), MaxBy("n")),
        ("another field", names, SumOf("m")),
        ("a name for a position", SumOf(1), names),
        ("to one of your own", names, own),
        ("from one of your own", own, names),
    ):
        row, made = "fold: another, or another field", (fold(former), fold(now))
        yield refused(row, case, *made, rows(1, 2), "keeps the kind")
    row, words = "fold: another field at its position", "the field that is folded, 'n', got 'm'"
    made = fold(SumOf(1)), fold(SumOf(1), MOVED)
    yield refused(row, "fields in another order", *made, rows(1, 2), words)
    grows, moved = "fold: a type of elements that grows", "fields in another order, by name"
    other, greatest = "fold: another function of your own", "the least for the greatest"
    more = Row(k="a", n=7, m=100, x=None)
    for row, case, former, now, after, expected in (
        (grows, moved, names, fold(names, MOVED), rows(4), Row(k="a", m=100, n=7)),
        (grows, "one more field", names, fold(names, MORE), rows(4, x=5), more),
        (other, greatest, own, fold(least), rows(4), Row(k="a", n=2, m=100)),
    ):
        yield goes_on(row, case, fold(former), now, rows(1, 2), after, [expected])


# Stores


class Stores(KeyedProcessFunction):
    """Writes numbers into a store, and gives all of it for None.

    Args:
        descriptor: Of the store.
        kind: Which one it is.
    """

    def __init__(self, descriptor: Any, kind: str) -> None:
        self._descriptor, self._kind = descriptor, kind

    def open(self, runtime_context: Any) -> None:
        self.store = runtime_context.get_store(self._descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[1] is None:
            yield READS[self._kind](self.store)
        else:
            WRITES[self._kind](self.store, value[1])


OPTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "key-value": (KeyValueStoreDescriptor, {}),
    "timestamped": (TimestampedStoreDescriptor, {}),
    "lru": (LruStoreDescriptor, {"max_entries": 4}),
    "window": (WindowStoreDescriptor, {"window_size": 10, "retention": 40}),
    "session": (SessionStoreDescriptor, {"retention": 40}),
    "versioned": (VersionedStoreDescriptor, {"history_retention": 40}),
}
WRITES: dict[str, Any] = {
    "key-value": lambda store, n: store.put(f"a{n}", n),
    "timestamped": lambda store, n: store.put(f"a{n}", n, n * 10),
    "lru": lambda store, n: store.put(f"a{n}", n),
    "window": lambda store, n: store.put("a", n, n * 10),
    "session": lambda store, n: store.put("a", n * 10, n * 10 + 5, n),
    "versioned": lambda store, n: store.put("a", n, n * 10),
}


def _all(store: Any) -> list[Any]:
    return [each.value for each in store.all()]


READS: dict[str, Any] = {
    **dict.fromkeys(("key-value", "lru", "window"), _all),
    "timestamped": lambda store: [each.value.value for each in store.all()],
    "session": lambda store: [each.value for each in store.fetch("a")],
    "versioned": lambda store: [each.value for each in store.history("a", None, None, "asc")],
}
EIGHT, LAST_FOUR, LAST_FIVE = list(range(8)), [4, 5, 6, 7], [3, 4, 5, 6, 7]
WHOLE = {
    **dict.fromkeys(("key-value", "timestamped"), EIGHT),
    **dict.fromkeys(("lru", "window", "session"), LAST_FOUR),
    "versioned": LAST_FIVE,
}


def store(kind: str, types: tuple[Any, Any] = (TEXT, LONG), **options: Any) -> Make:
    """A harness over a store."""
    descriptor, own = OPTIONS[kind]
    made = descriptor("s", *types, **{**own, **options})
    return keyed(lambda: Stores(made, kind))


def stores() -> Iterable[Cell]:
    """Each option of each store, in both scopes where that makes a difference."""
    before, row = given(*range(8)), "caching, changelog, changelog_config"
    config, wide = {"changelog_config": {"retention.ms": "1"}}, {"retention": 600_000}
    flags = [(name, flag) for name in ("caching", "changelog") for flag in (False, True)]
    of_times: list[Any] = [
        ("retention, a longer one", "", {}, {"retention": 80}, LAST_FOUR),
        ("retention, a shorter one", "", {}, {"retention": 15}, [6, 7]),
        ("segments", "more", {}, {"segments": 4}, LAST_FOUR),
        ("segments", "fewer", {"segments": 4}, {}, LAST_FOUR),
        ("segments", "of other widths", wide, {**wide, "segments": 9}, EIGHT),
    ]
    own: dict[str, list[Any]] = {
        "window": of_times,
        "session": of_times,
        "versioned": [
            ("history_retention, a longer one", "", {}, {"history_retention": 80}, LAST_FIVE),
            ("history_retention, a shorter one", "", {}, {"history_retention": 15}, [5, 6, 7]),
        ],
        "lru": [
            ("max_entries, more", "", {}, {"max_entries": 7}, LAST_FOUR),
            ("max_entries, fewer", "before a write", {}, {"max_entries": 2}, LAST_FOUR),
            ("max_entries, fewer", "after one", {}, {"max_entries": 2}, [7, 8], given(8)),
        ],
    }
    for kind, whole in WHOLE.items():
        of_all: list[Any] = [
            (row, f"{name} {is_on}", {name: not is_on}, {name: is_on}) for name, is_on in flags
        ]
        of_all += [(row, "config", {}, config)]
        for scope in ("key", "partition"):
            for name, case, former, now, expected, *after in (
                *((*each, whole) for each in of_all),
                *own.get(kind, ()),
            ):
                made = store(kind, scope=scope, **former), store(kind, scope=scope, **now)
                what, steps = (
                    f"{kind}, scope {scope}, {case}",
                    [*(each for some in after for each in some), *READ],
                )
                yield goes_on(f"store: {name}", what, *made, before, steps, [expected])
        yield from refused_stores(kind, before)


def refused_stores(kind: str, before: list[Step]) -> Iterable[Cell]:
    """What makes another store of it."""

    def unlike(row: str, case: str, former: Make, now: Make, words: str = "state 's'") -> Cell:
        return refused(f"store: {row}", f"{kind}, {case}", former, now, before, words)

    one, narrow = store(kind), store(kind, (TEXT, INT))
    for other in OPTIONS:
        if other != kind:
            yield unlike("its kind", f"to {other}", one, store(other))
    for former, now in permutations(("key", "partition")):
        yield unlike("scope", f"to {now}", store(kind, scope=former), store(kind, scope=now))
    yield unlike("type of its keys", "text", one, store(kind, (Types.CHAR(), LONG)))
    yield unlike("another type of its values", "narrower", one, narrow, "keeps the value type")
    row = "store: a type of its values that grows"
    yield goes_on(row, kind, narrow, one, before, READ, [WHOLE[kind]])
    if kind in ("window", "session", "versioned"):
        for former, now in permutations(("key", "partition", "watermark"), 2):
            made = store(kind, stream_time=former), store(kind, stream_time=now)
            row, case, start = "store: stream_time", f"{kind}, {former} to {now}", [watermark(1)]
            yield refused(row, case, *made, [*start, *before], "state 's/time'")
    if kind == "window":
        yield unlike("window_size", "another", one, store(kind, window_size=7))
        for flag in (True, False):
            made = store(kind, retain_duplicates=not flag), store(kind, retain_duplicates=flag)
            yield unlike("retain_duplicates", str(flag), *made)


# Broadcast state, upserts


class Limits(KeyedBroadcastProcessFunction):
    """The limits that an element is above.

    Args:
        descriptors: Of the states that may be read.
    """

    def __init__(self, *descriptors: Any) -> None:
        self._descriptors = descriptors

    def process_element(self, value: Any, ctx: Any) -> Any:
        for each in self._descriptors:
            limits = ctx.get_broadcast_state(each).items()
            yield sorted(name for name, most in limits if value[1] > most)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        for each in self._descriptors:
            ctx.get_broadcast_state(each).put(*value)


def limits(name: str = "limits", key: Any = TEXT, kind: Any = LONG) -> Any:
    """A broadcast state."""
    return MapStateDescriptor(name, key, kind)


def broadcasting(*descriptors: Any) -> Make:
    """A harness with broadcast states."""
    return lambda **options: BroadcastHarness(
        Limits(*descriptors), list(descriptors), first_of, **options
    )


def broadcasts() -> Iterable[Cell]:
    """Broadcast states."""
    before = [("process_broadcast_element", ("low", 3))]
    after = [("process_element", ("a", 4))]
    one, both = broadcasting(limits()), broadcasting(limits(), limits("more"))
    narrow, renamed = broadcasting(limits(kind=INT)), broadcasting(limits("more"))
    new, grows = "a new state, one that is gone", "a type of values that grows"
    for row, case, former, now, expected in (
        (new, "new", one, both, [["low"], []]),
        (new, "gone", both, one, [["low"]]),
        (new, "renamed", one, renamed, [[]]),
        (grows, "", narrow, one, [["low"]]),
    ):
        yield goes_on(f"broadcast: {row}", case, former, now, before, after, expected)
    row, words = "broadcast: another type", "state 'limits': restored state keeps"
    yield refused(row, "of values", one, narrow, before, words)
    yield refused(row, "of keys", one, broadcasting(limits(key=Types.CHAR())), before, words)
    row, keyed_map = "state: keyed or broadcast", keeping(mapped(LONG, LONG))
    broadcast_map = broadcasting(limits("s", LONG, LONG))
    yield refused(row, "to keyed", one, keeping(limits), before, "keeps the kind")
    yield refused(row, "to broadcast", keyed_map, broadcast_map, given(7), "keeps the kind")


def _read(row: Any) -> Any:
    if row.v == "bad":
        msg = "bad"
        raise ValueDecodeError(msg)
    return row.v


def upserts() -> Iterable[Cell]:
    """Options of upserts."""

    def upsert(**options: Any) -> Make:
        def make(**given: Any) -> Any:
            declared = {"value": _read, "value_type": TEXT, "on_error": "drop", **options}
            return KeyedProcessHarness(UpsertFunction(**declared), lambda row: row.key, **given)

        return make

    def rows(*pairs: tuple[Any, Any]) -> list[Step]:
        return [("process_element", Row(key="a", v=v, o=o)) for v, o in pairs]

    def told(*changes: tuple[str, Any, int]) -> list[Any]:
        return [Row(key="a", op=op, value=v, diff=diff) for op, v, diff in changes]

    plain, ordered, inline = upsert(), upsert(order_key="o"), upsert(on_error="inline")
    by_text = upsert(order_key=lambda row: str(row.o))
    changed = told(("update_before", "x", -1), ("update_after", "y", 1))
    x, y, inserted = rows(("x", 5)), rows(("y", 1)), told(("insert", "y", 1))
    deleted, again = rows(("x", 5), (None, 6)), rows(("y", 4), ("y", 7))
    bad, row, ttl_, errors = rows(("bad", 1)), "order_key", "tombstone_ttl", "on_error"
    table: list[Any] = [
        (row, "given: what is known has no place", plain, ordered, x, y, changed),
        (row, "left out: the later arrival wins", ordered, plain, x, y, changed),
        (row, "not to be compared: an error", ordered, by_text, x, rows(("y", 6)), []),
        (
            errors,
            "inline to drop: an error that is deleted",
            inline,
            plain,
            bad,
            rows((None, 2)),
            [],
        ),
    ]
    for case, length in (("for ever", None), ("a day", timedelta(days=1))):
        now = upsert(order_key="o", tombstone_ttl=length)
        table.append((ttl_, case, ordered, now, deleted, again, inserted))
    for on_error in ("drop", "raise", "side_output"):
        options = {"error_tag": OutputTag("errors", TEXT)} if on_error == "side_output" else {}
        now, case = upsert(on_error=on_error, **options), f"inline to {on_error}: what was"
        then = rows(("y", 2))
        table.append((errors, f"{case} an error", inline, now, bad, then, inserted))
        table.append((errors, f"{case} a value", inline, now, rows(("x", 1)), then, changed))
    for row, *given_ in table:
        yield goes_on(f"upsert: {row}", *given_)


CELLS: list[Cell] = [
    *states(),
    *ttls(),
    *columns(),
    *keys_and_functions(),
    *windows(),
    *joins(),
    *folds(),
    *stores(),
    *broadcasts(),
    *upserts(),
]
