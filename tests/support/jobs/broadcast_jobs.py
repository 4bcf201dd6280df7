# SPDX-License-Identifier: Apache-2.0
"""Jobs with a broadcast input beside keyed operators: before it, behind it, and another one."""

from __future__ import annotations

from jobs.collection import job
from jobs.keyed_jobs import first
from jobs.timed import timed
from jobs.two_input_jobs import RULES, Limited, Raised

from pyflinklike.pyflink.common import Types
from pyflinklike.pyflink.datastream import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    OutputTag,
)
from pyflinklike.pyflink.datastream.state import MapStateDescriptor

SIDE = OutputTag("side")
NAMES = MapStateDescriptor("names", Types.INT(), Types.STRING())


@job(("a", 33), ("b", 3))
def rules_that_a_keyed_operator_gives(env):
    """All tasks of the second operator get what the first one gives."""
    sums = env.from_collection([("a", 4), ("a", 7), ("c", 1)]).key_by(first).sum(1)
    stream = timed(env, ("a", 1), ("a", 2), ("b", 3)).key_by(first)
    return stream.connect(sums.broadcast(RULES)).process(Raised())


@job(1, 2, 3, batch=[3])
def rules_for_what_a_keyed_operator_gives(env):
    """Rules pass the first operator, and come before its outputs."""
    rules = env.from_collection([3]).map(lambda n: n).broadcast(RULES)
    sums = env.from_collection([1, 1, 1]).key_by(lambda _: "all").sum()
    return sums.connect(rules).process(Limited())


@job(("a", 10), ("b", 20), ("b", 22), batch=[("a", 10), ("b", 22)])
def a_keyed_operator_behind_rules(env):
    """The keys of what a function without keys gives."""
    rules = env.from_collection([20]).broadcast(RULES)
    numbers = env.from_collection([10, 20, 30, 2]).connect(rules).process(Limited())
    pairs = numbers.map(lambda n: ("a" if n == 10 else "b", n))
    return pairs.key_by(first).reduce(lambda one, other: (one[0], one[1] + other[1]))


@job(2, 3)
def rules_behind_rules(env):
    """Two operators with broadcast inputs, one behind the other."""
    stream = env.from_collection([1, 2, 3, 4])
    small = stream.connect(env.from_collection([3]).broadcast(RULES)).process(Limited())
    return small.connect(env.from_collection([("x", 1)]).broadcast(NAMES)).process(Unnamed())


class Unnamed(BroadcastProcessFunction):
    """Elements without a name; the others go aside, with their times."""

    def process_element(self, value, ctx):
        name = ctx.get_broadcast_state(NAMES).get(value if isinstance(value, int) else value[1])
        if name is None:
            yield value
        else:
            yield SIDE, (name, value, ctx.timestamp())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(NAMES).put(value[1], value[0])


@job(("one", ("a", 1), 1), ("two", ("a", 2), 2))
def side_outputs_beside_rules(env):
    """They have the times of elements."""
    names = env.from_collection([("one", 1), ("two", 2)]).broadcast(NAMES)
    stream = timed(env, ("a", 1), ("a", 2), ("a", 3))
    return stream.connect(names).process(Unnamed()).get_side_output(SIDE)


class Rated(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.get_current_key(), value[1] * ctx.get_broadcast_state(RULES).get("rate")

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


@job(("a", 10), (None, 20))
def rules_for_elements_whose_key_is_none(env):
    """None is a key like any other."""
    rules = env.from_collection([("rate", 10)]).broadcast(RULES)
    stream = env.from_collection([("a", 1), (None, 2)]).key_by(first)
    return stream.connect(rules).process(Rated())


@job(("a", 50), ("b", 100))
def one_stream_is_both_inputs(env):
    """Its elements are rules and what they are for."""
    stream = timed(env, ("a", 5), ("b", 10))
    rules = stream.map(lambda pair: (pair[0], 10)).broadcast(RULES)
    return stream.key_by(first).connect(rules).process(Raised())
