# SPDX-License-Identifier: Apache-2.0
"""`simulate`: which functions it passes, which it catches, and what it says of them."""

from __future__ import annotations

import datetime
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
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Row,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchFunction
from pyflinklike.errors import DeclarationError, UserFunctionError
from pyflinklike.spark import broadcast, key_by
from pyflinklike.testing.simulation import attempt_clock, simulate
from pyflinklike.testing.simulation.causes import find_causes
from pyflinklike.testing.simulation.frames import SimulatedQuery, parse_ddl
from pyflinklike.windows import ProcessWindowFunction, TumblingEventTimeWindows

START = datetime.datetime(2026, 1, 1)
CLICKS = [
    {"user": f"u{at % 7}", "page": f"p{at}", "at": START + datetime.timedelta(seconds=at)}
    for at in range(14)
]
OUTPUT = "user string, visits long, more string"


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


def check(function: Any, records: Any = CLICKS, **options: Any) -> None:
    """Simulate it over clicks, in few runs."""
    options = {"key_columns": "user", "output_type": OUTPUT, "runs": 2, "batches": 4, **options}
    simulate(function, records, **options)


def caught(function: Any, **options: Any) -> str:
    """What `simulate` says of a function that is wrong."""
    with pytest.raises(AssertionError) as caught:
        check(function, **options)
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


class TellsItsTask(Visits):
    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.task = runtime_context.get_index_of_this_subtask()

    def more(self, value: Any, ctx: Any) -> str:
        return f"{self.task}"


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
        (TellsItsTask, "it asks in which task it runs"),
    ],
)
def test_a_function_that_depends_on_more_than_state_is_caught(
    function: type[Visits], cause: str
) -> None:
    """The message names the likely cause."""
    assert f"Likely cause: {cause}" in caught(function())


class ShowsExpired(Visits):
    def open(self, runtime_context: Any) -> None:
        builder = StateTtlConfig.new_builder(Time.seconds(3))
        descriptor = ValueStateDescriptor("visits", Types.LONG())
        descriptor.enable_time_to_live(builder.return_expired_if_not_cleaned_up().build())
        self.visits = runtime_context.get_state(descriptor)


@pytest.mark.parametrize(
    ("function", "cause"),
    [(ShowsExpired, "have expired until they are cleaned up"), (Visits, "none of self, globals")],
)
def test_where_no_experiment_shows_a_cause_the_code_may(function: type[Visits], cause: str) -> None:
    """Else it is said where to look."""
    query = SimulatedQuery(2)
    key_by(query.source(parse_ddl("user string, page string")), "user").process(function(), OUTPUT)
    (told,) = find_causes([], query.operators)
    assert cause in told


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
    assert "First difference: operator 0 state 'id': got" in caught(StoresAnId())


class JoinsASet(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return ",".join({value.user, value.page, "home", "cart", "help", "shop"})


def test_the_order_of_a_set_is_caught_by_another_process() -> None:
    """Within one process it is always the same."""
    told = caught(JoinsASet())
    assert "Likely cause: the order of a set" in told
    check(JoinsASet(), other_process=False)


class SortsASet(Visits):
    def more(self, value: Any, ctx: Any) -> str:
        return ",".join(sorted({value.user, value.page, "home", "cart", "help", "shop"}))


def test_a_sorted_set_passes() -> None:
    """The other process gives the same."""
    check(SortsASet())


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
    told = caught(ChangesItsRecord(), records=records)
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
    assert (attempt_clock.CLOCK.offset, attempt_clock.CLOCK.stands_at) == (0.0, None)


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


def windows_of(function: Any) -> Callable[..., Any]:
    """The pages of each user in ten seconds."""
    windows = TumblingEventTimeWindows.of(Time.seconds(5))
    return lambda clicks: (
        key_by(clicks, "user").window(windows).process(function, "pages string", event_time="at")
    )


def test_windows_are_simulated() -> None:
    """Of a callable that keys its records as a query does."""
    simulate(windows_of(Pages()), CLICKS, runs=3)
    with pytest.raises(AssertionError, match=r"`self\.calls` of PagesSoFar changes"):
        simulate(windows_of(PagesSoFar()), CLICKS, runs=3)


def test_folds_are_simulated() -> None:
    """A running maximum over a stream with a watermark of its own."""

    def latest(clicks: Any) -> Any:
        delayed = clicks.withWatermark("at", "2 seconds")
        return key_by(delayed, "user").max("page", event_time="at")

    simulate(latest, CLICKS, runs=3)


class Pair(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.STRING()))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.last.update(value.page)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value.user, value.n, f"{self.last.value()}"


ORDERS = [{"user": f"u{at % 3}", "n": at} for at in range(8)]


def test_a_function_of_two_inputs_is_simulated() -> None:
    """Each input has its own records, of which Spark tells no order."""
    with pytest.raises(AssertionError, match="First difference") as told:
        simulate(PairWithCalls(), CLICKS, ORDERS, key_columns="user", output_type=OUTPUT, runs=3)
    assert "input 2: user=" in str(told.value)
    simulate(Pair(), CLICKS, ORDERS, key_columns="user", output_type=OUTPUT, runs=3)


class PairWithCalls(Pair):
    calls = 0

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.calls += 1
        yield value.user, self.calls, ""


def test_a_join_is_simulated() -> None:
    """Of two streams within windows."""

    def joined(clicks: Any, orders: Any) -> Any:
        both = key_by(clicks, "user").join(key_by(orders, "user"))
        windows = TumblingEventTimeWindows.of(Time.seconds(10))
        return both.window(windows).apply(
            lambda click, order: (click.page, order.n), "page string, n long", event_time="at"
        )

    orders = [{**each, "at": CLICKS[each["n"]]["at"]} for each in ORDERS]
    simulate(joined, CLICKS, orders, runs=3)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def test_a_chain_is_simulated() -> None:
    """Of two functions behind each other, with the watermark between."""

    def chain(clicks: Any) -> Any:
        visits = key_by(clicks, "user").process(
            EchoesTime(), "user string, at timestamp", event_time="at"
        )
        windows = TumblingEventTimeWindows.of(Time.seconds(5))
        return (
            key_by(visits, "user").window(windows).process(Counts(), "visits long", event_time="at")
        )

    simulate(chain, CLICKS, runs=3)


class EchoesTime(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.user, value.at


class Counts(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield (sum(1 for _ in elements),)


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
    """With cuts wherever the micro-batches are."""
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
    """Also where the readers of state cannot show it."""
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
    check(Visits(), records, runs=1, event_time="at", other_process=False)


def test_tuples_are_records_where_their_columns_are_given() -> None:
    """By their places, with DDL that needs no JVM."""
    check(Visits(), [("ann", "home")], schema="user string, page string", runs=1)


@given(users=st.lists(st.sampled_from(["ann", "bob", ""]), max_size=5))
@settings(max_examples=3, deadline=None)
def test_hypothesis_draws_the_records(users: list[str]) -> None:
    """Also none at all, as long as their type is given."""
    records = [{"user": user, "page": "p"} for user in users]
    check(Visits(), records, schema="user string, page string", runs=1, other_process=False)


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("a int", "struct<a:int>"),
        ("long", "struct<value:bigint>"),
        ("decimal(5,2)", "struct<value:decimal(5,2)>"),
        (
            "`a b` array<string>, m map<int,array<double>> not null, s struct<x: date, y: binary>",
            "struct<a b:array<string>,m:map<int,array<double>>,s:struct<x:date,y:binary>>",
        ),
    ],
)
def test_ddl_is_parsed_without_a_jvm(ddl: str, told: str) -> None:
    """Several columns, or a single type."""
    assert parse_ddl(ddl).simpleString() == told


@pytest.mark.parametrize("ddl", ["", "a", "a int,", "a nothing", "a array<int", "a int b", "a ?"])
def test_ddl_that_does_not_parse_is_refused(ddl: str) -> None:
    """With the place where it stops."""
    with pytest.raises(DeclarationError, match="DDL"):
        parse_ddl(ddl)


@pytest.mark.parametrize(
    "call",
    [
        lambda: simulate(Visits(), CLICKS),
        lambda: simulate(Visits(), key_columns="user", output_type=OUTPUT),
        lambda: simulate(3, CLICKS),
        lambda: simulate(lambda df: df, CLICKS),
        lambda: simulate(lambda df: df, CLICKS, key_columns="user"),
        lambda: check(Visits(), 3),
        lambda: check(Visits(), []),
        lambda: check(Visits(), [3]),
        lambda: check(Visits(), [{"user": 3}, {"user": "ann"}]),
        lambda: check(Visits(), schema=3),
        lambda: check(Visits(), schema=("a int", "b int")),
        lambda: check(Visits(), event_times="at"),
        lambda: check(Pages()),
        lambda: check(Visits(), runs=0),
        lambda: check(Visits(), runs="x"),
        lambda: check(Visits(), batches=0),
        lambda: check(Visits(), seed="x"),
        lambda: check(Visits(), key_columns=5),
        lambda: check(Visits(), [{"user": None, "page": "a"}]),
        lambda: check(Visits(), [{"user": 1.5, "page": "a"}]),
        lambda: simulate(Visits(), CLICKS, CLICKS, key_columns="user", output_type=OUTPUT),
        lambda: simulate(
            lambda one, other: key_by(one, "user").connect(broadcast(other, RULES)), CLICKS, CLICKS
        ),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], None]) -> None:
    """With the rule, what was got, and the remedy."""
    with pytest.raises(DeclarationError):
        call()
