# SPDX-License-Identifier: Apache-2.0
"""Types: what fits, what is stored, and that columns give back what they were given."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import threading
from array import array
from collections import OrderedDict
from decimal import Decimal
from enum import IntEnum

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
from pyflinklike.types import Instant, Pickled, Types
from pyflinklike.types.keys import AnyKeyTypeInfo
from pyflinklike.types.row import Row, row_class

LONG, STRING, DOUBLE, PICKLED = (
    Types.LONG(),
    Types.STRING(),
    Types.DOUBLE(),
    Types.PICKLED_BYTE_ARRAY(),
)
INTEGRAL = [(Types.BYTE(), 8), (Types.SHORT(), 16), (Types.INT(), 32), (LONG, 64)]
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


def _ints(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


OBJECTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=4,
)
SCALARS = [
    *((type_info, _ints(bits)) for type_info, bits in INTEGRAL),
    (Types.FLOAT(), st.floats(width=32)),
    (DOUBLE, st.floats()),
    (Types.BOOLEAN(), st.booleans()),
    (STRING, st.text()),
    (Types.CHAR(), st.characters(codec="utf-8")),
    (Types.BIG_INT(), st.integers() | st.integers(10**4_400, 10**4_500)),
    (Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False)),
    (Types.INSTANT(), st.builds(Instant, _ints(64), st.integers(0, 999_999_999))),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), st.times()),
    (Types.SQL_TIMESTAMP(), st.datetimes()),
    (PICKLED, OBJECTS),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
]


def _maybe(type_info, values):
    return st.none() | values if type_info.accepts_none else values


def _lists(make, part):
    type_info, values = part
    none_fits = make in (Types.BASIC_ARRAY, Types.OBJECT_ARRAY)
    elements = st.none() | values if none_fits else _maybe(type_info, values)
    return make(type_info), st.lists(elements, max_size=3)


def _maps(part):
    type_info, values = part
    keys = st.integers(-3, 3)
    return Types.MAP(LONG, type_info), st.dictionaries(keys, _maybe(type_info, values), max_size=3)


def _fields(parts):
    return st.tuples(*(st.none() | values for _, values in parts))


def _rows(parts):
    names = [f"field {i}" for i in range(len(parts))]
    row_type = Types.ROW_NAMED(names, [type_info for type_info, _ in parts])
    return row_type, _fields(parts).map(row_class(tuple(names))._make)


def _tuples(parts):
    return Types.TUPLE([type_info for type_info, _ in parts]), _fields(parts)


PARTS = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(lambda part: _lists(Types.LIST, part)),
        inner.map(lambda part: _lists(Types.OBJECT_ARRAY, part)),
        inner.map(_maps),
        st.lists(inner, max_size=3).map(_rows),
        st.lists(inner, max_size=3).map(_tuples),
    ),
    max_leaves=4,
)
COLUMNS = PARTS.flatmap(
    lambda part: st.tuples(st.just(part[0]), st.lists(_maybe(*part), max_size=5))
)


def _same(a, b):
    """Equal, NaN included, wherever it is."""
    return _key(a) == _key(b)


def _key(value):
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else repr(value))
    if isinstance(value, dict):
        return [(_key(k), _key(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return (type(value), [_key(part) for part in value])
    return (type(value), value)


def _is_immutable(stored):
    if isinstance(stored, tuple):
        return all(map(_is_immutable, stored))
    return stored is None or isinstance(stored, (int, float, str, bytes, Instant, dt.date, dt.time))


@settings(deadline=None)
@given(COLUMNS)
def test_thaw_gives_back_what_was_frozen(column):
    """A value survives freeze and thaw, and what is stored is immutable and hashable."""
    type_info, values = column
    for value in values:
        stored = type_info.freeze(value)
        assert _is_immutable(stored)
        hash(stored)
        assert _same(value, type_info.thaw(stored))
        assert stored == type_info.freeze(type_info.thaw(stored))
        if type_info.is_identity:
            assert stored is type_info.thaw(stored)


@settings(deadline=None)
@given(COLUMNS, st.booleans())
def test_columns_give_back_what_was_stored(column, with_null):
    """A column, also sliced, of the declared type holds the stored values, None as null."""
    type_info, values = column
    stored = [type_info.freeze(value) for value in values] + [None] * with_null
    written = type_info.to_arrow(stored)
    written.validate(full=True)
    assert type_info.arrow_type == written.type
    assert sum(value is None for value in stored) == written.null_count
    assert stored == type_info.from_arrow(written)
    assert _same(stored, type_info.from_arrow(written))
    assert stored[1:3] == type_info.from_arrow(written.slice(1, 2))
    assert [] == type_info.from_arrow(written.slice(0, 0))


@settings(deadline=None)
@given(COLUMNS)
def test_keys_survive_columns(column):
    """Keys are hashable and come back from a column equal, and of the same class."""
    type_info, values = column
    keys = [type_info.freeze_key(value) for value in values if value is not None]
    read = type_info.from_arrow(type_info.to_arrow(keys))
    assert keys == read
    assert list(map(hash, keys)) == list(map(hash, read))
    assert list(map(type, keys)) == list(map(type, read))
    for key in keys:
        assert key == type_info.freeze_key(type_info.thaw_key(key))


@settings(deadline=None, max_examples=30)
@given(PARTS)
def test_types_are_values(part):
    """A type is equal to its pickled copy, hashes alike and has the same signature."""
    type_info, _ = part
    other = pickle.loads(pickle.dumps(type_info))
    assert type_info == other
    assert hash(type_info) == hash(other)
    assert type_info.signature == other.signature
    assert type_info.arrow_type == other.arrow_type


@given(COLUMNS)
@settings(deadline=None, max_examples=30)
def test_columns_survive_arrow_files(column):
    """A column read from an IPC stream gives the same values."""
    type_info, values = column
    stored = [type_info.freeze(value) for value in values]
    batch = pa.record_batch([type_info.to_arrow(stored)], names=["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    read = pa.ipc.open_stream(sink.getvalue()).read_all()["value"].combine_chunks()
    assert stored == type_info.from_arrow(read)


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


def test_a_zero_loses_its_sign_in_a_key_of_fields_only():
    """A tuple as a value keeps -0.0."""
    type_info = Types.TUPLE([DOUBLE, LONG])
    assert ("(-0.0, 1)", "(0.0, 1)") == (
        repr(type_info.freeze((-0.0, 1))),
        repr(type_info.freeze_key((-0.0, 1))),
    )


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
    "value", [Row(a=1, b="x"), Row(b="x", a=1), Row(1, "x"), (1, "x"), [1, "x"], {"b": "x", "a": 1}]
)
def test_rows_take_many_forms(value):
    """A named row, an unnamed one, a tuple, a list and a dict all become the same row."""
    assert Row(a=1, b="x") == Types.ROW_NAMED(["a", "b"], [LONG, STRING]).freeze(value)


def test_rows_without_names_go_by_position():
    """ROW names its fields f0, f1 and takes any row by position."""
    type_info = Types.ROW([LONG, STRING])
    assert ["f0", "f1"] == type_info.get_field_names()
    assert Row(f0=1, f1="x") == type_info.freeze(Row(b=1, a="x"))


def test_stored_values_share_nothing_with_what_was_given():
    """Changing what was frozen does not change what is stored."""
    for type_info, value, change in [
        (Types.LIST(Types.LIST(LONG)), [[1]], lambda v: v[0].append(2)),
        (Types.MAP(STRING, Types.LIST(LONG)), {"a": [1]}, lambda v: v["a"].append(2)),
        (Types.TUPLE([Types.LIST(LONG)]), ([1],), lambda v: v[0].append(2)),
        (Types.ROW([PICKLED]), ([1],), lambda v: v[0].append(2)),
        (PICKLED, {"a": [1]}, lambda v: v["a"].append(2)),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"a"), lambda v: v.append(1)),
    ]:
        stored = type_info.freeze(value)
        before = type_info.thaw(stored)
        change(value)
        assert before == type_info.thaw(stored)


def test_what_was_read_is_the_callers_own():
    """Changing what thaw gave does not change what is stored."""
    for type_info, value, change in [
        (Types.LIST(Types.LIST(LONG)), [[1]], lambda v: v[0].append(2)),
        (Types.MAP(STRING, LONG), {"a": 1}, lambda v: v.update(b=2)),
        (Types.ROW_NAMED(["a"], [Types.LIST(LONG)]), Row(a=[1]), lambda v: v.a.append(2)),
        (PICKLED, [1], lambda v: v.append(2)),
    ]:
        stored = type_info.freeze(value)
        change(type_info.thaw(stored))
        assert value == type_info.thaw(stored)


def test_a_stored_row_cannot_be_renamed():
    """The row that thaw hands out as it is keeps its names."""
    type_info = Types.ROW([LONG])
    row = type_info.thaw(type_info.freeze((1,)))
    with pytest.raises(ValueError, match="keeps its names"):
        row.set_field_names(["a"])


def test_pickled_keys_differ_as_their_pickles_do():
    """1, 1.0 and True are three keys; str, int and bytes stay as they are."""
    keys = [1, 1.0, True, "1", b"1", (1,), (1.0,), (True,)]
    stored = [PICKLED.freeze_key(key) for key in keys]
    assert len(keys) == len(set(stored))
    assert [int, Pickled, Pickled, str, bytes] == [type(key) for key in stored[:5]]
    assert _same(keys, [PICKLED.thaw_key(key) for key in stored])


def test_a_pickle_is_not_the_same_bytes_of_the_user():
    """A key of bytes that happens to be the pickle of another key is another key."""
    key = PICKLED.freeze_key(True)
    assert key != bytes(key)
    assert bytes(key) != key
    assert 2 == len({key, PICKLED.freeze_key(bytes(key))})


def test_pickled_keys_do_not_depend_on_identity():
    """Equal keys are one key whether or not their parts are one object."""
    part = "".join(["a", "b"])
    assert PICKLED.freeze_key((part, part)) == PICKLED.freeze_key((part, "".join(["a", "b"])))


def test_pickled_keys_may_hold_themselves():
    """A key that holds itself is pickled in the ordinary way."""
    key: list[object] = []
    key.append(key)
    assert isinstance(PICKLED.freeze_key(key), Pickled)


def test_decimals_of_another_scale_are_other_keys():
    """1.0 and 1.00 differ, as in Java, and keep their scale."""
    type_info = Types.BIG_DEC()
    assert type_info.freeze_key(Decimal("1.0")) != type_info.freeze_key(Decimal("1.00"))
    assert "1.00" == str(type_info.thaw(type_info.freeze(Decimal("1.00"))))


def test_maps_as_keys_do_not_depend_on_order():
    """Equal dicts are one key; as values they keep their order."""
    type_info = Types.MAP(STRING, LONG)
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert type_info.freeze_key(one) == type_info.freeze_key(other)
    assert ["b", "a"] == list(type_info.thaw(type_info.freeze(other)))


def test_rebuilding_runs_no_pickle():
    """A pickle comes back from its column unopened, harmful or not."""
    harmful = Pickled(b"\x80\x05cbuiltins\nexit\n)R.")
    assert [harmful] == PICKLED.from_arrow(PICKLED.to_arrow([harmful]))


@pytest.mark.parametrize(
    ("type_info", "expected"),
    [
        (Types.INT(), "Integer"),
        (STRING, "String"),
        (LONG, "Long"),
        (Types.BYTE(), "Byte"),
        (Types.SHORT(), "Short"),
        (Types.FLOAT(), "Float"),
        (DOUBLE, "Double"),
        (Types.BOOLEAN(), "Boolean"),
        (Types.CHAR(), "Character"),
        (Types.BIG_INT(), "BigInteger"),
        (Types.BIG_DEC(), "BigDecimal"),
        (Types.INSTANT(), "Instant"),
        (Types.SQL_DATE(), "DateTypeInfo"),
        (Types.SQL_TIME(), "TimeTypeInfo"),
        (Types.SQL_TIMESTAMP(), "TimestampTypeInfo"),
        (PICKLED, "PickledByteArrayTypeInfo"),
        (Types.LIST(Types.INT()), "ListTypeInfo<Integer>"),
        (Types.MAP(Types.INT(), STRING), "MapTypeInfo<Integer, String>"),
        (Types.ROW([Types.INT()]), "RowTypeInfo(Integer)"),
        (Types.ROW_NAMED(["a"], [Types.INT()]), "RowTypeInfo(a: Integer)"),
        (Types.TUPLE([Types.INT(), LONG]), "TupleTypeInfo(Integer, Long)"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "PrimitiveArrayTypeInfo<Byte>"),
        (Types.PRIMITIVE_ARRAY(LONG), "PrimitiveArrayTypeInfo<Long>"),
        (Types.BASIC_ARRAY(STRING), "BasicArrayTypeInfo<String>"),
        (Types.OBJECT_ARRAY(STRING), "ObjectArrayTypeInfo<String>"),
    ],
)
def test_reprs_are_pyflinks(type_info, expected):
    """A type prints as PyFlink's does."""
    assert expected == repr(type_info)


def test_types_differ_by_structure_and_names():
    """Kind, parts and field names all tell types apart, in equality and signature."""
    types = [
        LONG,
        Types.INT(),
        STRING,
        Types.CHAR(),
        DOUBLE,
        Types.FLOAT(),
        Types.LIST(LONG),
        Types.LIST(Types.INT()),
        Types.BASIC_ARRAY(LONG),
        Types.OBJECT_ARRAY(LONG),
        Types.PRIMITIVE_ARRAY(LONG),
        Types.MAP(LONG, STRING),
        Types.MAP(STRING, LONG),
        Types.TUPLE([LONG]),
        Types.ROW([LONG]),
        Types.ROW_NAMED(["a"], [LONG]),
        Types.ROW_NAMED(["b"], [LONG]),
        Types.ROW_NAMED(["a: Long, b"], [LONG]),
        Types.ROW_NAMED(["a", "b"], [LONG, LONG]),
    ]
    assert len(types) == len(set(types)) == len({t.signature for t in types})
    assert Types.LIST(Types.LONG()) == Types.LIST(Types.LONG())


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Types.LIST(int),
        lambda: Types.LIST(Types.LONG),
        lambda: Types.MAP(LONG, None),
        lambda: Types.TUPLE([LONG, "x"]),
        lambda: Types.ROW(LONG),
        lambda: Types.ROW_NAMED([1], [LONG]),
        lambda: Types.ROW_NAMED("a", [LONG]),
        lambda: Types.PRIMITIVE_ARRAY(STRING),
        lambda: Types.BASIC_ARRAY(Types.LIST(LONG)),
        lambda: Types.OBJECT_ARRAY("x"),
        lambda: Instant(1.0, 0),
    ],
)
def test_wrong_kinds_are_refused_when_declared(declare):
    """Whatever is no TypeInformation is a DeclarationTypeError, which is a TypeError."""
    with pytest.raises(DeclarationTypeError):
        declare()


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Types.ROW_NAMED(["a"], [LONG, LONG]),
        lambda: Types.ROW_NAMED(["a", "a"], [LONG, LONG]),
        lambda: Instant(0, 1_000_000_000),
        lambda: Instant(2**63, 0),
    ],
)
def test_wrong_values_are_refused_when_declared(declare):
    """Names that are too few or not distinct are a DeclarationValueError, a ValueError."""
    with pytest.raises(DeclarationValueError):
        declare()


@given(st.integers(-(2**50), 2**50))
def test_instants_convert_to_ms_and_back(millis):
    """Epoch ms survive an Instant, before 1970 as well, and keep their order."""
    instant = Instant.of_epoch_milli(millis)
    assert millis == instant.to_epoch_milli()
    assert instant < Instant.of_epoch_milli(millis + 1)
