# SPDX-License-Identifier: Apache-2.0
"""Map state in columns: the maps of functions of elements, on one log."""

from __future__ import annotations

import datetime as dt

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike import (
    KeyedProcessFunction,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.columns.cuts import check_alternating, cuts_of
from pyflinklike.errors import DeclarationTypeError, StateAccessError, StateValueError
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.testing.strategies import ttl_configs, values_of

EVENT_TIME = StateTtlConfig.TtlTimeCharacteristic.EventTime
ON_READ = StateTtlConfig.UpdateType.OnReadAndWrite
NEVER_EXPIRED = StateTtlConfig.StateVisibility.NeverReturnExpired


def descriptor(ttl=None):
    """How often each word came, up to three."""
    made = MapStateDescriptor("words", Types.STRING(), Types.LONG())
    made.enable_time_to_live(ttl)
    return made


class ByElement(KeyedProcessFunction):
    """Counts each key's words; the third of a kind removes it, and timers tell and clear all."""

    ttl = None
    has_timers = True

    def open(self, ctx):
        self.words = ctx.get_map_state(descriptor(self.ttl))

    def process_element(self, value, ctx):
        count = (self.words.get(value.word) or 0) + 1
        if count == 3:
            self.words.remove(value.word)
        else:
            self.words.put(value.word, count)
        if self.has_timers:
            ctx.timer_service().register_event_time_timer(value.at + 2)
        yield ctx.get_current_key(), value.word, count

    def on_timer(self, timestamp, ctx):
        told = sorted(self.words.items())
        if timestamp % 3 == 0:
            self.words.clear()
        if timestamp % 4 == 0:
            self.words.put("timer", timestamp)
        yield ctx.get_current_key(), repr(told), timestamp


class InColumns(KeyedBatchFunction):
    """The same."""

    ttl = None
    has_timers = True

    def open(self, ctx):
        self.words = ctx.get_column_map_state(descriptor(self.ttl))

    def process_batch(self, batch, ctx):
        words = self.words.at(batch["word"])
        groups = words.groups
        count = (groups.spread(words.get(0)) + groups.rank()) % 3 + 1
        last = groups.last(count)
        words.put(last, where=last < 3)
        words.remove(last == 3)
        if self.has_timers:
            at = batch.numpy("at") + 2
            ctx.timer_service().register_event_time_timer(at, codes=batch.groups.codes)
        return {"key": batch["key"], "word": batch["word"], "n": count}

    def on_timers(self, batch, ctx):
        items, at = self.words.items(), batch.timestamps
        told = [[] for _ in range(len(batch))]
        for code, word, n in zip(items.codes, items.user_keys.to_pylist(), items.values.tolist()):
            told[code].append((word, n))
        self.words.clear(at % 3 == 0)
        codes = np.flatnonzero(at % 4 == 0)
        self.words.at("timer", codes=codes).put(at[codes])
        return {"key": batch["key"], "told": [repr(sorted(each)) for each in told], "n": at}


def records_of(data) -> pa.Table:
    """Few keys and words, so that each comes again."""
    pairs = data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"))))
    keys, words = zip(*pairs) if pairs else ((), ())
    return pa.table(
        {
            "key": pa.array(keys, pa.string()),
            "word": pa.array(words, pa.string()),
            "at": pa.array(range(len(keys)), pa.int64()),
        }
    )


@given(data=st.data())
@settings(max_examples=settings().max_examples // 4)
def test_both_are_one_function(data):
    """In turns on one log: counted, removed, cleared and put again, told by timers."""
    records = records_of(data)
    cuts = data.draw(cuts_of(records.num_rows))

    check_alternating(InColumns, ByElement, records, "key", cuts, event_time="at")


@given(data=st.data())
@settings(max_examples=settings().max_examples // 4)
def test_both_expire_alike(data):
    """Each entry by itself, in every kind of TTL; background cleanup may leave more to one."""
    config = data.draw(ttl_configs(background=False))
    config = attrs.evolve(config, state_visibility=NEVER_EXPIRED)
    if data.draw(st.booleans()):
        config = attrs.evolve(config, ttl_time_characteristic=EVENT_TIME, update_type=ON_READ)
    own = {"ttl": config, "has_timers": data.draw(st.booleans())}
    records = records_of(data)

    check_alternating(
        type("InColumnsTtl", (InColumns,), own),
        type("ByElementTtl", (ByElement,), own),
        records,
        "key",
        data.draw(cuts_of(records.num_rows)),
        event_time="at",
        ms_between_batches=min(data.draw(st.sampled_from([1, config.ttl_ms])), 2**40),
    )


class Held(KeyedBatchFunction):
    """Does what a test says with a map."""

    def __init__(self, act, key_type=None, value_type=None):
        self.act = act
        self.types = key_type or Types.STRING(), value_type or Types.LONG()

    def open(self, ctx):
        self.map = ctx.get_column_map_state(MapStateDescriptor("held", *self.types))

    def process_batch(self, batch, ctx):
        return self.act(self.map, batch)


class HeldPerKey(KeyedProcessFunction):
    """The same map, read and written key by key."""

    def __init__(self, key_type, value_type):
        self.types = key_type, value_type

    def open(self, ctx):
        self.map = ctx.get_map_state(MapStateDescriptor("held", *self.types))

    def process_element(self, value, ctx):
        for user_key, put in value["put"]:
            self.map.put(user_key, put)
        yield [(user_key, put) for user_key, put in self.map.items()]


USER_KEYS = [
    Types.INT(),
    Types.LONG(),
    Types.BOOLEAN(),
    Types.STRING(),
    Types.CHAR(),
    Types.SQL_DATE(),
    Types.SQL_TIMESTAMP(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
]
VALUES = [Types.DOUBLE(), Types.STRING(), Types.TUPLE([Types.LONG(), Types.STRING()])]


@pytest.mark.parametrize("user_key", USER_KEYS, ids=repr)
@pytest.mark.parametrize("value", VALUES, ids=repr)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 5)
def test_both_kinds_of_functions_read_each_others_maps(user_key, value, data):
    """What one puts the other gets, of every type that a user key can have."""
    user_keys = data.draw(st.lists(values_of(user_key), min_size=1, max_size=4))
    values = data.draw(st.lists(values_of(value), min_size=4, max_size=4))
    pairs = [
        (key, put)
        for key, put in zip(user_keys, values)
        if key is not None
        and put is not None
        and put != (put,)
        and None not in (put if isinstance(put, tuple) else (put,))
    ]
    with KeyedProcessHarness(HeldPerKey(user_key, value), lambda row: row["k"]) as rows:
        (expected,) = rows.process_element({"k": "a", "put": pairs})
        snapshot = rows.snapshot()

    def again(state, batch):
        items = state.items()
        state.clear()
        state.at(items.user_keys, codes=items.codes).put(items.values)

    columns = KeyedBatchHarness(Held(again, user_key, value), "k", restore=snapshot)
    columns.process_batch({"k": ["a"]})
    with KeyedProcessHarness(
        HeldPerKey(user_key, value), lambda row: row["k"], restore=columns.snapshot()
    ) as rows:
        (got,) = rows.process_element({"k": "a", "put": []})
    assert sorted(map(repr, expected)) == sorted(map(repr, got))


KEYS = {"k": ["a", "b", "a"], "w": ["x", "x", "y"]}


def done(act, batch=None, **types):
    """The harness after one batch in which `act` was called with the map and the batch."""
    harness = KeyedBatchHarness(Held(act, **types), "k")
    harness.process_batch(batch or KEYS)
    return harness


def told(items):
    """What a map has, by group."""
    return list(zip(items.codes.tolist(), items.user_keys.to_pylist(), items.values.tolist()))


def test_entries_are_read_and_written_by_pair():
    """Of records, of one user key for all, and of groups that are named."""
    seen = []

    def act(state, batch):
        words = state.at(batch["w"])
        words.put(np.array([1, 2, 3]))
        seen.append(words.groups.counts.tolist())
        seen.append(state.at("x", codes=np.array([1, 0, 1])).get().tolist())
        words.remove(np.array([False, True, False]))
        seen.append(state.at("x").get(-1).tolist())
        seen.append(state.at(["y", "z"], codes=[0, 1]).arrow().to_pylist())
        seen.append(state.is_empty().tolist())
        seen.append(told(state.items()))
        seen.append(told(state.items(np.array([False, True]))))
        state.clear(np.array([True, False]))
        seen.append(told(state.items()))
        state.at("z", codes=[0]).put(9)

    with done(act) as harness:
        assert 1 == harness.num_keyed_state_entries("held")
    assert [
        [1, 1, 1],
        [2, 1],
        [1, -1],
        [3, None],
        [False, True],
        [(0, "x", 1), (0, "y", 3)],
        [],
        [],
    ] == seen


@pytest.mark.parametrize(
    ("user_keys", "options", "why"),
    [
        ([1, 2, 3], {}, "takes values of String"),
        (["x", None, "y"], {}, "takes values of String"),
        (["x"], {}, "one value for each of the batch's 3"),
        (["x", "y"], {"codes": [0, 2]}, "numbers of the batch's 2 groups, from 0, got 0 to 2"),
        ("x", {"codes": [0.5]}, "codes are the numbers of groups"),
    ],
)
def test_what_is_no_user_key_is_refused(user_keys, options, why):
    """And nothing is written."""

    def act(state, batch):
        with pytest.raises(StateValueError, match=why):
            state.at(user_keys, **options)

    with done(act) as harness:
        assert 0 == harness.num_keyed_state_entries("held")


@pytest.mark.parametrize(
    "declare",
    [
        lambda ctx: ctx.get_column_map_state(ValueStateDescriptor("v", Types.LONG())),
        lambda ctx: ctx.get_column_map_state(MapStateDescriptor("m", Types.DOUBLE(), Types.LONG())),
        lambda ctx: ctx.get_column_map_state(
            MapStateDescriptor("m", Types.LONG(), Types.LIST(Types.LONG()))
        ),
        lambda ctx: ctx.get_column_map_state(
            MapStateDescriptor("m", Types.PICKLED_BYTE_ARRAY(), Types.LONG())
        ),
    ],
)
def test_a_map_that_has_no_columns_is_refused(declare):
    """In open, with what to use instead."""

    class Declares(Held):
        def open(self, ctx):
            declare(ctx)

    with pytest.raises(DeclarationTypeError, match=r"KeyedProcessFunction|MapStateDescriptor"):
        KeyedBatchHarness(Declares(None), "k")


def test_a_map_and_its_entries_end_with_the_call():
    """They are of its keys."""
    held = []
    done(lambda state, batch: held.extend([state, state.at("x")]))

    with pytest.raises(StateAccessError, match="while process_batch or on_timers runs"):
        held[0].items()
    with pytest.raises(StateAccessError, match="while process_batch or on_timers runs"):
        held[1].get(0)


def test_a_null_that_an_element_put_is_told_as_arrow():
    """NumPy has none, and is refused with what to use."""
    types = Types.STRING(), Types.SQL_DATE()
    with KeyedProcessHarness(HeldPerKey(*types), lambda row: row["k"]) as rows:
        rows.process_element({"k": "a", "put": [("x", None), ("y", dt.date(2020, 1, 1))]})
        snapshot = rows.snapshot()
    seen = []

    def act(state, batch):
        seen.append(state.at(["x", "y"], codes=[0, 0]).arrow().to_pylist())
        with pytest.raises(StateValueError, match=r"read the entries with at\(\.\.\.\)\.arrow\(\)"):
            state.items()

    KeyedBatchHarness(Held(act, *types), "k", restore=snapshot).process_batch({"k": ["a"]})
    assert [[None, dt.date(2020, 1, 1)]] == seen


def test_keys_and_entries_that_are_gone_are_forgotten():
    """A worker's memory follows what is there, and what is left is found."""

    def act(state, batch):
        words = state.at(batch["w"])
        words.put(batch.numpy("n"))
        words.remove(batch.numpy("n") % 100 > 0)

    numbers = np.arange(5_000)
    function = Held(act, value_type=Types.LONG())
    harness = KeyedBatchHarness(function, "k")
    batch = {"k": [f"k{n // 2}" for n in numbers], "w": [f"w{n}" for n in numbers], "n": numbers}
    harness.process_batch(batch)
    columns = harness._operator.backend.columns
    before = columns.nbytes
    columns.tables["held"].dirty[:] = False  # as after a commit
    columns.free()

    assert (50, 50) == (columns.index.count, columns.tables["held"].count)
    assert columns.nbytes < before / 10
    seen = []
    function.act = lambda state, batch: seen.append(state.at(batch["w"]).get(-1).tolist())
    harness.process_batch({"k": ["k50", "k50", "k2450"], "w": ["w100", "w101", "w4900"]})
    assert [[100, -1, 4900]] == seen
