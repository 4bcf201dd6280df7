# SPDX-License-Identifier: Apache-2.0
"""What fits a type, what is stored of it, and what is refused."""

from __future__ import annotations

import datetime as dt
import math
import threading
from array import array
from collections import OrderedDict, namedtuple
from decimal import Decimal
from enum import IntEnum

import numpy as np
import pandas as pd
import pytest
from type_support import DOUBLE, INTEGRAL, LONG, PICKLED, STRING

from pyflinklike.errors import StateValueError
from pyflinklike.types import Types
from pyflinklike.types.key_codec import AnyKeyTypeInfo
from pyflinklike.types.row import Row

NULLABLE = [
    STRING,
    Types.BIG_INT(),
    Types.BIG_DEC(),
    Types.INSTANT(),
    Types.SQL_DATE(),
    Types.SQL_TIME(),
    Types.SQL_TIMESTAMP(),
    PICKLED,
]
NOT_NULLABLE = [
    *(type_info for type_info, _ in INTEGRAL),
    Types.FLOAT(),
    DOUBLE,
    Types.BOOLEAN(),
    Types.CHAR(),
    Types.ROW([LONG]),
    Types.TUPLE([LONG]),
    Types.LIST(LONG),
    Types.MAP(LONG, LONG),
    Types.PRIMITIVE_ARRAY(LONG),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.BASIC_ARRAY(LONG),
    AnyKeyTypeInfo(),
    Types.OBJECT_ARRAY(LONG),
]


@pytest.mark.parametrize(("type_info", "bits"), INTEGRAL, ids=str)
def test_ints_keep_to_their_range(type_info, bits):
    """The bounds fit, and one beyond either does not."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert [low, high] == [type_info.freeze(low), type_info.freeze(high)]
    for beyond in (low - 1, high + 1):
        with pytest.raises(StateValueError, match=rf"-2\*\*{bits - 1}\.\.2\*\*{bits - 1}-1"):
            type_info.freeze(beyond)


def test_messages_have_rule_got_and_remedy():
    """A misfit names the type, what it takes, what it got, and what to do."""
    with pytest.raises(
        StateValueError,
        match=r"^type Long takes an int in -2\*\*63\.\.2\*\*63-1, got 'x' \(str\); ",
    ):
        LONG.freeze("x")


@pytest.mark.parametrize("type_info", [t for t, _ in INTEGRAL] + [Types.BIG_INT()], ids=str)
@pytest.mark.parametrize("value", [True, 1.0, "1", np.bool_(True), np.float64(1), b"1"])
def test_only_ints_are_ints(type_info, value):
    """A bool, a float and a text are no int."""
    with pytest.raises(StateValueError):
        type_info.freeze(value)


class Level(IntEnum):
    """An int with a name."""

    LOW = 1


@pytest.mark.parametrize(
    ("type_info", "value", "stored"),
    [
        (LONG, np.int64(5), 5),
        (LONG, np.uint8(5), 5),
        (LONG, Level.LOW, 1),
        (Types.BIG_INT(), np.int32(5), 5),
        (DOUBLE, np.float32(0.5), 0.5),
        (DOUBLE, np.float64(0.5), 0.5),
        (DOUBLE, 3, 3.0),
        (Types.FLOAT(), 3, 3.0),
        (Types.BOOLEAN(), np.bool_(True), True),
        (STRING, np.str_("x"), "x"),
        (Types.SQL_TIMESTAMP(), pd.Timestamp("2020-01-01"), dt.datetime(2020, 1, 1)),
        (Types.LIST(LONG), np.array([1, 2]), (1, 2)),
        (Types.LIST(LONG), array("q", [1, 2]), (1, 2)),
        (Types.MAP(STRING, LONG), OrderedDict(a=1), (("a", 1),)),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
    ],
)
def test_relatives_become_the_plain_class(type_info, value, stored):
    """Subclasses and numpy's scalars are stored as Python's own."""
    got = type_info.freeze(value)
    assert stored == got
    assert type(stored) is type(got)


@pytest.mark.parametrize("value", [np.datetime64(1, "ns"), np.timedelta64(1, "ns")])
def test_a_time_of_numpy_is_no_int(value):
    """NumPy's `item` makes one of a time in nanoseconds."""
    for type_info in (LONG, Types.BIG_INT(), DOUBLE):
        with pytest.raises(StateValueError):
            type_info.freeze(value)


def test_an_int_becomes_a_float_that_is_equal_to_it():
    """Of 64 or of 32 bits; one that would be rounded is refused, and the message says how to round."""
    for type_info, most in ((DOUBLE, 2**53), (Types.FLOAT(), 2**24)):
        assert [most, most * 2] == [type_info.freeze(most), type_info.freeze(most * 2)]
        with pytest.raises(StateValueError, match=r"round it with float\(\.\.\.\)"):
            type_info.freeze(most + 1)


@pytest.mark.parametrize("value", [1, 0, "True", None, 1.0])
def test_only_bools_are_booleans(value):
    """No number stands for a truth value."""
    with pytest.raises(StateValueError):
        Types.BOOLEAN().freeze(value)


@pytest.mark.parametrize("type_info", [Types.FLOAT(), DOUBLE], ids=str)
@pytest.mark.parametrize("value", [True, "1.0", 10**400, None, Decimal(1)])
def test_only_numbers_are_floats(type_info, value):
    """A bool, a text and an int beyond all floats are refused."""
    with pytest.raises(StateValueError):
        type_info.freeze(value)


def test_floats_are_rounded_at_once():
    """FLOAT reads as it will after a restart, and refuses what has no such form."""
    assert 0.10000000149011612 == Types.FLOAT().freeze(0.1)
    assert math.inf == Types.FLOAT().freeze(math.inf)
    with pytest.raises(StateValueError, match="32 bits"):
        Types.FLOAT().freeze(1e39)


def test_there_is_one_nan_and_a_negative_zero():
    """Every NaN is one object; -0.0 keeps its sign as a value and loses it as a key."""
    for type_info in (Types.FLOAT(), DOUBLE, PICKLED):
        assert math.nan is type_info.freeze(float("nan"))
        assert -1.0 == math.copysign(1, type_info.freeze(-0.0))
    for type_info in (Types.FLOAT(), DOUBLE):
        assert 1.0 == math.copysign(1, type_info.freeze_key(-0.0))
        assert math.nan is type_info.freeze_key(float("nan"))
    assert PICKLED.freeze_key(0.0) == PICKLED.freeze_key(-0.0)
    assert PICKLED.freeze_key(float("nan")) == PICKLED.freeze_key(-math.nan)


@pytest.mark.parametrize("type_info", NULLABLE, ids=str)
def test_none_fits_where_flink_takes_it(type_info):
    """These types take None as a value, and never as a key."""
    assert type_info.accepts_none
    assert type_info.freeze(None) is None
    assert type_info.thaw(None) is None
    with pytest.raises(StateValueError):
        type_info.freeze_key(None)


@pytest.mark.parametrize("type_info", NOT_NULLABLE, ids=str)
def test_none_is_refused_elsewhere(type_info):
    """These types take None neither as a value nor as a key."""
    assert not type_info.accepts_none
    with pytest.raises(StateValueError):
        type_info.freeze(None)
    with pytest.raises(StateValueError):
        type_info.freeze_key(None)


@pytest.mark.parametrize("count", range(1, 6))
def test_every_field_is_frozen_by_its_own_type(count):
    """However many there are: each may be None, is checked and is named where it does not fit."""
    types = [LONG, Types.DOUBLE(), Types.LIST(LONG), Types.BOOLEAN(), STRING][:count]
    fields, frozen = (1, 4, [2], True, "a")[:count], (1, 4.0, (2,), True, "a")[:count]
    type_info = Types.TUPLE(types)
    assert frozen == type_info.freeze(fields) == type_info.freeze_key(list(fields))
    for i in range(count):
        without = (*frozen[:i], None, *frozen[i + 1 :])
        assert without == type_info.freeze((*fields[:i], None, *fields[i + 1 :]))
        assert without == Types.ROW(types).freeze([*fields[:i], None, *fields[i + 1 :]])
        with pytest.raises(StateValueError, match=f"field {i} of .* got <object"):
            type_info.freeze((*fields[:i], object(), *fields[i + 1 :]))


def test_none_inside_follows_the_container():
    """None is a field of any row or tuple, an element only where its type takes it."""
    assert Row(f0=None) == Types.ROW([LONG]).freeze((None,))
    assert (None,) == Types.TUPLE([Types.LIST(LONG)]).freeze((None,))
    assert ("a", None) == Types.LIST(STRING).freeze(["a", None])
    assert (None,) == Types.BASIC_ARRAY(LONG).freeze([None])
    assert (("a", None),) == Types.MAP(STRING, STRING).freeze({"a": None})
    for type_info, value in [
        (Types.LIST(LONG), [None]),
        (Types.PRIMITIVE_ARRAY(LONG), [None]),
        (Types.MAP(LONG, LONG), {1: None}),
        (Types.MAP(STRING, LONG), {None: 1}),
    ]:
        with pytest.raises(StateValueError):
            type_info.freeze(value)


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (STRING, b"x"),
        (STRING, "\ud800"),
        (Types.CHAR(), ""),
        (Types.CHAR(), "ab"),
        (Types.BIG_DEC(), 1.5),
        (Types.BIG_DEC(), Decimal("NaN")),
        (Types.BIG_DEC(), True),
        (Types.INSTANT(), dt.datetime(2020, 1, 1)),
        (Types.SQL_DATE(), dt.datetime(2020, 1, 1)),
        (Types.SQL_TIME(), dt.time(1, tzinfo=dt.timezone.utc)),
        (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)),
        (Types.SQL_TIMESTAMP(), dt.date(2020, 1, 1)),
        (Types.SQL_TIMESTAMP(), pd.NaT),
        (Types.LIST(STRING), "abc"),
        (Types.LIST(LONG), {1, 2}),
        (Types.LIST(LONG), iter([1])),
        (Types.MAP(LONG, LONG), [(1, 2)]),
        (Types.TUPLE([LONG]), (1, 2)),
        (Types.TUPLE([LONG]), 1),
        (Types.ROW([LONG]), (1, 2)),
        (Types.ROW_NAMED(["a"], [LONG]), {"b": 1}),
        (Types.ROW_NAMED(["a"], [LONG]), Row(b=1)),
        (Types.ROW_NAMED(["a"], [LONG]), namedtuple("Other", ["b"])(1)),
        (Types.LIST(LONG), Row(a=1)),
        (Types.LIST(LONG), bytearray(b"a")),
        (Types.SQL_TIMESTAMP(), pd.Timestamp(1)),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1, 2]),
        (PICKLED, threading.Lock()),
        (PICKLED, lambda: 0),
    ],
)
def test_misfits_are_refused(type_info, value):
    """What a type cannot hold is a StateValueError that names the type."""
    with pytest.raises(StateValueError, match="takes"):
        type_info.freeze(value)


def test_errors_inside_name_the_field():
    """A misfit deep inside tells the field and the type it is in."""
    type_info = Types.LIST(Types.ROW_NAMED(["user", "amount"], [STRING, LONG]))
    with pytest.raises(StateValueError, match=r"an element of .*field 'amount' of .*type Long"):
        type_info.freeze([("a", 1), ("b", "2")])


@pytest.mark.parametrize(
    "value",
    [
        Row(a=1, b="x"),
        Row(b="x", a=1),
        Row(1, "x"),
        (1, "x"),
        [1, "x"],
        {"b": "x", "a": 1},
        namedtuple("Turned", ["b", "a"])("x", 1),
    ],
)
def test_rows_take_many_forms(value):
    """A named row, an unnamed one, a tuple, a list and a dict all become the same row."""
    assert Row(a=1, b="x") == Types.ROW_NAMED(["a", "b"], [LONG, STRING]).freeze(value)


def test_rows_without_names_go_by_position():
    """ROW names its fields f0, f1 and takes any row by position."""
    type_info = Types.ROW([LONG, STRING])
    assert ["f0", "f1"] == type_info.get_field_names()
    assert Row(f0=1, f1="x") == type_info.freeze(Row(b=1, a="x"))


def test_a_stored_row_cannot_be_renamed():
    """The row that thaw hands out as it is keeps its names."""
    type_info = Types.ROW([LONG])
    row = type_info.thaw(type_info.freeze((1,)))
    with pytest.raises(ValueError, match="keeps its names"):
        row.set_field_names(["a"])
