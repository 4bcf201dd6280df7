# SPDX-License-Identifier: Apache-2.0
"""Jobs with windows."""

from __future__ import annotations

from jobs.collection import job
from jobs.keyed_jobs import Mean, Times, first
from jobs.timed import timed

from pyflinklike.pyflink.common import Time, Types
from pyflinklike.pyflink.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflinklike.pyflink.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from pyflinklike.pyflink.datastream.state import ValueStateDescriptor
from pyflinklike.pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

LATE = OutputTag("late")
FIVE = Time.milliseconds(5)


def stream(env, **options):
    """Times 1, 2, 7 and 12 of one key, and 3 of another one."""
    return timed(env, ("a", 1), ("a", 2), ("b", 3), ("a", 7), ("a", 12), **options)


class Spans(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, sorted(each[1] for each in elements)


class Sum(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, sum(each[1] for each in inputs))]


@job(("a", 0, 5, [1, 2]), ("b", 0, 5, [3]), ("a", 5, 10, [7]), ("a", 10, 15, [12]))
def tumbling_windows(env):
    """One after another."""
    return stream(env).key_by(first).window(TumblingEventTimeWindows.of(FIVE)).process(Spans())


def added(one, other):
    """The sum of two."""
    return one[0], one[1] + other[1]


@job(batch=[("a", 22), ("b", 3)], cuts=())
def windows_of_processing_time_at_the_end(env):
    """They end with a batch; in streaming mode the job ends before."""
    # One window reaches from 1970 to 2069, for the clock is Flink's own.
    century = TumblingProcessingTimeWindows.of(Time.days(36_500))
    return stream(env).key_by(first).window(century).reduce(added)


@job(batch=[("a", 22), ("b", 3)], cuts=())
def sessions_of_processing_time_at_the_end(env):
    """They merge and end with a batch."""
    sessions = ProcessingTimeSessionWindows.with_gap(Time.days(1))
    return stream(env).key_by(first).window(sessions).reduce(added)


class Growing(ProcessWindowFunction):
    def process(self, key, context, elements):
        seen = []
        for each in elements:
            seen.append(each[1])
            yield seen
            yield LATE, seen


@job([1], [1], [1, 2], [1, 2], [3], [3], [7], [7], [12], [12])
def a_list_that_grows_between_outputs_of_a_window(env):
    """Each is as it was given."""
    grown = stream(env).key_by(first).window(TumblingEventTimeWindows.of(FIVE)).process(Growing())
    return grown.union(grown.get_side_output(LATE))


@job(("a", -1, 4, [1, 2]), ("b", -1, 4, [3]), ("a", 4, 9, [7]), ("a", 9, 14, [12]))
def tumbling_windows_with_an_offset(env):
    """They begin elsewhere."""
    assigner = TumblingEventTimeWindows.of(FIVE, Time.milliseconds(4))
    return stream(env).key_by(first).window(assigner).process(Spans())


@job(("a", -2, 4, [1, 2]), ("a", 1, 7, [1, 2]), ("a", 4, 10, [7]), ("a", 7, 13, [7]))
def sliding_windows(env):
    """An element is in several."""
    elements = timed(env, ("a", 1), ("a", 2), ("a", 7))
    assigner = SlidingEventTimeWindows.of(
        Time.milliseconds(6), Time.milliseconds(3), Time.milliseconds(1)
    )
    return elements.key_by(first).window(assigner).process(Spans())


@job(("a", 1, 12, [1, 2, 7]), ("b", 3, 8, [3]), ("a", 20, 25, [20]))
def session_windows(env):
    """Neighbours are one; sessions that touch are, too."""
    elements = timed(env, ("a", 1), ("a", 2), ("b", 3), ("a", 7), ("a", 20))
    assigner = EventTimeSessionWindows.with_gap(FIVE)
    return elements.key_by(first).window(assigner).process(Spans())


@job(("a", 1, 15, [1, 5, 10]))
def a_session_is_bridged(env):
    """An element between two sessions makes one of them."""
    elements = timed(env, ("a", 1), ("a", 10), ("a", 5), delay=20)
    assigner = EventTimeSessionWindows.with_gap(FIVE)
    return elements.key_by(first).window(assigner).process(Spans())


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[1]


@job(("a", 1, 4, [1, 2]), ("a", 5, 10, [5]))
def sessions_with_a_gap_of_each_element(env):
    """The gap is the element's."""
    elements = timed(env, ("a", 1), ("a", 2), ("a", 5))
    assigner = EventTimeSessionWindows.with_dynamic_gap(Gap())
    return elements.key_by(first).window(assigner).process(Spans())


@job(("a", 3), ("a", 7), ("b", 3), ("a", 12))
def windows_with_a_window_function(env):
    """`apply` gets key, window and elements."""
    return stream(env).key_by(first).window(TumblingEventTimeWindows.of(FIVE)).apply(Sum())


@job(("a", 3), ("b", 3), ("a", 7), ("a", 12))
def windows_that_reduce(env):
    """Elements are folded as they come."""
    windows = stream(env).key_by(first).window(TumblingEventTimeWindows.of(FIVE))
    return windows.reduce(lambda x, y: (x[0], x[1] + y[1]))


@job(("a", 0, 5, [3]), ("b", 0, 5, [3]), ("a", 5, 10, [7]), ("a", 10, 15, [12]))
def windows_that_reduce_with_a_function_behind(env):
    """It gets the one result."""
    windows = stream(env).key_by(first).window(TumblingEventTimeWindows.of(FIVE))
    return windows.reduce(lambda x, y: (x[0], x[1] + y[1]), Spans())


class MeanTime(Mean, AggregateFunction):
    def add(self, value, accumulator):
        return super().add(value[1], accumulator)


@job(1.5, 3.0, 7.0, 12.0)
def windows_that_aggregate(env):
    """An accumulator of another type."""
    windows = stream(env).key_by(first).window(TumblingEventTimeWindows.of(FIVE))
    return windows.aggregate(MeanTime(), output_type=Types.DOUBLE())


@job(16 / 3)
def a_bridged_session_aggregates_all_of_it(env):
    """PyFlink loses what all but one of the merged sessions held."""
    elements = timed(env, ("a", 1), ("a", 10), ("a", 5), delay=20)
    windows = elements.key_by(first).window(EventTimeSessionWindows.with_gap(FIVE))
    return windows.aggregate(MeanTime())


@job(("a", 4), ("a", 9), ("b", 4), ("a", 14))
def results_of_windows_have_the_time_of_their_end(env):
    """An operator behind sees it."""
    sums = stream(env).key_by(first).window(TumblingEventTimeWindows.of(FIVE)).apply(Sum())
    return sums.key_by(first).process(Times())


@job(("a", 0, 10, [3, 7]), ("b", 0, 10, [3]), ("a", 10, 20, [12]))
def windows_of_windows(env):
    """Results of windows are in the windows of their span."""
    sums = stream(env).key_by(first).window(TumblingEventTimeWindows.of(FIVE)).apply(Sum())
    ten = TumblingEventTimeWindows.of(Time.milliseconds(10))
    return sums.key_by(first).window(ten).process(Spans())


@job(("late", 1), cuts=(1,), batch=None)
def late_elements_go_aside(env):
    """Those that all their windows have ended for."""
    elements = timed(env, ("late", 3), ("late", 12), ("late", 1))
    windows = elements.key_by(first).window(TumblingEventTimeWindows.of(FIVE))
    return windows.side_output_late_data(LATE).process(Spans()).get_side_output(LATE)


@job(("a", 0, 5, [3]), ("a", 0, 5, [1, 3]), ("a", 5, 10, [8]), cuts=(1,), batch=None)
def late_elements_that_are_allowed(env):
    """A window fires again for each."""
    elements = timed(env, ("a", 3), ("a", 8), ("a", 1))
    windows = elements.key_by(first).window(TumblingEventTimeWindows.of(FIVE))
    return windows.allowed_lateness(10).process(Spans())


@job(("a", 3), ("a", 6), batch=[("a", 2), ("a", 6)])
def a_count_trigger_keeps_contents(env):
    """It fires with all that is there."""
    elements = timed(env, ("a", 1), ("a", 2), ("a", 1), ("a", 2))
    windows = elements.key_by(first).window(TumblingEventTimeWindows.of(FIVE))
    return windows.trigger(CountTrigger.of(2)).apply(Sum())


@job(("a", 3), ("a", 7))
def a_purging_trigger_drops_contents(env):
    """What it has fired is gone."""
    elements = timed(env, ("a", 1), ("a", 2), ("a", 3), ("a", 4))
    windows = elements.key_by(first).window(GlobalWindows.create())
    return windows.trigger(PurgingTrigger.of(CountTrigger.of(2))).apply(Sum())


@job(("a", 6), ("a", 6), ("a", 6))
def a_continuous_trigger_fires_at_each_interval(env):
    """And at the end of the window."""
    elements = timed(env, ("a", 1), ("a", 2), ("a", 3), delay=10)
    windows = elements.key_by(first).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    return windows.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(4))).apply(Sum())


@job(("a", 3), ("a", 7), ("b", 30))
def count_windows(env):
    """Each so many elements of a key; the rest never fires."""
    elements = [("a", 1), ("b", 10), ("a", 2), ("a", 3), ("b", 20), ("a", 4), ("a", 5)]
    return env.from_collection(elements).key_by(first).count_window(2).apply(Sum())


@job(("a", 6), ("a", 14))
def sliding_count_windows(env):
    """Only whole windows fire."""
    elements = [("a", n) for n in (0, 1, 2, 3, 4, 5)]
    return env.from_collection(elements).key_by(first).count_window(4, 2).apply(Sum())


@job(("a", 3), ("a", 5))
def sliding_count_windows_by_their_assigner(env):
    """The same as `count_window`."""
    elements = [("a", n) for n in (1, 2, 3)]
    windows = (
        env.from_collection(elements).key_by(first).window(CountSlidingWindowAssigner.of(2, 1))
    )
    return windows.apply(Sum())


class Everything(AllWindowFunction):
    def apply(self, window, inputs):
        yield window.end, sum(each[1] for each in inputs)


class EverythingInContext(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, len(list(elements))


@job((5, 6), (10, 7), (15, 12))
def windows_over_all_elements(env):
    """Whatever their keys."""
    return stream(env).window_all(TumblingEventTimeWindows.of(FIVE)).apply(Everything())


@job((0, 3), (5, 1), (10, 1))
def windows_over_all_elements_with_a_context(env):
    """It has the window."""
    windows = stream(env).window_all(TumblingEventTimeWindows.of(FIVE))
    return windows.process(EverythingInContext())


@job(("a", 3), ("a", 7), ("a", 12))
def windows_over_all_elements_that_reduce(env):
    """As those of keys."""
    elements = timed(env, ("a", 1), ("a", 2), ("a", 7), ("a", 12))
    windows = elements.window_all(TumblingEventTimeWindows.of(FIVE))
    return windows.reduce(lambda x, y: (x[0], x[1] + y[1]))


class Numbered(ProcessWindowFunction):
    def process(self, key, context, elements):
        count = context.global_state().get_state(ValueStateDescriptor("windows", Types.INT()))
        count.update((count.value() or 0) + 1)
        yield key, count.value(), len(list(elements))

    def clear(self, context):
        pass


@job(("a", 1, 2), ("a", 2, 1), ("a", 3, 1), ("b", 1, 1))
def state_that_windows_share(env):
    """It belongs to the key."""
    return stream(env).key_by(first).window(TumblingEventTimeWindows.of(FIVE)).process(Numbered())


class Fired(ProcessWindowFunction):
    def process(self, key, context, elements):
        fired = context.window_state().get_state(ValueStateDescriptor("fired", Types.INT()))
        fired.update((fired.value() or 0) + 1)
        yield context.window().start, fired.value()

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("fired", Types.INT())).clear()


@job((0, 1), (0, 2), (5, 1))
def state_of_a_window(env):
    """Each window has its own."""
    elements = timed(env, ("a", 1), ("a", 2), ("a", 6))
    windows = elements.key_by(first).window(TumblingEventTimeWindows.of(FIVE))
    return windows.trigger(CountTrigger.of(1)).process(Fired())


class Sided(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield LATE, (key, context.window().start)
        yield "main"


@job(("a", 0), ("b", 0), ("a", 5), ("a", 10))
def side_outputs_of_windows(env):
    """A window's function has side outputs as any other."""
    windows = stream(env).key_by(first).window(TumblingEventTimeWindows.of(FIVE))
    return windows.process(Sided()).get_side_output(LATE)


@job((5, ("a", 3)), (10, ("a", 7)))
def typed_results_of_windows(env):
    """They are converted at the border."""
    kind = Types.TUPLE([Types.LONG(), Types.TUPLE([Types.STRING(), Types.INT()])])

    class Typed(WindowFunction):
        def apply(self, key, window, inputs):
            return [(window.end, (key, sum(each[1] for each in inputs)))]

    elements = timed(env, ("a", 1), ("a", 2), ("a", 7))
    return elements.key_by(first).window(TumblingEventTimeWindows.of(FIVE)).apply(Typed(), kind)
