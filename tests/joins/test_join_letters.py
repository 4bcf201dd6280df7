# SPDX-License-Identifier: Apache-2.0
"""Dead letters of joins: a pair fails alone, and what stands beside it comes out."""

from __future__ import annotations

import pytest

from pyflinklike import DeadLetters, OutputTag, Types
from pyflinklike.errors import OutputError
from pyflinklike.joins import (
    CoGroupFunction,
    CoGrouping,
    FlatJoinFunction,
    IntervalJoin,
    JoinBounds,
    JoinedGroups,
    JoinFunction,
    ProcessJoinFunction,
)
from pyflinklike.stores import LruStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness, KeyedTwoInputHarness
from pyflinklike.windows import TumblingEventTimeWindows, window

DEAD, SIDE = OutputTag("dead"), OutputTag("side")
LETTERS = DeadLetters(DEAD, at_most=100, per="batch")


class Unlucky(ProcessJoinFunction):
    """Uses a store of two entries, and refuses 13, which it tells together with what the store has."""

    def open(self, runtime_context):
        self.latest = runtime_context.get_store(
            LruStoreDescriptor("latest", Types.LONG(), Types.LONG(), max_entries=2)
        )

    def process_element(self, left, right, ctx):
        numbers = [each[1] for each in (left, right) if each is not None]
        self.latest.put(numbers[0], numbers[-1])
        held = sorted(each.key for each in self.latest.all())
        yield (*numbers, held)
        if 13 in numbers:
            raise ValueError(numbers, held)


def joining(join):
    """An interval join of elements that are pairs of a key and a number."""
    return KeyedTwoInputHarness(
        IntervalJoin(Unlucky(), JoinBounds(-5, 5), join), lambda pair: pair[0], on_error=LETTERS
    )


def told(harness):
    """Call, subject and message of each letter."""
    return [(row.call, row.subject, row.message) for row in harness.side_output(DEAD)]


def replayed(letter, join):
    """What the failure snapshot of a letter of the interval join raises."""
    function = IntervalJoin(Unlucky(), JoinBounds(-5, 5), join)
    with KeyedTwoInputHarness.of_failure(
        letter.failure_snapshot, function, allow_pickle=True
    ) as harness:
        with pytest.raises(ValueError, match="13") as raised:
            harness.replay()
        return str(raised.value)


def test_an_element_that_fails_without_a_partner_takes_no_other_with_it():
    """Those of the same moment come out, the next timer is registered, and nothing stays."""
    with joining("left_outer") as harness:
        for number, at in [(7, 3), (13, 3), (1, 3), (13, 3), (2, 100)]:
            harness.process_element1(("k", number), at)
        harness.process_both_watermarks(1_000)
        assert [(7, [7]), (1, [1, 7]), (2, [1, 2])] == harness.output
        name = "Unlucky.process_element"
        assert [
            (name, "(('k', 13), None)", "([13], [7, 13])"),
            (name, "(('k', 13), None)", "([13], [1, 13])"),
        ] == told(harness)
        letters = harness.side_output(DEAD)
        # Each failure snapshot begins with its own element, as those before it are done with.
        assert [row.message for row in letters] == [replayed(row, "left_outer") for row in letters]
        assert 0 == harness.num_event_time_timers()
        assert {"latest"} == {
            each.spec.name.partition("/")[0]
            for each in harness._operator.backend.contents()
            if each.keys
        }


def test_a_pair_that_fails_is_no_other_pair():
    """The element meets its other partners, and is kept for those to come."""
    with joining("inner") as harness:
        for number in (1, 13, 2):
            harness.process_element1(("k", number), 0)
        harness.process_element2(("k", 50), 0)
        harness.process_element2(("k", 60), 0)
        assert [(1, 50, [1]), (2, 50, [1, 2]), (1, 60, [1, 2]), (2, 60, [1, 2])] == harness.output
        letters = harness.side_output(DEAD)
        assert ["(('k', 13), ('k', 50))", "(('k', 13), ('k', 60))"] == [
            row.subject for row in letters
        ]
        # A failure snapshot begins before the element: its other pairs are not in it yet.
        assert ["([13, 50], [1, 13])", "([13, 60], [1, 13])"] == [
            replayed(row, "inner") for row in letters
        ]


def test_what_a_store_keeps_in_memory_is_undone_with_the_pair_that_fails():
    """The pairs before and behind it find the order of use that they made."""
    with joining("inner") as harness:
        harness.process_element1(("k", 1), 0)
        harness.process_element2(("k", 51), -5)
        harness.process_element1(("k", 2), -6)
        harness.process_element1(("k", 13), 1)
        harness.process_element1(("k", 3), 2)
        # 1 is used again, 13 fails, and 3 takes the place of 2, which was used before 1.
        harness.process_element2(("k", 60), 5)
        assert [(1, 51, [1]), (2, 51, [1, 2]), (1, 60, [1, 2]), (3, 60, [1, 3])] == harness.output
        assert ["(('k', 13), ('k', 60))"] == [subject for _, subject, _ in told(harness)]


class Wrong(ProcessJoinFunction):
    """Gives a side output of three parts for a pair of 13."""

    def process_element(self, left, right, ctx):
        yield SIDE, left[1]
        if left[1] == 13:
            yield SIDE, 1, 2


def test_a_pair_with_a_wrong_output_fails_the_query():
    """As every output that does not fit: on Spark that is found when the calls are over."""
    function = IntervalJoin(Wrong(), JoinBounds(-5, 5))
    with KeyedTwoInputHarness(function, lambda pair: pair[0], on_error=LETTERS) as harness:
        for number in (1, 13, 2):
            harness.process_element1(("k", number), 0)
        with pytest.raises(OutputError, match="a side output is `yield tag, value`"):
            harness.process_element2(("k", 50), 0)


class Both(JoinFunction):
    """Both numbers; refuses 13."""

    def join(self, first, second):
        return refusing(first, second)


class Each(FlatJoinFunction):
    """Both numbers, as one output among others; refuses 13."""

    def join(self, first, second):
        yield refusing(first, second)


class Groups(CoGroupFunction):
    """The numbers of both sides; refuses 13."""

    def co_group(self, first, second):
        yield refusing(*first, *second)


def refusing(*some):
    """Numbers, none of which is 13."""
    numbers = [each[1] for each in some]
    if 13 in numbers:
        raise ValueError(numbers)
    return numbers


def windowed(function):
    """Letters and outputs of a window join, of a window with a 13 and one without."""
    operator = window(TumblingEventTimeWindows.of(10)).process(CoGrouping(function))
    with KeyedProcessHarness(operator, lambda tagged: tagged[1][0], on_error=LETTERS) as harness:
        for side, number, at in [
            (1, 1, 0),
            (1, 13, 0),
            (1, 2, 0),
            (2, 50, 0),
            (1, 4, 11),
            (2, 5, 12),
        ]:
            harness.process_element((side, ("k", number)), at)
        harness.end_of_input()
        assert 0 == harness._operator.backend.count()
        return harness.output, [(row.call, row.subject) for row in harness.side_output(DEAD)]


@pytest.mark.parametrize("function", [Both(), Each(), refusing])
def test_a_pair_of_a_window_fails_alone(function):
    """The other pairs of its window come out."""
    name = "refusing" if function is refusing else f"{type(function).__name__}.join"
    assert ([[1, 50], [2, 50], [4, 5]], [(name, "(('k', 13), ('k', 50))")]) == windowed(
        JoinedGroups(function, "inner")
    )


def test_a_group_that_fails_is_over():
    """It is one call; the next window of the key is its own."""
    contents = "[(1, ('k', 1)), (1, ('k', 13)), (1, ('k', 2)), (2, ('k', 50))]"
    letter = ("Groups.co_group", f"TimeWindow(start=0, end=10) of {contents}")
    assert ([[4, 5]], [letter]) == windowed(Groups())
