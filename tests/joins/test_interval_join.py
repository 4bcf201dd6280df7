# SPDX-License-Identifier: Apache-2.0
"""The interval join in the harness: Flink's rules one by one, then outer joins."""

from __future__ import annotations

import pickle

import pytest
from two_input_support import BACKENDS

from pyflinklike import (
    HashMapStateBackend,
    OutputTag,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import IncompatibleStateError, OutputError, StateValueError
from pyflinklike.joins import IntervalJoin, JoinBounds, ProcessJoinFunction
from pyflinklike.testing import KeyedTwoInputHarness

LATE = OutputTag("late"), OutputTag("late too")


class Pairs(ProcessJoinFunction):
    """Tells of pairs, with all that the context says."""

    def process_element(self, left, right, ctx):
        times = ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()
        yield left and left[1], right and right[1], times


class Counting(ProcessJoinFunction):
    """Numbers the pairs of each key."""

    def open(self, runtime_context):
        self.pairs = runtime_context.get_state(ValueStateDescriptor("pairs", Types.LONG()))

    def process_element(self, left, right, ctx):
        self.pairs.update((self.pairs.value() or 0) + 1)
        return [(ctx.get_current_key(), self.pairs.value())]


class Single(ProcessJoinFunction):
    """Returns a row where it should give one among others."""

    def process_element(self, left, right, ctx):
        return Row(left, right)


def joining(lower=-2, upper=1, join="inner", function=None, **options):
    """A harness over a join; elements are pairs of a key and a value."""
    restore, backend = options.pop("restore", None), options.pop("backend", HashMapStateBackend)
    function = IntervalJoin(function or Pairs(), JoinBounds(lower, upper), join, **options)
    return KeyedTwoInputHarness(
        function, lambda pair: pair[0], state_backend=backend(), restore=restore
    )


def left(harness, *timestamps):
    """Left elements of key k, each named after its time; what they give out."""
    return [out for at in timestamps for out in harness.process_element1(("k", f"l{at}"), at)]


def right(harness, *timestamps):
    """Right elements of key k."""
    return [out for at in timestamps for out in harness.process_element2(("k", f"r{at}"), at)]


def names(outputs):
    """The two elements of each pair."""
    return [output[:2] for output in outputs]


def buffered(harness):
    """How many elements are kept of each input, and how many timers there are."""
    sides = (harness.num_keyed_state_entries(f"_join_{name}") for name in ("left", "right"))
    return (*sides, harness.num_event_time_timers())


def test_late_elements_go_to_the_side_output_of_their_input():
    """Then they are not counted as dropped."""
    with joining(left_late=LATE[0], right_late=LATE[1]) as harness:
        harness.process_both_watermarks(10)
        left(harness, 9)
        right(harness, 8)

        late = [harness.side_output(tag) for tag in LATE]
        assert ([("k", "l9")], [("k", "r8")], 0) == (
            *late,
            harness.metrics()["numLateRecordsDropped"],
        )


@pytest.mark.parametrize(
    ("bounds", "left_until", "right_until"),
    [((-2, 1), 11, 12), ((3, 5), 15, 10), ((-5, -3), 10, 15), ((0, 0), 10, 10)],
)
def test_elements_are_kept_until_their_last_partner_could_come(bounds, left_until, right_until):
    """Then they are let go with their timers; a millisecond before that they are there."""
    kept = []
    with joining(*bounds) as harness:
        left(harness, 10)
        right(harness, 10)
        for watermark in range(9, 17):
            harness.process_both_watermarks(watermark)
            kept.append((watermark, *buffered(harness)[:2]))
        timers = harness.num_event_time_timers()

    assert [(at, int(at < left_until), int(at < right_until)) for at in range(9, 17)] == kept
    assert 0 == timers


def test_an_interval_that_grew_at_a_restart_leaves_nothing_behind():
    """The timers of what was kept before come too early, and are registered anew."""
    with joining(-2, 1) as harness:
        left(harness, 10)
        right(harness, 10)
        snapshot = harness.snapshot()
    with joining(-5, 4, restore=snapshot) as harness:
        harness.process_both_watermarks(13)
        assert (1, 1) == buffered(harness)[:2]
        harness.process_both_watermarks(14)
        assert (0, 1) == buffered(harness)[:2]
        harness.process_both_watermarks(15)

        assert (0, 0, 0) == buffered(harness)


def test_a_join_reaches_a_worker():
    """It pickles before it is opened."""
    join = IntervalJoin(Counting(), JoinBounds(0, 0))

    assert isinstance(pickle.loads(pickle.dumps(join)), IntervalJoin)


def test_an_element_without_a_time_is_refused():
    """With the words that mend it."""
    with joining() as harness, pytest.raises(StateValueError, match="event_time"):
        harness.process_element1(("k", "l"))


def test_a_function_has_state_of_the_key():
    """It is opened and may declare states of its own."""
    with joining(function=Counting()) as harness:
        left(harness, 1, 2)

        assert [("k", 1), ("k", 2)] == right(harness, 1)


def test_a_single_output_is_refused():
    """Its fields would become outputs."""
    with joining(function=Single()) as harness:
        left(harness, 1)
        with pytest.raises(OutputError, match=r"^calls of .*\.process_element give .*yield it"):
            right(harness, 1)


def test_kept_elements_of_another_type_are_refused_at_a_restart():
    """They would be joined as what they are not."""
    with joining(left_type=Types.TUPLE([Types.STRING(), Types.STRING()])) as harness:
        left(harness, 10)
        snapshot = harness.snapshot()

    with pytest.raises(IncompatibleStateError, match="the kept elements of the left input"):
        joining(restore=snapshot)


KINDS = ("inner", "left_outer", "right_outer", "full_outer")
GOES_ON = {
    "inner": {"inner", "left_outer", "right_outer", "full_outer"},
    "left_outer": {"left_outer", "full_outer"},
    "right_outer": {"right_outer", "full_outer"},
    "full_outer": {"full_outer"},
}


class _Both(ProcessJoinFunction):
    """The two elements."""

    def process_element(self, left, right, ctx):
        yield left, right


def _of_kind(how, backend, **options):
    join = IntervalJoin(_Both(), JoinBounds(-2, 2), how)
    key = dict.fromkeys(("key_selector1", "key_selector2"), lambda _: "k")
    return KeyedTwoInputHarness(join, **key, state_backend=backend, **options)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("now", KINDS)
@pytest.mark.parametrize("before", KINDS)
def test_a_join_may_become_one_that_gives_out_fewer_elements_alone(before, now, backend):
    """Only such a one knows which elements have found a partner; the others are refused by name."""
    with _of_kind(before, backend) as driver:
        driver.process_element1(1, 1)
        driver.process_element2(2, 2)
        stored = driver.snapshot()
    if before not in GOES_ON[now]:
        expected = f"keeps the kind of the join, '{before}', got '{now}'; the former join"
        with pytest.raises(IncompatibleStateError, match=expected):
            _of_kind(now, backend, restore=stored)
        return
    with _of_kind(now, backend, restore=stored) as driver:
        assert [(1, 3)] == driver.process_element2(3, 3)
        assert [] == driver.end_of_input1() + driver.end_of_input2()


def test_a_join_that_was_inner_for_a_while_does_not_become_an_outer_one_again():
    """Partners that were found meanwhile were not noted: of the side that gave none, too."""
    backend = BACKENDS[0]
    with _of_kind("left_outer", backend) as driver:
        driver.process_element1(1, 1)
        stored = driver.snapshot()
    with _of_kind("inner", backend, restore=stored) as driver:
        assert [(1, 2)] == driver.process_element2(2, 2)
        stored = driver.snapshot()
    with pytest.raises(IncompatibleStateError, match=r"'inner', got 'left_outer'"):
        _of_kind("left_outer", backend, restore=stored)


def test_elements_of_one_time_all_have_their_pairs_in_the_order_of_arrival():
    """They share a place in time, and none replaces another."""
    with joining(0, 0) as harness:
        for name in "abc":
            harness.process_element1(("k", name), 5)

        assert [(name, "r5") for name in "abc"] == names(right(harness, 5))


def test_an_element_before_the_watermark_is_late():
    """One at the watermark is not, as in Flink; a late one is counted, joins nothing and is not kept."""
    with joining(-100, 100) as harness:
        right(harness, 10)
        harness.process_both_watermarks(10)

        assert [] == left(harness, 9)
        assert (0, 1, 1) == buffered(harness)
        assert {"numLateRecordsDropped": 1} == harness.metrics()
        assert [("l10", "r10")] == names(left(harness, 10))
