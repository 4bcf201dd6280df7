# SPDX-License-Identifier: Apache-2.0
"""Jobs whose functions raise, and whose dead letters are read as a side output."""

from __future__ import annotations

from jobs.collection import job
from jobs.keyed_jobs import first
from jobs.timed import timed

from pyflinklike.pyflink.common import Configuration, Types
from pyflinklike.pyflink.datastream import KeyedProcessFunction, OutputTag
from pyflinklike.pyflink.datastream.state import ValueStateDescriptor

__all__ = ["DEAD", "Counted", "go_on"]

DEAD = OutputTag("dead")


def go_on(env, **settings):
    """Have the functions of an environment make dead letters."""
    values = {"tag": "dead", "at-most": "1", **settings}
    keys = {f"pyflinklike.dead-letters.{name}": value for name, value in values.items()}
    env.configure(Configuration.from_dict(keys))
    return env


def _reciprocal(value):
    return value[0], value[1], 12 // value[2]


class Counted(KeyedProcessFunction):
    """Counts the elements of a key; raises behind the count for 12, and in the timer of 31."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 30)
        yield value[0], self.count.value()
        if value[2] == 12:
            raise LookupError(value[1])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), -timestamp
        if timestamp == 31:
            raise OverflowError(timestamp)


@job(
    ("a", 1),
    ("a", 2),
    ("b", 1),
    ("a", -34),
    ("b", -35),
    ("dead", "map", "ZeroDivisionError", None),
    ("dead", "process_element", "LookupError", "b"),
    ("dead", "on_timer", "OverflowError", "a"),
    cuts=(2,),
)
def dead_letters_of_a_map_and_a_keyed_function(env):
    """Each operator whose side output is read goes on without what raised."""
    elements = timed(go_on(env), ("a", 1, 4), ("a", 2, 0), ("b", 3, 1), ("a", 4, 3), ("b", 5, 2))
    mapped = elements.map(_reciprocal)
    counted = mapped.key_by(first).process(Counted())
    letters = mapped.get_side_output(DEAD).union(counted.get_side_output(DEAD))
    told = letters.map(lambda each: ("dead", each.call, each.error_class, each.key))
    return counted.union(told)
