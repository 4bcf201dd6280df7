# SPDX-License-Identifier: Apache-2.0
"""Columnar functions and functions of elements: the same on one log, wherever batches are cut."""

from __future__ import annotations

import datetime as dt

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchFunction
from pyflinklike.columns.cuts import check_alternating, check_cuts, cuts_of
from pyflinklike.testing.strategies import ttl_configs

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_KEYS = {
    "strings": (st.lists(_TEXT | st.sampled_from("ab")), pa.string(), Types.STRING()),
    "ints": (st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)), pa.int64(), None),
    "declared ints": (st.lists(st.integers(-3, 3)), pa.int32(), Types.LONG()),
    "bools": (st.lists(st.booleans()), pa.bool_(), Types.BOOLEAN()),
    "floats": (st.lists(st.sampled_from([0.0, -0.0, 1.0, float("nan")])), pa.float64(), None),
    "timestamps": (
        st.lists(st.sampled_from([dt.datetime(2020, 1, 1), dt.datetime(1, 1, 1)])),
        pa.timestamp("us"),
        None,
    ),
    "dates": (st.lists(st.dates(max_value=dt.date(1, 1, 3))), pa.date32(), None),
    "bytes": (st.lists(st.binary(max_size=2)), pa.binary(), None),
}


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0.0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def descriptors(ttl=None):
    """A count, a sum, an average, the last word, and the first one, which is written once."""
    made = [
        ValueStateDescriptor("count", Types.LONG()),
        ReducingStateDescriptor("sum", Add(), Types.DOUBLE()),
        AggregatingStateDescriptor(
            "average", Average(), Types.TUPLE([Types.DOUBLE(), Types.LONG()])
        ),
        ValueStateDescriptor("word", Types.STRING()),
        ValueStateDescriptor("first", Types.STRING()),
    ]
    for each in made:
        each.enable_time_to_live(ttl)
    return made


class InColumns(KeyedBatchFunction):
    """Running count, sum and average, and the word before; a word "x" clears."""

    ttl = None
    keeps_first = True

    def open(self, ctx):
        self.count, self.sum, self.average, self.word, self.first = map(
            ctx.get_column_state, descriptors(self.ttl)
        )

    def process_batch(self, batch, ctx):
        groups, value = batch.groups, batch.numpy("value")
        count = groups.spread(self.count.get(0)) + groups.rank() + 1
        self.count.put(groups.last(count))
        # A sum begins with the first value, as a ReducingState's does: 0.0 + -0.0 is not -0.0.
        total = groups.running(np.add, value, self.sum.get(-0.0))
        self.sum.put(groups.last(total))
        sums, counts = self.average.get((0.0, 0))
        added = groups.running(np.add, value, sums)
        number = groups.spread(counts) + groups.rank() + 1
        self.average.put((groups.last(added), groups.last(number)))
        former = self.word.get("")
        last = groups.last(batch["word"])
        is_x = np.array(last.to_pylist()) == "x"
        self.word.put(last, where=~is_x)
        self.word.clear(is_x)
        before = self._words_before(batch, former)
        first = groups.spread(self._first_words(groups, batch["word"]))
        return {"n": count, "sum": total, "avg": added / number, "before": before, "first": first}

    def _first_words(self, groups, words):
        if not self.keeps_first:
            return pa.array([""] * len(groups))
        known = self.first.get()
        self.first.put(groups.first(words), where=known.is_null().to_numpy(zero_copy_only=False))
        return pc.coalesce(known, groups.first(words))

    def _words_before(self, batch, former):
        words, seen = [], former.to_pylist()
        for at, word in zip(batch.groups.codes.tolist(), batch["word"].to_pylist()):
            words.append(seen[at])
            seen[at] = "" if word == "x" else word
        return words


class ByElement(KeyedProcessFunction):
    """The same."""

    ttl = None
    keeps_first = True

    def open(self, ctx):
        count, total, average, word, first = descriptors(self.ttl)
        self.first = ctx.get_state(first)
        self.count, self.word = ctx.get_state(count), ctx.get_state(word)
        self.sum = ctx.get_reducing_state(total)
        self.average = ctx.get_aggregating_state(average)

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.sum.add(value.value)
        self.average.add(value.value)
        before = self.word.value() or ""
        if value.word == "x":
            self.word.clear()
        else:
            self.word.update(value.word)
        first = self.first.value() if self.keeps_first else ""
        if first is None:
            first = value.word
            self.first.update(first)
        yield count, self.sum.get(), self.average.get(), before, first


def table(keys, kind, floats, timeless=0) -> pa.Table:
    """Records with these keys, some of them without a time."""
    count = len(keys)
    times = [None] * timeless + list(range(0, 20 * count, 20))
    values = [floats[at % len(floats)] for at in range(count)]
    return pa.table(
        {
            "key": pa.array(keys, kind),
            "value": pa.array(values, pa.float64()),
            "word": pa.array([("", "x", "y", "zebra")[at % 4] for at in range(count)], pa.string()),
            "at": pa.array(times[:count], pa.int64()),
        }
    )


NEVER_EXPIRED = StateTtlConfig.StateVisibility.NeverReturnExpired
ON_READ = StateTtlConfig.UpdateType.OnReadAndWrite
EVENT_TIME = StateTtlConfig.TtlTimeCharacteristic.EventTime
FLOATS = st.lists(st.floats(allow_nan=False, width=64), min_size=1, max_size=9)


@pytest.mark.parametrize("kind", _KEYS)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 5)
def test_both_are_one_function(kind, data):
    """On one log in turns, each reading what the other has written."""
    keys, arrow, key_type = _KEYS[kind]
    records = table(data.draw(keys), arrow, data.draw(FLOATS))
    cuts = data.draw(cuts_of(records.num_rows))

    check_alternating(InColumns, ByElement, records, "key", cuts, key_type=key_type)


@given(data=st.data())
@settings(max_examples=settings().max_examples // 5)
def test_cuts_do_not_matter(data):
    """Nor how many there are."""
    records = table(data.draw(st.lists(st.sampled_from("abc"))), pa.string(), data.draw(FLOATS))

    check_cuts(InColumns, records, "key", data.draw(cuts_of(records.num_rows)))


@given(data=st.data())
@settings(max_examples=settings().max_examples // 5)
def test_keys_of_two_columns_are_one_function(data):
    """Nulls among them."""
    first = data.draw(st.lists(st.none() | st.sampled_from("ab")))
    records = table(first, pa.string(), data.draw(FLOATS))
    second = [at % 3 or None for at in range(records.num_rows)]
    records = records.append_column("second", pa.array(second, pa.int64()))
    cuts = data.draw(cuts_of(records.num_rows))
    key_type = data.draw(st.sampled_from([None, Types.TUPLE([Types.STRING(), Types.LONG()])]))

    check_alternating(InColumns, ByElement, records, ("key", "second"), cuts, key_type=key_type)


@given(data=st.data())
@settings(max_examples=settings().max_examples // 5)
def test_both_expire_alike(data):
    """In every kind of TTL, by either time; background cleanup may leave more to one of them."""
    config = data.draw(ttl_configs(background=False))
    if data.draw(st.booleans()):
        # In a batch a key is written at its latest record, and not at the one that wrote: under
        # OnReadAndWrite the later ones renew its stamp anyway.
        config = attrs.evolve(config, ttl_time_characteristic=EVENT_TIME, update_type=ON_READ)
    # An expired entry that may be seen is seen once: by one record, or by one batch.
    own = {"ttl": config, "keeps_first": config.get_state_visibility() is NEVER_EXPIRED}
    by_element = type("ByElementTtl", (ByElement,), own)
    in_columns = type("InColumnsTtl", (InColumns,), own)
    keys = data.draw(st.lists(st.sampled_from("abcd")))
    records = table(keys, pa.string(), [1.5, 2.5], data.draw(st.integers(0, 5)))
    cuts = data.draw(cuts_of(records.num_rows))
    between = data.draw(st.sampled_from([0, 1, config.ttl_ms - 1, config.ttl_ms]))

    check_alternating(
        in_columns,
        by_element,
        records,
        "key",
        cuts,
        event_time="at",
        ms_between_batches=min(between, 2**40),
    )


class Forgets(InColumns):
    """A function with a bug: it counts from 1 in every batch."""

    def process_batch(self, batch, ctx):
        return {"n": batch.groups.rank() + 1}


class CountsElements(KeyedProcessFunction):
    """What it should be."""

    def open(self, ctx):
        self.count = ctx.get_state(descriptors()[0])

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield (self.count.value(),)


RECORDS = table(["a", "a", "b", "a"], pa.string(), [1.0])


def test_a_function_that_depends_on_the_cuts_is_found():
    """And where it differs first."""
    check_cuts(Forgets, RECORDS, "key", [])
    with pytest.raises(AssertionError, match=r"row 1: in one batch \(2,\), cut at \[1\] \(1,\)"):
        check_cuts(Forgets, RECORDS, "key", [1])


def test_two_functions_that_differ_are_found():
    """By their rows, or by their state."""
    with pytest.raises(AssertionError, match="row 3"):
        check_alternating(Forgets, CountsElements, RECORDS, "key", [2])
    with pytest.raises(AssertionError, match="state"):
        check_alternating(Forgets, CountsElements, RECORDS, "key", [])
