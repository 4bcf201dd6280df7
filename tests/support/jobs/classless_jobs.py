# SPDX-License-Identifier: Apache-2.0
"""Jobs whose functions, assigners and triggers have the methods of a class and not the class.

`test_objects_without_classes` has what is refused.
"""

from __future__ import annotations

from jobs.collection import job
from jobs.keyed_jobs import first
from jobs.timed import timed

from pyflinklike.pyflink.common import Time, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import AsyncDataStream, ProcessFunction
from pyflinklike.pyflink.datastream.state import MapStateDescriptor
from pyflinklike.pyflink.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    TimeWindow,
    TimeWindowSerializer,
    TriggerResult,
    TumblingEventTimeWindows,
)

LEAST = -(2**63)
TEN = Time.milliseconds(10)
WORDS = MapStateDescriptor("words", Types.STRING(), Types.STRING())


class Times(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp()


class Assigner:
    """The time that an element has, and if it has none ten times its number."""

    def extract_timestamp(self, value, record_timestamp):
        return value * 10 if record_timestamp == LEAST else record_timestamp + 1


def assigned(stream, assigner):
    """The stream with the times of an assigner."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    return stream.assign_timestamps_and_watermarks(strategy)


@job((1, 10), (2, 20))
def the_first_assigner_sees_the_least_long(env):
    """Elements of a collection have no time."""
    return assigned(env.from_collection([1, 2]), Assigner()).process(Times())


@job((1, 11), (2, 21))
def a_second_assigner_sees_the_time_of_the_first(env):
    """As it was assigned."""
    stream = assigned(env.from_collection([1, 2]), Assigner())
    return assigned(stream, Assigner()).process(Times())


@job((1, 11), (2, 21))
def an_assigner_behind_a_keyed_operator_sees_the_times_of_its_outputs(env):
    """Those of the elements that it had."""
    keyed = assigned(env.from_collection([1, 2]), Assigner()).key_by(lambda value: value)
    return assigned(keyed.map(lambda value: value), Assigner()).process(Times())


class Untimed:
    """The least long for the number 1, which leaves it without a time."""

    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp if value == 1 else value * 10


@job((1, 10), (2, 21))
def an_element_may_be_left_without_a_time(env):
    """The next assigner sees the least long again."""
    stream = assigned(env.from_collection([1, 2]), Untimed())
    return assigned(stream, Assigner()).process(Times())


class Doubled:
    """A process function."""

    def process_element(self, value, ctx):
        yield value * 2


class Opened(Doubled):
    """Another one."""

    def open(self, runtime_context):
        self.factor = 3

    def process_element(self, value, ctx):
        yield value * self.factor

    def close(self):
        self.factor = None


@job(3, 6)
def a_process_function_without_a_class_is_opened(env):
    """Its instance keeps what it is given there."""
    return env.from_collection([1, 2]).process(Opened()).set_parallelism(1)


def stream(env):
    """Times 1, 2, 7 and 12."""
    return timed(env, ("a", 1), ("a", 2), ("a", 7), ("a", 12)).key_by(first)


def added(one, other):
    """The sum of two."""
    return one[0], one[1] + other[1]


class Second:
    """Fires and purges at every second element."""

    def on_element(self, element, timestamp, window, ctx):
        return TriggerResult.FIRE_AND_PURGE if element[1] % 2 == 0 else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


@job(("a", 3), ("a", 19))
def a_trigger_needs_no_class(env):
    """It decides by the elements."""
    return stream(env).window(GlobalWindows.create()).trigger(Second()).reduce(added)


class Halves:
    """Windows below 5 and above."""

    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(0, 5) if timestamp < 5 else TimeWindow(5, 100)]

    def get_default_trigger(self, env):
        return PurgingTrigger.of(CountTrigger.of(2))

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


@job(("a", 3), ("a", 19))
def a_window_assigner_needs_no_class(env):
    """It has a trigger of its own."""
    return stream(env).window(Halves()).reduce(added)


class Gap:
    """A gap of 2 ms, and of 6 behind the number 7."""

    def extract(self, element):
        return 6 if element[1] == 7 else 2


@job(("a", 3), ("a", 19))
def a_gap_needs_no_class(env):
    """It is asked for each element."""
    sessions = EventTimeSessionWindows.with_dynamic_gap(Gap())
    return stream(env).window(sessions).reduce(added)


class Sum:
    """A window function."""

    def open(self, runtime_context):
        pass

    def close(self):
        pass

    def apply(self, key, window, inputs):
        return [(key, window.start, sum(each[1] for each in inputs))]


class Largest:
    """A process window function."""

    def open(self, runtime_context):
        pass

    def close(self):
        pass

    def process(self, key, context, elements):
        yield key, context.window().start, max(each[1] for each in elements)

    def clear(self, context):
        pass


# In batch mode PyFlink's list state is empty where the window ends.
@job(("a", 0, 10), ("a", 10, 12), batch=None)
def a_window_function_needs_no_class(env):
    """That of apply."""
    return stream(env).window(TumblingEventTimeWindows.of(TEN)).apply(Sum())


@job(("a", 0, 7), ("a", 10, 12), batch=None)
def a_process_window_function_needs_no_class(env):
    """That of process."""
    return stream(env).window(TumblingEventTimeWindows.of(TEN)).process(Largest())


class Known:
    """A function with a broadcast input."""

    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        return []


@job("a")
def a_function_with_a_broadcast_input_needs_no_class(env):
    """A word, and a rule that gives nothing."""
    words, rules = env.from_collection(["a"]), env.from_collection(["b"])
    return words.connect(rules.broadcast(WORDS)).process(Known())


class Asked:
    """An async function."""

    def open(self, runtime_context):
        pass

    def close(self):
        pass

    async def async_invoke(self, value):
        return [value * 2]

    def timeout(self, value):
        return []


@job(2, 4)
def an_async_function_needs_no_class(env):
    """With a timeout of its own."""
    numbers = env.from_collection([1, 2])
    return AsyncDataStream.ordered_wait(numbers, Asked(), Time.seconds(10))
