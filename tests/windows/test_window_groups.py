# SPDX-License-Identifier: Apache-2.0
"""Records that are put into their windows together: nobody can tell them from records one by one."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stream_support import BACKENDS

from pyflinklike import (
    AggregateFunction,
    DeadLetters,
    HashMapStateBackend,
    OutputTag,
    ReduceFunction,
    Row,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.entry_codec import decode_entries
from pyflinklike._changelog.key_group_state import LocalStateBackend
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._changelog.segment_chain import sections_of
from pyflinklike._changelog.segments import read_segment
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.invokers import UserFunctionInvoker
from pyflinklike._runtime.micro_batch import Records, UnsortedRecords, serve
from pyflinklike.aggregations import Max, MinBy, Sum
from pyflinklike.errors import UserFunctionError
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    window,
)

LATE, DEAD = OutputTag("late", Types.PICKLED_BYTE_ARRAY()), OutputTag("dead")
TOGETHER, ONE_BY_ONE = "together", "one by one"


class Told(ProcessWindowFunction):
    """Key, window and contents."""

    def process(self, key, context, elements):
        yield key, context.window().namespace, list(elements)


class Digits(AggregateFunction):
    """All digits in order, in a list that it changes; so an exchange of two elements shows."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        number = value[1]
        if number == BAD:
            raise RuntimeError("a bad one")
        accumulator.append(number)
        return accumulator

    def get_result(self, accumulator):
        return tuple(accumulator)

    def merge(self, acc_a, acc_b):
        return [*acc_a, "+", *acc_b]


class Number(AggregateFunction):
    """All digits in order as one number, modulo a prime."""

    def create_accumulator(self):
        return 1

    def add(self, value, accumulator):
        if value[1] == BAD:
            raise RuntimeError("a bad one")
        return (accumulator * 31 + value[1]) % 1_000_003

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return (acc_a * 17 + acc_b) % 1_000_003


class Later(ReduceFunction):
    """Returns its second argument where that is odd, and else a new element of both."""

    def reduce(self, value1, value2):
        if value2[1] == BAD:
            raise RuntimeError("a bad one")
        if value2[1] % 2:
            return value2
        return Row(key=value1[0], n=(value1[1] * 31 + value2[1]) % 1_000_003, at=value1[2])


BAD = 666
ELEMENTS = Types.ROW_NAMED(["key", "n", "at"], [Types.STRING(), Types.LONG(), Types.LONG()])
FOLDS = {
    "elements": lambda windowed: windowed.process(Told()),
    "numbers": lambda windowed: windowed.aggregate(Number(), Told(), Types.LONG()),
    "digits": lambda windowed: windowed.aggregate(Digits(), Told()),
    "reduced": lambda windowed: windowed.reduce(Later(), Told()),
}
BY_FIELD = {
    "sum": lambda windowed: windowed.reduce(Sum("n"), Told()),
    "max": lambda windowed: windowed.reduce(Max(1), Told()),
    "min_by": lambda windowed: windowed.reduce(MinBy("n"), Told()),
}


@attrs.frozen
class Declared:
    """What windows are declared as."""

    kind: str
    size: int
    slide: int
    offset: int
    lateness: int
    fold: str
    is_typed: bool
    has_side_output: bool

    def is_exact(self) -> bool:
        """Whether all keys go one way, so that even the order of keys is the same."""
        return self.kind != "session" and not self.lateness

    def operator(self) -> Any:
        """The windows; of rows `(key, n, at)`."""
        offset = self.offset % self.slide
        assigner = {
            "tumbling": lambda: TumblingEventTimeWindows.of(self.size, self.offset % self.size),
            "sliding": lambda: SlidingEventTimeWindows.of(self.size, self.slide, offset),
            "session": lambda: EventTimeSessionWindows.with_gap(self.size),
        }[self.kind]()
        windowed = window(assigner, ELEMENTS if self.is_typed else None)
        windowed.allowed_lateness(self.lateness)
        if self.has_side_output:
            windowed.side_output_late_data(LATE)
        return {**FOLDS, **BY_FIELD}[self.fold](windowed)


@attrs.frozen
class Seen:
    """All that can be seen of a micro-batch.

    Args:
        outputs: The outputs.
        metrics: The operator's own, and the user's.
        log: All segments that count.
        specs: The tables by name.
    """

    outputs: Any
    metrics: Any
    log: list[Any]
    specs: dict[str, Any]

    def exactly(self) -> Any:
        """Return all of it, but for the nonces that are drawn."""
        return self.outputs, self.metrics, [(each.declarations, each.sections) for each in self.log]

    def by_entries(self) -> Any:
        """Return all of it, without the order of outputs and entries of different keys."""
        sides = {tag: sorted(zip(*pair), key=repr) for tag, pair in self.outputs.side.items()}
        entries = []
        for section in sections_of(self.log, "a log"):
            spec = self.specs[section.declaration.name]
            changes = decode_entries(section, spec, Types.STRING(), 0, "a log")
            rows = zip(changes.keys, changes.user_keys, changes.entries)
            entries.append(
                (section.declaration, sorted(map(repr, changes.cleared)), sorted(map(repr, rows)))
            )
        main = sorted(zip(self.outputs.keys, self.outputs.main), key=repr)
        return main, sides, self.metrics, entries


class Way:
    """Key group 0 of a query whose records go together or one by one.

    Args:
        function: Of the operator.
        backend: For working state.
        store: The log that it begins with.
        on_error: As of the query.
    """

    def __init__(
        self, function: Any, backend: Any, store: Any = None, on_error: Any = None
    ) -> None:
        self.operator = make_keyed_operator(
            OperatorDeclaration(
                function,
                backend,
                Types.STRING(),
                TaskInfo("windows", max_parallelism=1),
                f"tested-{uuid.uuid4()}",
                on_error=on_error,
            )
        )
        self.operator.open()
        self.store = InMemoryLogStorage() if store is None else store
        calls: Any = self.operator._calls
        self.ways = {
            TOGETHER: calls.process,
            ONE_BY_ONE: partial(UserFunctionInvoker.process, calls),
        }

    def batch(self, way: str, records: list[Any], watermark: int, *, in_order: bool = False) -> Any:
        """Process a micro-batch of `(key, n, time)`; return all that can be seen of it."""
        operator = self.operator
        operator.clock.watermark = watermark
        operator.process = self.ways[way]
        values = [Row(key=key, n=n, at=time) for key, n, time in records]
        kind = Records if in_order else UnsortedRecords
        serve(
            operator,
            self.store,
            0,
            kind([key for key, _, _ in records], values, [time for _, _, time in records]),
        )
        operator.group.cache()
        outputs, metrics = operator.outputs.take(), operator.take_metrics()
        log = [read_segment(blob, "a log") for _, blob in sorted(self.store.segments.items())]
        return Seen(outputs, metrics, log, {each.name: each for each in operator.group.specs})

    def close(self) -> Any:
        """Close the operator, and return its log."""
        self.operator.close()
        if isinstance(self.operator.backend, LocalStateBackend):
            self.operator.backend.discard()
        return self.store


DECLARED = st.builds(
    Declared,
    kind=st.sampled_from(["tumbling", "sliding", "session"]),
    size=st.integers(1, 8),
    slide=st.integers(1, 5),
    offset=st.integers(-4, 4),
    lateness=st.sampled_from([0, 0, 0, 3]),
    fold=st.sampled_from(sorted(FOLDS)),
    is_typed=st.booleans(),
    has_side_output=st.booleans(),
)
RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(-8, 9)), max_size=14
)
BATCHES = st.lists(
    st.tuples(
        RECORDS,
        st.integers(0, 6),
        st.booleans(),
        st.none()
        | st.tuples(
            st.sampled_from([each.values[0] for each in BACKENDS if each.values[0]]),
            st.sampled_from([0, 0, 3]),
            st.integers(1, 8),
        ),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=settings().max_examples // 4)
@given(declared=DECLARED, batches=BATCHES)
def test_records_together_are_records_one_by_one(declared, batches):
    """In outputs, side outputs, logs and metrics, also where a query changes its way as it restarts."""
    check_ways(declared, batches)


@pytest.mark.parametrize("fold", sorted(BY_FIELD))
@settings(max_examples=settings().max_examples // 5)
@given(
    kind=st.sampled_from(["tumbling", "sliding", "session"]),
    batches=st.lists(
        st.tuples(RECORDS, st.integers(0, 3), st.booleans(), st.none()), min_size=2, max_size=3
    ),
)
def test_folds_by_a_field_are_together_what_they_are_one_by_one(fold, kind, batches):
    """As above: the elements of a window are folded at once."""
    check_ways(Declared(kind, 6, 3, 0, 0, fold, is_typed=True, has_side_output=False), batches)


def check_ways(declared: Declared, batches: Any) -> None:
    """Check that two queries in two ways, and one that changes its way, are the same."""
    ways = {
        each: Way(declared.operator(), HashMapStateBackend()) for each in (TOGETHER, ONE_BY_ONE)
    }
    turns = Way(declared.operator(), HashMapStateBackend())
    watermark, is_exact = MIN_WATERMARK, declared.is_exact()
    end: Any = ([], None, True, None)
    for number, (records, step, in_order, move) in enumerate([*batches, end, end]):
        if move is not None:
            backend, lateness, size = move
            declared = attrs.evolve(declared, lateness=lateness, size=size)
            is_exact &= declared.is_exact()
            ways = {
                each: Way(declared.operator(), backend, way.close()) for each, way in ways.items()
            }
            turns = Way(declared.operator(), backend, turns.close())
        base = max(watermark, 0)
        timed = [(key, n, base + ahead) for key, n, ahead in records]
        if in_order:
            timed.sort(key=lambda each: each[2])
        seen = {each: way.batch(each, timed, watermark) for each, way in ways.items()}
        own = turns.batch([TOGETHER, ONE_BY_ONE][number % 2], timed, watermark)
        # Where some keys go one by one and others together, keys may change places.
        compared = Seen.exactly if is_exact else Seen.by_entries
        expected = compared(seen[ONE_BY_ONE])
        assert expected == compared(seen[TOGETHER])
        assert expected == compared(own)
        watermark = MAX_WATERMARK if step is None else base + step
    for way in (*ways.values(), turns):
        assert 0 == way.operator.backend.count(), "all is freed"
        way.close()


@pytest.mark.parametrize("time", [1, 2, 3, 5, 6])
def test_a_session_that_a_greater_lateness_has_kept_takes_its_elements_one_by_one(time):
    """It is over, and what was to fire at its end has fired."""
    former = Declared("session", 5, 1, 0, 3, "numbers", is_typed=True, has_side_output=True)
    seen = []
    for each in (TOGETHER, ONE_BY_ONE):
        way = Way(former.operator(), HashMapStateBackend())
        way.batch(each, [("a", 1, 0)], 0)
        way.batch(each, [], 5)
        now = attrs.evolve(former, lateness=0)
        way = Way(now.operator(), HashMapStateBackend(), way.close())
        some = (
            way.batch(each, [("a", 2, time), ("b", 3, 9), ("a", 4, 7)], 5),
            way.batch(each, [], 30),
        )
        seen.append([batch.by_entries() for batch in some])
        way.close()
    assert seen[0] == seen[1]


def test_sessions_that_are_stored_in_another_order_than_that_of_time():
    """An element finds its own, which need not be the one stored last."""
    declared = Declared("session", 5, 1, 0, 0, "digits", is_typed=True, has_side_output=False)
    batches = [("a", 1, 30), ("a", 2, 10)], [("a", 3, 32), ("a", 4, 12)], [("a", 5, 21)], []
    seen = []
    for each in (TOGETHER, ONE_BY_ONE):
        way = Way(declared.operator(), HashMapStateBackend())
        marks = zip(batches, (0, 0, 0, 50))
        seen.append([way.batch(each, some, watermark).by_entries() for some, watermark in marks])
        way.close()
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("fired", "watermark"), [(1, 3), (3, 4), (3, 6), (1, 7)])
def test_elements_within_the_lateness_fire_one_by_one(fired, watermark):
    """Of their two windows the first fires again at each, if it has fired; the other fires once."""
    declared = Declared("sliding", 10, 5, 0, 3, "numbers", is_typed=True, has_side_output=True)
    seen, outputs = [], []
    for each in (TOGETHER, ONE_BY_ONE):
        way = Way(declared.operator(), HashMapStateBackend())
        first = way.batch(each, [("a", 1, 3), ("a", 2, 4)], watermark)
        second = way.batch(each, [], 4 if watermark == 3 else 20)
        seen.append([first.by_entries(), second.by_entries()])
        outputs.append(len(first.outputs.main) + len(second.outputs.main))
        way.close()
    assert (seen[0], [fired, fired]) == (seen[1], outputs)


@pytest.mark.parametrize("fold", ["elements", "sum"])
def test_a_late_element_that_does_not_fit_is_late(fold):
    """It is dropped and counted, while those of open windows go together."""
    declared = Declared("tumbling", 5, 1, 0, 0, fold, is_typed=True, has_side_output=False)
    seen = []
    for each in (TOGETHER, ONE_BY_ONE):
        way = Way(declared.operator(), HashMapStateBackend())
        way.batch(each, [("a", 1, 11), ("a", "no number", 1), ("b", 2, 12)], 10)
        seen.append(way.batch(each, [], 99).by_entries())
        way.close()
    assert seen[0] == seen[1]


# Where something fails


ALL_OF_THEM = DeadLetters(DEAD, at_most=1_000, per="batch")


@settings(max_examples=settings().max_examples // 4)
@given(
    declared=DECLARED,
    records=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2, 3, BAD, None]), st.integers(-4, 9)),
        max_size=10,
    ),
)
@example(  # the windows of "a" come in another order
    declared=Declared("sliding", 3, 1, 0, 3, "numbers", is_typed=True, has_side_output=False),
    records=[("b", 1, 0), ("b", BAD, 0), ("a", 1, 1), ("a", 1, 1)],
)
def test_of_records_together_the_guilty_one_becomes_a_letter(declared, records):
    """It alone, with the error and the state that it meets one by one."""
    seen = {}
    for each in (TOGETHER, ONE_BY_ONE):
        way = Way(declared.operator(), HashMapStateBackend(), on_error=ALL_OF_THEM)
        batches = [
            way.batch(each, records, 0),
            way.batch(each, records, 5),
            way.batch(each, [], 99),
        ]
        seen[each] = [batch.by_entries() for batch in batches]
        way.close()
    assert seen[ONE_BY_ONE] == seen[TOGETHER]


def failures(operator: Any, elements: list[Any]) -> list[str]:
    """What the query fails with in each way."""
    told = []
    for each in (TOGETHER, ONE_BY_ONE):
        way = Way(operator, HashMapStateBackend())
        with pytest.raises(UserFunctionError) as raised:
            way.batch(each, elements, 0)
        told.append(str(raised.value))
        way.close()
    return told


@pytest.mark.parametrize(
    ("fold", "bad"),
    [("numbers", BAD), ("digits", BAD), ("reduced", BAD), ("sum", None), ("min_by", None)],
)
def test_the_error_names_the_record_that_fails(fold, bad):
    """Together as one by one: the element, its key, its time and the window."""
    declared = Declared("tumbling", 5, 1, 0, 0, fold, is_typed=True, has_side_output=False)
    records = [("a", 1, 1), ("b", 2, 1), ("a", 3, 2), ("a", bad, 3), ("b", 5, 4)]
    together, one_by_one = failures(declared.operator(), records)
    assert one_by_one == together
    assert f"n={bad}" in together


class FailsOnce(AggregateFunction):
    """The number of elements; the third call fails, and no later one."""

    def __init__(self):
        self.calls = 0

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        self.calls += 1
        if self.calls == 3:
            raise RuntimeError("only once")
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def test_what_fails_only_once_fails_the_query():
    """Elements may have been changed by the calls before: the results would be wrong."""
    operator = window(TumblingEventTimeWindows.of(10)).aggregate(FailsOnce())
    way = Way(operator, HashMapStateBackend())
    with pytest.raises(UserFunctionError, match="only once"):
        way.batch(TOGETHER, [("a", n, n) for n in range(5)], 0)
    way.close()


# Which records go together


class Calls(AggregateFunction):
    """The numbers in the order of calls, over all keys: only this can tell the ways apart."""

    numbers: list[int] = []

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        self.numbers.append(value[1])
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a


class OwnTumbling(TumblingEventTimeWindows):
    """An assigner that a user has derived from ours."""


class Remembers(ProcessWindowFunction):
    """Keeps a state with a TTL whose cleanup runs at every record."""

    def open(self, runtime_context):
        ttl = StateTtlConfig.new_builder(Time.hours(1)).cleanup_incrementally(1, True).build()
        descriptor = ValueStateDescriptor("last", Types.LONG())
        descriptor.enable_time_to_live(ttl)
        self.last = runtime_context.get_state(descriptor)

    def process(self, key, context, elements):
        return elements


TEN = TumblingEventTimeWindows.of(10)


def counted(windowed: Any, function: Any = None) -> Any:
    """Windows that fold by `Calls`."""
    return windowed.aggregate(Calls(), function, Types.LONG())


@pytest.mark.parametrize(
    ("expected", "operator"),
    [
        (TOGETHER, counted(window(TEN))),
        (TOGETHER, counted(window(TEN), Told())),
        (TOGETHER, counted(window(SlidingEventTimeWindows.of(10, 10)))),
        (TOGETHER, counted(window(EventTimeSessionWindows.with_gap(10)))),
        (TOGETHER, counted(window(TEN).allowed_lateness(5))),
        (TOGETHER, counted(window(TEN).side_output_late_data(LATE))),
        (ONE_BY_ONE, counted(window(OwnTumbling(10, 0)))),
        (ONE_BY_ONE, counted(window(TumblingProcessingTimeWindows.of(10)))),
        (ONE_BY_ONE, counted(window(TEN).trigger(CountTrigger.of(3)))),
        (ONE_BY_ONE, counted(window(TEN).trigger(PurgingTrigger.of(EventTimeTrigger())))),
        (ONE_BY_ONE, counted(window(EventTimeSessionWindows.with_gap(10)).allowed_lateness(5))),
        (ONE_BY_ONE, counted(window(TEN), Remembers())),
    ],
)
def test_which_windows_go_together(expected, operator):
    """Those of our event-time assigners with the default trigger, if nothing happens at every record."""
    Calls.numbers.clear()
    way = Way(operator, HashMapStateBackend())
    way.batch(TOGETHER, [("a", 1, 1), ("b", 2, 2), ("a", 3, 3)], 0)
    way.close()
    assert {TOGETHER: [1, 3, 2], ONE_BY_ONE: [1, 2, 3]}[expected] == Calls.numbers


@pytest.mark.parametrize(
    ("expected", "watermark", "records"),
    [
        ([1, 3, 2], 0, [("a", 1, 11), ("b", 2, 11), ("a", 3, 12)]),
        ([2, 4, 3], 20, [("a", 1, 11), ("b", 2, 31), ("a", 3, 12), ("b", 4, 32)]),
        (
            [2, 4, 1, 3, 5],
            0,
            [("a", 1, 21), ("b", 2, 11), ("a", 3, 35), ("b", 4, 12), ("a", 5, 28)],
        ),
    ],
    ids=["together", "over", "two become one"],
)
def test_only_the_sessions_of_some_keys_go_one_by_one(expected, watermark, records):
    """Those of a key with a record that may be late, or two of whose sessions become one."""
    Calls.numbers.clear()
    way = Way(counted(window(EventTimeSessionWindows.with_gap(10))), HashMapStateBackend())
    way.batch(TOGETHER, records, watermark)
    way.close()
    assert expected == Calls.numbers


def test_elements_that_can_be_changed_go_one_by_one_where_letters_are_made():
    """A fold that changes its elements must not get them twice."""

    class Totals(ReduceFunction):
        def reduce(self, value1, value2):
            if value2[1] == BAD:
                raise RuntimeError("a bad one")
            value2[1] += value1[1]
            return value2

    operator = window(TumblingEventTimeWindows.of(10)).reduce(Totals())
    with KeyedProcessHarness(operator, lambda each: each[0], on_error=ALL_OF_THEM) as driver:
        driver.process_elements([(["a", n], 1) for n in (1, 2, 3, BAD, 4)])
        driver.end_of_input()
        assert ([["a", 10]], 1) == (driver.output, len(driver.side_output(DEAD)))
