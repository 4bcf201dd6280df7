# SPDX-License-Identifier: Apache-2.0
"""Which objects a stream takes: those that PyFlink takes, which asks for a class in some places only.

`classless_jobs` has what comes of those that are taken without their class, on each host.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from jobs.classless_jobs import Asked, Assigner, Doubled, Gap, Halves, Known, Largest, Second, Sum
from local_support import local

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.pyflink.common import Time, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import (
    AsyncDataStream,
    AsyncRetryStrategy,
    CoMapFunction,
    KeyedProcessFunction,
    MapFunction,
    Trigger,
)
from pyflinklike.pyflink.datastream.functions import Function
from pyflinklike.pyflink.datastream.state import (
    AggregatingStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
)
from pyflinklike.pyflink.datastream.window import (
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
)

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


def stream():
    """Numbers."""
    return local().from_collection([1, 2])


def keyed():
    """Numbers with keys."""
    return stream().key_by(lambda value: value)


def windowed():
    """Numbers in windows."""
    return keyed().window(GlobalWindows.create())


def ruled():
    """Numbers and rules."""
    return stream().connect(stream().broadcast(RULES))


def waiting(function):
    """Numbers that wait."""
    return AsyncDataStream.ordered_wait(stream(), function, Time.seconds(1))


class Retries:
    """A strategy for another attempt."""

    def can_retry(self, current_attempts):
        return False

    def get_backoff_time_millis(self, current_attempts):
        return 1

    def get_retry_predicate(self):
        return AsyncRetryStrategy.no_restart().get_retry_predicate()


def retrying(strategy):
    """Numbers that wait, and are tried again."""
    return AsyncDataStream.ordered_wait_with_retry(stream(), Asked(), Time.seconds(1), strategy)


class Methods:
    """The methods of each function that has to be of its class."""

    def one(self, value, *_):
        return [value]

    map = flat_map = filter = get_key = reduce = partition = one
    process_element = process_element1 = process_element2 = on_timer = one
    map1 = map2 = flat_map1 = flat_map2 = one
    create_accumulator = add = get_result = merge = one
    apply = process = clear = one

    def open(self, runtime_context):
        pass

    def close(self):
        pass


UNASKED = {
    "with_timestamp_assigner": (
        WatermarkStrategy.no_watermarks().with_timestamp_assigner,
        Assigner(),
    ),
    "process": (lambda given: stream().process(given), Doubled()),
    "broadcast process": (lambda given: ruled().process(given), Known()),
    "window": (lambda given: keyed().window(given), Halves()),
    "window_all": (lambda given: stream().window_all(given), Halves()),
    "trigger": (lambda given: windowed().trigger(given), Second()),
    "PurgingTrigger": (PurgingTrigger.of, Second()),
    "apply": (lambda given: windowed().apply(given), Sum()),
    "window process": (lambda given: windowed().process(given), Largest()),
    "with_dynamic_gap": (EventTimeSessionWindows.with_dynamic_gap, Gap()),
    "ordered_wait": (waiting, Asked()),
    "ordered_wait_with_retry": (retrying, Retries()),
}
"""Where PyFlink calls methods, whatever the class."""

ASKED = {
    "map": lambda given: stream().map(given),
    "flat_map": lambda given: stream().flat_map(given),
    "filter": lambda given: stream().filter(given),
    "key_by": lambda given: stream().key_by(given),
    "partitioner": lambda given: stream().partition_custom(given, lambda value: value),
    "selector of a partition": lambda given: stream().partition_custom(lambda *_: 0, given),
    "keyed map": lambda given: keyed().map(given),
    "keyed flat_map": lambda given: keyed().flat_map(given),
    "keyed filter": lambda given: keyed().filter(given),
    "keyed process": lambda given: keyed().process(given),
    "reduce": lambda given: keyed().reduce(given),
    "window reduce": lambda given: windowed().reduce(given),
    "aggregate": lambda given: windowed().aggregate(given),
    "reduce with a function": lambda given: windowed().reduce(max, given),
    "co-map": lambda given: stream().connect(stream()).map(given),
    "co-flat_map": lambda given: stream().connect(stream()).flat_map(given),
    "co-process": lambda given: stream().connect(stream()).process(given),
    "ReducingStateDescriptor": lambda given: ReducingStateDescriptor("s", given, Types.INT()),
    "AggregatingStateDescriptor": lambda given: AggregatingStateDescriptor("s", given, Types.INT()),
    "broadcast": lambda given: stream().broadcast(given),
}
"""Where PyFlink asks for the class, or for a callable."""


@pytest.mark.parametrize("place", UNASKED)
def test_an_object_with_the_methods_is_taken_where_pyflink_asks_for_no_class(place):
    """Whatever else it is."""
    take, given = UNASKED[place]

    assert take(given) is not None


@pytest.mark.parametrize("place", UNASKED)
def test_an_object_without_the_methods_is_refused_when_it_is_declared(place):
    """PyFlink's fails when it is called first."""
    with pytest.raises(DeclarationTypeError, match=r", got SimpleNamespace|got namespace\("):
        UNASKED[place][0](SimpleNamespace())


@pytest.mark.parametrize("place", UNASKED)
def test_a_class_is_refused_with_the_way_to_an_instance(place):
    """It has the methods, and is no object that has them."""
    take, given = UNASKED[place]

    with pytest.raises(DeclarationTypeError, match=r", got <class "):
        take(type(given))


@pytest.mark.parametrize("place", ASKED)
def test_an_object_with_the_methods_is_refused_where_pyflink_asks_for_a_class(place):
    """With PyFlink's words, which name the class."""
    with pytest.raises(
        DeclarationTypeError, match=r"[Gg]ot <test_objects_without_classes\.Methods"
    ):
        ASKED[place](Methods())


class Unclear(Second):
    clear = None


def test_what_an_object_lacks_is_named():
    """PyFlink's job fails when the window ends."""
    rule = (
        "a Trigger has clear, on_element, on_event_time, on_processing_time, got .* without clear;"
    )
    with pytest.raises(DeclarationTypeError, match=rule):
        windowed().trigger(Unclear())


class Slotted:
    __slots__ = ("on_element",)
    on_processing_time = on_event_time = clear = staticmethod(print)

    def __init__(self):
        self.on_element = print


def test_an_object_of_any_kind_is_taken():
    """Its methods may be in its slots or its dict."""
    space = SimpleNamespace(extract_timestamp=lambda *_: 1)

    assert 1 == WatermarkStrategy().with_timestamp_assigner(space).assigner.extract_timestamp(0, 0)
    assert isinstance(PurgingTrigger.of(Slotted()).nested_trigger, Trigger)


class Whole(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Half(Function):
    def process_element(self, value, ctx):
        yield value


def test_a_function_of_another_kind_is_refused():
    """One of no kind is taken; PyFlink takes both, and the first fails where it asks for a key."""
    with pytest.raises(DeclarationTypeError, match="ProcessFunction is required for DataStream"):
        stream().process(Whole())
    assert [1, 2] == list(stream().process(Half()).execute_and_collect())


class Called(CoMapFunction):
    def __call__(self, value):
        return -value

    map1 = map2 = __call__


def test_a_callable_is_taken_whatever_else_it_is():
    """As in PyFlink, where it is not opened."""
    assert [-1, -2] == list(stream().map(Called()).execute_and_collect())


class Doubling(MapFunction):
    def map(self, value):
        return 2 * value


def test_a_class_of_functions_is_no_callable():
    """PyFlink calls it with each element."""
    with pytest.raises(DeclarationTypeError, match=r"give an instance of it, Doubling\(\.\.\.\)"):
        stream().map(Doubling)


def test_a_wait_with_retry_needs_a_strategy():
    """And that predicates."""
    strategy = Retries()
    strategy.get_retry_predicate = lambda: None

    with pytest.raises(DeclarationTypeError, match="takes an AsyncRetryStrategy, got None"):
        retrying(None)
    with pytest.raises(
        DeclarationTypeError, match="'Retries' is None, got None; return an AsyncRetryPredicate"
    ):
        retrying(strategy)


def test_a_function_that_folds_a_window_cannot_be_opened():
    """PyFlink takes it, and never calls `open`."""
    assigner = TumblingEventTimeWindows.of(Time.seconds(1))

    class Opened(Methods, Function):
        def __call__(self, one, other):
            return one

    with pytest.raises(DeclarationTypeError, match="cannot have open or close"):
        keyed().window(assigner).reduce(Opened())
