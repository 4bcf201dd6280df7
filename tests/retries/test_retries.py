# SPDX-License-Identifier: Apache-2.0
"""`simulate`: which functions it passes, which it reports, and what it says of them."""

from __future__ import annotations

import datetime
import os
import random
import time
import uuid
from collections.abc import Callable
from datetime import date as Day
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    Row,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchFunction
from pyflinklike.errors import DeclarationError, UserFunctionError
from pyflinklike.retries import simulate, user_code
from pyflinklike.testing import HarnessChain, KeyedProcessHarness
from pyflinklike.windows import ProcessWindowFunction, TumblingEventTimeWindows, window

START = datetime.datetime(2026, 1, 1)
CLICKS = [
    {"user": f"u{at % 7}", "page": f"p{at}", "at": START + datetime.timedelta(seconds=at)}
    for at in range(14)
]


class Visits(KeyedProcessFunction):
    """Counts the visits of a user."""

    def open(self, runtime_context: Any) -> None:
        self.visits = runtime_context.get_state(ValueStateDescriptor("visits", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        visits = (self.visits.value() or 0) + 1
        self.visits.update(visits)
        yield value.user, visits, self.more(value, ctx)

    def more(self, value: Any, ctx: Any) -> str:
        """What a test adds to a row."""
        return ""


def check(function: Any, records: Any = CLICKS, *others: Any, **options: Any) -> None:
    """Simulate it over clicks, in few runs and in this process."""
    options = {"key_columns": "user", "runs": 3, "other_process": False, **options}
    simulate(function, records, *others, batches=4, **options)


def caught(function: Any, *records: Any, **options: Any) -> str:
    """What `simulate` says of a function that is wrong."""
    with pytest.raises(AssertionError) as caught:
        check(function, *records, **options)
    return str(caught.value)


class Remembers(Visits):
    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.calls = 0

    def more(self, value: Any, ctx: Any) -> str:
        self.calls += 1
        return f"{self.calls}"


SEEN: list[str] = []


class FillsAGlobal(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        SEEN.append(value.user)
        return f"{len(SEEN)}"


class CountsInItsClass(Visits):
    count = 0

    def more(self, value: Any, ctx: Any) -> str:
        type(self).count += 1
        return f"{self.count}"


class KeepsADefault(Visits):
    def more(self, value: Any, ctx: Any, seen: Any = []) -> str:  # noqa: B006 - the usual mistake
        seen.append(value.user)
        return f"{len(seen)}"


class DrawsNumbers(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return f"{random.random()}"


class DrawsOfNumPy(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return f"{np.random.rand()}"


class DrawsIds(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return f"{uuid.uuid4()}"


class ReadsTheSeconds(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return f"{time.time()}"


class ReadsTheHour(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return f"{datetime.datetime.now():%Y-%m-%d %H}"


class ReadsTheDay(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return f"{Day.today()}"


class ReadsTheYear(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return time.strftime("%Y-%j")


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (Remembers, "`self.calls` of Remembers changes"),
        (FillsAGlobal, "`SEEN`, a global name, changes"),
        (CountsInItsClass, "`CountsInItsClass.count`, an attribute of the class, changes"),
        (KeepsADefault, "default 1 of the arguments of more changes"),
        (DrawsNumbers, "it draws random numbers"),
        (DrawsOfNumPy, "it draws random numbers"),
        (DrawsIds, "it draws random numbers"),
        (ReadsTheSeconds, "it reads the wall clock"),
        (ReadsTheHour, "it reads the wall clock"),
        (ReadsTheDay, "it reads the wall clock"),
        (ReadsTheYear, "it reads the wall clock"),
    ],
)
def test_a_function_that_depends_on_more_than_state_is_caught(
    function: type[Visits], cause: str
) -> None:
    """The message names the likely cause."""
    assert f"Likely cause: {cause}" in caught(function())


class CountsInWhatItPickles(Visits):
    """Wrong: an attempt that is repeated finds the ids of the failed one."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value.page not in self.seen:
            self.seen.add(value.page)
            yield from super().process_element(value, ctx)


def test_what_a_failed_attempt_leaves_in_the_instance_is_caught() -> None:
    """Each page comes once, so only an attempt that is repeated meets it again."""
    told = caught(CountsInWhatItPickles())
    assert "where nothing fails it is ('u" in told
    assert "`self.seen` of CountsInWhatItPickles changes" in told
    assert "fails after" in told


class ShowsExpired(Visits):
    def open(self, runtime_context: Any) -> None:
        builder = StateTtlConfig.new_builder(Time.seconds(3))
        descriptor = ValueStateDescriptor("visits", Types.LONG())
        descriptor.enable_time_to_live(builder.return_expired_if_not_cleaned_up().build())
        self.visits = runtime_context.get_state(descriptor)


def test_a_state_that_shows_expired_values_is_caught() -> None:
    """A snapshot leaves out what has expired, so a new instance does not show it."""
    assert "expired values until they are cleaned up" in caught(ShowsExpired(), runs=20)


def test_a_function_that_keeps_all_in_state_passes() -> None:
    """Nothing is raised, whatever fails."""
    check(Visits(), runs=6, event_time="at")


def test_a_value_kept_by_a_closure_is_caught() -> None:
    """Also where the function is made within another one."""

    def make() -> Visits:
        calls = 0

        class Closes(Visits):
            def more(self, value: Any, ctx: Any) -> str:
                nonlocal calls
                calls += 1
                return f"{calls}"

        return Closes()

    assert "`calls`, a variable around more, changes" in caught(make())


class RemembersWhatItMade(Visits):
    """Its memory and its clock change nothing that comes out."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}
        self.last = 0.0

    def more(self, value: Any, ctx: Any) -> str:
        self.last = time.time()
        return self.made.setdefault(value.page, value.page.upper())


def test_what_changes_nothing_that_comes_out_passes() -> None:
    """A cache in self is no mistake, and neither is a clock that is read for a log."""
    check(RemembersWhatItMade())


class StoresAnId(Visits):
    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.id = runtime_context.get_state(ValueStateDescriptor("id", Types.STRING()))

    def more(self, value: Any, ctx: Any) -> str:
        self.id.update(f"{uuid.uuid4()}")
        return ""


def test_a_difference_in_state_alone_is_caught() -> None:
    """Sooner or later it comes out."""
    told = caught(StoresAnId())
    assert "First difference: state 'id': got" in told
    assert "Likely cause: it draws random numbers" in told


class JoinsASet(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return ",".join({value.user, value.page, "home", "cart", "help", "shop"})


def test_the_order_of_a_set_is_caught_by_another_process() -> None:
    """Within one process it is always the same."""
    told = caught(JoinsASet(), other_process=True)
    assert "Likely cause: the order of a set" in told
    check(JoinsASet())


class SortsASet(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return ",".join(sorted({value.user, value.page, "home", "cart", "help", "shop"}))


def test_a_sorted_set_passes() -> None:
    """The other process gives the same."""
    check(SortsASet(), other_process=True)


class SumsUpBatches(KeyedBatchFunction):
    """Wrong for a running count: a row says how many records its batch has."""

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        return {"user": batch["user"], "size": np.full(len(batch["user"]), len(batch["user"]))}


def test_a_function_that_depends_on_the_cuts_is_caught() -> None:
    """The watermarks are the same, and the batches are smaller."""
    told = caught(SumsUpBatches())
    assert "does not give the same when its records come in other micro-batches" in told
    assert "Likely cause: it depends on which records come in one batch" in told
    check(SumsUpBatches(), other_cuts=False)


class AppendsToWhatItRead(Visits):
    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        kind = Types.LIST(Types.STRING())
        self.pages = runtime_context.get_state(ValueStateDescriptor("pages", kind))

    def more(self, value: Any, ctx: Any) -> str:
        pages = self.pages.value()
        if pages is None:
            self.pages.update([value.page])
        else:
            pages.append(value.page)
        return ""


class WritesItBack(AppendsToWhatItRead):
    def more(self, value: Any, ctx: Any) -> str:
        pages = self.pages.value() or []
        pages.append(value.page)
        self.pages.update(pages)
        return f"{pages}"


class AppendsAfterIt(AppendsToWhatItRead):
    def more(self, value: Any, ctx: Any) -> str:
        pages: list[str] = []
        self.pages.update(pages)
        pages.append(value.page)
        return ""


class ChangesAnElement(Visits):
    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        kind = Types.LIST(Types.STRING())
        self.lists = runtime_context.get_list_state(ListStateDescriptor("lists", kind))
        self.by_page = runtime_context.get_map_state(
            MapStateDescriptor("by page", Types.STRING(), kind)
        )

    def more(self, value: Any, ctx: Any) -> str:
        for each in self.lists:
            each.append("lost")
        self.lists.add([value.page])
        self.by_page.put(value.page, [value.page])
        return ""


class ChangesAMapValue(ChangesAnElement):
    def more(self, value: Any, ctx: Any) -> str:
        for each in self.by_page.values():
            each.append("lost")
        if not self.by_page.contains(value.user):
            self.by_page.put(value.user, [])
        return ""


@pytest.mark.parametrize(
    ("function", "state"),
    [(AppendsToWhatItRead, "pages"), (AppendsAfterIt, "pages"), (ChangesAMapValue, "by page")],
)
def test_a_changed_value_of_state_that_is_not_written_back_is_caught(
    function: type[Visits], state: str
) -> None:
    """Nobody sees the change, in any run: only a copy made before shows it."""
    assert f"the state {state!r}" in caught(function())
    check(function(), changed_values=False)


@pytest.mark.parametrize("function", [WritesItBack, ChangesAnElement])
def test_a_value_that_is_written_back_passes(function: type[Visits]) -> None:
    """Whoever writes to the state has seen to what was read."""
    check(function())


class ChangesItsRecord(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        value.tags.append("seen")
        return ""


def test_a_changed_record_is_caught() -> None:
    """Its list is the function's own copy."""
    records = [{**each, "tags": ["new"]} for each in CLICKS]
    told = caught(ChangesItsRecord(), records)
    assert "ChangesItsRecord changes a record that it is given" in told


def test_the_message_has_row_cause_history_and_the_way_to_run_it_alone() -> None:
    """In this order, in plain English."""
    told = caught(Remembers()).splitlines()
    begins = ["Remembers does not give", "First difference: rows of batch", "Likely cause: `self."]
    assert [line[: len(begin)] for line, begin in zip(told, begins)] == begins
    assert told[3] == "Shortest history that was found:"
    assert any(line.strip().startswith("input 1: user=") for line in told)
    assert told[-1] == "To run it alone: simulate(..., seed=0, runs=1)"


def test_one_seed_gives_one_message() -> None:
    """What is random in the function is seeded, too."""
    assert caught(DrawsNumbers(), seed=4) == caught(DrawsNumbers(), seed=4)


def test_clocks_and_generators_are_put_back() -> None:
    """Whatever `simulate` did to them."""
    before = time.time, datetime.datetime, Day, random.getstate()
    caught(ReadsTheHour())
    assert (time.time, datetime.datetime, Day, random.getstate()) == before
    assert (user_code.CLOCK.offset, user_code.CLOCK.stands_at) == (0.0, None)


class Fails(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        if value.page == "p3":
            raise ValueError(value.page)
        return ""


def test_an_error_of_the_function_itself_is_raised_as_it_is() -> None:
    """It fails where nothing else does, too."""
    with pytest.raises(UserFunctionError, match="p3"):
        check(Fails())


# What can be simulated


class Pages(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield (",".join(each.page for each in elements),)


class PagesSoFar(Pages):
    """Wrong: it counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        self.calls += 1
        yield (f"{self.calls}",)


def test_windows_are_simulated() -> None:
    """What a window ends in is a function as others are."""
    windows = window(TumblingEventTimeWindows.of(Time.seconds(5)))
    check(windows.process(Pages()), event_time="at")
    told = caught(windows.process(PagesSoFar()), event_time="at", runs=10)
    assert "`self.calls` of PagesSoFar changes" in told


class Pair(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.STRING()))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.last.update(value.page)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value.user, value.n, f"{self.last.value()}"


ORDERS = [{"user": f"u{at % 3}", "n": at} for at in range(8)]


def test_a_function_of_two_inputs_is_simulated() -> None:
    """Each input has its own records."""
    assert "input 2: user=" in caught(PairWithCalls(), CLICKS, ORDERS)
    check(Pair(), CLICKS, ORDERS, event_time=None)


class PairWithCalls(Pair):
    calls = 0

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.calls += 1
        yield value.user, self.calls, ""


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Limits(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.page, ctx.get_broadcast_state(RULES).get(value.user)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put(value.user, value.n)


def test_a_function_with_a_broadcast_input_is_simulated() -> None:
    """The second records are those of the broadcast input."""
    check(Limits(), CLICKS, ORDERS, broadcast_states=[RULES])


LATE = OutputTag("late")


class ToSides(Visits):
    def more(self, value: Any, ctx: Any) -> Any:
        self.side_visits = getattr(self, "side_visits", 0) + 1
        return ""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield from super().process_element(value, ctx)
        yield LATE, self.side_visits


def test_side_outputs_are_compared() -> None:
    """The message names the output."""
    assert "in 'late'" in caught(ToSides())


class EchoesPage(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield Row(user=value.user[:1], page=value.page)


def chain_of(second: Callable[[], Any]) -> Callable[[], HarnessChain]:
    """What makes a chain whose second function gets what the first emits."""

    def make() -> HarnessChain:
        first = KeyedProcessHarness(EchoesPage(), lambda click: click.user)
        behind = KeyedProcessHarness(second(), lambda row: row.user)
        return HarnessChain(first).then(behind, lambda row: (row, None))

    return make


def test_a_chain_is_simulated() -> None:
    """A callable makes it, with new functions for each instance."""
    check(chain_of(Visits), key_columns=None)
    told = caught(chain_of(Remembers), key_columns=None)
    assert told.startswith("EchoesPage > Remembers does not give the same")
    assert "`self.calls` of Remembers changes" in told


class CountsColumns(KeyedBatchFunction):
    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("visits", Types.LONG())
        self.visits = runtime_context.get_column_state(descriptor)

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        ones = np.ones(len(batch["user"]), np.int64)
        visits = batch.groups.running(np.add, ones, self.visits.get(0))
        self.visits.put(batch.groups.last(visits))
        return {"user": batch["user"], "visits": visits, "more": pa.array([""] * len(ones))}


class CountsTasks(CountsColumns):
    """Wrong: the rows say how many batches the object has seen."""

    batches = 0

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        self.batches += 1
        columns = super().process_batch(batch, ctx)
        return {**columns, "visits": np.full(len(batch["user"]), self.batches)}


def test_a_columnar_function_is_simulated() -> None:
    """With the cuts of micro-batches, and with others."""
    check(CountsColumns(), event_time="at")
    assert "`self.batches` of CountsTasks changes" in caught(CountsTasks())


class Expires(Visits):
    """Counts the visits of a user within some time, and tells when a visit is over."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("visits", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(3)).build())
        self.visits = runtime_context.get_state(descriptor)

    def more(self, value: Any, ctx: Any) -> str:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 2_000)
        return f"{timers.current_processing_time()}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.visits.value(), "over"


def test_the_clock_of_the_context_is_that_of_the_micro_batch() -> None:
    """So TTL, timers and processing time give the same whenever an attempt runs."""
    check(Expires(), state_backend=EmbeddedRocksDBStateBackend(), max_parallelism=4)


class KeepsObjects(Visits):
    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        kind = Types.PICKLED_BYTE_ARRAY()
        self.pages = runtime_context.get_state(ValueStateDescriptor("pages", kind))

    def more(self, value: Any, ctx: Any) -> str:
        pages = {*(self.pages.value() or ()), value.page}
        self.pages.update(pages)
        return f"{len(pages)}"


def test_pickled_state_is_simulated() -> None:
    """Sets are compared by what they hold, whatever their order."""
    check(KeepsObjects())


@pytest.mark.parametrize(
    "records",
    [
        CLICKS,
        [Row(**each) for each in CLICKS],
        pd.DataFrame(CLICKS),
        pa.Table.from_pylist(CLICKS),
        pa.RecordBatch.from_pylist(CLICKS),
        {name: [each[name] for each in CLICKS] for name in ("user", "page", "at")},
    ],
    ids=["dicts", "rows", "pandas", "table", "record batch", "columns"],
)
def test_records_come_in_many_forms(records: Any) -> None:
    """As the harnesses take them, and as users have them."""
    check(Visits(), records, runs=1, event_time="at")


@given(users=st.lists(st.sampled_from(["ann", "bob", ""]), max_size=5))
@settings(max_examples=3, deadline=None)
def test_hypothesis_draws_the_records(users: list[str]) -> None:
    """There may be no records at all."""
    check(Visits(), [{"user": user, "page": "p"} for user in users], runs=1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: simulate(Visits(), CLICKS),
        lambda: simulate(Visits(), key_columns="user"),
        lambda: simulate(3, CLICKS),
        lambda: simulate(Visits, CLICKS),
        lambda: simulate(chain_of(Visits), CLICKS, key_columns="user"),
        lambda: check(Visits(), 3),
        lambda: check(Visits(), event_time="user"),
        lambda: check(Visits(), event_times="at"),
        lambda: check(Pages()),
        lambda: check(Visits(), runs=0),
        lambda: check(Visits(), runs="x"),
        lambda: simulate(Visits(), CLICKS, key_columns="user", batches=0),
        lambda: check(Visits(), seed="x"),
        lambda: check(Visits(), key_columns=5),
        lambda: check(Visits(), CLICKS, CLICKS),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], None]) -> None:
    """With the rule, what was got, and the remedy."""
    with pytest.raises(DeclarationError):
        call()


class FailsElsewhere(Visits):
    """Fails in every process but the one that made it."""

    def __init__(self) -> None:
        self.process = os.getpid()

    def more(self, value: Any, ctx: Any) -> str:
        if os.getpid() != self.process:
            raise ValueError(value.page)
        return ""


class EndsElsewhere(FailsElsewhere):
    def more(self, value: Any, ctx: Any) -> str:
        if os.getpid() != self.process:
            os._exit(3)
        return ""


@pytest.mark.parametrize(
    ("function", "told"),
    [(FailsElsewhere, "ValueError: p0"), (EndsElsewhere, "the end of the process")],
)
def test_a_function_that_fails_in_the_other_process_is_refused(
    function: type[Visits], told: str
) -> None:
    """The message says how to do without, and the next call has a process again."""
    with pytest.raises(DeclarationError, match=f"{told}.*pass other_process=False"):
        check(function(), other_process=True)
    check(Visits(), other_process=True)


def test_the_other_process_has_the_code_that_tests_define() -> None:
    """Also a function within a function, which no module shows."""

    class Local(Visits):
        def more(self, value: Any, ctx: Any) -> str:
            return CLICKS[0]["user"]

    check(Local(), other_process=True)
