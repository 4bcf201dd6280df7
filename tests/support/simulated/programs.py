# SPDX-License-Identifier: Apache-2.0
"""Programs that are drawn: what an operator does, what is behind it, its settings, and its records.

    program = draw_program(Choices(7))
    program.name        # "every state (ttl 2000 by event time, event timers) | 4 groups, 2 partitions"
    program.operators   # as `key_by(...)...process(...)` has made them

A program is made of stages, each of which is a call of the real API over simulated frames.  The
first reads one or two sources; others follow behind it.  What a stage declares is data, so that a
restart can declare it otherwise, and so that the oracle can run a stage by other means: columns
record by record, every backend as plain dicts.

What a program's outputs say must not depend on the number of key groups, on partitions, or on when
an expired entry is cleaned up.  So a restart never makes a TTL or a retention longer, and switches
only such a TTL on or off that is longer than a run; and what is read is never an entry that has
expired.  Stores of all keys of a key group are drawn where there is one key group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql import types as st

from pyflinklike._clock import Time
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.rocksdb.rocksdb_backend import EmbeddedRocksDBStateBackend
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.spark._api.broadcast_data_frame import broadcast
from pyflinklike.spark._wire.schema import arrow_schema
from pyflinklike.spark.keyed_data_frame import key_by
from pyflinklike.types import Types
from pyflinklike.upsert import UpsertFunction
from pyflinklike.windows import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from simulated.frames import SimulatedFrame, SimulatedQuery
from simulated.functions import (
    LATE,
    RECORD,
    RULES,
    SIDE,
    Contents,
    CountByColumns,
    CountByRecord,
    DeclaresOnUse,
    EveryState,
    EveryStore,
    Gap,
    GatherGroups,
    GatherPairs,
    GatherSums,
    JoinOfTwo,
    KeepsTwice,
    Letters,
    Picky,
    PickyColumns,
    PickyOfTwo,
    RecordSum,
    SumOfNumbers,
    Ttl,
    UnderRules,
    total_row,
)
from simulated.oracle import Model, expect_of
from simulated.program import (
    START_MS,
    Draws,
    Expected,
    MicroBatch,
    Program,
    Refused,
    SharedOperator,
    SimulatedOperator,
    Source,
    StateOperator,
)

__all__ = ["KINDS", "STEP_MS", "DrawnProgram", "draw_program"]

STEP_MS: Final = 1_000
"""About how far event times move from one growth of a source to the next, in ms."""
_COLUMNS: Final = arrow_schema(RECORD)
_NUMBERS: Final = st.StructType(
    [st.StructField("n", st.LongType()), st.StructField("note", st.StringType())]
)
_KEYS: Final = ("k0", "k0", "k1", "k1", "k2", "k3", "k4", "", "\u043a\u043b\u044e\u0447")

Options = Mapping[str, Any]


@attrs.frozen
class Stage:
    """One operator of a query, declared."""

    @property
    def inputs(self) -> int:
        """The number of streams that the stage reads."""
        return 1

    @property
    def passes_time(self) -> bool:
        """Whether operators with event time may follow."""
        return True

    @property
    def clock_may_go_back(self) -> bool:
        """Whether its results stay certain when the clock goes back."""
        ttl = getattr(self, "ttl", None)
        return ttl is None or not ttl.ms or ttl.event_time

    @property
    def has_event_time(self) -> bool:
        """Whether the stage is given a column of event time."""
        return True

    @property
    def needs_times(self) -> bool:
        """Whether its records must have event times."""
        return False

    @property
    def has_clock(self) -> bool:
        """Whether it has timers of processing time."""
        return False

    @property
    def can_be_divided(self) -> bool:
        """Whether a savepoint of it can be divided by key groups: its types are of `Types`."""
        return True

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        """Call the API, and return the result."""
        raise NotImplementedError

    def change(self, choices: Draws) -> Any:
        """Draw another declaration that continues from the same state."""
        return self

    def by_record(self) -> Any:
        """Return the stage as the oracle runs it."""
        stage: Any = self
        if getattr(stage, "letters", None) is None:
            return stage
        # Where there is nothing to undo.
        return attrs.evolve(stage, letters=attrs.evolve(stage.letters, at_once=True))


def _time_of(frame: Any) -> str:
    """Return the column of event times of a frame."""
    return "window_time" if "window_time" in frame.columns else "ts"


def _with_letters(letters: Letters | None, common: Options) -> Options:
    """Return the options of `process` with those for dead letters."""
    return common if letters is None else {**common, "on_error": letters.option}


def _picky(function: Any, letters: Letters | None, kind: Any = Picky) -> Any:
    """Return a function that raises for some records, if it has dead letters."""
    return function if letters is None else kind(function, at_once=letters.at_once)


def _change_letters(letters: Letters | None, choices: Draws) -> Letters | None:
    """Draw other dead letters, or none any more: the records that were refused are taken then."""
    if letters is None or choices.happens("no more letters", 0.3):
        return None
    return Letters(choices.happens("other letters have failure snapshots", 0.5))


def _show_letters(letters: Letters | None) -> str:
    if letters is None:
        return ""
    return ", dead letters" + ", no failure snapshots" * (not letters.have_failure_snapshots)


def _draw_ttl(choices: Draws, *, event_time: bool) -> Ttl:
    if not choices.happens("has ttl", 0.6):
        return Ttl()
    return Ttl(
        choices.one_of("ttl", (2_000, 300, 20_000)),
        on_read=choices.happens("ttl on read", 0.4),
        event_time=event_time and choices.happens("ttl of event time", 0.5),
        compacted=choices.happens("ttl in background", 0.7),
    )


_FOREVER: Final = 10_000_000_000
"""A TTL in ms that no run reaches."""


def _other_ttl(ttl: Ttl, choices: Draws) -> Ttl:
    if ttl.ms in (0, _FOREVER):
        if not choices.happens("ttl is switched", 0.3):
            return ttl
        return Ttl() if ttl.ms else Ttl(_FOREVER, compacted=choices.happens("in background", 0.7))
    shorter = max(ttl.ms - 100, 50), max(ttl.ms // 2, 25)
    return attrs.evolve(
        ttl,
        ms=choices.one_of("other ttl", (ttl.ms, *(min(each, ttl.ms) for each in shorter))),
        on_read=choices.happens("other ttl on read", 0.5),
        compacted=choices.happens("other ttl in background", 0.7),
    )


def _show_ttl(ttl: Ttl) -> str:
    if not ttl.ms:
        return "no ttl"
    parts = [f"ttl {ttl.ms}"]
    parts += ["on read"] * ttl.on_read + ["by event time"] * ttl.event_time
    return " ".join(parts + ["not cleaned up"] * (not ttl.compacted))


@attrs.frozen
class StateStage(Stage):
    """Every kind of state, with timers.

    Args:
        ttl: The TTL of all its states.
        time: "none", "event" or "processing".
        is_grown: Whether the types have grown.
        has_side: Whether the side output is asked for.
        has_more: Whether it declares a state that another version of it leaves out.
        letters: Of a function that raises for some records; None for one that does not.
    """

    ttl: Ttl
    time: str
    is_grown: bool = False
    has_side: bool = False
    has_more: bool = True
    letters: Letters | None = None

    def __str__(self) -> str:
        grown = ", grown types" if self.is_grown else ""
        fewer = "" if self.has_more else ", one fewer"
        told = f"{grown}{fewer}{_show_letters(self.letters)}"
        return f"every state ({_show_ttl(self.ttl)}, {self.time} timers{told})"

    @classmethod
    def draw(cls, choices: Draws, *, is_last: bool) -> StateStage:
        times = ("event", "none", "processing") if is_last else ("event",)
        time = choices.one_of("time mode", times)
        ttl = _draw_ttl(choices, event_time=time != "none")
        has_side = is_last and choices.happens("side output", 0.3)
        return cls(ttl, time, has_side=has_side)

    @property
    def passes_time(self) -> bool:
        return self.time == "event"

    @property
    def has_clock(self) -> bool:
        return self.time == "processing"

    @property
    def has_event_time(self) -> bool:
        return self.time != "none"

    @property
    def clock_may_go_back(self) -> bool:
        return self.time != "processing" and super().clock_may_go_back

    @property
    def can_be_divided(self) -> bool:
        # A new query fires what is due of the clock in the first micro-batch of each key group.
        return self.time != "processing"

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        function = EveryState(
            self.ttl,
            is_grown=self.is_grown,
            events=self.time != "none",
            processing=self.time == "processing",
            has_more=self.has_more,
        )
        return key_by(frames[0], *options["key"]).process(
            _picky(function, self.letters),
            RECORD,
            event_time=None if self.time == "none" else "ts",
            processing_time_timers=self.time == "processing",
            side_outputs=[SIDE] if self.has_side else [],
            **_with_letters(self.letters, options["common"]),
        )

    def change(self, choices: Draws) -> StateStage:
        return attrs.evolve(
            self,
            ttl=_other_ttl(self.ttl, choices),
            is_grown=self.is_grown or choices.happens("types grow", 0.4),
            has_more=not choices.happens("a state is left out", 0.4),
            letters=_change_letters(self.letters, choices),
        )


@attrs.frozen
class ColumnsStage(Stage):
    """A running count by columns or by record, on the same state.

    Args:
        ttl: The TTL of all its states.
        has_time: Whether there is event time, and timers.
        is_columnar: Which of both functions it is.
        letters: Of a function that raises for some records; None for one that does not.
    """

    ttl: Ttl
    has_time: bool
    is_columnar: bool
    letters: Letters | None = None

    def __str__(self) -> str:
        how = "columns" if self.is_columnar else "records"
        timers = ", event timers" * self.has_time
        return f"count by {how} ({_show_ttl(self.ttl)}{timers}{_show_letters(self.letters)})"

    @classmethod
    def draw(cls, choices: Draws, *, is_last: bool) -> ColumnsStage:
        has_time = not is_last or choices.happens("event time", 0.6)
        ttl = attrs.evolve(_draw_ttl(choices, event_time=False), on_read=False)
        return cls(ttl, has_time, choices.happens("columnar", 0.7))

    @property
    def passes_time(self) -> bool:
        return self.has_time

    @property
    def needs_times(self) -> bool:
        return self.has_time

    @property
    def has_event_time(self) -> bool:
        return self.has_time

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        kind = CountByColumns if self.is_columnar else CountByRecord
        function: Any = kind(self.ttl, events=self.has_time)
        if not self.is_columnar:
            function = _picky(function, self.letters)
        elif self.letters is not None:
            function = PickyColumns(function)
        time = "ts" if self.has_time else None
        common = _with_letters(self.letters, options["common"])
        return key_by(frames[0], "k").process(function, RECORD, event_time=time, **common)

    def change(self, choices: Draws) -> ColumnsStage:
        return attrs.evolve(
            self,
            is_columnar=choices.happens("other is columnar", 0.5),
            ttl=_other_ttl(self.ttl, choices),
            letters=_change_letters(self.letters, choices),
        )

    def by_record(self) -> Any:
        return attrs.evolve(super().by_record(), is_columnar=False)


@attrs.frozen
class StoreStage(Stage):
    """Every kind of store.

    Args:
        stream_time: "key" or "watermark".
        caching: Whether changes are cached.
        retention: In ms.
        is_shared: Whether all keys of a key group have one.
        letters: Of a function that raises for some records; None for one that does not.
    """

    stream_time: str
    caching: bool
    retention: int
    is_shared: bool = False
    letters: Letters | None = None

    def __str__(self) -> str:
        whose = "of all keys, " * self.is_shared
        return (
            f"every store ({whose}time of the {self.stream_time}, retention {self.retention}"
            f"{_show_letters(self.letters)})"
        )

    @classmethod
    def draw(cls, choices: Draws, **_: Any) -> StoreStage:
        return cls(
            choices.one_of("stream time", ("key", "watermark")),
            choices.happens("caching", 0.3),
            choices.one_of("retention", (5_000, 1_000)),
            is_shared=choices.happens("one for all keys", 0.25),
        )

    @property
    def can_be_divided(self) -> bool:
        return not self.is_shared

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        function = EveryStore(
            self.stream_time,
            caching=self.caching,
            retention=self.retention,
            is_shared=self.is_shared,
        )
        keyed = key_by(frames[0], *options["key"])
        common = _with_letters(self.letters, options["common"])
        return keyed.process(_picky(function, self.letters), RECORD, event_time="ts", **common)

    def change(self, choices: Draws) -> StoreStage:
        shorter = max(self.retention - 300, 200)
        return attrs.evolve(
            self,
            caching=choices.happens("other caching", 0.5),
            retention=choices.one_of("other retention", (self.retention, shorter)),
            letters=_change_letters(self.letters, choices),
        )


@attrs.frozen
class UpsertStage(Stage):
    """Upserts of notes.

    Args:
        is_ordered: Whether the higher number wins, else the later record.
    """

    is_ordered: bool

    def __str__(self) -> str:
        return f"upserts {'by number' if self.is_ordered else 'by arrival'}"

    @classmethod
    def draw(cls, choices: Draws, **_: Any) -> UpsertStage:
        return cls(choices.happens("order key", 0.5))

    @property
    def passes_time(self) -> bool:
        return False

    @property
    def has_event_time(self) -> bool:
        return False

    @property
    def clock_may_go_back(self) -> bool:
        return not self.is_ordered  # tombstones expire

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        order = "n" if self.is_ordered else None
        function = UpsertFunction(value="note", order_key=order, value_type=Types.STRING())
        output = function.output_type(Types.STRING())
        return key_by(frames[0], "k").process(function, output, **options["common"])


@attrs.frozen
class TwiceStage(Stage):
    """Random numbers, each kept twice."""

    def __str__(self) -> str:
        return "numbers kept twice"

    @classmethod
    def draw(cls, choices: Draws, **_: Any) -> TwiceStage:
        return cls()

    @property
    def can_be_divided(self) -> bool:
        return False  # what was drawn is nobody's to compare

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        keyed = key_by(frames[0], *options["key"])
        return keyed.process(KeepsTwice(), RECORD, event_time="ts", **options["common"])


@attrs.frozen
class OnUseStage(Stage):
    """States that are declared when a record uses them.

    Args:
        ttl: Of the one that is declared at once.
        has_time: Whether there is event time, and timers.
        letters: Of a function that raises for some records; None for one that does not.
    """

    ttl: Ttl
    has_time: bool
    letters: Letters | None = None

    def __str__(self) -> str:
        timers = ", event timers" * self.has_time
        return (
            f"states declared on use ({_show_ttl(self.ttl)}{timers}{_show_letters(self.letters)})"
        )

    @classmethod
    def draw(cls, choices: Draws, *, is_last: bool) -> OnUseStage:
        has_time = not is_last or choices.happens("event time", 0.7)
        # A TTL, for the log is compacted the more often the shorter one is.
        length = choices.one_of("ttl", (300, 2_000, 0))
        in_background = choices.happens("ttl in background", 0.9)
        ttl = Ttl(length, compacted=in_background) if length else Ttl()
        return cls(ttl, has_time)

    @property
    def passes_time(self) -> bool:
        return self.has_time

    @property
    def has_event_time(self) -> bool:
        return self.has_time

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        return key_by(frames[0], *options["key"]).process(
            _picky(DeclaresOnUse(self.ttl, events=self.has_time), self.letters),
            RECORD,
            event_time="ts" if self.has_time else None,
            **_with_letters(self.letters, options["common"]),
        )

    def change(self, choices: Draws) -> OnUseStage:
        letters = _change_letters(self.letters, choices)
        return attrs.evolve(self, ttl=_other_ttl(self.ttl, choices), letters=letters)


@attrs.frozen
class FoldStage(Stage):
    """A running fold of a keyed stream.

    Args:
        fold: "sum", "max", "min_by" or "reduce".
        has_time: Whether there is event time.
    """

    fold: str
    has_time: bool

    def __str__(self) -> str:
        return f"running {self.fold}"

    @classmethod
    def draw(cls, choices: Draws, *, is_last: bool) -> FoldStage:
        fold = choices.one_of("fold", ("reduce", "max", "min_by"))
        return cls(fold, not is_last or choices.happens("event time", 0.5))

    @property
    def passes_time(self) -> bool:
        return self.has_time

    @property
    def has_event_time(self) -> bool:
        return self.has_time

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        keyed: Any = key_by(frames[0], *options["key"])
        folded = RecordSum() if self.fold == "reduce" else "n"
        event_time = "ts" if self.has_time else None
        return getattr(keyed, self.fold)(folded, event_time=event_time, **options["common"])


@attrs.frozen
class GatherStage(Stage):
    """Sums at the ends of stretches of time, whatever the order of records of one time.

    Args:
        ttl: The TTL of all its states.
        stretch: In ms; 0 without event time.
        keys: Of the records that it passes on.
        letters: Of a function that raises for some records; None for one that does not.
    """

    ttl: Ttl
    stretch: int
    keys: int
    letters: Letters | None = None

    def __str__(self) -> str:
        return (
            f"sums of each {self.stretch} ms ({_show_ttl(self.ttl)}{_show_letters(self.letters)})"
        )

    @classmethod
    def draw(cls, choices: Draws, **_: Any) -> GatherStage:
        stretch = choices.one_of("stretch", (1_000, 400, 3_000, 0))
        ttl = _draw_ttl(choices, event_time=stretch > 0)
        return cls(attrs.evolve(ttl, on_read=False), stretch, choices.one_of("keys", (3, 5)))

    @property
    def has_event_time(self) -> bool:
        return self.stretch > 0

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        function = GatherSums(self.ttl, self.stretch, self.keys)
        return key_by(frames[0], "k").process(
            _picky(function, self.letters),
            RECORD,
            event_time=_time_of(frames[0]) if self.stretch else None,
            output_event_time="ts" if self.stretch else None,
            **_with_letters(self.letters, options["common"]),
        )

    def change(self, choices: Draws) -> GatherStage:
        ttl = attrs.evolve(_other_ttl(self.ttl, choices), on_read=False)
        return attrs.evolve(self, ttl=ttl, letters=_change_letters(self.letters, choices))


_ASSIGNERS: Final[dict[str, Callable[[int], Any]]] = {
    "tumbling": lambda size: TumblingEventTimeWindows.of(_ms(size)),
    "sliding": lambda size: SlidingEventTimeWindows.of(_ms(size), _ms(size // 2)),
    "session": lambda size: EventTimeSessionWindows.with_gap(_ms(size)),
    "dynamic session": lambda _: DynamicEventTimeSessionWindows.with_dynamic_gap(Gap()),
    "count": lambda size: CountTumblingWindowAssigner(2 + size % 3),
    "sliding count": lambda size: CountSlidingWindowAssigner(4, 1 + size % 3),
    "global": lambda _: GlobalWindows.create(),
    "clock": lambda size: TumblingProcessingTimeWindows.of(_ms(size)),
    "session of the clock": lambda size: ProcessingTimeSessionWindows.with_gap(_ms(size)),
}
_TIMED: Final = ("tumbling", "sliding", "session", "dynamic session")
_CLOCKED: Final = ("clock", "session of the clock")


def _ms(milliseconds: int) -> Time:
    return Time.milliseconds(milliseconds)


@attrs.frozen
class WindowStage(Stage):
    """Windows of an assigner.

    Args:
        assigner: By name.
        size: In ms; of sessions the gap.
        contents: "reduce", "aggregate" or "process".
        lateness: In ms.
        trigger: "", "count", "continuous" or "purging".
        evictor: "", "count" or "time".
        has_late: Whether late records go to a side output.
        is_ordered: Whether records of one time have an order.
        letters: Of a function that raises for some records; None for one that does not.
    """

    assigner: str
    size: int
    contents: str
    lateness: int = 0
    trigger: str = ""
    evictor: str = ""
    has_late: bool = False
    is_ordered: bool = True
    letters: Letters | None = None

    def __str__(self) -> str:
        parts = [f"{self.size}", self.contents]
        parts += [f"lateness {self.lateness}"] if self.lateness else []
        parts += [f"{each} trigger" for each in (self.trigger,) if each]
        parts += [f"{each} evictor" for each in (self.evictor,) if each]
        told = ", ".join(parts) + _show_letters(self.letters)
        return f"{self.assigner} windows ({told})"

    @classmethod
    def draw(cls, choices: Draws, *, is_last: bool, is_first: bool = True) -> WindowStage:
        # Behind another operator a late element, which fires at once or not at all, would show in
        # which order the elements of one time came.
        names = tuple(_ASSIGNERS) if is_last and is_first else _TIMED
        names = names if is_first else _TIMED[:3]
        assigner = choices.one_of("assigner", names)
        is_timed = assigner in _TIMED
        trigger = evictor = ""
        contents = choices.one_of("contents", ("process", "aggregate", "reduce"))
        if assigner == "global":
            trigger = "count"
        elif is_timed and choices.happens("has trigger", 0.4):
            others: tuple[str, ...]
            others = ("continuous", "count", "purging") if is_first else ("", "purging")
            if not is_first and assigner != "session":
                others = ("continuous",)
            trigger = choices.one_of("trigger", others)
        if is_first and contents == "process" and choices.happens("has evictor", 0.3):
            evictor = choices.one_of("evictor", ("count", "time") if is_timed else ("count",))
        return cls(
            assigner,
            choices.one_of("size", (1_000, 600, 2_500)),
            contents,
            choices.one_of("lateness", (0, 800, 3_000)) if is_timed and is_first else 0,
            trigger,
            evictor,
            has_late=is_last and is_timed and choices.happens("late side output", 0.5),
            is_ordered=is_first,
        )

    @property
    def passes_time(self) -> bool:
        return self.assigner in _TIMED

    @property
    def needs_times(self) -> bool:
        return self.assigner in _TIMED or self.evictor == "time"

    @property
    def has_event_time(self) -> bool:
        return self.needs_times

    @property
    def has_clock(self) -> bool:
        return self.assigner in _CLOCKED

    @property
    def can_be_divided(self) -> bool:
        return self.assigner not in _CLOCKED

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        frame = frames[0]
        windowed: Any = key_by(frame, "k").window(_ASSIGNERS[self.assigner](self.size))
        if self.assigner in _TIMED:
            windowed = windowed.allowed_lateness(_ms(self.lateness))
        if self.trigger or self.assigner.endswith("count"):
            windowed = windowed.trigger(self._trigger()) if self.trigger else windowed
        if self.evictor:
            windowed = windowed.evictor(
                CountEvictor.of(2) if self.evictor == "count" else TimeEvictor.of(_ms(500))
            )
        if self.has_late:
            windowed = windowed.side_output_late_data(LATE)
        event_time = _time_of(frame) if self.needs_times else None
        common = {**_with_letters(self.letters, options["common"]), "event_time": event_time}
        is_picky = self.letters is not None
        if self.contents == "reduce":
            return windowed.reduce(RecordSum(is_picky=is_picky), **common)
        if self.contents == "aggregate":
            kind = Types.TUPLE([Types.LONG(), Types.LONG()])
            fold = SumOfNumbers(is_picky=is_picky)
            return windowed.aggregate(fold, accumulator_type=kind, output_type=_NUMBERS, **common)
        has_state = "session" not in self.assigner
        function = Contents(is_ordered=self.is_ordered, has_state=has_state, letters=self.letters)
        return windowed.process(function, _NUMBERS, **common)

    def _trigger(self) -> Any:
        if self.trigger == "count":
            return CountTrigger.of(2)
        if self.trigger == "continuous":
            return ContinuousEventTimeTrigger.of(_ms(300))
        return PurgingTrigger.of(EventTimeTrigger.create())

    def change(self, choices: Draws) -> WindowStage:
        other = attrs.evolve(self, letters=_change_letters(self.letters, choices))
        if self.assigner in _TIMED and self.is_ordered:
            others = (self.lateness, 0, 400, 3_000)
            other = attrs.evolve(other, lateness=choices.one_of("other lateness", others))
        if self.assigner in ("tumbling", "sliding", "session", *_CLOCKED):
            sizes = (self.size, 700, 1_200)
            other = attrs.evolve(other, size=choices.one_of("other size", sizes))
        return other


@attrs.frozen
class TwoStage(Stage):
    """Two inputs for one function.

    Args:
        how: "connected", "rules", "interval", "windows" or "groups".
        ttl: Of the states of connected inputs.
        kind: Of a join: "inner", "left_outer", "right_outer" or "full_outer".
        bounds: Of an interval join, in ms.
        size: Of windows, in ms.
        has_time: Whether there is event time.
        letters: Of a function that raises for some records; None for one that does not.
    """

    how: str
    ttl: Ttl = attrs.field(factory=Ttl)
    kind: str = "inner"
    bounds: tuple[int, int] = (-500, 700)
    size: int = 1_000
    has_time: bool = True
    letters: Letters | None = None

    def __str__(self) -> str:
        told = {
            "connected": _show_ttl(self.ttl) + _show_letters(self.letters),
            "rules": "event time" if self.has_time else "no time",
            "interval": f"{self.kind}, {self.bounds}",
            "windows": f"{self.kind}, {self.size}",
            "groups": f"{self.size}",
        }
        return f"two inputs as {self.how} ({told[self.how]})"

    @classmethod
    def draw(cls, choices: Draws, *, is_last: bool) -> TwoStage:
        how = choices.one_of("two", ("connected", "rules", "interval", "windows", "groups"))
        kinds = ("inner", "left_outer", "right_outer", "full_outer")
        free = how in ("connected", "rules")
        return cls(
            how,
            _draw_ttl(choices, event_time=False) if how == "connected" else Ttl(),
            choices.one_of("join", kinds),
            choices.one_of("bounds", ((-500, 700), (0, 1_500), (-2_000, -100))),
            choices.one_of("join size", (1_000, 2_500)),
            has_time=not (is_last and free) or choices.happens("event time", 0.7),
        )

    @property
    def inputs(self) -> int:
        return 2

    @property
    def passes_time(self) -> bool:
        return self.has_time

    @property
    def needs_times(self) -> bool:
        return self.how in ("interval", "windows", "groups")

    @property
    def has_event_time(self) -> bool:
        return self.has_time

    @property
    def can_be_divided(self) -> bool:
        return True

    def over(self, frames: Sequence[Any], options: Options) -> Any:
        first, second = frames
        common, time = options["common"], "ts" if self.has_time else None
        one: Any = key_by(first, "k")
        if self.how == "rules":
            connected = one.connect(broadcast(second, RULES))
            return connected.process(UnderRules(), RECORD, event_time=time, **common)
        other: Any = key_by(second, "k")
        if self.how == "connected":
            function = _picky(JoinOfTwo(self.ttl), self.letters, PickyOfTwo)
            common = _with_letters(self.letters, common)
            return one.connect(other).process(function, RECORD, event_time=time, **common)
        if self.how == "interval":
            joined = one.interval_join(other, how=self.kind).between(*map(_ms, self.bounds))
            return joined.process(GatherPairs(), RECORD, event_time="ts", **common)
        windows = TumblingEventTimeWindows.of(_ms(self.size))
        if self.how == "windows":
            joined = one.join(other, how=self.kind).window(windows)
            return joined.apply(total_row, _NUMBERS, event_time="ts", **common)
        grouped = one.co_group(other).window(windows)
        return grouped.apply(GatherGroups(), _NUMBERS, event_time="ts", **common)

    def change(self, choices: Draws) -> TwoStage:
        other = self
        if self.how == "connected":
            letters = _change_letters(self.letters, choices)
            other = attrs.evolve(self, ttl=_other_ttl(self.ttl, choices), letters=letters)
        if self.how == "windows":
            kinds = (self.kind, "inner", "full_outer")
            other = attrs.evolve(other, kind=choices.one_of("other join", kinds))
        if self.how in ("windows", "groups"):
            sizes = (self.size, 700)
            other = attrs.evolve(other, size=choices.one_of("other join size", sizes))
        return other


KINDS: Final[dict[str, Any]] = {
    "states": StateStage,
    "windows": WindowStage,
    "two": TwoStage,
    "columns": ColumnsStage,
    "stores": StoreStage,
    "upserts": UpsertStage,
    "folds": FoldStage,
    "twice": TwiceStage,
    "on use": OnUseStage,
    "sums": GatherStage,
}
"""What the first operator of a program may be, by the name for `--programs`."""


@attrs.frozen
class Settings:
    """What is declared for all operators of a program.

    Args:
        partitions: Of Spark's shuffles.
        max_parallelism: Of each operator; None where it follows the partitions.
        warm: `max_warm_bytes` of the heap; None for RocksDB.
        key: The key columns of the first operator.
        uid: Of the operators, before their number.
        has_parts: Whether savepoints come in parts.
        has_stamps: Whether no TTL was switched on or off since the query was begun.
        is_group_state: Whether Spark's operator is that of PySpark 3.5.
        keeps_open: Whether functions serve one task after another; those that hold accumulators of
            Spark do not.
        is_beside: Whether all operators read the source and share one state operator of Spark, as
            those of a job do.
        delay: Of the watermark of every source in ms; None where the program declares none, so that
            the first operator with event time does.
    """

    partitions: int
    max_parallelism: tuple[int | None, ...]
    warm: int | None
    key: tuple[str, ...] = ("k",)
    delay: int | None = None
    uid: str = "operator"
    has_parts: bool = False
    has_stamps: bool = True
    is_beside: bool = False
    is_group_state: bool = False
    keeps_open: bool = True

    def backend(self) -> Any:
        """Make the backend."""
        if self.warm is None:
            return EmbeddedRocksDBStateBackend()
        return HashMapStateBackend(self.warm)


_ALL = 512 * 1024 * 1024
_WARM: Final = (_ALL, _ALL, _ALL, _ALL, 0, 4_000)


@attrs.define(slots=False, eq=False)
class DrawnProgram:
    """A program that was drawn; a `Program`.

    Args:
        stages: Its operators, the first one first.
        settings: Of all of them.
        savepoints: What a new checkpoint begins with, of each; none for no state.
    """

    stages: tuple[Stage, ...]
    settings: Settings
    savepoints: tuple[bytes, ...] = attrs.field(default=(), repr=False)

    @cached_property
    def name(self) -> str:
        """The stages and settings in words."""
        settings = self.settings
        groups = ", ".join(
            "default" if each is None else f"{each}" for each in settings.max_parallelism
        )
        where = "rocksdb" if settings.warm is None else f"{settings.warm} warm"
        begun = ", from a savepoint" if self.savepoints else ""
        begun += ", on PySpark 3.5" if settings.is_group_state else ""
        begun += "" if settings.keeps_open else ", opened anew for each task"
        between = " beside " if settings.is_beside else " > "
        return (
            f"{between.join(map(str, self.stages))} by {'+'.join(settings.key)} | {groups} groups, "
            f"{settings.partitions} partitions, {where}{begun}"
        )

    @cached_property
    def _query(self) -> SimulatedQuery:
        return self._build(self.stages, self.settings.backend)

    @cached_property
    def _model(self) -> tuple[SimulatedOperator, ...]:
        stages = [each.by_record() for each in self.stages]
        return self._build(stages, HashMapStateBackend).operators

    @property
    def sources(self) -> tuple[Source, ...]:
        """The streams that the program reads."""
        return self._query.sources

    @cached_property
    def operators(self) -> tuple[SimulatedOperator, ...]:
        """The operators of the program, the first one first."""
        if self.settings.keeps_open:
            return self._query.operators
        return tuple(
            attrs.evolve(each, plan=attrs.evolve(each.plan, keeps_open=False))
            for each in self._query.operators
        )

    @cached_property
    def state_operators(self) -> tuple[StateOperator, ...]:
        """Spark's state operators."""
        if self.settings.is_beside:
            return (SharedOperator.of(self.operators),)
        if self.settings.is_group_state:
            # PySpark 3.5 does not tell tasks how many partitions the state has.
            return tuple(
                attrs.evolve(
                    each, is_group_state=True, plan=attrs.evolve(each.plan, key_groups=None)
                )
                for each in self.operators
            )
        return self.operators

    @property
    def partitions(self) -> int:
        """The number of Spark's shuffle partitions."""
        return self.settings.partitions

    @property
    def clock_may_go_back(self) -> bool:
        """Whether the results stay certain when the clock goes back."""
        return all(each.clock_may_go_back for each in self.stages)

    def draw_records(self, choices: Draws, source: int, at: int) -> pa.RecordBatch:
        """Draw what a source grows by.

        Args:
            choices: Decide.
            source: The number of the source.
            at: How often it has grown before.
        """
        most = 40 if choices.happens("many records", 0.08) else 7
        count = choices.integer("records", 0, most)
        draw = choices.stream(f"rows of {source}")
        has_nulls = not any(each.needs_times for each in self.stages)
        rows = [_draw_record(draw, at, has_nulls=has_nulls) for _ in range(count)]
        columns = zip(*rows) if rows else [()] * len(_COLUMNS)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _COLUMNS)]
        return pa.RecordBatch.from_arrays(arrays, schema=_COLUMNS)

    def change(self, choices: Draws) -> DrawnProgram:
        """Draw a program with other declarations that continues from the same checkpoint."""
        stages = tuple(each.change(choices) for each in self.stages)
        settings = attrs.evolve(self.settings, warm=self._other_warm(choices))
        if any(map(_is_switched, self.stages, stages)):
            settings = attrs.evolve(settings, has_stamps=False)
        return DrawnProgram(stages, settings)

    def _other_warm(self, choices: Draws) -> int | None:
        if any(isinstance(each, ColumnsStage) for each in self.stages):
            return choices.one_of("other warm", _WARM)
        return _draw_warm(choices, self.stages, "other ")

    def draw_refusal(self, choices: Draws) -> Refused | None:
        """Draw a program that must not continue from the checkpoint."""
        ways = ["max_parallelism", "uid"]
        at = choices.integer("refused operator", 0, len(self.stages) - 1)
        stage: Any = self.stages[at]
        ttl = getattr(stage, "ttl", Ttl())
        # One that was switched on is known once records came.
        if 0 < ttl.ms < _FOREVER and stage.has_event_time:
            ways.append("clock of a TTL")
        way = choices.one_of("refused for", ways)
        stages, settings = list(self.stages), self.settings
        if way == "max_parallelism":
            counts = list(settings.max_parallelism)
            counts[at] = self.operators[at].plan.task.max_parallelism + 1
            settings = attrs.evolve(settings, max_parallelism=tuple(counts))
        elif way == "uid":
            settings = attrs.evolve(settings, uid="another operator")
        else:
            stages[at] = attrs.evolve(stage, ttl=attrs.evolve(ttl, event_time=not ttl.event_time))
        return Refused(DrawnProgram(tuple(stages), settings), IncompatibleStateError, way)

    def expect(self, history: Sequence[MicroBatch]) -> Expected:
        """Return what must come of micro-batches."""
        models = [_model_of(batch.program) for batch in history]
        return expect_of(history, models, tells_changes=True)

    def _build(self, stages: Sequence[Stage], backend: Callable[[], Any]) -> SimulatedQuery:
        settings = self.settings
        query = SimulatedQuery(
            settings.partitions, has_parts=settings.has_parts, has_stamps=settings.has_stamps
        )
        frames: list[SimulatedFrame] = [query.source(RECORD) for _ in range(stages[0].inputs)]
        if self.settings.delay is not None:
            delay = f"{self.settings.delay} milliseconds"
            frames = [each.withWatermark("ts", delay) for each in frames]
        for number, stage in enumerate(stages):
            common: dict[str, Any] = {
                "uid": f"{self.settings.uid} {number}",
                "max_parallelism": self.settings.max_parallelism[number],
                "state_backend": backend(),
            }
            if self.savepoints:
                common["from_savepoint"] = self.savepoints[number]
            key = self.settings.key if number == 0 else ("k",)
            result = stage.over(frames, {"key": key, "common": common})
            frames = frames if settings.is_beside else [result]
        return query


def _is_switched(former: Any, other: Any) -> bool:
    """Return whether a stage has a TTL now and had none, or the other way round."""
    return bool(getattr(former, "ttl", Ttl()).ms) != bool(getattr(other, "ttl", Ttl()).ms)


def _model_of(program: Program) -> tuple[SimulatedOperator, ...]:
    assert isinstance(program, DrawnProgram)
    return program._model


def _draw_record(draw: Any, at: int, *, has_nulls: bool) -> tuple[Any, ...]:
    base = START_MS + at * STEP_MS
    kind = draw.integer(0, 99)
    if kind < 60:
        time = base + draw.integer(0, STEP_MS)
    elif kind < 75:
        time = base
    elif kind < 94:
        time = base - draw.integer(0, 5 * STEP_MS)
    else:
        time = base + draw.integer(0, 8 * STEP_MS)
    micros = time * 1000 + (draw.integer(0, 999) if draw.happens(0.1) else 0)
    return (
        draw.one_of(_KEYS),
        draw.integer(0, 3),
        None if has_nulls and draw.happens(0.05) else micros,
        draw.integer(1, 1 << 40),
        None if draw.happens(0.2) else f"r{draw.integer(0, 9)}",
    )


def _draw_warm(choices: Draws, stages: Sequence[Any], which: str = "") -> int | None:
    # A disk is slower; it is worth it where workers find on it what they do not know yet.
    share = 0.5 if any(isinstance(each, OnUseStage) for each in stages) else 0.12
    if choices.happens(f"{which}rocksdb", share):
        return None
    return choices.one_of(f"{which}warm", _WARM)


def draw_program(choices: Draws, kinds: Sequence[str] = tuple(KINDS)) -> DrawnProgram:
    """Draw a program.

    Args:
        choices: Decide.
        kinds: What its first operator may be: names of `KINDS`.
    """
    kind = KINDS[choices.one_of("first operator", kinds)]
    if "on use" in kinds and choices.happens("declares on use", 0.1):
        kind = OnUseStage
    if choices.happens("operators beside each other", 0.12):
        beside = _draw_beside(choices, kind)
        if beside is not None:
            return beside
    behind = choices.one_of("operators behind it", (0, 0, 0, 1, 1, 2))
    behind = 0 if kind is UpsertStage else behind
    stages: list[Any] = [kind.draw(choices, is_last=behind == 0)]
    for number in range(behind):
        is_last = number == behind - 1
        if choices.happens("windows behind", 0.4):
            stages.append(WindowStage.draw(choices, is_last=is_last, is_first=False))
        else:
            stages.append(GatherStage.draw(choices, is_last=is_last))
    # A letter is a row of a side output, which no other operator reads.
    stages[-1] = _draw_letters(choices, stages[-1])
    groups = (4, 1, 3, 7, 16, None)
    counts = tuple(
        1 if getattr(each, "is_shared", False) else choices.one_of("max_parallelism", groups)
        for each in stages
    )
    is_columnar = any(isinstance(each, ColumnsStage) for each in stages)
    warm = choices.one_of("warm", _WARM) if is_columnar else _draw_warm(choices, stages)
    key: tuple[str, ...] = ("k",)
    if len(stages) == 1 and isinstance(stages[0], (StateStage, OnUseStage, StoreStage, FoldStage)):
        key = choices.one_of("key", (("k",), ("id",), ("k", "id")))
    delays: tuple[int | None, ...]
    delays = (None, None, 500, 2_000) if stages[0].has_event_time else (1, 500, 2_000)
    if len(stages) == 1 and not stages[0].has_event_time:
        delays = (None,)
    delay = choices.one_of("delay", delays)
    partitions = choices.one_of("partitions", (2, 1, 3))
    # Then a worker keeps entries of states that its function has not declared yet.
    closes = 0.4 if isinstance(stages[0], OnUseStage) else 0.1
    keeps_open = not choices.happens("opened for each task", closes)
    settings = Settings(partitions, counts, warm, key, delay, keeps_open=keeps_open)
    # There no operator is behind another, and one millisecond is between a time and the call for it.
    if len(stages) == 1 and not stages[0].has_clock and choices.happens("PySpark 3.5", 0.15):
        settings = attrs.evolve(settings, is_group_state=True)
    program = DrawnProgram(tuple(stages), settings)
    if all(each.can_be_divided for each in stages) and choices.happens("from savepoint", 0.2):
        savepoints = _draw_savepoints(choices, program)
        settings = attrs.evolve(settings, has_parts=choices.happens("savepoint in parts", 0.7))
        program = DrawnProgram(program.stages, settings, savepoints)
    return program


def _draw_letters(choices: Draws, stage: Any) -> Any:
    """Return a stage, with dead letters if it can have them and that is drawn."""
    if not hasattr(stage, "letters"):
        return stage
    if isinstance(stage, WindowStage) and stage.contents == "reduce" and not stage.is_ordered:
        return stage  # the first record of a window is not reduced, and so never refused
    if isinstance(stage, TwoStage) and stage.how != "connected":
        return stage
    if not choices.happens("dead letters", 0.3):
        return stage
    return attrs.evolve(
        stage, letters=Letters(choices.happens("letters have failure snapshots", 0.5))
    )


def _draw_beside(choices: Draws, kind: Any) -> DrawnProgram | None:
    """Draw operators of event time that share one state operator; None if the first cannot."""
    first = kind.draw(choices, is_last=False)
    if first.inputs > 1 or not (first.passes_time and first.has_event_time):
        return None
    kinds = (StateStage, StoreStage, FoldStage, ColumnsStage, TwiceStage, OnUseStage)
    stages = [first]
    for number in range(choices.integer("beside it", 1, 2)):
        other: Any = choices.one_of(f"kind {number}", kinds)
        stages.append(other.draw(choices, is_last=False))
    stages[-1] = _draw_letters(choices, stages[-1])
    counts = tuple(
        1
        if getattr(each, "is_shared", False)
        else choices.one_of("max_parallelism", (4, 1, 7, None))
        for each in stages
    )
    settings = Settings(
        choices.one_of("partitions", (2, 1, 3)),
        counts,
        choices.one_of("warm", _WARM),
        delay=choices.one_of("delay", (1, 500, 2_000)),
        is_beside=True,
    )
    program = DrawnProgram(tuple(stages), settings)
    if all(each.can_be_divided for each in stages) and choices.happens("from savepoint", 0.2):
        return DrawnProgram(program.stages, settings, _draw_savepoints(choices, program))
    return program


def _draw_savepoints(choices: Draws, program: DrawnProgram) -> tuple[bytes, ...]:
    """Draw what the operators of a former query have left."""
    model = Model()
    nothing = tuple(None for _ in program.sources)
    former = choices.integer("former batches", 1, 3)
    for number in range(former + 1):
        now = START_MS + (number - former) * STEP_MS
        # The last one fires what would be due at once: a new query fires it with the next records.
        records: tuple[pa.RecordBatch | None, ...] = nothing
        if number < former:
            sources = range(len(program.sources))
            records = tuple(program.draw_records(choices, each, number - 4) for each in sources)
        watermark = now - 3 * STEP_MS if number else 0
        batch = MicroBatch(number, records, watermark, now, program)
        model.run(batch, program._model)
    return model.end()
