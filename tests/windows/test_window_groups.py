# SPDX-License-Identifier: Apache-2.0
"""Records that are put into their windows together: nobody can tell them from records one by one."""

from __future__ import annotations

import uuid
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_support import BACKENDS

from pyflinklike import (
    AggregateFunction,
    DeadLetters,
    HashMapStateBackend,
    OutputTag,
    ReduceFunction,
    Row,
    Types,
)
from pyflinklike.engine.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.engine.log.checkpoint_logs import sections_of
from pyflinklike.engine.log.entry_codec import decode_entries
from pyflinklike.engine.log.segments import read_segment
from pyflinklike.engine.log.working_state import LocalStateBackend
from pyflinklike.engine.runtime.assembly import make_keyed_operator
from pyflinklike.engine.runtime.call_contexts import TaskInfo
from pyflinklike.engine.runtime.micro_batch import Records, UnsortedRecords, serve
from pyflinklike.errors import UserFunctionError
from pyflinklike.testing.in_memory_log import InMemoryLogStorage
from pyflinklike.windows import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
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
        return Row(key=value1[0], n=(value1[1] * 31 + value2[1]) % 1_000_003)


BAD = 666
ELEMENTS = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.LONG()])
FOLDS = {
    "elements": lambda windowed: windowed.process(Told()),
    "numbers": lambda windowed: windowed.aggregate(Number(), Told(), Types.LONG()),
    "digits": lambda windowed: windowed.aggregate(Digits(), Told()),
    "reduced": lambda windowed: windowed.reduce(Later(), Told()),
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

    def operator(self) -> Any:
        """The windows; of rows `(key, n)`."""
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
        return FOLDS[self.fold](windowed)


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
            entries.append((section.declaration, sorted(map(repr, changes.cleared)), sorted(map(repr, rows))))
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

    def __init__(self, function: Any, backend: Any, store: Any = None, on_error: Any = None) -> None:
        self.operator = make_keyed_operator(
            function,
            backend,
            Types.STRING(),
            TaskInfo("windows", max_parallelism=1),
            f"tested-{uuid.uuid4()}",
            on_error=on_error,
        )
        self.operator.open()
        self.store = InMemoryLogStorage() if store is None else store
        self.together = self.operator.process

    def batch(self, way: str, records: list[Any], watermark: int, *, in_order: bool = False) -> Any:
        """Process a micro-batch of `(key, n, time)`; return all that can be seen of it."""
        operator = self.operator
        operator.clock.watermark = watermark
        operator.process = self.together if way == TOGETHER else operator._process_each
        values = [Row(key=key, n=n) for key, n, _ in records]
        kind = Records if in_order else UnsortedRecords
        serve(
            operator,
            self.store,
            0,
            kind([key for key, _, _ in records], values, [time for _, _, time in records]),
        )
        operator.keep_warm()
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
        st.sampled_from([None, *[each.values[0] for each in BACKENDS if each.values[0]]]),
    ),
    min_size=1,
    max_size=6,
)


@given(declared=DECLARED, batches=BATCHES)
def test_records_together_are_records_one_by_one(declared, batches):
    """In outputs, side outputs, logs and metrics, also where a query changes its way as it restarts."""
    ways = {
        each: Way(declared.operator(), HashMapStateBackend()) for each in (TOGETHER, ONE_BY_ONE)
    }
    turns = Way(declared.operator(), HashMapStateBackend())
    watermark = MIN_WATERMARK
    for number, (records, step, in_order, moves_to) in enumerate(
        [*batches, ([], None, True, None), ([], None, True, None)]
    ):
        if moves_to is not None:
            ways = {each: Way(declared.operator(), moves_to, way.close()) for each, way in ways.items()}
            turns = Way(declared.operator(), moves_to, turns.close())
        base = max(watermark, 0)
        timed = [(key, n, base + ahead) for key, n, ahead in records]
        if in_order:
            timed.sort(key=lambda each: each[2])
        seen = {each: way.batch(each, timed, watermark) for each, way in ways.items()}
        own = turns.batch([TOGETHER, ONE_BY_ONE][number % 2], timed, watermark)
        expected = comparable(seen[ONE_BY_ONE], declared)
        assert expected == comparable(seen[TOGETHER], declared)
        assert expected == comparable(own, declared)
        watermark = MAX_WATERMARK if step is None else base + step
    for way in (*ways.values(), turns):
        assert 0 == way.operator.backend.count(), "all is freed"
        way.close()


def comparable(seen: Seen, declared: Declared) -> Any:
    """All that must be equal: byte for byte, but where some keys go one by one and others together."""
    if declared.kind == "session" or declared.lateness:
        return seen.by_entries()
    return seen.exactly()
