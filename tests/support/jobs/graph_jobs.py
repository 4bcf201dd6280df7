# SPDX-License-Identifier: Apache-2.0
"""Jobs whose graph is no line: arms side by side, of different lengths, and what joins them."""

from __future__ import annotations

from jobs.collection import job
from jobs.keyed_jobs import Count, first, pairs
from jobs.timed import ByField, timed
from jobs.two_input_jobs import RULES, Raised

from pyflinklike.pyflink.common import Time, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
)
from pyflinklike.pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows

LARGE = OutputTag("large")


class Texts(KeyedProcessFunction):
    """Keeps a text under the name that `Count` keeps a number under."""

    def open(self, runtime_context):
        self.text = runtime_context.get_state(ValueStateDescriptor("count", Types.STRING()))

    def process_element(self, value, ctx):
        text = (self.text.value() or "") + str(value[1])
        self.text.update(text)
        yield ctx.get_current_key(), text


@job(
    *[("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)],
    *[("a", "1"), ("b", "10"), ("a", "12"), ("b", "105"), ("a", "123")],
)
def states_of_one_name_side_by_side(env):
    """Two operators of one depth have state of one name and of different types, for equal keys."""
    keyed = pairs(env).key_by(first)
    return keyed.process(Count()).union(keyed.process(Texts()))


@job(*[("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)] * 2)
def one_function_twice_side_by_side(env):
    """The same object declares two operators, which know nothing of each other."""
    keyed, function = pairs(env).key_by(first), Count()
    return keyed.process(function).union(keyed.process(function))


@job(("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), (0, 1), (1, 1), (0, 2), (1, 2), (1, 3))
def keys_of_two_types_side_by_side(env):
    """And different numbers of key groups."""
    stream = pairs(env)
    texts = stream.key_by(first, Types.STRING()).process(Count()).set_max_parallelism(3)
    return texts.union(stream.key_by(lambda pair: pair[1] % 2, Types.INT()).process(Count()))


class Sorted(KeyedProcessFunction):
    """All elements, and the large ones aside."""

    def process_element(self, value, ctx):
        yield value
        if value[1] >= 3:
            yield LARGE, value


@job(
    *[("a", 1), ("b", 10), ("a", 3), ("b", 15), ("a", 6)],
    *[("b", 10), ("b", 10), ("a", 3)],
    batch=[("a", 6), ("b", 15), ("b", 10), ("a", 3)],
)
def side_output_of_an_operator_to_another_one(env):
    """Its main output and its side output go to two operators of one depth."""
    every = pairs(env).key_by(first).process(Sorted())
    sums = every.key_by(first).sum(1)
    return sums.union(every.get_side_output(LARGE).key_by(first).max(1))


@job(
    *[("b", 10), ("b", 5), ("right", 10), ("right", 5)],
    *[("left", 10), ("left", 5), ("left", 3)],
)
def two_operators_with_side_outputs(env):
    """Each one's are its own; of one of them the main output is not read."""
    left = pairs(env).key_by(first).process(Sorted()).get_side_output(LARGE)
    right = pairs(env).filter(lambda pair: pair[0] == "b").key_by(first).process(Sorted())
    aside = right.get_side_output(LARGE).map(lambda pair: ("right", pair[1]))
    return right.union(aside, left.map(lambda pair: ("left", pair[1])))


@job(
    *[("a", 1), ("b", 10), ("a", 1), ("b", 5), ("a", 1)],
    *[("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)],
    *[(1, 1), (10, 1), (3, 1), (15, 1), (6, 1)],
    batch=[("a", 1), ("b", 5), ("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), (6, 1), (15, 1)],
)
def arms_of_different_lengths(env):
    """One keyed operator, or two; what has come to its end passes the second one."""
    keyed = pairs(env, None).key_by(first)
    sums = keyed.sum(1)
    counts = sums.key_by(lambda pair: pair[1]).process(Count())
    return keyed.min(1).union(keyed.process(Count()), counts)


@job(("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3))
def an_arm_that_gets_nothing(env):
    """Beside one that does."""
    stream = pairs(env)
    nothing = stream.filter(lambda _: False).key_by(first).process(Count())
    return stream.key_by(first).process(Count()).union(nothing.key_by(first).process(Texts()))


@job(("a", 3), ("a", 2), ("b", 1), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3))
def windows_beside_an_operator_that_gets_later_elements_only(env):
    """The windows of an arm fire while only the other arm gets elements."""
    stream = timed(env, ("a", 1), ("a", 2), ("a", 3), ("a", 12), ("a", 13), ("b", 24))
    windows = stream.map(lambda pair: (pair[0], 1)).key_by(first)
    counted = windows.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).reduce(
        lambda one, other: (one[0], one[1] + other[1])
    )
    return counted.union(stream.key_by(lambda pair: pair[1] % 2).process(Count()))


class Joined(KeyedCoProcessFunction):
    """Pairs of what has come from both sides, once."""

    def open(self, runtime_context):
        self.sides = [
            runtime_context.get_list_state(ListStateDescriptor(f"side {at}", Types.INT()))
            for at in (1, 2)
        ]

    def process_element1(self, value, ctx):
        return self.joined(0, value)

    def process_element2(self, value, ctx):
        return self.joined(1, value)

    def joined(self, at, value):
        self.sides[at].add(value[1])
        for other in self.sides[1 - at].get():
            both = (value[1], other) if at == 0 else (other, value[1])
            yield value[0], *both


@job(("a", 1, 3), ("a", 2, 3), ("a", 3, 3), ("b", 10, 15), ("b", 5, 15))
def an_operator_of_inputs_of_two_depths(env):
    """One input passes the operator that the other one is behind."""
    stream = pairs(env)
    greatest = stream.key_by(first).max(1).map(lambda pair: (pair[0], 3 if pair[0] == "a" else 15))
    once = greatest.key_by(first).process(Once())
    return stream.key_by(first).connect(once.key_by(first)).process(Joined())


class Once(KeyedProcessFunction):
    """The first element of each key."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, value, ctx):
        if not self.seen.value():
            self.seen.update(True)
            yield value


@job(
    *[("a", 30), ("b", 3), ("a", 1), ("a", 2), ("b", 1)],
    *[("a", 1), ("a", 3), ("b", 3)],
    batch=[("a", 30), ("b", 3), ("a", 1), ("a", 2), ("b", 1), ("a", 3), ("b", 3)],
)
def rules_beside_a_fold(env):
    """An operator with a broadcast input shares its depth with another one."""
    stream = timed(env, ("a", 1), ("a", 2), ("b", 3))
    raised = stream.key_by(first).connect(env.from_collection([("a", 10)]).broadcast(RULES))
    counted = stream.key_by(first).process(Count())
    return raised.process(Raised()).union(counted, stream.key_by(first).sum(1))


class Timed(ProcessFunction):
    """Elements with their times."""

    def process_element(self, value, ctx):
        yield value, ctx.timestamp()


@job((("a", 1), 1), (("a", 3), 3), (("a", 6), 6), batch=[(("a", 6), 2**63 - 1)])
def times_of_what_a_keyed_operator_gives(env):
    """Assigned behind it, and kept by a fold."""
    sums = timed(env, ("a", 1), ("a", 2), ("a", 3)).key_by(first).sum(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByField())
    again = sums.assign_timestamps_and_watermarks(strategy).key_by(lambda pair: pair[1])
    return again.max(1).process(Timed())


@job(*[(key, 8) for key in ("a", "b")])
def many_operators_of_one_depth(env):
    """Eight, whose states are counted together behind them."""
    stream = env.from_collection([("a", 1), ("b", 1)])
    kind = Types.TUPLE([Types.STRING(), Types.LONG()])
    arms = [stream.key_by(first).process(Count(), kind) for _ in range(8)]
    counts = arms[0].union(*arms[1:]).key_by(first).process(Count())
    return counts.filter(lambda pair: pair[1] == 8)
