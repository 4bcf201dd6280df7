# SPDX-License-Identifier: Apache-2.0
"""Restarts with another declaration, cell by cell: what stood in the program, what stands there now.

A cell belongs to a row of `docs/reference/restarts.md`, which has the same answer.  Its former
program is driven up to a snapshot, and the program of now goes on from it, or is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
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
    kind: Any
    row: Any
    changed: Any
    expected: Any
    for kind, make in HOLDING.items():
        one, both = keeping(make()), keeping(make(), value(TEXT, "other"))
        of_two = [("process_element", ("k", None))]
        yield Cell(
            "state: a new one", GOES_ON, kind, one, both, given(7), of_two, [[HELD[kind], None]]
        )
        yield Cell(
            "state: one that is not declared any more",
            GOES_ON,
            kind,
            one,
            keeping(value(LONG, "other")),
            given(7),
            READ,
            [[None]],
        )
        grown = make(kind=LONG)
        yield Cell(
            "state: a type that grows",
            GOES_ON,
            kind,
            keeping(make(kind=INT)) if kind != "map" else keeping(mapped(LONG, INT)),
            keeping(grown),
            given(7),
            READ,
            [[HELD[kind]]],
        )
        for case, stored, declared in (("narrower", LONG, INT), ("text", LONG, TEXT)):
            row = "state: another type"
            if kind == "aggregating":
                row = "state: the type of an accumulator"
            yield Cell(
                row,
                REFUSED,
                f"{kind}, {case}",
                keeping(make(kind=stored)),
                keeping(make(kind=declared)),
                given(7),
                [],
                "keeps the value type",
            )
        yield Cell(
            "state: allow_pickle",
            REFUSED,
            kind,
            keeping(make(kind=Types.PICKLED_BYTE_ARRAY())),
            keeping(make(kind=Types.PICKLED_BYTE_ARRAY()), allow_pickle=False),
            given(7),
            [],
            "allow_pickle",
        )
        yield Cell(
            "harness: max_parallelism",
            GOES_ON,
            kind,
            keeping(make(), max_parallelism=128),
            keeping(make(), max_parallelism=16),
            given(7),
            READ,
            [[HELD[kind]]],
        )
        yield Cell(
            "job parameters",
            GOES_ON,
            kind,
            keeping(make(), job_parameters={"a": "1"}),
            keeping(make(), job_parameters={"a": "2", "b": "3"}),
            given(7),
            READ,
            [[HELD[kind]]],
        )
        for former, now in ((None, DeadLetters("dead")), (DeadLetters("dead"), None)):
            yield Cell(
                "dead letters",
                GOES_ON,
                f"{kind}, {'off' if now is None else 'on'}",
                keeping(make(), on_error=former),
                keeping(make(), on_error=now),
                given(7),
                READ,
                [[HELD[kind]]],
            )
    for former, make in HOLDING.items():
        for now, other in HOLDING.items():
            if former != now:
                made = keeping(make()), keeping(other())
                case = f"{former} to {now}"
                yield Cell("state: kind", REFUSED, case, *made, given(7), [], "state 's'")
    for case, kind in (("another", TEXT), ("wider", Types.BIG_INT()), ("narrower", INT)):
        yield Cell(
            "state: the type of a map's keys",
            REFUSED,
            case,
            keeping(mapped()),
            keeping(mapped(kind)),
            given(7),
            [],
            "keeps the user key type",
        )
    for case, now in (
        ("reducing", keeping(reducing(max))),
        ("aggregating", keeping(aggregating(Total(10)))),
    ):
        former = keeping(reducing() if case == "reducing" else aggregating())
        expected = [[5]] if case == "reducing" else [[80]]
        yield Cell(
            "state: the function of a reducing or aggregating state",
            GOES_ON,
            case,
            former,
            now,
            given(2, 3),
            [*given(1 if case == "reducing" else 3), *READ],
            expected,
        )
    row = Types.ROW_NAMED(["a", "b"], [LONG, TEXT])
    for case, changed, then in (
        ("one more", Types.ROW_NAMED(["a", "b", "c"], [LONG, TEXT, LONG]), Row(a=1, b="x", c=None)),
        ("one fewer", Types.ROW_NAMED(["a"], [LONG]), Row(a=1)),
        ("another order", Types.ROW_NAMED(["b", "a"], [TEXT, LONG]), Row(b="x", a=1)),
    ):
        yield Cell(
            "state: a type that grows",
            GOES_ON,
            f"a row of which fields are {case}",
            keeping(value(row)),
            keeping(value(changed)),
            given(Row(a=1, b="x")),
            READ,
            [[then]],
        )


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
    empty: dict[str, Any] = {**HELD, **dict.fromkeys(("value", "reducing", "aggregating"))}
    empty |= {"list": [], "map": []}
    for kind, make in HOLDING.items():

        def cell(row: str, case: str, former: Any, now: Any, after: Any, expected: Any) -> Cell:
            made = keeping(make(), ttl=former), keeping(make(), ttl=now)  # noqa: B023
            return Cell(row, GOES_ON, f"{kind}, {case}", *made, given(7), after, expected)  # noqa: B023

        there, gone = [[HELD[kind]]], [[empty[kind]]]
        yield cell("TTL: length", "longer", ttl(), ttl(200), late, there)
        yield cell("TTL: length", "shorter", ttl(200), ttl(), late, gone)
        yield cell("TTL: switched on", "alive", None, ttl(), [clock(99), *READ], there)
        yield cell("TTL: switched on", "expired", None, ttl(), late, gone)
        yield cell("TTL: switched off", "what was stored stays", ttl(), None, late, there)
        read: Any = {"update_ttl_on_read_and_write": ()}
        renewed = [clock(60), *READ, clock(120), *READ]
        yield cell("TTL: update type", "on read", ttl(), ttl(**read), renewed, [*there, *there])
        yield cell("TTL: update type", "on write", ttl(**read), ttl(), renewed, [*there, *gone])
        shown: Any = {"return_expired_if_not_cleaned_up": ()}
        shown |= {"disable_cleanup_in_background": ()}
        yield cell("TTL: visibility", "shown once", ttl(), ttl(**shown), late, there)
        yield cell("TTL: visibility", "hidden", ttl(**shown), ttl(), late, gone)
        for case, options in CLEANUPS.items():
            yield cell("TTL: cleanup", case, ttl(), ttl(**options), late, gone)
            yield cell("TTL: cleanup", f"{case}, back", ttl(**options), ttl(), late, gone)
        for case, former, now in (
            ("to event time", ttl(), ttl(use_event_time=())),
            ("to processing time", ttl(use_event_time=()), ttl()),
        ):
            made = keeping(make(), ttl=former), keeping(make(), ttl=now)
            yield Cell(
                "TTL: clock",
                REFUSED,
                f"{kind}, {case}",
                *made,
                given(7),
                [],
                "the clock of its TTL",
            )


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
    before: Any

    def columnar(config: Any = None) -> Make:
        return lambda **options: KeyedBatchHarness(Columns(config), "key", "at", **options)

    def plain(config: Any = None) -> Make:
        return keyed(lambda: Records(config))

    batch = [("process_batch", {"key": ["a", "b"], "word": ["x", "y"], "at": [1, 2]})]
    again = [("process_batch", {"key": ["a"], "word": ["x"], "at": [3]})]
    records = [("process_element", each, each[2]) for each in (("a", "x", 1), ("b", "y", 2))]
    record = [("process_element", ("a", "x", 3), 3)]
    second = [{"key": "a", "count": 2, "of_word": 2}, {"key": "a", "count": 2, "of_word": 21}]
    anew = [{"key": "a", "count": 1, "of_word": 1}, {"key": "a", "count": 1, "of_word": 21}]
    for case, former, now, expected in (
        ("no TTL", None, None, second),
        ("a TTL", ttl(), ttl(), anew),
        ("a TTL that is longer", ttl(), ttl(500), second),
        ("a TTL that is switched on", None, ttl(), anew),
        ("a TTL that is switched off", ttl(), None, second),
    ):
        row, move = "state: as columns or by record", [clock(150)]
        yield Cell(
            row,
            GOES_ON,
            f"to records, {case}",
            columnar(former),
            plain(now),
            batch,
            [*move, *record, watermark(21)],
            expected,
            ("heap",),
        )
        yield Cell(
            row,
            GOES_ON,
            f"to columns, {case}",
            plain(former),
            columnar(now),
            records,
            [*move, *again, watermark(21)],
            expected,
            ("heap",),
        )
        yield Cell(
            "TTL: of columns",
            GOES_ON,
            case,
            columnar(former),
            columnar(now),
            batch,
            [*move, *again, watermark(21)],
            expected,
            ("heap",),
        )
    for case, former, now, before in (
        ("to records", columnar(ttl()), plain(ttl(use_event_time=())), batch),
        ("to columns", plain(ttl()), columnar(ttl(use_event_time=())), records),
        ("columns", columnar(ttl()), columnar(ttl(use_event_time=())), batch),
    ):
        yield Cell(
            "TTL: clock", REFUSED, case, former, now, before, [], "the clock of its TTL", ("heap",)
        )
    yield Cell(
        "state: columns on RocksDB",
        REFUSED,
        "from records",
        plain(),
        columnar(),
        records,
        [],
        "needs a backend with columns, got EmbeddedRocksDBStateBackend",
        ("rocksdb",),
    )


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

    def one(key: Any) -> list[Step]:
        return [("process_element", key)]

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
        yield Cell(
            "key: type",
            REFUSED,
            case,
            of_key(former),
            of_key(now),
            one(key),
            [],
            "keeps the key type",
        )
    for case, former, now in (("given", None, LONG), ("left out", LONG, None)):
        yield Cell(
            "harness: key type given or left out",
            GOES_ON,
            case,
            of_key(former),
            of_key(now),
            one(1),
            one(1),
            [2],
        )
    timed = [("process_element", ("k", 1), 1)]
    row = "function: its class and its code"
    yield Cell(row, GOES_ON, "without a timer", keyed(Timed), keyed(Counts), timed, given(1), [2])
    yield Cell(
        row,
        GOES_ON,
        "its timers fire",
        keyed(Timed),
        keyed(type("Other", (Timed,), {})),
        timed,
        [END],
        [("timer", 99, 1)],
    )
    for case, former, now, expected in (
        ("a new one", Counts, Tagged, [("main", 2)]),
        ("none any more", Tagged, Counts, [2]),
    ):
        yield Cell(
            "function: side outputs and output type",
            GOES_ON,
            case,
            keyed(former),
            keyed(now),
            given(1),
            given(1),
            expected,
        )
    windows = keyed(lambda: window(TEN).process(Contents()))
    for case, former, now in (
        ("from windows", windows, keyed(Timed)),
        ("to windows", keyed(Timed), windows),
    ):
        yield Cell(
            "function: windows or none",
            REFUSED,
            case,
            former,
            now,
            timed,
            [],
            "timers: restored state keeps the namespace type",
        )

    def joining(function: Callable[[], Any]) -> Make:
        return lambda **options: KeyedTwoInputHarness(function(), first_of, **options)

    enriched, swapped = joining(Enrich), joining(Swapped)
    yield Cell(
        "function: two inputs exchanged, and its methods with them",
        GOES_ON,
        "a join by hand",
        enriched,
        swapped,
        [("process_element2", ("a", "Ann"), 2)],
        [("process_element2", ("a", 1), 3)],
        [("a", 1, "Ann")],
    )


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
    """Assigners, lateness, triggers, evictors, functions."""
    former: Any
    now: Any
    assigner: Any
    expected: Any
    end: Any

    def cell(row: str, case: str, former: Make, now: Make, after: Any, expected: Any) -> Cell:
        return Cell(f"windows: {row}", GOES_ON, case, former, now, at(1, 2), after, expected)

    def refused(row: str, case: str, former: Make, now: Make, words: str) -> Cell:
        return Cell(f"windows: {row}", REFUSED, case, former, now, at(1, 2), [], words)

    ten, sessions, tens = processed(TEN), processed(SESSIONS), processed(CLOCKED)
    later = [*at(3), END]
    for case, assigner, expected in (
        ("smaller", TumblingEventTimeWindows.of(3), [(3, 6, [3]), (0, 10, [1, 2])]),
        ("larger", TumblingEventTimeWindows.of(20), [(0, 10, [1, 2]), (0, 20, [3])]),
        ("offset", TumblingEventTimeWindows.of(10, 1), [(0, 10, [1, 2]), (1, 11, [3])]),
        (
            "to sliding",
            SlidingEventTimeWindows.of(10, 5),
            [(-5, 5, [3]), (0, 10, [1, 2, 3])],
        ),
    ):
        row = "size, slide or offset of windows of time"
        yield cell(row, case, ten, processed(assigner), later, fired(*expected))
    slides = processed(SlidingEventTimeWindows.of(10, 5))
    for case, assigner, expected in (
        ("slide", SlidingEventTimeWindows.of(10, 2), None),
        ("to tumbling", TEN, [(-5, 5, [1, 2]), (0, 10, [1, 2, 3])]),
    ):
        if expected is None:
            expected = [(-6, 4, [3]), (-5, 5, [1, 2]), (-4, 6, [3]), (-2, 8, [3])]
            expected += [(0, 10, [1, 2, 3]), (2, 12, [3])]
        row = "size, slide or offset of windows of time"
        yield cell(row, case, slides, processed(assigner), later, fired(*expected))
    for case, former, assigner, expected in (
        ("size", CLOCKED, TumblingProcessingTimeWindows.of(3), [(3, 6, [3]), (0, 10, [1, 2])]),
        (
            "to sliding",
            CLOCKED,
            SlidingProcessingTimeWindows.of(10, 5),
            [(-5, 5, [3]), (0, 10, [1, 2, 3])],
        ),
    ):
        now = processed(assigner)
        after = [clock(3), *at(3), clock(30)]
        row = "size, slide or offset of windows of time"
        yield cell(row, f"{case}, by the clock", processed(former), now, after, fired(*expected))
    for case, former, now, expected in (
        (
            "shorter",
            SESSIONS,
            EventTimeSessionWindows.with_gap(2),
            [(1, 8, [1, 2, 6]), (9, 11, [9])],
        ),
        ("longer", SESSIONS, EventTimeSessionWindows.with_gap(9), [(1, 18, [1, 2, 6, 9])]),
        (
            "by the element",
            SESSIONS,
            DynamicEventTimeSessionWindows.with_dynamic_gap(Gap()),
            [(1, 12, [1, 2, 6, 9])],
        ),
        (
            "by the element before",
            DynamicEventTimeSessionWindows.with_dynamic_gap(Gap()),
            SESSIONS,
            [(1, 5, [1, 2]), (6, 14, [6, 9])],
        ),
    ):
        after = [*at(6, 9), END]
        yield cell(
            "gap of sessions", case, processed(former), processed(now), after, fired(*expected)
        )
    yield cell(
        "gap of sessions",
        "by the clock",
        processed(ProcessingTimeSessionWindows.with_gap(5)),
        processed(ProcessingTimeSessionWindows.with_gap(9)),
        [clock(3), *at(3), clock(30)],
        fired((0, 12, [1, 2, 3])),
    )
    for case, former, now in (
        ("to the clock", ten, tens),
        ("to event time", tens, ten),
        ("sessions to the clock", sessions, processed(ProcessingTimeSessionWindows.with_gap(5))),
        ("sessions to event time", processed(ProcessingTimeSessionWindows.with_gap(5)), sessions),
    ):
        yield refused("event time or the clock", case, former, now, "keeps the kind")
    for case, former, now in (
        ("to sessions", ten, sessions),
        ("from sessions", sessions, ten),
        ("of the clock", tens, processed(ProcessingTimeSessionWindows.with_gap(5))),
    ):
        yield refused("sessions or not", case, former, now, "keeps the kind")
    one = CountTrigger.of(50)
    counted = {
        "tumbling": keyed(lambda: count_window(5).process(Contents())),
        "of another size": keyed(lambda: count_window(3).process(Contents())),
        "sliding": keyed(lambda: count_window(6, 2).process(Contents())),
        "of another slide": keyed(lambda: count_window(6, 3).process(Contents())),
    }
    for before, former in counted.items():
        for then, now in counted.items():
            if before != then:
                row = "size or slide of count windows"
                yield refused(row, f"{before} to {then}", former, now, "keeps the windows")
        everything = processed(GlobalWindows.create(), one)
        row = "windows of time, of a count, or the global one"
        yield refused(row, f"{before} to global", former, everything, "keeps the windows")
        yield refused(row, f"global to {before}", everything, former, "keeps the windows")
        yield refused(row, f"time to {before}", ten, former, "restored state keeps")
        yield refused(row, f"{before} to time", former, ten, "restored state keeps")
    yield refused(row, "time to global", ten, everything, "restored state keeps")
    yield refused(row, "global to time", everything, ten, "restored state keeps")
    for name, assigner in (("tumbling", TEN), ("sessions", SESSIONS)):
        end = 10 if assigner is TEN else 7
        for former, now in ((0, 5), (5, 0), (5, 9), (9, 5)):
            yield cell(
                "allowed lateness",
                f"{name}, {former} to {now}",
                processed(assigner, allowed_lateness=former),
                processed(assigner, allowed_lateness=now),
                [watermark(end), END],
                fired((min(end - 10, 1) if assigner is TEN else 1, end, [1, 2])),
            )
    yield from triggers(cell, refused)
    yield from evictors(cell, refused)
    yield from contents(cell, refused)


def triggers(cell: Any, refused: Any) -> Iterable[Cell]:
    """Those of windows."""
    now: Any
    assigner: Any
    former: Any
    count, purging = CountTrigger.of(3), PurgingTrigger(EventTimeTrigger())
    yield cell(
        "trigger",
        "a count to the end",
        processed(TEN, count),
        processed(TEN),
        [END],
        fired((0, 10, [1, 2])),
    )
    yield cell(
        "trigger",
        "the end to a count",
        processed(TEN),
        processed(TEN, count),
        [*at(3, 4, 5), END],
        fired((0, 10, [1, 2, 3, 4, 5])),
    )
    yield cell(
        "trigger",
        "one that purges",
        processed(TEN),
        processed(TEN, purging),
        [*at(3), END],
        fired((0, 10, [1, 2, 3])),
    )
    yield cell(
        "trigger",
        "the end to a continuous one",
        processed(TEN),
        processed(TEN, ContinuousEventTimeTrigger.of(4)),
        [*at(3), watermark(4), END],
        fired((0, 10, [1, 2, 3]), (0, 10, [1, 2, 3]), (0, 10, [1, 2, 3])),
    )
    yield cell(
        "trigger",
        "the end to a continuous one, of the clock",
        processed(CLOCKED),
        processed(CLOCKED, ContinuousProcessingTimeTrigger.of(4)),
        [clock(9)],
        fired((0, 10, [1, 2])),
    )
    yield cell(
        "count of a trigger",
        "less than what there is",
        processed(TEN, CountTrigger.of(9)),
        processed(TEN, CountTrigger.of(2)),
        at(3, 4),
        fired((0, 10, [1, 2, 3])),
    )
    yield cell(
        "count of a trigger",
        "more",
        processed(TEN, CountTrigger.of(3)),
        processed(TEN, CountTrigger.of(4)),
        at(3, 4),
        fired((0, 10, [1, 2, 3, 4])),
    )
    yield cell(
        "interval of a continuous trigger",
        "the next time is the former one's",
        processed(TEN, ContinuousEventTimeTrigger.of(4)),
        processed(TEN, ContinuousEventTimeTrigger.of(2)),
        [watermark(4), watermark(6)],
        fired((0, 10, [1, 2]), (0, 10, [1, 2])),
    )
    row = "a trigger that waits for the end, with a lateness"
    for name, assigner in (("tumbling", TEN), ("sessions", SESSIONS)):
        for case, now in (
            ("the end", None),
            ("purging", purging),
            ("continuous", ContinuousEventTimeTrigger.of(4)),
        ):
            former = processed(assigner, count, allowed_lateness=5)
            late = processed(assigner, now, allowed_lateness=5)
            yield refused(row, f"{name}, {case}", former, late, "what fires a window")
    row = "a trigger that waits for the clock, of windows of event time"
    for case, now in (
        ("its end", ProcessingTimeTrigger()),
        ("continuous", ContinuousProcessingTimeTrigger.of(4)),
    ):
        yield refused(row, case, processed(TEN), processed(TEN, now), "what fires a window")
        former = processed(TEN, count)
        yield refused(row, f"{case}, of a count", former, processed(TEN, now), "what fires")
    yield refused(
        "clock of a continuous trigger",
        "to event time",
        processed(TEN, ContinuousProcessingTimeTrigger.of(4)),
        processed(TEN, ContinuousEventTimeTrigger.of(4)),
        "the clock of a continuous trigger",
    )


def evictors(cell: Any, refused: Any) -> Iterable[Cell]:
    """Those of windows."""
    former: Any
    now: Any
    count, time = CountEvictor.of(2), TimeEvictor.of(1)
    for case, former, now, expected in (
        ("a smaller count", CountEvictor.of(9), count, [2, 3]),
        ("a count to a time", count, time, [3]),
        ("a time to a count", time, count, [2, 3]),
        ("a longer time", time, TimeEvictor.of(9), [1, 2, 3]),
        ("before or after", count, CountEvictor.of(2, True), [1, 2, 3]),
    ):
        made = processed(TEN, evictor=former), processed(TEN, evictor=now)
        yield cell("another evictor", case, *made, [*at(3), END], fired((0, 10, expected)))
    evicted = processed(TEN, evictor=count)
    yield refused("an evictor or none", "one", processed(TEN), evicted, "restored state keeps")
    yield refused("an evictor or none", "none", evicted, processed(TEN), "restored state keeps")


def contents(cell: Any, refused: Any) -> Iterable[Cell]:
    """Functions and types of windows."""
    former: Any
    now: Any
    reduced = keyed(lambda: window(TEN, PAIR).reduce(max))
    summed = keyed(lambda: window(TEN, PAIR).reduce(SumOf(1)))
    aggregated = keyed(lambda: window(TEN, PAIR).aggregate(Sum(), accumulator_type=LONG))
    gathered = keyed(lambda: window(TEN, PAIR).process(Contents()))
    yield cell(
        "their function",
        "of all elements",
        processed(TEN),
        processed(TEN, function=Sizes()),
        [*at(3), END],
        [("size", 3)],
    )
    yield cell(
        "a reduce or aggregate function of your own",
        "reduce",
        reduced,
        keyed(lambda: window(TEN, PAIR).reduce(min)),
        [*at(3), END],
        [("k", 2)],
    )
    row = "sum, min, max, min_by, max_by, or their field"
    for case, former, now in (
        ("another", summed, keyed(lambda: window(TEN, PAIR).reduce(Max(1)))),
        ("another field", summed, keyed(lambda: window(TEN, PAIR).reduce(SumOf(0)))),
        ("to one of your own", summed, reduced),
        ("from one of your own", reduced, summed),
    ):
        yield refused(row, case, former, now, "the fold of a window")
    kinds = {"reduce": reduced, "aggregate": aggregated, "all elements": gathered}
    for before, former in kinds.items():
        for then, now in kinds.items():
            if before != then:
                row = "reduce, aggregate or all elements"
                yield refused(row, f"{before} to {then}", former, now, "keeps the kind")
    narrow = Types.TUPLE([TEXT, INT])

    def of_all(kind: Any) -> Make:
        return keyed(lambda: window(TEN, kind).process(Contents()))

    def of_reduced(kind: Any) -> Make:
        return keyed(lambda: window(TEN, kind).reduce(max))

    for case, make in (("all elements", of_all), ("reduce", of_reduced)):
        expected = fired((0, 10, [1, 2, 3])) if case == "all elements" else [("k", 3)]
        row = "a type of elements that grows"
        yield cell(row, case, make(narrow), make(PAIR), [*at(3), END], expected)
        row = "another type of elements or accumulator"
        yield refused(row, case, make(PAIR), make(narrow), "keeps the value type")
    yield refused(
        row,
        "aggregate",
        aggregated,
        keyed(lambda: window(TEN, PAIR).aggregate(Sum(), accumulator_type=INT)),
        "keeps the value type",
    )
    tag = OutputTag("late", PAIR)
    for case, former, now in (
        ("given", processed(TEN), processed(TEN, side_output_late_data=tag)),
        ("left out", processed(TEN, side_output_late_data=tag), processed(TEN)),
    ):
        after = [watermark(5), *at(3), END]
        yield cell("side output of late data", case, former, now, after, fired((0, 10, [1, 2, 3])))


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
    expected: Any
    bounds: Any
    alone: Any
    start: Any
    before = sides((1, 10), (2, 11), (1, 30), (2, 50))
    for former, had in OUTER.items():
        for now, has in OUTER.items():
            if all(one >= other for one, other in zip(had, has)):
                row = "interval join: an outer input that becomes inner"
                if former == now:
                    continue
                alone = [(30, None)] * has[0] + [(None, 50)] * has[1]
                yield Cell(
                    row,
                    GOES_ON,
                    f"{former} to {now}",
                    joined(former),
                    joined(now),
                    before,
                    BOTH_END,
                    alone,
                )
            else:
                row = "interval join: an inner input that becomes outer"
                words = "the kind of the join"
                made = joined(former), joined(now)
                yield Cell(row, REFUSED, f"{former} to {now}", *made, before, [], words)
    for case, bounds, expected in (
        ("wider", (-5, 5), [(10, 11), (14, 11)]),
        ("narrower", (0, 0), [(11, 11)]),
        ("moved", (1, 3), [(10, 11), (10, 12)]),
    ):
        after = {
            "wider": sides((1, 14)),
            "narrower": sides((1, 11), (1, 12)),
            "moved": sides((2, 12), (2, 15)),
        }[case]
        if case == "wider":
            expected = [(14, 11)]
        if case == "moved":
            expected = [(10, 12)]
        made = joined(), joined(bounds=bounds)
        start = sides((1, 10), (2, 11))
        yield Cell("interval join: bounds", GOES_ON, case, *made, start, after, expected)
    tag = OutputTag("late", PAIR)
    for case, former, now in (
        ("given", joined(), joined(left_late=tag, right_late=tag)),
        ("left out", joined(left_late=tag, right_late=tag), joined()),
    ):
        row = "interval join: side outputs of late data"
        start, after = sides((1, 10)), sides((2, 11))
        yield Cell(row, GOES_ON, case, former, now, start, after, [(10, 11)])
    narrow, wide = Types.TUPLE([TEXT, INT]), PAIR
    for case, former, now in (
        ("left", (narrow, PAIR), (wide, PAIR)),
        ("right", (PAIR, narrow), (PAIR, wide)),
    ):
        start, after = sides((1, 10), (2, 20)), sides((2, 11), (1, 21))
        made = joined(kinds=former), joined(kinds=now)
        row = "interval join: a type of elements that grows"
        yield Cell(row, GOES_ON, case, *made, start, after, [(10, 11), (21, 20)])
        row = "interval join: another type of elements"
        made = joined(kinds=now), joined(kinds=former)
        yield Cell(row, REFUSED, case, *made, start, [], "keeps the value type")

    def within(how: str, kinds: Any = (PAIR, PAIR)) -> Make:
        def make() -> Any:
            groups = JoinedGroups(lambda one, two: (one and one[1], two and two[1]), how)
            return window(TEN, TaggedTypeInfo(*kinds)).process(CoGrouping(groups))

        return lambda **options: KeyedProcessHarness(make(), lambda each: each[1][0], **options)

    start = [("process_element", (1, ("k", 1)), 1), ("process_element", (1, ("k", 2)), 2)]
    for former in OUTER:
        for now, (left, _) in OUTER.items():
            if former != now:
                expected = [(1, None), (2, None)] if left else []
                made = within(former), within(now)
                row = "window join: its kind"
                yield Cell(row, GOES_ON, f"{former} to {now}", *made, start, [END], expected)
    made = within("full_outer", (narrow, PAIR)), within("full_outer")
    yield Cell(
        "window join: a type of elements that grows",
        GOES_ON,
        "left",
        *made,
        start,
        [END],
        [(1, None), (2, None)],
    )


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

    def refused(row: str, case: str, former: Make, now: Make, words: str) -> Cell:
        return Cell(f"fold: {row}", REFUSED, case, former, now, rows(1, 2), [], words)

    for case, former, now in (("on", False, True), ("off", True, False)):
        made = fold(SumOf("n"), running=former), fold(SumOf("n"), running=now)
        yield refused("running", case, *made, "when a key gives out its fold")
    for case, former, now in (
        ("another", SumOf("n"), Max("n")),
        ("of whole elements", Max("n"), MaxBy("n")),
        ("another field", SumOf("n"), SumOf("m")),
        ("a name for a position", SumOf(1), SumOf("n")),
        ("to one of your own", SumOf("n"), own),
        ("from one of your own", own, SumOf("n")),
    ):
        yield refused("another, or another field", case, fold(former), fold(now), "keeps the kind")
    yield refused(
        "another field at its position",
        "fields in another order",
        fold(SumOf(1)),
        fold(SumOf(1), MOVED),
        "the field that is folded, 'n', got 'm'",
    )
    yield Cell(
        "fold: a type of elements that grows",
        GOES_ON,
        "fields in another order, by name",
        fold(SumOf("n")),
        fold(SumOf("n"), MOVED),
        rows(1, 2),
        rows(4),
        [Row(k="a", m=100, n=7)],
    )
    yield Cell(
        "fold: a type of elements that grows",
        GOES_ON,
        "one more field",
        fold(SumOf("n")),
        fold(SumOf("n"), MORE),
        rows(1, 2),
        rows(4, x=5),
        [Row(k="a", n=7, m=100, x=None)],
    )
    yield Cell(
        "fold: another function of your own",
        GOES_ON,
        "the least for the greatest",
        fold(own),
        fold(lambda one, two: one if one.n < two.n else two),
        rows(1, 2),
        rows(4),
        [Row(k="a", n=2, m=100)],
    )


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
    before = given(*range(8))
    for kind, whole in WHOLE.items():
        for scope in ("key", "partition"):

            def cell(
                row: str, case: str, former: Any, now: Any, expected: Any, after: Any = ()
            ) -> Cell:
                made = store(kind, scope=scope, **former), store(kind, scope=scope, **now)  # noqa: B023
                what = f"{kind}, scope {scope}, {case}"  # noqa: B023
                return Cell(
                    f"store: {row}", GOES_ON, what, *made, before, [*after, *READ], [expected]
                )

            for option in ("caching", "changelog"):
                for value_ in (False, True):
                    row = "caching, changelog, changelog_config"
                    case = f"{option} {value_}"
                    yield cell(row, case, {option: not value_}, {option: value_}, whole)
            config = {"changelog_config": {"retention.ms": "1"}}
            yield cell("caching, changelog, changelog_config", "config", {}, config, whole)
            if kind in ("window", "session"):
                yield cell("retention, a longer one", "", {}, {"retention": 80}, LAST_FOUR)
                yield cell("retention, a shorter one", "", {}, {"retention": 15}, [6, 7])
                yield cell("segments", "more", {}, {"segments": 4}, LAST_FOUR)
                yield cell("segments", "fewer", {"segments": 4}, {}, LAST_FOUR)
                wide = {"retention": 600_000}
                yield cell("segments", "of other widths", wide, {**wide, "segments": 9}, EIGHT)
            if kind == "versioned":
                row = "history_retention, a longer one"
                yield cell(row, "", {}, {"history_retention": 80}, LAST_FIVE)
                row = "history_retention, a shorter one"
                yield cell(row, "", {}, {"history_retention": 15}, [5, 6, 7])
            if kind == "lru":
                yield cell("max_entries, more", "", {}, {"max_entries": 7}, LAST_FOUR)
                row = "max_entries, fewer"
                yield cell(row, "before a write", {}, {"max_entries": 2}, LAST_FOUR)
                yield cell(row, "after one", {}, {"max_entries": 2}, [7, 8], given(8))
        yield from refused_stores(kind, before)


def refused_stores(kind: str, before: list[Step]) -> Iterable[Cell]:
    """What makes another store of it."""
    former: Any
    then: Any

    def cell(row: str, case: str, former: Make, now: Make, words: str) -> Cell:
        return Cell(f"store: {row}", REFUSED, f"{kind}, {case}", former, now, before, [], words)

    for other in OPTIONS:
        if other != kind:
            yield cell("its kind", f"to {other}", store(kind), store(other), "state 's'")
    for former, now in (("key", "partition"), ("partition", "key")):
        made = store(kind, scope=former), store(kind, scope=now)
        yield cell("scope", f"to {now}", *made, "state 's'")
    made = store(kind, (TEXT, LONG)), store(kind, (Types.CHAR(), LONG))
    yield cell("type of its keys", "text", *made, "state 's'")
    made = store(kind, (TEXT, LONG)), store(kind, (TEXT, INT))
    yield cell("another type of its values", "narrower", *made, "keeps the value type")
    made = store(kind, (TEXT, INT)), store(kind)
    row = "store: a type of its values that grows"
    yield Cell(row, GOES_ON, kind, *made, before, READ, [WHOLE[kind]])
    if kind in ("window", "session", "versioned"):
        times = ("key", "partition", "watermark")
        for former in times:
            for then in times:
                if former != then:
                    made = store(kind, stream_time=former), store(kind, stream_time=then)
                    yield Cell(
                        "store: stream_time",
                        REFUSED,
                        f"{kind}, {former} to {then}",
                        *made,
                        [watermark(1), *before],
                        [],
                        "state 's/time'",
                    )
    if kind == "window":
        made = store(kind), store(kind, window_size=7)
        yield cell("window_size", "another", *made, "state 's'")
        for former, then in ((False, True), (True, False)):
            made = store(kind, retain_duplicates=former), store(kind, retain_duplicates=then)
            yield cell("retain_duplicates", str(then), *made, "state 's'")


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
    former: Any
    now: Any
    before = [("process_broadcast_element", ("low", 3))]
    after = [("process_element", ("a", 4))]
    one = broadcasting(limits())

    def cell(row: str, case: str, former: Make, now: Make, expected: Any) -> Cell:
        return Cell(f"broadcast: {row}", GOES_ON, case, former, now, before, after, expected)

    both = broadcasting(limits(), limits("more"))
    yield cell("a new state, one that is gone", "new", one, both, [["low"], []])
    yield cell("a new state, one that is gone", "gone", both, one, [["low"]])
    yield cell("a new state, one that is gone", "renamed", one, broadcasting(limits("more")), [[]])
    narrow = broadcasting(limits(kind=INT))
    yield cell("a type of values that grows", "", narrow, one, [["low"]])
    for case, former, now in (
        ("of values", one, narrow),
        ("of keys", one, broadcasting(limits(key=Types.CHAR()))),
    ):
        words = "state 'limits': restored state keeps"
        yield Cell("broadcast: another type", REFUSED, case, former, now, before, [], words)
    plain = keeping(limits)
    for case, former, now, start in (
        ("to keyed", one, plain, before),
        ("to broadcast", keyed(lambda: Keeps(mapped(LONG, LONG))), None, given(7)),
    ):
        if now is None:
            now = broadcasting(limits("s", LONG, LONG))
        yield Cell(
            "state: keyed or broadcast", REFUSED, case, former, now, start, [], "keeps the kind"
        )


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

    def cell(row: str, case: str, former: Make, now: Make, *steps: Any) -> Cell:
        return Cell(f"upsert: {row}", GOES_ON, case, former, now, *steps)

    ordered = {"order_key": "o"}
    changed = told(("update_before", "x", -1), ("update_after", "y", 1))
    row = "order_key"
    for case, former, now, then in (
        ("given: what is known has no place", {}, ordered, ("y", 1)),
        ("left out: the later arrival wins", ordered, {}, ("y", 1)),
    ):
        made = upsert(**former), upsert(**now)
        yield cell(row, case, *made, rows(("x", 5)), rows(then), changed)
    made = upsert(**ordered), upsert(order_key=lambda row: str(row.o))
    yield cell(row, "not to be compared: an error", *made, rows(("x", 5)), rows(("y", 6)), [])
    for case, ttl_ in (("for ever", None), ("a day", timedelta(days=1))):
        made = upsert(**ordered), upsert(**ordered, tombstone_ttl=ttl_)
        steps = rows(("x", 5), (None, 6)), rows(("y", 4), ("y", 7)), told(("insert", "y", 1))
        yield cell("tombstone_ttl", case, *made, *steps)
    for on_error in ("drop", "raise", "side_output"):
        options = {"error_tag": OutputTag("errors", TEXT)} if on_error == "side_output" else {}
        made = upsert(on_error="inline"), upsert(on_error=on_error, **options)
        steps = rows(("bad", 1)), rows(("y", 2)), told(("insert", "y", 1))
        yield cell("on_error", f"inline to {on_error}: what was an error", *made, *steps)
        steps = rows(("x", 1)), rows(("y", 2)), changed
        yield cell("on_error", f"inline to {on_error}: what was a value", *made, *steps)
    yield cell(
        "on_error",
        "inline to drop: an error that is deleted",
        upsert(on_error="inline"),
        upsert(),
        rows(("bad", 1)),
        rows((None, 2)),
        [],
    )


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
