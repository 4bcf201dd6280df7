# SPDX-License-Identifier: Apache-2.0
"""Dead letters of a function of batches: what raises is found in halves, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from crafted_failure_snapshots import made_up
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyflinklike import (
    DeadLetters,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.errors import (
    CorruptStateError,
    IncompatibleStateError,
    PyflinklikeError,
    UserFunctionError,
)
from pyflinklike.testing import KeyedProcessHarness

DEAD, SIDE = OutputTag("dead"), OutputTag("side")
MANY = DeadLetters(DEAD, at_most=10_000, per="batch")


class PoisonError(Exception):
    """What a batch raises that has a record below zero, or a timer at a time that ends with 7."""


class Totals(KeyedBatchFunction):
    """Totals, words, counts in a map, timers and outputs; raises behind all of these.

    Args:
        is_careful: Whether it leaves alone the timers on which it would raise.
    """

    def __init__(self, *, ttl: bool = False, is_careful: bool = False) -> None:
        self.ttl, self.is_careful = ttl, is_careful
        self.calls = 0

    def open(self, ctx: Any) -> None:
        total = ValueStateDescriptor("total", Types.LONG())
        if self.ttl:
            total.enable_time_to_live(
                StateTtlConfig.new_builder(30)
                .use_event_time()
                .update_ttl_on_read_and_write()
                .disable_cleanup_in_background()
                .build()
            )
        self.total = ctx.get_column_state(total)
        self.word = ctx.get_column_state(ValueStateDescriptor("word", Types.STRING()))
        self.seen = ctx.get_column_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))
        self.counter = ctx.get_metrics_group().counter("records")

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        self.calls += 1
        numbers = batch.numpy("n")
        before = self.total.get(0)
        self.total.put(before + batch.groups.sum(numbers))
        self.word.put([f"w{n}" for n in batch.groups.last(numbers)])
        entries = self.seen.at(numbers)
        entries.put(entries.get(0) + entries.groups.counts)
        self.word.clear(where=batch.groups.last(numbers) == 6)
        ctx.timer_service().register_event_time_timer(numbers + 20, codes=batch.groups.codes)
        ctx.timer_service().delete_event_time_timer(23)
        self.counter.inc(len(batch))
        ctx.output(SIDE, {"key": batch["key"]})
        if (numbers < 0).any():
            raise PoisonError(len(batch))
        return {"key": batch["key"], "n": numbers}

    def on_timers(self, batch: Any, ctx: Any) -> Any:
        good = batch.timestamps % 10 != 7
        which = good if self.is_careful else np.ones(len(good), bool)
        self.total.put(batch.timestamps * 1_000, where=which)
        self.seen.clear(where=which)
        ctx.timer_service().register_event_time_timer(batch.timestamps + 13, where=which)
        if not good.all() and not self.is_careful:
            raise PoisonError(len(batch))
        return {"at": batch.timestamps[which]}


class Telling(Totals):
    """Raises with all that it reads of the states and timers of its keys before it changes them."""

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        self.told = self.read(batch, ctx)
        yields = super().process_batch
        try:
            return yields(batch, ctx)
        except PoisonError as error:
            raise PoisonError(self.told) from error

    def on_timers(self, batch: Any, ctx: Any) -> Any:
        told = self.read(batch, ctx)
        try:
            return super().on_timers(batch, ctx)
        except PoisonError as error:
            raise PoisonError(told) from error

    def read(self, batch: Any, ctx: Any) -> Any:
        items, service = self.seen.items(), ctx.timer_service()
        times = [None if batch.timestamps is None else batch.timestamps.tolist()]
        return (
            batch.to_arrow().to_pylist(),
            times,
            service.current_watermark(),
            self.total.arrow().to_pylist(),
            self.word.arrow().to_pylist(),
            sorted(zip(items.user_keys.tolist(), items.values.tolist())),
            [each.tolist() for each in service.list_event_time_timers()],
        )


numbers = st.one_of(st.integers(0, 9), st.integers(0, 9), st.integers(-3, -1))
histories = st.lists(
    st.one_of(st.lists(st.tuples(st.sampled_from("abc"), numbers), max_size=7), st.integers(1, 15)),
    min_size=1,
    max_size=6,
)


def run(function: Totals, history: list[Any], on_error: Any) -> Any:
    """Drive a harness through batches and watermarks, and return all that came of it."""
    with KeyedBatchHarness(function, "key", "ts", key_type=Types.STRING(), on_error=on_error) as it:
        now = 0
        for each in history:
            if isinstance(each, int):
                now += each
                it.process_watermark(now)
            elif each:
                keys, found = zip(*each)
                it.process_batch({"key": list(keys), "n": list(found), "ts": [now + 1] * len(each)})
        contents = {
            each.spec.name: sorted(
                zip(
                    each.keys.to_pylist(),
                    [None] * len(each) if each.user_keys is None else each.user_keys.to_pylist(),
                    each.values.to_pylist(),
                    [None] * len(each) if each.stamps is None else each.stamps.tolist(),
                ),
                key=repr,
            )
            for each in it._operator.backend.contents()
            if len(each)
        }
        rows = [row for batch in it.output for row in batch.to_pylist()]
        sides = [row for batch in it.side_output(SIDE) for row in batch.to_pylist()]
        letters = [row for batch in it.side_output(DEAD) for row in batch.to_pylist()]
        return rows, sides, contents, it.metrics(), letters


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(history=histories, ttl=st.booleans())
def test_records_and_timers_that_fail_are_as_if_they_had_not_come(history, ttl):
    """State, timers, outputs and metrics are those of the others, each of which is one letter."""
    clean = [
        each if isinstance(each, int) else [one for one in each if one[1] >= 0] for each in history
    ]
    *got, letters = run(Totals(ttl=ttl), history, MANY)
    *wanted, _ = run(Totals(ttl=ttl, is_careful=True), clean, None)
    poison = [one for each in history if not isinstance(each, int) for one in each if one[1] < 0]
    of_records = [each for each in letters if each["call"] == "process_batch"]
    assert [*wanted, sorted(poison)] == [
        *got,
        sorted((each["key"], eval(each["subject"])["n"]) for each in of_records),
    ]
    assert {"PoisonError"} >= {each["error_class"] for each in letters}


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(history=histories, ttl=st.booleans())
def test_a_replay_finds_what_the_call_that_failed_had_found(history, ttl):
    """Record or time, states of both kinds, their TTL, timers and the watermark, and no other key's."""
    *_, letters = run(Telling(ttl=ttl), history, MANY)
    for letter in letters:
        with (
            KeyedBatchHarness.of_failure(letter["failure_snapshot"], Telling(ttl=ttl)) as harness,
            pytest.raises(PoisonError) as raised,
        ):
            harness.replay()
        assert letter["message"] == str(raised.value)


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(history=histories, ttl=st.booleans())
@example(history=[[("a", 1), ("a", 0), ("a", 1), ("a", -1)]], ttl=False)  # timers of one call
@example(history=[[("a", -1), ("b", 0)]], ttl=False)  # a slice of a batch, beside another key
def test_a_failure_snapshot_is_the_same_whatever_came_in_the_same_batch(history, ttl):
    """In every byte: timers are in one order, and nothing of the other records is in it."""
    one_by_one = [
        part
        for each in history
        for part in ([each] if isinstance(each, int) else [[one] for one in each])
    ]
    letters = [
        sorted(
            (each["key"], each["call"], each["subject"], each["failure_snapshot"])
            for each in run(Totals(ttl=ttl), some, MANY)[-1]
        )
        for some in (history, one_by_one)
    ]
    assert letters[0] == letters[1]


class Keys(KeyedBatchFunction):
    """Keeps a number by key, and raises with it and the key's columns at zero and in timers."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_column_state(ValueStateDescriptor("last", Types.LONG()))

    def process_batch(self, batch: Any, ctx: Any) -> None:
        if (batch.numpy("n") == 0).any():
            raise PoisonError(batch.to_arrow().drop_columns("n").to_pylist(), self.last.get(-1))
        self.last.put(batch.groups.last(batch.numpy("n")))
        ctx.timer_service().register_event_time_timer(9)

    def on_timers(self, batch: Any, ctx: Any) -> None:
        raise PoisonError(batch.to_arrow().to_pylist(), self.last.get(-1))


@pytest.mark.parametrize(
    ("keys", "key_type"),
    [
        ({"a": ["x", "y"]}, Types.STRING()),
        ({"a": [1, 2]}, Types.LONG()),
        ({"a": [True, False]}, None),
        ({"a": [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]}, None),
        ({"a": [0.5, 1.5]}, None),
        ({"a": ["x", "x"], "b": [1, 2]}, Types.TUPLE([Types.STRING(), Types.LONG()])),
        ({"a": ["x", "x"], "b": [dt.date(2020, 1, 1), None]}, None),
    ],
    ids=str,
)
def test_a_key_of_any_type_is_the_one_of_the_replay(keys, key_type):
    """Of one column and of several, in columns of Arrow and encoded, with the state that it has."""
    names = list(keys)
    with KeyedBatchHarness(Keys(), names, key_type=key_type, on_error=MANY) as harness:
        for numbers in ([5, 6], [7, 0]):
            harness.process_batch({**keys, "n": numbers})
        harness.process_watermark(10)
        letters = [row for batch in harness.side_output(DEAD) for row in batch.to_pylist()]
    first, second = ({name: values[at] for name, values in keys.items()} for at in (0, 1))
    assert [([second], 6), ([first], 7), ([second], 6)] == [
        replayed(each["failure_snapshot"], Keys()) for each in letters
    ]


def test_a_record_of_a_column_that_cannot_be_written_has_no_failure_snapshot():
    """Its dictionary is not in the record batch."""
    with KeyedBatchHarness(Keys(), "a", on_error=MANY) as harness:
        names = pa.array(["x", "y"]).dictionary_encode()
        harness.process_batch({"a": [1, 2], "n": [0, 1], "name": names})
        (letter,) = [row for each in harness.side_output(DEAD) for row in each.to_pylist()]
    assert (1, None) == (letter["a"], letter["failure_snapshot"])


def replayed(failure_snapshot: bytes, function: Any) -> tuple[Any, int]:
    """What a replay raises with."""
    with (
        KeyedBatchHarness.of_failure(failure_snapshot, function) as harness,
        pytest.raises(PoisonError) as raised,
    ):
        harness.replay()
    rows, (number,) = raised.value.args
    return rows, number


def test_a_mended_function_gives_its_columns():
    """And the harness goes on with further records of the letter's key columns."""
    *_, (_, timer) = run(Totals(), [[("a", 7), ("b", -1)], 30], MANY)
    with KeyedBatchHarness.of_failure(
        timer["failure_snapshot"], Totals(is_careful=True), event_time="ts"
    ) as harness:
        assert (0, 30) == (harness.replay().num_rows, harness.watermark)
        more = harness.process_batch({"key": ["a", "b"], "n": [7, 8], "ts": [31, 31]})
        assert [{"key": "a", "n": 7}, {"key": "b", "n": 8}] == more.to_pylist()
        assert (2, 2) == (
            harness.num_keyed_state_entries("total"),
            harness.num_event_time_timers(),
        )


def test_a_function_of_batches_that_does_not_fit_is_refused():
    """One of single records, whose harness is another, and a failure snapshot of one for this harness."""
    *_, (letter,) = run(Totals(), [[("a", -1)]], MANY)
    with pytest.raises(IncompatibleStateError, match=r"of batches, got .*KeyedBatchHarness.of_f"):
        KeyedProcessHarness.of_failure(letter["failure_snapshot"], Doubles())
    with KeyedProcessHarness(Doubles(), str, on_error=MANY) as harness:
        harness.process_element("x", 1)
        (other,) = harness.side_output(DEAD)
    with pytest.raises(IncompatibleStateError, match=r"one input, got Totals of batches"):
        KeyedBatchHarness.of_failure(other.failure_snapshot, Totals())


class Doubles(KeyedProcessFunction):
    """Fails."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        raise LookupError(value)


@pytest.mark.parametrize(
    "facts",
    [{"kind": "broadcast element"}, {"kind": "timer"}, {"form": "plain", "element": b"\1"}],
    ids=str,
)
def test_a_failure_snapshot_of_no_call_of_a_batch_is_refused(facts):
    """Though its checksum is right: of another kind, a timer without a domain, or no record."""
    *_, (letter,) = run(Totals(), [[("a", -1)]], MANY)
    with pytest.raises(CorruptStateError, match="for a record or timer of a key, got"):
        KeyedBatchHarness.of_failure(made_up(letter["failure_snapshot"], **facts), Totals())


def test_a_damaged_byte_of_a_batch_s_failure_snapshot_is_an_error_of_ours():
    """Whatever the checksum says; anywhere in it in the thorough profile, else every 23rd byte."""
    step = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 23
    *_, (letter,) = run(Totals(ttl=True), [[("a", 3)], [("a", -1)]], MANY)
    failure_snapshot = letter["failure_snapshot"]
    for at in range(45, len(failure_snapshot), step):
        for damaged in (0, 255 - failure_snapshot[at]):
            body = bytes((*failure_snapshot[45:at], damaged, *failure_snapshot[at + 1 :]))
            head = failure_snapshot[:41] + struct.pack(
                "<I", zlib.crc32(body, zlib.crc32(failure_snapshot[:41]))
            )
            with (
                contextlib.suppress(PyflinklikeError, PoisonError),
                KeyedBatchHarness.of_failure(head + body, Totals(ttl=True)) as harness,
            ):
                harness.replay()


def test_a_failure_snapshot_of_a_batch_has_a_bound():
    """Beyond it there is none, as there is none where none is wanted."""
    for most in (0, 500):
        letters = DeadLetters(DEAD, at_most=9, per="batch", snapshot_bytes=most)
        *_, (letter,) = run(Totals(), [[("a", 3)], [("a", -1)]], letters)
        assert letter["failure_snapshot"] is None


def test_a_letter_of_a_batch_has_the_columns_of_other_letters():
    """The key's by its name; the record as its subject; a failure snapshot, if it is not too large."""
    *_, (record, timer) = run(Totals(), [[("a", 7), ("b", -1), ("c", 4)], 30], MANY)
    assert ("b", "Totals", "process_batch", 1, "PoisonError", "1", True) == (
        record["key"],
        record["operator"],
        record["call"],
        record["timestamp"],
        record["error_class"],
        record["message"],
        len(record["failure_snapshot"]) > 100,
    )
    assert ("a", "on_timers", "27", 27) == (
        timer["key"],
        timer["call"],
        timer["subject"],
        timer["timestamp"],
    )
    assert "in process_batch" in record["raised_at"]


def test_one_of_a_big_batch_costs_few_calls():
    """Twice the logarithm of its length; of k that raise, k times as many at most."""
    for poison, most in (([-1], 23), ([-1, -2], 45)):
        function = Totals()
        batch = [("a", each % 5) for each in range(2_000)]
        for at, number in enumerate(poison):
            batch[700 * (at + 1)] = ("a", number)
        *_, letters = run(function, [batch], MANY)
        assert (len(poison), True) == (len(letters), function.calls <= most), function.calls


def test_a_batch_of_which_all_raise_fails_soon_by_a_number():
    """At the first letter above the bound, and not when each record has been tried."""
    function = Totals()
    with pytest.raises(UserFunctionError, match=r"takes at most 20 records .*got 21 in a task"):
        run(function, [[("a", -1)] * 2_000], DeadLetters(DEAD, at_most=20, per="batch"))
    assert function.calls < 100


def test_a_letter_of_a_batch_tells_of_its_record_alone():
    """Not of the larger batches that raised before it; each two of which cost two calls."""
    function = Totals()
    *_, letters = run(function, [[("a", -1)] * 64], MANY)
    assert (127, {1}) == (
        function.calls,
        {each["traceback"].count("Traceback") for each in letters},
    )
