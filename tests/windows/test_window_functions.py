# SPDX-License-Identifier: Apache-2.0
"""What makes outputs of windows: functions, their context and state, and the time of outputs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from stream_support import BACKENDS
from window_support import Contents, Sum, contents, elements, harness, processed, streamed

from pyflinklike import (
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReduceFunction,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    DeclarationTypeError,
    OutputError,
    StateAccessError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.windows import (
    AllWindowFunction,
    CountEvictor,
    EventTimeSessionWindows,
    EventTimeTrigger,
    MergingWindowAssigner,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TumblingEventTimeWindows,
    WindowAssigner,
    WindowFunction,
    window,
    window_all,
)

TEN = TumblingEventTimeWindows.of(10)
SESSIONS = EventTimeSessionWindows.with_gap(5)
LATE = OutputTag("late", Types.TUPLE([Types.STRING(), Types.INT()]))
on_both_backends = pytest.mark.parametrize("backend", BACKENDS)


# Functions


class Applied(WindowFunction):
    """Key, window and number of elements."""

    def apply(self, key, window, inputs):
        return [(key, repr(window), len(list(inputs)))]


class AppliedToAll(AllWindowFunction):
    """Window and number of elements."""

    def apply(self, window, inputs):
        return [(repr(window), len(list(inputs)))]


class ProcessedAll(ProcessAllWindowFunction):
    """Counts its windows in global state."""

    COUNT = ValueStateDescriptor("windows", Types.LONG())

    def process(self, context, elements):
        count = context.global_state().get_state(self.COUNT)
        count.update((count.value() or 0) + 1)
        yield repr(context.window()), count.value(), len(list(elements))


def test_apply():
    """A `WindowFunction` gets key, window and elements."""
    assert [("k", "TimeWindow(start=0, end=10)", 2)] == streamed(
        window(TEN).apply(Applied()), [("k", 1), ("k", 2)]
    )


def test_functions_of_all_elements():
    """They get no key."""
    given = [("k", 1), ("k", 2), ("k", 12)]
    expected = ["TimeWindow(start=0, end=10)", "TimeWindow(start=10, end=20)"]
    assert [(expected[0], 2), (expected[1], 1)] == streamed(
        window_all(TEN).apply(AppliedToAll()), given
    )
    assert [(expected[0], 1, 2), (expected[1], 2, 1)] == streamed(
        window_all(TEN).process(ProcessedAll()), given
    )


class Stateful(ProcessWindowFunction):
    """Counts firings per window and per key, and tells the times."""

    FIRINGS = ValueStateDescriptor("firings", Types.LONG())
    KEEP_WINDOW_STATE = False

    def process(self, key, context, elements):
        counts = []
        for store in (context.window_state(), context.global_state()):
            count = store.get_state(self.FIRINGS)
            count.update((count.value() or 0) + 1)
            counts.append(count.value())
        yield context.window().start, *counts, context.current_watermark()

    def clear(self, context):
        if not self.KEEP_WINDOW_STATE:
            context.window_state().get_state(self.FIRINGS).clear()


@on_both_backends
def test_window_state_and_global_state(backend):
    """One is of key and window and cleared by the user, the other of the key for ever."""
    operator = processed(TEN, Stateful(), allowed_lateness=5)
    with harness(operator, state_backend=backend) as driver:
        driver.process_elements(elements(1, 11))
        driver.process_watermark(9)
        driver.process_elements(elements(2))
        driver.process_watermark(19)
        assert [(0, 1, 1, 9), (0, 2, 2, 9), (10, 1, 3, 19)] == driver.output
        driver.end_of_input()
        assert (0, 1) == (
            driver.num_keyed_state_entries("window:firings"),
            driver.num_keyed_state_entries("firings"),
        )


def test_every_kind_of_window_state():
    """Value, list, map, reducing and aggregating; of several windows at a time."""
    kept: dict[int, list[Any]] = {}

    class AllKinds(ProcessWindowFunction):
        def process(self, key, context, elements):
            store, n = context.window_state(), len(list(elements))
            value = store.get_state(ValueStateDescriptor("v", Types.LONG()))
            items = store.get_list_state(ListStateDescriptor("l", Types.LONG()))
            marks = store.get_map_state(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
            total = store.get_reducing_state(
                ReducingStateDescriptor("r", int.__add__, Types.LONG())
            )
            value.update(n)
            items.add(n)
            marks.put(n, n)
            total.add(n)
            kept[context.window().start] = [
                value.value(),
                list(items),
                dict(marks.items()),
                total.get(),
            ]
            return

        def clear(self, context):
            context.window_state().get_state(ValueStateDescriptor("v", Types.LONG())).clear()

    operator = processed(SlidingEventTimeWindows.of(10, 5), AllKinds(), allowed_lateness=50)
    with harness(operator) as driver:
        driver.process_elements(elements(6))
        driver.process_watermark(20)
        driver.process_elements(elements(7))
    assert {start: [2, [1, 2], {1: 1, 2: 2}, 3] for start in (0, 5)} == kept


def test_window_state_is_refused_where_windows_merge():
    """With PyFlink's words; global state is there."""

    class Asking(ProcessWindowFunction):
        def process(self, key, context, elements):
            context.global_state().get_state(Stateful.FIRINGS).update(1)
            context.window_state().get_state(Stateful.FIRINGS)

    with harness(processed(SESSIONS, Asking())) as driver:
        driver.process_elements(elements(1))
        with pytest.raises(StateAccessError, match="not allowed when using merging windows"):
            driver.end_of_input()


def test_clear_is_called_once_when_a_window_ends():
    """With the window; not at its firings."""
    function = Contents()
    with harness(processed(TEN, function, allowed_lateness=5)) as driver:
        driver.process_elements(elements(1, 11))
        driver.process_watermark(9)
        driver.process_elements(elements(2))
        assert [] == function.cleared
        driver.end_of_input()
        assert [(0, 10), (10, 20)] == function.cleared


def test_open_and_close_and_global_state_of_open():
    """State that a function obtains in `open` belongs to the key."""

    class Counting(WindowFunction):
        closed = False

        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("c", Types.LONG()))

        def apply(self, key, window, inputs):
            self.count.update((self.count.value() or 0) + 1)
            return [self.count.value()]

        def close(self):
            type(self).closed = True

    assert [1, 2] == streamed(window(TEN).apply(Counting()), [("k", 1), ("k", 11)])
    assert Counting.closed


def test_side_outputs_of_a_function():
    """A pair that begins with a tag; what `collect` makes of results leaves it alone."""
    tag = OutputTag("odd", Types.LONG())

    class Splitting(ProcessWindowFunction):
        def process(self, key, context, elements):
            for _, n in elements:
                yield (tag, n) if n % 2 else n

    operator = processed(TEN, Splitting()).collecting(lambda key, window, n: (key, window.end, n))
    with harness(operator) as driver:
        driver.process_elements(elements(1, 2, 3))
        assert ([("k", 10, 2)], [1, 3]) == (driver.end_of_input(), driver.side_output(tag))


def test_a_function_that_reads_its_window_later_gets_it():
    """Results are taken while their window is the current one, also those of a generator."""

    class Slow(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield context.window().start
            yield context.window().start

    operator = processed(SlidingEventTimeWindows.of(10, 5), Slow(), allowed_lateness=50)
    with harness(operator) as driver:
        driver.process_watermark(20)
        assert [5, 5, 0, 0] == driver.process_elements(elements(7))


def test_a_row_that_is_changed_and_given_again_was_as_it_was():
    """As in PyFlink, which writes it at once."""
    tag = OutputTag("late")

    class Filling(WindowFunction):
        def apply(self, key, window, inputs):
            row = {"n": 0, "seen": []}
            for each in inputs:
                row["seen"].append(each[1])
                yield row
                yield tag, row

    with harness(window(TEN).apply(Filling())) as driver:
        driver.process_elements(elements(3, 7))
        expected = [{"n": 0, "seen": [3]}, {"n": 0, "seen": [3, 7]}]
        assert (expected, expected) == (driver.end_of_input(), driver.side_output(tag))


@pytest.mark.parametrize("given", ["text", {"a": 1}, 5])
def test_a_single_output_has_to_be_yielded(given):
    """As of every function."""

    class Returning(WindowFunction):
        def apply(self, key, window, inputs):
            return given

    with harness(window(TEN).apply(Returning())) as driver:
        driver.process_elements(elements(1))
        with pytest.raises(OutputError, match="yield"):
            driver.end_of_input()


def test_a_function_that_raises_is_named():
    """With key, window's timer and line; what came before in this call is not given out later."""

    class Failing(WindowFunction):
        def apply(self, key, window, inputs):
            yield "before"
            raise ValueError("no")

    with harness(window(TEN).apply(Failing())) as driver:
        driver.process_elements(elements(1))
        with pytest.raises(UserFunctionError) as raised:
            driver.process_watermark(9)
        assert [] == driver.process_elements(elements(11))

    assert re.search(
        r"\bFailing\.apply failed for key 'k', window TimeWindow\(start=0, end=10\), "
        r"uid 'WindowOperator', at time 9: ValueError: no \(.*, in apply\)",
        str(raised.value),
    )


def test_a_fold_that_raises_is_named():
    """By its class, with the element and its window, and without the name of our state."""

    class Failing(ReduceFunction):
        def reduce(self, value1, value2):
            raise ValueError("no")

    with harness(window(TEN).reduce(Failing(), Applied())) as driver:
        driver.process_elements(elements(11))
        with pytest.raises(UserFunctionError) as raised:
            driver.process_elements(elements(12))

    assert re.search(
        r"\bFailing\.reduce failed for key 'k', element \('k', 12\), window "
        r"TimeWindow\(start=10, end=20\), uid 'WindowOperator', at time 12: ValueError: no \(",
        str(raised.value),
    )


@pytest.mark.parametrize("assigner", [TEN, SESSIONS], ids=["tumbling", "sessions"])
def test_a_trigger_that_raises_is_named(assigner):
    """By its class, with the window that it was asked about."""

    class Failing(EventTimeTrigger):
        def on_element(self, element, timestamp, window, ctx):
            raise ValueError("no")

    named = r"\bFailing\.on_element failed for .*, window TimeWindow"
    with (
        harness(window(assigner).trigger(Failing()).process(Contents())) as driver,
        pytest.raises(UserFunctionError, match=named),
    ):
        driver.process_elements(elements(1))


@pytest.mark.parametrize(
    ("method", "assigner"),
    [("reduce", TEN), ("reduce", SESSIONS), ("add", TEN), ("merge", SESSIONS)],
)
def test_a_fold_that_forgets_its_return_is_refused(method, assigner):
    """As a keyed one: None would empty the window, and the last record would be its result."""

    class Forgetful(Sum):
        pass

    setattr(Forgetful, method, lambda *_: None)
    windowed = window(assigner)
    folding = (
        windowed.reduce(lambda one, other: None)
        if method == "reduce"
        else windowed.aggregate(Forgetful())
    )
    with (
        harness(folding) as driver,
        pytest.raises(StateValueError, match=f"{method} must return .* got None from .*return"),
    ):
        driver.process_elements(elements(1, 8, 4))


def test_an_evicted_fold_that_forgets_its_return_is_refused():
    """It is folded when the window fires."""
    folding = window(TEN).evictor(CountEvictor.of(5)).reduce(lambda one, other: None)
    with harness(folding) as driver:
        driver.process_elements(elements(1, 2))
        with pytest.raises(StateValueError, match=r"reduce must return .* got None from .*return"):
            driver.end_of_input()


def test_what_returns_one_output_is_told_its_method():
    """And not of those of functions that it is not."""

    class Returning(ProcessWindowFunction):
        def process(self, key, context, elements):
            return 5

    with harness(window(TEN).process(Returning())) as driver:
        driver.process_elements(elements(1))
        with pytest.raises(
            OutputError, match=r"^calls of .*\bReturning\.process give an iterable .* got 5; yield"
        ):
            driver.end_of_input()


def test_the_accumulator_of_another_aggregate_is_told():
    """Pickled, it is restored by any; what fails says what was kept, and the remedy."""

    class Pairs(Sum):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return accumulator[0] + value[1], accumulator[1] + 1

    with harness(window(TEN).aggregate(Sum())) as driver:
        driver.process_elements(elements(1))
        kept = driver.snapshot()
    with (
        harness(window(TEN).aggregate(Pairs()), restore=kept) as driver,
        pytest.raises(
            UserFunctionError,
            match=r"Pairs\.add failed .*accumulator is 1, but create_accumulator returns \(0, 0\).*type",
        ),
    ):
        driver.process_elements(elements(2))


def test_functions_are_checked():
    """With PyFlink's words."""
    for given in (Sum(), Applied, lambda key, window, inputs: []):
        with pytest.raises(
            DeclarationTypeError, match="should be a WindowFunction or ProcessWindowFunction"
        ):
            window(TEN).reduce(max, given)
    with pytest.raises(DeclarationTypeError, match="WindowFunction"):
        window(TEN).apply(Contents())
    with pytest.raises(DeclarationTypeError, match="ProcessWindowFunction"):
        window(TEN).process(Applied())
    with pytest.raises(DeclarationTypeError, match="AllWindowFunction"):
        window_all(TEN).apply(Applied())
    with pytest.raises(DeclarationTypeError, match="AggregateFunction"):
        window(TEN).aggregate(max)
    with pytest.raises(DeclarationTypeError, match="accumulator_type"):
        window(TEN).aggregate(Sum(), accumulator_type="long")
    with pytest.raises(DeclarationTypeError, match="ReduceFunction"):
        window(TEN).reduce(5)


@pytest.mark.parametrize("method", ["open", "close"])
def test_functions_that_fold_cannot_be_opened(method):
    """As Flink has it, which takes no rich ones: contents of windows are folded apart from any element."""
    rich = {method: lambda self, *_: None}
    reduces = type("Reduces", (ReduceFunction,), {"reduce": lambda self, a, b: a, **rich})
    sums = type("Sums", (Sum,), rich)

    with pytest.raises(DeclarationTypeError, match=f"a ReduceFunction of .* with {method}; do"):
        window(TEN).reduce(reduces())
    with pytest.raises(DeclarationTypeError, match=f"an AggregateFunction of .* with {method}; do"):
        window(TEN).aggregate(sums())


def test_a_list_of_types_is_a_row():
    """As the type of an accumulator."""

    class Both(Sum):
        def create_accumulator(self):
            return [0, 0]

        def add(self, value, accumulator):
            return [accumulator[0] + value[1], accumulator[1] + 1]

        def get_result(self, accumulator):
            return tuple(accumulator)

    operator = window(TEN).aggregate(Both(), accumulator_type=[Types.LONG(), Types.LONG()])
    assert [(3, 2)] == streamed(operator, [("k", 1), ("k", 2)])


# Time of outputs


def test_an_output_belongs_to_the_last_time_of_its_window():
    """So windows of windows of the same size hold what they are of."""
    inner = (
        window(TEN)
        .aggregate(Sum())
        .collecting(lambda key, window, total: (window.max_timestamp(), (key, total)))
    )
    between = streamed(inner, [("k", 1), ("k", 2), ("k", 11)])
    assert [(9, ("k", 3)), (19, ("k", 11))] == between
    with harness(processed(TEN)) as driver:
        driver.process_elements((value, time) for time, value in between)
        assert [((0, 10), [3]), ((10, 20), [11])] == contents(driver.end_of_input())


def test_pyflink_scripts_subscript_their_classes():
    """As PyFlink's own tests write them, also where annotations are evaluated."""
    assert all(
        (
            WindowFunction[tuple, tuple, str, TimeWindow],
            AllWindowFunction[tuple, tuple, TimeWindow],
            ProcessWindowFunction[tuple, tuple, str, TimeWindow],
            ProcessWindowFunction.Context[TimeWindow],
            ProcessAllWindowFunction[tuple, tuple, TimeWindow],
            ProcessAllWindowFunction.Context[TimeWindow],
            Trigger[tuple, TimeWindow],
            WindowAssigner[tuple, TimeWindow],
            MergingWindowAssigner[tuple, TimeWindow],
            MergingWindowAssigner.MergeCallback[TimeWindow],
        )
    )
