# SPDX-License-Identifier: Apache-2.0
"""The interval join compared with its rules, written a second time over plain lists."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyflinklike import (
    MIN_WATERMARK,
    DeadLetters,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    MapStateDescriptor,
    OutputTag,
    Types,
)
from pyflinklike.joins import IntervalJoin, JoinBounds, ProcessJoinFunction
from pyflinklike.testing import KeyedTwoInputHarness

JOINS = ("inner", "left_outer", "right_outer", "full_outer")
WATERMARK = 0

keys = st.sampled_from("ab")
times = st.integers(0, 8)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from((1, 2)), keys, times),
        st.tuples(st.just(WATERMARK), st.just(""), times),
    ),
    max_size=25,
)
bounds = st.tuples(st.integers(-3, 3), st.integers(-3, 3)).map(sorted)


DEAD = OutputTag("dead")
LETTERS = DeadLetters(DEAD, at_most=10_000, per="batch")


class Pairs(ProcessJoinFunction):
    """Tells of pairs and of the time of each.

    Args:
        refuses: Whether it refuses some, and counts those of each key that it has not refused.
    """

    def __init__(self, *, refuses):
        self.refuses = refuses

    def open(self, runtime_context):
        self.counts = runtime_context.get_map_state(
            MapStateDescriptor("pairs", Types.STRING(), Types.LONG())
        )

    def process_element(self, left, right, ctx):
        self.counts.put("all", (self.counts.get("all") or 0) + 1)
        yield left, right, ctx.get_timestamp()
        if self.refuses and is_refused(left, right):
            raise ValueError(left, right)


def is_refused(left, right):
    """Whether a function that refuses some refuses a pair."""
    return sum(each[1] for each in (left, right) if each is not None) % 3 == 1


class Kept(NamedTuple):
    """An element that may still find a partner."""

    side: int
    key: str
    time: int
    element: Any


class Model:
    """The rules over one list of kept elements."""

    def __init__(self, lower: int, upper: int, join: str) -> None:
        self.lower, self.upper = lower, upper
        self.outer = {
            1: join in ("left_outer", "full_outer"),
            2: join in ("right_outer", "full_outer"),
        }
        self.watermark = MIN_WATERMARK
        self.kept: list[Kept] = []
        self.joined: set[Any] = set()

    def until(self, each: Kept) -> int:
        return each.time + max(self.upper if each.side == 1 else -self.lower, 0)

    def add(self, new: Kept) -> list[Any]:
        if new.time < self.watermark:
            return []
        pairs = []
        for other in self.kept:
            left, right = sorted((new, other), key=lambda each: each.side)
            is_pair = new.side != other.side and new.key == other.key
            if is_pair and left.time + self.lower <= right.time <= left.time + self.upper:
                pairs.append((left.element, right.element, max(new.time, other.time)))
                self.joined |= {new.element, other.element}
        self.kept.append(new)
        return pairs

    def advance(self, watermark: int) -> list[Any]:
        if watermark <= self.watermark:  # it does not move, so no timer fires
            return []
        self.watermark = watermark
        over = [each for each in self.kept if self.until(each) <= watermark]
        self.kept = [each for each in self.kept if each not in over]
        return [
            (*((each.element, None) if each.side == 1 else (None, each.element)), self.until(each))
            for each in over
            if self.outer[each.side] and each.element not in self.joined
        ]


@example(
    [(0, "", 0), (2, "a", 0), (0, "", 0), (1, "a", 0)],
    [0, 0],
    "inner",
    HashMapStateBackend,
    0,
    False,
)
# An element of the watermark's own time waits for the next one, which is that of the restart.
@example(
    [(0, "", 0), (2, "a", 0), (0, "", 0)], [0, 0], "right_outer", HashMapStateBackend, 2, False
)
@example([(0, "", 0), (2, "a", 0), (0, "", 0)], [0, 0], "right_outer", HashMapStateBackend, 2, True)
@given(
    steps,
    bounds,
    st.sampled_from(JOINS),
    st.sampled_from((HashMapStateBackend, EmbeddedRocksDBStateBackend)),
    st.integers(0, 25),
    st.booleans(),
)
def test_the_join_gives_out_what_its_rules_say(steps, bounds, join, backend, restart, refuses):
    """Element by element, whatever the order, the watermarks, the backend and the place of a restart.

    A pair that the function refuses is a letter, and all others are what they are without it.  Its
    failure snapshot refuses it again.
    """

    def function():
        return IntervalJoin(Pairs(refuses=refuses), JoinBounds(*bounds), join)

    def harness(restore=None):
        return KeyedTwoInputHarness(
            function(),
            lambda each: each[0],
            state_backend=backend(),
            restore=restore,
            on_error=LETTERS if refuses else None,
        )

    def check(expected, outputs):
        given, refused = [], []
        for pair in expected:
            (refused if refuses and is_refused(*pair[:2]) else given).append(pair)
        assert sorted(given, key=repr) == sorted(outputs, key=repr)
        letters = joining.side_output(DEAD)[len(seen) :]
        assert sorted(repr(pair[:2]) for pair in refused) == sorted(row.subject for row in letters)
        seen.extend(letters)
        counted.update(pair[0][0] if pair[0] else pair[1][0] for pair in given)

    model, joining = Model(*bounds, join), harness()
    seen, counted = [], Counter()
    for number, (side, key, time) in enumerate(steps):
        if number == restart:
            snapshot = joining.snapshot()
            joining.close()
            joining = harness(snapshot)
            seen = []
            former, model.watermark = model.watermark, MIN_WATERMARK
            check(model.advance(former), joining.process_both_watermarks(former))
        if side == WATERMARK:
            expected, outputs = model.advance(time), joining.process_both_watermarks(time)
        else:
            element = (key, number)
            expected = model.add(Kept(side, key, time, element))
            process = joining.process_element1 if side == 1 else joining.process_element2
            outputs = process(element, time)
        check(expected, outputs)
    for letter in seen:
        again = KeyedTwoInputHarness.of_failure(
            letter.failure_snapshot, function(), allow_pickle=True
        )
        with again, pytest.raises(ValueError, match=r"[0-9]"):
            again.replay()
    held = {each.spec.name: each for each in joining._operator.backend.contents()}
    counts = dict(zip(held["pairs"].keys, held["pairs"].entries)) if "pairs" in held else {}
    assert counted == counts
    joining.close()
