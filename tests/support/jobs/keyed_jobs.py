# SPDX-License-Identifier: Apache-2.0
"""Jobs with keys: folds, state, timers, keyed maps, two keyed operators."""

from __future__ import annotations

from jobs.collection import job
from jobs.timed import timed

from pyflinklike.pyflink.common import Row, Types
from pyflinklike.pyflink.datastream import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    ReduceFunction,
)
from pyflinklike.pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

PAIRS = [("a", 1), ("b", 10), ("a", 2), ("b", 5), ("a", 3)]
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
SIDE = OutputTag("side")


def pairs(env, kind=PAIR):
    """The elements most of these jobs have."""
    return env.from_collection(PAIRS, kind)


def first(value):
    """The key."""
    return value[0]


def second(value):
    """Another key."""
    return value[1]


@job(("a", 1), ("b", 10), ("a", 3), ("b", 15), ("a", 6), batch=[("a", 6), ("b", 15)], ordered=True)
def reduce_of_a_lambda(env):
    """The fold so far for each element; in batch mode the last one of each key."""
    return pairs(env).key_by(first).reduce(lambda x, y: (x[0], x[1] + y[1]))


class Product(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], value1[1] * value2[1]


@job(("a", 1), ("b", 10), ("a", 2), ("b", 50), ("a", 6), batch=[("a", 6), ("b", 50)])
def reduce_of_a_class(env):
    """A `ReduceFunction` folds, too."""
    return pairs(env, None).key_by(first).reduce(Product())


@job(("a", 1), ("b", 10), ("a", 3), ("b", 15), ("a", 6), batch=[("a", 6), ("b", 15)])
def sum_of_a_field(env):
    """By position."""
    return pairs(env).key_by(first).sum(1)


@job(1, 3, 4, 9, batch=[3, 9])
def nan_is_a_key(env):
    """Also within a key of parts, and where another process made it."""
    numbers = env.from_collection([(float("nan"), 1), (float("nan"), 2), (0.5, 4), (0.5, 5)])
    return (
        numbers.key_by(lambda value: value[0], Types.DOUBLE())
        .process(Passing())
        .key_by(
            lambda value: (float("nan"), [value[0]]),
            Types.TUPLE([Types.FLOAT(), Types.LIST(Types.DOUBLE())]),
        )
        .sum(1)
        .map(lambda value: value[1])
    )


class Passing(KeyedProcessFunction):
    """Gives what it gets."""

    def process_element(self, value, ctx):
        yield value


@job(("a", 1), ("b", 10), ("a", 1), ("b", 5), ("a", 1), batch=[("a", 1), ("b", 5)])
def min_of_a_field(env):
    """The least so far."""
    return pairs(env).key_by(first).min(1)


@job(("a", 1), ("b", 10), ("a", 2), ("b", 10), ("a", 3), batch=[("a", 3), ("b", 10)])
def max_of_a_field(env):
    """The greatest so far."""
    return pairs(env).key_by(first).max(1)


@job(("a", 2, "x"), ("a", 2, "x"), ("a", 1, "z"), batch=[("a", 1, "z")])
def min_by_of_a_field(env):
    """The element, the earlier of two that are equal."""
    elements = [("a", 2, "x"), ("a", 2, "y"), ("a", 1, "z")]
    return env.from_collection(elements).key_by(first).min_by(1)


@job(("a", 2, "x"), ("a", 2, "x"), ("a", 3, "z"), batch=[("a", 3, "z")])
def max_by_of_a_field(env):
    """The element, the earlier of two that are equal."""
    elements = [("a", 2, "x"), ("a", 2, "y"), ("a", 3, "z")]
    return env.from_collection(elements).key_by(first).max_by(1)


@job((("a", 1)), ("a", 5), batch=[("a", 5)])
def sum_of_a_named_field(env):
    """Of a row, by name."""
    kind = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.INT()])
    rows = env.from_collection([Row(key="a", n=1), Row(key="a", n=4)], kind)
    return rows.key_by(lambda row: row.key).sum("n").map(tuple)


@job(1, 3, 6, batch=[6])
def sum_of_plain_values(env):
    """A plain value is its own field 0."""
    return env.from_collection([1, 2, 3]).key_by(lambda _: 0).sum()


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


@job(("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3))
def count_in_value_state(env):
    """State belongs to its key."""
    return pairs(env).key_by(first).process(Count())


@job((None, 1), (None, 2))
def none_is_a_key(env):
    """Where keys have no type."""
    return env.from_collection([1, 2]).key_by(lambda _: None).process(Count())


@job((1, 1), (1.0, 1), (True, 1), (1, 2))
def numbers_of_other_types_are_other_keys(env):
    """Untyped keys are equal if their pickles are."""
    return env.from_collection([1, 1.0, True, 1]).key_by(lambda key: key).process(Count())


@job(([1], 1), ([1], 2))
def a_list_is_a_key(env):
    """A key need not be hashable."""
    return env.from_collection([1, 2]).key_by(lambda _: [1]).process(Count())


@job((("a", 1), 1), (("a", 1), 2))
def a_typed_tuple_is_a_key(env):
    """A key has the type that was declared."""
    stream = env.from_collection([("a", 1), ("a", 1)])
    return stream.key_by(lambda value: value, PAIR).process(Count())


class ByFirst(KeySelector):
    def get_key(self, value):
        return value[0]


@job(("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3))
def key_selector_as_a_class(env):
    """It tells the key."""
    return pairs(env).key_by(ByFirst(), Types.STRING()).process(Count())


class Running(MapFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def map(self, value):
        self.total.update((self.total.value() or 0) + value[1])
        return value[0], self.total.value()


@job(("a", 1), ("b", 10), ("a", 3), ("b", 15), ("a", 6))
def keyed_map_with_state(env):
    """`open` obtains state of keys."""
    return pairs(env).key_by(first).map(Running())


class New(FilterFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value):
        is_new = self.seen.value() is None
        self.seen.update(True)
        return is_new


@job(("a", 1), ("b", 10))
def keyed_filter_with_state(env):
    """Only the first of each key stays."""
    return pairs(env).key_by(first).filter(New())


class Pairs(FlatMapFunction):
    def open(self, runtime_context):
        self.held = runtime_context.get_state(ValueStateDescriptor("held", Types.INT()))

    def flat_map(self, value):
        held = self.held.value()
        if held is None:
            self.held.update(value[1])
            return
        self.held.clear()
        yield value[0], held, value[1]


@job(("a", 1, 2), ("b", 10, 5))
def keyed_flat_map_with_state(env):
    """Two by two."""
    return pairs(env).key_by(first).flat_map(Pairs())


class All(KeyedProcessFunction):
    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.INT()))
        self.map = runtime_context.get_map_state(
            MapStateDescriptor("map", Types.INT(), Types.STRING())
        )
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda x, y: x + y, Types.INT())
        )
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        self.list.add(value[1])
        self.map.put(value[1], value[0])
        self.sum.add(value[1])
        self.mean.add(value[1])
        yield (
            value[0],
            list(self.list.get()),
            sorted(self.map.keys()),
            self.sum.get(),
            self.mean.get(),
        )


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


@job(("a", [4], [4], 4, 4.0), ("a", [4, 2], [2, 4], 6, 3.0))
def all_other_states(env):
    """List, map, reducing and aggregating state."""
    return env.from_collection([("a", 4), ("a", 2)]).key_by(first).process(All())


class Deadline(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


@job(("a", 11), ("a", 12), ("b", 15))
def event_time_timers(env):
    """They fire when the watermark is there, or at the end."""
    return timed(env, ("a", 1), ("b", 5), ("a", 2)).key_by(first).process(Deadline())


@job(("a", 11), ("a", 12), ("b", 15), ordered=True, batch=None, cuts=(None,))
def event_time_timers_in_order_of_time(env):
    """At the end of the input, whatever the order of the elements."""
    return timed(env, ("b", 5), ("a", 2), ("a", 1)).key_by(first).process(Deadline())


class Aside(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(100)
        yield SIDE, ("element", value[0])

    def on_timer(self, timestamp, ctx):
        yield SIDE, ("timer", ctx.get_current_key())
        yield "main"


@job(("element", "a"), ("element", "b"), ("timer", "a"), ("timer", "b"))
def side_outputs_of_elements_and_timers(env):
    """Both go aside."""
    stream = timed(env, ("a", 1), ("b", 2)).key_by(first).process(Aside())
    return stream.get_side_output(SIDE)


LATER = 4_000_000_000_000
"""A time of the clock that does not come while a job runs."""


class Gathered(KeyedProcessFunction):
    """Gives what has gathered when the clock has come far."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(5)
        ctx.timer_service().register_processing_time_timer(LATER)

    def on_timer(self, timestamp, ctx):
        yield SIDE, (ctx.get_current_key(), "flushed" if timestamp > 5 else "waits")
        if timestamp > 5:
            yield ctx.get_current_key(), self.total.value()
            self.total.clear()


FLUSHED = [("a", "waits"), ("a", "flushed"), ("b", "waits"), ("b", "flushed")]


@job(("a", "waits"), ("b", "waits"), batch=FLUSHED, cuts=())
def processing_timers_at_the_end(env):
    """In batch mode they fire, behind the event timers; in streaming mode the job ends before."""
    return pairs(env).key_by(first).process(Gathered()).get_side_output(SIDE)


class Flushed(Gathered):
    def on_timer(self, timestamp, ctx):
        if timestamp > 5:
            yield ctx.get_current_key(), self.total.value()
            self.total.clear()


@job(batch=[(6, 6), (15, 15)], cuts=())
def processing_timers_of_two_keyed_operators(env):
    """What those of the first give comes to the second before its input ends."""
    return pairs(env).key_by(first).process(Flushed()).key_by(second).process(Flushed())


class Times(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], ctx.timestamp()


@job(("a", 1), ("b", 7))
def elements_have_their_times(env):
    """Those that the assigner told."""
    return timed(env, ("a", 1), ("b", 7)).key_by(first).process(Times())


@job(("a", 11), ("b", 15))
def outputs_of_timers_have_the_times_of_timers(env):
    """An operator behind sees them."""
    fired = timed(env, ("a", 1), ("b", 5)).key_by(first).process(Deadline())
    return fired.key_by(first).process(Times())


@job(("a", None))
def no_time_is_none(env):
    """Elements without a time have none."""
    return env.from_collection([("a", 1)]).key_by(first).process(Times())


@job(("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2))
def two_keyed_operators(env):
    """One behind the other, with keys of their own."""
    counted = pairs(env).key_by(first).process(Count())
    return counted.map(lambda pair: (pair[0], pair[1])).key_by(first).filter(lambda _: True)


@job(("even", 1), ("odd", 1), ("even", 2), ("odd", 2), ("odd", 3))
def keyed_again(env):
    """A stream that has keys gets others; the elements are the same."""
    stream = pairs(env).key_by(first)
    return stream.key_by(lambda v: "odd" if v[1] % 2 else "even").process(Count())


@job(("a", 1), ("b", 10), ("a", 2), ("b", 5), ("a", 3))
def the_values_of_a_keyed_stream(env):
    """A union takes the elements without the keys."""
    return pairs(env).key_by(first).union(env.from_collection([], PAIR))


@job(Row(f0="a", f1=("a", 1)), Row(f0="b", f1=("b", 10)))
def collecting_a_keyed_stream(env):
    """It gives rows of key and element, whose fields have names."""
    return env.from_collection(PAIRS[:2], PAIR).key_by(first, Types.STRING())


class Parameters(KeyedProcessFunction):
    def open(self, runtime_context):
        self.word = runtime_context.get_job_parameter("word", "none")
        self.other = runtime_context.get_job_parameter("other", "none")

    def process_element(self, value, ctx):
        yield self.word, self.other


@job(("hello", "none"))
def job_parameters(env):
    """Functions get them."""
    env.get_config().set_global_job_parameters({"word": "hello"})
    return env.from_collection([1]).key_by(lambda n: n).process(Parameters())
