# SPDX-License-Identifier: Apache-2.0
"""Windows against a model in plain Python: any assigner, trigger, evictor, lateness, order and restarts.

The model keeps a dict of open windows for each key, and does what Flink's rules say one by one.
It knows no state, no namespace, no timer queue and no merging-window set.

Functions that raise make dead letters.  An element that its fold refuses has not come.  A firing
that fails gives nothing, and does whatever else a firing does.
"""

from __future__ import annotations

import copy
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_support import BACKENDS, Stream
from window_support import bounds

from pyflinklike import (
    AggregateFunction,
    DeadLetters,
    HashMapStateBackend,
    OutputTag,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike._runtime.micro_batch import Records, serve
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    window,
)

LATE, DEAD = OutputTag("late"), OutputTag("dead")
LETTERS = DeadLetters(DEAD, at_most=10_000, per="batch")


@attrs.define
class Open:
    """A window that is open: what is in it, and when its trigger wants to be asked."""

    elements: list[int] = attrs.field(factory=list)
    count: int = 0
    pending: int | None = None
    timers: set[int] = attrs.field(factory=set)


@attrs.frozen
class Settings:
    """What windows are declared as."""

    kind: str
    size: int
    slide: int
    trigger: str
    number: int
    purges: bool
    lateness: int
    keeps: int
    evicts_after: bool
    refuses: bool = False

    def operator(self, folded: bool) -> Any:
        """The windows; of elements `(key, number)`."""
        assigner = {
            "tumbling": lambda: TumblingEventTimeWindows.of(self.size),
            "sliding": lambda: SlidingEventTimeWindows.of(self.size, self.slide),
            "session": lambda: EventTimeSessionWindows.with_gap(self.size),
        }[self.kind]()
        trigger: Any = {
            "event time": EventTimeTrigger,
            "count": lambda: CountTrigger.of(self.number),
            "continuous": lambda: ContinuousEventTimeTrigger.of(self.number),
        }[self.trigger]()
        windowed = window(assigner, Types.PICKLED_BYTE_ARRAY())
        windowed.trigger(PurgingTrigger.of(trigger) if self.purges else trigger)
        if self.keeps:
            windowed.evictor(CountEvictor.of(self.keeps, self.evicts_after))
        windowed.allowed_lateness(self.lateness).side_output_late_data(LATE)
        if folded and self.refuses:
            return windowed.aggregate(Adding(), Numbers(refuses=True))
        if folded:
            return windowed.reduce(lambda one, other: (one[0], one[1] + other[1]), Numbers())
        return windowed.process(Numbers(refuses=self.refuses))


def is_refused(numbers: tuple[int, ...]) -> bool:
    """Whether the window function refuses the numbers of a window."""
    return sum(numbers) % 3 == 1


def is_unfit(numbers: tuple[int, ...], number: int) -> bool:
    """Whether the fold refuses to add a number to those of a window."""
    return (len(numbers) + number) % 5 == 4


class Numbers(ProcessWindowFunction):
    """Key, window and numbers; what `reduce` joins is in one element.

    Args:
        refuses: Whether it refuses some, and counts the firings of the key that it has not refused.
    """

    FIRED = ValueStateDescriptor("fired", Types.LONG())

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses

    def open(self, runtime_context):
        self.fired = runtime_context.get_state(self.FIRED)

    def process(self, key, context, elements):
        numbers = tuple(n for _, some in elements for n in some)
        told = key, bounds(context.window()), numbers
        if self.refuses:
            self.fired.update((self.fired.value() or 0) + 1)
        yield told
        if self.refuses and is_refused(numbers):
            raise ValueError(told)


class Adding(AggregateFunction):
    """Key and numbers; it refuses some."""

    def create_accumulator(self):
        return "", ()

    def add(self, value, accumulator):
        key, (number,) = value
        if is_unfit(accumulator[1], number):
            raise ValueError(number)
        return key, (*accumulator[1], number)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] or acc_b[0], acc_a[1] + acc_b[1]


class UnfitError(Exception):
    """The fold refuses an element."""


class Model:
    """Windows of one key, by the rules."""

    def __init__(self, settings: Settings, key: str, *, folded: bool = False) -> None:
        self.settings, self.key, self.folded = settings, key, folded and settings.refuses
        self.open: dict[tuple[int, int], Open] = {}
        self.out: list[Any] = []
        self.late: list[int] = []
        self.fired = 0
        self.letters: list[str] = []

    def end(self, at: tuple[int, int]) -> int:
        return at[1] - 1 + self.settings.lateness

    def element(self, number: int, time: int, watermark: int) -> None:
        """An element comes, or has not come if the fold refuses it in one of its windows."""
        kept = copy.deepcopy(vars(self))
        try:
            self._element(number, time, watermark)
        except UnfitError:
            vars(self).update(kept)
            self.letters.append("Adding.add")

    def _element(self, number: int, time: int, watermark: int) -> None:
        s = self.settings
        if s.kind == "session":
            windows = [self.merged((time, time + s.size), watermark)]
        else:
            slide = s.size if s.kind == "tumbling" else s.slide
            windows = [
                (start, start + s.size)
                for start in range(time - s.size + 1, time + 1)
                if start % slide == 0
            ]
        in_time = [at for at in windows if self.end(at) > watermark]
        for at in in_time:
            elements = self.open.setdefault(at, Open()).elements
            if self.folded and not s.keeps and is_unfit(tuple(elements), number):
                raise UnfitError
            elements.append(number)
            self.ask(at, time, watermark)
            self.open[at].timers.add(self.end(at))
        if not in_time and time + s.lateness <= watermark:
            self.late.append(number)

    def merged(self, at: tuple[int, int], watermark: int) -> tuple[int, int]:
        """The session that a new one becomes part of."""
        met = sorted(each for each in self.open if each[0] <= at[1] and each[1] >= at[0])
        if not met:
            return at
        cover = min(at[0], met[0][0]), max(at[1], met[-1][1])
        if met != [cover]:
            parts = [self.open.pop(each) for each in met]
            pending = [each.pending for each in parts if each.pending is not None]
            mine = self.open[cover] = Open(
                [n for each in parts for n in each.elements],
                sum(each.count for each in parts),
                min(pending, default=None),
            )
            if self.settings.trigger == "event time" and cover[1] - 1 > watermark:
                mine.timers.add(cover[1] - 1)
            if mine.pending is not None:
                mine.timers.add(mine.pending)
        return cover

    def ask(self, at: tuple[int, int], time: int, watermark: int) -> None:
        """What the trigger says to an element."""
        mine, s, last = self.open[at], self.settings, at[1] - 1
        if s.trigger == "count":
            mine.count += 1
            if mine.count >= s.number:
                mine.count = 0
                self.fire(at)
        elif last <= watermark:
            self.fire(at)
        else:
            mine.timers.add(last)
            if s.trigger == "continuous" and mine.pending is None:
                mine.pending = min(time - time % s.number + s.number, last)
                mine.timers.add(mine.pending)

    def fire(self, at: tuple[int, int]) -> None:
        """Give out what is in a window."""
        mine, s = self.open[at], self.settings
        if mine.elements:
            kept = mine.elements[-s.keeps :]  # all of them, if it is 0
            self.apply(at, tuple(mine.elements if s.evicts_after else kept))
            mine.elements = kept
        if self.settings.purges:
            mine.elements = []

    def apply(self, at: tuple[int, int], numbers: tuple[int, ...]) -> None:
        """Give out what the function makes of numbers."""
        if self.settings.refuses:
            in_turn = self.folded and self.settings.keeps
            if in_turn and any(is_unfit(numbers[:at], n) for at, n in enumerate(numbers)):
                self.letters.append("Adding.add")
                return
            if is_refused(numbers):
                self.letters.append("Numbers.process")
                return
            self.fired += 1
        self.out.append((self.key, at, numbers))

    def advance(self, watermark: int) -> None:
        """The watermark comes."""
        trigger, number = self.settings.trigger, self.settings.number
        while due := [
            (time, at)
            for at, mine in self.open.items()
            for time in mine.timers
            if time <= watermark
        ]:
            time, at = min(due)
            mine, last = self.open[at], at[1] - 1
            mine.timers.remove(time)
            if trigger != "count" and time == last:
                self.fire(at)
            elif trigger == "continuous" and time == mine.pending:
                mine.pending = min(time + number, last)
                mine.timers.add(mine.pending)
                self.fire(at)
            if time == self.end(at):
                del self.open[at]


SETTINGS = st.builds(
    Settings,
    kind=st.sampled_from(["tumbling", "sliding", "session"]),
    size=st.integers(1, 8),
    slide=st.integers(1, 5),
    trigger=st.sampled_from(["event time", "count", "continuous"]),
    number=st.integers(1, 4),
    purges=st.booleans(),
    lateness=st.sampled_from([0, 0, 1, 5]),
    keeps=st.sampled_from([0, 0, 1, 2]),
    evicts_after=st.booleans(),
    refuses=st.booleans(),
)
RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-6, 6)), max_size=8)
MOVES = st.none() | st.tuples(
    st.sampled_from([each.values[0] for each in BACKENDS if each.values[0]]),
    st.sampled_from([1, 5]),
)


class WindowStream(Stream):
    """A stream whose elements have times."""

    def timed_batch(self, records: list[Any], watermark: int) -> tuple[list[Any], ...]:
        """The main and late outputs, and the letters, of a micro-batch of `(key, numbers, time)`."""
        operator, main, late, letters = self.operator, [], [], []
        operator.clock.watermark = watermark
        self.left = []
        for index, store in enumerate(self.stores):
            mine = [each for each in records if self.groups_of([each[0]]) == [index]]
            keys, values = [each[0] for each in mine], [each[:2] for each in mine]
            serve(operator, store, index, Records(keys, values, [each[2] for each in mine]))
            self.left += left_of(operator)
            operator.group.cache()
            outputs = operator.outputs.take()
            main += outputs.main
            late += [n for _, (n,) in outputs.side.get("late", ((), ()))[1]]
            letters += [row.call for row in outputs.side.get("dead", ((), ()))[1]]
        return main, late, letters


@settings(max_examples=settings().max_examples // 2)
@given(
    declared=SETTINGS,
    folded=st.booleans(),
    batches=st.lists(st.tuples(MOVES, RECORDS, st.integers(0, 6)), max_size=7),
)
def test_windows_agree_with_a_model(declared, folded, batches):
    """Whatever they are, in whatever order elements come, and wherever the state goes between batches."""
    models = {key: Model(declared, key, folded=folded) for key in "ab"}
    letters = {"on_error": LETTERS if declared.refuses else None}
    stream = WindowStream(declared.operator(folded), HashMapStateBackend(), 2, **letters)
    watermark, number = MIN_WATERMARK, 0
    for move, records, step in [*batches, (None, [], None)]:
        if move is not None:
            savepoint = stream.savepoint()
            stream.close()
            stream = WindowStream(declared.operator(folded), *move, savepoint=savepoint, **letters)
        numbered = []
        for key, ahead in records:
            numbered.append((key, (number,), max(watermark, 0) + ahead))
            number += 1
        expected = drive(models, numbered, watermark)
        assert expected == tuple(map(sorted, stream.timed_batch(numbered, watermark)))
        watermark = MAX_WATERMARK if step is None else max(watermark, 0) + step
    assert drive(models, [], MAX_WATERMARK) == tuple(
        map(sorted, stream.timed_batch([], MAX_WATERMARK))
    )
    assert counts_of(models) == sorted(stream.left), "all is freed but the counts of firings"
    stream.close()


def counts_of(models: dict[str, Model]) -> list[Any]:
    """How many firings of each key were not refused, if any."""
    return [("fired", key, model.fired) for key, model in models.items() if model.fired]


def left_of(operator: Any) -> list[Any]:
    """What is left in the current key group: the state, the key and the entry."""
    return [
        (each.spec.name, *pair)
        for each in operator.backend.contents()
        for pair in zip(each.keys, each.entries)
    ]


@settings(max_examples=settings().max_examples // 2)
@given(
    declared=SETTINGS,
    folded=st.booleans(),
    together=st.booleans(),
    batches=st.lists(st.tuples(RECORDS, st.integers(0, 6)), max_size=7),
)
def test_windows_that_refuse_some_agree_with_a_model_in_a_harness(
    declared, folded, together, batches
):
    """As above, element by element or many in a call; nothing is left at the end of the input."""
    declared = attrs.evolve(declared, refuses=True)
    models = {key: Model(declared, key, folded=folded) for key in "ab"}
    with KeyedProcessHarness(
        declared.operator(folded), lambda element: element[0], on_error=LETTERS
    ) as driver:
        number, watermark = 0, MIN_WATERMARK
        for records, step in batches:
            timed = []
            for key, ahead in records:
                timed.append(((key, (number,)), max(watermark, 0) + ahead))
                number += 1
            if together:
                driver.process_elements(timed)
            else:
                for element, time in timed:
                    driver.process_element(element, time)
            for (key, (of_key,)), time in timed:
                models[key].element(of_key, time, watermark)
            watermark = max(watermark, 0) + step
            driver.process_watermark(watermark)
            for model in models.values():
                model.advance(watermark)
        driver.end_of_input()
        out, late, letters = drive(models, [], MAX_WATERMARK)
        assert (out, late, letters) == (
            sorted(driver.output),
            sorted(n for _, (n,) in driver.side_output(LATE)),
            sorted(row.call for row in driver.side_output(DEAD)),
        )
        assert counts_of(models) == sorted(left_of(driver._operator))


def drive(models: dict[str, Model], records: list[Any], watermark: int) -> tuple[Any, ...]:
    """What the models give for a micro-batch."""
    for model in models.values():
        model.advance(watermark)
    for key, (number,), time in records:
        models[key].element(number, time, watermark)
    main, late, letters = [], [], []
    for model in models.values():
        model.advance(watermark)
        main += model.out
        late += model.late
        letters += model.letters
        model.out, model.late, model.letters = [], [], []
    return sorted(main), sorted(late), sorted(letters)
