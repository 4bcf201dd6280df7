# SPDX-License-Identifier: Apache-2.0
"""State as columns: what is put is got, what does not fit is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.errors import (
    StateAccessError,
    StateValueError,
)
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.testing.strategies import values_of

KEYS = {"k": ["a", "b"]}


class Held(KeyedBatchFunction):
    """Does what a test says with a state."""

    def __init__(self, type_info, act):
        self.type_info = type_info
        self.act = act

    def open(self, ctx):
        self.state = ctx.get_column_state(ValueStateDescriptor("held", self.type_info))

    def process_batch(self, batch, ctx):
        self.act(self.state, batch)


class HeldPerKey(KeyedProcessFunction):
    """The same state, read and written key by key."""

    def __init__(self, type_info):
        self.type_info = type_info

    def open(self, ctx):
        self.state = ctx.get_state(ValueStateDescriptor("held", self.type_info))

    def process_element(self, value, ctx):
        if "v" in value:
            self.state.update(value["v"])
        yield self.state.value()


def done(type_info, act, batch=KEYS):
    """The harness after one batch in which `act` was called with the state and the batch."""
    harness = KeyedBatchHarness(Held(type_info, act), "k")
    harness.process_batch(batch)
    return harness


SCALARS = [
    Types.BYTE(),
    Types.SHORT(),
    Types.INT(),
    Types.LONG(),
    Types.FLOAT(),
    Types.DOUBLE(),
    Types.BOOLEAN(),
    Types.STRING(),
    Types.CHAR(),
    Types.SQL_DATE(),
    Types.SQL_TIMESTAMP(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
]


@pytest.mark.parametrize("type_info", SCALARS, ids=repr)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 3 + 1)
def test_both_kinds_of_functions_read_each_others_state(type_info, data):
    """What one puts the other gets, of every type that a column can have."""
    values = data.draw(st.lists(values_of(type_info), min_size=1, max_size=5))
    values = [each for each in values if each is not None]
    keys = [f"k{at}" for at in range(len(values))]
    with KeyedProcessHarness(HeldPerKey(type_info), lambda row: row["k"]) as rows:
        for key, value in zip(keys, values):
            rows.process_element({"k": key, "v": value})
        first = rows.snapshot()
        expected = [rows.process_element({"k": key})[0] for key in keys]

    def again(state, batch):
        got = state.get(values[0]) if len(values) else state.get()
        state.clear()
        state.put(got)

    columns = KeyedBatchHarness(Held(type_info, again), "k", restore=first)
    columns.process_batch({"k": pa.array(keys, pa.string())})
    with KeyedProcessHarness(
        HeldPerKey(type_info), lambda row: row["k"], restore=columns.snapshot()
    ) as rows:
        got = [rows.process_element({"k": key})[0] for key in keys]

    assert list(map(repr, expected)) == list(map(repr, got))


def test_a_key_without_a_value_gets_the_default():
    """One for all, or one for each key."""
    seen = []

    def act(state, batch):
        state.put(np.array([7, 8]), where=np.array([True, False]))
        seen.append(state.get(0).tolist())
        seen.append(state.get(np.array([1, 2])).tolist())
        seen.append(state.arrow().to_pylist())
        seen.append(state.exists().tolist())
        state.clear(np.array([True, False]))
        seen.append(state.get(-1).tolist())

    done(Types.LONG(), act)

    assert [[7, 0], [7, 2], [7, None], [True, False], [-1, -1]] == seen


def test_what_was_got_is_the_callers_own():
    """Changing it changes no state."""
    seen = []

    def act(state, batch):
        state.put(np.array([1, 2]))
        mine = state.get(0)
        mine[:] = 9
        given_in = np.array([3, 4])
        state.put(given_in)
        given_in[:] = 9
        seen.append(state.get(0).tolist())

    done(Types.LONG(), act)

    assert [[3, 4]] == seen


def test_tuples_and_rows_are_columns():
    """By place, and by name."""
    seen = []

    def act(state, batch):
        state.put((pa.array(["x", "y"]), [1, 2]))
        got = state.get(("", 0))
        seen.append((got.word.to_pylist(), got.count.tolist()))
        seen.append(tuple(got)[1].tolist())

    done(Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()]), act)

    assert [(["x", "y"], [1, 2]), [1, 2]] == seen


def test_a_null_within_a_tuple_is_shown_by_arrow_only():
    """NumPy has no nulls, and a made-up value would be a wrong result."""
    kind = Types.TUPLE([Types.LONG(), Types.STRING()])
    with KeyedProcessHarness(HeldPerKey(kind), lambda row: row["k"]) as rows:
        rows.process_element({"k": "a", "v": (None, None)})
        snapshot = rows.snapshot()
    seen = []

    def act(state, batch):
        seen.append(state.arrow().to_pylist())
        with pytest.raises(StateValueError, match="NumPy columns, which have no nulls"):
            state.get((0, ""))

    KeyedBatchHarness(Held(kind, act), "k", restore=snapshot).process_batch(KEYS)

    assert [[{"f0": None, "f1": None}, None]] == seen


REFUSED = {
    "float as int": (Types.LONG(), [1.5, 2.5]),
    "beyond int32": (Types.INT(), [2**31, 0]),
    "beyond int64": (Types.LONG(), [2**63, 0]),
    "bool as int": (Types.LONG(), [True, False]),
    "int as bool": (Types.BOOLEAN(), [1, 0]),
    "beyond float32": (Types.FLOAT(), [1e300, 0.0]),
    "text as float": (Types.DOUBLE(), ["a", "b"]),
    "none": (Types.LONG(), [1, None]),
    "null": (Types.LONG(), pa.array([1, None])),
    "null text": (Types.STRING(), pa.array(["a", None])),
    "int as text": (Types.STRING(), [1, 2]),
    "bytes as text": (Types.STRING(), [b"a", b"b"]),
    "two characters": (Types.CHAR(), ["ab", "c"]),
    "no time": (Types.SQL_TIMESTAMP(), np.array(["NaT", "2020"], "datetime64[us]")),
    "nanoseconds": (Types.SQL_TIMESTAMP(), np.array([1, 2], "datetime64[ns]")),
    "year 10000": (Types.SQL_DATE(), np.array(["10000-01-01", "2020-01-01"], "datetime64[D]")),
    "too few": (Types.LONG(), [1]),
    "masked": (Types.LONG(), np.ma.masked_array([1, 2], [True, False])),
    "two dimensions": (Types.LONG(), [[1], [2]]),
    "a field too few": (Types.TUPLE([Types.LONG(), Types.LONG()]), ([1, 2],)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what):
    """By the name of the state, and nothing is stored."""
    type_info, values = REFUSED[what]

    def act(state, batch):
        with pytest.raises(StateValueError, match="'held'"):
            state.put(values)

    assert 0 == done(type_info, act).num_keyed_state_entries("held")


def test_every_nan_is_one_and_minus_zero_stays():
    """As the values of a function of elements."""
    odd = np.array([np.float64("nan"), -0.0])
    odd[:1].view(np.uint64)[0] |= 0x8000000000000001
    seen = []

    def act(state, batch):
        state.put(odd)
        seen.append(state.get(0.0).view(np.uint64).tolist())

    done(Types.DOUBLE(), act)

    assert [np.array([np.nan, -0.0]).view(np.uint64).tolist()] == seen


def test_a_missing_default_is_told():
    """Where a number has no null."""

    def act(state, batch):
        with pytest.raises(StateValueError, match="got no default and 2 such keys"):
            state.get()

    done(Types.LONG(), act)


@pytest.mark.parametrize("where", [[1, 0], [True], True, ["a", "b"]])
def test_where_is_a_bool_for_each_key(where):
    """Anything else would choose other keys than meant."""

    def act(state, batch):
        with pytest.raises(StateValueError, match="where"):
            state.put(1, where)

    done(Types.LONG(), act)


def test_state_is_there_while_a_batch_is_processed():
    """And no longer."""
    held = []
    done(Types.LONG(), lambda state, batch: held.append(state))

    with pytest.raises(StateAccessError, match="while process_batch or on_timers runs"):
        held[0].get(0)
