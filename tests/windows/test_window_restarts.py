# SPDX-License-Identifier: Apache-2.0
"""What a restart may change of windows, what it may not, and that nothing is lost without a word."""

from __future__ import annotations

from typing import Any

import pytest
from window_support import Contents, Sum, contents, elements, harness, is_empty, processed

from pyflinklike import (
    AggregateFunction,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.aggregations import Max
from pyflinklike.aggregations import Sum as SumOf
from pyflinklike.errors import DeclarationValueError, IncompatibleStateError
from pyflinklike.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    count_window,
    window,
)

TEN = TumblingEventTimeWindows.of(10)
SESSIONS = EventTimeSessionWindows.with_gap(5)

of_each_backend = pytest.mark.parametrize(
    "backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend], ids=["heap", "rocksdb"]
)


def snapshot(operator: Any, *times: int, watermark: int | None = None) -> bytes:
    """The state of windows that got elements at these times."""
    with harness(operator) as driver:
        driver.process_elements(elements(*times))
        if watermark is not None:
            driver.process_watermark(watermark)
        return driver.snapshot()


@pytest.mark.parametrize(
    ("former", "now"),
    [
        (processed(TEN), processed(SESSIONS)),
        (processed(SESSIONS), processed(TEN)),
        (processed(TEN), processed(TumblingProcessingTimeWindows.of(10))),
        (processed(TEN), processed(GlobalWindows.create())),
        (processed(TEN), count_window(2).process(Contents())),
        (processed(TEN), window(TEN).aggregate(Sum())),
        (processed(TEN), processed(TEN, evictor=CountEvictor.of(3))),
        (processed(TEN), window(TEN, Types.STRING()).process(Contents())),
    ],
    ids=["merging", "not merging", "clock", "global", "count", "folded", "evicted", "typed"],
)
def test_windows_of_another_kind_are_refused(former, now):
    """They would never end, or could not be read: the error names what it was and what it is now."""
    stored = snapshot(former, 1, 2)
    with pytest.raises(IncompatibleStateError, match=r"keeps the .* it was written with"):
        harness(now, restore=stored)


@pytest.mark.parametrize(
    "now",
    [
        processed(SlidingEventTimeWindows.of(4, 2)),
        processed(TumblingEventTimeWindows.of(3)),
        processed(TEN, trigger=EventTimeTrigger.create()),
    ],
)
def test_windows_that_are_open_stay_what_they_are(now):
    """Another size is that of the windows of the elements to come."""
    with harness(now, restore=snapshot(processed(TEN), 1, 2)) as driver:
        assert ((0, 10), [1, 2]) in contents(driver.end_of_input())
        assert is_empty(driver)


def test_another_gap_is_that_of_the_elements_to_come():
    """They meet the sessions there are."""
    stored = snapshot(processed(SESSIONS), 1)
    with harness(processed(EventTimeSessionWindows.with_gap(2)), restore=stored) as driver:
        driver.process_elements(elements(6, 9))
        assert [((1, 8), [1, 6]), ((9, 11), [9])] == contents(driver.end_of_input())


@pytest.mark.parametrize("assigner", [TEN, SESSIONS])
@pytest.mark.parametrize(("former", "now"), [(0, 5), (5, 0), (5, 9), (9, 5)])
@pytest.mark.parametrize("watermark", [3, 9, 12])
def test_the_lateness_may_change(assigner, former, now, watermark):
    """Windows that are open end by the new one or the former one, and nothing stays of them."""
    stored = snapshot(processed(assigner, allowed_lateness=former), 1, 5, watermark=watermark)
    with harness(processed(assigner, allowed_lateness=now), restore=stored) as driver:
        before = watermark >= 9
        assert (0 if before else 1) == len(driver.process_watermark(max(watermark, 9)))
        driver.end_of_input()
        assert is_empty(driver)


def test_another_trigger_is_asked_of_open_windows_too():
    """What the former one remembered stays in the state, for it may come back."""
    stored = snapshot(processed(TEN, trigger=CountTrigger.of(5)), 1, 2)
    with harness(processed(TEN), restore=stored) as driver:
        driver.process_elements(elements(3))
        assert [((0, 10), [1, 2, 3])] == contents(driver.end_of_input())


@pytest.mark.parametrize("lateness", [0, 7])
@pytest.mark.parametrize(
    "trigger", [None, EventTimeTrigger.create(), CountTrigger.of(50), ContinuousEventTimeTrigger(3)]
)
def test_a_session_that_has_grown_ends_under_another_trigger(trigger, lateness):
    """Its timer is that of its first element until it fires, whoever is asked then."""
    now = processed(SESSIONS, trigger=trigger, allowed_lateness=lateness)
    with harness(now, restore=snapshot(processed(SESSIONS), 1, 3, 6)) as driver:
        fired = contents(driver.process_watermark(10))
        if not isinstance(trigger, CountTrigger):
            assert ((1, 11), [1, 3, 6]) in fired
        driver.end_of_input()
        assert is_empty(driver)


def test_an_element_that_makes_a_session_longer_registers_no_timer():
    """So it costs nothing in the log; the timer there is sees to the next one when it fires."""
    with harness(processed(SESSIONS)) as driver:
        for time in (1, 4, 8):
            driver.process_elements(elements(time))
            assert 1 == driver.num_event_time_timers()
        assert [] == contents(driver.process_watermark(5))
        assert 1 == driver.num_event_time_timers()
        assert [] == contents(driver.process_watermark(11))
        assert [((1, 13), [1, 4, 8])] == contents(driver.process_watermark(12))
        assert is_empty(driver)


def test_nothing_is_pickled_where_that_is_refused():
    """The error says what is pickled, for no user has named that state; types are the remedy."""
    with pytest.raises(
        DeclarationValueError,
        match=r"the contents of a window \(state 'window-contents'\): nothing is unp",
    ):
        harness(processed(TEN), allow_pickle=False)
    typed = window(TEN, Types.TUPLE([Types.STRING(), Types.LONG()])).process(Contents())
    with harness(typed, allow_pickle=False) as driver:
        driver.process_elements(elements(1))
        assert 1 == len(driver.end_of_input())


def test_the_type_of_elements_may_grow():
    """What waits in a window is read in the new type."""

    def of(number: Any) -> Any:
        return window(TEN, Types.TUPLE([Types.STRING(), number])).process(Contents())

    with harness(of(Types.LONG()), restore=snapshot(of(Types.INT()), 1, 2)) as driver:
        driver.process_element(("k", 2**40), 3)
        assert [((0, 10), [1, 2, 2**40])] == contents(driver.process_watermark(20))


# What an element meets that only a greater lateness has kept


@of_each_backend
@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.parametrize("trigger", [None, PurgingTrigger(EventTimeTrigger())])
@pytest.mark.parametrize("late", [4, 2], ids=["makes it longer", "within"])
def test_an_element_is_late_for_a_session_that_only_the_former_lateness_keeps(
    backend, lateness, trigger, late
):
    """It is counted, and the session is freed when the former lateness is over."""
    stored = snapshot(processed(SESSIONS, trigger=trigger, allowed_lateness=30), 1, 3, watermark=15)
    now = processed(SESSIONS, trigger=trigger, allowed_lateness=lateness)
    with harness(now, restore=stored, state_backend=backend()) as driver:
        driver.process_watermark(15)
        assert [] == driver.process_elements(elements(late))
        assert 1 == driver.metrics()["numLateRecordsDropped"]
        assert [] == driver.end_of_input()
        assert is_empty(driver)


@of_each_backend
@pytest.mark.parametrize("lateness", [0, 5])
def test_an_element_in_time_takes_such_a_session_along(backend, lateness):
    """What it becomes is not over, and fires at its own end, also with the default trigger."""
    stored = snapshot(processed(SESSIONS, allowed_lateness=30), 1, 5, 9, watermark=15)
    now = processed(SESSIONS, allowed_lateness=lateness)
    with harness(now, restore=stored, state_backend=backend()) as driver:
        driver.process_watermark(15)
        assert [] == driver.process_elements(elements(12))
        assert [((1, 17), [1, 5, 9, 12])] == contents(driver.process_watermark(16))
        driver.end_of_input()
        assert is_empty(driver)


@of_each_backend
def test_a_session_that_was_purged_leaves_its_set(backend):
    """Though it is not empty-handed: a trigger has purged it, and the lateness is gone."""
    purging = PurgingTrigger(EventTimeTrigger())
    stored = snapshot(processed(SESSIONS, trigger=purging, allowed_lateness=30), 1, watermark=15)
    with harness(
        processed(SESSIONS, trigger=purging), restore=stored, state_backend=backend()
    ) as driver:
        driver.end_of_input()
        assert 0 == driver.num_keyed_state_entries("merging-window-set")


# What is fixed

COUNTED = {
    "tumbling 5": lambda: count_window(5),
    "tumbling 3": lambda: count_window(3),
    "sliding 6, 2": lambda: count_window(6, 2),
    "sliding 4, 2": lambda: count_window(4, 2),
    "sliding 4, 1": lambda: count_window(4, 1),
    "sliding 5, 2": lambda: count_window(5, 2),
    "global": lambda: window(GlobalWindows.create()).trigger(CountTrigger.of(5)),
}


@of_each_backend
@pytest.mark.parametrize("now", COUNTED)
@pytest.mark.parametrize("before", COUNTED)
def test_count_windows_and_the_global_window_are_what_they_were(backend, before, now):
    """The number of an element says in which windows it is: under another size it lies in no place."""
    stored = snapshot(COUNTED[before]().process(Contents()), 1, 2, 3, 4)
    operator = COUNTED[now]().process(Contents())
    if before == now:
        with harness(operator, restore=stored, state_backend=backend()) as driver:
            driver.process_elements(elements(5))
            assert driver.num_keyed_state_entries("window-contents") > 0 or driver.output
        return
    with pytest.raises(IncompatibleStateError, match=r"keeps the windows, .*keep the former"):
        harness(operator, restore=stored, state_backend=backend())


@of_each_backend
def test_count_windows_that_have_nothing_in_them_keep_their_size_too(backend):
    """The number of the next element is that of the former ones: 5 would lie alone in 3 to 5."""
    stored = snapshot(count_window(5).process(Contents()), 0, 1, 2, 3, 4)
    with pytest.raises(IncompatibleStateError, match=r"keeps the windows, 'count windows of 5'"):
        harness(count_window(3).process(Contents()), restore=stored, state_backend=backend())


@of_each_backend
@pytest.mark.parametrize("assigner", [TEN, SESSIONS], ids=["tumbling", "sessions"])
def test_the_built_in_fold_of_a_window_may_not_change(backend, assigner):
    """As that of a keyed fold: a maximum would go on over a sum."""
    stored = snapshot(window(assigner).reduce(SumOf(1)), 1, 2)
    expected = r"keeps the fold of a window, 'sum\(1\)', got 'max\(1\)'"
    with pytest.raises(IncompatibleStateError, match=expected):
        harness(window(assigner).reduce(Max(1)), restore=stored, state_backend=backend())


@of_each_backend
@pytest.mark.parametrize("own_first", [False, True])
def test_a_function_of_the_users_own_and_a_built_in_fold_are_not_exchanged(backend, own_first):
    """As of a keyed fold: what one has made is nothing to the other."""
    pair = [window(TEN).reduce(SumOf(1)), window(TEN).reduce(lambda a, b: b)]
    former, now = pair[::-1] if own_first else pair
    with pytest.raises(IncompatibleStateError, match=r"the fold of a window, .*of your own"):
        harness(now, restore=snapshot(former, 1, 2), state_backend=backend())


@of_each_backend
def test_the_field_of_a_fold_is_the_one_of_its_name(backend):
    """A position at which another field is now would go on over a sum of the former."""

    def of(*names: str) -> Any:
        row = Types.ROW_NAMED(list(names), [Types.STRING(), Types.LONG(), Types.LONG()])
        return window(TEN, row).reduce(SumOf(1))

    with harness(of("k", "n", "m")) as driver:
        driver.process_element(("k", 1, 2), 1)
        stored = driver.snapshot()
    with pytest.raises(IncompatibleStateError, match=r"the field that is folded, 'n', got 'm'"):
        harness(of("k", "m", "n"), restore=stored, state_backend=backend())


@of_each_backend
def test_the_reduce_function_of_the_users_own_may_change(backend):
    """Nobody can tell one from another."""
    stored = snapshot(window(TEN).reduce(lambda a, b: a), 1, 2)
    now = window(TEN).reduce(lambda a, b: b)
    with harness(now, restore=stored, state_backend=backend()) as driver:
        driver.process_elements(elements(3))
        assert [("k", 3)] == driver.end_of_input()


class Totals(AggregateFunction):
    """Adds the numbers into an accumulator of a type, from a first one."""

    def __init__(self, first: Any) -> None:
        self.first = first

    def create_accumulator(self) -> Any:
        return self.first

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a


LONGS = window(TEN).aggregate(Totals(0), accumulator_type=Types.LONG())
TEXTS = window(TEN).aggregate(Totals(""), accumulator_type=Types.STRING())
ONES = window(TEN).aggregate(Totals((0,)), accumulator_type=Types.TUPLE([Types.LONG()]))
TWOS = window(TEN).aggregate(Totals((0, 0)), accumulator_type=Types.TUPLE([Types.LONG()] * 2))


@pytest.mark.parametrize(
    ("before", "now", "remedy"),
    [
        (LONGS, TEXTS, r"change a savepoint of it with Savepoint\.cast_state\(\)\n"),
        (ONES, TWOS, "begin a new checkpoint\n"),
        (LONGS, window(TEN).reduce(max), "begin a new checkpoint\n"),
        (LONGS, processed(TEN), "begin a new checkpoint\n"),
    ],
    ids=["cast", "fields", "reduce", "elements"],
)
def test_contents_that_cannot_be_read_are_named_with_what_to_do(before, now, remedy):
    """Nobody can give the state another name, and an edit of a savepoint needs the one it has."""
    told = r"the contents of a window \(state 'window-contents'\): restored state keeps the .*"
    with pytest.raises(IncompatibleStateError, match=f"{told}; declare it as before, or {remedy}"):
        harness(now, restore=snapshot(before, 1, 2))


BY_ELEMENTS = [CountTrigger.of(5), ContinuousProcessingTimeTrigger.of(50)]
BY_CLOCK = [ProcessingTimeTrigger(), PurgingTrigger(ContinuousProcessingTimeTrigger.of(50))]
BY_END = [None, PurgingTrigger(EventTimeTrigger()), ContinuousEventTimeTrigger.of(20)]


@of_each_backend
@pytest.mark.parametrize("now", BY_END, ids=repr)
@pytest.mark.parametrize("before", BY_ELEMENTS, ids=repr)
@pytest.mark.parametrize("assigner", [TEN, SESSIONS], ids=["tumbling", "sessions"])
def test_a_trigger_that_needs_the_end_may_not_follow_where_nobody_registered_it(
    backend, assigner, before, now
):
    """With a lateness the window would end without firing; without one it fires at its end."""
    stored = snapshot(processed(assigner, trigger=before, allowed_lateness=5), 1, 2)
    late = processed(assigner, trigger=now, allowed_lateness=5)
    with pytest.raises(IncompatibleStateError, match=r"keeps what fires a window, .*no\s+lateness"):
        harness(late, restore=stored, state_backend=backend())
    if before is BY_ELEMENTS[1] and now is BY_END[2]:
        return  # both are continuous, which has a rule of its own
    stored = snapshot(processed(assigner, trigger=before), 1, 2)
    with harness(
        processed(assigner, trigger=now), restore=stored, state_backend=backend()
    ) as driver:
        assert [[1, 2]] == [numbers for _, numbers in contents(driver.end_of_input())][:1]


@of_each_backend
@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.parametrize("now", BY_CLOCK, ids=repr)
@pytest.mark.parametrize("before", [*BY_END, CountTrigger.of(5)], ids=repr)
def test_a_trigger_that_waits_for_the_clock_may_not_follow_another_in_windows_of_event_time(
    backend, before, now, lateness
):
    """Nobody has registered its times, and the windows would end without firing."""
    stored = snapshot(processed(TEN, trigger=before, allowed_lateness=lateness), 1, 2)
    operator = processed(TEN, trigger=now, allowed_lateness=lateness)
    with pytest.raises(IncompatibleStateError, match=r"keeps what fires a window, .*of the clock"):
        harness(operator, restore=stored, state_backend=backend())


@of_each_backend
@pytest.mark.parametrize("before", [None, CountTrigger.of(5)], ids=repr)
def test_a_continuous_trigger_fires_windows_of_the_clock_at_their_end_whatever_was_before(
    backend, before
):
    """Also those in which no element came since, so that it has never been asked."""
    ten = TumblingProcessingTimeWindows.of(10)
    now = processed(ten, trigger=ContinuousProcessingTimeTrigger.of(3))
    stored = snapshot(processed(ten, trigger=before), 1, 2)
    with harness(now, restore=stored, state_backend=backend()) as driver:
        assert [((0, 10), [1, 2])] == contents(driver.set_processing_time(9))
        assert is_empty(driver)


@of_each_backend
@pytest.mark.parametrize("purged", [False, True])
@pytest.mark.parametrize("between", [False, True])
def test_a_continuous_trigger_keeps_its_clock(backend, purged, between):
    """The next time of one clock is none of the other: it would not fire until the end."""
    trigger: Any = ContinuousProcessingTimeTrigger.of(50)
    now: Any = ContinuousEventTimeTrigger.of(3)
    if purged:
        trigger, now = PurgingTrigger(trigger), PurgingTrigger(now)
    stored = snapshot(processed(TEN, trigger=trigger), 1, 2)
    if between:
        with harness(processed(TEN), restore=stored, state_backend=backend()) as driver:
            stored = driver.snapshot()
    with pytest.raises(IncompatibleStateError, match=r"fire-time.*the clock of a continuous"):
        harness(processed(TEN, trigger=now), restore=stored, state_backend=backend())


@of_each_backend
@pytest.mark.parametrize("before", BY_END, ids=repr)
def test_a_trigger_that_goes_by_elements_may_follow(backend, before):
    """Windows that are open are freed at their ends."""
    now = CountTrigger.of(5)
    stored = snapshot(processed(TEN, trigger=before, allowed_lateness=5), 1, 2)
    operator = processed(TEN, trigger=now, allowed_lateness=5)
    with harness(operator, restore=stored, state_backend=backend()) as driver:
        driver.process_elements(elements(3, 4, 5))
        driver.end_of_input()
        assert 0 == driver.num_keyed_state_entries("window-contents")


# Names that are taken


class Asks(ProcessWindowFunction):
    """Asks for a state of the key by a name that the windows use."""

    def __init__(self, descriptor: Any) -> None:
        self.descriptor = descriptor

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        context.global_state().get_list_state(self.descriptor)
        yield 1


class AsksForMap(Asks):
    """Likewise a map."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        context.global_state().get_map_state(self.descriptor)
        yield 1


class AsksForValue(Asks):
    """Likewise a value."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        context.global_state().get_state(self.descriptor)
        yield 1


SPAN = Types.TUPLE([Types.LONG(), Types.LONG()])


@pytest.mark.parametrize(
    ("windowed", "function"),
    [
        (window(TEN), Asks(ListStateDescriptor("window-contents", Types.PICKLED_BYTE_ARRAY()))),
        (window(SESSIONS), AsksForMap(MapStateDescriptor("merging-window-set", SPAN, SPAN))),
        (
            count_window(1),
            AsksForValue(ValueStateDescriptor("tumble-count-assigner", Types.LONG())),
        ),
        (
            count_window(2, 1),
            AsksForValue(ValueStateDescriptor("slide-count-assigner", Types.LONG())),
        ),
    ],
    ids=["contents", "sessions", "tumbling", "sliding"],
)
def test_the_names_of_the_windows_own_states_are_taken(windowed, function):
    """A user who asks for one would read and change what the windows are made of."""
    with (
        harness(windowed.process(function)) as driver,
        pytest.raises(DeclarationValueError, match=r"a state of the windows' own"),
    ):
        [*driver.process_elements(elements(1, 2)), *driver.end_of_input()]
