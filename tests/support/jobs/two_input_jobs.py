# SPDX-License-Identifier: Apache-2.0
"""Jobs with two inputs, one of them broadcast or not."""

from __future__ import annotations

from jobs.collection import job
from jobs.keyed_jobs import LATER, first
from jobs.timed import timed

from pyflinklike.pyflink.common import Types
from pyflinklike.pyflink.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
)
from pyflinklike.pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)

SIDE = OutputTag("side")
RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Negated(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return -value if value else None


@job(1, 2, -3)
def co_map(env):
    """A method for each input; None is no output."""
    streams = env.from_collection([1, 2]).connect(env.from_collection([3, 0]))
    return streams.map(Negated())


class Split(CoFlatMapFunction):
    def flat_map1(self, value):
        return value.split()

    def flat_map2(self, value):
        yield value
        yield value


@job("a", "b", 1, 1)
def co_flat_map(env):
    """Any number of outputs."""
    return env.from_collection(["a b", ""]).connect(env.from_collection([1])).flat_map(Split())


class Told(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield 1, value, ctx.timestamp()

    def process_element2(self, value, ctx):
        yield SIDE, (2, value, ctx.timestamp())


@job((1, ("x", 4), 4))
def co_process_without_keys(env):
    """Elements have their times."""
    return timed(env, ("x", 4)).connect(timed(env, ("y", 6))).process(Told())


@job((2, ("y", 6), 6))
def side_outputs_of_co_process(env):
    """As of any function."""
    return timed(env, ("x", 4)).connect(timed(env, ("y", 6))).process(Told()).get_side_output(SIDE)


class Totals(CoMapFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def _added(self, value):
        self.total.update((self.total.value() or 0) + value[1])

    def map1(self, value):
        self._added(value)

    def map2(self, value):
        self._added(value)
        return "seen", value[0]


@job(("seen", "a"), ("seen", "b"))
def keyed_co_map(env):
    """Both inputs have one state."""
    first_stream = env.from_collection([("a", 1), ("b", 2)])
    streams = first_stream.connect(env.from_collection([("a", 3), ("b", 4)]))
    return streams.key_by(first, first).map(Totals())


class Joined(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", Types.INT()))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", Types.INT()))

    def process_element1(self, value, ctx):
        self.left.add(value[1])
        for other in self.right.get() or ():
            yield value[0], value[1], other

    def process_element2(self, value, ctx):
        self.right.add(value[1])
        for other in self.left.get() or ():
            yield value[0], other, value[1]


@job(("a", 1, 10), ("a", 2, 10), ("b", 3, 30))
def a_join_in_state(env):
    """Every pair of a key, whichever came first."""
    left = env.from_collection([("a", 1), ("a", 2), ("b", 3)])
    right = env.from_collection([("a", 10), ("b", 30), ("c", 40)])
    return left.key_by(first).connect(right.key_by(first)).process(Joined())


class Together(CoProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element1(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(10)

    process_element2 = process_element1

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.total.value()


@job(("a", 10, 11), ("b", 10, 2))
def a_co_process_function_of_keyed_streams(env):
    """It has state and timers of keys, though its name does not say so."""
    left = env.from_collection([("a", 1), ("b", 2)]).key_by(first)
    return left.connect(env.from_collection([("a", 10)]).key_by(first)).process(Together())


class Waiting(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10)

    def process_element2(self, value, ctx):
        pass

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


@job(("a", 10))
def timers_of_two_inputs(env):
    """They fire once both have come that far."""
    streams = timed(env, ("a", 1), ("a", 30)).connect(timed(env, ("a", 2)))
    return streams.key_by(first, first).process(Waiting())


class WaitingForTheClock(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element1(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_processing_time_timer(LATER)

    def process_element2(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.total.value()


@job(batch=[("a", 33)], cuts=())
def processing_timers_of_two_inputs_at_the_end(env):
    """They fire behind the elements of both."""
    streams = timed(env, ("a", 1), ("a", 30)).connect(timed(env, ("a", 2), ("b", 5)))
    return streams.key_by(first, first).process(WaitingForTheClock())


@job(("a", 3), ("b", 4))
def connected_with_itself(env):
    """A stream may be both inputs."""

    class Sum(KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

        def process_element1(self, value, ctx):
            yield from self._both(value)

        def process_element2(self, value, ctx):
            yield from self._both(value)

        def _both(self, value):
            if self.seen.value() is not None:
                yield value
            self.seen.update(value[1])

    stream = env.from_collection([("a", 3), ("b", 4)]).key_by(first)
    return stream.connect(stream).process(Sum())


class Limited(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        limit = ctx.get_broadcast_state(RULES).get("limit")
        if limit is None or value <= limit:
            yield value

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("limit", value)


@job(1, 2)
def rules_without_keys(env):
    """Every element is judged by the rules."""
    rules = env.from_collection([2]).broadcast(RULES)
    return env.from_collection([1, 2, 3]).connect(rules).process(Limited())


class Raised(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value, ctx):
        rate = ctx.get_broadcast_state(RULES).get(ctx.get_current_key()) or 1
        self.total.update((self.total.value() or 0) + value[1] * rate)
        ctx.timer_service().register_event_time_timer(100)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.total.value()


@job(("a", 30), ("b", 3))
def rules_with_keys(env):
    """State and timers of keys, and rules for all."""
    rules = env.from_collection([("a", 10)]).broadcast(RULES)
    stream = timed(env, ("a", 1), ("a", 2), ("b", 3)).key_by(first)
    return stream.connect(rules).process(Raised())


class RaisedByTheClock(Raised):
    def process_element(self, value, ctx):
        super().process_element(value, ctx)
        ctx.timer_service().delete_event_time_timer(100)
        ctx.timer_service().register_processing_time_timer(LATER)


@job(batch=[("a", 30), ("b", 3)], cuts=())
def processing_timers_beside_rules_at_the_end(env):
    """They fire as those of event time."""
    rules = env.from_collection([("a", 10)]).broadcast(RULES)
    stream = timed(env, ("a", 1), ("a", 2), ("b", 3)).key_by(first)
    return stream.connect(rules).process(RaisedByTheClock())


class Counted(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield sorted(ctx.get_broadcast_state(RULES).keys())

    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(RULES)
        if value[1] is None:
            state.remove(value[0])
        else:
            state.put(*value)


@job(["y"], ["y"])
def rules_that_are_withdrawn(env):
    """Broadcast state can lose what it had."""
    rules = env.from_collection([("x", 1), ("y", 2), ("x", None)]).broadcast(RULES)
    return env.from_collection(["a", "b"]).key_by(lambda v: v).connect(rules).process(Counted())
