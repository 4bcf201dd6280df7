# SPDX-License-Identifier: Apache-2.0
"""Timers in columns: to a key they are timers one by one, on one log."""

from __future__ import annotations

import uuid
import warnings

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike import (
    HashMapStateBackend,
    KeyedProcessFunction,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._clock import TimeDomain
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.micro_batch import end_bounded, enter_bounded
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.columns.columnar_records import ColumnReader
from pyflinklike.columns.cuts import check_alternating, cuts_of
from pyflinklike.columns.keyed_batch import KeyReader, frozen_keys
from pyflinklike.errors import (
    DeclarationError,
    StateAccessError,
    StateValueError,
    UserFunctionError,
)

EVENT, PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
COUNT = ValueStateDescriptor("count", Types.LONG())
MOST = 8


@attrs.frozen
class Rule:
    """What is done at a time: register or delete a timer so much later, in the same domain or not."""

    registers: bool
    offset: int
    other_domain: bool


RULES = st.builds(Rule, st.booleans(), st.integers(-3, 5), st.booleans())


def verb(service, rule, domain):
    """The method of a timer service that a rule calls."""
    event = (domain is EVENT) is not rule.other_domain
    what = "register" if rule.registers else "delete"
    return getattr(service, f"{what}_{'event' if event else 'processing'}_time_timer")


class ByElement(KeyedProcessFunction):
    """Counts its key's records and timers; each timer does what a rule says."""

    rules = ()
    lists = False

    def open(self, ctx):
        self.count = ctx.get_state(COUNT)

    def counted(self):
        self.count.update((self.count.value() or 0) + 1)
        return self.count.value()

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value.at + 2)
        ctx.timer_service().register_processing_time_timer(value.at // 2)
        yield ctx.get_current_key(), value.at, self.counted(), "record"

    def on_timer(self, timestamp, ctx):
        count, domain = self.counted(), ctx.time_domain()
        for rule in self.rules[timestamp % len(self.rules)]:
            if count < MOST:
                verb(ctx.timer_service(), rule, domain)(timestamp + rule.offset)
        yield ctx.get_current_key(), timestamp, count, self.named(domain, ctx.timer_service())

    def named(self, domain, timers):
        if not self.lists:
            return domain.name
        event, processing = timers.list_event_time_timers(), timers.list_processing_time_timers()
        return f"{domain.name} {event} {processing}"


class InColumns(KeyedBatchFunction):
    """The same."""

    rules = ()
    lists = False

    def open(self, ctx):
        self.count = ctx.get_column_state(COUNT)

    def counted(self, groups):
        count = groups.spread(self.count.get(0)) + groups.rank() + 1
        self.count.put(groups.last(count))
        return count

    def process_batch(self, batch, ctx):
        groups, at = batch.groups, batch.numpy("at")
        ctx.timer_service().register_event_time_timer(at + 2, codes=groups.codes)
        ctx.timer_service().register_processing_time_timer(at // 2, codes=groups.codes)
        return self.told(batch, at, self.counted(groups), "record")

    def on_timers(self, batch, ctx):
        assert len(batch) == len(batch.groups)
        at, count, domain = batch.timestamps, self.counted(batch.groups), ctx.time_domain()
        for number, rules in enumerate(self.rules):
            where = (at % len(self.rules) == number) & (count < MOST)
            for rule in rules:
                verb(ctx.timer_service(), rule, domain)(at + rule.offset, where)
        told = self.told(batch, at, count, domain.name)
        return {**told, "what": self.named(batch, domain, ctx.timer_service())}

    def named(self, batch, domain, timers):
        if not self.lists:
            return [domain.name] * len(batch)
        kinds = timers.list_event_time_timers(), timers.list_processing_time_timers()
        return [
            " ".join([domain.name, *(str(times[codes == code].tolist()) for codes, times in kinds)])
            for code in range(len(batch))
        ]

    def told(self, batch, at, count, what):
        return {"key": batch["key"], "at": at, "n": count, "what": [what] * len(batch)}


def records_of(times, keys="abc") -> pa.Table:
    """Records at these times, the keys one after the other."""
    times = sorted(times)
    return pa.table(
        {
            "key": pa.array([keys[at % len(keys)] for at in range(len(times))], pa.string()),
            "at": pa.array(times, pa.int64()),
        }
    )


@given(data=st.data())
@settings(max_examples=settings().max_examples // 4)
def test_both_are_one_function(data):
    """In turns on one log: what a timer registers or deletes counts for the key's next one."""
    rules = st.lists(st.lists(RULES, max_size=2), min_size=1, max_size=3)
    own = {"rules": data.draw(rules), "lists": True}
    times = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=8))

    check_alternating(
        type("InColumnsRuled", (InColumns,), own),
        type("ByElementRuled", (ByElement,), own),
        records_of(times),
        "key",
        data.draw(cuts_of(len(times))),
        event_time="at",
        ms_between_batches=data.draw(st.sampled_from([1, 4])),
    )


def of_a_batch(function, records):
    """What comes of records in batch mode, to the end of it, by key."""
    task = TaskInfo("tested", max_parallelism=1, key_columns=(("key", "string"),))
    options = (HashMapStateBackend(), Types.STRING(), task, f"batch-{uuid.uuid4()}")
    operator = make_keyed_operator(OperatorDeclaration(function, *options))
    operator.open()
    enter_bounded(operator, 0, processing_time=2)
    if isinstance(function, KeyedBatchFunction):
        keys = KeyReader(("key",), Types.STRING(), lambda each: frozen_keys(Types.STRING(), each))
        operator.process(*ColumnReader(keys, "at").read(records.to_batches()[0]))
    else:
        rows = [Row(**each) for each in records.to_pylist()]
        operator.process([row.key for row in rows], rows, [row.at for row in rows])
    end_bounded(operator)
    given = operator.outputs.take().main
    if isinstance(function, KeyedBatchFunction):
        given = [tuple(row.values()) for batch in given for row in batch.to_pylist()]
    assert (0, 0) == (operator.event_timers.count(), operator.processing_timers.count())
    return {key: [row for row in given if row[0] == key] for key in "abc"}


@given(data=st.data())
@settings(max_examples=settings().max_examples // 2)
def test_both_are_one_function_at_the_end_of_a_batch(data):
    """Every timer fires, and what a processing timer registers in its own domain is ignored."""
    rules = st.lists(st.lists(RULES, max_size=2), min_size=1, max_size=3)
    own = {"rules": data.draw(rules)}
    records = records_of(data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=8)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_element = of_a_batch(type("ByElementRuled", (ByElement,), own)(), records)
        in_columns = of_a_batch(type("InColumnsRuled", (InColumns,), own)(), records)

    assert by_element == in_columns


def test_processing_timers_that_on_timers_registers_at_the_end_of_a_batch_are_ignored():
    """With a warning, as those of functions of elements."""
    other = Rule(registers=True, offset=1, other_domain=True)
    function = type("Other", (InColumns,), {"rules": [[other]]})()
    message = "Other: a processing-time timer that is registered while timers fire at the end"

    with pytest.warns(UserWarning, match=message):
        given = of_a_batch(function, records_of([4]))

    assert [
        ("a", 4, 1, "record"),
        ("a", 6, 2, "EVENT_TIME"),
        ("a", 2, 3, "PROCESSING_TIME"),
        ("a", 3, 4, "EVENT_TIME"),
    ] == given["a"]


class Does(KeyedBatchFunction):
    """Does what a test says with a batch of records, and tells what timers it is given."""

    def __init__(self, act, react=None):
        self.act = act
        self.react = react

    def process_batch(self, batch, ctx):
        self.act(batch, ctx.timer_service())

    def on_timers(self, batch, ctx):
        if self.react is not None:
            self.react(batch, ctx.timer_service())
        names = [name for name in batch.column_names if name != "at"]
        return {**{name: batch[name] for name in names}, "at": batch.timestamps}


def driven(act, react=None, records=None, key="key", **options):
    """A harness after one batch, by default of two records of "a" and one of "b"."""
    harness = KeyedBatchHarness(Does(act, react), key, **options)
    harness.process_batch(records or {"key": ["a", "b", "a"], "at": [1, 2, 3]})
    return harness


def fired(table):
    """Keys and times of timers."""
    return [tuple(row.values()) for row in table.to_pylist()]


def test_the_timers_of_a_batch_are_listed_by_group():
    """Those of keys that the batch has not, of the other domain, and a firing one are not there."""
    seen = []

    def act(batch, timers):
        timers.register_event_time_timer(batch["at"], codes=batch.groups.codes)
        timers.register_processing_time_timer(
            7, where=np.array([False] * (len(batch.groups) - 1) + [True])
        )
        seen.append([each.tolist() for each in timers.list_event_time_timers()])
        seen.append([each.tolist() for each in timers.list_processing_time_timers()])

    def react(batch, timers):
        codes, times = timers.list_event_time_timers()
        seen.append([codes.tolist(), times.tolist()])
        timers.delete_event_time_timer(times, codes=codes)

    with driven(act, react) as harness:
        harness.process_batch({"key": ["c"], "at": [9]})
        assert [[[0, 0, 1], [1, 3, 2]], [[1], [7]], [[0], [9]], [[0], [7]]] == seen
        assert [("a", 1), ("b", 2)] == fired(harness.process_watermark(2))
        assert [[[0], [3]]] == seen[4:]
        assert [("c", 9)] == fired(harness.process_watermark(9)), "the list was deleted"


def test_a_time_for_each_key_or_for_each_record():
    """Registered, chosen and deleted."""

    def act(batch, timers):
        timers.register_event_time_timer(np.array([10, 20]))
        timers.register_event_time_timer(5, where=np.array([False, True]))
        timers.register_event_time_timer(batch["at"], codes=batch.groups.codes)
        timers.delete_event_time_timer(3, where=np.array([True, False]))
        timers.delete_event_time_timer(99)

    with driven(act) as harness:
        assert 5 == harness.num_event_time_timers()
        assert [("a", 1), ("b", 2), ("b", 5), ("a", 10)] == fired(harness.process_watermark(10))
        assert 1 == harness.num_event_time_timers()
        assert [("b", 20)] == fired(harness.end_of_input())


def test_an_advance_has_one_timer_of_a_key_in_each_call():
    """By time within a call, and each key's by time over all calls."""
    calls = []

    def react(batch, timers):
        calls.append(fired(pa.table({"key": batch["key"], "at": batch.timestamps})))

    def act(batch, timers):
        timers.register_processing_time_timer([7, 3, 5, 9], codes=np.array([0, 1, 0, 1]))

    with driven(act, react) as harness:
        harness.set_processing_time(8)
        harness.set_processing_time(9)
    assert [[("b", 3), ("a", 5)], [("a", 7)], [("b", 9)]] == calls


def test_a_processing_time_timer_for_now_waits_until_the_clock_goes_on():
    """But one that was there before fires, also where it is deleted and registered meanwhile."""

    def react(batch, timers):
        if batch.timestamps[0] == 3:
            timers.delete_processing_time_timer(5, where=np.array(batch["key"].to_pylist()) == "b")
            timers.register_processing_time_timer(5)

    def act(batch, timers):
        timers.register_processing_time_timer([3, 3, 5], codes=np.array([0, 1, 1]))

    with driven(act, react) as harness:
        assert [("a", 3), ("b", 3), ("b", 5)] == fired(harness.set_processing_time(5))
        assert [("a", 5)] == fired(harness.set_processing_time(5))


def test_a_timer_that_failed_is_still_due():
    """With those behind it, as of a function of elements."""
    errors = [ValueError("no")]

    def react(batch, timers):
        if batch.timestamps[0] == 2 and errors:
            raise errors.pop()

    def act(batch, timers):
        timers.register_event_time_timer([1, 2, 3], codes=np.zeros(3, int))

    with driven(act, react) as harness:
        with pytest.raises(UserFunctionError, match=r"on_timers failed for a batch of 1 timers"):
            harness.process_watermark(5)
        assert [("a", 3)] == fired(harness.process_watermark(5))


@pytest.mark.parametrize(
    ("records", "key", "expected"),
    [
        ({"n": [1, 2]}, "n", [(1, 5), (2, 5)]),
        ({"f": [1.5, 2.5]}, "f", [(1.5, 5), (2.5, 5)]),
        ({"k": ["a", None], "n": [1, 2]}, ("k", "n"), [("a", 1, 5), (None, 2, 5)]),
    ],
)
def test_timers_have_the_columns_of_their_key(records, key, expected):
    """Whatever form it is kept in."""
    with driven(lambda _, timers: timers.register_event_time_timer(5), None, records, key) as made:
        assert expected == fired(made.process_watermark(5))


@pytest.mark.parametrize(
    ("times", "options", "why"),
    [
        ([1.5, 2.5], {}, "must be an int of ms, got float64"),
        (np.array(["2020-01-01", "2020-01-02"], "M8[ms]"), {}, "must be an int of ms"),
        (np.array([1, 2**63], np.uint64), {}, "must fit in 64 bits"),
        ([1, 2, 3], {}, "one time for each of 2 groups"),
        ([1, 2], {"where": [True]}, "a bool for each of 2 times"),
        ([1, 2], {"where": [1, 0]}, "a bool for each of 2 times"),
        ([1, 2], {"codes": [0, 2]}, "numbers of the batch's 2 groups, from 0, got 0 to 2"),
        ([1, 2], {"codes": [0.0, 1.0]}, "codes are the numbers of groups"),
        (None, {}, "takes values of one type"),
    ],
)
@pytest.mark.parametrize("what", ["register", "delete"])
def test_what_is_no_times_is_refused(what, times, options, why):
    """And nothing is registered."""

    def act(batch, timers):
        with pytest.raises(StateValueError, match=why):
            getattr(timers, f"{what}_event_time_timer")(times, **options)

    with driven(act) as harness:
        assert 0 == harness.num_event_time_timers()


def test_a_function_without_on_timers_can_register_none():
    """They would never fire."""

    class Registers(KeyedBatchFunction):
        def process_batch(self, batch, ctx):
            ctx.timer_service().delete_event_time_timer(1)
            ctx.timer_service().register_event_time_timer(1)

    with pytest.raises(DeclarationError, match="add on_timers"):
        KeyedBatchHarness(Registers(), "key").process_batch({"key": ["a"]})


def test_timers_are_there_while_the_function_runs():
    """And no longer, nor is the domain of timers there for records."""
    held = []

    class Holds(KeyedBatchFunction):
        def process_batch(self, batch, ctx):
            held.append(ctx)

        def on_timers(self, batch, ctx):
            """Nothing."""

    KeyedBatchHarness(Holds(), "key").process_batch({"key": ["a"]})
    with pytest.raises(StateAccessError, match="while process_batch or on_timers runs"):
        held[0].timer_service().register_event_time_timer(1)
    with pytest.raises(StateAccessError, match="outside on_timers"):
        held[0].time_domain()


def test_timers_without_end_are_refused(monkeypatch):
    """One that registers itself for ever, and one that goes on when time ends."""
    monkeypatch.setattr("pyflinklike._runtime.timer_queue._MOST_ROUNDS", 20)
    monkeypatch.setattr("pyflinklike.columns.columnar_timers.MOST_AT_THE_END", 20)

    def again(by):
        return lambda batch, timers: timers.register_event_time_timer(batch.timestamps + by)

    def act(batch, timers):
        timers.register_event_time_timer(5)

    with pytest.raises(UserFunctionError, match="must come to an end, got more than 20"):
        driven(act, again(0)).process_watermark(5)
    with pytest.raises(UserFunctionError, match="at the end of the input, got more than 20"):
        driven(act, again(1)).end_of_input()
    assert 2 * 26 == len(driven(act, again(1)).process_watermark(30))


def test_a_timer_has_no_time_for_a_ttl_by_event_time():
    """What it writes is stamped with the watermark, as of a function of elements."""
    descriptor = ValueStateDescriptor("v", Types.LONG())
    config = StateTtlConfig.new_builder(10).use_event_time().build()
    descriptor.enable_time_to_live(config)

    class Writes(Does):
        def open(self, ctx):
            self.state = ctx.get_column_state(descriptor)

        def on_timers(self, batch, ctx):
            seen = self.state.exists()
            self.state.put(1)
            return {"seen": seen}

    def act(batch, timers):
        timers.register_event_time_timer([0, 9, 10], codes=np.zeros(3, int))

    harness = KeyedBatchHarness(Writes(act), "key")
    harness.process_batch({"key": ["a"]})
    seen = [harness.process_watermark(at).column("seen").to_pylist() for at in (0, 9, 19)]
    assert [[False], [True], [False]] == seen
