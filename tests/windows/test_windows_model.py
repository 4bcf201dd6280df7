# SPDX-License-Identifier: Apache-2.0
"""Windows against a model in plain Python: any assigner, trigger, evictor, lateness, order and restarts.

The model keeps a dict of open windows for each key, and does what Flink's rules say one by one.
It knows no state, no namespace, no timer queue and no merging-window set.
"""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_support import BACKENDS, Stream
from window_support import bounds

from pyflinklike import HashMapStateBackend, OutputTag, Types
from pyflinklike.engine.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.engine.runtime.micro_batch import Records, serve
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

LATE = OutputTag("late", Types.LONG())


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
        if folded:
            return windowed.reduce(lambda one, other: (one[0], one[1] + other[1]), Numbers())
        return windowed.process(Numbers())


class Numbers(ProcessWindowFunction):
    """Key, window and numbers; what `reduce` joins is in one element."""

    def process(self, key, context, elements):
        numbers = [n for _, some in elements for n in some]
        yield key, bounds(context.window()), tuple(numbers)


class Model:
    """Windows of one key, by the rules."""

    def __init__(self, settings: Settings, key: str) -> None:
        self.settings, self.key = settings, key
        self.open: dict[tuple[int, int], Open] = {}
        self.out: list[Any] = []
        self.late: list[int] = []

    def end(self, at: tuple[int, int]) -> int:
        return at[1] - 1 + self.settings.lateness

    def element(self, number: int, time: int, watermark: int) -> None:
        """An element comes."""
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
            self.open.setdefault(at, Open()).elements.append(number)
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
            self.out.append((self.key, at, tuple(mine.elements if s.evicts_after else kept)))
            mine.elements = kept
        if self.settings.purges:
            mine.elements = []

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
)
RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-6, 6)), max_size=8)
MOVES = st.none() | st.tuples(
    st.sampled_from([each.values[0] for each in BACKENDS if each.values[0]]),
    st.sampled_from([1, 5]),
)


class WindowStream(Stream):
    """A stream whose elements have times."""

    def timed_batch(self, records: list[Any], watermark: int) -> tuple[list[Any], list[Any]]:
        """The main and late outputs of a micro-batch of `(key, numbers, time)`."""
        operator, main, late = self.operator, [], []
        operator.clock.watermark = watermark
        self.entries = 0
        for index, store in enumerate(self.stores):
            mine = [each for each in records if self.groups_of([each[0]]) == [index]]
            keys, values = [each[0] for each in mine], [each[:2] for each in mine]
            serve(operator, store, index, Records(keys, values, [each[2] for each in mine]))
            self.entries += operator.backend.count()
            operator.keep_warm()
            outputs = operator.outputs.take()
            main += outputs.main
            late += [n for _, (n,) in outputs.side.get("late", ((), ()))[1]]
        return main, late


@settings(max_examples=settings().max_examples // 2)
@given(
    declared=SETTINGS,
    folded=st.booleans(),
    batches=st.lists(st.tuples(MOVES, RECORDS, st.integers(0, 6)), max_size=7),
)
def test_windows_agree_with_a_model(declared, folded, batches):
    """Whatever they are, in whatever order elements come, and wherever the state goes between batches."""
    models = {key: Model(declared, key) for key in "ab"}
    stream = WindowStream(declared.operator(folded), HashMapStateBackend(), 2)
    watermark, number = MIN_WATERMARK, 0
    for move, records, step in [*batches, (None, [], None)]:
        if move is not None:
            savepoint = stream.savepoint()
            stream.close()
            stream = WindowStream(declared.operator(folded), *move, savepoint=savepoint)
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
    assert 0 == stream.entries, "all is freed"
    stream.close()


def drive(models: dict[str, Model], records: list[Any], watermark: int) -> tuple[Any, Any]:
    """What the models give for a micro-batch."""
    for model in models.values():
        model.advance(watermark)
    for key, (number,), time in records:
        models[key].element(number, time, watermark)
    main, late = [], []
    for model in models.values():
        model.advance(watermark)
        main += model.out
        late += model.late
        model.out, model.late = [], []
    return sorted(main), sorted(late)
